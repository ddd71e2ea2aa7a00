"""A service on a real socket whose results come in hostile orders, and a ledger that knows its launches."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from runner.ledger.database import Ledger
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import Intent, Outcome
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import add_intents
from runner.ledger.results.result_feed import iterate_feed
from runner.ledger.target_key import enter_key
from runner.reconcile.campaign import reconcile_campaign
from runner.reconcile.launches import ReconcileContext
from tests.service.conftest import ListService, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runner.reconcile.campaign import ReconcileSummary
    from runner.service.client import ServiceClient

AT = "2026-11-20T12:00:00.000000Z"
TAG = "pulse-2026"
KEY = TargetKey.of("live", None)
COUNTS = ("active_sessions", "complete_sessions", "messages", "questions", "queued_sessions", "renders")

Result = dict[str, Any]


class SurveyService(ListService):
    """Lists launches and their results as the reference has it (4.2, 4.4, 4.5), in any order.

    Attributes:
        launches: their guids.
        results: records of results.
        order: gives the order of a list of results; is asked at every request.
        count: gives a launch's `num_results`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.launches: list[str] = []
        self.results: list[Any] = []
        self.order: Callable[[list[Any]], list[Any]] = lambda results: results
        self.count: Callable[[str], int | None] = lambda guid: len(self.list_results(guid))

    def list_results(self, guid: str) -> list[Any]:
        """Return the results of one launch."""
        return [result for result in self.results if result.get("project_launch_guid") == guid]

    def add(self, number: int, launch: str, **fields: Any) -> Result:
        """Add the result of that number, and return it."""
        result = make_result(number, launch, **fields)
        self.results.append(result)
        return result

    def respond(self, target: str) -> tuple[int, bytes]:
        """Return status and body for a request."""
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query))
        _, _, guid = parts.path.rstrip("/").partition("/api/stats/")
        if guid:
            self.queries.append((parts.path, query))
            found = guid in self.launches
            return (200, json.dumps(self._make_stat(guid)).encode()) if found else (404, b"")
        if parts.path == "/api/stats/":
            self.records = [self._make_stat(launch) for launch in self.launches]
        elif launch := query.get("project_launch_guid"):
            self.records = self.order(self.list_results(launch))
        else:
            self.records = self.order(list(self.results))
        return super().respond(target)

    def take_requests(self) -> list[str]:
        """Return the requests for results since the last call: launch or tag, and offset."""
        asked = [
            f"{query.get('project_launch_guid') or query['project_tag']} {query['offset']}"
            for path, query in self.queries
            if path == "/api/results"
        ]
        self.queries.clear()
        return asked

    def _list_phones(self, guid: str) -> set[str]:
        """Return the phones of a launch's results, as far as the service tells them."""
        phones = {one.get("participant_phone_number") for one in self.list_results(guid)}
        return {phone for phone in phones if isinstance(phone, str) and phone.startswith("+1415")}

    def _make_stat(self, guid: str) -> dict[str, Any]:
        return {
            **{f"num_{name}": 0 for name in COUNTS},
            "num_results": self.count(guid),
            "project_definition": {"text": "Hello"},
            "project_launch_guid": guid,
            "project_launch_start": "2026-11-20T12:00:00.000001",
            "project_tag": TAG,
            "sessions": [
                {"to": phone, "status": "ACTIVE", "sub_status": None}
                for phone in sorted(self._list_phones(guid))
            ],
        }


def make_result(number: int, launch: str, **fields: Any) -> Result:
    """Make a result record as the reference shows it (2.1)."""
    return {
        "created": "2026-11-20T12:00:00.000001",
        "guid": f"result-{number}",
        "participant_phone_number": f"+1415555{number % 10_000:04}",
        "project_launch_guid": launch,
        "project_tag": TAG,
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


@dataclass(slots=True)
class Campaign:
    """One campaign in a ledger, and the service that has its results."""

    ledger: Ledger
    client: ServiceClient
    service: SurveyService
    name: str = "pulse"
    id: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Enter it."""
        with self.ledger.writing() as opened:
            enter_key(opened, KEY)
            self.id = enter_campaign(opened, "live", self.name)

    def launch(self, *guids: str, to: str = "") -> None:
        """Record launches as sent, to a phone if one is given; the service has them too."""
        self.service.launches += guids
        with self.ledger.writing() as opened:
            for guid in guids:
                person = KEY.fingerprint(to) if to else f"{guid}-{self.name}"
                intent = Intent("ask", f"key-{self.name}-{guid}", TAG, "d1g35t", (person,), "{}")
                (number,) = add_intents(opened, self.id, [intent], AT)
                record_outcomes(opened, [Outcome(number, "sent", AT, guid)])

    def reconcile(self, *, full: bool = False, accept: bool = False, drops: bool = False) -> ReconcileSummary:
        """Reconcile once."""
        return reconcile_campaign(self.open(full=full or drops, drops=drops), accept=accept)

    def open(self, **options: Any) -> ReconcileContext:
        """Return what a reconciliation works with."""
        return ReconcileContext(self.ledger, self.client, KEY, self.id, AT, **options)

    def list_held(self) -> dict[str, str]:
        """Return the responses in the ledger, by `result_guid`."""
        with self.ledger.reading() as opened:
            return {row.result_guid: row.response for row in iterate_feed(opened, self.id, -1)}


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[Campaign]:
    """A campaign without launches yet."""
    service = SurveyService()
    with serving(service) as client, Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        ledger.prepare()
        yield Campaign(ledger, client, service)
