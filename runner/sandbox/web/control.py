"""Control routes for tests and rehearsals, below `/_sandbox/`, and the reading of their requests.

They take the API's credentials, but real services have none of them.
"""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runner.sandbox.clock import BACKWARDS, TooLongError, parse_duration
from runner.sandbox.definition import explain_json, normalise_phone
from runner.sandbox.records import RecordList
from runner.sandbox.rehearsal.faults import NO_LATENCY, check_latency
from runner.sandbox.rehearsal.magic import AutoResponders
from runner.sandbox.rehearsal.participants import PersonaHabits, parse_shares
from runner.sandbox.rehearsal.simulate import simulate
from runner.sandbox.rehearsal.snapshot import restore_snapshot, take_snapshot
from runner.sandbox.sandbox_errors import BusyError, RefusalError, SandboxError
from runner.sandbox.store import find_database
from runner.sandbox.web.refusals import read_body
from runner.sandbox.webhooks.queue import count_webhooks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from starlette.requests import Request

    from runner.sandbox.commits import Writer
    from runner.sandbox.rehearsal.faults import Faults
    from runner.sandbox.web.refusals import Account, Endpoint
    from runner.sandbox.web.request_log import RequestLog


_MAX_BYTES = 64 * 1024
_COUNT = re.compile(r"[0-9]{1,12}", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?", re.ASCII)
FORMAT_VERSION = "1.0"
AWAITED = ("launches", "results", "sessions_complete")
_PATIENCE = timedelta(seconds=10)
_MOST_PATIENCE = timedelta(minutes=5)
_SNAPSHOT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


async def read_object(request: Request, known: Collection[str]) -> dict[str, Any]:
    """Return a request's body as a JSON object with known keys; an empty body is an empty object.

    Raises:
        RefusalError: 400, it is no JSON object or has other keys; 413, it is larger than 64 KiB.
    """
    raw = await read_body(request, _MAX_BYTES)
    try:
        body = json.loads(raw or b"{}")
    except (ValueError, RecursionError) as error:
        raise RefusalError(400, "invalid_body", explain_json(error)) from None
    if not isinstance(body, dict):
        raise RefusalError(400, "invalid_body", "The body must be a JSON object.")
    require_known(body, known)
    return body


def require_known(given: Iterable[str], known: Collection[str]) -> None:
    """Refuse unknown names: a wait for a misspelt one would never end."""
    unknown = [name for name in given if name not in known]
    if unknown:
        shown = ", ".join(sorted(set(known) - {"username", "api_key"}))
        message = "There is a key or parameter that means nothing here."
        raise RefusalError(400, "unknown_name", message, [f"known are {shown}"])


def read_text(body: dict[str, Any], name: str) -> str:
    """Return a text of the body.

    Raises:
        RefusalError: 400, it is missing, empty or no text.
    """
    value = body.get(name)
    # A lone surrogate is valid JSON, but cannot be stored.
    if not isinstance(value, str) or not value or any("\ud800" <= char <= "\udfff" for char in value):
        raise RefusalError(400, "invalid_body", f"{name}: must be text.")
    return value


def read_count(written: str, name: str) -> int:
    """Return a whole number of a query.

    Raises:
        RefusalError: 400, it isn't one.
    """
    if not _COUNT.fullmatch(written):
        raise RefusalError(400, "invalid_parameter", f"{name}: must be a whole number.")
    return int(written)


def read_duration(written: str, name: str) -> timedelta:
    """Return a duration: a number of seconds, or as in `50ms` or `2d`, with or without a `+`.

    Raises:
        RefusalError: 400, it isn't one.
    """
    text = written.removeprefix("+")
    try:
        return parse_duration(f"{text}s" if _SECONDS.fullmatch(text) else text)
    except TooLongError:
        raise RefusalError(400, "invalid_duration", f"{name}: is longer than 100 years.") from None
    except ValueError:
        message = f"{name}: must be a length of time, as in 30, 90s, 1h30m or 2d."
        raise RefusalError(400, "invalid_duration", message) from None


class Control:
    """The control routes of one running service."""

    def __init__(self, writer: Writer, faults: Faults, requests: RequestLog) -> None:
        self._writer = writer
        self._store = writer.service.store
        self._clock = writer.clock
        self._changes = writer.changes
        self._auto_responders = AutoResponders(writer.service, clock=writer.clock, changes=writer.changes)
        self._faults = faults
        self._requests = requests
        self._simulating = asyncio.Lock()
        self._listing = RecordList(self._store, plan=writer.service.plan)

    def routes(self, account: Account) -> list[Route]:
        """Return the routes, with the credentials of `account`."""
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
            Route(f"/_sandbox/{name}", account.guard(endpoint), methods=[method])
            for method, name, endpoint in endpoints
        ]

    async def show_state(self, _request: Request) -> Response:
        """Show the time, the counts and the faults."""
        await self._writer.expire_sessions()
        return JSONResponse(self._describe())

    async def wait(self, request: Request) -> Response:
        """Answer once the query's counts are reached: 200 with the state, or 408."""
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
            await self._writer.write(lambda: self._auto_responders.advance(length))
        else:
            raise RefusalError(400, "invalid_body", 'Say {"advance": "2d"} or {"reset": true}.')
        return JSONResponse(self._describe())

    async def simulate(self, request: Request) -> Response:
        """Let simulated participants answer every open session, then return their actions."""
        body = await read_object(request, ("seed", "response_rate", "personas"))
        seed, rate = body.get("seed", 1), body.get("response_rate", PersonaHabits().response_rate)
        shares = body.get("personas", {})
        if (
            type(seed) is not int
            or not isinstance(shares, dict)
            or not all(map(_is_share, (rate, *shares.values())))
        ):
            message = 'Say it as in {"seed": 7, "response_rate": 0.6, "personas": {"promoter": 0.3}}.'
            raise RefusalError(400, "invalid_body", message)
        personas = parse_shares(f"{name}={share}" for name, share in shares.items())
        db = find_database(self._store)
        answering = partial(simulate, db, seed=seed, response_rate=rate, personas=personas)
        # One after the other: several at once would leave no time for sends.
        async with self._simulating:
            summary = await asyncio.to_thread(answering)
        self._changes.note()
        return JSONResponse(summary.to_dict())

    async def set_faults(self, request: Request) -> Response:
        """Set the rates of faults, and the latency; faults that are not named end."""
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
        """Save the state under a name, in the folder `snapshots` beside the database."""
        file = self._find_snapshot(read_text(await read_object(request, ("name",)), "name"))
        file.parent.mkdir(mode=0o700, exist_ok=True)
        size = await asyncio.to_thread(take_snapshot, find_database(self._store), file)
        return JSONResponse({"name": file.stem, "bytes": size})

    async def reset(self, request: Request) -> Response:
        """Restore a snapshot by its name, or the initial state, with `all` also snapshots and faults."""
        body = await read_object(request, ("to", "all"))
        if body.get("all", True) is not True or len(body) > 1:
            raise RefusalError(400, "invalid_body", 'Say {"to": "name"} or {"all": true}, or nothing.')
        file = self._find_snapshot(read_text(body, "to")) if "to" in body else None
        if file is not None and not file.is_file():
            raise RefusalError(404, "not_found", "There is no snapshot of this name.")
        try:
            await asyncio.to_thread(restore_snapshot, find_database(self._store), file)
        except BusyError:
            message = "The database is locked by another process; nothing was reset."
            raise RefusalError(503, "busy", message) from None
        self._requests.clear()
        if "all" in body:
            self._faults.start_over()
            for snapshot in self._snapshots().glob("*.sqlite"):
                snapshot.unlink(missing_ok=True)
        self._changes.note()
        return JSONResponse(self._describe())

    def _find_snapshot(self, name: str) -> Path:
        # A name, not a path: clients of a service may not write anywhere on its machine.
        if not _SNAPSHOT_NAME.fullmatch(name):
            raise RefusalError(400, "invalid_body", "The name must be letters, digits, - and _, 64 at most.")
        return self._snapshots() / f"{name}.sqlite"

    def _snapshots(self) -> Path:
        return find_database(self._store).with_name("snapshots")

    async def _reach(self, wanted: dict[str, int], timeout_s: float) -> bool:
        """Wait for all counts; return True if they were reached."""
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
        totals = self._listing.list_stats({}, 0, 0).additions["totals"]
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
            "webhooks": count_webhooks(self._store.connection),
            "faults": {
                "rates": dict(self._faults.rates),
                "latency_s": self._faults.latency.total_seconds(),
                "injected": dict(self._faults.injected),
            },
        }


def _is_share(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
