"""Decisions for each recipient and message: send now, later, or not, and the reason."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from runner.audience.renumbering import list_forms
from runner.campaign.variants import Draw, draw_shares
from runner.ledger.model import on_occasion
from runner.plan.answer_rule import describe_unread, find_follows, find_rules
from runner.plan.dates import Dates, rank_by_date
from runner.plan.decisions import NEVER, Decision, Outlook, QueueRule, may_meet
from runner.plan.limits.personal_limits import PersonalLimits
from runner.plan.model import Offer
from runner.source.diagnostic import ProblemError
from runner.text.template import MissingVariablesError
from runner.timing.dates import DatedText
from runner.timing.decision import Defer, SendNow, Timekeeper

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from runner.audience.audience import ConsentDays, Recipient
    from runner.campaign.message_model import Message
    from runner.campaign.model import Campaign
    from runner.ledger.fingerprint import FingerprintSet, TargetKey
    from runner.ledger.model import RecordedDeliveries
    from runner.plan.plan_context import PlanContext
    from runner.reasons import Disposition
    from runner.text.payload import CompiledMessage, MessageRenderer, RowReporter
    from runner.timing.dates import CellTime
    from runner.timing.decision import Decision as TimeDecision

_WAITING = "the `wait` of the follow-up is not over"
UNEXPLAINED = "held: a launch that no record explains has reached them; `runner resolve` shows it"
"""The reason to hold people who may have got the message from a run whose record is lost."""
_UNDECIDED = ("unresolved", "opt_out_doubtful")
"""Reasons to hold a message until a person has decided."""
_UTC = "UTC"
_UNTIMED = Decision(0, "to_send")[4:]
"""The attributes of a decision to send at any time, after its payload and arm."""
_REFUSED: dict[str, Disposition] = {"expired": "expired", "no_rule": "no_rule", "missed": "missed"}


class Decider:
    """A maker of decisions, one recipient after the other.

    Args:
        excluded: phones that are never texted, E.164.
        known: the recorded deliveries.
        key: the key of the recorded fingerprints; None if there are none.
        context: the plan's context.

    Attributes:
        limits: on the messages to one person.
        follows: the condition of each follow-up, by its place among the tracks.
        outlook: marks what is sure to come later; None if nothing is deferred.
    """

    def __init__(
        self,
        campaign: Campaign,
        compiled: list[CompiledMessage],
        excluded: frozenset[str],
        known: RecordedDeliveries,
        key: TargetKey | None,
        context: PlanContext,
    ) -> None:
        self._campaign = campaign
        self._occasion = campaign.wave
        self._compiled = compiled
        self.excluded = excluded
        self._known = known
        self._key = key
        self._context = context
        # Without the laws: a lost launch that went earlier because of one is held, and not adopted.
        self._dates = Dates(campaign, [one.message for one in compiled], key, None)
        self._draw = Draw(campaign.variants) if campaign.variants is not None else None
        self._draw_sample = draw_shares(campaign.sample.seed, "sample") if campaign.sample else None
        self._must_consent = campaign.policy.consent == "required"
        self._timekeepers = self._make_timekeepers()
        self._unvaried = [(index, t.renderers[None]) for index, t in enumerate(compiled) if not t.has_arms]
        cap = None if context.now is None else campaign.policy.frequency_cap
        self.limits = PersonalLimits(cap, self._timekeepers.values(), context)
        self._find_session = context.find_session if context.has_sessions else None
        # People without an open survey who get one message at most have nothing to queue behind.
        may_queue = context.now is not None and (self._find_session is not None or may_meet(compiled))
        self._queue = QueueRule(campaign, self._find_session) if may_queue else None
        self._rules = find_rules(campaign, compiled, known, context)
        self.follows = find_follows([one.message for one in compiled], self._rules)
        # Of their own: those of `_timekeepers` remember what holds at the present moment.
        dated = (index for index, one in enumerate(compiled) if one.message.when is not None)
        self._later = {index: self._make_timekeepers() for index in (*self.follows, *dated)}
        self.outlook = Outlook(campaign, compiled, self._find_session) if self._timekeepers else None
        self._is_plain = (
            self._sends_to_all() and campaign.languages is None and len(self._unvaried) == len(compiled)
        )

    def _sends_to_all(self) -> bool:
        """Return whether exclusion is the only reason not to text somebody."""
        context = self._context
        return (
            self._key is None
            and context.sampled_below is None
            and not self._occasion
            and not any(self._dates.columns)
            and self._draw is None
            and not self.limits.exist
            and self._queue is None
            and not self._must_consent
            and not self._timekeepers
            and context.suppressions is None
        )

    def _make_timekeepers(self) -> dict[str, Timekeeper]:
        campaign, context = self._campaign, self._context
        if context.now is None:
            return {}
        is_free = campaign.schedule.is_always_open() and context.law is None
        if is_free and not any(message.after or message.when for message in campaign.messages):
            return {}
        methods = {message.method for one in self._compiled for message in one.sent}
        return {
            method: Timekeeper(
                campaign.schedule,
                timezone_unknown=campaign.policy.timezone_unknown,
                law=context.law,
                method=method,
                purpose=campaign.policy.purpose,
                no_rule=campaign.policy.no_rule,
                keeps_number=campaign.rules.keeps_number,
            )
            for method in methods
        }

    def find_opening(self, recipient: Recipient, index: int, moment: datetime) -> datetime:
        """Return the first time from a moment on at which a follow-up may go; NEVER if none is left."""
        timekeepers = self._later.get(index)
        if not timekeepers:
            return moment
        method = self._find_message(index, recipient.phone).method
        decision = timekeepers[method].decide(recipient.phone, recipient.timezone, moment, recipient.region)
        if isinstance(decision, SendNow):
            return moment
        if isinstance(decision, Defer):
            return decision.due[0]
        return NEVER if decision.kind == "expired" else moment

    def assign(self, recipient: Recipient, reporter: RowReporter) -> list[Decision]:
        """Return the decisions on a recipient, in the order of the messages; report the row's problems."""
        phone = recipient.phone
        if phone in self.excluded:
            return [Decision(index, "excluded") for index in range(len(self._compiled))]
        if self._is_plain:
            return [self._render(index, each, recipient, reporter) for index, each in self._unvaried]
        known_as = self._list_fingerprints(recipient)
        barred = self._find_bar(recipient)
        found = [
            self._assign_by_date(index, recipient, known_as, barred, reporter)
            if self._dates.columns[index]
            else self._bar(index, recipient, known_as, barred)
            or self._assign(index, recipient, known_as, reporter)
            for index in range(len(self._compiled))
        ]
        for index, rule in self._rules.items():
            if found[index].is_hopeless and not rule.may_change(found):
                found[index] = found[index]._replace(coming=None)
        if self._occasion:
            found = [one._replace(occasion=self._occasion) for one in found]
        if self._queue is not None:
            found = self._queue.keep_apart(found, phone, lambda one: self._find_message(one.message, phone))
        return self.limits.keep_caps(found, recipient) if self.limits.exist else found

    def _assign_by_date(
        self,
        index: int,
        recipient: Recipient,
        known_as: Sequence[str],
        barred: Disposition | None,
        reporter: RowReporter,
    ) -> Decision:
        """Return the decision on a message by a date, of a recipient with several the one that comes next."""
        found = []
        for row in (recipient, *recipient.others):
            time = self._dates.read(index, row)
            dated = self._dates.list_keys(known_as, row, time)
            decision = self._bar(index, row, dated, barred)
            if decision is None and time is None:
                decision = Decision(index, "no_date")
            decision = decision or self._assign(index, row, dated, reporter)
            found.append(decision if time is None else decision._replace(occasion=time.canonical))
        first = min(found, key=rank_by_date)
        later = [one for one in found if one is not first and (one.counts or one.comes_later)]
        return first._replace(further=tuple([one.payload or one.coming for one in later]))

    def _bar(
        self, index: int, recipient: Recipient, known_as: Sequence[str], barred: Disposition | None
    ) -> Decision | None:
        """Return the reason not to send a message at any time; None if there is none."""
        found = self._find_record(index, known_as)
        if found is None and barred is not None:
            found = Decision(index, barred)
        if found is None and self.is_left_out(recipient.phone):
            found = Decision(index, "not_sampled")
        if found is None or found.disposition not in _UNDECIDED:
            return found
        renderer = self._choose_renderer(index, recipient.phone, recipient.language)
        try:
            return found._replace(arm=renderer.arm, coming=renderer.render(recipient.vars))
        except (MissingVariablesError, ProblemError):
            # Held people may never get the message, so problems of their rows are not reported yet.
            return found

    def offer(self, recipient: Recipient) -> Iterator[Offer]:
        """Yield each message that a recipient is not known to have, at any time.

        Opt-outs and other bars make no difference.
        """
        known_as = self._list_fingerprints(recipient)
        for index, column in enumerate(self._dates.columns):
            is_dated = column is not None
            for row in (recipient, *recipient.others) if is_dated else (recipient,):
                time = self._dates.read(index, row)
                if is_dated and time is None:
                    continue
                found = self._find_record(index, self._dates.list_keys(known_as, row, time))
                # Recipients held for a launch may have got the very text that is looked for here.
                if found is None or UNEXPLAINED in found.reasons:
                    yield from self._offer(index, row, time)

    def _offer(self, index: int, recipient: Recipient, time: CellTime | None) -> Iterator[Offer]:
        renderer = self._choose_renderer(index, recipient.phone, recipient.language)
        with suppress(MissingVariablesError, ProblemError):
            payload = renderer.render(recipient.vars)
            if time is None:
                yield Offer(renderer.message, payload, renderer.arm, self._occasion)
            else:
                earliest = self._dates.find_earliest(index, recipient, time)
                yield Offer(renderer.message, payload, renderer.arm, time.canonical, earliest)

    def _list_fingerprints(self, recipient: Recipient) -> tuple[str, ...]:
        """Return the keys of a recipient's deliveries: by their phone, and by its other forms."""
        key = self._key
        if key is None:
            return ()
        forms = list_forms(recipient.phone)
        return tuple([on_occasion(key.fingerprint(phone), self._occasion) for phone in forms])

    def _find_record(self, index: int, known_as: Sequence[str]) -> Decision | None:
        known, message = self._known, self._compiled[index].message.id
        sent, unresolved = known.sent.get(message, ()), known.unresolved.get(message, ())
        found = None
        for fingerprint in known_as:
            if found is None and fingerprint in sent:
                found = Decision(index, "already_sent")
            if found is None and fingerprint in unresolved:
                is_unexplained = fingerprint in known.unexplained.get(message, ())
                found = Decision(index, "unresolved", reasons=(UNEXPLAINED,) if is_unexplained else ())
        return found

    def is_left_out(self, phone: str) -> bool:
        """Return whether a person is not in the sample: was not drawn, and got nothing of it before."""
        bound, draw = self._context.sampled_below, self._draw_sample
        return (
            bound is not None
            and draw is not None
            and draw(phone) >= bound
            and not self._is_among(self._context.sampled, phone)
        )

    def list_sampled(self) -> set[str]:
        """Return the fingerprints of people who got a sampled message, or may have, in this wave if any."""
        messages = [one.id for one in self._campaign.messages if one.after is None]
        shelves = (self._known.sent, self._known.unresolved)
        found = set[str]().union(*(shelf.get(one, set()) for shelf in shelves for one in messages))
        ending = f"@{self._occasion}" if self._occasion else ""
        return {one.partition("@")[0] for one in found if one.endswith(ending)}

    def may_draw(self, recipient: Recipient, texted: set[str], consent: ConsentDays | None) -> bool:
        """Return whether somebody may be texted, and was not: a sample is of these."""
        if consent is not None and consent.find_flaw(recipient) is not None:
            recipient = recipient._replace(has_consent=False)
        if recipient.phone in self.excluded or self._find_bar(recipient) is not None:
            return False
        return not self._is_among(texted, recipient.phone)

    def _is_among(self, people: FingerprintSet | set[str], phone: str) -> bool:
        key = self._key
        return key is not None and any(key.fingerprint(one) in people for one in list_forms(phone))

    def _find_bar(self, recipient: Recipient) -> Disposition | None:
        """Return the bar to all messages for a recipient, if any."""
        suppressions = self._context.suppressions
        if suppressions is not None:
            suppressed = [suppressions.find(phone) for phone in list_forms(recipient.phone)]
            if any(suppressed):
                return "opted_out" if "confirmed" in suppressed else "opt_out_doubtful"
        if self._draw is not None and self._draw.is_in_control_group(recipient.phone):
            return "control_group"
        if self._must_consent and not recipient.has_consent:
            return "no_consent"
        return None

    def _assign(
        self, index: int, recipient: Recipient, known_as: Sequence[str], reporter: RowReporter
    ) -> Decision:
        message = self._compiled[index].message
        ready = self._find_ready(index, message, known_as)
        may_go = not isinstance(ready, Decision) or ready.disposition == "awaiting"
        if message.to == "unanswered" and may_go:
            ready = self.limits.heed_silence(index, recipient) or ready
        renderer = self._choose_renderer(index, recipient.phone, recipient.language)
        # Recipients who wait are rendered, too, so that problems of follow-ups show before the first message.
        rendered = self._render(index, renderer, recipient, reporter)
        largest = rendered.payload.largest if rendered.payload is not None else 0
        if isinstance(ready, Decision):
            is_awaiting = ready.disposition == "awaiting"
            coming = rendered.payload if is_awaiting or message.to != "unanswered" else None
            return ready._replace(largest=largest * is_awaiting, arm=renderer.arm, coming=coming)
        timed = self._find_time(index, renderer.message, recipient, ready)
        if isinstance(timed, Decision):
            if timed.disposition != "deferred":
                return timed
            return timed._replace(largest=largest, arm=renderer.arm, coming=rendered.payload)
        return rendered if timed is None else rendered._replace(until=timed.until, reasons=timed.remarks)

    def _render(
        self, index: int, renderer: MessageRenderer, recipient: Recipient, reporter: RowReporter
    ) -> Decision:
        try:
            payload = renderer.render(recipient.vars)
            return tuple.__new__(Decision, (index, "to_send", payload, renderer.arm, *_UNTIMED))
        except MissingVariablesError as error:
            reporter.report_missing(recipient, renderer.message, error)
        except ProblemError as error:
            reporter.report_failure(error, recipient if renderer.names else None)
        return Decision(index, "to_send")

    def _choose_renderer(self, index: int, phone: str, language: str | None = None) -> MessageRenderer:
        compiled = self._compiled[index]
        arm = self._draw.choose_arm(phone) if self._draw is not None and compiled.has_arms else None
        return compiled.choose(arm, language)

    def _find_ready(
        self, index: int, message: Message, known_as: Sequence[str]
    ) -> datetime | Decision | None:
        """Return the earliest time for a message (None: any time), or the decision not to send it."""
        if message.after is None or self._context.now is None:
            return None
        earlier = self._context.earlier.get(message.after.message)
        launches = {} if earlier is None else earlier.launches
        launch = next((found for one in known_as if (found := launches.get(one)) is not None), None)
        if earlier is None or launch is None:
            return Decision(index, "awaiting")
        earliest, rule = launch.sent_at + message.after.wait, self._rules.get(index)
        if rule is not None or message.to == "everyone":
            return earliest if rule is None else rule.decide(known_as, launch)
        is_due = self._context.due_by >= earliest
        # Read answers stay valid; a missing answer is certain only up to the last complete reading.
        has_answered = any(one in earlier.answered for one in known_as)
        read_at = launch.reconciled_at
        if has_answered or (read_at is not None and message.to == "answered"):
            is_meant = has_answered and message.to == "answered"
            return earliest if is_meant else Decision(index, "not_qualified")
        # An answer before the reminder was due counts, whenever it was read.
        if read_at is None or (message.to == "unanswered" and is_due and read_at < earliest):
            reasons, known = ((describe_unread(launch, earlier),), None) if is_due else ((), earliest)
            return Decision(index, "awaiting", reasons=reasons, earliest=known)
        return earliest

    def _find_time(
        self, index: int, message: Message, recipient: Recipient, earliest: datetime | None
    ) -> Decision | SendNow | None:
        """Return whether to send now (None: at any time), or the decision to wait."""
        timekeeper, moment = self._timekeepers.get(message.method), self._context.now
        if timekeeper is None or moment is None:
            return None
        now = self._decide(index, timekeeper, recipient, earliest, moment)
        if self._context.planned_at is None:
            return now
        before = self._decide(index, timekeeper, recipient, earliest, self._context.planned_at)
        if isinstance(before, Decision):
            # A message that has expired since the saved plan is not reported as deferred.
            return now if isinstance(now, Decision) else before
        return now._replace(was_due=True) if isinstance(now, Decision) else now

    def _decide(
        self,
        index: int,
        timekeeper: Timekeeper,
        recipient: Recipient,
        earliest: datetime | None,
        now: datetime,
    ) -> Decision | SendNow:
        moment = now if earliest is None else max(now, earliest)
        decision = self._keep_time(index, timekeeper, recipient, moment)
        waits = (_WAITING,) if moment > now else ()
        if isinstance(decision, SendNow):
            if not waits:
                return decision
            zones = timekeeper.find_zones(recipient.phone, recipient.timezone, recipient.region)
            due = moment, (*zones, self._campaign.schedule.timezone or _UTC)[0]
            return Decision(index, "deferred", due=due, reasons=(*waits, *decision.remarks))
        if isinstance(decision, Defer):
            rules = dict.fromkeys(reason.rule for reason in decision.reasons)
            reasons = (*waits, *rules, *decision.remarks)
            return Decision(index, "deferred", due=decision.due, reasons=reasons)
        disposition = _REFUSED.get(decision.kind, "timezone_unknown")
        return Decision(index, disposition, reasons=(f"{decision.reason}: {decision.hint}",))

    def _keep_time(
        self, index: int, timekeeper: Timekeeper, recipient: Recipient, moment: datetime
    ) -> TimeDecision:
        """Return what the hours say of a moment, and the recipient's date if the message goes by one."""
        phone, zone, region = recipient.phone, recipient.timezone, recipient.region
        when = self._compiled[index].message.when
        time = None if when is None else self._dates.read(index, recipient)
        if when is None or time is None:
            return timekeeper.decide(phone, zone, moment, region)
        own = self._later[index][self._find_message(index, phone).method]
        return DatedText(own, when.rule, time, phone, zone, region).decide(moment)

    def _find_message(self, index: int, phone: str) -> Message:
        """Return a message as its recipient gets it."""
        return self._choose_renderer(index, phone).message
