"""Differences between sent messages and the messages that the same recipients would get now.

The audience is read once, and old texts are read only where digests differ. Recipients are counted by the
change, whatever the names in their texts: "Hi" to "Hello" is one change. Memory grows by one number for each
different change; texts are kept only of changes that may be among the most frequent.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from runner.audience.audience import AudienceTally, iterate_audience, read_excluded
from runner.campaign.variants import Draw
from runner.source.diagnostic import Problems
from runner.text.template import MissingVariablesError, TemplateProblemError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from runner.audience.audience import Recipient
    from runner.campaign.model import Campaign
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.model import RecordedDeliveries
    from runner.ledger.record.deliveries import SentTexts
    from runner.text.payload import CompiledMessage, MessageRenderer, Payload

    ReadDefinitions = Callable[[Collection[int]], Mapping[int, dict[str, Any]]]

Wording = tuple[tuple[str, str], ...]
"""A message in words: its parts' names and texts."""

_MOST_PAIRS = 200_000
"""The most pairs of equal words to match. Time grows faster than their number: texts of a thousand words stay
far below, while one word repeated a thousand times would take minutes.
"""
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class WordingChange:
    """The difference between two definitions.

    Attributes:
        key: 60 bits, equal for changes that replace the same words in the same parts, in any context.
        old: the old parts that differ.
        new: the new ones.
    """

    key: int
    old: Wording
    new: Wording


def word_definition(definition: dict[str, Any]) -> Wording:
    """Return the parts of a definition (the send body less `phone`) in words."""
    return tuple(_iterate_parts(definition))


