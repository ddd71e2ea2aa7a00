"""A service on a real socket whose lists come in pages, and misbehave on demand."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import trustme

from runner.service.client import ServiceClient
from runner.service.connection import Connection
from runner.service.target import Credentials, Target
from tests.patient_server import PatientServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

USERNAME = "ada@example.com"
API_KEY = "a&b=c/ü+%"


class ListService:
    """Answers every GET with a page of `records`, or with what `answer` says.

    Attributes:
        queries: path and query of each request.
        records: what is listed.
        page_size: the most records that it gives at once.
        change_page: changes a page before it is answered.
        answer: status and body to answer instead.
        on_page: is called after each page.
        on_request: is called with the path before each answer.
    """

    def __init__(self) -> None:
        self.queries: list[tuple[str, dict[str, str]]] = []
        self.records: list[Any] = []
        self.page_size = 100
        self.change_page: Callable[[dict[str, Any]], Any] = lambda page: page
        self.answer: tuple[int, bytes] | None = None
        self.on_page: Callable[[], None] = lambda: None
        self.on_request: Callable[[str], None] = lambda _path: None

    def respond(self, target: str) -> tuple[int, bytes]:
        """Return status and body for a request."""
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.queries.append((parts.path, query))
        self.on_request(parts.path)
        if self.answer is not None:
            return self.answer
        offset, limit = int(query.get("offset", "0")), min(int(query.get("limit", "20")), self.page_size)
        meta = {
            "limit": limit,
            "offset": offset,
            "total_count": len(self.records),
            "next": "",
            "previous": None,
        }
        page = self.change_page({"meta": meta, "objects": self.records[offset : offset + limit]})
        self.on_page()
        return 200, json.dumps(page).encode()


class _Server(PatientServer):
    service: ListService


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        status, body = self.server.service.respond(self.path)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the library's name
        """Say nothing."""


@pytest.fixture
def service() -> ListService:
    """What is listed, and how."""
    return ListService()


@contextmanager
def reaching(service: ListService) -> Iterator[Target]:
    """Give the target that a service is, which is on a real socket as long as the block lasts."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.service = service
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield Target("live", url, Credentials(USERNAME, API_KEY))
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def serving(service: ListService) -> Iterator[ServiceClient]:
    """Give a client of a service, which is on a real socket as long as the block lasts."""
    with reaching(service) as target:
        connection = Connection(target)
        try:
            yield ServiceClient(target, connection, wait=lambda _: None)
        finally:
            connection.close()


@pytest.fixture
def client(service: ListService) -> Iterator[ServiceClient]:
    """A client of the service."""
    with serving(service) as made:
        yield made


@pytest.fixture
def make_result() -> Callable[..., dict[str, Any]]:
    """Make a result record as the reference shows it (2.1), with a number; fields may be given."""

    def make(number: int, **fields: Any) -> dict[str, Any]:
        return {
            "created": "2026-11-20T12:00:00.000001",
            "guid": f"result-{number}",
            "participant_guid": "participant-1",
            "participant_phone_number": "+14155550101",
            "project_launch_guid": "launch-1",
            "project_launch_participant_guid": "launch-participant-1",
            "project_tag": "pulse-2026",
            "question_display_order": "1",
            "question_guid": "question-1",
            "question_tag": "nps",
            "question_text": "How likely?",
            "result_answer": "10",
            "result_guid": f"result-{number}",
            "result_response": "9",
            "result_timestamp": "2026-11-20T12:00:00.000001",
            "updated": "2026-11-20T12:00:00.000009",
            **fields,
        }

    return make


@pytest.fixture
def make_stat() -> Callable[..., dict[str, Any]]:
    """Make a stat record as the reference shows it (2.3), with a number; fields may be given."""

    def make(number: int, **fields: Any) -> dict[str, Any]:
        return {
            "num_active_sessions": 1,
            "num_complete_sessions": 2,
            "num_messages": 3,
            "num_questions": 4,
            "num_queued_sessions": 5,
            "num_renders": 6,
            "num_results": 7,
            "project_definition": {"text": "Hello"},
            "project_launch_guid": f"launch-{number}",
            "project_launch_start": "2026-11-20T12:00:00.000001",
            "project_tag": "pulse-2026",
            "sessions": [],
            **fields,
        }

    return make


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who vouches for the certificates of these tests."""
    return trustme.CA()


@pytest.fixture
def bundle(authority: trustme.CA, tmp_path: Path) -> str:
    """The authority's own certificate, as a file."""
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return str(file)
