"""Looks again at launches whose intent is durable and that have not left yet: people opt out while they wait.

A launch may wait for long behind its intent: for the pace, for what a `Retry-After` asks, for its next
try, for a slow service to free a thread. So it is asked about again right before each request, unless that
was done less than `FRESH_S` ago. One reading is for all that wait: there is at most one in `FRESH_S`, and
none at all while launches leave sooner than that after their intent.

What is left: an opt-out that is committed within `FRESH_S` before a request leaves may come too late for
it, and so may one that is committed while the request connects. On a machine that sleeps, the seconds are
those in which it is awake. The frequency cap is not counted again: the intent itself holds its place, and
another run counts it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runner.deliver.crew import Flight
    from runner.deliver.gate import Gate
    from runner.ledger.database import Ledger

OPTED_OUT = "somebody of it opted out before its turn"
"""The detail of a launch that was not sent because of that."""
FRESH_S = 1.0
"""How long the answer that nobody of a launch has opted out is good for, in seconds."""


@dataclass(slots=True)
class _Waiting:
    """A launch that waits, and what was last found about it."""

    phones: tuple[str, ...]
    asked_at: float
    has_opted_out: bool = False


class Watch:
    """Knows, to a second, whether somebody of a launch has opted out. Any thread may ask.

    Args:
        ledger: is read.
        gate: says who has opted out.
        clock: returns seconds that never go back.
    """

    def __init__(self, ledger: Ledger, gate: Gate, clock: Callable[[], float]) -> None:
        self._ledger = ledger
        self._gate = gate
        self._clock = clock
        self._turn = threading.Lock()
        self._waiting: dict[int, _Waiting] = {}

    def enter(self, flights: Iterable[Flight], asked_at: float) -> None:
        """Look after launches from now on.

        Args:
            flights: nobody of them had opted out.
            asked_at: when that was asked, on the clock; a moment before does no harm.
        """
        with self._turn:
            for flight in flights:
                self._waiting[flight.launch_id] = _Waiting(flight.launch.phones, asked_at)

    def leave(self, flights: Iterable[Flight]) -> None:
        """Look after launches no longer."""
        with self._turn:
            for flight in flights:
                self._waiting.pop(flight.launch_id, None)

    def has_opted_out(self, flight: Flight) -> bool:
        """Return whether somebody of a launch has opted out, or may have.

        Args:
            flight: was entered, and has not left.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        waiting = self._waiting[flight.launch_id]
        if not self._is_fresh(waiting):
            with self._turn:
                # Another thread may have read it for all meanwhile.
                if not self._is_fresh(waiting):
                    self._read()
        return waiting.has_opted_out

    def _is_fresh(self, waiting: _Waiting) -> bool:
        return self._clock() - waiting.asked_at < FRESH_S

    def _read(self) -> None:
        asked_at, everybody = self._clock(), list(self._waiting.values())
        with self._ledger.reading() as connection:
            found = self._gate.find_opted_out(connection, (p for one in everybody for p in one.phones))
        for waiting in everybody:
            waiting.has_opted_out = not found.isdisjoint(waiting.phones)
            waiting.asked_at = asked_at
