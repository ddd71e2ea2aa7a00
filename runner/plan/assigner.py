"""Decides what each recipient gets of each message: now, later, or not, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.campaign.template import MissingVariablesError, TemplateProblemError
from runner.campaign.variants import Draw
from runner.plan.assignment import Assignment, Follow
from runner.plan.outlook import Outlook
from runner.plan.queueing import QueueRule, may_meet
from runner.timing.decision import Defer, SendNow, Timekeeper

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from runner.campaign.audience import Recipient
    from runner.campaign.model import Campaign, Message
    from runner.campaign.payload import MessageRenderer, Payload
    from runner.campaign.policy import FrequencyCap
    from runner.campaign.row_problems import RowReporter
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.model import Known
    from runner.plan.circumstances import Circumstances
    from runner.plan.model import Disposition
    from runner.plan.track import Track

_WAITING = "the `wait` of the follow-up is not over"
UNREAD = "whether they have answered was not read since the `wait` was over: run `runner reconcile` first"
"""The reason for which those wait of whom nobody knows whether they have answered in time."""
UNEXPLAINED = "held: a launch that no record explains has reached them; `runner resolve` shows it"
"""The reason for which those are not texted who may have got the message from a run whose record is lost."""
DIFFERS = "whether they have answered is not certain, the service contradicts itself:"
"""How a reason begins for which those wait who may have answered, by the service's own counts."""
_WAY_PAST = (
    "`runner reconcile` looks again, `runner reconcile --accept-differences` takes what is listed for all"
)
_UNDECIDED = ("unresolved", "opt_out_doubtful")
"""Why those don't get a message who may get it when a person has decided."""
_UTC = "UTC"
_REFUSED: dict[str, Disposition] = {"expired": "expired", "no_rule": "no_rule"}


