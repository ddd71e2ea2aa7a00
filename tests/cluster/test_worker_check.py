"""Workers that would not do as the command does are found out before they do anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from runner.cluster.address import Address
from runner.cluster.dask_connection import check_workers, judge_worker, open_cluster
from runner.cluster.folder import SharedFolder
from runner.errors import ConfigurationError, RunnerError
from tests.cluster import tasks
from tests.cluster.asking import ask_workers
from tests.cluster.schedulers import DaskScheduler, free_port

if TYPE_CHECKING:
    from pathlib import Path

    from runner.cluster.dask_engine import Cluster

WORKER = "tcp://10.0.0.7:4711"


def test_workers_with_the_same_values_are_taken(local_cluster: Cluster, tmp_path: Path) -> None:
    """A worker of the same version that has the same secrets, and reaches the folder, is one of us."""
    ask_workers(local_cluster, tasks.set_variables, {"CHECKED": "s3cret", "EMPTY": ""})
    folder = SharedFolder(str(tmp_path))
    check_workers(local_cluster, folder, ("CHECKED", "EMPTY"), {"CHECKED": "s3cret"})
    with pytest.raises(ConfigurationError) as caught:
        check_workers(local_cluster, folder, ("CHECKED",), {"CHECKED": "another"})
    assert re.fullmatch(
        "none of the cluster's workers is fit: the worker tls://127.0.0.1:\\d+ has another CHECKED than this process; "
        "the worker tls://127.0.0.1:\\d+ has another CHECKED than this process",
        caught.value.message,
    )
    assert caught.value.hint == "start it with the CHECKED of this process"


def test_a_worker_that_differs_is_named_with_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said which worker, what of it, and what to do; never a value."""
    folder = SharedFolder(str(tmp_path))
    folder.write("workers.key", b"key")
    monkeypatch.setenv("THEIRS", "s3cret")
    cases: tuple[tuple[dict[str, str | None], str, str], ...] = (
        ({"MISSING": "aa"}, "no MISSING", "start it with the MISSING of this process"),
        ({"THEIRS": None}, "another THEIRS than this process", "start it without THEIRS"),
    )
    for own, reason, hint in cases:
        found = judge_worker(WORKER, folder, own)
        assert found is not None
        assert (found.message, found.hint) == (f"the worker {WORKER} has {reason}", hint)


def test_a_worker_that_does_not_see_the_folder_is_named(tmp_path: Path) -> None:
    """What is put there is not on its machine."""
    found = judge_worker(WORKER, SharedFolder(str(tmp_path)), {})
    assert found is not None
    assert found.message == f"the worker {WORKER} does not see what is put into {tmp_path}"
    assert found.hint == "name a folder that all workers reach, with --scratch or RUNNER_SCRATCH"


def test_nothing_about_a_value_goes_through_the_scheduler(local_cluster: Cluster, tmp_path: Path) -> None:
    """The key of the digests is in the folder alone, new each time: nobody else can try values against them."""
    folder = SharedFolder(str(tmp_path))
    check_workers(local_cluster, folder, (), {})
    first = folder.read("workers.key")
    check_workers(local_cluster, folder, (), {})
    assert len(first) == 32
    assert folder.read("workers.key") != first
    assert (tmp_path / "workers.key").stat().st_mode & 0o777 == 0o600


def test_a_worker_without_the_program_is_named(tmp_path: Path) -> None:
    """A worker that lacks the program is named, with what to install there."""
    (tmp_path / "runner").mkdir()
    (tmp_path / "runner/__init__.py").write_text("")
    with DaskScheduler(free_port()) as scheduler:
        scheduler.add_worker({"PYTHONPATH": str(tmp_path)})
        scheduler.wait_for_workers()
        with open_cluster(Address(scheduler.address), {}) as cluster, pytest.raises(RunnerError) as caught:
            check_workers(cluster, SharedFolder(str(tmp_path)), (), {})
    assert caught.value.message.startswith("the worker tcp://127.0.0.1:")
    assert caught.value.message.endswith(" cannot run this program")
    assert caught.value.hint == "install sms-campaign-runner[cluster] there, in the same version as here"
