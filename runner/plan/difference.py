"""What has changed since a message was sent: what its recipients got against what they would get now.

Pure: the audience passes by once, and old texts are asked for only where the digest says that there is a
difference. Recipients are counted by the change, not by their texts: where everyone's "Hi" has become
"Hello", that is one change, whatever the names. Memory grows with the number of different changes, by one
number each; texts are kept of those alone that can still be among the most frequent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runner.campaign.audience import AudienceTally, iterate_audience, read_excluded
from runner.campaign.template import MissingVariablesError, TemplateProblemError
from runner.campaign.variants import Draw
from runner.plan.wording import compare_wordings, word_definition
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from runner.campaign.audience import Recipient
    from runner.campaign.model import Campaign
    from runner.campaign.payload import MessageRenderer, Payload
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.model import Known
    from runner.ledger.sent_texts import SentTexts
    from runner.plan.track import Track
    from runner.plan.wording import Change, Wording

    ReadDefinitions = Callable[[Collection[int]], Mapping[int, dict[str, Any]]]

SHOWN_CHANGES = 10
_BATCH = 500
_MEMO_SIZE = 1024
_KEPT_EXAMPLES = 1000


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Recipients whose texts have changed in the same way.

    Attributes:
        recipients: how many.
        old: what one of them got, by part of the message; only the parts that differ.
        new: what this one would get now.
        is_example: whether the others' texts are not all the same as these.
    """

    recipients: int
    old: Wording
    new: Wording
    is_example: bool


@dataclass(slots=True)
class MessageDifference:
    """How one message differs from what was sent of it. Each recipient on record is counted once.

    Attributes:
        message: its id.
        unchanged: recipients who would get the same again.
        changed: recipients who would get something else: those of the groups, and of `more_groups`.
        lost: recipients who would get something else, but what they got is not in this ledger.
        unreadable: recipients of whom it is only known that they got something.
        failing: recipients whose text can no longer be rendered.
        gone: recipients who are no longer in the audience.
        new: people in the audience who are not on record as texted; those who are excluded or held out get
            nothing and do not count.
        groups: the most frequent changes.
        more_groups: changes beside these.
        more_recipients: recipients of these.
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
        """Whether nothing of the message was sent, so that there is nothing to compare with."""
        return not (
            self.changed or self.unchanged or self.lost or self.unreadable or self.failing or self.gone
        )


def compare_with_sent(
    campaign: Campaign,
    tracks: Sequence[Track],
    known: Known,
    key: FingerprintKey | None,
    sent: SentTexts,
    read_definitions: ReadDefinitions,
) -> list[MessageDifference]:
    """Compare what the recipients of a campaign got with what they would get now.

    Args:
        campaign: one whose texts and audience have no problems.
        tracks: its messages, compiled; those that are left out are not compared.
        known: what is on record of its deliveries.
        key: of the fingerprints; None if nothing is on record.
        sent: which launches the deliveries were made by.
        read_definitions: returns what launches were sent with, by their numbers; asked for some hundreds at
            a time.
    """
    comparisons = [
        _Comparison(
            track,
            known.sent.get(track.message.id, set()),
            known.unresolved.get(track.message.id, set()),
            sent.launches.get(track.message.id, {}),
            sent.digests,
            read_definitions,
        )
        for track in tracks
    ]
    draw = None if campaign.variants is None else Draw(campaign.variants)
    names = frozenset[str]().union(*(track.names for track in tracks))
    excluded = read_excluded(campaign, Problems())
    for recipient in iterate_audience(campaign, names, Problems(), AudienceTally()):
        phone = recipient.phone
        fingerprint = key.fingerprint(campaign.name, phone) if key is not None else ""
        arm = None if draw is None else draw.choose_arm(phone)
        is_barred = phone in excluded or (draw is not None and draw.is_held_out(phone))
        for comparison in comparisons:
            comparison.take(recipient, fingerprint, arm.id if arm is not None else None, is_barred=is_barred)
    return [comparison.finish() for comparison in comparisons]


@dataclass(slots=True)
class _Comparison:
    """Compares one message."""

    track: Track
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
        self.found = MessageDifference(self.track.message.id)
        self.changes = _Changes()

    def take(self, recipient: Recipient, fingerprint: str, arm: str | None, *, is_barred: bool) -> None:
        if fingerprint in self.texted:
            self.listed += 1
            renderer = self.track.renderers[arm if self.track.has_arms else None]
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


@dataclass(slots=True)
class _Example:
    old: Wording
    new: Wording
    varies: bool


class _Changes:
    """Counts recipients by change, and keeps somebody's texts of each change that may turn out frequent."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self._examples: dict[int, _Example] = {}
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
        found: Change = compare_wordings(word_definition(definition), word_definition(payload.definition))
        change = found.key
        example = self._examples.get(change)
        if example is None:
            # Of one that was forgotten, the others' texts are not known any more.
            self._examples[change] = _Example(found.old, found.new, varies=self.counts[change] > 0)
            if len(self._examples) > 2 * _KEPT_EXAMPLES:
                self._forget_rare()
        elif (example.old, example.new) != (found.old, found.new):
            example.varies = True
        return change

    def _forget_rare(self) -> None:
        # What is forgotten is rarer than all that is kept. If it comes again, its texts do, too; else it
        # cannot be among the most frequent.
        kept = sorted(self._examples, key=lambda change: -self.counts[change])[:_KEPT_EXAMPLES]
        self._examples = {change: self._examples[change] for change in kept}
        # What is remembered has to find its example again.
        self._memo.clear()

    def list_most(self, count: int) -> list[ChangeGroup]:
        ranked = sorted(self._examples.items(), key=lambda item: -self.counts[item[0]])[:count]
        return [
            ChangeGroup(self.counts[change], example.old, example.new, example.varies)
            for change, example in ranked
        ]
