"""The controls of a sandbox: clock, people, faults, snapshots and webhooks.

Each action is one class: its fields are the body of a request, the fields of a form, and the options of a
command; `act` does it.
"""

from __future__ import annotations

import math
import re
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from runner.sandbox.clock import Clock, format_duration, parse_duration, read_move
from runner.sandbox.commits import Changes
from runner.sandbox.rehearsal.faults import Faults
from runner.sandbox.rehearsal.magic import AutoResponders
from runner.sandbox.rehearsal.participants import Habits, Share
from runner.sandbox.rehearsal.simulate import simulate
from runner.sandbox.rehearsal.snapshot import restore_snapshot, take_snapshot
from runner.sandbox.sandbox_errors import RefusalError, SandboxError
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from runner.sandbox.webhooks.queue import resend_webhooks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runner.sandbox.rehearsal.simulate import SimulationSummary

Wanted = TypeVar("Wanted", bound=Struct)
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?", re.ASCII)
# Within the numbers of SQLite.
Count = Annotated[int, Meta(ge=0, lt=2**60)]
Id = Annotated[int, Meta(ge=1, lt=2**60)]
# A name, not a path: clients of a service may not write anywhere on its machine.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class ControlOutcome(NamedTuple):
    """The effect of a control, as a document for programs and in words for people."""

    document: dict[str, Any]
    words: str


@dataclass(frozen=True, slots=True)
class ControlledSandbox:
    """A sandbox, which may be running: its database, and the faults of the running service."""

    db: Path
    faults: Faults = field(default_factory=Faults)

    @property
    def _folder(self) -> Path:
        return self.db.with_name("snapshots")

    def show_clock(self) -> ControlOutcome:
        """Return the service's time.

        Raises:
            SandboxError: the database cannot be used.
        """
        with closing(open_store(self.db)) as store:
            return _describe_clock(Clock(store))

    def find_snapshot(self, name: str) -> Path:
        """Return the file of the snapshot with this name, beside the database.

        Raises:
            SandboxError: it cannot be a name.
        """
        if not _NAME.fullmatch(name):
            raise SandboxError(f"{name!r} is no name for a snapshot: take up to 64 letters, digits, - and _")
        return self._folder / f"{name}.sqlite"

    def list_snapshots(self) -> list[Path]:
        """Return the files of all snapshots, the newest first."""
        files = self._folder.glob("*.sqlite")
        return sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)


class Action(Struct, forbid_unknown_fields=True, frozen=True):
    """Something that is done to a sandbox."""

    def act(self, sandbox: ControlledSandbox) -> ControlOutcome:
        """Do it.

        Raises:
            RefusalError: the fields contradict each other, or name what is not there.
            SandboxError: the database cannot be used, or the action is impossible; nothing has changed.
        """
        raise NotImplementedError


class MoveClock(Action, frozen=True):
    """Move the clock, and do what falls due on the way.

    Attributes:
        advance: as `read_move` reads it; `next` for the next moment at which a session expires or the owner
            of a magic number writes; `reset` as the other attribute.
        reset: set the clock to this machine's time.
    """

    advance: str = ""
    reset: bool = False

    def act(self, sandbox: ControlledSandbox) -> ControlOutcome:
        """Do it: see `Action.act`."""
        if bool(self.advance) == self.reset:
            raise RefusalError(400, "invalid_body", 'Say {"advance": "2d"} or {"reset": true}.')
        with closing(open_store(sandbox.db)) as store:
            clock = Clock(store)
            if self.reset or self.advance == "reset":
                clock.reset()
                return _describe_clock(clock)
            service = Service(store)
            responders = AutoResponders(service, clock=clock, changes=Changes(store))
            with store.write():
                now = clock.now()
                service.expire_sessions(now)
                moment = read_move(self.advance, now) if self.advance != "next" else responders.find_due()
                if moment is None:
                    raise SandboxError("nothing is due: no session waits for an answer")
                responders.advance(max(moment - now, timedelta()))
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
    latency: str = "0"

    def act(self, sandbox: ControlledSandbox) -> ControlOutcome:
        """Do it: see `Action.act`."""
        latency = read_seconds(self.latency, "latency")
        sandbox.faults.replace(self.rates, latency)
        is_set = sandbox.faults.rates or latency
        return ControlOutcome({}, "The faults were set." if is_set else "No faults are set.")


class TakeSnapshot(Action, frozen=True):
    """Save the state under a name."""

    name: str

    def act(self, sandbox: ControlledSandbox) -> ControlOutcome:
        """Do it: see `Action.act`."""
        size = take_snapshot(sandbox.db, sandbox.find_snapshot(self.name))
        return ControlOutcome({"name": self.name, "bytes": size}, f"The snapshot {self.name} was taken.")


class ResetState(Action, frozen=True):
    """Go back to a snapshot, or to the empty beginning; with `all`, without snapshots and faults."""

    to: str | None = None
    all: bool = False

    def act(self, sandbox: ControlledSandbox) -> ControlOutcome:
        """Do it: see `Action.act`."""
        if self.to is not None and self.all:
            raise RefusalError(400, "invalid_body", 'Say {"to": "name"} or {"all": true}, or nothing.')
        file = None if self.to is None else sandbox.find_snapshot(self.to)
        if file is not None and not file.is_file():
            raise RefusalError(404, "not_found", "There is no snapshot of this name; nothing was reset.")
        restore_snapshot(sandbox.db, file)
        if self.all:
            sandbox.faults.start_over()
            for snapshot in sandbox.list_snapshots():
                snapshot.unlink(missing_ok=True)
        words = "Everything was reset." if file is None else f"The snapshot {self.to} was restored."
        return ControlOutcome({"reset_to": self.to}, words)


class ResendWebhooks(Action, frozen=True):
    """Have one webhook delivered again, or all that failed."""

    id: Id | None = None
    state: Literal["FAILED"] | None = None

    def act(self, sandbox: ControlledSandbox) -> ControlOutcome:
        """Do it: see `Action.act`."""
        if (self.id is None) == (self.state is None):
            raise RefusalError(400, "invalid_body", 'Say {"id": 3} or {"state": "FAILED"}.')
        with closing(open_store(sandbox.db)) as store:
            count = resend_webhooks(store, self.id)
        if self.id is not None and not count:
            raise RefusalError(404, "not_found", "There is no webhook of this id that can be delivered.")
        return ControlOutcome({"resent": count}, f"{_count(count, 'webhook')} will be sent again.")


ACTIONS: Mapping[str, type[Action]] = {
    "clock": MoveClock,
    "simulate": Simulate,
    "faults": SetFaults,
    "snapshot": TakeSnapshot,
    "reset": ResetState,
    "webhooks/resend": ResendWebhooks,
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


def read_seconds(written: str, name: str) -> timedelta:
    """Return a duration: a number of seconds, or as in `50ms` or `2d`.

    Raises:
        SandboxError: it is neither; the message begins with `name`.
    """
    try:
        return parse_duration(f"{written}s" if _SECONDS.fullmatch(written) else written)
    except ValueError as error:
        raise SandboxError(f"{name}: {error}") from None


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
