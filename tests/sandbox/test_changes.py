"""Waiting for changes, of this process and of others."""

from __future__ import annotations

import asyncio
import math
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from runner.sandbox import changes as changes_module
from runner.sandbox.changes import Changes
from runner.sandbox.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store(db: Path) -> Iterator[Store]:
    with closing(open_store(db)) as opened:
        yield opened


def test_note_wakes_everybody(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note wakes all who wait at once, with the same new revision."""
    monkeypatch.setattr(changes_module, "_POLL_S", 1000.0)

    async def run() -> list[int]:
        changes = Changes(store)
        waiting = [asyncio.create_task(changes.wait(0, math.inf)) for _ in range(3)]
        await asyncio.sleep(0)
        changes.note()
        return await asyncio.gather(*waiting)

    assert asyncio.run(run()) == [1, 1, 1]


def test_write_of_another_connection_is_noticed(db: Path, store: Store) -> None:
    """What another process commits to the file is noticed while somebody waits."""

    async def run() -> int:
        changes = Changes(store)
        waiting = asyncio.create_task(changes.wait(0, math.inf))
        await asyncio.sleep(0)
        with closing(open_store(db)) as other:
            other.keep_api_key()
        return await waiting

    assert asyncio.run(run()) == 1


def test_revision_that_is_past_is_not_waited_for(store: Store) -> None:
    """Who asks for what has changed since an older revision is answered at once."""

    async def run() -> int:
        changes = Changes(store)
        changes.note()
        return await changes.wait(0, math.inf)

    assert asyncio.run(run()) == 1


def test_waiting_ends_without_a_change(store: Store) -> None:
    """After the timeout the revision is the one that was known."""
    assert asyncio.run(Changes(store).wait(0, 0.01)) == 0


def test_cancelled_wait_leaves_nothing_behind(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who stops waiting is forgotten, and the others are woken all the same."""
    monkeypatch.setattr(changes_module, "_POLL_S", 1000.0)

    async def run() -> int:
        changes = Changes(store)
        first, second = (asyncio.create_task(changes.wait(0, math.inf)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait((first,))
        assert len(changes._waiting) == 1  # noqa: SLF001  what would grow for as long as the service runs
        changes.note()
        return await second

    assert asyncio.run(run()) == 1
