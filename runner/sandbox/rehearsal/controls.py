"""The controls of a sandbox, the same for commands, routes and forms: clock, people, faults and state."""

from __future__ import annotations

import math
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.sandbox.clock import Clock, format_duration, read_move
from runner.sandbox.commits import Changes
from runner.sandbox.rehearsal.faults import NO_LATENCY, Faults
from runner.sandbox.rehearsal.magic import AutoResponders
from runner.sandbox.rehearsal.simulate import simulate
from runner.sandbox.rehearsal.snapshot import restore_snapshot, take_snapshot
from runner.sandbox.sandbox_errors import RefusalError
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from runner.sandbox.webhooks.queue import resend_webhooks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runner.sandbox.rehearsal.participants import Habits
    from runner.sandbox.rehearsal.simulate import SimulationSummary


class ControlOutcome(NamedTuple):
    """What a control did, as a document for programs and in words for people."""

    document: dict[str, Any]
    words: str


class Controls:
    """The controls of one sandbox, which may be running; each opens its database for itself.

    Methods raise `SandboxError` where the database cannot be used.

    Args:
        db: the database.
        faults: the faults of the running service.
    """

    def __init__(self, db: Path, faults: Faults | None = None) -> None:
        self.db = db
        self.faults = faults or Faults()

    def show_clock(self) -> ControlOutcome:
        """Return the service's time."""
        with closing(open_store(self.db)) as store:
            return _describe_clock(Clock(store))

    def move_clock(self, move: str) -> ControlOutcome:
        """Move the clock, and do what falls due on the way.

        Args:
            move: as `read_move` reads it; `next` for the next moment at which a session expires or the owner
                of a magic number writes; `reset` for this machine's time.

        Raises:
            SandboxError: the move is no move, leads backwards, or nothing is due.
        """
        with closing(open_store(self.db)) as store:
            clock = Clock(store)
            if move == "reset":
                clock.reset()
            else:
                service = Service(store)
                responders = AutoResponders(service, clock=clock, changes=Changes(store))
                with store.write():
                    now = clock.now()
                    service.expire_sessions(now)
                    moment = responders.find_due() if move == "next" else read_move(move, now)
                    responders.advance(max(moment - now, timedelta()))
            return _describe_clock(clock)

    def simulate(self, seed: int, habits: Habits) -> ControlOutcome:
        """Let simulated participants answer all open sessions; the clock follows them."""
        summary = simulate(self.db, seed=seed, habits=habits)
        return ControlOutcome(summary.to_dict(), _describe_simulation(summary))

    def set_faults(self, rates: Mapping[str, float], latency: timedelta = NO_LATENCY) -> ControlOutcome:
        """Set the rates of faults, and the latency; faults that are not named end.

        Raises:
            SandboxError: unknown fault, invalid rate or latency; nothing has changed.
        """
        self.faults.replace(rates, latency)
        return ControlOutcome(
            {}, "The faults were set." if self.faults.rates or latency else "No faults are set."
        )

    def find_snapshot(self, name: str) -> Path:
        """Return the file of the snapshot with this name, beside the database."""
        return self.db.with_name("snapshots") / f"{name}.sqlite"

    def list_snapshots(self) -> list[Path]:
        """Return the files of all snapshots that go by a name, the newest first."""
        files = self.find_snapshot("*").parent.glob("*.sqlite")
        return sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)

    def take_snapshot(self, name: str) -> ControlOutcome:
        """Save the state under a name."""
        file = self.find_snapshot(name)
        file.parent.mkdir(mode=0o700, exist_ok=True)
        return ControlOutcome({"name": name, "bytes": self.copy_to(file)}, f"The snapshot {name} was taken.")

    def copy_to(self, file: Path) -> int:
        """Save the state in a file; return its size in bytes."""
        return take_snapshot(self.db, file)

    def go_back(self, file: Path | None) -> None:
        """Restore the state that a file has, or the empty beginning."""
        restore_snapshot(self.db, file)

    def reset(self, name: str | None = None, *, removes_all: bool = False) -> ControlOutcome:
        """Go back to a snapshot, or to the empty beginning; perhaps without snapshots and faults.

        Raises:
            RefusalError: 404, there is no such snapshot.
        """
        file = None if name is None else self.find_snapshot(name)
        if file is not None and not file.is_file():
            raise RefusalError(404, "not_found", "There is no snapshot of this name; nothing was reset.")
        self.go_back(file)
        if removes_all:
            self.faults.start_over()
            for snapshot in self.list_snapshots():
                snapshot.unlink(missing_ok=True)
        return ControlOutcome(
            {}, "Everything was reset." if name is None else f"The snapshot {name} was restored."
        )

    def resend_webhooks(self, number: int | None = None) -> ControlOutcome:
        """Have one webhook delivered again, or all that failed.

        Raises:
            RefusalError: 404, there is no such webhook that can be delivered.
        """
        with closing(open_store(self.db)) as store:
            count = resend_webhooks(store, number)
        if number is not None and not count:
            raise RefusalError(404, "not_found", "There is no webhook of this id that can be delivered.")
        return ControlOutcome({"resent": count}, f"{_count(count, 'webhook')} will be sent again.")


def _describe_clock(clock: Clock) -> ControlOutcome:
    now, offset = clock.now(), clock.offset()
    rounded = timedelta(seconds=round(offset.total_seconds()))
    ahead = f"{format_duration(rounded)} ahead of" if rounded else "that of"
    document = {"time": now.isoformat(), "clock_offset_s": offset.total_seconds()}
    return ControlOutcome(document, f"{now:%Y-%m-%d %H:%M:%S} UTC, {ahead} this machine")


def _describe_simulation(summary: SimulationSummary) -> str:
    if not summary.participants:
        return "Nobody is being asked anything."
    asked = "participant was" if summary.participants == 1 else "participants were"
    said = (
        f"{summary.participants:,} {asked} being asked: {summary.answered:,} answered, "
        f"{summary.silent:,} said nothing.\n"
        f"{_count(summary.results, 'result')} recorded, "
        f"{_count(summary.invalid_answers, 'invalid answer')}, "
        f"{_count(summary.sessions_completed, 'session')} completed."
    )
    if summary.opted_out:
        said += f"\n{_count(summary.opted_out, 'participant')} opted out."
    if summary.ended > summary.started:
        took = timedelta(seconds=math.ceil((summary.ended - summary.started).total_seconds()))
        said += f"\nThat took them {format_duration(took)}: the sandbox's clock has moved on to then."
    return said


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
