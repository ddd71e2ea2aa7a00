"""The open step of a rollout, from its audience and record alone.

A step is over when everybody of it who can be texted was, its `hold` has passed since the last of these
texts, and all its launches were reconciled after that. Then its guards are judged, once, on everybody texted
so far; unless one is broken, the next step opens. Messages that come after others do not count here.

An open step stays open as long as nine tenths of the people before it had their text when it began: a few
new rows of the audience do not close it, but another seed, or a doubled audience, begins anew.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from runner.audience.renumbering import list_forms
from runner.campaign.variants import SHARES, draw_shares
from runner.document import Count, Part
from runner.ledger.model import on_occasion
from runner.ledger.people.suppressions import ROLLOUT
from runner.ledger.report_model import AppliedStep
from runner.plan.guards import is_above
from runner.source.quantity import write_duration, write_share
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.audience.audience import Recipient
    from runner.campaign.model import Campaign, Guard, Rollout
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.people.history import EarlierLaunch
    from runner.ledger.people.rollout import RolloutRecord
    from runner.plan.decisions import Decision

_STAYS_OPEN = Fraction(9, 10)
_EVENTS = {"opt_outs": ("person", "people", "opted out"), "rejected": ("text", "texts", "refused")}

State = Literal["sending", "unresolved", "holding", "unread", "broken", "paused", "last"]


class JudgedGuard(Part, frozen=True):
    """A guard's figures in the open step.

    Attributes:
        name: the guard.
        limit: the highest share, as a fraction of 1.
        count: people to whom it happened.
        people: people texted so far, or tried.
        is_broken: whether the share is above the limit by more than chance, as it is now; it is judged once
            the step is over.
    """

    name: Literal["opt_outs", "rejected"]
    limit: Fraction
    count: Count
    people: Count
    is_broken: bool

    def describe(self) -> str:
        """Return its figures in words."""
        share = write_share(round(Fraction(self.count, max(1, self.people)), 3))
        return f"{self.count:,} {self.base} ({share}; limit {write_share(self.limit)})"

    @property
    def base(self) -> str:
        """The people that its share is of, in words."""
        one, many, happened = _EVENTS[self.name]
        return f"of {count_words(self.people, one, many)} {happened}"


class OpenStep(AppliedStep, frozen=True, kw_only=True):
    """The step of a rollout that is open: nobody outside of it is texted.

    Attributes:
        number: of the step, from 1.
        steps: how many there are.
        share: of the audience that is in it, as a fraction of 1.
        people: of the audience in it, texted or not.
        texted: people of it who have their text; in the last step, of the steps before it.
        texted_before: people of the steps before it who have their text.
        waiting: people of it who are to be texted before it is over; 0 in the last step.
        state: what the next step waits for: texts (`sending`), unknown outcomes (`unresolved`), the `hold`
            (`holding`), a reconcile after it (`unread`), or a person, since a guard is broken (`broken`;
            `paused` once that is on record). The `last` step waits for nothing.
        next_share: the share that opens next; None in the last step.
        hold_s: seconds from the last text to the end of the step; None in the last step.
        opens_at: the end of the hold, UTC; None if it is not known yet.
        guards: with the figures so far; in the last step, those of the steps before it.
        wave: the wave of the campaign; empty if it has none.
    """

    texted: Count
    waiting: Count
    state: State
    next_share: Fraction | None = None
    hold_s: Count | None = None
    opens_at: datetime | None = None
    guards: tuple[JudgedGuard, ...] = ()
    wave: str = ""
    texted_before: Count = 0

    @property
    def title(self) -> str:
        """The beginning of the reason of its pause."""
        wave = f", wave {self.wave}" if self.wave else ""
        return f"{ROLLOUT}{self.number} ({write_share(self.share)}{wave}): "

    @property
    def reason(self) -> str:
        """The reason to pause the campaign: the figures of its broken guards."""
        return self.title + "; ".join(one.describe() for one in self.guards if one.is_broken)

    def is_accepted(self, reason: str) -> bool:
        """Return whether a person who has ended a pause for a reason knew of its broken guards.

        Figures of a step that has more people by now are others.
        """
        broken = [one for one in self.guards if one.is_broken]
        return reason.startswith(self.title) and all(f" {one.base}" in reason for one in broken)

    def admits(self, draw: int) -> bool:
        """Return whether somebody, by their draw, is in it."""
        return draw < int(self.share * SHARES)

    def describe(self, name: str) -> str:
        """Return the step and what the next one waits for, in words; `name` is the campaign's."""
        people = count_words(self.people, "person", "people")
        step = f"step {self.number} of {self.steps} ({write_share(self.share)}, {people})"
        if self.next_share is None:
            return f"{step}: the last one"
        opens, then = f"{step}: opens {write_share(self.next_share)}", "after `runner reconcile`"
        if self.state in ("broken", "paused"):
            figures = [one.describe() for one in self.guards if one.is_broken]
            pauses = "`runner apply` pauses the campaign" if self.state == "broken" else ""
            next_step = pauses or f"`runner resume {name}` accepts the figures, and goes on"
            return f"{step}: stopped, {'; '.join([*figures, next_step])}"
        if self.state == "unresolved":
            return f"{opens} once it is known who was texted: `runner resolve`"
        if self.state == "sending" or self.opens_at is None:
            hold = write_duration(timedelta(seconds=self.hold_s or 0)) or "at once"
            left = count_words(self.waiting, "person is", "people are")
            return f"{opens} {hold} after the last text, {then}; {left} still to be texted"
        if self.state == "holding":
            return f"{opens} at {self.opens_at:%Y-%m-%d %H:%M} UTC {then}"
        return f"{opens} {then}: its hold is over"


