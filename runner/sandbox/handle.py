"""A handle on a running service for tests: replies, messages, requests, clock, faults, and waiting."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

from runner.sandbox.model import ServiceAddress
from runner.sandbox.sandbox_errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PAGE = 100
_SHOWN = 20  # requests in a failure's message
_PATIENCE_S = 30.0
_AGAIN_S = 0.05
_LONG_PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class MessagingService(ServiceAddress):
    """A running Messaging Survey Service, controlled by a test over HTTP."""

    def reply(self, phone: str, text: str) -> dict[str, Any]:
        """Send a participant's text, such as an answer or STOP, now; `phone` is in E.164.

        The result has `was_expected`, `result_guid`, `keyword`, `sessions_completed`, and `asked`, the
        waiting question.
        """
        return self._post("/_sandbox/reply", {"phone": phone, "text": text})

    def messages(self, phone: str) -> list[dict[str, Any]]:
        """Return what a phone (E.164) received and sent, in order.

        Each has `direction` (`to_phone` or `from_phone`), `kind`, `text`, `at`, `project_launch_guid` and
        `project_tag`.
        """
        return list(self._list_after("/_sandbox/messages", "messages", {"phone": phone}))

    def requests(
        self, *, method: str | None = None, path: str | None = None, status: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the last requests of clients, at most a thousand, as they arrived; filter them if wanted.

        Each has `method`, `path`, `query` (without credentials), `body` (a JSON document of at most 16 KiB,
        or None), `status` (None without an answer) and `at`. A reset forgets them.
        """
        wanted = {"method": method, "path": path, "status": status}
        query = {name: value for name, value in wanted.items() if value is not None}
        found: list[dict[str, Any]] = self._call("GET", "/_sandbox/requests", query=query)["requests"]
        return found

    def expect_requests(
        self, count: int, *, method: str | None = None, path: str | None = None, status: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the requests as `requests` does, and fail unless there are so many.

        Raises:
            AssertionError: there are more or fewer; the message lists the last requests.
        """
        found = self.requests(method=method, path=path, status=status)
        if len(found) != count:
            came = [f"{each['method']} {each['path']}: {each['status']}" for each in self.requests()]
            shown = "".join(f"\n  {line}" for line in came[-_SHOWN:]) or " nothing"
            raise AssertionError(
                f"{count} such requests were expected, and {len(found)} came. All that came:{shown}"
            )
        return found

    def webhooks(self, state: str | None = None) -> list[dict[str, Any]]:
        """Return the deliveries of results to webhooks, in order of creation.

        Each has `id`, `result_guid`, `state`, `tries`, `next_try` and `last_problem`. `state` is `WAITING`,
        `DELIVERED` or `FAILED`; None for all.
        """
        query = {} if state is None else {"state": state}
        return list(self._list_after("/_sandbox/webhooks", "webhooks", query))

    def advance(self, length: timedelta | str) -> dict[str, Any]:
        """Move the clock, by a `timedelta` or as `runner sandbox clock` does; return the service's state."""
        written = f"{length.total_seconds():f}s" if isinstance(length, timedelta) else length
        return self._post("/_sandbox/clock", {"advance": written})

    def simulate(self, *, seed: int = 1, **rates: float) -> dict[str, Any]:
        """Let simulated participants answer every open session; the clock follows them.

        Args:
            seed: determines the participants.
            rates: their habits, from 0 to 1, as in `response_rate=0.6`: see `runner sandbox simulate --help`.

        Returns:
            The number of `participants`, their actions, and `results`.
        """
        body = {"seed": seed, **rates}
        return self._call("POST", "/_sandbox/simulate", body, patience_s=_LONG_PATIENCE_S)

    def wait(self, *, timeout_s: float = 10, **counts: int) -> dict[str, Any]:
        """Wait for at least so many `launches`, `results` or `sessions_complete`; return the service's state.

        Raises:
            SandboxError: the time is over; the message has the counts reached.
        """
        ends = time.monotonic() + timeout_s
        while True:
            state = self.state()
            lacking = [
                f"{name}: {state[name]} of {count}" for name, count in counts.items() if state[name] < count
            ]
            if not lacking:
                return state
            if time.monotonic() >= ends:
                raise SandboxError(f"what was waited for did not come in time: {', '.join(lacking)}")
            time.sleep(_AGAIN_S)

    def state(self) -> dict[str, Any]:
        """Return the service's time, its counts and its faults."""
        return self._call("GET", "/_sandbox/state")

    def launches(self, **filters: str) -> list[dict[str, Any]]:
        """Return the stat record of every launch, all pages; filter as in `project_tag="pulse"`."""
        return list(self._list("/api/stats/", filters))

    def results(self, **filters: str) -> list[dict[str, Any]]:
        """Return every result record, all pages; filter as in `question_tag="nps"`."""
        return list(self._list("/api/results", filters))

    def set_faults(
        self, rates: Mapping[str, float] | None = None, *, latency: timedelta = timedelta()
    ) -> dict[str, Any]:
        """Set the rates of faults, as in `{"drop": 0.05}`; others end. Return the service's state."""
        latency_s = f"{latency.total_seconds():f}s"
        return self._post("/_sandbox/faults", {"rates": dict(rates or {}), "latency": latency_s})

    def reset(self) -> None:
        """Empty the service and set its clock back; faults and latency end."""
        self._post("/_sandbox/reset", {})

    def _list(self, path: str, filters: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        offset, total = 0, 1
        while offset < total:
            page = self._call("GET", path, query={**filters, "limit": _PAGE, "offset": offset})
            yield from page["objects"]
            total = page["meta"]["total_count"]
            offset += _PAGE

    def _list_after(self, path: str, name: str, query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        after: int | None = 0
        while after is not None:
            page = self._call("GET", path, query={**query, "after": after})
            yield from page[name]
            after = page["next_after"]

    def _post(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        return self._call("POST", path, body)

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        query: Mapping[str, object] | None = None,
        patience_s: float = _PATIENCE_S,
    ) -> dict[str, Any]:
        credentials = {"username": self.username, "api_key": self.api_key}
        address = f"{self.url}{path}?{urlencode({**credentials, **(query or {})})}"
        data = None if body is None else json.dumps(body).encode()
        # http alone: the address is of a service that this program has started.
        request = Request(address, data=data, method=method)  # noqa: S310  see above
        try:
            # No proxy: the service is on this machine, whatever the environment says.
            with build_opener(ProxyHandler({})).open(request, timeout=patience_s) as answer:
                document: dict[str, Any] = json.load(answer)
        except HTTPError as error:
            with error:
                raise SandboxError(_explain(error)) from None
        return document


def _explain(error: HTTPError) -> str:
    try:
        document = json.load(error)["error"]
        words = [document["message"], *document["problems"]]
    except (ValueError, KeyError, TypeError):
        words = [str(error.reason)]
    return f"the sandbox answered {error.code}: {' '.join(words)}"
