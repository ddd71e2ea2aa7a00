"""The service's clock: this machine's, moved for every process at once."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from runner.sandbox.clock import Clock
from runner.sandbox.model import Definition, ServiceQuestion
from runner.sandbox.sandbox_errors import SandboxError
from runner.sandbox.service import Service
from runner.sandbox.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.fixture
def store(db: Path) -> Iterator[Store]:
    with closing(open_store(db)) as opened:
        yield opened


def test_clock_shows_the_time_of_the_machine(store: Store) -> None:
    """A clock that nobody moved shows the machine's time."""
    assert (Clock(store, lambda: NOON).now(), Clock(store).offset()) == (NOON, timedelta())


def test_moves_add_up_for_everybody(db: Path, store: Store) -> None:
    """Every process on the file sees all moves at once."""
    clock = Clock(store, lambda: NOON)
    clock.advance(timedelta(days=2))
    with closing(open_store(db)) as other:
        assert Clock(other, lambda: NOON).advance(timedelta(hours=1)) == NOON + timedelta(days=2, hours=1)
    assert clock.now() == NOON + timedelta(days=2, hours=1)


def test_clock_reaches_a_moment_once(store: Store) -> None:
    """A moment that is ahead is reached, and one that has passed changes nothing."""
    clock = Clock(store, lambda: NOON)
    for hours in (2, 1):
        clock.reach(NOON + timedelta(hours=hours))
        assert clock.now() == NOON + timedelta(hours=2)


@pytest.mark.parametrize(("days", "text", "latest"), [(1, "HELP", "2026-12-02"), (9, None, "2026-12-08")])
def test_reset_spares_the_order_of_records(store: Store, days: int, text: str | None, latest: str) -> None:
    """`reset` is refused while something is recorded that is later than the machine's time."""
    clock, service = Clock(store, lambda: NOON), Service(store)
    definition = Definition('{"questions": [{"text": "Q"}]}', questions=(ServiceQuestion("Q"),))
    service.send(definition, ["+14155550101"], NOON)
    assert clock.reset() == NOON
    later = clock.advance(timedelta(days=days))
    if text is None:
        service.expire_sessions(later)
    else:
        service.receive("+14155550101", text, later)
    with pytest.raises(SandboxError, match=f"there are records of {latest} 12:00:00 UTC"):
        clock.reset()
    assert clock.now() == later


def test_reset_goes_back_to_the_machine(store: Store) -> None:
    """`reset` makes it the machine's time again."""
    clock = Clock(store, lambda: NOON)
    clock.advance(timedelta(days=2))
    assert clock.reset() == NOON


@pytest.mark.parametrize("length", [timedelta(seconds=-1), timedelta(days=4000), timedelta.max])
def test_impossible_moves_are_refused(store: Store, length: timedelta) -> None:
    """A move back, and one of more than ten years, is refused and changes nothing."""
    clock = Clock(store, lambda: NOON)
    clock.advance(timedelta(days=1))
    with pytest.raises(SandboxError):
        clock.advance(length)
    assert clock.now() == NOON + timedelta(days=1)
