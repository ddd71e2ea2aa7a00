"""A process that is killed at any moment loses no result that it recorded, and no webhook is forgotten."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from runner.sandbox.records import RecordList
from runner.sandbox.store import open_store
from runner.sandbox.webhooks.queue import count_webhooks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUNDS = 4
# Says each result's guid once it is recorded; a sender runs beside it, so that its tries are broken off as well.
ANSWER = """
import asyncio, json, sys, threading, time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from runner.sandbox.definition import read_send
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from runner.sandbox.webhooks.sender import WebhookSender

path, turn, url, count = sys.argv[1:]
store = open_store(Path(path))

def answer():
    service = Service(open_store(Path(path)))
    print("ready", flush=True)
    for number in range(int(count)):
        phone = f"+1415{turn}{number:06d}"
        body = {"questions": [{"text": "Q1", "webhook": url}, {"text": "Q2"}], "phone": phone}
        request = read_send(json.dumps(body).encode())
        service.send(request.definition, request.phones, datetime.now(UTC))
        print(service.receive(phone, "one", datetime.now(UTC)).result_guid, flush=True)
        time.sleep(0.002)

threading.Thread(target=answer, daemon=True).start()
# However long a machine takes, no webhook is given up; what was broken off is due again soon.
sender = WebhookSender(store, timeout=timedelta(seconds=1), waits=[timedelta(seconds=0.1)] * 10**5)
asyncio.run(sender.run(asyncio.Event()))
"""


@contextmanager
def running(db: Path, turn: int, url: str, count: int) -> Iterator[subprocess.Popen[str]]:
    """Record so many results in a process, and kill it at the end of the block."""
    command = [sys.executable, "-c", ANSWER, str(db), str(turn), url, str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            os.kill(process.pid, signal.SIGKILL)


def run_for(seconds: float, db: Path, turn: int, url: str) -> list[str]:
    """Record results for so long after the second one, and then kill the process; give the guids that it said."""
    with running(db, turn, url, 10**6) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(2)]
        time.sleep(seconds)
        os.kill(process.pid, signal.SIGKILL)
        said += process.stdout.readlines()
    # The last line may be half a guid.
    return [line.strip() for line in said if len(line.strip()) == 36]


@pytest.mark.slow
def test_killed_process_keeps_results_and_webhooks(db: Path, hook: Any) -> None:
    """Every result that was said to be recorded is there, and each is POSTed at least once in the end."""
    random = Random(7)  # noqa: S311  the same moments every time
    said = []
    for turn in range(ROUNDS):
        said += run_for(random.uniform(0.1, 0.5), db, turn, hook.url)
    assert len(said) > ROUNDS
    # Nothing new: the sender alone, until what was broken off is due again and everything is delivered.
    with closing(open_store(db)) as store, running(db, ROUNDS, hook.url, 0):
        ends = time.monotonic() + 90
        while set(count_webhooks(store.connection)) != {"DELIVERED"} and time.monotonic() < ends:
            time.sleep(0.05)
        recorded = {record["guid"] for record in RecordList(store).list_results({}, 10**6, 0).records}
        assert set(count_webhooks(store.connection)) == {"DELIVERED"}
    assert set(said) <= recorded == {body["result_guid"] for _, _, body in hook.requests}
