"""What a cluster has reconciled is in the ledger as one process would have put it there."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from runner.cluster.address import Address
from runner.cluster.dask_connection import open_cluster
from runner.cluster.worker_access import WorkerContexts, WorkerTarget
from runner.ledger.database import Ledger
from runner.ledger.people.opt_outs import add_opt_outs
from runner.ledger.tables import (
    forgotten_results,
    launch_differences,
    launch_starts,
    launch_stats,
    opt_outs,
    results,
    sessions,
)
from runner.reconcile.campaign import Portions, SharedReading, reconcile_campaign
from runner.reconcile.context import ReadingOrder, read_held
from runner.reconcile.parts import (
    LaunchGroup,
    Range,
    StatsReader,
    read_group,
    strip_stat,
    survey_range,
    sweep_range,
    work_through,
)
from runner.service.client import ServiceClient
from runner.service.connection import Connection
from tests.cli.inside import run_inside
from tests.cluster import tasks
from tests.cluster.asking import ask_workers
from tests.reconcile.conftest import AT, PEOPLE, TAG, Campaign, SurveyService
from tests.reconcile.surveyed import SurveyedService, surveying
from tests.service.conftest import API_KEY, USERNAME, reaching

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runner.cluster.dask_engine import Cluster
    from runner.reconcile.summary import ReconcileSummary
    from runner.service.target import Target
    from tests.postgres import PostgresServer

pytestmark = pytest.mark.slow

CAMPAIGN = """\
version: 1
name: pulse
tag: pulse-2026
recipients: [{phone: "+14155550101"}]
messages: [{id: ask, questions: [{tag: why, text: "Why?"}]}]
"""
VARIABLES = ("RECONCILED_USERNAME", "RECONCILED_API_KEY", "RECONCILED_STATE_KEY")
SMALL = [f"small-{number}" for number in range(110)]
LARGE = [f"large-{number}" for number in range(3)]
FORGOTTEN = "+14155550007"
PORTIONS = Portions(records=100, launches=4)


class LockedService(SurveyService):
    """Answers one request at a time, whoever asks, and knows who opted out; `most` were asked for at once."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        self._now = self.most = 0

    def respond(self, target: str) -> tuple[int, bytes]:
        with self._counting:
            self._now += 1
            self.most = max(self.most, self._now)
        with self._lock:
            answer = super().respond(target)
        with self._counting:
            self._now -= 1
        return answer

    def _make_stat(self, guid: str) -> dict[str, Any]:
        stopped = {"to": "+14155559000", "status": "COMPLETE", "sub_status": "OPTED_OUT"}
        stat = super()._make_stat(guid)
        return {**stat, "sessions": [*stat["sessions"], *([stopped] if guid == SMALL[3] else [])]}


@dataclass(slots=True)
class Twins:
    """The same campaign in two ledgers: a cluster brings one up to date, this process the other."""

    cluster: Cluster
    target: Target
    service: LockedService
    clustered: Campaign
    alone: Campaign
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(10_000_000)))

    def answer(self, guid: str, count: int, **fields: Any) -> None:
        """Let results of a launch come in."""
        for number in (next(self.numbers) for _ in range(count)):
            text = {3: "stop", 4: "please stop"}.get(number % 50, f"reason {number}")
            self.service.add(number, guid, **{"result_response": text, "result_answer": text, **fields})

    def contexts(self, *, full: bool = False) -> WorkerContexts:
        """Return what workers are told."""
        told = WorkerTarget.strip(self.target, VARIABLES)
        return WorkerContexts(ReadingOrder(self.clustered.id, self.clustered.name, AT, full), told)

    def reconcile(self, *, full: bool = False, accept: bool = False) -> ReconcileSummary:
        """Reconcile on the cluster."""
        return self.reconcile_by(self.contexts(full=full), accept=accept)

    def reconcile_by(self, contexts: WorkerContexts, *, accept: bool = False) -> ReconcileSummary:
        """Reconcile on the cluster, what others say."""
        shared = SharedReading(self.cluster, contexts, PORTIONS)
        return reconcile_campaign(self.clustered.open(contexts.order), shared, accept=accept)

    def compare(self) -> None:
        """See that both ledgers hold the same."""
        assert dump(self.clustered.ledger) == dump(self.alone.ledger)


def dump(ledger: Ledger) -> dict[str, list[tuple[Any, ...]]]:
    """Return what reconciling writes, but for revisions."""
    with ledger.reading() as connection:
        return {
            table.name: sorted(
                tuple(row)
                for row in connection.execute(select(*(c for c in table.c if c.name != "revision")))
            )
            for table in (
                results,
                opt_outs,
                launch_stats,
                launch_starts,
                launch_differences,
                forgotten_results,
                sessions,
            )
        }


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> str:
    """A database of this module's own."""
    return postgres.create_database()


@pytest.fixture(scope="module")
def cluster(postgres: PostgresServer, database: str) -> Iterator[Cluster]:
    """Workers that have the ledger's URL and the credentials, also when they were killed and started anew."""
    values = dict(zip(VARIABLES, (USERNAME, API_KEY), strict=False))
    with open_cluster(Address("local:2", 2), {"RUNNER_LEDGER": postgres.url(database), **values}) as opened:
        yield opened


