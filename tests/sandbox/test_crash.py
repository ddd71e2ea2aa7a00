"""A service that is killed at any moment loses no send that it accepted."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from random import Random
from threading import Event
from typing import TYPE_CHECKING

import pytest
import requests

from runner.sandbox.records import RecordList
from runner.sandbox.store import Store, open_store
from tests.sandbox.serving import serving_process

if TYPE_CHECKING:
    from pathlib import Path

    from runner.sandbox.model import ServiceAddress

ROUNDS = 4


def send_until_dead(service: ServiceAddress, prefix: int, is_taken: Event) -> list[tuple[str, int]]:
    """Send, one after the other, until nobody answers; give the guid and number of phones of what was accepted.

    Once something was accepted, `is_taken` is set.

    Every other send is a survey to the same few people: it queues, and now and then ends what they have open.
    """
    accepted = []
    query = {"username": service.username, "api_key": service.api_key}
    with requests.Session() as session:
        for number in range(10**6):
            phones = [f"+1{prefix}{number:06d}{index}" for index in range(1 + number % 5)]
            body: dict[str, object] = {"phone": phones, "text": "Hi"}
            if number % 2:
                phones = [f"+1999555010{index}" for index in range(len(phones))]
                body = {
                    "phone": phones,
                    "questions": [{"text": "How?"}],
                    "complete_existing_sessions": number % 7 == 0,
                }
            try:
                answer = session.post(f"{service.url}/api/send", params=query, json=body, timeout=60)
                accepted.append((answer.json()["project_launch_guid"], len(phones)))
                is_taken.set()
            except requests.RequestException:
                return accepted
    return accepted


def check_counts(store: Store) -> None:
    """Hold the counts to the rows, and the file to its own form."""
    assert store.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    kept = store.connection.execute("SELECT renders, results, active, complete FROM totals").fetchone()
    counted = store.connection.execute(
        "SELECT (SELECT count(*) FROM transcript WHERE kind <> 'inbound'), (SELECT count(*) FROM result), "
        "(SELECT count(*) FROM session WHERE status = 'ACTIVE'), "
        "(SELECT count(*) FROM session WHERE status = 'COMPLETE')"
    ).fetchone()
    assert kept == counted


@pytest.mark.slow
def test_killed_service_keeps_every_accepted_send(db: Path) -> None:
    """Whenever a service is killed, every send that it answered with 200 is there, whole, after a restart."""
    random = Random(4)  # noqa: S311  the same moments every time
    accepted: list[tuple[str, int]] = []
    for turn in range(ROUNDS):
        with serving_process(db) as (process, service), ThreadPoolExecutor(4) as senders:
            taken = [Event() for _ in range(4)]
            sending = [
                senders.submit(send_until_dead, service, 4150 + 10 * turn + index, each)
                for index, each in enumerate(taken)
            ]
            assert all(each.wait(60) for each in taken)
            time.sleep(random.uniform(0.1, 0.6))
            os.kill(process.pid, signal.SIGKILL)
            accepted += [launch for future in sending for launch in future.result()]
    assert len(accepted) > ROUNDS
    with closing(open_store(db)) as store:
        check_counts(store)
        for guid, phones in accepted:
            stat = RecordList(store).find_stat(guid)
            assert stat is not None
            states = Counter(session["status"] for session in stat["sessions"])
            assert states.total() == phones
            assert [states[state] for state in ("QUEUED", "ACTIVE", "COMPLETE")] == [
                stat[f"num_{state}_sessions"] for state in ("queued", "active", "complete")
            ]
