"""The sandbox as the service that goes wrong: by its own faults, with its own store."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from runner.sandbox.definition import read_send
from runner.sandbox.model import Plan
from runner.sandbox.records import RecordList
from runner.sandbox.rehearsal.faults import Faults
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from runner.sandbox.web.server import running_service
from tests.torture.door import hold_port
from tests.torture.launches import Launch, count_texts

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping
    from pathlib import Path

SEND_FAULTS = ("drop", "half", "noise", "slow", "500", "500-before", "reset")
WAITING_FAULTS = ("429", "503")
"""Each costs a run a second: they are rarer."""
LIST_FAULTS = ("shuffle-list", "drop-list", "500-list")


class SandboxService:
    """The sandbox, which counts what it accepts as it always does.

    Args:
        db: its database.
        rng: chooses how often it goes wrong.
        seed: of what goes wrong.
        username: whom requests must come from.
        api_key: with what.
        slow_for_s: how long an answer takes that is slow, seconds.
        lists_late_s: how long lists that are late lack what was accepted, seconds.

    Attributes:
        is_ahead: whether its clock is ahead of ours.
    """

    is_ahead = False

    def __init__(
        self,
        db: Path,
        rng: random.Random,
        *,
        seed: int,
        username: str,
        api_key: str,
        slow_for_s: float,
        lists_late_s: float,
    ) -> None:
        self._lists_late_s = lists_late_s
        self._faults = Faults(
            _choose_rates(rng),
            seed=seed,
            slow_for=timedelta(seconds=slow_for_s),
            late_by=timedelta(seconds=lists_late_s),
        )
        self._store = open_store(db)
        self._service = Service(self._store)
        self.door = SandboxDoor(db, self._faults, username, api_key)
        self.door.open()

    @property
    def launches(self) -> list[Launch]:
        """What it has accepted."""
        page = RecordList(self._store, plan=Plan()).list_stats({}, limit=10**6, offset=0)
        return [_read_launch(record) for record in page.records]

    @property
    def faults(self) -> Counter[str]:
        """How often each fault was met by a request."""
        return Counter({f"sandbox: {name}": number for name, number in self._faults.injected.items()})

    def accept(self, body: dict[str, Any]) -> str:
        """Text the phones, whoever asks for it, and return the launch's guid."""
        sent = read_send(json.dumps(body).encode())
        return self._service.send(sent.definition, sent.phones, datetime.now(UTC))

    def calm(self) -> None:
        """Behave from now on."""
        self._faults.replace({})

    def come_to_rest(self) -> None:
        """Wait until everything that was accepted is listed."""
        time.sleep(self._lists_late_s)

    def count_texts(self) -> Counter[tuple[str, str, str]]:
        """Return how often each phone was texted each message."""
        return count_texts(self.launches)


class SandboxDoor:
    """Lets requests into the sandbox: shut, the service has ended, and its database is all that is left.

    Args:
        db: its database.
        faults: what goes wrong.
        username: whom requests must come from.
        api_key: with what.
    """

    def __init__(self, db: Path, faults: Faults, username: str, api_key: str) -> None:
        self._db = db
        self._faults = faults
        self._username = username
        self._api_key = api_key
        self._running = ExitStack()
        self._holder = hold_port()
        self._is_open = False
        self.url = ""

    def open(self) -> None:
        """Serve, if it doesn't yet."""
        if self._is_open:
            return
        service = running_service(
            self._db,
            port=self._holder.getsockname()[1],
            username=self._username,
            api_key=self._api_key,
            faults=self._faults,
        )
        self.url = self._running.enter_context(service).url
        self._is_open = True

    def shut(self) -> None:
        """Stop serving: connections are refused. The port stays taken."""
        if self._is_open:
            self._running.close()
            self._is_open = False

    def close(self) -> None:
        """End."""
        self.shut()
        self._holder.close()


def _choose_rates(rng: random.Random) -> dict[str, float]:
    share = rng.choice((0.0, 0.3, 0.3, 0.5))
    waiting = share / 10
    return {
        **dict.fromkeys(SEND_FAULTS, (share - waiting) / len(SEND_FAULTS)),
        **dict.fromkeys(WAITING_FAULTS, waiting / len(WAITING_FAULTS)),
        **dict.fromkeys(LIST_FAULTS, rng.choice((0.0, 0.03))),
        "late-list": rng.choice((0.0, 0.3, 0.9)),
    }


def _read_launch(record: Mapping[str, Any]) -> Launch:
    return Launch(
        guid=record["project_launch_guid"],
        definition=record["project_definition"],
        phones=tuple(session["to"] for session in record["sessions"]),
        started=record["project_launch_start"],
        listed_at=0,
    )
