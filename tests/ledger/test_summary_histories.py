"""Lockfiles that sum up, in random histories: a ledger is taken if, and only if, it lacks nobody of theirs."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from runner.errors import LockfileError
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import launch_key
from runner.ledger.lockfile.writer import rewrite_lockfile
from runner.ledger.model import Intent, Outcome
from runner.ledger.people.forgotten import mark_forgotten, read_forgotten, remove_person
from runner.ledger.record.campaign_record import enter_record, read_record
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import add_intents
from runner.ledger.record.recorded import Identity
from runner.ledger.record.unsettled import adopt_launch, release_launch
from runner.ledger.tables import deliveries, launches
from tests.ledger.conftest import AT, KEY, SALT

IDS = ("ask", "invite", "call")
OPEN, SENT = ("intent", "unknown"), "sent"
Steps = Sequence[tuple[Any, ...]]
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("send"),
            st.sets(st.integers(0, 9), min_size=1, max_size=3),
            st.sampled_from(["sent", "lost"]),
        ),
        st.tuples(st.just("settle"), st.sampled_from(["adopt", "release"])),
        st.tuples(st.just("forget"), st.integers(0, 9)),
        st.tuples(st.just("rename")),
        st.tuples(st.just("write"), st.sampled_from(["finish", "die"])),
        st.tuples(st.just("copy")),
    ),
    max_size=12,
)


@dataclass(slots=True)
class History:
    """A campaign in a folder of its own, what its lockfile said, and what its ledger was, at some moments."""

    folder: Path
    message: int = 0
    count: int = 0
    lockfiles: list[tuple[str, set[str]]] = field(default_factory=list)
    copies: list[Path] = field(default_factory=list)

    @property
    def identity(self) -> Identity:
        ids = dict.fromkeys(IDS[: self.message + 1], IDS[self.message])
        return Identity("pulse", self.folder / "pulse.yaml", "live", message_ids=ids, keeps_summary=True)

    def send(self, ledger: Ledger, numbers: set[int], how: str) -> None:
        record = enter_record(ledger, self.identity, SALT)
        held = set().union(*record.known.sent.values(), *record.known.unresolved.values())
        people = tuple(sorted({name(number) for number in numbers} - held - record.known.forgotten))
        if not people:
            return
        self.count += 1
        message, digest = IDS[self.message], f"digest-{self.count}"
        key = launch_key("pulse", message, digest, people)
        with ledger.writing() as connection:
            campaign_id = enter_campaign(connection, "live", "pulse", KEY)
            intent = Intent(message, key, "tag", digest, people, "{}")
            ids = add_intents(connection, campaign_id, [intent], AT)
            if how == "sent":
                record_outcomes(connection, [Outcome(ids[0], "sent", AT, f"guid-{self.count}")])

    def settle(self, ledger: Ledger, how: str) -> None:
        with ledger.writing() as connection:
            for launch_id in connection.execute(
                select(launches.c.id).where(launches.c.state.in_(OPEN))
            ).scalars():
                if how == "adopt":
                    adopt_launch(connection, launch_id, f"guid-settled-{launch_id}", AT)
                else:
                    release_launch(connection, launch_id, AT, "it was not sent")

    def forget(self, ledger: Ledger, number: int) -> None:
        record = enter_record(ledger, self.identity, SALT)
        with ledger.writing() as connection:
            if any(remove_person(connection, record.require_entered()[0], "pulse", name(number)).values()):
                mark_forgotten(connection, record.require_entered()[0], name(number))

    def rename(self, _: Ledger) -> None:
        self.message = min(self.message + 1, len(IDS) - 1)

    def write(self, ledger: Ledger, how: str) -> None:
        """Write the lockfile; or die before it."""
        record = enter_record(ledger, self.identity, SALT)
        if how == "finish":
            rewrite_lockfile(ledger, self.identity, record)
            if self.identity.lockfile.exists():
                text = self.identity.lockfile.read_text(encoding="utf-8")
                self.lockfiles.append((text, find_people(ledger, states=(SENT,))))

    def copy(self, ledger: Ledger) -> None:
        self.copies.append(self.folder / f"copy-{len(self.copies)}")
        with ledger.autocommit() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(self.folder / "ledger", self.copies[-1])

    def go_on(self, ledger: Ledger, steps: Steps) -> None:
        for step, *values in steps:
            getattr(self, str(step))(ledger, *values)


def name(number: int) -> str:
    return KEY.fingerprint("pulse", f"+1415555{number:04}")


def find_people(ledger: Ledger, states: tuple[str, ...]) -> set[str]:
    query = (
        select(deliveries.c.fingerprint)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(deliveries.c.released.is_(False), launches.c.state.in_(states))
    )
    with ledger.reading() as connection:
        return set(connection.execute(query).scalars())


def find_forgotten(ledger: Ledger) -> set[str]:
    with ledger.reading() as connection:
        return read_forgotten(connection, 1)


def is_taken(ledger: Ledger, identity: Identity) -> bool:
    try:
        read_record(ledger, identity)
    except LockfileError as error:
        if "is not the one that" not in error.message:
            raise
        return False
    return True


@pytest.mark.slow
@settings(max_examples=40)
@given(steps=STEPS)
def test_taken_if_nobody_is_missing(steps: Steps) -> None:
    """Every copy of the ledger goes with every lockfile whose people it has sent to, and with no other."""
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder))
        with Ledger(f"sqlite:///{folder}/ledger") as ledger:
            ledger.prepare()
            history.go_on(ledger, [*steps, ("write", "finish"), ("copy",)])
            gone = find_forgotten(ledger)
            assert is_taken(ledger, history.identity)
        for text, people in history.lockfiles:
            history.identity.lockfile.write_text(text, encoding="utf-8")
            for copy in history.copies:
                with Ledger(f"sqlite:///{copy}") as other:
                    held = find_people(other, states=(SENT,))
                    lacks = people - held - (gone & find_forgotten(other))
                    assert is_taken(other, history.identity) is not bool(lacks), (people, held)


@pytest.mark.slow
@settings(max_examples=25)
@given(before=STEPS, ours=STEPS, theirs=STEPS)
def test_another_ledger(before: Steps, ours: Steps, theirs: Steps) -> None:
    """A copy of the ledger that has gone on by itself is refused by lockfiles that tell of others."""
    with tempfile.TemporaryDirectory() as folder:
        history, fork = History(Path(folder)), Path(folder) / "fork"
        with Ledger(f"sqlite:///{folder}/ledger") as ledger:
            ledger.prepare()
            history.go_on(ledger, [*before, ("write", "finish"), ("copy",)])
            fork.mkdir()
            shutil.copy(history.copies[-1], fork / "ledger")
            history.go_on(ledger, [*ours, ("write", "finish")])
        # Numbers of its own, as another machine's: nobody tells by them which launches are the same.
        other = History(fork, history.message, history.count + 100)
        with Ledger(f"sqlite:///{fork}/ledger") as ledger:
            other.go_on(ledger, [*theirs, ("write", "finish")])
            held, gone = find_people(ledger, states=(SENT, *OPEN)), find_forgotten(ledger)
            other.message = history.message = max(other.message, history.message)
            for text, people in history.lockfiles:
                other.identity.lockfile.write_text(text, encoding="utf-8")
                lost = people - held - gone - set(json.loads(text).get("forgotten", ()))
                if lost:
                    assert not is_taken(ledger, other.identity)
