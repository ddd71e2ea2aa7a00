"""The controls of a sandbox: clock, people, faults and state.

Each action is one class: its fields are the body of a request, the fields of a form, and the options of a
command; `act` does it.
"""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from runner.sandbox.clock import Clock, format_duration, parse_duration, read_move
from runner.sandbox.rehearsal.faults import Faults
from runner.sandbox.rehearsal.participants import Habits, Share
from runner.sandbox.rehearsal.simulate import simulate
from runner.sandbox.sandbox_errors import RefusalError, SandboxError
from runner.sandbox.service import Service
from runner.sandbox.sessions import find_next_expiry
from runner.sandbox.store import empty_store, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runner.sandbox.rehearsal.simulate import SimulationSummary

Wanted = TypeVar("Wanted", bound=Struct)
# Within the numbers of SQLite.
Count = Annotated[int, Meta(ge=0, lt=2**60)]


class ControlOutcome(NamedTuple):
    """The effect of a control, as a document for programs and in words for people."""

    document: dict[str, Any]
    words: str


@dataclass(frozen=True, slots=True)
class ControlledSandbox:
    """A sandbox, which may be running: its database, and the faults of the running service."""

    db: Path
    faults: Faults = field(default_factory=Faults)

    def show_clock(self) -> ControlOutcome:
        """Return the service's time."""
        with closing(open_store(self.db)) as store:
            return _describe_clock(Clock(store))


class Action(Struct, forbid_unknown_fields=True, frozen=True):
    """Something that is done to a sandbox."""

    def act(self, sandbox: ControlledSandbox) -> ControlOutcome:
        """Do it.

        Raises:
            RefusalError: the fields contradict each other.
            SandboxError: the database cannot be used, or the action is impossible; nothing has changed.
        """
        raise NotImplementedError


class MoveClock(Action, frozen=True):
    """Move the clock; sessions that are due by then expire.

    `advance` is as `read_move` reads it; `next` stands for the next moment at which a session expires,
    `reset` for this machine's time.
    """

    advance: str = ""

    def act(self, sandbox: ControlledSandbox) -> ControlOutcome:
        """Do it: see `Action.act`."""
        if not self.advance:
            raise RefusalError(400, "invalid_body", 'Say {"advance": "2d"} or {"advance": "reset"}.')
        with closing(open_store(sandbox.db)) as store:
            clock = Clock(store)
            if self.advance == "reset":
                clock.reset()
                return _describe_clock(clock)
            service = Service(store)
            with store.write() as connection:
                now = clock.now()
                service.expire_sessions(now)
                moment = (
                    find_next_expiry(connection) if self.advance == "next" else read_move(self.advance, now)
                )
                if moment is None:
                    raise SandboxError("nothing is due: no session waits for an answer")
                service.expire_sessions(clock.advance(moment - now))
            return _describe_clock(clock)


class Simulate(Habits, Action, frozen=True):
    """Let simulated participants with these habits answer all open sessions; the clock follows them."""

    seed: Count = 1

    def act(self, sandbox: ControlledSandbox) -> ControlOutcome:
        """Do it: see `Action.act`."""
        summary = simulate(sandbox.db, seed=self.seed, habits=self)
        return ControlOutcome(summary.to_dict(), _describe_simulation(summary))


class SetFaults(Action, frozen=True):
    """Set the rates of faults, and the latency; faults that are not named end."""

    rates: dict[str, Share] = {}
    latency: str = "0s"

    def act(self, sandbox: ControlledSandbox) -> ControlOutcome:
        """Do it: see `Action.act`."""
        try:
            latency = parse_duration(self.latency)
        except ValueError as error:
            raise SandboxError(f"latency: {error}") from None
        sandbox.faults.replace(self.rates, latency)
        return ControlOutcome({}, "The faults were set.")


class Reset(Action, frozen=True):
    """Delete all records and set the clock to this machine's time; faults end."""

    def act(self, sandbox: ControlledSandbox) -> ControlOutcome:
        """Do it: see `Action.act`."""
        with closing(open_store(sandbox.db)) as store:
            empty_store(store)
        sandbox.faults.start_over()
        return ControlOutcome({}, "Everything was reset.")


ACTIONS: Mapping[str, type[Action]] = {
    "clock": MoveClock,
    "simulate": Simulate,
    "faults": SetFaults,
    "reset": Reset,
}
"""By name, as in the routes' paths."""


def read_values(values: Mapping[str, object], wanted: type[Wanted]) -> Wanted:
    """Return the values of a query, form or command; numbers may be texts.

    Raises:
        RefusalError: 400, with what is wrong.
    """
    try:
        return msgspec.convert(values, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise RefusalError(400, "invalid_parameter", "What was asked cannot be read.", [str(error)]) from None


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
