"""Differences between sent messages and the messages that the same recipients would get now.

The audience is read once, and old texts are read only where digests differ. Recipients are counted by the
change, whatever the names in their texts: "Hi" to "Hello" is one change. Memory grows by one number for each
different change; texts are kept of the first of them.
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
from runner.plan.documents import PlanDifference, TextChange, TextPart
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
_COUNTED = ("unchanged", "changed", "not_in_ledger", "failing", "new")


def compare_with_sent(
    campaign: Campaign,
    compiled: Sequence[CompiledMessage],
    known: RecordedDeliveries,
    key: TargetKey | None,
    sent: SentTexts,
    read_definitions: ReadDefinitions,
    most: int | None = None,
) -> dict[str, PlanDifference]:
    """Compare the texts that recipients got with those that they would get now, by message.

    The audience must be valid. `read_definitions` returns launches' definitions by number, and is called for
    some hundreds at a time. With `most` the comparison ends with so many recipients of each message.
    """
    comparisons = [
        _Comparison(
            one,
            known.sent.get(one.message.id, set()),
            known.unresolved.get(one.message.id, set()),
            sent.launches.get(one.message.id, {}),
            sent.digests,
            read_definitions,
        )
        for one in compiled
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
    return {one.compiled_message.message.id: one.finish() for one in comparisons}


@dataclass(slots=True)
class _Comparison:
    """A comparison of one message.

    `counts` are fields of `PlanDifference`. Changes are counted by their key; one person's texts of each are
    kept, of as many as come first, with whether the texts of others with the same change differ from theirs.
    """

    compiled_message: CompiledMessage
    texted: set[str]
    unresolved: set[str]
    launches: Mapping[str, int]
    digests: Mapping[int, str]
    read_definitions: ReadDefinitions
    listed: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    changes: Counter[int] = field(default_factory=Counter)
    examples: dict[int, tuple[WordingChange, bool]] = field(default_factory=dict)
    memo: dict[tuple[int, str], int] = field(default_factory=dict)
    waiting: list[tuple[int, Payload]] = field(default_factory=list)

    def take(self, recipient: Recipient, fingerprint: str, arm: str | None, *, is_barred: bool) -> None:
        if fingerprint in self.texted:
            self.listed += 1
            renderer = self.compiled_message.renderers[arm if self.compiled_message.has_arms else None]
            self._compare(recipient, renderer, self.launches.get(fingerprint))
        elif not is_barred and fingerprint not in self.unresolved:
            self.counts["new"] += 1

    def _compare(self, recipient: Recipient, renderer: MessageRenderer, launch: int | None) -> None:
        if launch is None:
            self.counts["not_in_ledger"] += 1
            return
        try:
            payload = renderer.render(recipient.vars)
        except (MissingVariablesError, TemplateProblemError):
            self.counts["failing"] += 1
            return
        if payload.digest == self.digests[launch]:
            self.counts["unchanged"] += 1
            return
        self.counts["changed"] += 1
        self.waiting.append((launch, payload))
        if len(self.waiting) == _BATCH:
            self._compare_waiting()

    def _compare_waiting(self) -> None:
        wanted = {launch for launch, _ in self.waiting if launch > 0}
        definitions = self.read_definitions(wanted) if wanted else {}
        for launch, payload in self.waiting:
            if (definition := definitions.get(launch)) is not None:
                pair = (launch, payload.digest)
                if pair not in self.memo:
                    if len(self.memo) >= _MEMO_SIZE:
                        self.memo.clear()
                    self.memo[pair] = self._enter(definition, payload)
                self.changes[self.memo[pair]] += 1
        self.waiting.clear()

    def _enter(self, definition: dict[str, Any], payload: Payload) -> int:
        """Keep a change as an example, if it is a new one; return its key."""
        found = compare_wordings(word_definition(definition), word_definition(payload.definition))
        if found.key in self.examples:
            example, varies = self.examples[found.key]
            self.examples[found.key] = example, varies or example != found
        elif len(self.examples) < _KEPT_EXAMPLES:
            self.examples[found.key] = found, False
        return found.key

    def finish(self) -> PlanDifference:
        self._compare_waiting()
        most = sorted(self.examples.items(), key=lambda item: -self.changes[item[0]])[:SHOWN_CHANGES]
        groups = tuple(
            TextChange(
                self.changes[change],
                varies,
                tuple(TextPart(*one) for one in example.old),
                tuple(TextPart(*one) for one in example.new),
            )
            for change, (example, varies) in most
        )
        return PlanDifference(
            **{
                name: self.counts[name]
                for name in ("unchanged", "changed", "not_in_ledger", "failing", "new")
            },
            gone=len(self.texted) - self.listed,
            groups=groups,
            more_groups=len(self.changes) - len(groups),
            more_recipients=self.counts["changed"] - sum(group.recipients for group in groups),
        )
