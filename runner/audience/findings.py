"""Problems, repairs and doubts in the rows of one source, and the reading of cells for texts."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from runner.audience.phone import mask_written
from runner.source.diagnostic import SHOWN_OF_A_KIND, Diagnostic
from runner.source.encrypted import quote_cell

if TYPE_CHECKING:
    from pathlib import Path

    from runner.source.diagnostic import CellProblem, Problems, Severity

Finding = Literal["phone-repaired", "phone-landline", "cell-blank", "cell-encoding", "cell-markup"]


class _Words(NamedTuple):
    """The words for a kind of finding: what was found, in plural, what becomes of it, and a hint."""

    found: str
    consequence: str
    hint: str


_WORDS: dict[Finding, _Words] = {
    "phone-repaired": _Words(
        "phones with blanks, quotes or other marks that programs add",
        "repaired",
        "format the column as text in the spreadsheet to be rid of this",
    ),
    "phone-landline": _Words(
        "landlines, toll-free numbers, pagers, or personal or universal numbers",
        "no text may arrive there",
        "write their mobile numbers, or refuse such rows with `landlines: refuse` below `policy`",
    ),
    "cell-blank": _Words(
        "cells with a program's word for nothing, such as #N/A or NULL",
        "read as blank",
        "clear such cells where the file comes from",
    ),
    "cell-encoding": _Words(
        "cells that were read in a wrong encoding before, as in RenÃ© for René",
        "texted as written",
        "export the file again as “CSV UTF-8” from where its letters are still right",
    ),
    "cell-markup": _Words(
        "cells with HTML in them, such as &amp; or <b>",
        "texted as written",
        "write the characters themselves, without tags",
    ),
}
_YES_HINT = "name those that are consent with `yes` below `consent`, as in `yes: [opted in]`"
MOST_WORDS = 1_000
"""The most distinct words of a column of consent that are counted; a wrong column may have a million."""
_MOST_DIGITS = 4
"""The most digits of a word that is shown; one with more may be somebody's phone."""


class Findings:
    """Faults of the rows of one source: errors, passed on at once, and repairs and doubts, summed up.

    Args:
        file: the source's file.
        column: where its rows stand in that file, from 1; 1 for a CSV file.
        problems: receives all, and the problems of the whole file.
        skips_invalid: True to leave out rows with errors, which are warnings then.

    Attributes:
        counts: the numbers of repairs and doubts.
        invalid: the number of rows left out.
    """

    def __init__(self, file: Path, column: int, problems: Problems, *, skips_invalid: bool = False) -> None:
        self.file = file
        self.problems = problems
        self.counts = Counter[Finding]()
        self.invalid = 0
        self._column = column
        self._skips_invalid = skips_invalid
        self._last = 0
        self._lines: dict[Finding, list[int]] = {}
        # The words of a column of consent, with how they were read: `consent`, `no consent`, `unknown`.
        self._words = Counter[tuple[str, str]]()

    def report(self, error: Diagnostic) -> None:
        """Pass on the error of a row; errors come in the order of rows."""
        if self._skips_invalid:
            self.invalid += error.line != self._last
            self._last = error.line
            error = replace(error, severity="warning", message=f"{error.message}: the row is left out")
        self.problems.add(error)

    def refuse(self, code: str, kind: str, shown: str, line: int, problem: CellProblem) -> None:
        """Report a cell of a kind that is refused, as messages show it."""
        words = f"the {kind} {quote_cell(self.file, shown)!r} is refused: {problem.reason}"
        words = words if shown else f"the {kind} is blank"
        place = self.file, line, self._column
        self.report(Diagnostic("error", code, words, *place, problem.hint or None, problem.reason))

    def is_left_out(self, line: int) -> bool:
        """Return whether the last row read, in this line, is left out."""
        return line == self._last

    def add(self, finding: Finding, line: int) -> None:
        """Count a phone or cell in a line."""
        self.counts[finding] += 1
        if self.counts[finding] <= SHOWN_OF_A_KIND:
            self._lines.setdefault(finding, []).append(line)

    def add_word(self, word: str, reading: str) -> None:
        """Count a word of a column of consent."""
        if word and ((word, reading) in self._words or len(self._words) < MOST_WORDS):
            self._words[word, reading] += 1

    def sum_up(self) -> None:
        """Report each kind of repair and doubt once, at its first line."""
        if any(reading != "consent" for _, reading in self._words):
            message = f"the words of consent were read so: {self._list_words()}"
            place = self.file, 1, self._column
            self.problems.add(Diagnostic("warning", "consent-words", message, *place, _YES_HINT))
        for finding, lines in self._lines.items():
            words, count = _WORDS[finding], self.counts[finding]
            severity: Severity = "note" if finding == "phone-repaired" else "warning"
            message = f"{words.found}: {words.consequence}, line{'s' if count > 1 else ''} "
            message += ", ".join(f"{line:,}" for line in lines)
            message += f" and more, {count:,} in all" if count > len(lines) else ""
            place = self.file, lines[0], self._column
            self.problems.add(Diagnostic(severity, finding, message, *place, words.hint))

    def _list_words(self) -> str:
        parts = []
        for reading in ("consent", "no consent", "unknown"):
            found = Counter[str]()
            for (word, one), count in self._words.items():
                if one == reading:
                    found[quote_cell(self.file, word)] += count
            listed = sorted(found.items())[:SHOWN_OF_A_KIND]
            shown = [f"{_show_word(word)} ({count:,})" for word, count in listed]
            shown += [f"{len(found) - len(shown):,} more"] if len(found) > len(shown) else []
            name = "unknown, so no consent" if reading == "unknown" else reading
            parts += [f"{name}: {', '.join(shown)}"] if shown else []
        return "; ".join(parts)


