"""How a CSV file separates its fields, told by its first lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

DELIMITERS = ",;\t|"
_QUOTED = re.compile(r'"[^"]*"?')
_SEPARATOR_LINE = re.compile(r'\ufeff?"?sep=([^\w"\s]|\t)"?[,;\t|]*\s*', re.IGNORECASE)
_HEADER_LIMIT = 1 << 17
"""Characters in which a header's quotes must close."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the first lines say.

    Attributes:
        delimiter: one character.
        skipped: lines before the header: Excel's `sep=;`, which says what the delimiter is.
    """

    delimiter: str
    skipped: int


def find_dialect(stream: TextIO) -> Dialect:
    """Find the delimiter: the one that `sep=` names, else the one that the header has most of.

    Args:
        stream: at the file's start, with its line ends as they are; read on by some lines.

    Raises:
        UnicodeError: the lines are not in the stream's encoding.
    """
    line = stream.readline(_HEADER_LIMIT)
    named = _SEPARATOR_LINE.fullmatch(line)
    if named:
        return Dialect(named[1], 1)
    while line and not line.strip():
        line = stream.readline(_HEADER_LIMIT)
    while line.count('"') % 2 and len(line) < _HEADER_LIMIT:
        more = stream.readline(_HEADER_LIMIT)
        if not more:
            break
        line += more
    bare = _QUOTED.sub("", line)
    return Dialect(max(DELIMITERS, key=bare.count), 0)
