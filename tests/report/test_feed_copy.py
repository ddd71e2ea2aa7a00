"""Results that leave PostgreSQL as CSV are, in columns, those that leave it row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.ledger.database import Ledger
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.model import Intent, Outcome, StoredResult
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import add_intents
from runner.ledger.report_model import FeedRow
from runner.ledger.results.reconciled import store_results, store_starts
from runner.ledger.results.result_feed import (
    FeedSpan,
    copy_feed,
    copy_reached,
    iterate_feed,
    iterate_spans,
    share_snapshot,
)
from runner.report.columns.engine import LONGEST_TEXT, Engine, select_staged, stage_rows

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

    from tests.postgres import PostgresServer

AT = "2026-11-20T12:00:00.000000Z"
KEY = FingerprintKey.from_salt("0123456789abcdef" * 2)
TEXTS = (
    "",
    "\\N",
    "NULL",
    'she said "no", twice',
    "two\nlines\r\nand\ta tab",
    "\\.",
    "Zürich 🎉 \N{LINE SEPARATOR}e\N{COMBINING ACUTE ACCENT}",
    "100% of %s",
    "é" * (LONGEST_TEXT + 5),
)


def enter(connection: Connection) -> int:
    """Enter four launches; return the ledger's number of the campaign."""
    campaign_id: int = enter_campaign(connection, "live", "pulse", KEY)
    intents = [
        Intent("ask", f"key-{n}", "pulse", "d1g35t", (f"{n:020x}",), "{}", arm="b" if n else None)
        for n in range(4)
    ]
    numbers = add_intents(connection, campaign_id, intents, AT)
    record_outcomes(connection, [Outcome(n, "sent", AT, f"launch-{n}") for n in numbers])
    store_starts(connection, {numbers[0]: "2026-11-20T12:00:00.000001"})
    return campaign_id


def answer(launch_id: int, number: int, text: str) -> StoredResult:
    return StoredResult(launch_id, f"guid-{number}", f"{number:020x}", "q", text, text, 1, text, text, AT, AT)


def read(engine: Engine, select: str) -> list[tuple[object, ...]]:
    return sorted(engine.rows(select))


def test_every_text_arrives_as_it_is(postgres: PostgresServer, tmp_path: Path) -> None:
    """Quotes, line ends, what COPY takes for no value, and texts too long to keep: the same rows either way."""
    file = tmp_path / "copied.csv"
    with Ledger(postgres.url(postgres.create_database())) as ledger, Engine(tmp_path) as engine:
        ledger.prepare()
        with ledger.writing() as connection:
            number = enter(connection)
            store_results(connection, [answer(1 + n % 3, n, text) for n, text in enumerate(TEXTS)])
        with ledger.reading() as connection:
            with file.open("wb") as stream:
                copy_feed(connection, number, FeedSpan(1, 4), LONGEST_TEXT, stream)
            with stage_rows(tmp_path, FeedRow._fields, iterate_feed(connection, number, -1)) as staged:
                rows = read(engine, staged.select)
        assert read(engine, select_staged(file, FeedRow._fields)) == rows
        assert len(rows) == len(TEXTS)


def test_copies_see_one_moment(postgres: PostgresServer, tmp_path: Path) -> None:
    """Who copies by a shared snapshot does not see what was committed since, nor other launches."""
    file = tmp_path / "copied.csv"
    with Ledger(postgres.url(postgres.create_database())) as ledger:
        ledger.prepare()
        with ledger.writing() as connection:
            number = enter(connection)
            store_results(connection, [answer(1, 1, "before"), answer(4, 4, "elsewhere")])
        with ledger.reading() as connection:
            spans = [span for span, _ in iterate_spans(connection, number, 2)]
            snapshot = share_snapshot(connection)
            with ledger.writing() as other:
                store_results(other, [answer(1, 1, "after"), answer(1, 2, "after")])
            with ledger.reading(snapshot) as copying, file.open("wb") as stream:
                copy_feed(copying, number, spans[0], LONGEST_TEXT, stream)
                copy_reached(copying, number, spans[1], stream)
    assert spans == [FeedSpan(1, 2), FeedSpan(3, 4)]
    lines = file.read_text(encoding="utf-8").splitlines()
    assert [line.count("before") for line in lines] == [4, 0, 0]
    assert sorted(lines[1:]) == [f'"ask","{n:020x}"' for n in (2, 3)]
