"""Plans as values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from runner.campaign.model import Campaign, Message
    from runner.campaign.payload import Payload
    from runner.ledger.suppressions import Pause
    from runner.ledger.unread_replies import UnreadReplies
    from runner.timing.histogram import Due

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
"""Why a recipient gets a message now, or doesn't; the first that holds, in this order."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What the user asks of a plan.

    Attributes:
        only: the one message to send; None for all.
        limit: the most recipients to send to now; None for all.
        recipients_per_send: the target's limit; None if it has none.
        ignore_time: plan as if it were always the time to send, and every follow-up due: for what is only
            looked at, or sent to oneself.
        keeps_people: keep who gets something now, for campaigns that come after.
    """

    only: str | None = None
    limit: int | None = None
    recipients_per_send: int | None = None
    ignore_time: bool = False
    keeps_people: bool = False


class CostlyCharacter(NamedTuple):
    """What a character outside GSM-7 costs.

    Attributes:
        recipients: those whose texts are UCS-2 because of it.
        segments: SMS segments of their whole conversations.
        segments_without: the same, with everything replaced that GSM-7 can say in another way.
    """

    recipients: int
    segments: int
    segments_without: int


class Span(NamedTuple):
    """The least and the most of something.

    Least is what comes if nobody opts out, nobody edits or pauses anything, no other campaign texts these
    people, and runs go on in time. Most is what comes if everybody answers in the way that brings the most.
    """

    least: int
    most: int


NOBODY = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Coming:
    """People who may get a message later, for one reason.

    Attributes:
        why: their disposition now.
        first: not before this moment; None if that is not known.
        last: when the last of them is due; None if that is not known.
        recipients: how many get it.
        launches: sends that these take, in however many runs.
        segments: SMS segments; None if a text is not known. The most is all questions asked once.
        renders: the most is all questions answered validly at once.
        arms: of an experiment's message, the most recipients by arm.
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
    """One message's counts (contract, "JSON output"); every row of the audience is counted once.

    Attributes:
        rows: rows of the audience: `duplicates` + `invalid` + `recipients`.
        invalid: rows that are left out because they cannot be read.
        recipients: the sum of the dispositions.
        opt_out_doubtful: recipients of whom a person must say whether they opted out.
        held_out: the experiment's holdout.
        no_consent: recipients without the consent on record that the policy requires.
        awaiting: of a follow-up, those who have not got the message that it comes after, or whose answers
            were not read since the wait was over.
        not_qualified: of a follow-up, those whom its `to` does not mean.
        timezone_unknown: recipients whose time zone, and so the time to text them, cannot be told.
        no_rule: recipients of places whose legal hours are not known, where the policy keeps them out.
        expired: recipients whose next moment to be texted comes after the campaign's `expires`.
        open_session: recipients who have an open survey, behind which the message would queue.
        capped: recipients who have been texted as often as the frequency cap allows.
        deferred: recipients who are to be texted at another time: `due` says when.
        on_hold: recipients who would be texted now, were the campaign not paused.
        forecast: recipients who don't get it now and may later: deferred, held or capped ones, and of a
            follow-up those who wait for it or may still qualify.
        launches: sends that the recipients `to_send` take.
        segments: SMS segments to send now.
        segments_min: of these, less what may wait at the service.
        segments_max: SMS segments of what is sent now, if every question is asked once.
        queueing: recipients of what is sent now to whom it may wait at the service.
        renders_min: renders if nobody answers, and nothing that queues ever leaves.
        renders_max: renders if everybody answers every question validly at once.
        coming: what comes later, by the reasons for which it does not come now.
        costly_characters: of the recipients `to_send`, what each character outside GSM-7 costs; where there
            are several in one conversation, the first.
        largest: recipients to send to, now or later, by the segments of the largest of their texts: a limit
            must not stop a follow-up that its first message was sent for.
        arms: of an experiment's message, the recipients `to_send` by arm.
        due: the deferred recipients by when they are due.
        reasons: in words, with how many recipients each holds back, or should make one think about.
    """

    id: str
    tag: str
    rows: int = 0
    duplicates: int = 0
    invalid: int = 0
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
    coming: tuple[Coming, ...] = ()

    @property
    def next_due(self) -> datetime | None:
        """When the first of the deferred recipients is due, in UTC; None if there are none."""
        return min((moment for moment, _ in self.due), default=None)

    @property
    def pending(self) -> int:
        """Recipients who get it now, or may later."""
        return self.to_send + self.forecast

    @property
    def reach(self) -> int:
        """Recipients who have it, get it now, or may later: nobody else ever gets it by this plan."""
        return self.already_sent + self.pending

    @property
    def most_segments(self) -> int | None:
        """SMS segments of the largest text that is sent now or later; None if no text is known."""
        return max(self.largest, default=None)


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """One send: a payload and the phones that get exactly it.

    Attributes:
        message: the message; an experiment's, as its arm sends it.
        payload: the rendered message.
        phones: E.164, in the order of the audience.
        arm: the experiment's arm, if the message has several.
        until: from this moment on, in UTC, it is not the time to send it any more; None if it always is.
    """

    message: Message
    payload: Payload
    phones: tuple[str, ...]
    arm: str | None = None
    until: datetime | None = None


class Offer(NamedTuple):
    """What a recipient would get of one message."""

    message: Message
    payload: Payload
    arm: str | None


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """What `apply` would send of one campaign.

    Attributes:
        campaign: the campaign.
        target: the target's name.
        messages: the counts.
        recipients_to_send: people who get at least one message now.
        recipients_later: people who get nothing now, and may get something later: surely, and at most.
        digest: of who gets what: 128 bits in hexadecimal. Two plans with one digest send the same.
        refusals: the safety limits that the plan breaks, in words.
        pause: a person's word that the campaign is to wait; None if there is none.
        unread: replies on the target that texts wait for until they are read; None if none are overdue.
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

    @property
    def texts_later(self) -> Span:
        """Deliveries that may come later, of all messages."""
        spans = [one.recipients for message in self.messages for one in message.coming]
        return Span(sum(one.least for one in spans), sum(one.most for one in spans))

    @property
    def waiting_for_replies(self) -> int:
        """How many deliveries wait until replies are read."""
        if self.unread is None:
            return 0
        return sum(message.reasons.get(self.unread.reason, 0) for message in self.messages)

    def wait_for(self, unread: UnreadReplies) -> CampaignPlan:
        """Return the plan with everybody deferred whom it would text now, until replies are read."""
        messages = tuple(
            replace(
                message,
                deferred=message.deferred + message.to_send,
                to_send=0,
                launches=0,
                reasons={**message.reasons, unread.reason: message.to_send},
            )
            for message in self.messages
        )
        return replace(self, messages=messages, recipients_to_send=0, unread=unread)

    @property
    def on_hold(self) -> int:
        """How many deliveries wait because the campaign is paused."""
        return sum(message.on_hold for message in self.messages)

    @property
    def next_due(self) -> datetime | None:
        """When the first of the deferred recipients is due, in UTC; None if there are none."""
        moments = (message.next_due for message in self.messages)
        return min((moment for moment in moments if moment is not None), default=None)
