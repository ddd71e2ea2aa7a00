"""Sends and reads in flight at once, as the service counts them, while workers join, leave, die and stand still."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.cluster.sending_farm import SHORT_LEASES, Farm, Sending, finish, wait_until
from tests.deliver.conftest import FaultyService, Request, faulty

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.deliver.conftest import Behaviour
    from tests.postgres import PostgresServer

__all__ = ["faulty"]
pytestmark = pytest.mark.slow

_TAKES_S = 0.1
_JOINED_S = 1.0
_TARGETS = """\
version: 1
targets:
  live:
    base_url: {url}
    limits: {{concurrency: {concurrency}, connect_timeout: 1s, read_timeout: 3s}}
"""


class Counter:
    """A count of the sends that a service has in flight, each for some time.

    Attributes:
        most: the most at once so far; may be reset.
        gate: keeps sends in flight while it is closed.

    Args:
        service: receives them.
        allowed: at once. Until there were so many each waits for others, as long as its client may be slow.
    """

    def __init__(self, service: FaultyService, allowed: int) -> None:
        self.most = 0
        self._allowed = allowed
        self.gate = threading.Event()
        self.gate.set()
        self._now = 0
        self._turn = threading.Condition()
        service.decide = self._decide

    def _decide(self, _number: int, _request: Request) -> Behaviour:
        with self._turn:
            self._now += 1
            self.most = max(self.most, self._now)
            self._turn.notify_all()
            self._turn.wait_for(lambda: self.most >= self._allowed, _JOINED_S)
        time.sleep(_TAKES_S)
        self.gate.wait(2)
        with self._turn:
            self._now -= 1
        return {}


@pytest.fixture
def sending(
    tmp_path: Path,
    postgres: PostgresServer,
    faulty: FaultyService,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Sending]:
    """A repository whose campaign two workers send; a request takes four seconds at most."""
    farm = Farm(postgres)
    with farm.scheduler:
        for _worker in range(2):
            farm.scheduler.add_worker(farm.environment)
        sending = Sending(tmp_path, farm, faulty, monkeypatch, capsys)
        sending.enter()
        farm.scheduler.wait_for_workers()
        try:
            yield sending
        finally:
            sending.end()


def limit(sending: Sending, concurrency: int) -> Counter:
    """Limit the target's sends in flight, and count them."""
    text = _TARGETS.format(url=sending.service.url, concurrency=concurrency)
    (sending.folder / "campaigns" / "targets.yaml").write_text(text, encoding="utf-8")
    sending.monkeypatch.delenv("RUNNER_BASE_URL")
    sending.monkeypatch.setenv("RUNNER_TARGET", "live")
    return Counter(sending.service, concurrency)


def count_sent(sending: Sending) -> int:
    """Return how many sends have come."""
    return len(sending.service.requests)


def test_two_workers_take_turns_with_a_single_send(sending: Sending) -> None:
    """With a concurrency of 1, both send, one at a time."""
    phones = sending.write_campaign(40)
    counter = limit(sending, 1)
    code, out, err = sending.apply()
    assert (code, out) == (0, "pulse: 40 recipients texted in 40 launches.\n"), err
    assert counter.most == 1
    sending.require_everyone_once(phones)


def test_workers_that_join_and_die_share_one_budget(sending: Sending) -> None:
    """From two workers to four, of which three are killed: never above 8, and the last one has all 8 at the end."""
    phones = sending.write_campaign(1200)
    counter = limit(sending, 8)
    client = sending.start_until(30, *SHORT_LEASES)
    scheduler = sending.farm.scheduler
    for _worker in range(2):
        scheduler.add_worker(sending.farm.environment)
    scheduler.wait_for_workers()
    before = count_sent(sending)
    wait_until(lambda: count_sent(sending) >= before + 100)
    assert counter.most == 8
    counter.gate.clear()
    for _worker in range(3):
        scheduler.kill_worker()
    counter.gate.set()
    # The lost ones' leases end, and their requests have had their time.
    wait_until(lambda: find_granted(sending) == [8])
    assert counter.most == 8
    counter.most = 0
    code, out, err = finish(client)
    assert (code, out) == (0, "pulse: 1,200 recipients texted in 1,200 launches.\n"), err
    assert counter.most == 8
    sending.require_everyone_once(phones)


def test_it_is_said_when_lost_workers_had_the_whole_budget(sending: Sending) -> None:
    """Where all sends in flight were those of killed workers, the run says that it waits, and for how long."""
    phones = sending.write_campaign(20)
    counter = limit(sending, 1)
    client = sending.start_until(3, *SHORT_LEASES)
    counter.gate.clear()
    for _worker in range(2):
        sending.farm.scheduler.kill_worker()
    counter.gate.set()
    sending.farm.scheduler.add_worker(sending.farm.environment)
    code, out, err = finish(client)
    assert (code, out) == (0, "pulse: 20 recipients texted in 20 launches.\n"), err
    said = "pulse: all sends in flight that are allowed were those of lost workers: waiting until none can be open"
    assert said in err
    sending.require_everyone_once(phones)


def find_granted(sending: Sending) -> list[int]:
    """Return the shares that are wanted or busy."""
    rows = sending.farm.query(
        "SELECT granted FROM request_shares WHERE busy_until > extract(epoch FROM clock_timestamp())"
    )
    return [granted for (granted,) in rows if granted]


def test_a_worker_that_stands_still_keeps_its_share_until_it_has_lapsed(sending: Sending) -> None:
    """Its share goes to the other one when nothing of it can be in flight; it comes back, and gets a new one."""
    phones = sending.write_campaign(600)
    counter = limit(sending, 8)
    client = sending.start_until(30, *SHORT_LEASES)
    wait_until(lambda: find_granted(sending) == [4, 4])
    worker = sending.farm.find_sender()
    worker.send_signal(signal.SIGSTOP)
    wait_until(lambda: find_granted(sending) == [8])
    worker.send_signal(signal.SIGCONT)
    code, out, err = finish(client)
    assert (code, out) == (0, "pulse: 600 recipients texted in 600 launches.\n"), err
    assert counter.most == 8
    sending.require_everyone_once(phones)
