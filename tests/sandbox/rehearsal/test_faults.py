"""Faults: which requests meet them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runner.sandbox.rehearsal.faults import FAULTS, FaultPlace, Faults, parse_rates
from runner.sandbox.sandbox_errors import SandboxError


def draw(faults: Faults, place: FaultPlace, count: int) -> list[str | None]:
    decided = [faults.decide(place) for _ in range(count)]
    return [fault.name if fault else None for fault in decided]


def test_same_seed_gives_the_same_faults() -> None:
    """The same seed decides the same, another one otherwise."""
    rates = {"drop": 0.2, "500": 0.2, "late-list": 0.5}
    first, again, other = (draw(Faults(rates, seed=seed), FaultPlace.SEND, 200) for seed in (1, 1, 2))
    assert first == again != other


def test_lists_change_no_send() -> None:
    """How often lists are asked for changes nothing about the faults of sends."""
    rates = {"drop": 0.3, "shuffle-list": 0.3}
    quiet, busy = Faults(rates), Faults(rates)
    draw(busy, FaultPlace.LIST, 37)
    assert draw(quiet, FaultPlace.SEND, 100) == draw(busy, FaultPlace.SEND, 100)


def test_rates_are_kept_and_counted() -> None:
    """Each fault befalls about its share of the requests of its place, and is counted."""
    faults = Faults({"drop": 0.25, "500": 0.5, "500-list": 1})
    drawn = draw(faults, FaultPlace.SEND, 4000)
    assert 0.22 < drawn.count("drop") / 4000 < 0.28
    assert 0.46 < drawn.count("500") / 4000 < 0.54
    assert draw(faults, FaultPlace.LIST, 3) == ["500-list"] * 3
    assert dict(faults.injected) == {"drop": drawn.count("drop"), "500": drawn.count("500"), "500-list": 3}


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"drp": 0.1}, f"there is no fault 'drp'; there are {', '.join(FAULTS)}"),
        ({"drop": 1.5}, "the probability of drop is 1.5; it must be from 0 to 1"),
        ({"drop": float("nan")}, "the probability of drop is nan; it must be from 0 to 1"),
        ({"drop": 0.6, "500": 0.6}, "the faults of a send add up to 1.2; they may be 1 at most"),
    ],
)
def test_impossible_rates_are_refused(rates: dict[str, float], message: str) -> None:
    """Unknown names and impossible probabilities are refused, and what was set before stays."""
    faults = Faults({"half": 1})
    with pytest.raises(SandboxError) as error:
        faults.replace(rates)
    assert (str(error.value), faults.rates) == (message, {"half": 1})


def test_faults_start_over() -> None:
    """What starts over decides the same again, has counted nothing, and lets nothing happen."""
    faults = Faults({"drop": 0.5}, latency=timedelta(seconds=1))
    first = draw(faults, FaultPlace.SEND, 100)
    faults.start_over()
    assert (faults.rates, faults.latency, faults.injected) == ({}, timedelta(), {})
    faults.replace({"drop": 0.5})
    assert draw(faults, FaultPlace.SEND, 100) == first


def test_rates_are_read_as_written() -> None:
    """`name=share` is read; a name alone is always."""
    assert parse_rates(["drop=0.05", "500"]) == {"drop": 0.05, "500": 1.0}


@pytest.mark.parametrize("written", ["drop=", "drop=often"])
def test_other_words_are_refused(written: str) -> None:
    """What is no fault with its share is refused."""
    with pytest.raises(SandboxError):
        parse_rates(["500=0.1", written])
