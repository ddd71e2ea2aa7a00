"""Comparison of short texts: normalized ones, and close ones."""

from __future__ import annotations

import difflib
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_APOSTROPHES = re.compile(r"['’‘ʼ´`]")
_BETWEEN = re.compile(r"[\W_]+")


def normalize(text: str) -> str:
    """Return a text's plain words (NFKD: Unicode Standard Annex 15) in lower case, with single blanks."""
    # Compatibility forms first: a mathematical capital has no lower case of its own.
    plain = unicodedata.normalize("NFKD", _APOSTROPHES.sub("", text))
    plain = unicodedata.normalize("NFKD", plain.casefold())
    letters = "".join(character for character in plain if not unicodedata.combining(character))
    return _BETWEEN.sub(" ", letters).strip()


TYPED, PLAIN = "’‘ʼ`´“”„«»–—‐‑−", "'" * 5 + '"' * 5 + "-" * 5
"""Characters that phones and word processors type of their own accord, and those that were meant."""
_TYPOGRAPHY = str.maketrans(TYPED, PLAIN)
_AROUND_MARKS = re.compile(r"\s*([\"-])\s*")


def fold_answer(text: str) -> str:
    """Return an answer for comparison: without regard to case, blanks, Unicode forms and typography."""
    plain = unicodedata.normalize("NFKC", text.translate(_TYPOGRAPHY)).casefold()
    return " ".join(_AROUND_MARKS.sub(r"\1", plain).split())


def normalize_to_word(text: str) -> str:
    """Return a normalized text without blanks: `Opt out`, `OPT-OUT` and `optout` are one."""
    return normalize(text).replace(" ", "")


def normalize_guid(guid: str) -> str:
    """Return a hexadecimal guid of the service in lower case, for comparison."""
    return guid.casefold()


def suggest(written: str, known: Iterable[str], shown: str = "`{}`") -> str:
    """Return `: did you mean …?` with the known text that is closest to a written one; empty if none is."""
    close = difflib.get_close_matches(written, list(known), n=1)
    return f": did you mean {shown.format(close[0])}?" if close else ""
