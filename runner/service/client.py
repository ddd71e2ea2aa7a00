"""The service's endpoints as calls (schemas/service.openapi.yaml)."""

from __future__ import annotations

import html
import json
import random
import re
import time
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

from runner.errors import ServiceError, UnusableListError
from runner.service.answer import BROKE_OFF, NO_ANSWER, UNREADABLE
from runner.service.connection import Connection, NetworkError
from runner.service.model import PAGE, Page, PlanUsage, ResultRecord, SendReply, StatRecord, Unreadable
from runner.service.record_reader import read_guid, read_item, read_rest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.service.answer import Answer
    from runner.service.record_reader import AnyRecord
    from runner.service.target import Target


_RESULTS, _STATS = "/api/results", "/api/stats/"
_NO_ACCESS = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
_FINAL = {*_NO_ACCESS, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED}
"""Answers that every further request of the run would get too."""
_SUCCESS, _FAILURE = 2, 5
"""The classes of HTTP statuses: 2xx and 5xx."""
_BUSY = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
"""Answers that ask to be left alone for a while."""
_REFUSALS = {400, 404, 405, 406, 410, 411, 413, 414, 415, 422, 431}
"""Answers that blame what was sent."""
_REJECTED = {*_NO_ACCESS, *_REFUSALS}
"""Answers that blame the request. A gateway may give any other one after it has passed the request on."""
_PHONE = re.compile(r"\+?\(?\d(?:[\s().-]{0,2}\d){6,14}")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""Valid in JSON and not in databases: NUL on PostgreSQL, half a surrogate pair on either."""
_SHOWN = 200
_JSON = {"format": "json"}
"""Format of lists and records: asked for each time, since the service's own default is not documented."""
_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
"""Answers beside 5xx after which a GET is worth asking again."""
_PAUSES_S = (0.5, 1.0, 2.0)
"""Wait before asking again, give or take a half, where the service doesn't say."""
_MOST_PAUSE_S = 60.0
"""The longest pause that the service may ask for."""
_FAULTS = {BROKE_OFF, NO_ANSWER, UNREADABLE}
"""Faults of an exchange that may pass by themselves; a timeout has taken all the time that an answer gets."""
_REACH_HINT = "check the base URL and the network, then run the same command again"


def _read_clock() -> float:
    # Looked up at each call: tests freeze it.
    return time.time()


