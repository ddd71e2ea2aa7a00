"""A process that is killed at any moment loses no result that it recorded, and no webhook is forgotten."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from runner.sandbox.records import RecordList
from runner.sandbox.store import open_store
from runner.sandbox.webhooks.queue import count_webhooks

if TYPE_CHECKING:
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
from runner.sandbox.webhooks.queue import RetrySchedule
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
sender = WebhookSender(store, patience=RetrySchedule(timeout=timedelta(seconds=0.3)))
asyncio.run(sender.run(asyncio.Event()))
"""


def run_for(seconds: float, db: Path, turn: int, url: str, count: int) -> list[str]:
    """Record results for so long and then kill the process; give the guids that it said."""
    command = [sys.executable, "-c", ANSWER, str(db), str(turn), url, str(count)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)
    said, _ = process.communicate()
    # The last line may be half a guid.
    return [line for line in said.splitlines() if len(line) == 36]


@pytest.mark.slow
def test_killed_process_keeps_results_and_webhooks(db: Path, hook: Any) -> None:
    """Every result that was said to be recorded is there, and each is POSTed at least once in the end."""
    random = Random(7)  # noqa: S311  the same moments every time
    said = []
    for turn in range(ROUNDS):
        said += run_for(random.uniform(0.1, 0.5), db, turn, hook.url, 10**6)
    assert len(said) > ROUNDS
    # Nothing new: the sender alone, until what was broken off is due again and everything is delivered.
    with closing(open_store(db)) as store:
        for _ in range(20):
            if set(count_webhooks(store.connection)) == {"DELIVERED"}:
                break
            run_for(1, db, ROUNDS, hook.url, 0)
        recorded = {record["guid"] for record in RecordList(store).list_results({}, 10**6, 0).records}
        assert set(count_webhooks(store.connection)) == {"DELIVERED"}
    assert set(said) <= recorded == {body["result_guid"] for _, _, body in hook.requests}
