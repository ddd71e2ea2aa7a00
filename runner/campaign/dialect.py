"""How a CSV file separates its fields, told by its first lines."""

from __future__ import annotations

import contextlib
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
_SAMPLED_LINES = 20


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the first lines say.

    Attributes:
        delimiter: one character.
        skipped: lines before the header: Excel's `sep=;`, which says what the delimiter is.
        skips_blanks: whether blanks behind the delimiter are not part of the fields.
    """

    delimiter: str
    skipped: int = 0
    skips_blanks: bool = False


COMMA = Dialect(",")


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
        return Dialect(named[1], 1, _skips_blanks(stream.readline(_HEADER_LIMIT), stream, named[1]))
    while line and not line.strip():
        line = stream.readline(_HEADER_LIMIT)
    while line.count('"') % 2 and len(line) < _HEADER_LIMIT:
        more = stream.readline(_HEADER_LIMIT)
        if not more:
            break
        line += more
    bare = _QUOTED.sub("", line)
    delimiter = max(DELIMITERS, key=bare.count)
    return Dialect(delimiter, 0, _skips_blanks(line, stream, delimiter))


def _skips_blanks(header: str, stream: TextIO, delimiter: str) -> bool:
    """Return whether quoted fields stand behind a delimiter and blanks, as `phone, "Ada"`.

    Where they do, all that begin so have to end with their quotes.
    """
    lines = header
    with contextlib.suppress(UnicodeError):  # it is said at its line, when that is read
        for _ in range(_SAMPLED_LINES):
            lines += stream.readline(_HEADER_LIMIT)
    apart = re.escape(delimiter)
    others = re.sub(rf'(?:(?<={apart})|^)"(?:[^"]|"")*"', "", lines, flags=re.MULTILINE)
    begun = re.findall(rf'{apart} +"', others)
    whole = re.findall(rf'{apart} +"(?:[^"]|"")*(?:"(?={apart}|\r|\n)|"?\Z)', others)
    return bool(begun) and len(whole) == len(begun)
