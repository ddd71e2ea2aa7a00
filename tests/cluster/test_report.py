"""A report that a cluster has counted is the one that a single process makes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from runner.cluster.folder import SharedFolder
from runner.cluster.result_parts import CountingPlace
from runner.cluster.worker_environment import WorkerEnvironment
from runner.report.documents.formats import write_json
from runner.workflow.report import ReportOptions, make_report
from runner.workflow.scope import Scope
from runner.workflow.workspace.workspace import Workspace
from tests.cluster import tasks
from tests.cluster.asking import ask_workers
from tests.cluster.surveys import do, send_and_answer, write_repository

if TYPE_CHECKING:
    from pathlib import Path

    from runner.cluster.dask_engine import Cluster
    from tests.postgres import PostgresServer

pytestmark = pytest.mark.slow

REPORTED = WorkerEnvironment("reported")


@pytest.fixture(scope="module")
def ledger(postgres: PostgresServer) -> str:
    """The URL of a ledger of this module's own."""
    return postgres.url(postgres.create_database())


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory, ledger: str) -> Path:
    """A repository whose campaigns were sent and answered."""
    folder = tmp_path_factory.mktemp("sent")
    write_repository(folder)
    send_and_answer(folder, ledger)
    return folder


def report(ledger: str, place: CountingPlace | None, *columns: str) -> list[str]:
    """Return the reports of all campaigns."""
    scope = Scope(ledger=ledger)
    workspace = Workspace.open(scope)
    options = ReportOptions(columns, least=1)
    with workspace.open_ledger_if_present() as present:
        return [
            write_json(make_report(workspace, present, campaign, options, (), place))
            for campaign in scope.load_valid_campaigns()
        ]


@pytest.mark.parametrize("columns", [(), ("city", "first_name")])
def test_the_figures_are_the_same(
    sent: Path,
    ledger: str,
    local_cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    columns: tuple[str, ...],
) -> None:
    """Arms, follow-ups, free texts, breakdowns, and a campaign that nobody has answered."""
    monkeypatch.chdir(sent)
    ask_workers(local_cluster, tasks.set_variables, {"RUNNER_PROFILE_REPORTED_LEDGER": ledger})
    place = CountingPlace(local_cluster, SharedFolder(str(tmp_path)), REPORTED)
    counted = report(ledger, place, *columns)
    assert counted == report(ledger, None, *columns)
    (other, pulse) = (json.loads(text) for text in counted)
    assert pulse["messages"][0]["participants_answered"] > 100
    assert other["messages"][0]["sent"] == 1


def test_files_go_by_way_of_a_store(sent: Path, ledger: str, tmp_path: Path) -> None:
    """`--cluster local:2` starts workers; what is at a URL is fetched and put there, and removed."""
    options = ("report", "campaigns/pulse.yaml", "--format", "json", "--by", "city")
    clustered = (*options, "--reconcile", "--cluster", "local:2", "--scratch", f"file://{tmp_path}/scratch")
    assert do(sent, ledger, *clustered) == do(sent, ledger, *options)
    assert list((tmp_path / "scratch").iterdir()) == []