@pytest.fixture
def twins(
    cluster: Cluster, postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Twins]:
    """A survey of many small launches and some large ones, of whose people one was forgotten."""
    service = LockedService()
    postgres.execute("DROP SCHEMA public CASCADE", database=database)
    postgres.execute("CREATE SCHEMA public", database=database)
    other = postgres.create_database()
    with (
        reaching(service) as reached,
        Ledger(postgres.url(database)) as shared,
        Ledger(postgres.url(other)) as own,
    ):
        # The share of a worker that is killed is free after these.
        target = replace(reached, connect_timeout=4.0, read_timeout=5.0)
        connection = Connection(target)
        client = ServiceClient(target, connection)
        for ledger in (shared, own):
            ledger.prepare()
        campaigns = [Campaign(ledger, client, service) for ledger in (shared, own)]
        for campaign in campaigns:
            campaign.launch(*SMALL, *LARGE)
            with campaign.ledger.writing() as opened:
                add_opt_outs(opened, PEOPLE.enter(opened), [FORGOTTEN], "forgotten", AT)
        service.launches[:] = [*SMALL, *LARGE]
        made = Twins(cluster, target, service, campaigns[0], campaigns[1])
        for place, guid in enumerate(SMALL):
            made.answer(guid, place % 3)
        for place, guid in enumerate(LARGE):
            made.answer(guid, 110 + 60 * place)
        for name, value in zip(VARIABLES, (USERNAME, API_KEY), strict=False):
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("RUNNER_LEDGER", postgres.url(database))
        yield made
        connection.close()


def test_the_ledgers_are_the_same(twins: Twins) -> None:
    """All there is at first, then what has come since, then, in full, what was edited."""
    assert twins.reconcile() == twins.alone.reconcile()
    twins.compare()
    twins.answer(LARGE[1], 70)
    twins.answer(SMALL[0], 2)
    assert twins.reconcile() == twins.alone.reconcile()
    twins.compare()
    for result in twins.service.results[::9]:
        result["result_response"] = "edited"
    del twins.service.results[5]
    summary = twins.reconcile(full=True)
    assert summary == twins.alone.reconcile(full=True)
    assert summary.unlisted_results == 1
    assert len(dump(twins.clustered.ledger)["sessions"]) > 100
    twins.compare()
    for result in twins.service.results:
        result["guid"] = result["result_guid"] = f"new-{result['result_guid']}"
    summary = twins.reconcile(full=True)
    assert summary == twins.alone.reconcile(full=True)
    # Of the forgotten nothing is kept, under whatever guid.
    kept = len(twins.service.results) - summary.forgotten_results
    assert (summary.renamed_results, summary.unlisted_results) == (kept, 1)
    twins.compare()


def test_what_the_service_contradicts_is_the_same(twins: Twins) -> None:
    """Launches that are counted too high, not counted, not listed, or whose results cannot be read."""

    def count(guid: str) -> int | None:
        return None if guid == SMALL[1] else len(twins.service.list_results(guid)) + (guid == LARGE[0])

    twins.service.count = count
    twins.service.launches.remove(SMALL[2])
    for result in twins.service.list_results(SMALL[2]):
        twins.service.results.remove(result)
    unread, unordered = twins.service.list_results(LARGE[1])[:2]
    unread["participant_phone_number"] = unordered["question_display_order"] = None
    summary, alone = twins.reconcile(), twins.alone.reconcile()
    # By another list it stands in another place.
    assert summary.unreadable == [replace(alone.unreadable[0], position=summary.unreadable[0].position)]
    assert replace(summary, unreadable=[]) == replace(alone, unreadable=[])
    found = {one.project_launch_guid: one.problem for one in summary.differences}
    assert found == {
        LARGE[0]: "more_counted",
        LARGE[1]: "unreadable_results",
        SMALL[1]: "uncounted",
        SMALL[2]: "unlisted",
    }
    assert LARGE[1] in summary.unread_launches
    twins.compare()


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_requests_are_in_flight_than_the_limit(twins: Twins, most: int) -> None:
    """Two workers share the target's requests in flight: with one, they take turns."""
    contexts = twins.contexts()
    target = replace(contexts.target, target=replace(twins.target, credentials=None, concurrency=most))
    summary = twins.reconcile_by(replace(contexts, target=target))
    assert twins.service.most <= most
    assert summary == twins.alone.reconcile()
    twins.compare()


def test_what_is_accepted_is_the_same(twins: Twins) -> None:
    """A person takes what is listed for all there is: kept with each difference, until there is another one."""
    twins.service.count = lambda guid: len(twins.service.list_results(guid)) + (guid == LARGE[0])
    twins.service.list_results(LARGE[1])[0]["participant_phone_number"] = None
    assert [one.accepted_at for one in twins.reconcile().differences] == [None, None]
    summary = twins.reconcile(accept=True)
    assert [one.accepted_at for one in summary.differences] == [AT, AT]
    assert summary.unread_launches == []
    twins.alone.reconcile()
    twins.alone.reconcile(accept=True)
    twins.compare()
    twins.answer(SMALL[5], 1)
    assert [one.accepted_at for one in twins.reconcile().differences] == [AT, AT]
    twins.answer(LARGE[0], 1)
    assert [one.accepted_at for one in twins.reconcile().differences] == [None, AT]


