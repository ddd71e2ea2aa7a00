"""Real processes, killed, interrupted and started twice: nobody is texted twice (docs/delivery.md).

Nothing here waits for time to pass: the service holds its answers until the test lets go of them.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.deliver.conftest import PATIENCE_S

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.deliver.conftest import Behaviour, FaultyService, Repository, Request

TWO = ("--concurrency", "2")
STOPPING = "Stopping: waiting for the sends in flight. A second interrupt stops at once.\n"


@contextmanager
def started(repository: Repository, *arguments: str, prelude: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run `runner apply` as a process; kill what is left of it in the end."""
    process = repository.start(*arguments, prelude=prelude)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def hold_from(faulty: FaultyService, first: int) -> None:
    """Have the service accept everything, and keep its answers to itself from the n-th send on."""

    def decide(number: int, _request: Request) -> Behaviour:
        return {"end": "hold"} if number >= first else {}

    faulty.decide = decide


def assert_nobody_twice(faulty: FaultyService) -> None:
    assert all(count == 1 for count in faulty.accepted.values())


@pytest.mark.parametrize(
    "answered", [pytest.param(0, marks=pytest.mark.slow), 3, pytest.param(8, marks=pytest.mark.slow)]
)
def test_a_killed_run_texts_nobody_again(
    repository: Repository, faulty: FaultyService, answered: int
) -> None:
    """Killed with requests in flight: the next run looks up what may have been sent, and sends the rest."""
    phones = repository.write_campaign(10)
    hold_from(faulty, answered + 1)
    with started(repository, *TWO) as process:
        faulty.wait_for_requests(answered + 2)
        process.send_signal(signal.SIGKILL)
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    faulty.open_gate()
    held = repository.count_recipients()
    # In flight, waiting for a thread, or answered and not yet recorded: each has its intent.
    assert 2 <= held["intent"] <= 4
    assert held.get("sent", 0) >= answered - 2
    for _ in range(2):
        assert repository.apply().code == 0
        assert faulty.accepted == dict.fromkeys(phones, 1)
        assert repository.count_recipients() == {"sent": len(phones)}


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again(repository: Repository, faulty: FaultyService) -> None:
    """However often a run is killed: everybody is texted once."""
    phones = repository.write_campaign(8)
    for _ in range(3):
        hold_from(faulty, len(faulty.requests) + 2)
        before = len(faulty.requests)
        with started(repository, "--concurrency", "1") as process:
            faulty.wait_for_requests(before + 2)
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE_S)
    faulty.behave({})
    assert repository.apply().code == 0
    assert faulty.accepted == dict.fromkeys(phones, 1)
    assert repository.count_recipients() == {"sent": len(phones)}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_records_what_is_in_flight(
    repository: Repository, faulty: FaultyService, number: signal.Signals
) -> None:
    """The first signal stops new sends and waits for those in flight; the next run sends the rest."""
    phones = repository.write_campaign(10)
    hold_from(faulty, 3)
    with started(repository, *TWO) as process:
        faulty.wait_for_requests(4)
        process.send_signal(number)
        assert process.stderr is not None
        assert process.stderr.readline() == STOPPING
        faulty.open_gate()
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Error: interrupted; everything that was sent is recorded\n" in err
    assert "  run the same command again to send the rest\n" in err
    assert out.startswith("pulse: 4 people texted")
    assert len(faulty.requests) == 4
    recorded = repository.count_recipients()
    assert recorded.pop("sent") == 4
    assert recorded.keys() <= {"not_sent"}
    assert repository.lockfile.read_text(encoding="utf-8").count('"project_launch_guid"') == 4
    assert repository.apply().code == 0
    assert faulty.accepted == dict.fromkeys(phones, 1)


@pytest.mark.slow
def test_the_second_signal_ends_at_once(repository: Repository, faulty: FaultyService) -> None:
    """A second signal doesn't wait, and loses nothing: what was in flight is looked up."""
    phones = repository.write_campaign(6)
    hold_from(faulty, 1)
    with started(repository, *TWO) as process:
        faulty.wait_for_requests(2)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.readline() == STOPPING
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
    held = repository.count_recipients()
    assert held == {"intent": 4}
    faulty.open_gate()
    assert repository.apply().code == 0
    assert faulty.accepted == dict.fromkeys(phones, 1)


@pytest.mark.slow
def test_two_runs_at_once(repository: Repository, faulty: FaultyService) -> None:
    """A run that starts while another one is sending leaves it to that."""
    phones = repository.write_campaign(12)
    hold_from(faulty, 1)
    with started(repository, *TWO) as first:
        faulty.wait_for_requests(2)
        # Two sends of the first run are held from now on; what the second one sends is answered.
        faulty.behave({})
        with started(repository, *TWO) as second:
            second.communicate(timeout=PATIENCE_S)
        faulty.open_gate()
        first.communicate(timeout=PATIENCE_S)
    assert (first.returncode, second.returncode) == (0, 6)
    assert repository.apply().code == 0
    assert faulty.accepted == dict.fromkeys(phones, 1)


@pytest.mark.slow
def test_two_first_runs_at_once(repository: Repository, faulty: FaultyService) -> None:
    """Two runs that start on a machine without any record text nobody twice, whoever wins."""
    phones = repository.write_campaign(30)
    with started(repository, *TWO) as first, started(repository, *TWO) as second:
        for process in (first, second):
            process.communicate(timeout=PATIENCE_S)
    assert {first.returncode, second.returncode} <= {0, 6}
    assert_nobody_twice(faulty)
    assert repository.apply().code == 0
    assert faulty.accepted == dict.fromkeys(phones, 1)


LIMIT_FILES = """
import resource, sys
# A module that is compiled here for the first time would be kept in part, for every process.
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
"""


@pytest.mark.slow
def test_a_disk_without_room(repository: Repository, faulty: FaultyService) -> None:
    """Where the ledger cannot grow the run ends with an error, and what was sent has its intent at least."""
    phones = repository.write_campaign(120)
    assert repository.apply("--limit", "1").code == 0
    limit = 2 * repository.ledger.stat().st_size
    with started(repository, *TWO, prelude=LIMIT_FILES.format(limit=limit)) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert out == ""
    assert err == (
        f"Error: the ledger sqlite:///{repository.ledger} cannot be used: disk I/O error\n"
        "  check that this user may write to the file and its folder, and that the disk has room; then run the same "
        "command again: nothing was sent that is not recorded\n"
    )
    held = repository.count_recipients()
    assert 1 <= held["sent"] < len(phones)
    assert repository.apply().code == 0
    assert faulty.accepted == dict.fromkeys(phones, 1)
