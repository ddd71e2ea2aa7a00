"""Counts of a pass over an audience or a part of it, launch sizes, and checks of a campaign's own limits."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from itertools import pairwise, product
from types import MappingProxyType
from typing import TYPE_CHECKING, get_args

from runner.plan.decisions import round_up
from runner.plan.digest import DeliveryDigest
from runner.plan.limits.audience_guard import AudienceTraits
from runner.plan.limits.cost import CostTally, find_countries
from runner.plan.model import CampaignPlan, Coming, LanguageCounts, ListedCharacter, MessagePlan, Span
from runner.reasons import Disposition
from runner.source.diagnostic import Diagnostic
from runner.source.quantity import write_share
from runner.text.opening import says_sender
from runner.text.segment import find_substitute

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from runner.audience.audience import AudienceTally
    from runner.campaign.model import Limits
    from runner.plan.decisions import Assigned, Decision
    from runner.plan.model import Cause
    from runner.source.diagnostic import Severity
    from runner.source.money import Prices
    from runner.text.payload import CompiledMessage, Payload


class PlanTally:
    """The counts of one message during a pass."""

    def __init__(self) -> None:
        self._dispositions: Counter[str] = Counter()
        # Recipients to send to, counted by the properties that many of them share.
        self._sent: Counter[tuple[str | None, int, int, int, bool, str | None]] = Counter()
        # The same for recipients who may get it later, by their disposition and whether their earliest moment
        # is known; segments are None where the text is unknown.
        self._coming: Counter[tuple[str, bool, str | None, int | None, int, bool, str | None]] = Counter()
        self._first: datetime | None = None
        self._costly: dict[str, tuple[int, int, int]] = {}
        self._later: Counter[int] = Counter()
        self._due: Counter[tuple[datetime, str]] = Counter()
        self._causes: Counter[Cause] = Counter()
        self._left = 0

    def add(self, assignment: Decision) -> bool:
        """Count one recipient; return whether they may get the message later."""
        _, why, payload, arm, _, due, reasons, largest, _, _, coming, is_sure, may_queue, is_left, first = (
            assignment[:-3]  # without its occasion, and those that follow
        )
        comes_later = False
        for other in assignment.further:
            least, most = (None, 0) if other is None else (other.segments, other.segments_max)
            self._coming["deferred", False, arm, least, most, False, None] += 1
        if payload is not None:
            sizes = payload.segments, payload.segments_max, payload.largest
            self._sent[arm, *sizes, may_queue, payload.language] += 1
            if payload.costly is not None:
                self._add_costly(payload.costly, 1, payload.segments_max, payload.segments_plain)
        else:
            self._dispositions[why] += 1
            if largest:
                self._later[largest] += 1
            comes_later = assignment.comes_later
            if comes_later:
                least, most = (None, 0) if coming is None else (coming.segments, coming.segments_max)
                language = None if coming is None else coming.language
                is_dated = first is not None or due is not None
                self._coming[why, is_dated, arm, least, most, is_sure, language] += 1
                self._left += is_left
                if first is not None:
                    self._first = first if self._first is None else min(self._first, first)
        if due is not None:
            moment, zone = due
            # Rounded: follow-ups come due at different moments, as their launches were sent.
            self._due[round_up(moment), zone] += 1
        if reasons:
            self._causes["to_send" if payload is not None else why, reasons] += 1
        return comes_later

    def merge(self, other: PlanTally) -> None:
        """Add the counts of other recipients of the same message."""
        for name in ("_dispositions", "_sent", "_coming", "_later", "_due", "_causes"):
            getattr(self, name).update(getattr(other, name))
        self._first = min((one for one in (self._first, other._first) if one is not None), default=None)
        self._left += other._left
        for character, costs in other._costly.items():
            self._add_costly(character, *costs)

    def _add_costly(self, character: str, people: int, segments: int, plain: int) -> None:
        own = self._costly.get(character, (0, 0, 0))
        self._costly[character] = own[0] + people, own[1] + segments, own[2] + plain

    def add_up(
        self, compiled_message: CompiledMessage, audience: AudienceTally, launches: int
    ) -> MessagePlan:
        """Return the counts without later messages (`add_up_coming`); `launches` are those to send now."""
        message = compiled_message.message
        dispositions, largest = self._dispositions.copy(), self._later.copy()
        arms: Counter[str | None] = Counter()
        queueing: Counter[str | None] = Counter()
        for (arm, _, _, size, may_queue, _), count in self._sent.items():
            arms[arm] += count
            queueing[arm] += count * may_queue
            largest[size] += count
        dispositions["to_send"] += arms.total()
        sent = [(compiled_message.renderers[arm], count, queueing[arm]) for arm, count in arms.items()]
        return MessagePlan(
            message.id,
            message.tag,
            **asdict(audience),
            recipients=dispositions.total(),
            **dispositions,
            # Without those over the limit: approval of a limited plan does not cover everybody.
            forecast=self._coming.total() - self._left,
            launches=launches,
            segments=sum(one[1] * count for one, count in self._sent.items()),
            segments_min=sum(one[1] * count for one, count in self._sent.items() if not one[4]),
            segments_max=sum(one[2] * count for one, count in self._sent.items()),
            renders_min=sum((count - waiting) * one.renders_min for one, count, waiting in sent),
            renders_max=sum(count * one.renders_max for one, count, _ in sent),
            queueing=queueing.total(),
            coming=(),
            costly_characters=tuple(
                ListedCharacter(character, *cost, find_substitute(character))
                for character, cost in sorted(self._costly.items())
            ),
            largest=dict(largest),
            arms={arm: count for arm, count in sorted(arms.items(), key=str) if arm is not None},
            languages=self._count_languages(),
            due=dict(self._due),
            causes=dict(self._causes),
        )

    def _count_languages(self) -> tuple[LanguageCounts, ...]:
        """Return the people of each language, most first; empty in a campaign without languages."""
        found = dict[str, Counter[str]]()
        for (*_, language), count in self._coming.items():
            if language is not None:
                found.setdefault(language, Counter()).update(later=count)
        for (_, segments, segments_max, _, _, language), count in self._sent.items():
            if language is not None:
                whole = {"segments": segments * count, "segments_max": segments_max * count}
                found.setdefault(language, Counter()).update(recipients=count, **whole)
        counts = [LanguageCounts(language, **dict(counts)) for language, counts in found.items()]
        return tuple(sorted(counts, key=lambda one: (-one.recipients, -one.later, one.language)))

    def add_up_coming(
        self, compiled_message: CompiledMessage, per_send: int, *, lets_queue: bool, is_paused: bool
    ) -> tuple[Coming, ...]:
        """Return later messages, by the reasons for the delay; those without a date apart.

        Args:
            compiled_message: the message.
            per_send: the most recipients of a launch.
            lets_queue: whether messages may queue at the service, perhaps for ever.
            is_paused: whether a person has paused the campaign, so that nothing goes when it is due.
        """
        found: dict[tuple[str, bool], list[tuple[str | None, int | None, int, bool, int]]] = {}
        for (why, is_dated, arm, least, most, is_sure, _), count in self._coming.items():
            found.setdefault((why, is_dated), []).append((arm, least, most, is_sure, count))
        moments: dict[tuple[str, bool], tuple[datetime | None, datetime | None]] = {
            ("awaiting", True): (self._first, None)
        }
        # Recipients who wait for unread replies are deferred, too, without a date.
        if self._due:
            due = [moment for moment, _ in self._due]
            moments["deferred", True] = min(due), None if is_paused else max(due)
        return tuple(
            _add_up_group(
                group[0],
                moments.get(group, (None, None)),
                found[group],
                compiled_message,
                per_send,
                lets_queue=lets_queue,
            )
            for group in product(get_args(Disposition), (True, False))
            if group in found
        )


def _add_up_group(
    why: str,
    moments: tuple[datetime | None, datetime | None],
    parts: Sequence[tuple[str | None, int | None, int, bool, int]],
    compiled_message: CompiledMessage,
    per_send: int,
    *,
    lets_queue: bool,
) -> Coming:
    sure = sum(count for *_, is_sure, count in parts if is_sure)
    most = sum(count for *_, count in parts)
    is_known = all(least is not None for _, least, *_ in parts)
    at_once = sum((least or 0) * count for _, least, _, is_sure, count in parts if is_sure)
    whole = sum(largest * count for _, _, largest, _, count in parts)
    arms: Counter[str] = Counter()
    for arm, *_, count in parts:
        if arm is not None:
            arms[arm] += count
    renders = [(compiled_message.renderers[arm], is_sure, count) for arm, _, _, is_sure, count in parts]
    return Coming(
        why,
        *moments,
        recipients=Span(sure, most),
        launches=Span(-(-sure // per_send), most),
        segments=Span(0 if lets_queue else at_once, whole) if is_known else None,
        renders=Span(
            0 if lets_queue else sum(count * one.renders_min for one, is_sure, count in renders if is_sure),
            sum(count * one.renders_max for one, _, count in renders),
        ),
        arms=dict(sorted(arms.items())),
    )


_DIGITS = 15
"""Hexadecimal digits of a digest: 60 bits. A collision would only let two launches wait for each other."""
_SPREAD = (1 << 60) - 1


class LaunchSizes:
    """Numbers of recipients by group: eight bytes for each recipient, sorted once at the end."""

    def __init__(self) -> None:
        self._groups = array("Q")
        self.add = self._groups.append
        """Count one more recipient of a group."""

    def count_launches(self, per_send: int) -> int:
        """Return the number of launches that the groups take, given the most recipients of one."""
        # The recipients beyond the first of each group that has several.
        repeated = Counter(group for before, group in pairwise(sorted(self._groups)) if before == group)
        several = sum(-(-(1 + more) // per_send) for more in repeated.values())
        return len(self._groups) - repeated.total() - len(repeated) + several

    def count_groups(self) -> Counter[int]:
        """Return the number of recipients by group."""
        return Counter(self._groups)


def group_of(decision: Decision, payload: Payload, countries: tuple[str, ...] = ()) -> int:
    """Return the number of a group that can share launches, from 1 and below 2⁶⁴.

    Arms are separate groups even with equal texts, since reports tell arms apart, and so are occasions, the
    people of a law that caps messages, and countries where there are prices: then each launch has one price.
    """
    number = int(payload.digest[:_DIGITS], 16)
    told = decision.arm, decision.until, decision.occasion, decision.caps, countries
    if told != _ALIKE:
        number ^= hash(told) & _SPREAD
    return number + 1


_ALIKE = (None, None, "", (), ())
"""Arm, end, occasion, caps and countries of most deliveries."""


def find_refusals(limits: Limits, messages: Sequence[MessagePlan], people: int) -> Iterator[str]:
    """Yield, in words, the limits that a plan breaks; `people` are texted now."""
    most = limits.recipients.most
    if most is not None and people > most:
        yield f"it would text {people:,} recipients, and limits.recipients is {most:,}"
    renders = sum(plan.renders_max for plan in messages)
    if limits.renders is not None and renders > limits.renders:
        yield f"it could cost {renders:,} renders, and limits.renders is {limits.renders:,}"
    yield from _find_invalid(limits, messages)
    for plan in messages:
        if beyond := _find_beyond(plan, limits):
            yield _describe_long(plan, beyond, limits)


def _find_invalid(limits: Limits, messages: Sequence[MessagePlan]) -> Iterator[str]:
    most = limits.invalid_rows
    rows, invalid = max(((plan.rows, plan.invalid) for plan in messages), default=(0, 0))
    if most is None or invalid <= (most * rows if isinstance(most, Fraction) else most):
        return
    limit = write_share(most) if isinstance(most, Fraction) else f"{most:,}"
    words = f"{'row' if rows == 1 else 'rows'} {'is' if invalid == 1 else 'are'}"
    yield f"{invalid:,} of {rows:,} {words} invalid, and limits.invalid_rows is {limit}"


def find_long_texts(whole: CampaignPlan) -> Iterator[Diagnostic]:
    """Yield the messages with texts beyond `limits.segments_per_message`.

    It is an error if all recipients' texts are too long, since no plan with the message can pass. The plan
    `whole` is made as if nobody had been texted yet.
    """
    limits = whole.campaign.limits
    places = {message.id: message.position for message in whole.campaign.messages}
    for plan in whole.messages:
        if beyond := _find_beyond(plan, limits):
            place = places[plan.id]
            words = _describe_long(plan, beyond, limits)
            if sum(beyond.values()) == sum(plan.largest.values()):
                severity: Severity = "error"
                hint = "no plan that sends it goes through: shorten the text, or raise the limit"
            else:
                severity = "warning"
                hint = "a plan that texts them is refused: shorten the text, or raise the limit"
            yield Diagnostic(severity, "limit-segments", words, place.file, place.line, place.column, hint)


def _find_beyond(plan: MessagePlan, limits: Limits) -> dict[int, int]:
    """Return the recipients whose largest text is beyond the limit, by its segments."""
    most = limits.segments_per_message
    return {} if most is None else {size: count for size, count in plan.largest.items() if size > most}


def _describe_long(plan: MessagePlan, beyond: Mapping[int, int], limits: Limits) -> str:
    people = sum(beyond.values())
    who = f"{people:,} recipients" if people > 1 else "a recipient"
    return (
        f"`{plan.id}` would send {who} a text of up to {max(beyond)} segments, "
        f"and limits.segments_per_message is {limits.segments_per_message}"
    )


@dataclass(slots=True)
class PlanCounts:
    """The counts of a pass, which can be pickled and name nobody.

    Attributes:
        messages: in the order of the tracks.
        people: those who get at least one message now.
        later: those who get nothing now, and may get something later.
        sure: those of them who are sure to.
        digests: of deliveries, by shard.
        cost: None if the target has no prices.
        audience: what everybody in it has in common.
        unsaid: people whose text does not say its sender, by the place of the message.
    """

    messages: list[PlanTally]
    launches: list[int]
    people: int = 0
    later: int = 0
    sure: int = 0
    digests: dict[int, bytes] = field(default_factory=dict)
    cost: CostTally | None = None
    audience: AudienceTraits = field(default_factory=AudienceTraits)
    unsaid: Counter[int] = field(default_factory=Counter)

    @classmethod
    def start(cls, messages: int) -> PlanCounts:
        """Return empty counts."""
        return cls([PlanTally() for _ in range(messages)], [0] * messages)

    def merge(self, other: PlanCounts) -> None:
        """Add the counts of other people, of other shards."""
        for own, one in zip(self.messages, other.messages, strict=True):
            own.merge(one)
        self.launches = [own + one for own, one in zip(self.launches, other.launches, strict=True)]
        self.people += other.people
        self.later += other.later
        self.sure += other.sure
        self.digests |= other.digests
        self.audience.merge(other.audience)
        self.unsaid.update(other.unsaid)
        if self.cost is None:
            self.cost = other.cost
        elif other.cost is not None:
            self.cost.merge(other.cost)


def _lacks_sender(decision: Decision, senders: Mapping[int, str]) -> bool:
    """Return whether a text, sent now or later, is to say its sender and does not."""
    text, sender = decision.payload or decision.coming, senders.get(decision.message)
    return text is not None and sender is not None and not says_sender(text.definition, sender)


def count_assignments(
    assigned: Iterable[Assigned],
    sizes: Sequence[LaunchSizes],
    per_send: int,
    excluded: int,
    prices: Prices | None = None,
    senders: Mapping[int, str] = MappingProxyType({}),
) -> PlanCounts:
    """Return the counts of a pass.

    `sizes` receive launch sizes by message, `excluded` phones are listed, and `senders` are names that
    messages must say, by their places.
    """
    counts = PlanCounts.start(len(sizes))
    counts.cost = None if prices is None else CostTally(prices)
    counts.audience.excluded = excluded
    digest = DeliveryDigest()
    add_delivery = digest.add
    adders = [(tally.add, size.add) for tally, size in zip(counts.messages, sizes, strict=True)]
    people, add_person = 0, counts.audience.add
    for recipient, assignments in assigned:
        add_person(recipient)
        gets_something = comes_later = is_sure = False
        countries = find_countries(recipient.phone) if prices else ()
        for assignment in assignments:
            index = assignment.message
            add, add_group = adders[index]
            if add(assignment):
                comes_later, is_sure = True, is_sure or assignment.is_sure
            payload = assignment.payload
            if senders:
                counts.unsaid[index] += _lacks_sender(assignment, senders)
            if payload is not None:
                gets_something = True
                add_delivery(recipient.phone, index, payload.digest, assignment.occasion)
                add_group(group_of(assignment, payload, countries))
        if counts.cost is not None:
            counts.cost.add(countries, assignments)
        if gets_something:
            people += 1
        elif comes_later:
            counts.later += 1
            counts.sure += is_sure
    counts.people, counts.digests = people, digest.finish()
    counts.launches = [size.count_launches(per_send) for size in sizes]
    return counts