def _show_word(word: str) -> str:
    return word if sum(map(str.isdigit, word)) <= _MOST_DIGITS else mask_written(word)


_NOTHING = frozenset(
    {
        *("#N/A", "#N/A N/A", "#NA", "#NV", "#N/D", "#ND", "#N/V", "#N/B", "#I/T", "#GETTING_DATA"),
        *("NULL", "null", "(null)", "(NULL)", "<null>", "<NULL>", "[null]", "[NULL]", "\\N", "nil", "<nil>"),
        *("nan", "NaN", "-nan", "-NaN", "NAN", "<NA>", "NA", "N/A", "n/a", "N.A.", "n.a.", "NaT", "None"),
        *("none", "NONE", "(none)", "undefined", "UNDEFINED", "(blank)", "(empty)", "[object Object]"),
        *("-", "--", "---", "–", "—", "?", "??", "???", ".", "_", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    }
)
"""Words for nothing, as programs write them: spreadsheets' errors, databases' and languages' nothing. Their
case counts: Nan and Null are names.
"""
_ERROR = re.compile(r"#[¿¡]?[^\W\d_a-z][^\Wa-z]*(?:/[^\Wa-z]+)?[!?]")
"""A spreadsheet's error in any language: `#REF!`, `#BEZUG!`, `#¿NOMBRE?`."""
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u2069\u2800\u3164\ufeff\uffa0]"
)
"""Characters that nobody sees, wherever they stand."""
_JOINERS = "\u200c\u200d\ufe0e\ufe0f"
"""Characters that shape their neighbours: between letters and in emoji they have a meaning."""
_ODD = re.compile(r"[&<?\x00-\x08\x0e-\x1b\x7f]")
_MARKUP = re.compile(r"&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,7});|</?[A-Za-z][^<>]*>")
_LOST = re.compile(r"(?<!\S)\?[^\W\d_]{2}|[^\W\d_]\?[^\W\d_]|\ufffd")
"""A question mark where a letter was, as in `?ukasz`."""
_ADDRESS = re.compile(r"://|www\.|/\S*\?")


def read_cell(cell: str, line: int, findings: Findings) -> str:
    """Return a cell as a text may use it: composed (NFC), without outer blanks and unseen characters.

    Words for nothing are blank. `findings` counts what is wrong in it.
    """
    text = cell.strip()
    if text in _NOTHING or (text[:1] == "#" and _ERROR.fullmatch(text)):
        findings.add("cell-blank", line)
        return ""
    if text.isascii() and (text.isalnum() or not _ODD.search(text)):
        return text
    seen = _UNSEEN.sub("", unicodedata.normalize("NFC", text)).strip().strip(_JOINERS)
    if not seen and text:
        findings.add("cell-blank", line)
    elif _MARKUP.search(seen):
        findings.add("cell-markup", line)
    elif _is_garbled(seen):
        findings.add("cell-encoding", line)
    return seen


def _is_garbled(text: str) -> bool:
    """Return whether a text was once decoded in a wrong encoding."""
    if _LOST.search(text):
        return not _ADDRESS.search(text)
    if text.isascii():
        return False
    for encoding in ("cp1252", "latin-1"):
        try:
            return not text.encode(encoding).decode("utf-8").isascii()
        except UnicodeError:
            continue
    return False
