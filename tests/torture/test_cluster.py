"""The proof on a cluster, at the size of a test run; `make torture-cluster` has the size that convinces."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.torture.cluster.faults import BRIEF_S, COMINGS, LEASE_S
from tests.torture.cluster.fleet import Fleet
from tests.torture.cluster.series import count_cluster_faults, run_rounds
from tests.torture.repository import Audience, Repository
from tests.torture.service import Service, Temper

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.postgres import PostgresServer
    from tests.torture.door import Answer

pytestmark = pytest.mark.slow

ROUND_S = 6.0
CAMPAIGNS = 1
SEED = 51
PEOPLE = 60
TAKES_S = 0.15
PATIENCE_S = 150.0
HESITATES_S = 0.4
LATE_S = 1.0
"""How long a worker that comes back has to do what it must not."""


class HesitantService(Service):
    """A service that takes its time over each request until a test has done what it must do meanwhile."""

    def __init__(self, temper: Temper) -> None:
        self.may_hurry = threading.Event()
        super().__init__(temper)

    def take_send(self, body: dict[str, Any], came_at: float) -> Answer | str:
        self.may_hurry.wait(HESITATES_S)
        return super().take_send(body, came_at + HESITATES_S)


def wait_for(is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.timeout(900)
def test_nobody_is_texted_twice_and_nobody_skipped(
    postgres: PostgresServer, record_property: Callable[[str, object], None]
) -> None:
    """Workers come and go, some without keys, and all kinds of processes die: everybody is texted once, in time."""
    tally = run_rounds(
        postgres,
        faults=1,
        first_seed=SEED,
        campaigns=CAMPAIGNS,
        round_s=ROUND_S,
        pauses=BRIEF_S,
        first=COMINGS,
    )
    assert not tally.violations, "\n".join(tally.violations)
    assert (tally.twice, tally.skipped, tally.above) == (0, 0, 0)
    assert set(COMINGS) <= tally.faults.keys()
    faults = count_cluster_faults(tally)
    record_property("torture", f"cluster: {faults:,} faults injected, {tally.sum_up()}")


@pytest.mark.timeout(900)
def test_a_worker_that_comes_back_sends_nothing_of_what_others_have_sent(
    postgres: PostgresServer, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A worker is stopped with intents on record, all is settled and sent by another, and it goes on."""
    audience = Audience(list(range(100, 100 + PEOPLE)), ("hello",), has_one_tag=True, per_send=1)
    service = HesitantService(Temper(1, 0.0, 0.0, 0.0, page_size=100, skew_s=0.0, takes_s=TAKES_S))
    repository = Repository(tmp_path / "repository", audience, service.door.url, 1.0)
    # Short: a socket's path has to be.
    folder = tmp_path_factory.mktemp("f")
    with closing(service.door), Fleet(folder, postgres, workers=2, env={}) as fleet:
        fleet.wait_until_whole()
        _, port = fleet.make_wire()
        where = ("--cluster", f"tcp://127.0.0.1:{port}", "--partition-lease", f"{LEASE_S}")
        apply = ("apply", "--auto-approve", *where)
        client = fleet.run(*apply, cwd=repository.folder)
        wait_for(lambda: service.launches)
        zombie = fleet.berths[0]
        wait_for(lambda: zombie.child.pid in fleet.find_holders())
        zombie.child.send_signal(signal.SIGSTOP)
        service.may_hurry.set()
        zombie.wire.cut(0)
        client.send_signal(signal.SIGKILL)
        wait_for(client.ended.is_set)
        assert fleet.run(*apply, cwd=repository.folder).finish(PATIENCE_S).code == 0
        zombie.child.send_signal(signal.SIGCONT)
        time.sleep(LATE_S)
        texts = service.count_texts()
        assert texts == Counter({("hello", phone): 1 for phone in audience.phones})
        assert fleet.list_guids("torture") == Counter(repository.list_guids())