def _iterate_parts(definition: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in definition.items():
        if name == "questions":
            for question in value:
                yield from _iterate_question(question)
        else:
            yield name, value if isinstance(value, str) else str(value).lower()


def _iterate_question(question: dict[str, Any]) -> Iterator[tuple[str, str]]:
    name = f"question {question['tag']}"
    yield name, question["text"]
    if "responses" in question:
        yield f"{name}, responses", "\n".join(question["responses"])
    if "conclude_on" in question:
        yield f"{name}, conclude_on", question["conclude_on"]


def compare_wordings(old: Wording, new: Wording) -> WordingChange:
    """Return the difference between two wordings."""
    before, after = dict(old), dict(new)
    names = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
    if not names:
        # Only the order of the parts differs.
        return WordingChange(_hash_change([(name, "") for name in after]), old, new)
    said = [(name, repr(list(_replace_words(before.get(name), after.get(name))))) for name in names]
    return WordingChange(
        _hash_change(said),
        tuple((name, before[name]) for name in names if name in before),
        tuple((name, after[name]) for name in names if name in after),
    )


def _replace_words(old: str | None, new: str | None) -> Iterator[tuple[str | None, str | None]]:
    if old is None or new is None:
        yield old, new
        return
    before, after = _TOKEN.findall(old), _TOKEN.findall(new)
    times = Counter(after)
    if sum(times[word] for word in before) > _MOST_PAIRS:
        yield old, new
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind != "equal":
            yield "".join(before[start:end]), "".join(after[new_start:new_end])


def _hash_change(said: list[tuple[str, str]]) -> int:
    # A number of 60 bits, as in a plan's groups: there may be a million, and it is the smallest integer of
    # two digits.
    digest = hashlib.blake2b(repr(said).encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 4


SHOWN_CHANGES = 10
_BATCH = 500
_MEMO_SIZE = 1024
_KEPT_EXAMPLES = 1000


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Recipients whose texts have changed in the same way.

    Attributes:
        recipients: their number.
        old: the differing parts that one of them got.
        new: the same parts now.
        is_example: whether other recipients' texts differ from these.
    """

    recipients: int
    old: Wording
    new: Wording
    is_example: bool


@dataclass(slots=True)
class MessageDifference:
    """The difference between one message and its sent versions, with each recorded recipient counted once.

    Attributes:
        unchanged: recipients who would get the same again.
        changed: recipients who would get something else.
        lost: recipients who would get something else, but whose old text is not in the ledger.
        unreadable: recipients whose record says only that they got something.
        failing: recipients whose text can no longer be rendered.
        gone: recipients who are no longer in the audience.
        new: people in the audience without a recorded text, less excluded and those in the control group.
        groups: the most frequent changes.
        more_groups: the number of other changes.
        more_recipients: their recipients.
    """

    message: str
    unchanged: int = 0
    changed: int = 0
    lost: int = 0
    unreadable: int = 0
    failing: int = 0
    gone: int = 0
    new: int = 0
    groups: tuple[ChangeGroup, ...] = ()
    more_groups: int = 0
    more_recipients: int = 0

    @property
    def is_empty(self) -> bool:
        """True if nothing of the message was sent."""
        return not (
            self.changed or self.unchanged or self.lost or self.unreadable or self.failing or self.gone
        )


def compare_with_sent(
    campaign: Campaign,
    compiled: Sequence[CompiledMessage],
    known: RecordedDeliveries,
    key: TargetKey | None,
    sent: SentTexts,
    read_definitions: ReadDefinitions,
    most: int | None = None,
) -> list[MessageDifference]:
    """Compare the texts that recipients got with those that they would get now; the audience must be valid.

    `read_definitions` returns launches' definitions by number, and is called for some hundreds at a time.
    With `most` the comparison ends with so many recipients of each message.
    """
    comparisons = [
        _Comparison(
            compiled_message,
            known.sent.get(compiled_message.message.id, set()),
            known.unresolved.get(compiled_message.message.id, set()),
            sent.launches.get(compiled_message.message.id, {}),
            sent.digests,
            read_definitions,
        )
        for compiled_message in compiled
    ]
    draw = None if campaign.variants is None else Draw(campaign.variants)
    names = frozenset[str]().union(*(compiled_message.names for compiled_message in compiled))
    excluded = read_excluded(campaign, Problems())
    for recipient in iterate_audience(campaign, names, Problems(), AudienceTally()):
        phone = recipient.phone
        fingerprint = key.fingerprint(phone) if key is not None else ""
        arm = None if draw is None else draw.choose_arm(phone)
        is_barred = phone in excluded or (draw is not None and draw.is_in_control_group(phone))
        for comparison in comparisons:
            comparison.take(recipient, fingerprint, arm.id if arm is not None else None, is_barred=is_barred)
        if most is not None and all(one.listed >= min(most, len(one.texted)) for one in comparisons):
            break
    return [comparison.finish() for comparison in comparisons]


@dataclass(slots=True)
class _Comparison:
    """A comparison of one message."""

    compiled_message: CompiledMessage
    texted: set[str]
    unresolved: set[str]
    launches: Mapping[str, int]
    digests: Mapping[int, str]
    read_definitions: ReadDefinitions
    found: MessageDifference = field(init=False)
    listed: int = 0
    changes: _Changes = field(init=False)
    waiting: list[tuple[int, Payload]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.found = MessageDifference(self.compiled_message.message.id)
        self.changes = _Changes()

    def take(self, recipient: Recipient, fingerprint: str, arm: str | None, *, is_barred: bool) -> None:
        if fingerprint in self.texted:
            self.listed += 1
            renderer = self.compiled_message.renderers[arm if self.compiled_message.has_arms else None]
            self._compare(recipient, renderer, self.launches.get(fingerprint))
        elif not is_barred and fingerprint not in self.unresolved:
            self.found.new += 1

    def _compare(self, recipient: Recipient, renderer: MessageRenderer, launch: int | None) -> None:
        if launch is None:
            self.found.unreadable += 1
            return
        try:
            payload = renderer.render(recipient.vars)
        except (MissingVariablesError, TemplateProblemError):
            self.found.failing += 1
            return
        if payload.digest == self.digests[launch]:
            self.found.unchanged += 1
        else:
            self.waiting.append((launch, payload))
            if len(self.waiting) == _BATCH:
                self._compare_waiting()

    def finish(self) -> MessageDifference:
        self._compare_waiting()
        found = self.found
        found.gone = len(self.texted) - self.listed
        found.groups = tuple(self.changes.list_most(SHOWN_CHANGES))
        shown = sum(group.recipients for group in found.groups)
        found.more_groups = len(self.changes.counts) - len(found.groups)
        found.more_recipients = found.changed - shown
        return found

    def _compare_waiting(self) -> None:
        wanted = {launch for launch, _ in self.waiting if launch > 0}
        definitions = self.read_definitions(wanted) if wanted else {}
        for launch, payload in self.waiting:
            definition = definitions.get(launch)
            if definition is None:
                self.found.lost += 1
            else:
                self.found.changed += 1
                self.changes.add(launch, definition, payload)
        self.waiting.clear()


class _Changes:
    """Counts of recipients by change, with one person's texts of each change that may be frequent."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        # One person's change, and whether the texts of others with the same change differ from theirs.
        self._examples: dict[int, tuple[WordingChange, bool]] = {}
        self._memo: dict[tuple[int, str], int] = {}

    def add(self, launch: int, definition: dict[str, Any], payload: Payload) -> None:
        pair = (launch, payload.digest)
        change = self._memo.get(pair)
        if change is None:
            change = self._enter(definition, payload)
            if len(self._memo) >= _MEMO_SIZE:
                self._memo.clear()
            self._memo[pair] = change
        self.counts[change] += 1

    def _enter(self, definition: dict[str, Any], payload: Payload) -> int:
        found = compare_wordings(word_definition(definition), word_definition(payload.definition))
        change = found.key
        example, _ = self._examples.get(change, (None, False))
        if example is None:
            # Texts of a forgotten example are no longer known.
            self._examples[change] = found, self.counts[change] > 0
            if len(self._examples) > 2 * _KEPT_EXAMPLES:
                self._forget_rare()
        elif example != found:
            self._examples[change] = example, True
        return change

    def _forget_rare(self) -> None:
        # Forgotten changes are rarer than all kept ones. One that comes again brings its texts; any other
        # cannot be among the most frequent.
        kept = sorted(self._examples, key=lambda change: -self.counts[change])[:_KEPT_EXAMPLES]
        self._examples = {change: self._examples[change] for change in kept}
        # Remembered changes have to find their example again.
        self._memo.clear()

    def list_most(self, count: int) -> list[ChangeGroup]:
        ranked = sorted(self._examples.items(), key=lambda item: -self.counts[item[0]])[:count]
        return [
            ChangeGroup(self.counts[change], example.old, example.new, varies)
            for change, (example, varies) in ranked
        ]