class Assigner:
    """Assigns messages to recipients, one recipient after the other.

    Args:
        campaign: the campaign.
        tracks: its messages.
        excluded: E.164 of those who never get anything.
        known: what is known of its deliveries.
        key: the key of the known fingerprints; None when nothing is known.
        circumstances: what else there is to know; None to go by the files and the record alone.
        ignore_time: take every moment for the right one.

    Attributes:
        follows: by its place among the tracks, what each follow-up goes by.
        outlook: marks what comes later for sure; None if nothing is deferred.
    """

    def __init__(
        self,
        campaign: Campaign,
        tracks: list[Track],
        excluded: frozenset[str],
        known: Known,
        key: FingerprintKey | None,
        circumstances: Circumstances | None,
        *,
        ignore_time: bool,
    ) -> None:
        self._campaign = campaign
        self._tracks = tracks
        self._excluded = excluded
        self._known = known
        self._key = key
        self._circumstances = circumstances
        self._draw = Draw(campaign.variants) if campaign.variants is not None else None
        self._must_consent = campaign.policy.consent == "required"
        self._is_timed = circumstances is not None and not ignore_time
        self._timekeepers = self._make_timekeepers()
        self._unvaried = [(index, t.renderers[None]) for index, t in enumerate(tracks) if not t.has_arms]
        self._cap: FrequencyCap | None = campaign.policy.frequency_cap if self._is_timed else None
        has_sessions = circumstances is not None and circumstances.has_sessions
        self._find_session = circumstances.find_session if circumstances and has_sessions else None
        self._queue = self._make_queue_rule()
        self.follows = _find_follows([track.message for track in tracks])
        self.outlook = Outlook(campaign, tracks, self._find_session) if self._timekeepers else None
        self._is_plain = self._sends_to_all() and len(self._unvaried) == len(tracks)

    def _sends_to_all(self) -> bool:
        """Return whether nothing has to be asked about a person but whether they are excluded."""
        circumstances = self._circumstances
        return (
            self._key is None
            and self._draw is None
            and self._cap is None
            and self._queue is None
            and not self._must_consent
            and not self._timekeepers
            and (circumstances is None or circumstances.suppressions is None)
        )

    def _make_queue_rule(self) -> QueueRule | None:
        """Return what keeps messages out of the service's queue; None if nothing can get there."""
        if not self._is_timed or (self._find_session is None and not may_meet(self._tracks)):
            return None
        return QueueRule(self._campaign, self._find_session)

    def _make_timekeepers(self) -> dict[str, Timekeeper]:
        campaign, circumstances = self._campaign, self._circumstances
        if circumstances is None or not self._is_timed:
            return {}
        is_free = campaign.schedule.is_always_open() and circumstances.law is None
        if is_free and not any(message.after for message in campaign.messages):
            return {}
        return {
            renderer.message.method: Timekeeper(
                campaign.schedule,
                timezone_unknown=campaign.policy.timezone_unknown,
                law=circumstances.law,
                method=renderer.message.method,
                purpose=campaign.policy.purpose,
                no_rule=campaign.policy.no_rule,
            )
            for track in self._tracks
            for renderer in track.renderers.values()
        }

    def assign(self, recipient: Recipient, reporter: RowReporter) -> list[Assignment]:
        """Return what a recipient gets of every message, in the order of the messages.

        Args:
            recipient: one of the audience.
            reporter: receives what is wrong with the recipient's row.
        """
        phone = recipient.phone
        if phone in self._excluded:
            return [Assignment(index, "excluded") for index in range(len(self._tracks))]
        if self._is_plain:
            return [self._render(index, None, each, recipient, reporter) for index, each in self._unvaried]
        fingerprint = self._key.fingerprint(self._campaign.name, phone) if self._key is not None else None
        barred = self._find_bar(recipient)
        found = [
            self._bar(index, track, recipient, fingerprint, barred)
            or self._assign(index, track, recipient, fingerprint, reporter)
            for index, track in enumerate(self._tracks)
        ]
        if self._queue is not None:
            found = self._queue.keep_apart(found, phone, lambda one: self._find_message(one, phone))
        return found if self._cap is None else self._keep_cap(found, phone, self._cap)

    def _bar(
        self,
        index: int,
        track: Track,
        recipient: Recipient,
        fingerprint: str | None,
        barred: Disposition | None,
    ) -> Assignment | None:
        """Return why a recipient does not get a message, whatever the time; None if they may."""
        found = self._find_record(index, track, fingerprint)
        if found is None and barred is not None:
            found = Assignment(index, barred)
        if found is None or found.disposition not in _UNDECIDED:
            return found
        arm, renderer = self._choose_renderer(track, recipient.phone)
        try:
            return found._replace(arm=arm, coming=renderer.render(recipient.vars))
        except (MissingVariablesError, TemplateProblemError):
            # A person decides whether they get it at all: until then no row is wrong.
            return found

    def offer(self, recipient: Recipient) -> Iterator[tuple[Message, Payload, str | None]]:
        """Yield what a recipient would get of every message that they are not known to have, with its arm.

        That it may not be the time, or that they may not be texted any more, makes no difference.
        """
        fingerprint = (
            self._key.fingerprint(self._campaign.name, recipient.phone) if self._key is not None else None
        )
        for index, track in enumerate(self._tracks):
            found = self._find_record(index, track, fingerprint)
            # Those who are held because of a launch may have got just what is looked for here.
            if found is None or UNEXPLAINED in found.reasons:
                arm, renderer = self._choose_renderer(track, recipient.phone)
                try:
                    yield renderer.message, renderer.render(recipient.vars), arm
                except (MissingVariablesError, TemplateProblemError):
                    continue

    def _find_record(self, index: int, track: Track, fingerprint: str | None) -> Assignment | None:
        if fingerprint is None:
            return None
        if fingerprint in self._known.forgotten:
            # First: nothing may tell any more that they were texted.
            return Assignment(index, "opted_out")
        if fingerprint in self._known.sent.get(track.message.id, ()):
            return Assignment(index, "already_sent")
        if fingerprint in self._known.unresolved.get(track.message.id, ()):
            is_unexplained = fingerprint in self._known.unexplained.get(track.message.id, ())
            return Assignment(index, "unresolved", reasons=(UNEXPLAINED,) if is_unexplained else ())
        return None

    def _find_bar(self, recipient: Recipient) -> Disposition | None:
        """Return what keeps a recipient from every message."""
        if self._circumstances is not None and self._circumstances.suppressions is not None:
            suppressed = self._circumstances.suppressions.find(recipient.phone)
            if suppressed is not None:
                return "opted_out" if suppressed == "confirmed" else "opt_out_doubtful"
        if self._draw is not None and self._draw.is_held_out(recipient.phone):
            return "held_out"
        if self._must_consent and not recipient.has_consent:
            return "no_consent"
        return None

    def _assign(
        self, index: int, track: Track, recipient: Recipient, fingerprint: str | None, reporter: RowReporter
    ) -> Assignment:
        ready = self._find_ready(index, track.message, fingerprint)
        arm, renderer = self._choose_renderer(track, recipient.phone)
        # Whoever waits is looked at, too: what is wrong with a follow-up is said before the first message.
        rendered = self._render(index, arm, renderer, recipient, reporter)
        largest = rendered.payload.largest if rendered.payload is not None else 0
        if isinstance(ready, Assignment):
            is_coming = ready.disposition == "awaiting" or track.message.to == "answered"
            return ready._replace(
                largest=largest if ready.disposition == "awaiting" else 0,
                arm=arm,
                coming=rendered.payload if is_coming else None,
            )
        timed = self._find_time(index, renderer.message, recipient, ready)
        if isinstance(timed, Assignment):
            if timed.disposition != "deferred":
                return timed
            return timed._replace(largest=largest, arm=arm, coming=rendered.payload)
        return rendered if timed is None else rendered._replace(until=timed.until, reasons=timed.remarks)

    def _render(
        self,
        index: int,
        arm: str | None,
        renderer: MessageRenderer,
        recipient: Recipient,
        reporter: RowReporter,
    ) -> Assignment:
        try:
            payload = renderer.render(recipient.vars)
            return Assignment._make(
                (index, "to_send", payload, arm, None, None, (), 0, False, False, None, False, False)
            )
        except MissingVariablesError as error:
            reporter.report_missing(recipient, renderer.message, error)
        except TemplateProblemError as error:
            reporter.report_failure(error, recipient if renderer.names else None)
        return Assignment(index, "to_send")

    def _choose_renderer(self, track: Track, phone: str) -> tuple[str | None, MessageRenderer]:
        if self._draw is None or not track.has_arms:
            return None, track.renderers[None]
        arm = self._draw.choose_arm(phone)
        if arm is None:
            raise ValueError("an experiment whose arms have no weight")
        return arm.id, track.renderers[arm.id]

    def _find_ready(
        self, index: int, message: Message, fingerprint: str | None
    ) -> datetime | Assignment | None:
        """Return from when on a recipient may get a message, None for at once; or why they don't."""
        if message.after is None or not self._is_timed or self._circumstances is None:
            return None
        earlier = self._circumstances.earlier.get(message.after.message)
        launch = earlier.launches.get(fingerprint) if earlier and fingerprint else None
        if earlier is None or launch is None:
            return Assignment(index, "awaiting")
        earliest = launch.sent_at + message.after.wait
        if message.to == "everyone":
            return earliest
        is_due = (self._circumstances.planned_at or self._circumstances.now) >= earliest
        # An answer that was read stays one; that there is none is only known as of when all were.
        has_answered, read_at = fingerprint in earlier.answered, launch.reconciled_at
        if has_answered or (read_at is not None and message.to == "answered"):
            is_meant = has_answered and message.to == "answered"
            return earliest if is_meant else Assignment(index, "not_qualified")
        # Nobody is reminded who had answered before the reminder was due.
        if read_at is None or (message.to == "unanswered" and is_due and read_at < earliest):
            why = UNREAD
            if launch.differs and earlier.differences is not None:
                why = f"{DIFFERS} {earlier.differences}; {_WAY_PAST}"
            return Assignment(index, "awaiting", reasons=(why,) if is_due else ())
        return earliest

    def _find_time(
        self, index: int, message: Message, recipient: Recipient, earliest: datetime | None
    ) -> Assignment | SendNow | None:
        """Return that a recipient may get a message now, None if at any time; or why not now."""
        timekeeper = self._timekeepers.get(message.method)
        if timekeeper is None or self._circumstances is None:
            return None
        now = self._decide(index, timekeeper, recipient, earliest, self._circumstances.now)
        if self._circumstances.planned_at is None:
            return now
        before = self._decide(index, timekeeper, recipient, earliest, self._circumstances.planned_at)
        if isinstance(before, Assignment):
            # Not sent either way; but what has become too late meanwhile is not called deferred.
            return now if isinstance(now, Assignment) else before
        return now._replace(was_due=True) if isinstance(now, Assignment) else now

    def _decide(
        self,
        index: int,
        timekeeper: Timekeeper,
        recipient: Recipient,
        earliest: datetime | None,
        now: datetime,
    ) -> Assignment | SendNow:
        moment = now if earliest is None else max(now, earliest)
        decision = timekeeper.decide(recipient.phone, recipient.timezone, moment, recipient.region)
        waits = (_WAITING,) if moment > now else ()
        if isinstance(decision, SendNow):
            if not waits:
                return decision
            zones = timekeeper.find_zones(recipient.phone, recipient.timezone, recipient.region)
            due = moment, (*zones, self._campaign.schedule.timezone or _UTC)[0]
            return Assignment(index, "deferred", due=due, reasons=(*waits, *decision.remarks))
        if isinstance(decision, Defer):
            rules = dict.fromkeys(reason.rule for reason in decision.reasons)
            reasons = (*waits, *rules, *decision.remarks)
            return Assignment(index, "deferred", due=decision.due, reasons=reasons)
        disposition = _REFUSED.get(decision.kind, "timezone_unknown")
        return Assignment(index, disposition, reasons=(f"{decision.reason}: {decision.hint}",))

    def _find_message(self, assignment: Assignment, phone: str) -> Message:
        """Return a message as it is sent to a recipient."""
        return self._choose_renderer(self._tracks[assignment.message], phone)[1].message

    def _keep_cap(self, found: list[Assignment], phone: str, cap: FrequencyCap) -> list[Assignment]:
        """Hold back what would be a message too many; those that come first in the campaign go first."""
        if not any(assignment.counts for assignment in found):
            return found
        count = self._circumstances.count_recent(phone) if self._circumstances is not None else 0
        kept = []
        for assignment in found:
            if not assignment.counts:
                kept.append(assignment)
            elif count >= cap.messages:
                arm, payload = assignment.arm, assignment.payload
                kept.append(Assignment(assignment.message, "capped", arm=arm, coming=payload))
            else:
                kept.append(assignment)
                count += 1
        return kept


def _find_follows(messages: list[Message]) -> dict[int, Follow]:
    places = {message.id: index for index, message in enumerate(messages)}
    return {
        index: Follow(places.get(message.after.message, -1), message.to == "answered")
        for index, message in enumerate(messages)
        if message.after is not None
    }
