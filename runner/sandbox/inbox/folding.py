"""Matches without regard to case, in all of Unicode, for searches and for the marks of what they found."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

FOLDED_MATCH = r"""
({column} LIKE ? ESCAPE '\'
 OR (length({column}) <> length(CAST({column} AS BLOB)) AND instr(fold({column}), ?)))
"""
"""An SQL condition with two values, `write_pattern` and `fold` of what is wanted.

SQLite's own LIKE folds ASCII: only texts with other characters need the slower function.
"""


def fold(text: str) -> str:
    """Return a text as it is compared: composed, and without case (Unicode Standard, section 3.13)."""
    return unicodedata.normalize("NFC", text).casefold()


def write_pattern(wanted: str) -> str:
    r"""Return the LIKE pattern for a text in another, with `\` as the escape."""
    return "%" + re.sub(r"([\\%_])", r"\\\1", fold(wanted)) + "%"


def add_folding(connection: sqlite3.Connection) -> None:
    """Give a connection the function that `FOLDED_MATCH` calls."""
    connection.create_function("fold", 1, fold, deterministic=True)


def find_matches(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each match in a composed text; they don't overlap."""
    sought = fold(wanted)
    if not sought:
        return
    # One character may fold to several: each of them remembers its place.
    places = [place for place, character in enumerate(text) for _ in character.casefold()]
    folded = text.casefold()
    start, free = folded.find(sought), 0
    while start >= 0:
        begin, end = places[start], places[start + len(sought) - 1] + 1
        if begin >= free:
            yield begin, end
            free = end
        start = folded.find(sought, start + len(sought))
