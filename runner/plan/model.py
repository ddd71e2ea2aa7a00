"""Plans as values."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from runner.document import Count, Part, field
from runner.timing.decision import Due
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.campaign.message_model import Message
    from runner.campaign.model import Campaign
    from runner.ledger.people.replies import UnreadReplies
    from runner.ledger.people.suppressions import Pause
    from runner.plan.limits.audience_guard import PlannedAudience
    from runner.plan.limits.cost import PlanCost
    from runner.plan.rollout import OpenStep
    from runner.source.money import Prices
    from runner.text.payload import Payload
    from runner.timing.schedule import FrequencyCap

Cause = tuple[str, tuple[str, ...]]
"""A recipient's disposition, with all reasons and remarks."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of a plan.

    Attributes:
        only: the one message to send; None for all.
        limit: the most recipients to send to now; None for all.
        recipients_per_send: the target's limit; None if it has none.
        keeps_people: keep the phones texted now, for later campaigns of the run.
        watched: phones (E.164) whose decisions the planner keeps.
        prices: of the target; None if it has none.
    """

    only: str | None = None
    limit: int | None = None
    recipients_per_send: int | None = None
    keeps_people: bool = False
    watched: frozenset[str] = frozenset()
    prices: Prices | None = None


class ListedCharacter(Part, frozen=True):
    """A character outside GSM-7.

    Attributes:
        character: the character.
        recipients: those whose texts are UCS-2 because of it.
        segments: SMS segments of their whole conversations.
        segments_without: the same, had they been written in GSM-7.
        substitute: what to write instead; empty: leave it out; None: GSM-7 has nothing like it.
    """

    character: str
    recipients: Count
    segments: Count
    segments_without: Count
    substitute: str | None


class Span(Part, frozen=True):
    """The least and the most of a count.

    The least is sure if nobody opts out, nothing is edited or paused, no other campaign texts the same
    people, and runs go on in time. The most comes if everybody answers in the way that brings the most.

    Attributes:
        least: what comes if nothing else happens.
        most: what can come.
    """

    least: Count
    most: Count


NOBODY = Span(0, 0)


def sum_spans(spans: Iterable[Span]) -> Span:
    """Return the sum of ranges."""
    found = list(spans)
    return Span(sum(one.least for one in found), sum(one.most for one in found))


class LanguageCounts(Part, frozen=True):
    """One message's people of one language.

    Attributes:
        language: as in the campaign's `languages`.
        recipients: people to send to now.
        segments: SMS segments to send now.
        segments_max: SMS segments if every question is asked once, with the conclusions.
        later: people who may get it later, of those whose text is known.
    """

    language: str
    recipients: Count = 0
    segments: Count = 0
    segments_max: Count = 0
    later: Count = 0


class Coming(Part, frozen=True):
    """People who may get a message later, for one reason; for a follow-up, all with an earliest time or none.

    Attributes:
        why: their disposition now.
        first: not before this moment, UTC; None if unknown.
        last: when the last of them is due; None if unknown.
        recipients: how many get it later.
        launches: the launches that they take, in any number of runs.
        segments: SMS segments: the most if all questions are asked once; None if a text is unknown.
        renders: the most if everybody answers everything validly at once.
        arms: of an experiment's message: the most recipients, by arm.
    """

    why: str
    first: datetime | None
    last: datetime | None
    recipients: Span
    launches: Span
    segments: Span | None
    renders: Span
    arms: dict[str, Count]


class MessageCounts(Part, frozen=True):
    """One message's counts; every row of the audience is counted once.

    Attributes:
        id: the message's id.
        tag: the project tag.
        rows: rows of the audience: `duplicates` + `invalid` + `recipients`.
        duplicates: rows whose phone was mentioned before.
        invalid: rows that are left out because they cannot be read (`invalid_rows: skip`).
        landlines: rows with a number that surely gets no texts (a landline, a pager, a personal or universal
            number), where `policy.landlines` is `warn`.
        blanked: cells of the texts' columns that hold a program's word for nothing (`#N/A`, `NULL`), read as
            blank.
        recipients: distinct phones, each counted once: the sum of `excluded` to `to_send`.
        excluded: named in `exclude`.
        already_sent: on record as sent.
        unresolved: may have been sent: held.
        opted_out: asked not to be texted.
        opt_out_doubtful: may have asked not to be texted: a person must decide.
        control_group: the experiment's holdout.
        no_consent: without the consent on record that the policy requires.
        not_sampled: not drawn for the campaign's sample.
        no_date: of a message with `when`, or a follow-up of one: the cell that it goes by is blank.
        awaiting: of a follow-up: the message before it is not sent to them, or its answers were not read
            since the wait was over.
        not_qualified: of a follow-up: not among those whom `to` means.
        missed: of a message with `when`: its time is over, or outside the hours (`outside_hours: skip`).
        timezone_unknown: when they may be texted cannot be told; `reasons` says why.
        no_rule: with legal hours: those of their place are not known; `reasons` names it.
        expired: the campaign's `expires` comes before their next hour.
        deferred: due later; `next_due` and `due` say when.
        open_session: behind an open survey of theirs this would queue at the service: it waits until that has
            ended, as last read; `reasons` says whose it is.
        capped: texted as often as the frequency cap allows.
        enough: not needed: as many people as `limits.completes` says have answered to the end.
        later_step: to be sent now, were their step of the rollout open.
        paused: to be sent now, were the campaign not paused.
        over_limit: beyond --limit: left for a later run.
        to_send: to be sent now.
        forecast: not now, but perhaps later: deferred, held, capped or behind an open survey, and of a
            follow-up those who wait for it or may still qualify.
        launches: sends that these take.
        segments: SMS segments to send now.
        segments_min: of these, less what may wait at the service behind an open survey.
        segments_max: SMS segments of what is sent now if every question is asked once, with the conclusions.
        queueing: recipients to send to now whose message may wait at the service
            (`policy.open_session: queue`).
        renders_min: renders if nobody answers, and nothing that waits at the service ever leaves. Only
            surveys that the record knows of count as open.
        renders_max: renders if everybody answers everything validly at once.
    """

    id: str
    tag: str
    rows: Count = 0
    duplicates: Count = 0
    invalid: Count = 0
    landlines: Count = 0
    blanked: Count = 0
    recipients: Count = 0
    excluded: Count = 0
    opted_out: Count = 0
    opt_out_doubtful: Count = 0
    control_group: Count = 0
    already_sent: Count = 0
    unresolved: Count = 0
    no_consent: Count = 0
    not_sampled: Count = 0
    no_date: Count = 0
    awaiting: Count = 0
    not_qualified: Count = 0
    missed: Count = 0
    timezone_unknown: Count = 0
    no_rule: Count = 0
    expired: Count = 0
    open_session: Count = 0
    capped: Count = 0
    enough: Count = 0
    later_step: Count = 0
    deferred: Count = 0
    paused: Count = 0
    over_limit: Count = 0
    to_send: Count = 0
    forecast: Count = 0
    launches: Count = 0
    segments: Count = 0
    segments_min: Count = 0
    segments_max: Count = 0
    queueing: Count = 0
    renders_min: Count = 0
    renders_max: Count = 0


class MessagePlan(MessageCounts, frozen=True):
    """One message's counts, and what lies behind them.

    Attributes:
        costly_characters: those outside GSM-7 for recipients `to_send`; the first of each conversation
            counts.
        largest: recipients now or later, by the segments of the largest of their texts, so that a limit does
            not stop a follow-up after its first message.
        arms: recipients `to_send` by arm of an experiment's message.
        languages: people by language, now and later; empty in a campaign without `languages`.
        due: deferred recipients by due time.
        causes: recipients by their disposition and all their reasons, so that each is counted once.
        coming: later messages, by the reasons for the delay.
        unsaid: people whose text, which may be their first, does not say `policy.sender`.
    """

    costly_characters: tuple[ListedCharacter, ...] = ()
    largest: dict[int, int] = field(default_factory=dict)
    arms: dict[str, int] = field(default_factory=dict)
    languages: tuple[LanguageCounts, ...] = ()
    due: dict[Due, int] = field(default_factory=dict)
    causes: dict[Cause, int] = field(default_factory=dict)
    coming: tuple[Coming, ...] = ()
    unsaid: Count = 0

    @property
    def reasons(self) -> Counter[str]:
        """Reasons and remarks in words, with numbers of recipients; some have several."""
        found = Counter[str]()
        for (_, own), count in self.causes.items():
            found.update(dict.fromkeys(own, count))
        return found

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
    def most_segments(self) -> int | None:
        """SMS segments of the largest text that is sent now or later; None if no text is known."""
        return max(self.largest, default=None)


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """One launch: a payload and the phones that get it.

    Attributes:
        message: the message, as its arm sends it.
        payload: the rendered message.
        phones: E.164, in the order of the audience.
        until: the end of the time to send it, in UTC; None if there is none.
        occasion: of the deliveries; empty if the message goes once.
        caps: the most messages to each of them that laws of their place allow.
    """

    message: Message
    payload: Payload
    phones: tuple[str, ...]
    arm: str | None = None
    until: datetime | None = None
    occasion: str = ""
    caps: tuple[FrequencyCap, ...] = ()


class Offer(NamedTuple):
    """A message that a recipient would get, not before its `earliest` moment, if it goes by a date."""

    message: Message
    payload: Payload
    arm: str | None
    occasion: str = ""
    earliest: datetime | None = None


class PlannedWave(Part, frozen=True):
    """The wave of a plan.

    Attributes:
        name: as the campaign has it; empty if it has none any more.
        is_new: whether nobody was texted in it yet: everybody may be texted again.
        before: the wave before it; empty for texts from before there were waves, None if there were none.
        texted_before: people who were texted in that wave, or may have been; None if there was none.
        later: a wave that began after this one did, or is it in other letters; None if there is none.
    """

    name: str
    is_new: bool
    before: str | None
    texted_before: Count | None
    later: str | None

    @classmethod
    def of(cls, name: str, waves: Mapping[str, int]) -> PlannedWave | None:
        """Return a campaign's wave beside those on record, the earliest first; None without waves."""
        if not name and not waves:
            return None
        known = list(waves)
        place = known.index(name) if name and name in waves else len(known)
        before = known[place - 1] if place else None
        later = known[-1] if place < len(known) - 1 else None
        # Project tags are compared without case: another writing would be another wave on record alone.
        later = next((one for one in known if one != name and one.casefold() == name.casefold()), later)
        is_new = bool(name) and name not in waves
        return cls(name, is_new, before, None if before is None else waves[before], later)

    def describe(self) -> str:
        """Return in words that a new wave texts everybody again; empty if it is not new, or the first."""
        if not self.is_new or not self.texted_before:
            return ""
        people = count_words(self.texted_before, "person was", "people were")
        before = f"in the wave {self.before}" if self.before else "before there were waves"
        return f"Everybody again: {self.name} is a new wave, and {people} texted {before}."


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
        completed: people who have answered to the end, as last reconciled; None without `limits.completes`.
        wave: its wave; None if it has none, and never had.
        rollout: the open step; None if it has no steps, or nothing is known of them.
        cost: None if the target has no prices.
        audience: what the whole audience is like, beside the one last sent to.
        parts: the files of its launches by partition; empty if none were written.
    """

    campaign: Campaign
    target: str
    messages: tuple[MessagePlan, ...]
    recipients_to_send: int
    digest: str
    refusals: tuple[str, ...]
    audience: PlannedAudience
    pause: Pause | None = None
    recipients_later: Span = NOBODY
    unread: UnreadReplies | None = None
    wave: PlannedWave | None = None
    rollout: OpenStep | None = None
    completed: int | None = None
    cost: PlanCost | None = None
    parts: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    @property
    def texts_later(self) -> Span:
        """Deliveries that may come later, of all messages."""
        return sum_spans(one.recipients for message in self.messages for one in message.coming)

    @property
    def waiting_for_replies(self) -> int:
        """The number of deliveries that wait until replies are read."""
        if self.unread is None:
            return 0
        # Those to send now wait, too, if replies have become overdue since the plan was made.
        return sum(message.reasons[self.unread.reason] + message.to_send for message in self.messages)

    @property
    def is_stopped(self) -> bool:
        """True if a guard of its rollout is broken, and no person has accepted that."""
        return self.rollout is not None and self.rollout.state in ("broken", "paused")

    @property
    def paused(self) -> int:
        """The number of deliveries that wait because the campaign is paused."""
        return sum(message.paused for message in self.messages)

    @property
    def next_due(self) -> datetime | None:
        """The earliest due time of deferred recipients, in UTC; None if there are none."""
        moments = (message.next_due for message in self.messages)
        return min((moment for moment in moments if moment is not None), default=None)
