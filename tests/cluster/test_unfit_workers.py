"""Workers that come, fail or stand still while a campaign is sent: the run goes on with the others."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import runner
from tests.cluster.sending_farm import SHORT_LEASES, Farm, Sending, finish, read_until
from tests.deliver.conftest import FaultyService, faulty

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.postgres import PostgresServer

__all__ = ["faulty"]

pytestmark = pytest.mark.slow

LIMIT_FILES = (
    "import resource, signal\n"
    "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))\n"
)
"""Startup code of a process that can write only small files, as on a full disk."""


@pytest.fixture
def sending(
    tmp_path: Path,
    postgres: PostgresServer,
    faulty: FaultyService,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Sending]:
    """A repository whose campaign is sent by one worker, until a test adds others."""
    farm = Farm(postgres)
    with farm.scheduler:
        farm.scheduler.add_worker(farm.environment)
        farm.scheduler.wait_for_workers()
        sending = Sending(tmp_path, farm, faulty, monkeypatch, capsys)
        sending.enter()
        try:
            yield sending
        finally:
            sending.end()


def copy_package(folder: Path, version: str) -> str:
    """Make a copy of the program of another version; return the path to import it from."""
    copied = folder / "other"
    (copied / "runner").mkdir(parents=True)
    package = Path(runner.__file__).parent
    for item in package.iterdir():
        if item.name not in {"version.py", "__pycache__"}:
            (copied / "runner" / item.name).symlink_to(item)
    text = (package / "version.py").read_text(encoding="utf-8")
    (copied / "runner" / "version.py").write_text(
        re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', text), encoding="utf-8"
    )
    return os.pathsep.join((str(copied), *sys.path))


def test_a_worker_that_joins_without_the_key_is_put_aside(sending: Sending) -> None:
    """It is named with the reason, once; the run goes on and texts everyone."""
    phones = sending.write_campaign(60)
    sending.hold_after(5)
    client = sending.start_until(6)
    scheduler = sending.farm.scheduler
    scheduler.add_worker({**sending.farm.environment, "RUNNER_API_KEY": ""})
    scheduler.wait_for_workers()
    said = read_until(client, re.compile("it is put aside, and .*\n"))
    sending.service.open_gate()
    code, out, err = finish(client)
    assert (code, out) == (0, "pulse: 60 recipients texted in 60 launches.\n"), err
    err = said + err
    notes = re.findall(r"the worker tcp://127.0.0.1:\d+ has no RUNNER_API_KEY: it is put aside, and .*", err)
    assert len(notes) == 1, err
    assert "lost" not in err
    sending.require_everyone_once(phones)


def test_a_worker_of_another_version_is_put_aside(sending: Sending, tmp_path: Path) -> None:
    """A worker that does not fit at the start is named; those that fit send everything."""
    phones = sending.write_campaign(20)
    path = copy_package(tmp_path, "0.0.9")
    scheduler = sending.farm.scheduler
    scheduler.add_worker({**sending.farm.environment, "PYTHONPATH": path})
    scheduler.wait_for_workers()
    code, out, err = sending.run("apply", "--auto-approve")
    assert (code, out) == (0, "pulse: 20 recipients texted in 20 launches.\n"), err
    said = " ".join(err.split())
    assert re.search(
        r"the worker tcp://127.0.0.1:\d+ has sms-campaign-runner 0.0.9, and this is \S+: it is put aside",
        said,
    ), err
    sending.require_everyone_once(phones)


def test_a_full_disk_of_one_worker_is_named(sending: Sending, tmp_path: Path) -> None:
    """A worker that cannot write its files is put aside by name and reason; another one makes its calls."""
    phones = sending.write_campaign(40)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "sitecustomize.py").write_text(LIMIT_FILES, encoding="utf-8")
    path = os.pathsep.join((str(tmp_path / "full"), *sys.path))
    scheduler = sending.farm.scheduler
    scheduler.add_worker({**sending.farm.environment, "PYTHONPATH": path})
    scheduler.wait_for_workers()
    code, out, err = sending.run("apply", "--auto-approve")
    assert (code, out) == (0, "pulse: 40 recipients texted in 40 launches.\n"), err
    said = " ".join(err.split())
    assert re.search(
        r"the worker tcp://127.0.0.1:\d+ fails: \S+ cannot be written: File too large: it is put aside", said
    ), err
    sending.require_everyone_once(phones)


def test_a_scheduler_that_restarts_is_waited_for(sending: Sending) -> None:
    """Killed and back some seconds later, with workers that a supervisor starts again: the run says so and goes on."""
    phones = sending.write_campaign(60)
    sending.hold_after(10)
    client = sending.start_until(11, *SHORT_LEASES)
    scheduler = sending.farm.scheduler
    scheduler.kill_scheduler()
    gone = f"pulse: waiting for the scheduler at {scheduler.address}, which has gone, 60 s at most."
    read_until(client, re.compile(r"\s+".join(map(re.escape, gone.split()))))
    scheduler.start()
    for _ in range(2):
        scheduler.add_worker(sending.farm.environment)
    sending.service.open_gate()
    code, out, err = finish(client)
    assert (code, out) == (0, "pulse: 60 recipients texted in 60 launches.\n"), err
    sending.require_everyone_once(phones)


def test_a_worker_that_stands_still_is_named(sending: Sending) -> None:
    """Who waits for a stopped worker is told its name, and for how long it has not answered."""
    phones = sending.write_campaign(30)
    sending.hold_after(4)
    client = sending.start_until(5)
    worker = sending.farm.find_sender()
    worker.send_signal(signal.SIGSTOP)
    note = re.compile(
        r"^pulse: waiting for worker tcp://127\.0\.0\.1:\d+, which has not answered for \d+ s\.$",
        re.MULTILINE,
    )
    read_until(client, note)
    sending.service.open_gate()
    worker.send_signal(signal.SIGCONT)
    code, out, err = finish(client)
    assert (code, out) == (0, "pulse: 30 recipients texted in 30 launches.\n"), err
    sending.require_everyone_once(phones)


def test_without_a_fit_worker_all_reasons_are_told(sending: Sending) -> None:
    """If no worker fits at the start, the run ends at once, with the reason of each."""
    sending.write_campaign(2)
    scheduler = sending.farm.scheduler
    scheduler.kill_worker()
    scheduler.add_worker({**sending.farm.environment, "RUNNER_API_KEY": "another-key-of-somebody"})
    scheduler.add_worker({**sending.farm.environment, "RUNNER_LEDGER": ""})
    scheduler.wait_for_workers()
    code, _, err = sending.run("apply", "--auto-approve")
    assert code == 1
    said = " ".join(err.split())
    assert said.startswith("Error: none of the cluster's workers is fit: ")
    assert re.search(r"the worker tcp://127.0.0.1:\d+ has another RUNNER_API_KEY than this process", said)
    assert re.search(r"the worker tcp://127.0.0.1:\d+ has no RUNNER_LEDGER", said)
    assert "put aside" not in said
    assert sending.service.requests == []
