"""Files of answers for survey analysts, written by the engine.

- `answers`: a row for each person whom the campaign was sent to, or may have been, and for each person of the
  control group; of each question, over all messages, the latest answer;
- `answers-long`: a row a person, message and question, and one for a message without an answer;
- `results`: a row a result, the earlier answers of a person, too;
- `callbacks`: people with a low score who may be called, the lowest first.

Times are UTC: in Parquet of that type, in CSV ISO 8601 with microseconds and a Z, all of one length. Phones
are E.164; in CSV an apostrophe stands before them, as before other formulas: otherwise spreadsheets and data
frames take them for numbers, and lose the plus sign. CSV is UTF-8 with a byte order mark, without which Excel
takes it for another encoding, and LF line ends.
Pseudonyms are made for these files alone, with a key of their own: those of the ledger are in the lockfile,
too, and would link answers to the repository.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from runner.errors import RunnerError
from runner.report.columns.engine import Engine, name_column, quote
from runner.report.columns.file_columns import FileColumn, FileContent, Shape, describe_columns, list_columns
from runner.report.columns.kept_answers import mask_answers
from runner.report.columns.spss import save_spss
from runner.report.documents.wording import defuse_formula

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.report.facts import CampaignOutline

ANSWER_FORMATS: dict[str, tuple[Shape, str]] = {
    "answers.csv": ("answers", "csv"),
    "answers.parquet": ("answers", "parquet"),
    "answers.sav": ("answers", "sav"),
    "answers-long.csv": ("answers-long", "csv"),
    "answers-long.parquet": ("answers-long", "parquet"),
    "results.csv": ("results", "csv"),
    "results.parquet": ("results", "parquet"),
    "callbacks.csv": ("callbacks", "csv"),
    "codebook.json": ("codebook", "json"),
    "codebook.md": ("codebook", "md"),
}
"""Formats that are files of answers, not documents."""
BOM = "\N{BYTE ORDER MARK}"

_OPTIONS = {"csv": "FORMAT csv, HEADER", "parquet": "FORMAT parquet, COMPRESSION zstd"}
# A spreadsheet runs a cell that starts so (OWASP, "CSV injection"), unless it is a number.
_MACROS = r"""
CREATE OR REPLACE TEMP MACRO defuse(cell) AS
CASE WHEN regexp_matches(cell::VARCHAR, '^[=+\-@\t\r\n＝＋－＠]')
    AND NOT regexp_full_match(cell::VARCHAR, '[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?')
  THEN '''' || cell ELSE cell::VARCHAR END;
CREATE OR REPLACE TEMP MACRO pseudonym(person) AS left(sha256({key} || person), 20);
CREATE OR REPLACE TEMP MACRO message_id(place) AS ([{messages}]::VARCHAR[])[place + 1];
"""
_EVERYBODY = """
(SELECT *, false AS is_control FROM persons UNION ALL BY NAME
 SELECT person, true AS is_control FROM members ANTI JOIN persons USING (person) WHERE control = '1')
"""


@dataclass(frozen=True, slots=True)
class LowScores:
    """The scores of people to call back: of the question at this place, and compared so, as in `<= 6`."""

    question: int
    comparison: str


class AnswerFiles:
    """A writer of files of the answers that were kept; `low` are the scores of `callbacks`."""

    def __init__(
        self, engine: Engine, outline: CampaignOutline, content: FileContent, low: LowScores | None = None
    ) -> None:
        """Start with all answers kept: what people wrote is masked, unless the files have phones."""
        self._engine, self._questions, self._content, self._low = engine, outline.questions, content, low
        messages = ", ".join(quote(one.id) for one in outline.messages)
        engine.run(_MACROS.format(key=quote(content.key), messages=messages))
        if content.has_words and not content.has_phones:
            mask_answers(engine)

    def write(self, name: str, file: Path) -> None:
        """Write one whole file of a format, and its folder, readable by this user alone.

        Raises:
            RunnerError: it cannot be written.
        """
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            # The engine makes files that everybody can read: this folder keeps others out.
            with TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as private:
                draft = Path(private, file.name)
                self._write_draft(name, draft, file)
                draft.chmod(0o600)
                draft.replace(file)
        except OSError as error:
            raise RunnerError(f"{file} cannot be written: {error.strerror}") from None

    def _write_draft(self, name: str, draft: Path, file: Path) -> None:
        shape, file_format = ANSWER_FORMATS[name]
        if shape == "codebook":
            draft.write_text(self._write_codebook(file_format), encoding="utf-8")
            return
        columns, source = self._list_columns(shape), self._name_source(shape)
        if file_format == "sav":
            save_spss(self._engine, source, columns, draft)
        else:
            select = _write_select(columns, source, is_csv=file_format == "csv")
            self._engine.save(select, draft, _OPTIONS[file_format], file)

    def _list_columns(self, shape: Shape) -> list[FileColumn]:
        score = 0 if self._low is None else self._low.question
        return list_columns(shape, self._content, self._questions, score)

    def _write_codebook(self, file_format: str) -> str:
        ((people,),) = self._engine.rows(f"SELECT count(*) FROM {_EVERYBODY}")
        content = self._content
        book = describe_columns(self._list_columns("answers"), content.campaign, content.title, people)
        return book.write() + "\n" if file_format == "json" else book.write_markdown()

    def _name_source(self, shape: Shape) -> str:
        """Return what the cells of a file come from, and the order of its rows."""
        answers = "".join(
            f", any_value(latest) FILTER (WHERE question = {number}) AS question_{number}"
            for number in range(len(self._questions))
        )
        latest = f"LEFT JOIN (SELECT person{answers} FROM latest GROUP BY person) a ON a.person = p.person"
        kept = "LEFT JOIN kept a ON a.person = p.person AND a.message = p.message"
        members = "LEFT JOIN members m ON m.person = p.person"
        if shape == "callbacks" and self._low is not None:
            score = f"a.question_{self._low.question}.value"
            is_low = f"{score} {self._low.comparison} AND m.may_call = '1'"
            return f"FROM persons p {latest} {members} WHERE {is_low} ORDER BY {score}, 1"
        if shape == "answers-long":
            return f"FROM touches p {kept} {members} ORDER BY p.message, 1, a.question"
        if shape == "results":
            return f"FROM told p {members} ORDER BY p.message, p.us, p.guid"
        return f"FROM {_EVERYBODY} p {latest} {members} ORDER BY 1"


def _write_select(columns: Sequence[FileColumn], source: str, *, is_csv: bool) -> str:
    """Return the statement of a file."""
    names = [defuse_formula(one.name) if is_csv else one.name for one in columns]
    if is_csv:
        # The engine writes no byte order mark, but the name of the first column as it is.
        names[0] = f"{BOM}{names[0]}"
    cells = (
        f"{_write_cell(one, is_csv=is_csv)} AS {name_column(name)}"
        for one, name in zip(columns, names, strict=True)
    )
    return f"SELECT {', '.join(cells)} {source}"


def _write_cell(column: FileColumn, *, is_csv: bool) -> str:
    """Return a column's expression as CSV, or Parquet, wants it."""
    cell, kind = column.cell, column.kind
    if kind == "time":
        time = f"make_timestamptz({cell})"
        return f"strftime({time}, '%Y-%m-%dT%H:%M:%S.%fZ')" if is_csv else time
    if kind == "integer":
        return f"({cell})::BIGINT"
    if kind == "number" and is_csv:
        return f"CASE WHEN {cell} = floor({cell}) THEN {cell}::HUGEINT::VARCHAR ELSE {cell}::VARCHAR END"
    if column.role == "phone" and is_csv:
        return f"'''' || {cell}"
    return f"defuse({cell})" if kind == "text" and is_csv else cell
