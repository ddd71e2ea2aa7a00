"""The endpoints that a runner needs, as calls (reference, section 4)."""

from __future__ import annotations

import html
import json
import re
from dataclasses import fields
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, quote_plus

from runner.errors import ServiceError
from runner.service.connection import Answer, Connection, NetworkError
from runner.service.model import ResultRecord, SendReply, StatRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.service.target import Target

PAGE = 100
"""Records asked for at a time; no maximum is shown (reference, 8), so a page may come back smaller."""

_FINAL = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS}
"""Answers that every further send of the run would get too."""
_SUCCESS, _REFUSAL = 2, 4
"""The classes of HTTP statuses: 2xx and 4xx."""
_PHONE = re.compile(r"\+?\(?\d(?:[\s().-]{0,2}\d){6,14}")
_SHOWN = 200
_Record = TypeVar("_Record", StatRecord, ResultRecord)


class ServiceClient:
    """The service as calls, safe to use from several threads.

    Args:
        target: its base URL and credentials must be there.
        connection: how it is reached.
    """

    def __init__(self, target: Target, connection: Connection) -> None:
        self._connection = connection
        credentials = target.credentials
        secrets = (credentials.api_key, credentials.username) if credentials else ()
        written = {re.escape(form) for secret in secrets for form in _written_forms(secret)}
        # The longest first: a secret may contain another one.
        self._secrets = re.compile("|".join(sorted(written, key=len, reverse=True)), re.IGNORECASE)

    def send(self, definition: str, phones: list[str]) -> SendReply:
        """Send one launch: one POST, whatever happens (reference, 4.1).

        Args:
            definition: the send body less `phone`, as a JSON object.
            phones: E.164, at least one.
        """
        body = f'{{"phone":{json.dumps(phones)},{definition[1:]}'.encode()
        try:
            answer = self._connection.post("/api/send", body)
        except NetworkError as error:
            if error.bytes_left:
                return SendReply("unknown", detail=error.reason)
            return SendReply("not_sent", detail=error.reason, is_final_for_run=True)
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
        detail = f"HTTP {status}{self._quote(answer.body)}"
        waits = status == HTTPStatus.SERVICE_UNAVAILABLE and "Retry-After" in answer.headers
        if status // 100 == _REFUSAL or waits:
            return SendReply(
                "rejected", detail=detail, status=status, is_final_for_run=waits or status in _FINAL
            )
        return SendReply("unknown", detail=detail, status=status)

    def iterate_stats(self, project_tag: str) -> Iterator[StatRecord]:
        """Yield the launches under a project tag (reference, 4.4).

        Raises:
            ServiceError: the service cannot be reached, or what it answers cannot be read.
        """
        for item in self._iterate_pages("/api/stats/", {"project_tag": project_tag}):
            yield _read_record(StatRecord, item)

    def read_stat(self, project_launch_guid: str) -> StatRecord:
        """Return one launch's counts (reference, 4.5).

        Raises:
            ServiceError: as for `iterate_stats`.
        """
        return _read_record(StatRecord, self._get(f"/api/stats/{quote(project_launch_guid, safe='')}/", {}))

    def iterate_results(self, **filters: str) -> Iterator[ResultRecord]:
        """Yield results (reference, 4.2). A result may come twice when the list grows meanwhile.

        Args:
            filters: `project_launch_guid`, `project_tag`, `participant_guid` or `question_tag`.

        Raises:
            ServiceError: as for `iterate_stats`.
        """
        for item in self._iterate_pages("/api/results", dict(filters)):
            yield _read_record(ResultRecord, item)

    def _iterate_pages(self, path: str, filters: dict[str, str]) -> Iterator[dict[str, Any]]:
        # `next` may carry credentials and its form is not shown: pages are asked for by offset.
        offset = 0
        while True:
            page = self._get(path, {**filters, "limit": PAGE, "offset": offset})
            try:
                objects, total = page["objects"], int(page["meta"]["total_count"])
            except (KeyError, TypeError, ValueError, OverflowError):
                objects, total = None, 0
            if not isinstance(objects, list):
                raise ServiceError(f"the service's answer to GET {path} has no list in it")
            yield from objects
            offset += len(objects)
            if not objects or offset >= total:
                return

    def _get(self, path: str, query: dict[str, str | int]) -> dict[str, Any]:
        try:
            answer = self._connection.get(path, query)
        except NetworkError as error:
            raise ServiceError(
                f"the service cannot be asked (GET {path}): {error.reason}", hint=_REACH_HINT
            ) from None
        if answer.status != HTTPStatus.OK:
            hint = "check the username and the API key" if answer.status in _FINAL else None
            message = f"the service refuses GET {path}: HTTP {answer.status}{self._quote(answer.body)}"
            raise ServiceError(message, hint=hint)
        data = _read_object(answer.body)
        if data is None:
            raise ServiceError(f"the service's answer to GET {path} is not a JSON object")
        return data

    def _quote(self, body: bytes) -> str:
        """Return the start of an error's body for people, without credentials and phone numbers."""
        text = " ".join(body.decode("utf-8", "replace").split())
        text = _PHONE.sub("•••", self._secrets.sub("•••", text))
        if not text:
            return ""
        return f": {text}" if len(text) <= _SHOWN else f": {text[:_SHOWN]}…"


_REACH_HINT = "check the base URL and the network, then run the same command again"


def _written_forms(secret: str) -> set[str]:
    """Return a secret as an answer may repeat it: as it is, in a query, in JSON, in HTML."""
    in_json = json.dumps(secret)[1:-1]
    in_query = {quote(secret), quote(secret, safe=""), quote_plus(secret)}
    return {secret, in_json, in_json.replace("/", "\\/"), html.escape(secret), *in_query}


def _read_object(body: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _read_guid(body: bytes) -> str | None:
    guid = (_read_object(body) or {}).get("project_launch_guid")
    return guid if isinstance(guid, str) and guid else None


def _read_record(kind: type[_Record], item: Any) -> _Record:
    values: dict[str, Any] = {}
    for field in fields(kind):
        try:
            values[field.name] = _convert(item[field.name], str(field.type))
        except (KeyError, TypeError, ValueError, OverflowError):
            raise ServiceError(f"a {kind.kind} record of the service has no usable {field.name}") from None
    return kind(**values)


def _convert(value: Any, kind: str) -> str | int:
    if kind == "int":
        return int(value)
    return "" if value is None else str(value)
