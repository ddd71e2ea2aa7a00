"""`runner validate --cluster` says what one process says."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from runner.campaign.load import load_campaign
from runner.cluster.folder import SharedFolder
from runner.source.diagnostic import Diagnostic, Problems
from runner.workflow.failures import find_audience_problems
from runner.workflow.plans.cluster_planning import plan_files_on_cluster
from tests.cluster.in_process import InProcess
from tests.test_cases import ALL_CASES, name_case

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.cluster.dask_engine import Cluster
    from runner.execution import Executor
    from runner.plan.model import CampaignPlan

CAMPAIGN = """\
version: 1
recipients:
  - phone: "+14155550101"
  - csv: people-*.csv
    region: US
    timezone_column: tz
exclude: [{csv: people-1.csv, region: US}]
messages:
  - id: hello
    text: Hello {{ name }} from {{ city }}, {{ nobody }}
"""


def tell(problems: Problems) -> tuple[list[Diagnostic], list[tuple[str, Path, int]], tuple[int, int, int]]:
    counts = problems.error_count, problems.warning_count, problems.note_count
    return list(problems), problems.omitted(), counts


def count(plan: CampaignPlan) -> CampaignPlan:
    """Return a plan without its launches: people of two partitions share none."""
    return replace(plan, messages=tuple(message.replace(launches=0) for message in plan.messages))


def check_both(campaign: Campaign, cluster: Executor, folder: Path) -> list[Diagnostic]:
    """Return what is found on a cluster; it must be what one process finds."""
    here, there = Problems(), Problems()
    plan = find_audience_problems(campaign, here)
    plan_files = partial(plan_files_on_cluster, cluster, SharedFolder(str(folder / "scratch")), quiet=True)
    found = find_audience_problems(campaign, there, plan_files)
    assert tell(there) == tell(here)
    assert (found and count(found)) == (plan and count(plan))
    return list(there)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.slow] if place % 4 else [], id=name_case(case))
        for place, case in enumerate(ALL_CASES)
    ],
)
def test_each_case_is_judged_alike(case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every campaign that people wrote, wrong or right, has the same problems on a cluster."""
    folder = shutil.copytree(case, tmp_path / "case", symlinks=True)
    monkeypatch.chdir(folder)
    for file in sorted(folder.rglob("*.yaml")):
        campaign, _ = load_campaign(file, current=folder)
        if campaign is not None:
            check_both(campaign, InProcess(), tmp_path)


@pytest.fixture
def people(campaign: Callable[[str], Campaign], tmp_path: Path) -> Campaign:
    """A campaign with many bad rows, in several files, and texts that lack variables."""
    for number in (1, 2):
        rows = "".join(
            f"415{number}{place:06},{'' if place % 3 else 'Ada'},{'' if place % 50 else 'Mars'},\n"
            if place % 7
            else f'12{place},,,"a\nb"\n'
            for place in range(300)
        )
        (tmp_path / f"people-{number}.csv").write_text(f"phone,name,tz,city\n{rows}", encoding="utf-8")
    return campaign(CAMPAIGN)


@pytest.mark.slow
def test_many_problems_of_many_files_are_added_up(
    local_cluster: Cluster, people: Campaign, tmp_path: Path
) -> None:
    """The first twenty of a kind are shown, the others counted, wherever they were found."""
    found = check_both(people, local_cluster, tmp_path)
    assert {one.code for one in found} >= {
        "recipient-phone-invalid",
        "recipient-variable-missing",
        "recipient-timezone-unknown",
        "template-variable-unknown",
    }


@pytest.mark.slow
@pytest.mark.usefixtures("people")
def test_the_command_says_what_it_says_without_a_cluster(
    run_process: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Started with --cluster, `validate` writes the same report, and leaves nothing behind."""
    alone = run_process("validate", "campaign.yaml", "--format", "json", cwd=tmp_path)
    together = run_process(
        "validate", "campaign.yaml", "--format", "json", "--quiet", "--cluster", "local:2", cwd=tmp_path
    )
    assert together.stderr == ""
    assert (together.returncode, json.loads(together.stdout)) == (alone.returncode, json.loads(alone.stdout))
    assert list((tmp_path / ".runner/cluster").iterdir()) == []
