"""Tells the engine who is in the audience: for breakdowns, and for exports with phones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.ledger.report_model import AskedRow
from runner.report.columns.derivation import number_person
from runner.report.columns.engine import quote
from runner.report.columns.staging import stage_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from runner.report.columns.engine import Engine


def load_members(engine: Engine, folder: Path, rows: Iterable[tuple[str, ...]], columns: int) -> None:
    """Make the table `members`.

    Args:
        engine: gets it.
        folder: this user's alone, for a file that is there for the moment.
        rows: each recipient's pseudonym, phone (empty if nobody is to have it), and value of each column.
        columns: how many.

    Raises:
        RunnerError: the file cannot be written.
    """
    names = ("participant", "phone", *(f"value_{number}" for number in range(columns)))
    with stage_rows(folder, names, rows) as staged:
        engine.run(f"CREATE OR REPLACE TEMP TABLE members AS {_number(staged.select)}")


def load_reached(engine: Engine, folder: Path, rows: Iterable[tuple[str, str]]) -> None:
    """Make the table `reached`: who was sent which message.

    Args:
        engine: gets it.
        folder: as for `load_members`.
        rows: a message's id and a pseudonym.

    Raises:
        RunnerError: the file cannot be written.
    """
    with stage_rows(folder, ("message", "participant"), rows) as staged:
        engine.run(f"CREATE OR REPLACE TEMP TABLE reached AS {_number(staged.select)}")


def load_asked(
    engine: Engine, folder: Path, rows: Iterable[AskedRow], opted_out: Iterable[tuple[str, str]]
) -> None:
    """Make the tables `asked_people`, who was sent which message and when, and `opted_out`.

    Args:
        engine: gets them.
        folder: as for `load_members`.
        rows: of everybody who was sent a message.
        opted_out: a message's id and the pseudonym of somebody whose reply to it opts out.

    Raises:
        RunnerError: the file cannot be written.
    """
    with stage_rows(folder, AskedRow._fields, rows) as staged:
        engine.run(f"CREATE OR REPLACE TEMP TABLE asked_people AS {staged.select}")
    with stage_rows(folder, ("message", "participant"), opted_out) as staged:
        engine.run(f"CREATE OR REPLACE TEMP TABLE opted_out AS {staged.select}")


def number_reached(select: str, message_ids: Mapping[str, str]) -> str:
    """Return the statement that makes rows of the table `reached` of those that the ledger gives.

    Args:
        select: reads rows of a message's id, as it was, and a pseudonym.
        message_ids: the ids that messages have now, by those that they had before.
    """
    renamed = "".join(
        f" WHEN {quote(before)} THEN {quote(now)}" for before, now in message_ids.items() if before != now
    )
    now = f"CASE message{renamed} ELSE message END" if renamed else "message"
    return _number(f"SELECT {now} AS message, participant FROM ({select})")


def _number(select: str) -> str:
    return f"SELECT *, {number_person('participant')} AS person FROM ({select})"