def read_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds of a `Retry-After` header (RFC 9110, section 10.2.3); None without a readable one.

    Header names are in lower case, `now` in seconds since 1970. A `Date` header takes precedence over `now`,
    since the same clock wrote both.
    """
    written = headers.get("retry-after", "").strip()
    if written.isascii() and written.isdecimal():
        return float(written)
    moment = _read_date(written)
    if moment is None:
        return None
    since = _read_date(headers.get("date", ""))
    return max(0.0, moment - (now if since is None else since))


def _read_date(written: str) -> float | None:
    try:
        return parsedate_to_datetime(written).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def is_refusal(detail: str) -> bool:
    """Return whether the detail of an outcome is that of a request that the service blamed."""
    status = detail.removeprefix("HTTP ")[:3]
    return detail.startswith("HTTP ") and status.isdecimal() and int(status) in _REFUSALS


class AccessRefusedError(ServiceError):
    """The service refused the credentials or the request: 401 or 403."""


class ServiceClient:
    """The service as calls, safe to use from several threads.

    Args:
        target: has a base URL and credentials.
        connection: carries the requests.
        now: returns seconds since 1970, for a `Retry-After` that names a date.
        wait: waits the given seconds before a GET is repeated; returns True if the run was stopped.
        random: returns a number from 0 to 1, so that clients do not ask again at the same moment.
    """

    def __init__(
        self,
        target: Target,
        connection: Connection,
        *,
        now: Callable[[], float] | None = None,
        wait: Callable[[float], bool | None] = time.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._connection = connection
        self._random = random
        self._was_reached = False
        self._now = now or _read_clock
        self._wait = wait
        credentials = target.credentials
        secrets = (credentials.api_key, credentials.username) if credentials else ()
        written = {re.escape(form) for secret in secrets for form in _written_forms(secret)}
        # The longest first: a secret may contain another one.
        self._secrets = re.compile("|".join(sorted(written, key=len, reverse=True)), re.IGNORECASE)

    def send(self, definition: str, phones: list[str], look: Callable[[], None] = lambda: None) -> SendReply:
        """Send one launch with exactly one POST.

        Args:
            definition: the send body less `phone`, as a JSON object.
            phones: E.164, at least one.
            look: called once connected, right before the first byte; an exception from it is passed on, and
                nothing is sent.
        """
        body = f'{{"phone":{json.dumps(phones)},{definition[1:]}'.encode()
        try:
            answer = self._connection.post("/api/send", body, look)
        except NetworkError as error:
            if error.bytes_left:
                return SendReply("unknown", detail=error.reason)
            return SendReply("not_sent", detail=error.reason, may_retry=True)
        return self._read_send_reply(answer)

    def _read_send_reply(self, answer: Answer) -> SendReply:
        status = answer.status
        if status // 100 == _SUCCESS:
            guid = _read_guid(answer.body)
            if guid is None:
                return SendReply(
                    "unknown", detail=f"HTTP {status} without a project_launch_guid", status=status
                )
            return SendReply("sent", guid, status=status)
        detail = f"HTTP {status}{self._describe_redirect(answer)}{self._quote(answer.body)}"
        return SendReply(
            "rejected" if status in _REJECTED else "unknown",
            detail=detail,
            status=status,
            is_final_for_run=status in _FINAL,
            is_busy=status in _BUSY,
            retry_after_s=read_retry_after(answer.headers, self._now()) if status in _BUSY else None,
        )

    def read_stats(self, project_tag: str | None, offset: int) -> Page[StatRecord]:
        """Return the page of launches from `offset` on; for all tags with None."""
        return self._read_page(StatRecord, _STATS, _filter_by(project_tag), offset)

    def count_launches(self, project_tag: str | None) -> int | None:
        """Return the service's count of launches under a project tag; None if it gives none."""
        query: dict[str, str | int] = {**_filter_by(project_tag), "limit": 1, **_JSON}
        _, total = _read_page(_STATS, self._get(_STATS, query))
        return total

    def read_plan_usage(self) -> PlanUsage | None:
        """Return the usage of the plan; None if the answer doesn't contain it."""
        answer = self._get(_STATS, {"limit": 1, **_JSON})
        try:
            plan = answer["meta"]["plan"]
            renders = plan["renders"]
            price = plan.get("price_usd")
            return PlanUsage(
                renders_used=int(renders["used"]),
                renders_max=int(renders["max"]),
                name=str(plan.get("name") or ""),
                price_usd=None if price is None else str(price),
            )
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            return None

    def measure_clock(self) -> float | None:
        """Return by how many seconds this machine's clock and the service's differ, at least.

        The service's is the `Date` of an answer (RFC 9110, 6.6.1); None without one.
        """
        began = time.monotonic()
        answer = self._ask(_STATS, {"limit": 1, **_JSON})
        elapsed_s = time.monotonic() - began
        self._read_body(_STATS, answer)
        there = _read_date(answer.headers.get("date", ""))
        # The header has whole seconds, and was written at some moment of the exchange.
        return None if there is None else max(0.0, abs(self._now() - there) - elapsed_s - 1)

    def read_stat(self, project_launch_guid: str) -> StatRecord | Unreadable | None:
        """Return the counts of one launch; None if the service doesn't know it."""
        path = f"{_STATS}{quote(project_launch_guid, safe='')}/"
        answer = self._ask(path, dict(_JSON))
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        return read_item(StatRecord, self._read_body(path, answer), 0)

    def read_results(self, filters: Mapping[str, str], offset: int) -> Page[ResultRecord]:
        """Return the page of results from `offset` on.

        Filters are `project_launch_guid` and `project_tag`.
        """
        return self._read_page(ResultRecord, _RESULTS, filters, offset)

    def _read_page(
        self, kind: type[AnyRecord], path: str, filters: Mapping[str, str], offset: int
    ) -> Page[AnyRecord]:
        # Pages are asked for by offset, since `next` may carry credentials.
        query: dict[str, str | int] = {**filters, "limit": PAGE, "offset": offset, **_JSON}
        objects, total = _read_page(path, self._get(path, query))
        items = [read_item(kind, item, position) for position, item in enumerate(objects, offset)]
        read = zip(objects, items, strict=True)
        rest = [read_rest(kind, item) for item, one in read if isinstance(one, Unreadable)]
        return Page(
            tuple(item for item in items if not isinstance(item, Unreadable)),
            tuple(item for item in items if isinstance(item, Unreadable)),
            total,
            tuple(one for one in rest if one is not None),
        )

    def _get(self, path: str, query: dict[str, str | int]) -> dict[str, Any]:
        return self._read_body(path, self._ask(path, query))

    def _ask(self, path: str, query: dict[str, str | int]) -> Answer:
        """Ask up to four times, as long as the answer is one that may pass by itself.

        An address that was never reached is more likely wrong than away for a moment.
        """
        for pause_s in (*_PAUSES_S, None):
            answer, error, wait_s = None, None, None
            try:
                answer = self._connection.get(path, query)
            except NetworkError as failure:
                error = failure
                may_pass = failure.reason in _FAULTS or (self._was_reached and not failure.bytes_left)
            else:
                self._was_reached = True
                may_pass = answer.status // 100 == _FAILURE or answer.status in _PASSING
                wait_s = read_retry_after(answer.headers, self._now())
            if pause_s is None or not may_pass or (wait_s or 0.0) > _MOST_PAUSE_S:
                break
            if wait_s is None:
                wait_s = pause_s * (0.5 + self._random())
            # A stopped run doesn't ask again.
            if self._wait(wait_s):
                break
        if answer is not None:
            return answer
        reason = "" if error is None else error.reason
        raise ServiceError(f"the service cannot be asked (GET {path}): {reason}", hint=_REACH_HINT)

    def _read_body(self, path: str, answer: Answer) -> dict[str, Any]:
        if answer.location is not None:
            raise ServiceError(
                f"the service redirects GET {path} to another origin, which is not followed"
                f"{self._describe_redirect(answer)}",
                hint="if that is the service, make it the base URL (RUNNER_BASE_URL, or `base_url`)",
            )
        if answer.status != HTTPStatus.OK:
            message = f"the service refuses GET {path}: HTTP {answer.status}{self._quote(answer.body)}"
            asked_s = read_retry_after(answer.headers, self._now())
            if asked_s is not None and asked_s > _MOST_PAUSE_S:
                message = f"{message}; it asks to be left alone for {asked_s:,.0f} s"
            if answer.status in _NO_ACCESS:
                raise AccessRefusedError(message, hint="check the username and the API key")
            raise ServiceError(message)
        data = _read_object(answer.body)
        if data is None:
            raise UnusableListError(f"the service's answer to GET {path} is not a JSON object")
        return data

    def _describe_redirect(self, answer: Answer) -> str:
        """Describe the target of a redirect; empty without one."""
        if answer.location is None:
            return ""
        origin, path = answer.location
        return f" (it leads to {origin}{self._mask(path)})"

    def _quote(self, body: bytes) -> str:
        """Return the start of an error's body, without credentials and phone numbers."""
        text = self._mask(" ".join(body.decode("utf-8", "replace").split()))
        return f": {text}" if text else ""

    def _mask(self, words: str) -> str:
        """Return a shortened text without credentials and phone numbers."""
        # Unprintable characters go first: they could stand between the characters of a secret.
        text = "".join(filter(str.isprintable, words))
        text = _PHONE.sub("•••", self._secrets.sub("•••", text))
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _filter_by(project_tag: str | None) -> dict[str, str]:
    return {} if project_tag is None else {"project_tag": project_tag}


