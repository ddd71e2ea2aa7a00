"""Decisions on single messages, the outlook on later ones, and the rule against queueing.

The outlook is sure if nobody opts out, edits or pauses anything, no other campaign texts the same people, and
runs go on in time.

A message to somebody with an open survey queues at the service until the survey ends, and cannot be called
back: it may leave at night, after `expires`, or after an opt-out. So campaigns wait instead, unless
`policy.open_session` says otherwise.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from runner.reasons import REASONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runner.audience.audience import Recipient
    from runner.campaign.message_model import Message
    from runner.campaign.model import Campaign
    from runner.ledger.fingerprint import OpenSession
    from runner.reasons import Disposition
    from runner.text.payload import CompiledMessage, Payload
    from runner.timing.decision import Due
    from runner.timing.schedule import FrequencyCap

    FindSession = Callable[[str], OpenSession | None]

LATER = frozenset(name for name, reason in REASONS.items() if reason.lasts in ("undecided", "meanwhile"))
"""Dispositions that may turn into a message later, independent of other messages."""
_MEANWHILE = frozenset(name for name, reason in REASONS.items() if reason.lasts == "meanwhile")
_COMES = LATER | {"already_sent", "to_send"}


class Follow(NamedTuple):
    """The condition of a follow-up.

    Attributes:
        earlier: the place of the message that it comes after; an unused place if that is not planned.
        wait: the least time between the two.
    """

    earlier: int
    wait: timedelta


class Decision(NamedTuple):
    """A decision on one message for one recipient.

    Attributes:
        message: its place among the planned messages.
        payload: the content to send now.
        until: the end of the time to send it.
        due: the time when it will be sent.
        reasons: reasons against sending now, or remarks.
        largest: segments of the largest text to send later; else 0.
        was_due: whether a saved plan sends it, though it is no longer due: it keeps its place, so that nobody
            outside of the plan moves up.
        is_hopeless: whether the earlier message that it waits for never comes, or no message that was sent
            can still bring the answer that it goes by.
        is_left: whether a limit leaves it, or the message before it, for another plan.
        coming: the content that may come later; None if none or unknown.
        is_sure: whether it is sure to come later (see the module's docstring).
        may_queue: whether it may queue at the service behind an open survey.
        earliest: the moment before which a waiting follow-up does not go; None if unknown.
        occasion: of the delivery; empty if the message goes once.
        further: the contents for the person's other dates that are still to come; None for an unknown one.
        caps: the most messages to the person that laws of their place allow.
    """

    message: int
    disposition: Disposition
    payload: Payload | None = None
    arm: str | None = None
    until: datetime | None = None
    due: Due | None = None
    reasons: tuple[str, ...] = ()
    largest: int = 0
    was_due: bool = False
    is_hopeless: bool = False
    coming: Payload | None = None
    is_sure: bool = False
    may_queue: bool = False
    is_left: bool = False
    earliest: datetime | None = None
    occasion: str = ""
    further: tuple[Payload | None, ...] = ()
    caps: tuple[FrequencyCap, ...] = ()

    @property
    def comes_later(self) -> bool:
        """True if the recipient may get the message later, as far as is known."""
        if self.disposition == "awaiting":
            return not self.is_hopeless
        # Somebody without an answer may still answer; somebody who has answered gets no reminder.
        return self.disposition in LATER or (self.disposition == "not_qualified" and self.coming is not None)

    @property
    def counts(self) -> bool:
        """True if the plan sends the message."""
        return self.payload is not None or self.was_due

    def hold(self, disposition: Disposition, *reasons: str) -> Decision:
        """Return the decision to hold the message, if the plan sends it."""
        if not self.counts:
            return self
        payload = self.payload
        # A limit of segments also stops what certain reasons defer.
        largest = payload.largest if payload is not None and reasons else 0
        return Decision(
            self.message,
            disposition,
            arm=self.arm,
            reasons=reasons,
            largest=largest,
            coming=payload,
            is_left=disposition == "over_limit",
            occasion=self.occasion,
            further=self.further,
        )

    def give_up(self, disposition: Disposition) -> Decision:
        """Return the decision that a message which goes now or later does not go at all."""
        is_over = self.counts or self.comes_later
        return Decision(self.message, disposition, arm=self.arm, occasion=self.occasion) if is_over else self


Assigned = tuple["Recipient", list[Decision]]
"""A recipient and the decisions on them, in the order of the messages."""


NEVER = datetime.max.replace(tzinfo=UTC)
"""The earliest moment of what has no time left."""


def mark_follow_ups(
    found: list[Decision],
    follows: Mapping[int, Follow],
    now: datetime | None,
    find_opening: Callable[[int, datetime], datetime],
) -> list[Decision]:
    """Return the decisions with the outlook of waiting follow-ups.

    That is their earliest moment, and whether they never come, or a limit leaves them. `find_opening` returns
    the first time from a moment on at which a message, by its place, may go; NEVER if none is left.
    """
    chain = _Chain({assignment.message: assignment for assignment in found}, follows, now, find_opening)
    return [
        chain.mark(assignment) if assignment.disposition == "awaiting" else assignment for assignment in found
    ]


class _Chain(NamedTuple):
    """The decisions on one recipient by message, and the follow-ups among them."""

    decisions: Mapping[int, Decision]
    follows: Mapping[int, Follow]
    now: datetime | None
    find_opening: Callable[[int, datetime], datetime]

    def mark(self, assignment: Decision) -> Decision:
        earliest = self.find_earliest(assignment)
        return assignment._replace(
            is_hopeless=earliest == NEVER or not self.may_come(assignment),
            is_left=self.is_left(assignment),
            earliest=None if earliest == NEVER else earliest,
        )

    def may_come(self, assignment: Decision | None) -> bool:
        if assignment is None:  # not among the messages that are planned: nothing is known of it
            return True
        follow = self.follows.get(assignment.message)
        if assignment.disposition == "awaiting":
            return follow is None or self.may_come(self.decisions.get(follow.earlier))
        if assignment.disposition == "not_qualified":
            return assignment.coming is not None
        return assignment.disposition in _COMES or assignment.was_due

    def is_left(self, assignment: Decision | None) -> bool:
        if assignment is None or assignment.disposition != "awaiting":
            return assignment is not None and assignment.is_left
        return self.is_left(self.decisions.get(self.follows[assignment.message].earlier))

    def find_earliest(self, assignment: Decision | None) -> datetime | None:
        if assignment is None:
            return None
        if assignment.disposition == "awaiting":
            moment = assignment.earliest
            if moment is None:
                follow = self.follows[assignment.message]
                before = self.find_earliest(self.decisions.get(follow.earlier))
                if before is None or before == NEVER:
                    return before
                moment = before + follow.wait
            return self.find_opening(assignment.message, moment)
        if assignment.due is not None:
            return round_up(assignment.due[0])
        return self.now if assignment.counts or assignment.disposition in _MEANWHILE else None


_MINUTE = timedelta(seconds=59, microseconds=999_999)


def round_up(moment: datetime) -> datetime:
    """Return the first full minute that is not before a moment."""
    return (moment + _MINUTE).replace(second=0, microsecond=0)


_REACHED = frozenset(("to_send", "already_sent"))


class Outlook:
    """A marker of messages that are sure to come later.

    Args:
        compiled: its planned messages.
        find_session: returns a phone's open survey, if any.
    """

    def __init__(
        self, campaign: Campaign, compiled: Sequence[CompiledMessage], find_session: FindSession | None
    ) -> None:
        self._messages = [one.message for one in compiled]
        self._asks = [any(message.questions for message in one.sent) for one in compiled]
        waits = campaign.policy.open_session == "wait"
        self._waits = [waits and not all(m.complete_existing_sessions for m in one.sent) for one in compiled]
        places = {message.id: place for place, message in enumerate(self._messages)}
        self._earlier = [places.get(one.after.message, -1) if one.after else None for one in self._messages]
        self._has_follow_ups = any(earlier is not None for earlier in self._earlier)
        self._may_expire = campaign.schedule.expires is not None
        self._find_session = find_session
        self._known: dict[tuple[bool, tuple[object, ...]], tuple[bool, ...]] = {}

    def mark(self, found: list[Decision], phone: str) -> list[Decision]:
        """Return the decisions on one recipient (E.164) with sure messages marked: they are under no cap."""
        states: tuple[object, ...] = tuple([one.disposition for one in found])
        if "deferred" not in states and "awaiting" not in states:
            return found
        if self._has_follow_ups:
            states = (*states, *[one.comes_later for one in found])
        is_asked = self._find_session is not None and self._find_session(phone) is not None
        marks = self._known.get((is_asked, states))
        if marks is None:
            marks = self._known[is_asked, states] = self._find_sure(found, is_asked=is_asked)
        return [one._replace(is_sure=True) if mark else one for one, mark in zip(found, marks, strict=True)]

    def _find_sure(self, found: Sequence[Decision], *, is_asked: bool) -> tuple[bool, ...]:
        def is_sure(place: int) -> bool:
            comes = self._comes(found, place, is_sure)
            return comes and not self._is_behind(found, place, is_asked=is_asked)

        return tuple(is_sure(place) for place in range(len(found)))

    def _comes(self, found: Sequence[Decision], place: int, is_sure: Callable[[int], bool]) -> bool:
        """Return whether times and answers let a message come."""
        one, message = found[place], self._messages[place]
        if one.disposition == "deferred":
            return message.to in ("everyone", "answered")
        earlier = self._earlier[place]
        if one.disposition != "awaiting" or earlier is None or earlier < 0 or self._may_expire:
            return False
        before = found[earlier]
        is_of_all = message.to == "everyone" and message.method == self._messages[earlier].method
        return is_of_all and (before.payload is not None or is_sure(earlier))

    def _is_behind(self, found: Sequence[Decision], place: int, *, is_asked: bool) -> bool:
        """Return whether a survey may be open by then, which could block a message for ever."""
        if not self._waits[place]:
            return False
        return is_asked or any(
            self._asks[other] and (one.comes_later or one.disposition in _REACHED)
            for other, one in enumerate(found)
            if other != place and not self._comes_after(other, place)
        )

    def _comes_after(self, place: int, other: int) -> bool:
        """Return whether a message follows another one, directly or through other follow-ups."""
        earlier = self._earlier[place]
        return (
            earlier is not None and earlier >= 0 and (earlier == other or self._comes_after(earlier, other))
        )


ENDS = "they lose a survey that they have not ended: this goes with `complete_existing_sessions: true`"
"""The remark on recipients whose open survey a message ends."""
QUEUES = (
    "`open_session: queue`: this waits at the service until an open survey of theirs has ended, and leaves "
    "then, at any hour, after `expires`, after an opt-out: nothing can call it back"
)
"""The remark on recipients whose message queues."""
SAME_RUN = "another message goes to them in this run, and one of the two is a survey: a later run sends"
"""The reason to hold back the second message of a run."""
IN_ORDER = "an earlier message of the campaign waits for a later run, and this one comes after it"
"""The reason to hold back the messages after it."""


class QueueRule:
    """The rule on messages that would queue; `find_session` returns a phone's open survey, if any."""

    def __init__(self, campaign: Campaign, find_session: FindSession | None) -> None:
        self._names = {campaign.name, *campaign.renamed_from}
        self._lets_queue = campaign.policy.open_session == "queue"
        self._find_session = find_session

    def keep_apart(
        self, found: list[Decision], phone: str, find_message: Callable[[Decision], Message]
    ) -> list[Decision]:
        """Return the decisions on one recipient (E.164) with messages deferred that would queue.

        If one of several messages to a person in a run is a survey, the first goes alone: even plain texts
        queue behind a survey. Messages after a deferred one wait with it, so that the file's order is kept.
        `find_message` returns the message of a decision, as it is sent.
        """
        if not any(assignment.counts for assignment in found):
            return found
        session = self._find_session(phone) if self._find_session is not None else None
        kept: list[Decision] = []
        sent: list[Message] = []
        for assignment in found:
            if assignment.counts:
                message = find_message(assignment)
                is_next = session is not None or all(one.disposition != "open_session" for one in kept)
                kept.append(
                    self._resolve(assignment, message, session, sent)
                    if is_next
                    else assignment.hold("open_session", IN_ORDER)
                )
                sent += [message] if kept[-1].counts else []
            else:
                kept.append(assignment)
        return kept

    def _resolve(
        self, assignment: Decision, message: Message, session: OpenSession | None, sent: list[Message]
    ) -> Decision:
        meets = bool(sent) and any(one.questions for one in (*sent, message))
        if session is None and not meets:
            return assignment
        if message.complete_existing_sessions:
            # Such a follow-up is meant to end the survey before it.
            is_meant = message.after is not None and (session is None or session.campaign in self._names)
            return assignment if is_meant else _remark(assignment, ENDS)
        if self._lets_queue:
            return _remark(assignment, QUEUES)._replace(may_queue=True)
        return assignment.hold("open_session", SAME_RUN if session is None else _explain(session))


def may_meet(compiled: Sequence[CompiledMessage]) -> bool:
    """Return whether one run may send somebody a survey and another message."""
    return len(compiled) > 1 and any(message.questions for one in compiled for message in one.sent)


def _remark(assignment: Decision, remark: str) -> Decision:
    return assignment._replace(reasons=(*assignment.reasons, remark))


def _explain(session: OpenSession) -> str:
    if session.state == "planned":
        return f"`{session.campaign}` sends them a survey in this run: this waits until that has ended"
    if session.state == "read":
        return (
            f"they have an open survey of `{session.campaign}`, as last read: this goes out once `runner "
            "reconcile` finds that it has ended; `open_session` in `policy` can end it instead"
        )
    return (
        f"`{session.campaign}` has sent them a survey, and whether it has ended was not read yet: run "
        "`runner reconcile` first"
    )
