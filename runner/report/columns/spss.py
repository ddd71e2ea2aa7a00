"""Files of answers for SPSS, with labels of variables and values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runner.errors import ConfigurationError
from runner.report.columns.engine import Engine, name_column
from runner.report.documents.wording import distinguish

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from runner.report.columns.file_columns import FileColumn

_NO_ANSWER, _OWN_WORDS, _NOT_TEXTED = -1, -2, -3
_MISSING = {_NO_ANSWER: "No answer", _OWN_WORDS: "Answered in other words", _NOT_TEXTED: "Not texted"}
"""Codes of missing values, which SPSS leaves out of its figures."""
_LONGEST_NAME = 58
_RESERVED = frozenset("all and by eq ge gt le lt ne not or to with".split())  # noqa: SIM905  words
_LONGEST_TEXT = 8000
"""Characters of a text: SPSS takes 32,767 bytes."""
_LONGEST_LABEL = 250


def save_spss(engine: Engine, source: str, columns: Sequence[FileColumn], file: Path) -> None:
    """Write the rows that the columns' cells come from.

    Raises:
        ConfigurationError: a package for such files is not installed.
        RunnerError: the rows cannot be read.
    """
    try:
        # Imported here: these packages are optional.
        import pandas  # noqa: F401, ICN001  the engine's frames are its
        import pyreadstat
    except ImportError as error:
        raise ConfigurationError(
            f"files for SPSS need {error.name}, which is not installed", hint="install the extra `spss`"
        ) from None
    names = list(_name_variables(columns))
    cells = (f"{_write_cell(one)} AS {name_column(name)}" for one, name in zip(columns, names, strict=True))
    named = dict(zip(names, columns, strict=True))
    codes = [name for name, one in named.items() if one.role == "code"]
    pyreadstat.write_sav(
        engine.frame(f"SELECT {', '.join(cells)} {source}"),
        file,
        column_labels={name: _label(one)[:_LONGEST_LABEL] for name, one in named.items()},
        variable_value_labels={name: dict(_label_values(one)) for name, one in named.items()},
        missing_ranges={name: list(_MISSING) for name in codes},
        variable_measure={
            name: "scale" if one.kind in ("number", "time") or one.role == "value" else "nominal"
            for name, one in named.items()
        },
    )


def _write_cell(column: FileColumn) -> str:
    """Return a column's expression: what is missing of a response has a code of its own."""
    cell = column.cell
    if column.role == "code":
        answer = cell.removesuffix(".code")
        return (
            f"(CASE WHEN {cell} IS NOT NULL THEN {cell} WHEN {answer} IS NOT NULL THEN {_OWN_WORDS} "
            f"WHEN p.state = 'texted' THEN {_NO_ANSWER} ELSE {_NOT_TEXTED} END)::DOUBLE"
        )
    if column.kind == "time":
        return f"make_timestamp({cell})"
    return f"left({cell}, {_LONGEST_TEXT})" if column.kind == "text" else f"({cell})::DOUBLE"


def _label(column: FileColumn) -> str:
    """Return the label of a variable: a question's text, for its value, code and label."""
    if column.question is None:
        return column.meaning.partition(":")[0]
    about = {"words": " (open-ended)", "answered_at": " (time of the answer, UTC)"}.get(column.role, "")
    return f"{column.question.question.text}{about}"


def _label_values(column: FileColumn) -> Iterator[tuple[float, str]]:
    """Yield the labels of a question's codes, or of its values, if each is of one response."""
    labels = {} if column.question is None else column.question.labels
    if column.role == "code":
        yield from ((float(code), label) for code, label in enumerate(labels, start=1))
        yield from ((float(code), label) for code, label in _MISSING.items())
    elif column.role == "value" and len({*labels.values()}) == len(labels):
        yield from ((float(value), label) for label, value in labels.items() if value is not None)


def _name_variables(columns: Iterable[FileColumn]) -> Iterator[str]:
    """Yield names that SPSS takes: letters, digits, `_` and `.`, a letter first, each once in any case."""
    named = [re.sub(r"[^\w.]+", "_", column.name).strip("._") for column in columns]
    named = [one if one[:1].isalpha() and one.casefold() not in _RESERVED else f"v_{one}" for one in named]
    short = [one.encode()[:_LONGEST_NAME].decode(errors="ignore").rstrip("._") for one in named]
    yield from (re.sub(r" \((\d+)\)", r"_\1", name) for name in distinguish(short))
