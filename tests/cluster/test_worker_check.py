"""Workers that would not do as the command does are found out before they do anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from runner.cluster.address import Address
from runner.cluster.dask_engine import check_workers, judge_worker, open_cluster
from runner.cluster.folder import SharedFolder
from runner.errors import ConfigurationError, RunnerError
from runner.ledger.fingerprint import TargetKey
from tests.cluster import tasks
from tests.cluster.asking import ask_workers
from tests.cluster.schedulers import DaskScheduler, free_port

if TYPE_CHECKING:
    from pathlib import Path

    from runner.cluster.dask_engine import Cluster

WORKER = "tcp://10.0.0.7:4711"


@pytest.mark.slow
def test_workers_with_the_same_key_are_taken(local_cluster: Cluster, tmp_path: Path) -> None:
    """A worker of the same version that has the same state key, and reaches the folder, is one of us."""
    ask_workers(local_cluster, tasks.set_variables, {"CHECKED": "s3cret"})
    folder = SharedFolder(str(tmp_path))
    check_workers(local_cluster, folder, TargetKey.of("live", "s3cret"), "CHECKED")
    check_workers(local_cluster, folder, TargetKey.of("live", None), "CHECKED")
    with pytest.raises(ConfigurationError) as caught:
        check_workers(local_cluster, folder, TargetKey.of("live", "another"), "CHECKED")
    reason = "the worker tls://127.0.0.1:\\d+ fails: CHECKED is not set as for the command"
    assert re.fullmatch(f"none of the cluster's workers is fit: {reason}; {reason}", caught.value.message)
    assert caught.value.hint == "start workers with the CHECKED of the command"


def test_a_worker_that_does_not_see_the_folder_is_named(tmp_path: Path) -> None:
    """There is no such folder on its machine."""
    place = tmp_path / "elsewhere"
    found = judge_worker(WORKER, SharedFolder(str(place)), "live", TargetKey.of("live", None).name, "")
    assert found is not None
    assert found.message == f"the worker {WORKER} does not see the folder {place}"
    assert found.hint == "name a folder that all workers reach, with --scratch or RUNNER_SCRATCH"


@pytest.mark.slow
def test_a_worker_without_the_program_is_named(tmp_path: Path) -> None:
    """A worker that lacks the program is named, with what to install there."""
    (tmp_path / "runner").mkdir()
    (tmp_path / "runner/__init__.py").write_text("")
    with DaskScheduler(free_port()) as scheduler:
        scheduler.add_worker({"PYTHONPATH": str(tmp_path)})
        scheduler.wait_for_workers()
        with open_cluster(Address(scheduler.address), {}) as cluster, pytest.raises(RunnerError) as caught:
            check_workers(cluster, SharedFolder(str(tmp_path)), TargetKey.of("live", None), "")
    assert caught.value.message.startswith("the worker tcp://127.0.0.1:")
    assert caught.value.message.endswith(" cannot run this program")
    assert caught.value.hint == "install sms-campaign-runner[cluster] there, in the same version as here"