def _written_forms(secret: str) -> set[str]:
    """Return the forms in which an answer may repeat a secret: plain, in a query, in JSON, in HTML."""
    in_json = json.dumps(secret)[1:-1]
    in_query = {quote(secret), quote(secret, safe=""), quote_plus(secret)}
    return {secret, in_json, in_json.replace("/", "\\/"), html.escape(secret), *in_query}


def _read_object(body: bytes) -> dict[str, Any] | None:
    try:
        text = body.decode(json.detect_encoding(body), "surrogatepass")
        # Escapes and other characters than ASCII can be what `_clean` replaces.
        data = json.loads(text, object_hook=None if text.isascii() and "\\u" not in text else _clean)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _clean(values: dict[str, Any]) -> dict[str, Any]:
    """Return an object's values without the characters that databases cannot store."""
    return {
        name: _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value) if isinstance(value, str) else value
        for name, value in values.items()
    }


def _read_guid(body: bytes) -> str | None:
    try:
        return read_guid((_read_object(body) or {}).get("project_launch_guid"))
    except ValueError:
        return None


def _read_page(path: str, page: dict[str, Any]) -> tuple[list[Any], int | None]:
    """Return the records of a page and the size of the whole list; None for the size if it isn't given."""
    meta, objects = page.get("meta"), page.get("objects")
    if not isinstance(objects, list):
        raise _lack(path, "objects")
    if meta is not None and not isinstance(meta, dict):
        raise _lack(path, "meta")
    total = (meta or {}).get("total_count")
    try:
        return objects, None if total is None else int(total)
    except (TypeError, ValueError, OverflowError):
        raise _lack(path, "meta.total_count") from None


def _lack(path: str, field: str) -> UnusableListError:
    return UnusableListError(f"the service's answer to GET {path} has no usable {field}")
