"""Whatever happens to a service, in whatever order: what it counts as it goes is what is in its rows."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from runner.sandbox.definition import read_send
from runner.sandbox.model import Plan
from runner.sandbox.records import RESULT_FILTERS, RecordList
from runner.sandbox.sandbox_errors import RefusalError
from runner.sandbox.service import Service
from runner.sandbox.store import open_store

PHONES = ("+14155550101", "+14155550102", "+14155550103")
CHOICE = {"text": "Q1", "tag": "colour", "responses": ["Red", "Blue", "End"], "conclude_on": "blue"}
FREEFORM = {"text": "Q2", "tag": "why"}
BODIES: tuple[dict[str, Any], ...] = (
    {"text": "Hello"},
    {"questions": [CHOICE, FREEFORM], "tag": "a"},
    {"questions": [FREEFORM, {**FREEFORM, "tag": "colour"}], "tag": "b", "introduction": "Hi"},
    {"questions": [CHOICE, CHOICE], "tag": "a", "complete_existing_sessions": True, "conclusion": "Bye"},
)
TEXTS = ("red", "2", "blue", "maybe", "end", "STOP", "start", "yes", "help", "because")
MOST_RENDERS = 2  # with which one of the bodies opens
COUNT_ROWS = """
WITH rendered AS (
    SELECT launch_id, kind FROM transcript JOIN session ON session.id = session_id
    WHERE kind NOT IN ('inbound', 'notice')
)
SELECT launch.id,
    (SELECT count(*) FROM rendered WHERE launch_id = launch.id AND kind NOT IN ('question', 'repeat')),
    (SELECT count(*) FROM rendered WHERE launch_id = launch.id AND kind = 'question'),
    (SELECT count(*) FROM rendered WHERE launch_id = launch.id),
    (SELECT count(*) FROM result WHERE launch_id = launch.id),
    (SELECT count(*) FROM session WHERE launch_id = launch.id AND status = 'QUEUED'),
    (SELECT count(*) FROM session WHERE launch_id = launch.id AND status = 'ACTIVE'),
    (SELECT count(*) FROM session WHERE launch_id = launch.id AND status = 'COMPLETE')
FROM launch ORDER BY launch.id
"""


class ServiceMachine(RuleBasedStateMachine):
    """Sends, texts and the passing of time, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.service = Service(open_store(Path(self.folder, "service.sqlite")), plan=Plan(renders_max=60))
        self.listing = RecordList(self.service.store, plan=self.service.plan)
        self.now = datetime(2026, 12, 1, 12, tzinfo=UTC)

    def teardown(self) -> None:
        self.service.store.close()
        shutil.rmtree(self.folder)

    @rule(body=st.sampled_from(BODIES), phones=st.lists(st.sampled_from(PHONES), min_size=1, max_size=3))
    def send(self, body: dict[str, Any], phones: list[str]) -> None:
        request = read_send(json.dumps({**body, "phone": phones}).encode())
        try:
            self.service.send(request.definition, request.phones, self.now)
        except RefusalError:
            self.service.expire_sessions(self.now)
            ((used,),) = self.read("SELECT renders FROM totals")
            assert used + MOST_RENDERS * len(phones) > self.service.plan.renders_max

    @rule(phone=st.sampled_from(PHONES), text=st.sampled_from(TEXTS))
    def receive(self, phone: str, text: str) -> None:
        before = self.read("SELECT count(*) FROM result")
        receipt = self.service.receive(phone, text, self.now)
        assert (receipt.result_guid is not None) == (self.read("SELECT count(*) FROM result") != before)
        assert receipt.keyword is None or not receipt.was_expected

    @rule(hours=st.integers(1, 100))
    def wait(self, hours: int) -> None:
        self.now += timedelta(hours=hours)

    @rule()
    def look(self) -> None:
        self.service.expire_sessions(self.now)
        assert self.service.expire_sessions(self.now) == 0

    @invariant()
    def counts_are_those_of_the_rows(self) -> None:
        counted = self.read(COUNT_ROWS)
        kept = self.read(
            "SELECT id, messages, questions, renders, results, queued, active, complete FROM launch ORDER BY id"
        )
        assert kept == counted
        sums = tuple(map(sum, zip(*(row[1:] for row in counted), strict=True))) or (0,) * 7
        totals = self.read(
            "SELECT messages, questions, renders, results, queued, active, complete FROM totals"
        )
        assert totals == [sums]

    @invariant()
    def one_session_is_active_and_others_queue_behind_it(self) -> None:
        open_of: dict[int, list[str]] = defaultdict(list)
        for participant, status in self.read(
            "SELECT participant_id, status FROM session WHERE status <> 'COMPLETE' ORDER BY id"
        ):
            open_of[participant].append(status)
        assert all(states == ["ACTIVE"] + ["QUEUED"] * (len(states) - 1) for states in open_of.values())
        stopped = {row[0] for row in self.read("SELECT id FROM participant WHERE opted_out IS NOT NULL")}
        assert not stopped & set(open_of)

    @invariant()
    def every_session_has_its_answers_in_order(self) -> None:
        answered: dict[int, list[int]] = defaultdict(list)
        for session, position in self.read("SELECT session_id, position FROM result ORDER BY id"):
            answered[session].append(position)
        assert all(positions == list(range(len(positions))) for positions in answered.values())

    @invariant()
    def every_filtered_page_is_that_of_a_walk(self) -> None:
        everything = self.listing.list_results({}, 1000, 0).records
        if not everything:
            return
        first, last = everything[0], everything[-1]
        # Values that belong together, and tags that another launch has.
        for record in (last, {**last, "project_tag": first["project_tag"]}):
            for chosen in range(1, 2 ** len(RESULT_FILTERS)):
                names = [name for index, name in enumerate(RESULT_FILTERS) if chosen >> index & 1]
                self.check_pages({name: record[name] for name in names}, everything)

    def check_pages(self, filters: dict[str, str], everything: Any) -> None:
        matching = [
            record for record in everything if all(record[name] == value for name, value in filters.items())
        ]
        for offset in {0, 1, max(0, len(matching) - 1), len(matching), 999}:
            page = self.listing.list_results(filters, 2, offset)
            assert page.total_count == len(matching)
            assert page.records == matching[offset : offset + 2]

    @invariant()
    def launches_are_found_by_their_tag(self) -> None:
        launches = self.listing.list_stats({}, 1000, 0).records
        for tag in ("a", "b"):
            matching = [launch for launch in launches if launch["project_tag"] == tag]
            page = self.listing.list_stats({"project_tag": tag}, 2, max(0, len(matching) - 2))
            assert page.total_count == len(matching)
            assert page.records == matching[-2:]

    def read(self, query: str) -> list[tuple[Any, ...]]:
        return self.service.store.connection.execute(query).fetchall()


TestServiceMachine = ServiceMachine.TestCase
TestServiceMachine.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