def test_the_command_accepts_differences_on_a_cluster(postgres: PostgresServer, tmp_path: Path) -> None:
    """With `--cluster`, too, `--accept-differences` is the way past what does not go away."""
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/pulse.yaml").write_text(CAMPAIGN, encoding="utf-8")
    service = SurveyedService()
    with surveying(service) as url:
        environment = {
            "RUNNER_BASE_URL": url,
            "RUNNER_USERNAME": USERNAME,
            "RUNNER_API_KEY": API_KEY,
            "RUNNER_LEDGER": postgres.url(postgres.create_database()),
            "RUNNER_SETTLE_WINDOW": "0s",
        }

        def run(code: int, *arguments: str) -> str:
            done = run_inside(*arguments, cwd=tmp_path, env=environment)
            assert done.returncode == code, done.stderr
            return done.stderr

        run(0, "apply", "--auto-approve")
        service.answer("+14155550101")
        del service.results[0]["participant_phone_number"]
        told = run(3, "reconcile", "--cluster", "local:2")
        assert "follow-ups that go by answers wait" in told
        told = run(0, "reconcile", "--accept-differences", "--cluster", "local:2")
        assert "follow-ups that go by answers wait" not in told
        report = json.loads(run_inside("report", "--format", "json", cwd=tmp_path, env=environment).stdout)
    (message,) = report["messages"]
    assert (message["participants_answered"], message["questions"][0]["answers"]) == (0, 0)
    assert message["discrepancies"][0].startswith("Launches whose answers were accepted")


def test_nothing_was_sent_yet(twins: Twins) -> None:
    """A campaign without launches has nothing to read, and that is no error."""
    never = Campaign(twins.clustered.ledger, twins.clustered.client, twins.service, "never")
    contexts = replace(twins.contexts(), order=ReadingOrder(never.id, never.name, AT))
    summary = twins.reconcile_by(contexts)
    assert (summary.launches, summary.is_complete) == (0, True)


def test_pages_shift_while_they_are_read(twins: Twins) -> None:
    """Lists in another order at each request, which grow meanwhile: soon nothing is missing."""
    chance = random.Random(1)  # noqa: S311  no secret
    twins.service.order = lambda results: chance.sample(results, len(results))
    grown = iter([*LARGE] * 7)

    def grow() -> None:
        if guid := next(grown, None):
            twins.answer(guid, 1)

    twins.service.on_page = grow
    twins.reconcile()
    twins.service.on_page = lambda: None
    assert twins.reconcile().is_complete
    twins.alone.reconcile()
    assert dump(twins.clustered.ledger)["results"] == dump(twins.alone.ledger)["results"]


def test_a_worker_that_is_killed_loses_nothing(twins: Twins) -> None:
    """Its tasks are run again by others, and the ledger is the same."""
    before = list(ask_workers(twins.cluster, tasks.say_process).values())
    doomed = {3: before[0], 6: before[1]}
    asked = iter(range(1, 1_000))

    def kill() -> None:
        if (process := doomed.get(next(asked))) is not None:
            os.kill(process, signal.SIGKILL)

    twins.service.on_page = kill
    summary = twins.reconcile()
    twins.service.on_page = lambda: None
    assert not set(before) & set(ask_workers(twins.cluster, tasks.say_process).values())
    assert summary == twins.alone.reconcile()
    twins.compare()


def test_a_task_may_run_twice_at_once(twins: Twins) -> None:
    """Two attempts of the same tasks, each with threads of its own, store everything once."""
    contexts, count = twins.contexts(), len(twins.service.results)
    held = read_held(twins.clustered.ledger, twins.clustered.id, "live")
    survey = StatsReader(twins.clustered.client, held.launches, lambda _steps: None)
    stats = {guid: strip_stat(stat, TAG) for guid, stat in survey.read_stats(set(held.launches)).items()}
    groups = [
        LaunchGroup({guid: stats[guid] for guid in [*SMALL[place::2], *LARGE]}, frozenset(), {TAG: count})
        for place in range(2)
    ]

    def attempt(_number: int) -> list[frozenset[str]]:
        work_through(contexts, survey_range, [Range(TAG, 0, 100), Range(TAG, 50, 100)])
        work_through(contexts, sweep_range, [Range(TAG, 0, 400), Range(TAG, 300, 400)])
        return [found.read.short for found in work_through(contexts, read_group, groups)]

    with ThreadPoolExecutor(2) as threads:
        for short in threads.map(attempt, range(2)):
            assert short == [frozenset()] * 2
    assert twins.reconcile().is_complete
    twins.alone.reconcile()
    twins.compare()
