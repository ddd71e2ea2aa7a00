"""Faults of the wire on request, by name, with a probability and a seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING

from runner.sandbox.clock import format_duration
from runner.sandbox.sandbox_errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NO_LATENCY = timedelta()
MAX_LATENCY = timedelta(minutes=10)
_SLOW_FOR = timedelta(minutes=1)
_LATE_BY = timedelta(seconds=5)
_AFTER_ACCEPTING = {
    "drop": "a send is accepted and its connection closed without an answer",
    "half": "a send is accepted and its connection closed within the answer",
    "noise": "a send is accepted and answered with what is no HTTP",
    "slow": "a send is accepted and answered a minute later",
    "500": "a send is accepted and answered with 500",
}
_INSTEAD_OF_ACCEPTING = {
    "500-before": "a send is not accepted and answered with 500",
    "reset": "a send is not accepted and its connection reset",
    "429": "a send is not accepted and answered with 429, Retry-After: 1",
    "503": "a send is not accepted and answered with 503, Retry-After: 1",
}
_OF_LISTS = {
    "late-list": "a list lacks what was created in the last 5 seconds",
    "shuffle-list": "a list comes in another order",
    "drop-list": "a list's connection is closed without an answer",
    "500-list": "a list is answered with 500",
}


class FaultPlace(StrEnum):
    """The requests that a fault hits."""

    SEND = "send"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of requests at one `place`; with `accepts`, the send takes effect all the same."""

    name: str
    place: FaultPlace
    says: str
    accepts: bool


FAULTS: Mapping[str, Fault] = {
    name: Fault(name, place, says, accepts=accepts)
    for place, accepts, group in (
        (FaultPlace.SEND, True, _AFTER_ACCEPTING),
        (FaultPlace.SEND, False, _INSTEAD_OF_ACCEPTING),
        (FaultPlace.LIST, False, _OF_LISTS),
    )
    for name, says in group.items()
}
"""Every fault by its name; a client that delivers exactly once survives all of them."""


class Faults:
    """A random choice of faults for requests; the same seed and order of requests give the same faults.

    Args:
        rates: probability of each fault, from 0 to 1, by its name.
        latency: delay of every request; at most `MAX_LATENCY`.
        seed: of the decisions.
        slow_for: duration of a slow answer, longer than clients wait.
        late_by: age of the newest records in a late list.

    Attributes:
        rates: probability of each possible fault, by its name.
        injected: number of decisions for each fault, by its name.

    Raises:
        SandboxError: unknown fault, invalid probability or invalid latency.
    """

    def __init__(
        self,
        rates: Mapping[str, float] | None = None,
        *,
        latency: timedelta = NO_LATENCY,
        seed: int = 0,
        slow_for: timedelta = _SLOW_FOR,
        late_by: timedelta = _LATE_BY,
    ) -> None:
        self.slow_for = slow_for
        self.late_by = late_by
        self.injected: Counter[str] = Counter()
        self.rates: dict[str, float] = {}
        self._seed = seed
        self._random = _make_streams(seed)
        self.replace(rates or {}, latency)

    def replace(self, rates: Mapping[str, float], latency: timedelta = NO_LATENCY) -> None:
        """Replace all probabilities and the latency; faults that are not named end.

        Raises:
            SandboxError: unknown fault, invalid probability or latency; nothing has changed.
        """
        if latency > MAX_LATENCY:
            raise SandboxError(f"the latency is {format_duration(MAX_LATENCY)} at most")
        for name, rate in rates.items():
            if name not in FAULTS:
                raise SandboxError(f"there is no fault {name!r}; there are {', '.join(FAULTS)}")
            # This form also refuses NaN.
            if not 0 <= rate <= 1:
                raise SandboxError(f"the probability of {name} is {rate:g}; it must be from 0 to 1")
        for place in FaultPlace:
            total = sum(rate for name, rate in rates.items() if FAULTS[name].place is place)
            if total > 1:
                raise SandboxError(f"the faults of a {place} add up to {total:g}; they may be 1 at most")
        self.rates = {name: rate for name, rate in rates.items() if rate > 0}
        self.latency = latency

    def start_over(self) -> None:
        """End every fault and the latency, and restart the random decisions."""
        self.rates = {}
        self.latency = NO_LATENCY
        self.injected.clear()
        self._random = _make_streams(self._seed)

    def decide(self, place: FaultPlace) -> Fault | None:
        """Choose and count the fault of the next request, if any."""
        drawn = self._random[place].random()
        for name, rate in self.rates.items():
            fault = FAULTS[name]
            if fault.place is not place:
                continue
            if drawn < rate:
                self.injected[name] += 1
                return fault
            drawn -= rate
        return None


def parse_rates(written: Iterable[str]) -> dict[str, float]:
    """Return probabilities of faults, each written as in `drop=0.05`, or as `drop` for 1.

    Raises:
        SandboxError: malformed entry.
    """
    rates: dict[str, float] = {}
    for each in written:
        name, equals, rate = each.partition("=")
        try:
            rates[name] = float(rate) if equals else 1.0
        except ValueError:
            raise SandboxError(
                f"{each!r} is no fault with its probability: write it as in drop=0.05"
            ) from None
    return rates


def _make_streams(seed: int) -> dict[FaultPlace, Random]:
    # One for each place, so that requests for lists change no send.
    return {place: Random(f"{seed}/{place}") for place in FaultPlace}