@dataclass(frozen=True, slots=True)
class _Tally:
    """People of a step, or of all up to it.

    `later` people wait for an open survey or the frequency cap: they hold a step up if nobody has a text.
    `last` is the time of their last text, and `read` that as of which all their answers are known: None if
    there are no texts, or some were never read.
    """

    people: int = 0
    waiting: int = 0
    later: int = 0
    unclear: int = 0
    texted: int = 0
    refused: int = 0
    opted_out: int = 0
    last: datetime | None = None
    read: datetime | None = None
    unread: int = 0

    def add(self, other: _Tally) -> _Tally:
        """Return the sums of both."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMS}
        last = max(filter(None, (self.last, other.last)), default=None)
        return _Tally(**sums, last=last, read=min(filter(None, (self.read, other.read)), default=None))

    def judge(self, guard: Guard) -> JudgedGuard:
        """Return a guard's figures."""
        is_opting = guard.name == "opt_outs"
        count = self.opted_out if is_opting else self.refused
        people = self.texted if is_opting else self.texted + self.refused
        return JudgedGuard(guard.name, guard.limit, count, people, is_above(count, people, guard.limit))


_SUMS = ("people", "waiting", "later", "unclear", "texted", "refused", "opted_out", "unread")


class StepSurvey:
    """A survey of an audience, person by person, that finds the open step of its rollout.

    Args:
        roots: the places of messages that come after no other.
        key: of the recorded fingerprints; None if there are none.
    """

    def __init__(
        self, campaign: Campaign, rollout: Rollout, record: RolloutRecord, key: TargetKey | None
    ) -> None:
        self._rollout, self._record, self._key, self._occasion = rollout, record, key, campaign.wave
        self._roots = {
            index: message.id for index, message in enumerate(campaign.messages) if message.after is None
        }
        self._tallies = [_Tally() for _ in rollout.steps]
        self._bounds = [int(step.share * SHARES) for step in rollout.steps]
        # When each person of a step got the first text; by it the step began.
        self._firsts = [array("d") for _ in rollout.steps]
        self._unclear = set[int]()
        self._counted = set[str]()
        self.draw: Callable[[str], int] = draw_shares(rollout.seed, "rollout")

    def is_of_last(self, recipient: Recipient) -> bool:
        """Return whether a person is of no step but the last, or of none; nobody decides on these."""
        number = self._find_step(recipient.phone)
        if number is not None and number < len(self._bounds) - 1:
            return False
        if number is not None:
            tally = self._tallies[number]
            self._tallies[number] = replace(tally, people=tally.people + 1)
            self._note_first(number, self._find_texts(recipient.phone))
        return True

    def _note_first(self, number: int, texts: Sequence[EarlierLaunch]) -> None:
        if texts:
            self._firsts[number].append(min(one.sent_at for one in texts).timestamp())

    def _find_step(self, phone: str) -> int | None:
        draw = self.draw(phone)
        return next((number for number, bound in enumerate(self._bounds) if draw < bound), None)

    def _list_people(self, phone: str) -> list[str]:
        return [] if self._key is None else [self._key.fingerprint(form) for form in list_forms(phone)]

    def _find_texts(self, phone: str) -> list[EarlierLaunch]:
        found = [on_occasion(person, self._occasion) for person in self._list_people(phone)]
        messages = self._record.messages.values()
        return [one.launches[key] for one in messages for key in found if key in one.launches]

    def add(self, recipient: Recipient, decisions: Sequence[Decision]) -> None:
        """Count a person of a step before the last, with what they get if their step is open."""
        number = self._find_step(recipient.phone)
        if number is None:
            return
        people = self._list_people(recipient.phone)
        texts = self._find_texts(recipient.phone)
        is_refused = any(on_occasion(one, self._occasion) in self._record.refused for one in people)
        ways = {one.disposition for one in decisions if one.message in self._roots}
        is_waiting = "deferred" in ways or ("to_send" in ways and not is_refused)
        sent, opted_out = [one.sent_at for one in texts], self._record.opted_out
        left = [datetime.fromisoformat(opted_out[one]) for one in people if one in opted_out]
        since = any(at >= min(sent) for at in left) if sent else False
        replied = {self._record.perhaps[one] for one in people if one in self._record.perhaps} - self._counted
        if replied and texts and not since:
            self._counted |= replied
            since = True
        read = [one.reconciled_at for one in texts if one.reconciled_at is not None]
        own = _Tally(
            people=1,
            waiting=is_waiting,
            later=not is_waiting and not ways.isdisjoint(("open_session", "capped")),
            unclear="unresolved" in ways,
            texted=bool(texts),
            refused=is_refused and not texts,
            opted_out=since,
            last=max(sent, default=None),
            read=min(read, default=None),
            unread=len(texts) > len(read),
        )
        self._tallies[number] = self._tallies[number].add(own)
        self._note_first(number, texts)
        if own.unclear:
            self._unclear.add(number)

    def find_step(self, now: datetime, paused_for: str) -> OpenStep:
        """Return the open step at a moment; `paused_for` is the reason of a pause on record, if any."""
        sums = list(accumulate(self._tallies, _Tally.add))
        for number, tally in enumerate(sums[:-1]):
            texted = self._count_before(number + 1)
            is_kept = texted is not None and texted >= _STAYS_OPEN * (tally.texted + tally.waiting)
            found = self._describe(number, sums, now)
            is_accepted = found.state == "broken" and found.is_accepted(self._record.accepted)
            is_passed = found.state == "last" or is_accepted
            if is_kept or is_passed:
                continue
            return found.replace(state="paused") if paused_for.startswith(found.title) else found
        return self._describe(len(sums) - 1, sums, now)

    def _count_before(self, number: int) -> int | None:
        """Return the people of earlier steps who were texted when a step began; None if it has not begun."""
        if not self._firsts[number]:
            return sum(map(len, self._firsts[:number])) if number in self._unclear else None
        begun = min(self._firsts[number])
        return sum(first <= begun for firsts in self._firsts[:number] for first in firsts)

    def _describe(self, number: int, sums: Sequence[_Tally], now: datetime) -> OpenStep:
        """Return a step with its state; `last` if nothing keeps it from being over."""
        tally = sums[number]
        step, is_last = self._rollout.steps[number], number + 1 == len(self._rollout.steps)
        hold = step.hold or timedelta()
        opens_at = None if tally.last is None else (tally.last + hold).astimezone(UTC)
        waiting = tally.waiting or (tally.later if tally.last is None else 0)
        guards = tuple(tally.judge(guard) for guard in self._rollout.guards)
        state: State = "last"
        if is_last:
            opens_at = None
        elif waiting:
            state, opens_at = "sending", None
        elif tally.unclear:
            state, opens_at = "unresolved", None
        elif opens_at is not None and now < opens_at:
            state = "holding"
        elif opens_at is not None and (tally.unread or tally.read is None or tally.read < opens_at):
            state = "unread"
        elif any(guard.is_broken for guard in guards):
            state = "broken"
        return OpenStep(
            number=number + 1,
            steps=len(self._rollout.steps),
            share=step.share,
            people=tally.people,
            texted=tally.texted,
            waiting=waiting,
            state=state,
            next_share=None if is_last else self._rollout.steps[number + 1].share,
            hold_s=None if is_last else int(hold.total_seconds()),
            opens_at=opens_at,
            guards=guards,
            wave=self._occasion,
            texted_before=sums[number - 1].texted if number else 0,
        )
