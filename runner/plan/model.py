"""Plans as values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from runner.campaign.model import Campaign, Message
    from runner.ledger.people.replies import UnreadReplies
    from runner.ledger.people.suppressions import Pause
    from runner.text.payload import Payload
    from runner.timing.decision import Due

Disposition = Literal[
    "excluded",
    "already_sent",
    "unresolved",
    "opted_out",
    "opt_out_doubtful",
    "held_out",
    "no_consent",
    "awaiting",
    "not_qualified",
    "timezone_unknown",
    "no_rule",
    "expired",
    "deferred",
    "open_session",
    "capped",
    "on_hold",
    "over_limit",
    "to_send",
]
"""The outcomes of decisions, in order of precedence."""
Cause = tuple[str, tuple[str, ...]]
"""A recipient's disposition, with all reasons and remarks."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of a plan.

    Attributes:
        only: the one message to send; None for all.
        limit: the most recipients to send to now; None for all.
        recipients_per_send: the target's limit; None if it has none.
        ignore_time: treat every moment as the right one, and every follow-up as due: for previews and tests.
        keeps_people: keep the phones texted now, for later campaigns of the run.
    """

    only: str | None = None
    limit: int | None = None
    recipients_per_send: int | None = None
    ignore_time: bool = False
    keeps_people: bool = False


class CostlyCharacter(NamedTuple):
    """The cost of a character outside GSM-7.

    Attributes:
        recipients: those whose texts are UCS-2 because of it.
        segments: SMS segments of their whole conversations.
        segments_without: the same, with plain substitutes wherever GSM-7 has them.
    """

    recipients: int
    segments: int
    segments_without: int


class Span(NamedTuple):
    """A range of counts.

    The least is sure if nobody opts out, edits or pauses anything, no other campaign texts the same people,
    and runs go on in time. The most comes if everybody answers in the way that brings the most.
    """

    least: int
    most: int


NOBODY = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Coming:
    """People who may get a message later, for one reason; for a follow-up, all with an earliest time or none.

    Attributes:
        why: their disposition now.
        first: the earliest time; None if unknown.
        last: the last due time; None if unknown.
        launches: the launches that they take, in any number of runs.
        segments: SMS segments; None if a text is unknown. At most, all questions are asked once.
        renders: at most, all questions are answered validly at once.
        arms: the most recipients by arm of an experiment's message.
    """

    why: str
    first: datetime | None
    last: datetime | None
    recipients: Span
    launches: Span
    segments: Span | None
    renders: Span
    arms: dict[str, int]


@dataclass(slots=True)
class MessagePlan:
    """One message's counts; every row of the audience is counted once.

    Attributes:
        rows: `duplicates` + `invalid` + `recipients`.
        invalid: rows that are left out because they cannot be read.
        landlines: rows with a number that surely gets no texts, where the policy warns of them.
        blanked: cells for texts that hold a program's word for nothing.
        recipients: the sum of the dispositions.
        opt_out_doubtful: recipients whose opt-out a person must confirm or reject.
        held_out: the experiment's holdout.
        no_consent: recipients without the consent on record that the policy requires.
        awaiting: recipients of a follow-up who lack the message before it, or whose answers were not read
            since the wait was over.
        not_qualified: recipients outside of a follow-up's `to`.
        timezone_unknown: recipients whose time zone cannot be told.
        no_rule: recipients in places without known legal hours, where the policy keeps them out.
        expired: recipients whose next time to be texted is after the campaign's `expires`.
        open_session: recipients with an open survey, behind which the message would queue.
        capped: recipients at the frequency cap.
        deferred: recipients to be texted at another time (`due`).
        on_hold: recipients held only by the campaign's pause.
        forecast: recipients who may get it later: deferred, held or capped, or waiting for a follow-up.
        launches: launches for the recipients `to_send`.
        segments: SMS segments to send now.
        segments_min: these, less what may queue at the service.
        segments_max: SMS segments if every question is asked once.
        queueing: recipients `to_send` whose message may queue at the service.
        renders_min: renders if nobody answers, and nothing that queues ever leaves.
        renders_max: renders if everybody answers every question validly at once.
        coming: later messages, by the reasons for the delay.
        costly_characters: the cost of each character outside GSM-7 for recipients `to_send`; the first of
            each conversation counts.
        largest: recipients now or later, by the segments of the largest of their texts, so that a limit does
            not stop a follow-up after its first message.
        arms: recipients `to_send` by arm of an experiment's message.
        due: deferred recipients by due time.
        reasons: reasons and remarks in words, with numbers of recipients; some have several.
        causes: recipients by their disposition and all their reasons, so that each is counted once.
    """

    id: str
    tag: str
    rows: int = 0
    duplicates: int = 0
    invalid: int = 0
    landlines: int = 0
    blanked: int = 0
    recipients: int = 0
    excluded: int = 0
    opted_out: int = 0
    opt_out_doubtful: int = 0
    held_out: int = 0
    already_sent: int = 0
    unresolved: int = 0
    no_consent: int = 0
    awaiting: int = 0
    not_qualified: int = 0
    timezone_unknown: int = 0
    no_rule: int = 0
    expired: int = 0
    open_session: int = 0
    capped: int = 0
    deferred: int = 0
    on_hold: int = 0
    over_limit: int = 0
    to_send: int = 0
    forecast: int = 0
    launches: int = 0
    segments: int = 0
    segments_min: int = 0
    segments_max: int = 0
    queueing: int = 0
    renders_min: int = 0
    renders_max: int = 0
    costly_characters: dict[str, CostlyCharacter] = field(default_factory=dict)
    largest: dict[int, int] = field(default_factory=dict)
    arms: dict[str, int] = field(default_factory=dict)
    due: dict[Due, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    causes: dict[Cause, int] = field(default_factory=dict)
    coming: tuple[Coming, ...] = ()

    @property
    def next_due(self) -> datetime | None:
        """The earliest due time of deferred recipients, in UTC; None if there are none."""
        return min((moment for moment, _ in self.due), default=None)

    @property
    def pending(self) -> int:
        """The number of recipients who get it now, or may later."""
        return self.to_send + self.forecast

    @property
    def reach(self) -> int:
        """The number of recipients who have it, get it now, or may later."""
        return self.already_sent + self.pending

    @property
    def pending_by_arm(self) -> Counter[str]:
        """The recipients who get an experiment's message now, or may later, by arm."""
        return sum((Counter(one.arms) for one in self.coming), Counter(self.arms))

    @property
    def most_segments(self) -> int | None:
        """SMS segments of the largest text that is sent now or later; None if no text is known."""
        return max(self.largest, default=None)


