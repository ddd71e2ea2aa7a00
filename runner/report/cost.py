"""The cost of a campaign's texts so far: the service's renders at the prices of the target.

Renders are known by launch. A launch of one country and one size of text has an exact cost; another costs
between the least and the most of its countries and sizes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runner.document import Count
from runner.source.money import Amounts, CostSpan, PricedAmounts, sum_up

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.ledger.report_model import LaunchCharges
    from runner.source.money import Prices


class PaidCost(PricedAmounts, frozen=True):
    """The cost of a campaign so far, by the prices of its target.

    Attributes:
        currency: ISO 4217.
        as_of: the day of the prices.
        per: what is paid for: `segment` or `render`.
        amount: of all launches, as last reconciled; None if it is not known of each.
        messages: of each message that was sent, by id.
        unpriced: launches to countries without a price, by country.
        unknown_launches: launches whose renders, countries or segments are not known, or not yet.
    """

    amount: Amounts | None
    messages: dict[str, Amounts | None]
    unpriced: dict[str, Count]
    unknown_launches: Count

    def describe(self) -> str:
        """Return the amount in a sentence, or why it is not known."""
        if self.amount is not None:
            return f"Cost so far: {self.write(self.amount)}, {self.basis}."
        gaps = [f"no price for {country}" for country in self.unpriced]
        if self.unknown_launches:
            gaps.append("what some texts cost is not known, or not yet")
        return f"Cost so far: {self.write(None)}: {', '.join(gaps)}."


def add_up_cost(charges: Iterable[LaunchCharges], prices: Prices) -> PaidCost:
    """Return the cost of accepted launches."""
    found: dict[str, CostSpan | None] = {}
    unpriced: Counter[str] = Counter()
    unknown = 0
    for one in charges:
        sizes = (1, 1) if prices.per == "render" else one.sizes
        cost = None
        if one.renders is None or one.countries is None or sizes is None:
            unknown += one.launches
        else:
            spans = {country: prices.find(country.split("/")) for country in one.countries.split()}
            known = [span for span in spans.values() if span is not None]
            if len(known) == len(spans):
                least, most = min(span[0] for span in known), max(span[1] for span in known)
                cost = CostSpan(least * sizes[0] * one.renders, most * sizes[1] * one.renders)
            lacking = [country.replace("/", " or ") for country, span in spans.items() if span is None]
            unpriced.update(dict.fromkeys(lacking, one.launches))
        found[one.message] = sum_up((found.get(one.message, CostSpan()), cost))
    return PaidCost(
        prices.currency,
        prices.as_of,
        prices.per,
        prices.round(sum_up(found.values())),
        {message: prices.round(span) for message, span in found.items()},
        dict(sorted(unpriced.items())),
        unknown,
    )
