"""Forms: the clock, simulated participants, faults, snapshots, and webhooks to send again."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING

from runner.sandbox.clock import BACKWARDS
from runner.sandbox.inbox.access import read_form
from runner.sandbox.inbox.pages import redirect
from runner.sandbox.rehearsal.faults import FAULTS, NO_LATENCY, check_latency
from runner.sandbox.rehearsal.magic import AutoResponders
from runner.sandbox.rehearsal.participants import PERSONAS, PersonaHabits, parse_shares
from runner.sandbox.rehearsal.simulate import simulate
from runner.sandbox.rehearsal.snapshot import restore_snapshot, take_snapshot
from runner.sandbox.sandbox_errors import RefusalError, SandboxError
from runner.sandbox.store import find_database
from runner.sandbox.web.control import read_count, read_duration
from runner.sandbox.webhooks.queue import resend_webhooks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from starlette.requests import Request
    from starlette.responses import Response

    from runner.sandbox.commits import Writer
    from runner.sandbox.rehearsal.faults import Fault, Faults
    from runner.sandbox.rehearsal.participants import PersonaKind
    from runner.sandbox.web.refusals import Endpoint

CONTROLS_PATH = "/controls"
WEBHOOKS_PATH = "/webhooks"
_MORNING = time(9)
_DAY = timedelta(days=1)
_PERCENT = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3})?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ControlState:
    """The content of the page of controls.

    Attributes:
        outcome: of the last action on this page since the service started, if any.
        percents: of each fault, by its name.
        snapshots: names, the newest first.
    """

    outcome: str
    personas: Mapping[str, PersonaKind]
    response_percent: float
    faults: Mapping[str, Fault]
    percents: Mapping[str, float]
    latency_ms: int
    injected: int
    snapshots: Sequence[str]


class Controls:
    """The forms of one running service; `token` is that of its forms."""

    def __init__(self, writer: Writer, faults: Faults, token: str) -> None:
        self._writer = writer
        self._store = writer.service.store
        self._faults = faults
        self._token = token
        self._auto_responders = AutoResponders(writer.service, clock=writer.clock, changes=writer.changes)
        self._outcomes: dict[str, str] = {}
        self._is_busy = False

    def list_forms(self) -> Mapping[str, Endpoint]:
        """Return the endpoint of each form, by its path."""
        forms = {
            "clock": self._move_clock,
            "simulate": self._simulate,
            "faults": self._set_faults,
            "snapshot": self._take_snapshot,
            "reset": self._reset,
        }
        return {
            **{f"/_sandbox/inbox/{name}": self._act(form, CONTROLS_PATH) for name, form in forms.items()},
            "/_sandbox/inbox/resend": self._act(self._resend_webhooks, WEBHOOKS_PATH),
        }

    def describe(self) -> ControlState:
        """Return what the page shows."""
        files = self._snapshots().glob("*.sqlite")
        return ControlState(
            outcome=self.read_outcome(CONTROLS_PATH),
            personas=PERSONAS,
            response_percent=PersonaHabits().response_rate * 100,
            faults=FAULTS,
            percents={name: rate * 100 for name, rate in self._faults.rates.items()},
            latency_ms=round(self._faults.latency / timedelta(milliseconds=1)),
            injected=sum(self._faults.injected.values()),
            snapshots=[file.stem for file in sorted(files, key=_read_age, reverse=True)],
        )

    def read_outcome(self, page: str) -> str:
        """Return what the last form of a page did since the service started, if any did something."""
        return self._outcomes.get(page, "")

    def _act(self, action: Callable[[Mapping[str, str]], Awaitable[str]], page: str) -> Endpoint:
        async def call(request: Request) -> Response:
            form = await read_form(request, self._token)
            try:
                self._outcomes[page] = await action(form)
            except SandboxError as error:
                message = str(error)
                raise RefusalError(400, "impossible", f"{message[:1].upper()}{message[1:]}.") from None
            self._writer.changes.note()
            return redirect(page)

        return call

    async def _move_clock(self, form: Mapping[str, str]) -> str:
        move = form.get("move", "")
        if move == "reset":
            await self._writer.write(self._writer.clock.reset)
            return "The clock shows this machine's time again."
        if move.lstrip().startswith("-"):
            raise SandboxError(BACKWARDS)
        length = None if move == "morning" else read_duration(move, "The clock")

        def advance() -> datetime:
            by = _find_morning(self._writer.clock.now()) if length is None else length
            return self._auto_responders.advance(by)

        now = await self._writer.write(advance)
        return f"The clock was moved to {now.day} {now:%b %Y, %H:%M} UTC."

    async def _simulate(self, form: Mapping[str, str]) -> str:
        rate = _read_share(form.get("response", ""), "Those who reply")
        shares = {name: _read_share(form.get(f"persona.{name}", ""), name) for name in PERSONAS}
        personas = parse_shares(f"{name}={share}" for name, share in shares.items() if share)
        seed = read_count(form.get("seed", "1").strip() or "1", "seed")
        answering = partial(
            simulate, find_database(self._store), seed=seed, response_rate=rate, personas=personas
        )
        if self._is_busy:
            raise RefusalError(409, "busy", "Participants are answering already; wait until they have done.")
        self._is_busy = True
        try:
            summary = await asyncio.to_thread(answering)
        finally:
            self._is_busy = False
        return (
            f"{summary.participants:,} simulated people had a question: {summary.answered:,} answered, "
            f"{summary.silent:,} were silent, {summary.opted_out:,} opted out."
        )

    async def _set_faults(self, form: Mapping[str, str]) -> str:
        rates = {name: _read_share(form.get(f"fault.{name}", ""), name) for name in FAULTS}
        written = form.get("latency", "").strip()
        latency = check_latency(read_duration(f"{written}ms", "Latency")) if written else NO_LATENCY
        self._faults.replace(rates)
        self._faults.latency = latency
        return "The faults were set." if self._faults.rates or latency else "No faults are set."

    async def _take_snapshot(self, form: Mapping[str, str]) -> str:
        file = self._find_snapshot(form)
        file.parent.mkdir(mode=0o700, exist_ok=True)
        await asyncio.to_thread(take_snapshot, find_database(self._store), file)
        return f"The snapshot {file.stem} was taken."

    async def _reset(self, form: Mapping[str, str]) -> str:
        if form.get("sure") != "yes":
            raise RefusalError(400, "not_confirmed", "Tick the box that confirms it; nothing was reset.")
        file = self._find_snapshot(form) if form.get("name") else None
        if file is not None and not file.is_file():
            raise RefusalError(404, "not_found", "There is no snapshot of this name; nothing was reset.")
        await asyncio.to_thread(restore_snapshot, find_database(self._store), file)
        return f"The snapshot {file.stem} was restored." if file else "Everything was reset."

    async def _resend_webhooks(self, form: Mapping[str, str]) -> str:
        written = form.get("id", "")
        number = read_count(written, "id") if written else None
        count = await self._writer.write(lambda: resend_webhooks(self._store, number))
        if number is not None and not count:
            message = "There is no webhook of this id that can be delivered."
            raise RefusalError(404, "not_found", message)
        return f"{count:,} webhook{'' if count == 1 else 's'} will be sent again."

    def _find_snapshot(self, form: Mapping[str, str]) -> Path:
        name = form.get("name", "").strip()
        if not _NAME.fullmatch(name):
            raise RefusalError(400, "invalid_name", "The name must be letters, digits, - and _, 64 at most.")
        return self._snapshots() / f"{name}.sqlite"

    def _snapshots(self) -> Path:
        return find_database(self._store).with_name("snapshots")


def _find_morning(now: datetime) -> timedelta:
    """Return the time until the next 9:00 UTC, more than none."""
    morning = datetime.combine(now.date(), _MORNING, now.tzinfo)
    return morning - now if morning > now else morning + _DAY - now


def _read_share(written: str, name: str) -> float:
    """Return a share of a form's percentage; an empty one is none."""
    text = written.strip() or "0"
    share = float(text) / 100 if _PERCENT.fullmatch(text) else 2.0
    if share > 1:
        raise RefusalError(400, "invalid_share", f"{name}: must be from 0 to 100 percent.")
    return share


def _read_age(file: Path) -> float:
    return file.stat().st_mtime
