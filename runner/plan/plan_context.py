"""The context of a plan besides the campaign's files and record, and the people texted by earlier plans."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runner.audience.audience import ConsentDays
from runner.ledger.fingerprint import FingerprintSet, OpenSession
from runner.plan.decisions import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from runner.campaign.model import Campaign
    from runner.ledger.fingerprint import KnownPeople
    from runner.ledger.model import Run
    from runner.ledger.people.history import EarlierMessage
    from runner.ledger.people.opt_outs import Barred
    from runner.ledger.people.replies import UnreadReplies
    from runner.ledger.people.rollout import RolloutRecord
    from runner.ledger.people.suppressions import Pause
    from runner.plan.decisions import Assigned
    from runner.plan.rollout import OpenStep
    from runner.text.payload import CompiledMessage
    from runner.timing.legal_hours import LawBook


@dataclass(frozen=True, slots=True)
class PlanContext:
    """The context at the moment of planning.

    Attributes:
        now: the moment, any aware time; None for any time, at which nothing waits.
        suppressions: opt-outs on the target; None if there are none.
        earlier: recipients of messages that have follow-ups, by message id.
        sessions: open surveys on the target, as last read; None if there are none.
        recent: messages sent on the target within the time of each cap.
        planned: people texted by earlier campaigns of the same run.
        planned_at: the moment of a saved plan: people who were not to be texted then are not texted now.
        law: the legal sending hours; None if the campaign does not apply them.
        pause: a person's request to pause the campaign; None if there is none.
        unread: unread replies on the target; None if there are none.
        sampled_below: the bound for draws of people in the sample who were not texted yet; None to draw none.
        sampled: people in the sample, by fingerprint, since they were texted, or may have been.
        step: the open step of the rollout; None without one.
        rollout: the record that the open step is found by; None without a rollout.
        completed: people who have answered to the end; None without `limits.completes`.
        waves: people texted by wave, the earliest wave first; empty without waves on record.
        opted_out: people on record who have opted out; None if the record is not read.
        last_run: the last one that sent the campaign and whose audience is on record; None if there is none.
        pruned_at: when the answers of its wave were pruned: UTC, ISO 8601; None if they were not.
        was_sent: whether somebody on record was texted by the campaign, in whatever run.
    """

    now: datetime | None = None
    suppressions: KnownPeople[Barred] | None = None
    earlier: Mapping[str, EarlierMessage] = field(default_factory=dict)
    sessions: KnownPeople[OpenSession] | None = None
    recent: Mapping[timedelta, KnownPeople[str]] = field(default_factory=dict)
    planned: Sequence[TextedPeople] = ()
    planned_at: datetime | None = None
    law: LawBook | None = None
    pause: Pause | None = None
    unread: UnreadReplies | None = None
    waves: Mapping[str, int] = field(default_factory=dict)
    sampled_below: int | None = None
    sampled: FingerprintSet = field(default_factory=FingerprintSet)
    step: OpenStep | None = None
    completed: int | None = None
    rollout: RolloutRecord | None = None
    opted_out: int | None = None
    last_run: Run | None = None
    pruned_at: str | None = None
    was_sent: bool = False

    @property
    def due_by(self) -> datetime:
        """The moment by which follow-ups are due, that of a saved plan if it is one."""
        return self.planned_at or self.now or NEVER

    def leave_out_time(self) -> PlanContext:
        """Return the context for any time: no pause, step, unread reply or `wait` holds anything back."""
        return replace(self, now=None, pause=None, unread=None, rollout=None, step=None, sampled_below=None)

    @property
    def has_sessions(self) -> bool:
        """True if somebody has an open survey, or will before the campaign is sent."""
        return self.sessions is not None or any(one.asks_anybody for one in self.planned)

    def find_session(self, phone: str) -> OpenSession | None:
        """Return a phone's survey that is open, or will be before the campaign is sent; else None."""
        found = self.sessions.find(phone) if self.sessions is not None else None
        if found is not None:
            return found
        number = int(phone[1:])
        asking = next((one.campaign for one in self.planned if one.asks(number)), None)
        return None if asking is None else OpenSession(asking, "planned")

    def count_recent(self, phone: str, within: timedelta) -> int:
        """Return the number of messages to a phone (E.164) that count for a cap of some time."""
        number = int(phone[1:])
        sent = self.recent[within].count(phone) if within in self.recent else 0
        return sent + sum(one.count(number) for one in self.planned)


class TextedPeople:
    """The people texted now by one campaign's plan, in 8 bytes a message.

    Args:
        texted: phones as numbers, each once a message.
        asked: the phones that get a survey.
    """

    __slots__ = ("_asked", "_texted", "campaign")

    def __init__(self, campaign: str, texted: Iterable[int], asked: Iterable[int]) -> None:
        self.campaign = campaign
        self._texted = array("Q", sorted(texted))
        self._asked = array("Q", sorted(asked))

    @property
    def asks_anybody(self) -> bool:
        """True if somebody gets a survey."""
        return bool(self._asked)

    def count(self, number: int) -> int:
        """Return the number of messages to a phone."""
        return bisect_right(self._texted, number) - bisect_left(self._texted, number)

    def asks(self, number: int) -> bool:
        """Return whether a phone gets a survey."""
        place = bisect_left(self._asked, number)
        return place < len(self._asked) and self._asked[place] == number


class TextedTally:
    """A collector of the people who get something now in a pass."""

    def __init__(self, compiled: Sequence[CompiledMessage]) -> None:
        self._asking = {
            (index, arm)
            for index, compiled_message in enumerate(compiled)
            for arm, renderer in compiled_message.renderers.items()
            if renderer.message.questions
        }
        self._texted = array("Q")
        self._asked = array("Q")

    def watch(self, assigned: Iterable[Assigned]) -> Iterator[Assigned]:
        """Yield what a pass yields, and keep people who get something now."""
        for pair in assigned:
            recipient, assignments = pair
            for assignment in assignments:
                if assignment.payload is not None:
                    number = int(recipient.phone[1:])
                    self._texted.append(number)
                    if (assignment.message, assignment.arm) in self._asking:
                        self._asked.append(number)
            yield pair

    def finish(self, campaign: str) -> TextedPeople:
        """Return the kept people under a campaign's name."""
        return TextedPeople(campaign, self._texted, self._asked)


def concerns(campaign: Campaign, later: Iterable[Campaign]) -> bool:
    """Return whether plans of later campaigns of the run depend on the people that a campaign texts."""
    asks = bool(campaign.list_surveys())
    policies = [each.policy for each in later]
    return any(asks or one.frequency_cap is not None or one.quiet_hours == "legal" for one in policies)


def find_consent_days(campaign: Campaign, now: datetime | None) -> ConsentDays | None:
    """Return the days of consent that count; None if consent is not required, or for any time."""
    if now is None or campaign.policy.consent != "required":
        return None
    return ConsentDays.of(now, campaign.schedule.timezone)


def find_overdue(
    campaign: Campaign, unread: UnreadReplies | None, now: datetime | None
) -> UnreadReplies | None:
    """Return the overdue unread replies that a campaign's texts wait for; None if there are none."""
    if unread is None or now is None:
        return None
    return unread if unread.is_overdue(now, campaign.policy.read_replies_within) else None
