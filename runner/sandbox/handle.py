"""A handle on a running service for tests: what participants do, the clock, the faults, and waiting."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

from runner.sandbox.errors import SandboxError
from runner.sandbox.model import ServiceAddress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PAGE = 100
_PATIENCE_S = 30.0
_LONG_PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class MessagingService(ServiceAddress):
    """A running Messaging Survey Service and what a test does to it, over its own wire."""

    def reply(self, phone: str, text: str) -> dict[str, Any]:
        """Let a participant write a text, now.

        Args:
            phone: theirs, in E.164.
            text: what they write: an answer, STOP, anything.

        Returns:
            `was_expected`, `result_guid`, `keyword`, `sessions_completed`, and `asked`: what is asked now.
        """
        return self._post("/_sandbox/reply", {"phone": phone, "text": text})

    def advance(self, length: timedelta | str) -> dict[str, Any]:
        """Move the service's clock forward, by a `timedelta` or as in "2d"; give the service's state."""
        written = f"{length.total_seconds():f}s" if isinstance(length, timedelta) else length
        return self._post("/_sandbox/clock", {"advance": written})

    def simulate(
        self, *, seed: int = 1, response_rate: float = 0.6, personas: Mapping[str, float] | None = None
    ) -> dict[str, Any]:
        """Let simulated participants answer every open session; the clock follows them.

        Args:
            seed: the same one gives the same participants.
            response_rate: share of those who reply at all, from 0 to 1.
            personas: shares of kinds of people, as in `{"promoter": 0.3}`; `runner sandbox simulate --help`
                has all names.

        Returns:
            How many `participants` there were, what they did, and `results`.
        """
        body = {"seed": seed, "response_rate": response_rate, "personas": dict(personas or {})}
        return self._call("POST", "/_sandbox/simulate", body, patience_s=_LONG_PATIENCE_S)

    def wait(self, *, timeout_s: float = 10, **counts: int) -> dict[str, Any]:
        """Wait until the service has at least so many `launches`, `results` or `sessions_complete`.

        Returns:
            The service's state.

        Raises:
            SandboxError: that did not come in time; the message says how far it came.
        """
        query = {**counts, "timeout": f"{timeout_s:f}"}
        return self._call("GET", "/_sandbox/wait", query=query, patience_s=timeout_s + _PATIENCE_S)

    def state(self) -> dict[str, Any]:
        """Give the service's time, its counts and its faults."""
        return self._call("GET", "/_sandbox/state")

    def launches(self, **filters: str) -> list[dict[str, Any]]:
        """Give the stat record of every launch, all pages; filter as in `project_tag="pulse"`."""
        return list(self._list("/api/stats/", filters))

    def results(self, **filters: str) -> list[dict[str, Any]]:
        """Give every result record, all pages; filter as in `question_tag="nps"`."""
        return list(self._list("/api/results", filters))

    def set_faults(
        self, rates: Mapping[str, float] | None = None, *, latency: timedelta = timedelta()
    ) -> dict[str, Any]:
        """Let requests go wrong, as in `{"drop": 0.05}`; what isn't named ends. Give the service's state."""
        latency_s = f"{latency.total_seconds():f}s"
        return self._post("/_sandbox/faults", {"rates": dict(rates or {}), "latency": latency_s})

    def snapshot(self, name: str) -> None:
        """Put the service's state aside under a name."""
        self._post("/_sandbox/snapshot", {"name": name})

    def reset(self, to: str | None = None) -> None:
        """Put the state back to a snapshot, or to the beginning; faults and latency end."""
        self._post("/_sandbox/reset", {} if to is None else {"to": to})
        self.set_faults()

    def start_over(self) -> None:
        """Make the service as if it had just started: empty, without snapshots, its faults never drawn."""
        self._post("/_sandbox/reset", {"all": True})

    def _list(self, path: str, filters: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        offset, total = 0, 1
        while offset < total:
            page = self._call("GET", path, query={**filters, "limit": _PAGE, "offset": offset})
            yield from page["objects"]
            total = page["meta"]["total_count"]
            offset += _PAGE

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
        # http alone: the address is that of a service which this program has started.
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
