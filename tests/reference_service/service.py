"""The service: what it answers to each request, by its switches and the faults that are due."""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.reference_service.listing import (
    BadQueryError,
    find_result,
    find_stat,
    list_results,
    list_stats,
    write_csv,
)
from tests.reference_service.sending import BadSendError, read_body, read_send
from tests.reference_service.store import Accepted, Launch, Result, Store
from tests.reference_service.switches import FAULTS, Switches
from tests.reference_service.transport import MOVED, Answer, Server, refuse
from tests.reference_service.wire import write_send_reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

USERNAME, API_KEY = "grace@example.com", "k3y/of+tests"
_AFTERWARDS_S = 0.02
"""Seconds between breaking a connection and accepting what came over it."""
_HOST = "127.0.0.1"
_LISTS = {"/api/stats/": list_stats, "/api/results": list_results}
_RECORDS = {"/api/stats": find_stat, "/api/results": find_result}


class ReferenceService:
    """A Messaging Survey Service written from its reference; it counts what it accepts.

    Args:
        switches: how it answers what the reference leaves open.
        username: that it takes.
        api_key: that it takes.

    Attributes:
        switches: as they are now; may be replaced at any time.
        store: what it remembers.
        faults: how often each fault was met by a send.
        strays: requests that came by another host name than the base URL's.
        failing: paths of lists that are answered 500.
        choose_fault: returns the fault of a send, by its number from 1, where none was planned.
    """

    def __init__(
        self, switches: Switches | None = None, *, username: str = USERNAME, api_key: str = API_KEY
    ) -> None:
        self.switches = switches or Switches()
        self.store = Store()
        self.faults: Counter[str] = Counter()
        self.strays = 0
        self.failing: set[str] = set()
        self.choose_fault: Callable[[int], str | None] = lambda _number: None
        self.credentials = {"username": username, "api_key": api_key}
        self._planned: list[str] = []
        self._sends = 0
        self._last_guid = ""
        self._port = 0
        self._server: Server | None = None
        self._holder: socket.socket | None = None
        self._afterwards: list[tuple[float, tuple[list[str], dict[str, Any]]]] = []
        self._closing = threading.Event()
        self.open()

    @property
    def url(self) -> str:
        """The base URL, which stays the same while it is shut."""
        return f"http://{_HOST}:{self._port}"

    @property
    def accepted(self) -> list[Accepted]:
        """Every send that it has accepted, in order."""
        self._accept_due(time.monotonic())
        with self.store.lock:
            return list(self.store.accepted)

    def open(self) -> None:
        """Listen, if it doesn't yet."""
        if self._server is not None:
            return
        if self._holder is not None:
            self._holder.close()
        self._server = Server((_HOST, self._port), self)
        self._port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def shut(self) -> None:
        """Refuse connections; the port stays taken."""
        if self._server is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._server = None
        self._holder = socket.socket()
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._holder.bind((_HOST, self._port))

    def close(self) -> None:
        """End, and let no request hang any longer."""
        self._closing.set()
        self.shut()
        self._accept_due(math.inf)
        if self._holder is not None:
            self._holder.close()

    def switch(self, **values: Any) -> None:
        """Change some switches, and leave the others."""
        self.switches = replace(self.switches, **values)

    def plan_faults(self, names: Iterable[str]) -> None:
        """Meet the next sends with these of `FAULTS`, one each; an empty name is none."""
        names = list(names)
        unknown = [name for name in names if name and name not in FAULTS]
        if unknown:
            raise ValueError(f"there is no fault {unknown[0]}: choose from {', '.join(FAULTS)}")
        with self.store.lock:
            self._planned += names

    def calm(self) -> None:
        """Meet no more faults; the switches stay."""
        self.choose_fault = lambda _number: None
        self._planned.clear()

    def come_to_rest(self) -> None:
        """Wait until everything that was accepted, or will be, is listed in full."""
        with self.store.lock:
            due = max((moment for moment, _ in self._afterwards), default=0.0)
        time.sleep(max(0.0, due - time.monotonic()))
        last = max((sent.monotonic for sent in self.accepted), default=0.0)
        time.sleep(max(0.0, last + self.switches.delay_s + 0.01 - time.monotonic()))

    def accept(self, body: dict[str, Any]) -> Launch:
        """Accept a send as if it had come over the wire.

        Raises:
            BadSendError: the service would refuse it.
        """
        return self.store.accept(*read_send(body))

    def answer(self, phone: str, text: str) -> Result | None:
        """Have a participant answer; return None if that was not valid, and was asked again.

        Raises:
            NoSessionError: they have no active session.
        """
        return self.store.answer(phone, text)

    def _accept_due(self, now: float) -> None:
        """Accept what came over connections that it has broken since.

        No thread does so by itself: it might wake up after its client has waited for as long as it has to.
        """
        with self.store.lock:
            due = [body for moment, body in self._afterwards if moment <= now]
            self._afterwards = [each for each in self._afterwards if each[0] > now]
            for body in due:
                self.store.accept(*body)

    def take_send(self, content: bytes, query: str) -> Answer:
        """Meet one POST of a send."""
        self._accept_due(time.monotonic())
        with self.store.lock:
            self._sends += 1
            fault = self._planned.pop(0) if self._planned else self.choose_fault(self._sends)
            if fault:
                self.faults[fault] += 1
        does, _, ending = (fault or "accept-").partition("-")
        try:
            body = read_send(read_body(content))
        except BadSendError as error:
            return refuse(400, str(error))
        if does == "refuse":
            return self._end(ending, b'{"error": "not now"}')
        if self.store.count_renders() >= self.switches.renders_max:
            return refuse(403, "no")
        if ending == "afterwards":
            with self.store.lock:
                self._afterwards.append((time.monotonic() + _AFTERWARDS_S, body))
            return Answer(0, {}, b"", ending="reset")
        guid = self.store.accept(*body).sent.guid
        named, self._last_guid = self._last_guid if ending == "same-guid" else guid, guid
        reply = write_send_reply(named or guid, self.switches, self.url, query)
        return self._end(ending, json.dumps(reply).encode())

    def _end(self, ending: str, content: bytes) -> Answer:
        """Return how a send ends: well, or by a fault."""
        status = int(self.switches.accepted)
        if ending.isdigit():
            asks = {"429", "503"} if self.switches.retry_after is not None else set()
            headers = {"Retry-After": str(self.switches.retry_after)} if ending in asks else {}
            return Answer(int(ending), headers, b'{"error": "not now"}')
        if ending == "hang":
            self._closing.wait(self.switches.hangs_s)
        if ending in ("close", "reset"):
            return Answer(0, {}, b"", ending=ending)
        if ending == "half":
            return Answer(
                status, {"Content-Length": str(len(content))}, content[: len(content) // 2], "close"
            )
        body = {"no-guid": b"{}", "no-json": b"<p>thank you"}.get(ending, content)
        return Answer(200 if ending.startswith("no-") else status, {}, body)

    def take_get(self, path: str, query: dict[str, str]) -> Answer:
        """Meet one GET."""
        self._accept_due(time.monotonic())
        if path in self.failing:
            return refuse(500, "not now")
        with self.store.lock:
            if path in _LISTS:
                try:
                    page = _LISTS[path](self.store, self.switches, query, path)
                except BadQueryError as error:
                    return refuse(400, str(error))
                return self._show(page, query)
            kind, _, guid = path.removesuffix("/").rpartition("/")
            find = _RECORDS.get(kind) if path.endswith("/") else None
            found = find(self.store, self.switches, guid) if find else None
        return refuse(404, "there is nothing here") if found is None else Answer.of_json(200, found)

    def _show(self, page: dict[str, Any], query: dict[str, str]) -> Answer:
        if query.get("format", self.switches.default_format) == "csv":
            content = write_csv(page["objects"]).encode()
            return Answer(200, {"Content-Type": "text/csv; charset=utf-8"}, content)
        return Answer.of_json(200, page)

    def redirect(self, method: str, target: str) -> Answer | None:
        """Return where a request is sent on to, if it is."""
        kind = "POST" if self.switches.redirects == "sends" else "GET"
        if self.switches.redirects == "none" or kind != method:
            return None
        if self.switches.redirects == "other-origin":
            place = f"http://localhost:{self._port}{target}"
        else:
            place = f"{MOVED}{target}"
        return Answer(int(self.switches.redirect_status), {"Location": place}, b"")
