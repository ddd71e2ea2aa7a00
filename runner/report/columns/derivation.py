"""Gives staged results the columns that they are counted by, once, when they are copied.

Numbers stand for texts wherever a text would only be compared: the engine groups those by a fraction of the
time and the memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.ledger.report_model import ORDER_UNKNOWN
from runner.report.columns.staging import stage_rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from runner.report.columns.engine import Engine

LAYOUT = 5
"""Of the columns: a copy of another one is made anew."""

# What Python takes off the ends of a text, which the readers leave to it.
_BLANK = r"[\s\x0b\x1c-\x1f\x{85}\p{Z}]"
_NUMBER = r"[+-]?[0-9]{1,15}([.,][0-9]{1,15})?"
_THOUSANDS = r"[+-]?[1-9][0-9]{0,2},[0-9]{3}"
_LATEST_US = 253_402_300_799_999_999  # the end of the year 9999
# Letters and the marks that follow them, with apostrophes inside; whatever else ends a word.
_WORD = r"\p{L}[\p{L}\p{M}]*(?:''[\p{L}\p{M}]+)*"
_FOLDED_TEXT = "nfc_normalize(lower(replace(response, '’', '''')))"


def derive_columns(select: str) -> str:
    """Return the statement that gives staged results what is counted by: numbers, times, what texts read as.

    Times are microseconds since 1970. `folded` is a response as the readers of answers compare it, `is_index`
    and `is_number` say whether they may take an answer for the index of a response, or a response for a
    number. `words` are those of a response, each once. `tie` orders results of one microsecond: the first
    eight bytes of their guids. `refuses` is for `flag_refusals` to say.

    Args:
        select: reads staged rows of `runner.ledger.report_model.FeedRow`.
    """
    return f"""
        SELECT * REPLACE (
            try_cast(launch_id AS INTEGER) AS launch_id,
            nullif(try_cast(question_display_order AS INTEGER), {ORDER_UNKNOWN}) AS question_display_order),
          {number_person("participant")} AS person,
          {read_time("started")} AS started_us,
          coalesce({read_time("created")}, 0) AS created_us,
          ('0x' || rpad(left(hex(result_guid), 16), 16, '0'))::UBIGINT AS tie,
          length(response)::INTEGER AS characters,
          lower(regexp_replace(response, '^{_BLANK}+|{_BLANK}+$', '', 'g')) AS folded,
          list_distinct(regexp_extract_all({_FOLDED_TEXT}, '{_WORD}')) AS words,
          regexp_full_match(answer, '{_BLANK}*[1-9][0-9]{{0,2}}{_BLANK}*') AS is_index,
          regexp_full_match(response, '{_BLANK}*{_NUMBER}{_BLANK}*')
            AND NOT regexp_full_match(response, '{_BLANK}*{_THOUSANDS}{_BLANK}*') AS is_number,
          false AS refuses
        FROM ({select})"""


def flag_refusals(engine: Engine, folder: Path, select: str, refusals: Iterable[tuple[int, str]]) -> str:
    """Return the statement that says of results whether they opt out, and so are no answers.

    That is not kept with the results: a person may decide it today, and otherwise tomorrow.

    Args:
        engine: runs it.
        folder: this user's alone, for a file that is there for the moment.
        select: reads results, with the columns of `derive_columns`.
        refusals: those that opt out: the ledger's number of the launch, and `result_guid`.

    Raises:
        RunnerError: the file cannot be written.
    """
    with stage_rows(folder, ("launch", "guid"), refusals) as staged:
        engine.run(f"CREATE OR REPLACE TEMP TABLE refusals AS SELECT DISTINCT * FROM ({staged.select})")
        if not staged.count:
            return select
    return f"""
        SELECT flagged.* REPLACE (refusals.guid IS NOT NULL AS refuses) FROM ({select}) flagged
        LEFT JOIN refusals ON refusals.guid = flagged.result_guid
          AND refusals.launch::INTEGER = flagged.launch_id"""


def number_person(column: str) -> str:
    """Return the expression for a participant's number, of 128 bits; no two participants have the same.

    That of a pseudonym is its eighty bits, and zeros. Whatever else a ledger may name a participant by has
    the first 124 bits of its SHA-256 (FIPS 180-4), and a one.

    Args:
        column: with the participant as text.
    """
    return f"""if(regexp_full_match({column}, '[0-9a-f]{{20}}'),
        {column} || '000000000000', left(sha256({column}), 31) || '1')::UUID"""


def read_time(column: str) -> str:
    """Return the expression for a time, in microseconds since 1970.

    It is none for one that is no time, or that Python has no date for.
    """
    time = f"epoch_us(try_cast({column} AS TIMESTAMPTZ))"
    return f"if({time} BETWEEN 1 AND {_LATEST_US}, {time}, NULL)"