def _wait_for(message: MessagePlan, reason: str) -> dict[Cause, int]:
    """Return a message's causes after its texts of now wait for a reason."""
    causes: Counter[Cause] = Counter()
    for (disposition, reasons), count in message.causes.items():
        if disposition == "to_send":
            causes["deferred", (reason, *reasons)] += count
        else:
            causes[disposition, reasons] += count
    remarked = sum(count for (disposition, _), count in message.causes.items() if disposition == "to_send")
    causes["deferred", (reason,)] += message.to_send - remarked
    return dict(+causes)


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """One launch: a payload and the phones that get it.

    Attributes:
        message: the message, as its arm sends it.
        payload: the rendered message.
        phones: E.164, in the order of the audience.
        until: the end of the time to send it, in UTC; None if there is none.
    """

    message: Message
    payload: Payload
    phones: tuple[str, ...]
    arm: str | None = None
    until: datetime | None = None


class Offer(NamedTuple):
    """A message that a recipient would get."""

    message: Message
    payload: Payload
    arm: str | None


@dataclass(frozen=True, slots=True)
class PartFile:
    """The file of one partition's launches: the URL of a folder, and the path below it."""

    folder: str
    file: str


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """The plan of one campaign.

    Attributes:
        recipients_to_send: people who get at least one message now.
        recipients_later: people who get nothing now and something later: surely, and at most.
        digest: of all deliveries, 128 bits in hexadecimal: plans with equal digests send the same.
        refusals: broken safety limits, in words.
        pause: a person's request to pause the campaign; None if there is none.
        unread: overdue unread replies that texts wait for; None if there are none.
        parts: the files of its launches by partition; empty if none were written.
    """

    campaign: Campaign
    target: str
    messages: tuple[MessagePlan, ...]
    recipients_to_send: int
    digest: str
    refusals: tuple[str, ...]
    pause: Pause | None = None
    recipients_later: Span = NOBODY
    unread: UnreadReplies | None = None
    parts: tuple[PartFile, ...] = field(default=(), compare=False)

    @property
    def texts_later(self) -> Span:
        """Deliveries that may come later, of all messages."""
        spans = [one.recipients for message in self.messages for one in message.coming]
        return Span(sum(one.least for one in spans), sum(one.most for one in spans))

    @property
    def waiting_for_replies(self) -> int:
        """The number of deliveries that wait until replies are read."""
        if self.unread is None:
            return 0
        return sum(message.reasons.get(self.unread.reason, 0) for message in self.messages)

    def wait_for(self, unread: UnreadReplies) -> CampaignPlan:
        """Return the plan with all texts of now deferred until replies are read."""
        messages = tuple(
            replace(
                message,
                deferred=message.deferred + message.to_send,
                to_send=0,
                launches=0,
                # Some may wait already: a plan can be made while replies are overdue.
                reasons=Counter(message.reasons) + Counter({unread.reason: message.to_send}),
                causes=_wait_for(message, unread.reason),
            )
            for message in self.messages
        )
        return replace(self, messages=messages, recipients_to_send=0, unread=unread)

    @property
    def on_hold(self) -> int:
        """The number of deliveries that wait because the campaign is paused."""
        return sum(message.on_hold for message in self.messages)

    @property
    def next_due(self) -> datetime | None:
        """The earliest due time of deferred recipients, in UTC; None if there are none."""
        moments = (message.next_due for message in self.messages)
        return min((moment for moment in moments if moment is not None), default=None)
