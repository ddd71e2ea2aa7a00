"""A service that takes surveys and lists what it counts and what came back, each as a test wants it."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from tests.patient_server import PatientServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Record = dict[str, Any]


class SurveyedService:
    """Accepts every send, and answers lists by the reference (4.2, 4.4, 4.5).

    Attributes:
        launches: stat records of what was accepted, in its order; their counts add up.
        results: result records.
        change: returns a launch as it is listed, or None for one that is not.
        unlisted: guids of results that no list shows.
    """

    def __init__(self) -> None:
        self.launches: list[Record] = []
        self.results: list[Record] = []
        self.change: Callable[[Record], Record | None] = lambda launch: launch
        self.unlisted: set[str] = set()

    def answer(self, phone: str, text: str = "Because") -> None:
        """Have somebody answer the question of the launch that reached them."""
        launch = next(one for one in self.launches if phone in [each["to"] for each in one["sessions"]])
        (question,) = launch["project_definition"]["questions"]
        guid, at = f"result-{len(self.results) + 1}", _now()
        launch["num_results"] += 1
        if phone not in [one["participant_phone_number"] for one in self.results]:
            launch["num_active_sessions"] -= 1
            launch["num_complete_sessions"] += 1
        self.results.append(
            {
                **dict.fromkeys(("created", "result_timestamp", "updated"), at),
                **dict.fromkeys(("guid", "result_guid"), guid),
                **dict.fromkeys(("result_answer", "result_response"), text),
                "participant_guid": phone[1:],
                "participant_phone_number": phone,
                "project_launch_guid": launch["project_launch_guid"],
                "project_launch_participant_guid": phone[1:],
                "project_tag": launch["project_tag"],
                "question_display_order": "0",
                "question_guid": "question-1",
                "question_tag": question["tag"],
                "question_text": question["text"],
            }
        )

    def accept(self, body: Record) -> Record:
        """Launch a project."""
        phones = body.pop("phone")
        guid = f"00000000-0000-4000-8000-{len(self.launches) + 1:012}"
        session = {"created": _now(), "from": "+14155550000", "method": "SMS", "status": "ACTIVE"}
        self.launches.append(
            {
                "num_active_sessions": len(phones),
                "num_complete_sessions": 0,
                "num_messages": 0,
                "num_questions": len(phones),
                "num_queued_sessions": 0,
                "num_renders": len(phones),
                "num_results": 0,
                "project_definition": body,
                "project_launch_guid": guid,
                "project_launch_start": _now(),
                "project_tag": body["tag"],
                "sessions": [{**session, "to": phone, "sub_status": None} for phone in phones],
            }
        )
        return {"project_launch_guid": guid}

    def look(self, path: str, query: dict[str, str]) -> tuple[int, Record]:
        """Return status and body of a GET."""
        listed = [one for one in (self.change(dict(launch)) for launch in self.launches) if one is not None]
        if path == "/api/results":
            names = ("project_launch_guid", "project_tag")
            shown = [one for one in self.results if one["guid"] not in self.unlisted]
            return 200, _page([one for one in shown if _matches(one, query, names)], query)
        if path == "/api/stats/":
            return 200, _page([one for one in listed if _matches(one, query, ("project_tag",))], query)
        found = [one for one in listed if path == f"/api/stats/{one.get('project_launch_guid')}/"]
        return (200, found[0]) if found else (404, {})


def _matches(record: Record, query: dict[str, str], names: tuple[str, ...]) -> bool:
    return all(record[name] == query.get(name, record[name]) for name in names)


def _page(records: list[Record], query: dict[str, str]) -> Record:
    offset, limit = int(query.get("offset", "0")), int(query.get("limit", "20"))
    meta = {"limit": limit, "offset": offset, "total_count": len(records), "next": "", "previous": None}
    return {"meta": meta, "objects": records[offset : offset + limit]}


def _now() -> str:
    return datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")


class _Server(PatientServer):
    service: SurveyedService


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(201, self.server.service.accept(body))

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self._answer(*self.server.service.look(parts.path, dict(parse_qsl(parts.query))))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the library's name
        """Say nothing."""

    def _answer(self, status: int, data: Record) -> None:
        content = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def surveying(service: SurveyedService) -> Iterator[str]:
    """Give the base URL of a service, which is on a real socket as long as the block lasts."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.service = service
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
