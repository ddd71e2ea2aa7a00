"""The cost of a plan: what goes now and later, by the prices of the target, counted by country.

Texts are counted by the country of the number: who pays for a text pays for where it goes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from runner.document import Count, Part
from runner.ledger.files.suppressions import ApprovedCost
from runner.service.target import SANDBOX
from runner.source.money import Amounts, CostSpan, PricedAmounts, parse_money, round_money, sum_up
from runner.timing.legal_hours import find_places
from runner.timing.zone import find_region
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.campaign.model import Campaign
    from runner.plan.decisions import Decision
    from runner.source.money import Money, Prices
    from runner.text.payload import CompiledMessage, Payload


class MessageCost(NamedTuple):
    """The cost of a message now and later; None if it is not known."""

    now: CostSpan | None = CostSpan()
    later: CostSpan | None = CostSpan()


@dataclass(frozen=True, slots=True)
class PlanCost:
    """The cost of a campaign's plan.

    Attributes:
        prices: of the target.
        messages: by the message's id.
        unpriced: people without a price by country, or by the code of a number of no country.
    """

    prices: Prices
    messages: Mapping[str, MessageCost]
    unpriced: Mapping[str, int] = field(default_factory=dict)

    @property
    def now(self) -> CostSpan | None:
        """The cost of what is sent now; None if it is not known."""
        return sum_up(one.now for one in self.messages.values())

    @property
    def later(self) -> CostSpan | None:
        """The cost of what may be sent later; None if it is not known."""
        return sum_up(one.later for one in self.messages.values())

    def ask(self) -> ApprovedCost | None:
        """Return the cost to approve; None if it is not known."""
        whole = sum_up((self.now, self.later))
        return whole and ApprovedCost(f"{whole.most:f}", self.prices.currency)

    def document(self) -> PlannedCost:
        """Return the cost as a part of a document."""
        show = self.prices.round
        return PlannedCost(
            self.prices.currency,
            self.prices.as_of,
            self.prices.per,
            self.prices.asked_again,
            show(self.now),
            show(self.later),
            dict(sorted(self.unpriced.items())),
            {name: ShownCost(show(one.now), show(one.later)) for name, one in self.messages.items()},
        )


class ShownCost(Part, frozen=True):
    """The cost of one message.

    Attributes:
        now: of what is sent now; None if it is not known.
        later: of what may be sent later; None if it is not known.
    """

    now: Amounts | None
    later: Amounts | None


class PlannedCost(PricedAmounts, frozen=True):
    """The cost of a campaign's plan by the prices of its target.

    Attributes:
        currency: ISO 4217.
        as_of: the day of the prices.
        per: what is paid for: `segment` or `render`.
        asked_again: how often a question is asked again at most, after invalid answers; more costs more.
        now: of what is sent now; None if it is not known.
        later: of what may be sent later; None if it is not known.
        unpriced: people without a price, now or later, by country (or by `+` and the code of a number of no
            country; `calls` where calls have no segments to pay for).
        messages: of each message, by id.
    """

    asked_again: Count
    now: Amounts | None
    later: Amounts | None
    unpriced: dict[str, Count]
    messages: dict[str, ShownCost]

    def describe(self) -> str:
        """Return the cost in a sentence."""
        again = f"if no question is asked again more than {count_words(self.asked_again, 'time')}"
        if not self.asked_again:
            again = "if no question is asked again"
        gaps = "".join(f"; {one}" for one in self.list_gaps())
        now, later = self.write(self.now), self.write(self.later)
        return f"Cost: {now} now, {later} later, {self.basis}, {again}{gaps}."

    def list_gaps(self) -> list[str]:
        """Return the countries without a price, with their people."""
        return [
            f"no price for {country} ({count_words(people, 'person', 'people')})"
            for country, people in self.unpriced.items()
        ]


class _Kind(NamedTuple):
    """Properties that many texts share.

    `least`, `most` and `repeated` (see `Payload`) are SMS segments; `least` is None if the text is not known.
    `is_sure` is whether it leaves for certain.
    """

    message: int
    countries: tuple[str, ...]
    arm: str | None
    least: int | None
    most: int
    repeated: int
    is_now: bool = False
    is_sure: bool = False


class CostTally:
    """A count of a pass's texts by country; it can be pickled, and names nobody."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._texts: Counter[_Kind] = Counter()
        self._unpriced: Counter[str] = Counter()

    def add(self, countries: tuple[str, ...], decisions: Iterable[Decision]) -> None:
        """Count the texts to one person, whose number may be of these countries, now and later."""
        is_texted = False
        for one in decisions:
            place = one.message, countries, one.arm
            for other in one.further:
                self._texts[_Kind(*place, *_measure(other))] += 1
            if one.payload is not None:
                self._texts[
                    _Kind(*place, *_measure(one.payload), is_now=True, is_sure=not one.may_queue)
                ] += 1
            elif one.comes_later:
                self._texts[_Kind(*place, *_measure(one.coming), is_sure=one.is_sure)] += 1
            elif not one.further:
                continue
            is_texted = True
        if is_texted and self._prices.find(countries) is None:
            self._unpriced[" or ".join(countries)] += 1

    def merge(self, other: CostTally) -> None:
        """Add the counts of other people."""
        self._texts.update(other._texts)
        self._unpriced.update(other._unpriced)

    def add_up(self, compiled: Sequence[CompiledMessage], *, lets_queue: bool) -> PlanCost:
        """Return the cost; with `lets_queue`, texts may wait at the service, perhaps for ever."""
        found: dict[str, MessageCost] = {one.message.id: MessageCost() for one in compiled}
        unpriced = Counter(self._unpriced)
        for kind, count in self._texts.items():
            message = compiled[kind.message]
            is_sure = kind.is_sure and (kind.is_now or not lets_queue)
            units = self._count_units(kind, message)
            price = self._prices.find(kind.countries)
            cost = None
            if units is not None and price is not None:
                least = price[0] * units[0] * count if is_sure else Decimal(0)
                cost = CostSpan(least, price[1] * units[1] * count)
            if self._prices.per == "segment" and message.renderers[kind.arm].message.method == "VOICE":
                unpriced["calls"] += count
            when, own = "now" if kind.is_now else "later", found[message.message.id]
            known: CostSpan | None = getattr(own, when)
            found[message.message.id] = own._replace(**{when: known and known.plus(cost)})
        return PlanCost(self._prices, found, unpriced)

    def _count_units(self, kind: _Kind, compiled: CompiledMessage) -> tuple[int, int] | None:
        """Return what is paid for one text and its answers, at least and at most; None if not known."""
        renderer = compiled.renderers[kind.arm]
        again = self._prices.asked_again
        if self._prices.per == "render":
            choices = sum(bool(one.responses) for one in renderer.message.questions)
            return renderer.renders_min, renderer.renders_max + again * choices
        if kind.least is None or renderer.message.method == "VOICE":
            return None
        return kind.least, kind.most + again * kind.repeated


