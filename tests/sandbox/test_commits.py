"""Sends that arrive together share a commit."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pytest

from runner.sandbox.model import Definition
from runner.sandbox.sandbox_errors import RefusalError
from runner.sandbox.service import Service
from runner.sandbox.store import Store, open_store
from tests.sandbox.serving import make_writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.fixture
def store(db: Path) -> Iterator[Store]:
    with closing(open_store(db)) as opened:
        yield opened


def run_together(store: Store, *texts: str) -> list[str | BaseException]:
    """Send these texts in one turn of an event loop; "refused" and "broken" fail, the latter half-way."""
    service = Service(store)

    def send(text: str) -> str:
        if text == "refused":
            raise RefusalError(403, "refused", "Refused.")
        service.send(Definition(json.dumps({"text": text}), text=text), ["+14155550101"], NOON)
        if text == "broken":
            raise LookupError(text)
        return text

    async def send_all() -> list[str | BaseException]:
        writer = make_writer(service)
        writes = [writer.write(partial(send, text)) for text in texts]
        return await asyncio.gather(*writes, return_exceptions=True)

    return asyncio.run(send_all())


def list_texts(db: Path) -> list[str]:
    """Give the texts of all launches, as another process sees them."""
    with closing(open_store(db)) as other:
        rows = other.connection.execute(
            "SELECT json_extract(definition, '$.text') FROM launch ORDER BY id"
        ).fetchall()
    return [text for (text,) in rows]


def test_writes_of_one_turn_share_a_commit(db: Path) -> None:
    """Writes of one turn of the loop are one transaction, and all are told what became of theirs."""
    with closing(open_store(db)) as store:
        statements: list[str] = []
        store.connection.set_trace_callback(statements.append)
        assert run_together(store, "a", "b", "c") == ["a", "b", "c"]
        store.connection.set_trace_callback(None)
    assert list_texts(db) == ["a", "b", "c"]
    assert sum(statement.startswith("BEGIN") for statement in statements) == 1


def test_refusal_leaves_the_others_alone(db: Path) -> None:
    """A refused write is told so, and those beside it are stored."""
    with closing(open_store(db)) as store:
        outcomes = run_together(store, "a", "refused", "b")
    assert [str(outcome) for outcome in outcomes] == ["a", "Refused.", "b"]
    assert list_texts(db) == ["a", "b"]


def test_failure_takes_only_its_own_write(db: Path) -> None:
    """A write that fails half-way leaves nothing behind, and each of those beside it is stored once."""
    with closing(open_store(db)) as store:
        outcomes = run_together(store, "a", "broken", "b")
    assert outcomes[::2] == ["a", "b"]
    assert isinstance(outcomes[1], LookupError)
    assert list_texts(db) == ["a", "b"]
