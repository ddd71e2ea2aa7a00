"""Amounts of money, exact until they are shown, and the prices of a target's texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from runner.document import Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_EXACT = Context(prec=60, rounding=ROUND_HALF_UP)
_PLACES = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
}
"""Currencies by the decimal places of their minor units; all others have 2 (ISO 4217, table A.1)."""


class Money(NamedTuple):
    """An exact amount, and its currency (ISO 4217)."""

    amount: Decimal
    currency: str


def parse_money(text: str) -> Money:
    """Return an amount such as `200 USD`; the schemas check its form."""
    amount, currency = text.split()
    return Money(Decimal(amount), currency)


def round_money(amount: Decimal, currency: str) -> str:
    """Return an amount rounded to the currency's minor unit, half away from zero: `12.35`.

    One that would come out as nothing is exact: `0.0001`.
    """
    places = next((places for places, known in _PLACES.items() if currency in known), 2)
    rounded = amount.quantize(Decimal(1).scaleb(-places), context=_EXACT)
    return f"{amount.normalize(_EXACT) if amount and not rounded else rounded:f}"


class Amounts(Part, frozen=True):
    """The least and the most of an amount, as decimal text, rounded to the minor unit unless that leaves 0.

    Attributes:
        least: in a plan, what is paid if nobody answers.
        most: in a plan, what is paid if everybody answers in the way that costs most.
    """

    least: str
    most: str


class PricedAmounts(Part, frozen=True):
    """Amounts by the prices of a target.

    Attributes:
        currency: ISO 4217.
        as_of: the day of the prices.
        per: what is paid for: `segment` or `render`.
    """

    currency: str
    as_of: str
    per: str

    @property
    def basis(self) -> str:
        """The prices that they are computed by, in words."""
        return f"at prices per {self.per} as of {self.as_of}"

    def write(self, amounts: Amounts | None) -> str:
        """Return an amount in words: `12.30 to 45.60 USD`."""
        if amounts is None:
            return "not known"
        return f"{' to '.join(dict.fromkeys((amounts.least, amounts.most)))} {self.currency}"


class CostSpan(NamedTuple):
    """The least and the most of an exact amount."""

    least: Decimal = Decimal(0)
    most: Decimal = Decimal(0)

    def plus(self, other: CostSpan | None) -> CostSpan | None:
        """Return the sum with another span; None if that is not known."""
        return other and CostSpan(self.least + other.least, self.most + other.most)


def sum_up(spans: Iterable[CostSpan | None]) -> CostSpan | None:
    """Return the sum of spans; None if one is not known."""
    total: CostSpan | None = CostSpan()
    for span in spans:
        total = total and total.plus(span)
    return total


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of a target.

    Attributes:
        currency: ISO 4217.
        as_of: the day of the price list, ISO 8601, as it is written.
        per: what is paid for.
        countries: the price of one by country (ISO 3166-1 alpha-2).
        asked_again: how often a question is asked again at most, after invalid answers, in a forecast.
    """

    currency: str
    as_of: str
    per: Literal["segment", "render"] = "segment"
    countries: Mapping[str, Decimal] = field(default_factory=dict)
    asked_again: int = 0

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Prices:
        """Return the prices that a target in targets.yaml has."""
        # Through text: a float has digits that nobody wrote.
        prices = {country: Decimal(str(price)) for country, price in settings["countries"].items()}
        return cls(**{**settings, "countries": prices})

    def round(self, span: CostSpan | None) -> Amounts | None:
        """Return an amount rounded for documents."""
        return span and Amounts(*(round_money(one, self.currency) for one in span))

    def write(self, span: CostSpan | None) -> str:
        """Return an amount in words: `12.30 to 45.60 USD`."""
        return PricedAmounts(self.currency, self.as_of, self.per).write(self.round(span))

    def find(self, countries: Sequence[str]) -> tuple[Decimal, Decimal] | None:
        """Return the least and the most that one costs in any of some countries; None if none has a price."""
        found = [self.countries[one] for one in countries if one in self.countries]
        return (min(found), max(found)) if found else None