def _measure(payload: Payload | None) -> tuple[int | None, int, int]:
    return (None, 0, 0) if payload is None else (payload.segments, payload.segments_max, payload.repeated)


def find_countries(phone: str) -> tuple[str, ...]:
    """Return the countries that a phone (E.164) may be of; `+` and its code if it is of none."""
    countries = _list_countries(find_places(phone))
    if len(countries) != 1 and (region := find_region(phone)) is not None:
        return (region,)
    return countries or (phone[:4],)


def list_countries(phones: Iterable[str]) -> str:
    """Return the countries of some phones (E.164) as text: `DE US`; those that one may be of as `CA/US`."""
    return " ".join(sorted({"/".join(find_countries(phone)) for phone in phones}))


@cache
def _list_countries(places: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({place.partition("-")[0] for place in places}))


def compare_costs(asked: ApprovedCost | None, approved: ApprovedCost | None) -> str | None:
    """Return, in words, how a cost goes beyond the approved one; None if it doesn't."""
    said = "no cost was approved" if approved is None else f"{_show(approved)} was approved"
    if asked is None:
        return None if approved is None else f"what it costs is not known any more, and {said}"
    most = Decimal(asked.most)
    if approved is not None and asked.currency == approved.currency:
        is_beyond = most > Decimal(approved.most)
    else:
        is_beyond = most > 0
    return f"it could cost {_show(asked)}, and {said}" if is_beyond else None


def _show(cost: ApprovedCost) -> str:
    return f"{round_money(Decimal(cost.most), cost.currency)} {cost.currency}"


def refuse_cost(campaign: Campaign, cost: PlanCost | None, target: str, people: int) -> Iterator[str]:
    """Yield, in words, why a plan breaks `limits.cost`, or a rule on the cost; `people` are texted now.

    A rule is on what goes now and later together, so that no number of runs gets around it.
    """
    if not people or (cost is None and target == SANDBOX):
        return
    limit = campaign.limits.cost
    if limit is not None:
        span = None if cost is None else cost.now
        yield from _compare(f"limits.cost is {limit.amount:f} {limit.currency}", limit, cost, span, target)
    for rule in campaign.rules.required:
        if rule.name == "cost":
            span = None if cost is None else sum_up((cost.now, cost.later))
            said = f"{rule.place} requires at most {rule.bound}"
            yield from _compare(said, parse_money(rule.bound), cost, span, target)


def _compare(
    said: str, bound: Money, cost: PlanCost | None, span: CostSpan | None, target: str
) -> Iterator[str]:
    """Yield why a cost is not known to be within a bound, which `said` names."""
    if cost is None:
        yield f"what it costs is not known, as {target} has no prices in targets.yaml, and {said}"
    elif span is None:
        gaps = "".join(f": {one}" for one in [", ".join(cost.document().list_gaps())] if one)
        yield f"what it costs is not known{gaps}, and {said}"
    elif cost.prices.currency != bound.currency:
        words = f"another currency than the target's: write it in {cost.prices.currency}"
        yield f"it could cost {cost.prices.write(span)}, and {said}, {words}"
    elif span.most > bound.amount:
        yield f"it could cost {cost.prices.write(span)}, and {said}"
