"""The conversations that a person should look at before a message is sent: the worst of all there will be.

The audience passes by once; what is kept of it does not grow with it. The worst are: the recipient with the
longest single text, the one whose whole conversation takes the most segments (of equal ones, the one with the
most to read in all), and, for each branch of the
templates that somebody takes and somebody doesn't, the first one who takes it, the rarest branch first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from runner.campaign.conversation import Bubble, iterate_bubbles

if TYPE_CHECKING:
    from runner.campaign.audience import Recipient
    from runner.campaign.branch import Branch, BranchTracer
    from runner.campaign.model import Message
    from runner.campaign.payload import MessageRenderer, Payload

_MEMO_SIZE = 1024

CaseKind = Literal["longest_text", "most_segments", "rarest_branch", "default_used"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a conversation is worth a look.

    Attributes:
        kind: what is extreme about it.
        count: characters, segments, or recipients who take the branch.
        branch: of a `rarest_branch` or a `default_used`, which one.
    """

    kind: CaseKind
    count: int
    branch: Branch | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one recipient gets of one message, from its first text to its last.

    Attributes:
        message: an experiment's, as its arm sends it.
        recipient: who.
        bubbles: the texts.
        arm: of an experiment's message.
        reasons: why it is shown; none if it was asked for.
    """

    message: Message
    recipient: Recipient
    bubbles: tuple[Bubble, ...]
    arm: str | None = None
    reasons: tuple[Reason, ...] = ()

    @property
    def segments(self) -> int:
        """The SMS segments of all its texts, if no question is skipped or asked again; 0 for a call."""
        return count_conversation(self.message, self.bubbles)


@dataclass(slots=True)
class CharacterCost:
    """What a character outside GSM-7 costs.

    Attributes:
        recipients: those whose conversations have it for their first such character.
        segments: SMS segments of these conversations.
        segments_without: the same, if they were written plainly.
    """

    recipients: int = 0
    segments: int = 0
    segments_without: int = 0


@dataclass(frozen=True, slots=True)
class _Measure:
    longest: int
    segments: int
    characters: int
    costly: str | None
    segments_without: int


@dataclass(slots=True)
class _Extreme:
    """The recipient with the most of something; of equal ones, the one with the most to read."""

    kind: CaseKind
    count: int = 0
    characters: int = 0
    recipient: Recipient | None = None

    def offer(self, count: int, characters: int, recipient: Recipient) -> None:
        if (count, characters) > (self.count, self.characters) and count:
            self.count, self.characters, self.recipient = count, characters, recipient


@dataclass(slots=True)
class CaseFinder:
    """Finds the worst conversations of one message, of one arm if it has several.

    Attributes:
        renderer: renders the message.
        tracer: tells its branches.
        arm: of an experiment's message.
        people: recipients seen.
        costs: what characters outside GSM-7 cost, over all the texts of the conversations.
    """

    renderer: MessageRenderer
    tracer: BranchTracer
    arm: str | None = None
    people: int = 0
    costs: dict[str, CharacterCost] = field(default_factory=dict)
    _longest: _Extreme = field(default_factory=lambda: _Extreme("longest_text"))
    _most: _Extreme = field(default_factory=lambda: _Extreme("most_segments"))
    _takers: dict[int, tuple[int, Recipient]] = field(default_factory=dict)
    _memo: dict[str, _Measure] = field(default_factory=dict)

    def take(self, recipient: Recipient) -> None:
        """Look at what one more recipient gets.

        Args:
            recipient: one whose texts can be rendered.
        """
        self.people += 1
        measure = self._measure(self.renderer.render(recipient.vars))
        self._longest.offer(measure.longest, measure.characters, recipient)
        self._most.offer(measure.segments, measure.characters, recipient)
        if measure.costly is not None:
            cost = self.costs.setdefault(measure.costly, CharacterCost())
            cost.recipients += 1
            cost.segments += measure.segments
            cost.segments_without += measure.segments_without
        for number in self.tracer.trace(recipient.vars):
            count, first = self._takers.get(number, (0, recipient))
            self._takers[number] = count + 1, first

    def _measure(self, payload: Payload) -> _Measure:
        measure = self._memo.get(payload.digest)
        if measure is None:
            if len(self._memo) >= _MEMO_SIZE:
                self._memo.clear()
            bubbles = tuple(iterate_bubbles(payload.definition))
            measure = self._memo[payload.digest] = _Measure(
                max((len(bubble.text) for bubble in bubbles), default=0),
                count_conversation(self.renderer.message, bubbles),
                sum(len(bubble.text) for bubble in bubbles),
                payload.costly,
                payload.segments_plain,
            )
        return measure

    def list_cases(self, limit: int) -> list[Conversation]:
        """Return the worst conversations, each recipient once, with all that is extreme about it.

        Args:
            limit: the most to return.
        """
        found: dict[str, tuple[Recipient, list[Reason]]] = {}
        for reason, recipient in self._iterate_reasons():
            if recipient.phone in found or len(found) < limit:
                found.setdefault(recipient.phone, (recipient, []))[1].append(reason)
        return [self.converse(recipient, tuple(reasons)) for recipient, reasons in found.values()]

    def converse(self, recipient: Recipient, reasons: tuple[Reason, ...] = ()) -> Conversation:
        """Return what a recipient gets."""
        bubbles = tuple(iterate_bubbles(self.renderer.render(recipient.vars).definition))
        return Conversation(self.renderer.message, recipient, bubbles, self.arm, reasons)

    def list_untaken(self) -> list[Branch]:
        """Return the branches that nobody takes: texts that no recipient of these will ever show."""
        branches = self.tracer.branches
        return [branch for number, branch in enumerate(branches) if number not in self._takers]

    def _iterate_reasons(self) -> list[tuple[Reason, Recipient]]:
        found = [
            (Reason(extreme.kind, extreme.count), extreme.recipient)
            for extreme in (self._most, self._longest)
            if extreme.recipient is not None
        ]
        branches = self.tracer.branches
        for number, (count, first) in sorted(self._takers.items(), key=lambda item: (item[1][0], item[0])):
            if count < self.people:
                branch = branches[number]
                kind: CaseKind = "default_used" if branch.kind == "default" else "rarest_branch"
                found.append((Reason(kind, count, branch), first))
        return found


def count_conversation(message: Message, bubbles: tuple[Bubble, ...]) -> int:
    """Return the SMS segments of a whole conversation; 0 for a call."""
    return sum(bubble.segments.segments for bubble in bubbles) if message.method == "SMS" else 0
