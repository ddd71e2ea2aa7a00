"""What tests and rehearsals do to a running service, beside its API: the routes below `/_sandbox/`.

They carry the same credentials as the API and are never a part of it: a real service has none of them.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runner.sandbox.clock import BACKWARDS
from runner.sandbox.definition import normalise_phone
from runner.sandbox.errors import BusyError, RefusalError, SandboxError
from runner.sandbox.listing import Listing
from runner.sandbox.rehearsal.cast import Cast
from runner.sandbox.rehearsal.faults import NO_LATENCY, check_latency
from runner.sandbox.rehearsal.personas import Habits, parse_shares
from runner.sandbox.rehearsal.simulate import simulate
from runner.sandbox.rehearsal.snapshot import restore_snapshot, take_snapshot
from runner.sandbox.store import find_database
from runner.sandbox.web.controlled import read_count, read_duration, read_object, read_text, require_known
from runner.sandbox.webhooks.queue import count_webhooks

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

    from runner.sandbox.changes import Changes
    from runner.sandbox.clock import Clock
    from runner.sandbox.rehearsal.faults import Faults
    from runner.sandbox.service import Service
    from runner.sandbox.web.credentials import Account, Endpoint
    from runner.sandbox.writer import Writer

FORMAT_VERSION = "1.0"
AWAITED = ("launches", "results", "sessions_complete")
_PATIENCE = timedelta(seconds=10)
_MOST_PATIENCE = timedelta(minutes=5)
_SNAPSHOT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


class Control:
    """The control routes of one running service.

    Args:
        service: what is controlled.
        writer: writes what participants say.
        clock: its time.
        changes: is told of what is done here, and wakes those who wait.
        faults: what may go wrong; changed here.
    """

    def __init__(
        self, service: Service, *, writer: Writer, clock: Clock, changes: Changes, faults: Faults
    ) -> None:
        self._service = service
        self._writer = writer
        self._clock = clock
        self._cast = Cast(service, clock=clock, changes=changes)
        self._changes = changes
        self._faults = faults
        self._listing = Listing(service.store, plan=service.plan)

    def routes(self, account: Account) -> list[Route]:
        """Give the routes; `account` is whose credentials every request must carry."""
        endpoints: list[tuple[str, str, Endpoint]] = [
            ("GET", "state", self.show_state),
            ("GET", "wait", self.wait),
            ("POST", "reply", self.reply),
            ("POST", "clock", self.move_clock),
            ("POST", "simulate", self.simulate),
            ("POST", "faults", self.set_faults),
            ("POST", "snapshot", self.take_snapshot),
            ("POST", "reset", self.reset),
        ]
        return [
            Route(f"/_sandbox/{name}", account.guard(_explained(endpoint)), methods=[method])
            for method, name, endpoint in endpoints
        ]

    async def show_state(self, _request: Request) -> Response:
        """Show the time, the counts and the faults."""
        await self._writer.expire_sessions()
        return JSONResponse(self._describe())

    async def wait(self, request: Request) -> Response:
        """Answer once the counts that the query names are reached: 200 with the state, or 408."""
        require_known(request.query_params, (*AWAITED, "timeout", "username", "api_key"))
        query = request.query_params
        wanted = {name: read_count(query[name], name) for name in AWAITED if name in query}
        if not wanted:
            raise RefusalError(400, "nothing_awaited", f"Say what to wait for: one of {', '.join(AWAITED)}.")
        patience = read_duration(query["timeout"], "timeout") if "timeout" in query else _PATIENCE
        if patience > _MOST_PATIENCE:
            raise RefusalError(400, "timeout_too_long", "The timeout is 5 minutes at most: 300 or 5m.")
        if await self._reach(wanted, patience.total_seconds()):
            return JSONResponse(self._describe())
        counts = self._count()
        lacking = [f"{name}: {counts[name]} of {count}" for name, count in wanted.items()]
        raise RefusalError(408, "not_reached", "What was waited for did not come in time.", lacking)

    async def reply(self, request: Request) -> Response:
        """Take a text from a participant, as if their phone had sent it."""
        body = await read_object(request, ("phone", "text"))
        phone = normalise_phone(read_text(body, "phone"))
        if phone is None:
            raise RefusalError(400, "invalid_body", "phone: is no phone number of 7 to 15 digits.")
        receipt = await self._writer.receive(phone, read_text(body, "text"))
        asked = receipt.prompt.question.text if receipt.prompt else None
        return JSONResponse(
            {
                "was_expected": receipt.was_expected,
                "result_guid": receipt.result_guid,
                "keyword": receipt.keyword,
                "sessions_completed": receipt.completed,
                "asked": asked,
            }
        )

    async def move_clock(self, request: Request) -> Response:
        """Move the service's clock forward, or set it to the machine's."""
        body = await read_object(request, ("advance", "reset"))
        if body.get("reset") is True and "advance" not in body:
            await self._writer.write(self._clock.reset)
        elif "advance" in body and "reset" not in body:
            written = read_text(body, "advance")
            if written.lstrip().startswith("-"):
                raise SandboxError(BACKWARDS)
            length = read_duration(written, "advance")
            await self._writer.write(lambda: self._cast.advance(length))
        else:
            raise RefusalError(400, "invalid_body", 'Say {"advance": "2d"} or {"reset": true}.')
        return JSONResponse(self._describe())

    async def simulate(self, request: Request) -> Response:
        """Let simulated participants answer every open session, and tell what they did once they have."""
        body = await read_object(request, ("seed", "response_rate", "personas"))
        seed, rate = body.get("seed", 1), body.get("response_rate", Habits().response_rate)
        shares = body.get("personas", {})
        if (
            type(seed) is not int
            or not isinstance(shares, dict)
            or not all(map(_is_share, (rate, *shares.values())))
        ):
            message = 'Say it as in {"seed": 7, "response_rate": 0.6, "personas": {"promoter": 0.3}}.'
            raise RefusalError(400, "invalid_body", message)
        personas = parse_shares(f"{name}={share}" for name, share in shares.items())
        db = find_database(self._service.store)
        answering = partial(simulate, db, seed=seed, response_rate=rate, personas=personas)
        summary = await asyncio.to_thread(answering)
        self._changes.note()
        times = {"started": summary.started.isoformat(), "ended": summary.ended.isoformat()}
        return JSONResponse({**asdict(summary), **times})

    async def set_faults(self, request: Request) -> Response:
        """Set which faults may happen, and the latency; what isn't named ends."""
        body = await read_object(request, ("rates", "latency"))
        rates = body.get("rates", {})
        if not isinstance(rates, dict) or not all(_is_share(rate) for rate in rates.values()):
            raise RefusalError(400, "invalid_body", 'rates: must be from 0 to 1, as in {"drop": 0.05}.')
        latency = read_duration(read_text(body, "latency"), "latency") if "latency" in body else NO_LATENCY
        check_latency(latency)
        self._faults.replace(rates)
        self._faults.latency = latency
        return JSONResponse(self._describe())

    async def take_snapshot(self, request: Request) -> Response:
        """Put the state aside under a name, in the folder `snapshots` beside the database."""
        file = self._find_snapshot(read_text(await read_object(request, ("name",)), "name"))
        file.parent.mkdir(mode=0o700, exist_ok=True)
        size = await asyncio.to_thread(take_snapshot, find_database(self._service.store), file)
        return JSONResponse({"name": file.stem, "bytes": size})

    async def reset(self, request: Request) -> Response:
        """Put the state back to a snapshot, by its name, or to the beginning: `all` there is, or it alone."""
        body = await read_object(request, ("to", "all"))
        if body.get("all", True) is not True or len(body) > 1:
            raise RefusalError(400, "invalid_body", 'Say {"to": "name"} or {"all": true}, or nothing.')
        file = self._find_snapshot(read_text(body, "to")) if "to" in body else None
        if file is not None and not file.is_file():
            raise RefusalError(404, "not_found", "There is no snapshot of this name.")
        try:
            await asyncio.to_thread(restore_snapshot, find_database(self._service.store), file)
        except BusyError:
            message = "The database is locked by another process; nothing was reset."
            raise RefusalError(503, "busy", message) from None
        if "all" in body:
            self._faults.start_over()
            for snapshot in self._snapshots().glob("*.sqlite"):
                snapshot.unlink(missing_ok=True)
        self._changes.note()
        return JSONResponse(self._describe())

    def _find_snapshot(self, name: str) -> Path:
        # A name and no path: who may call a service may not write all over its machine.
        if not _SNAPSHOT_NAME.fullmatch(name):
            raise RefusalError(400, "invalid_body", "The name must be letters, digits, - and _, 64 at most.")
        return self._snapshots() / f"{name}.sqlite"

    def _snapshots(self) -> Path:
        return find_database(self._service.store).with_name("snapshots")

    async def _reach(self, wanted: dict[str, int], timeout_s: float) -> bool:
        """Wait until every count is what is wanted, or more; tell whether they are."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout_s
        while True:
            await self._writer.expire_sessions()
            revision = self._changes.revision
            counts = self._count()
            if all(counts[name] >= count for name, count in wanted.items()):
                return True
            if (left := ends - loop.time()) <= 0:
                return False
            await self._changes.wait(revision, left)

    def _count(self) -> dict[str, int]:
        _, usage = self._listing.list_stats({}, 0, 0)
        totals = usage["totals"]
        return {
            "launches": totals["launches"],
            "results": totals["results"],
            "sessions_complete": totals["complete_sessions"],
            "sessions_active": totals["active_sessions"],
            "sessions_queued": totals["queued_sessions"],
            "renders": totals["renders"],
        }

    def _describe(self) -> dict[str, Any]:
        return {
            "format_version": FORMAT_VERSION,
            "time": self._clock.now().isoformat(),
            "clock_offset_s": self._clock.offset().total_seconds(),
            **self._count(),
            "webhooks": count_webhooks(self._service.store),
            "faults": {
                "rates": dict(self._faults.rates),
                "latency_s": self._faults.latency.total_seconds(),
                "injected": dict(self._faults.injected),
            },
        }


def _explained(endpoint: Endpoint) -> Endpoint:
    """Answer what the sandbox says about its user's mistakes as a refusal."""

    async def call(request: Request) -> Response:
        try:
            return await endpoint(request)
        except SandboxError as error:
            raise RefusalError(400, "impossible", _write_sentence(str(error))) from None

    return call


def _write_sentence(message: str) -> str:
    return f"{message[:1].upper()}{message[1:]}" + ("" if message.endswith("?") else ".")


def _is_share(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
