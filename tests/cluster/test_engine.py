"""Calls that are made on a cluster: each once at least, whatever dies, and what comes back of them."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from runner.cluster import dask_engine
from runner.cluster.address import Address
from runner.cluster.dask_engine import open_cluster
from runner.errors import LimitError, RunnerError
from tests.cluster import tasks
from tests.cluster.schedulers import DaskScheduler, free_port

if TYPE_CHECKING:
    from pathlib import Path

    from runner.cluster.dask_engine import Cluster

PATIENCE_S = 90.0


def list_errors(above: type[RunnerError] = RunnerError) -> list[type[RunnerError]]:
    """Return every kind of error that a user can meet, but for those of what tasks know nothing of."""
    known = [above, *(each for below in above.__subclasses__() for each in list_errors(below))]
    return [
        each
        for each in known
        if not each.__module__.startswith(("runner.cli.", "runner.workflow.", "runner.git."))
    ]


def wait_for(folder: Path, count: int) -> None:
    """Wait until a folder has some files, each of which says that a call has begun."""
    deadline = time.monotonic() + PATIENCE_S
    while len(list(folder.iterdir())) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lose_patience(cluster: Cluster, patience_s: float) -> None:
    """Have a cluster that is connected wait no longer than this from now on."""
    cluster._patience_s = patience_s  # noqa: SLF001  to connect may take longer


@pytest.mark.slow
def test_each_call_gives_its_result_with_its_place(local_cluster: Cluster) -> None:
    """Results come as they come; each says whose it is."""
    found = list(local_cluster.run(tasks.square, [(number,) for number in range(50)]))
    assert sorted(found) == [(number, number * number) for number in range(50)]


def test_an_error_of_a_call_comes_through_as_itself(local_cluster: Cluster) -> None:
    """What a task says to the user arrives with its kind, its words and its hint."""
    with pytest.raises(LimitError) as caught:
        list(local_cluster.run(tasks.refuse, [("too many", "raise it")]))
    assert (caught.value.message, caught.value.hint, caught.value.exit_code) == ("too many", "raise it", 5)


def test_a_bug_of_a_task_is_told_without_its_words(local_cluster: Cluster) -> None:
    """What a task fails of is named by kind and place alone: its words could have a phone in them."""
    with pytest.raises(RunnerError) as caught:
        list(local_cluster.run(tasks.divide_by_zero, [("+14155550101",)]))
    message = caught.value.message
    assert message.startswith("a task failed on the cluster: ZeroDivisionError at tasks.py:")
    assert message.endswith(" in divide_by_zero")
    assert (
        caught.value.hint == "what was sent is recorded; if it fails again, please report it with this line"
    )


@pytest.mark.parametrize("kind", list_errors(), ids=lambda kind: kind.__name__)
def test_every_error_can_travel(kind: type[RunnerError]) -> None:
    """An error that a user can meet arrives from a worker as it left: kind, words, hint."""
    sent = kind("words", hint="a hint")
    received = pickle.loads(pickle.dumps(sent))  # noqa: S301  what it is about
    assert (type(received), received.message, received.hint, str(received)) == (
        kind,
        "words",
        "a hint",
        "words",
    )


@pytest.mark.slow
def test_a_call_whose_worker_is_killed_is_made_again(local_cluster: Cluster, tmp_path: Path) -> None:
    """A worker that dies takes no call with it: another one makes it."""
    calls = [(str(tmp_path / "mark"), number) for number in range(12)]
    assert sorted(local_cluster.run(tasks.die_first, calls)) == [(number, number) for number in range(12)]


def run_script(script: str, folder: Path) -> subprocess.Popen[str]:
    """Start a process that works on a cluster of its own, in a session of its own."""
    file = folder / "script.py"
    file.write_text(
        "import sys\n"
        "from runner.cluster.address import Address\n"
        "from runner.cluster.dask_engine import open_cluster\n"
        "from tests.cluster import tasks\n"
        "def main():\n"
        "    with open_cluster(Address('local:2', 2), {}) as cluster:\n"
        f"        {script}\n"
        "if __name__ == '__main__':\n"
        "    try: main()\n"
        "    except KeyboardInterrupt: sys.exit(130)\n",
        encoding="utf-8",
    )
    return subprocess.Popen(
        [sys.executable, "-W", "error", file],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_workers_end_with_the_command(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Ctrl-C ends command and workers without a word of Dask's; kill -9 of the command ends the workers, too."""
    started = tmp_path / "started"
    started.mkdir()
    script = f"list(cluster.run(tasks.hold, [({str(started)!r}, '/nowhere')] * 2))"
    process = run_script(script, tmp_path)
    wait_for(started, 2)
    workers = {int(mark.name.split("-")[0]) for mark in started.iterdir()}
    assert len(workers) == 2
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # As a terminal does: to all of them.
    else:
        process.send_signal(number)
    # Dask gives busy workers some seconds to end by themselves.
    out, err = process.communicate(timeout=3 * PATIENCE_S)
    assert (process.returncode, out, err) == (code, "", "")
    deadline = time.monotonic() + PATIENCE_S
    while any(map(is_alive, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_a_scheduler_that_is_lost_is_said(tmp_path: Path) -> None:
    """Without its scheduler a command ends, and says so: it can be run again."""
    started = tmp_path / "started"
    started.mkdir()
    with DaskScheduler(free_port()) as scheduler:
        address = scheduler.address
        with open_cluster(Address(address), {}, PATIENCE_S) as cluster:
            scheduler.add_worker()
            assert cluster._require_workers()  # noqa: SLF001  so that it is there
            results = cluster.run(tasks.hold, [(str(started), "/nowhere")])

            def kill_when_busy() -> None:
                wait_for(started, 1)
                scheduler.kill()

            killing = threading.Thread(target=kill_when_busy)
            killing.start()
            with pytest.raises(RunnerError) as caught:
                next(results)
            killing.join()
    assert caught.value.message == f"the scheduler at {address} has gone, or does not answer"


@pytest.mark.slow
def test_a_cluster_without_workers_is_said() -> None:
    """A scheduler alone makes no calls: it is said what is missing."""
    with DaskScheduler(free_port()) as scheduler:
        with open_cluster(Address(scheduler.address), {}, PATIENCE_S) as cluster:
            lose_patience(cluster, 0.5)
            with pytest.raises(RunnerError) as caught:
                list(cluster.run(tasks.square, [(1,)]))
        assert caught.value.message == f"the cluster at {scheduler.address} has had no worker for 0.5 s"
        assert caught.value.hint == (
            f"start workers, as with: dask worker {scheduler.address}; one without sms-campaign-runner[cluster] in the "
            "same version as here ends at once"
        )


def test_nobody_at_the_address_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask's own words stand in one sentence, with what to check."""
    monkeypatch.setattr(dask_engine, "_CONNECT_S", 0.5)
    address = f"tcp://127.0.0.1:{free_port()}"
    with pytest.raises(RunnerError) as caught, open_cluster(Address(address), {}):
        pytest.fail("there is none")
    assert caught.value.message.startswith(f"Dask cannot connect to a scheduler at {address}: ")
    assert (caught.value.hint or "").startswith("check the address, that `dask scheduler` runs there, and ")
