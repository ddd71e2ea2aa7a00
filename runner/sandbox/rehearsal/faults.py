"""Faults on request: what may go wrong on the wire, by name, with a probability and a seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING

from runner.sandbox.durations import format_duration
from runner.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NO_LATENCY = timedelta()
MAX_LATENCY = timedelta(minutes=10)
_SLOW_FOR = timedelta(minutes=1)
_LATE_BY = timedelta(seconds=5)


class Place(StrEnum):
    """Which requests a fault befalls."""

    SEND = "send"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong with a request.

    Attributes:
        name: how it is asked for.
        place: which requests it befalls.
        says: what happens, in one line.
        accepts: whether the send takes effect all the same.
    """

    name: str
    place: Place
    says: str
    accepts: bool


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
FAULTS: Mapping[str, Fault] = {
    name: Fault(name, place, says, accepts=accepts)
    for place, accepts, group in (
        (Place.SEND, True, _AFTER_ACCEPTING),
        (Place.SEND, False, _INSTEAD_OF_ACCEPTING),
        (Place.LIST, False, _OF_LISTS),
    )
    for name, says in group.items()
}
"""Every fault by its name; a client that delivers exactly once survives all of them."""


class Faults:
    """Decides which request meets which fault: the same seed and order of requests, the same faults.

    Args:
        rates: probability of each fault, from 0 to 1, by its name.
        latency: how long every request waits before anything else happens to it; see `check_latency`.
        seed: what the decisions grow from.
        slow_for: how long an answer takes that is slow: longer than clients wait.
        late_by: how long a list that is late lacks what was created.

    Attributes:
        latency: as given; may be changed.
        slow_for: as given.
        late_by: as given.
        injected: how often each fault was decided for, by its name.

    Raises:
        SandboxError: no such fault, or no such probability, or no such latency.
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
        self.latency = check_latency(latency)
        self.slow_for = slow_for
        self.late_by = late_by
        self.injected: Counter[str] = Counter()
        self._rates: dict[str, float] = {}
        self._seed = seed
        self._random = _make_streams(seed)
        self.replace(rates or {})

    @property
    def rates(self) -> Mapping[str, float]:
        """The probability of each fault that may happen, by its name."""
        return dict(self._rates)

    def replace(self, rates: Mapping[str, float]) -> None:
        """Set the probabilities anew; what isn't named doesn't happen.

        Raises:
            SandboxError: no such fault, or no such probability; nothing has changed.
        """
        for place in Place:
            total = sum(
                _check_rate(name, rate) for name, rate in rates.items() if find_fault(name).place == place
            )
            if total > 1:
                raise SandboxError(
                    f"the faults of a {place} add up to {total:g}; together they are 1 at most"
                )
        self._rates = {name: rate for name, rate in rates.items() if rate > 0}

    def start_over(self) -> None:
        """End every fault and the latency, and forget what has happened: the decisions begin anew."""
        self._rates = {}
        self.latency = NO_LATENCY
        self.injected.clear()
        self._random = _make_streams(self._seed)

    def decide(self, place: Place) -> Fault | None:
        """Decide what befalls the next request, if anything, and count it."""
        drawn = self._random[place].random()
        for name, rate in self._rates.items():
            fault = FAULTS[name]
            if fault.place is not place:
                continue
            if drawn < rate:
                self.injected[name] += 1
                return fault
            drawn -= rate
        return None


def find_fault(name: str) -> Fault:
    """Give the fault of this name.

    Raises:
        SandboxError: there is none; the message names those that there are.
    """
    fault = FAULTS.get(name)
    if fault is None:
        near = get_close_matches(name, FAULTS, n=1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(FAULTS)}"
        raise SandboxError(f"there is no fault {name!r}: {meant}")
    return fault


def check_latency(latency: timedelta) -> timedelta:
    """Give the latency back.

    Raises:
        SandboxError: it is longer than `MAX_LATENCY`.
    """
    if latency > MAX_LATENCY:
        raise SandboxError(f"the latency is {format_duration(MAX_LATENCY)} at most")
    return latency


def parse_rates(written: Iterable[str]) -> dict[str, float]:
    """Read probabilities of faults, each written as in `drop=0.05`.

    Raises:
        SandboxError: one isn't written like that or named twice, no such fault, or no such probability.
    """
    rates: dict[str, float] = {}
    for each in written:
        name, equals, rate = each.partition("=")
        fault = find_fault(name.strip())
        if fault.name in rates:
            raise SandboxError(f"the fault {fault.name} is named twice")
        try:
            rates[fault.name] = float(rate) if equals else 1.0
        except ValueError:
            raise SandboxError(
                f"{each!r} is no fault with its probability: write it as in drop=0.05"
            ) from None
    return rates


def _make_streams(seed: int) -> dict[Place, Random]:
    # One a place, so that lists that are asked for more often change no send.
    return {place: Random(f"{seed}/{place}") for place in Place}


def _check_rate(name: str, rate: float) -> float:
    # Written so that NaN is refused too.
    if not 0 <= rate <= 1:
        raise SandboxError(f"the probability of {name} is {rate:g}; it must be from 0 to 1")
    return rate
