"""Files of answers for survey analysts, written by the engine.

- `answers`: a row for each person whom the campaign was sent to, or may have been, and for each person of the
  control group; of each question, over all messages, the latest answer;
- `answers-long`: a row a person, message and question, and one for a message without an answer;
- `results`: a row a result, as the service has it;
- `callbacks`: people with a low score who may be called, the lowest first.

Times are UTC: in Parquet of that type, in CSV ISO 8601 with microseconds and a Z, all of one length. Phones
are E.164; in CSV an apostrophe stands before them, as before other formulas: otherwise spreadsheets and data
frames take them for numbers, and lose the plus sign. CSV is UTF-8 with a byte order mark, without which Excel
takes it for another encoding, and LF line ends.
Pseudonyms are made for these files alone, with a key of their own: those of the ledger are in the lockfile,
too, and would link answers to the repository.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from runner.errors import RunnerError
from runner.report.columns.codebook import describe_columns
from runner.report.columns.engine import name_column, quote
from runner.report.columns.file_columns import CELL_SEPARATOR, list_columns
from runner.report.columns.spss import save_spss
from runner.report.documents.wording import defuse_formula
from runner.report.masking import mask_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from runner.report.columns.engine import Engine
    from runner.report.columns.file_columns import FileColumn, FileContent
    from runner.report.columns.kept_answers import KeptAnswers

FileFormat = Literal["csv", "parquet", "sav", "json", "md"]
Shape = Literal["answers", "answers-long", "results", "callbacks", "codebook"]
FORMATS: dict[Shape, tuple[FileFormat, ...]] = {
    "answers": ("csv", "parquet", "sav"),
    "answers-long": ("csv", "parquet"),
    "results": ("csv", "parquet"),
    "callbacks": ("csv",),
    "codebook": ("json", "md"),
}
BOM = "\N{BYTE ORDER MARK}"

# A spreadsheet runs a cell that starts so (OWASP, "CSV injection"), unless it is a number.
_DEFUSE = r"""
CREATE OR REPLACE TEMP MACRO defuse(cell) AS
CASE WHEN regexp_matches(cell::VARCHAR, '^[=+\-@\t\r\n＝＋－＠]')
    AND NOT regexp_full_match(cell::VARCHAR, '[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?')
  THEN '''' || cell ELSE cell::VARCHAR END
"""
_PSEUDONYM = """
CREATE OR REPLACE TEMP MACRO pseudonym(person) AS left(sha256({key} || person), 20)
"""
_EVERYBODY = """
(SELECT *, false AS is_control FROM persons UNION ALL BY NAME
 SELECT person, true AS is_control FROM members ANTI JOIN persons USING (person) WHERE control = '1')
"""
_WORDS = """
SELECT DISTINCT kept.person, words, {} AS cells FROM kept
JOIN members m ON m.person = kept.person WHERE words IS NOT NULL ORDER BY ALL
"""
_SHOW_WORDS = """
CREATE OR REPLACE TEMP TABLE {0} AS SELECT {0}.* REPLACE (masked.shown AS words) FROM {0}
LEFT JOIN masked ON masked.person = {0}.person::VARCHAR AND masked.words = {0}.words
"""


@dataclass(frozen=True, slots=True)
class LowScores:
    """The scores of people to call back: those of the question at this place up to the limit, or below it."""

    question: int
    limit: Fraction
    is_below: bool = False

    @property
    def condition(self) -> str:
        """The expression that holds for them."""
        return f"a.question_{self.question}.value {'<' if self.is_below else '<='} {float(self.limit)}"


class AnswerFiles:
    """A writer of files of the answers that were kept; `low` are the scores of `callbacks`."""

    def __init__(
        self, engine: Engine, kept: KeptAnswers, content: FileContent, low: LowScores | None = None
    ) -> None:
        """Start with all answers kept: what people wrote is masked, unless the files have phones."""
        self._engine, self._kept, self._content, self._low = engine, kept, content, low
        engine.run(_DEFUSE)
        engine.run(_PSEUDONYM.format(key=quote(content.key)))
        if content.has_words and not content.has_phones:
            self._mask_words()

    def _mask_words(self) -> None:
        # Names of people who have left the audience are not known, so their words stay away.
        masked = (
            (person, words, mask_words(words, cells.split(CELL_SEPARATOR)))
            for person, words, cells in self._engine.rows(_WORDS.format(self._content.cells))
        )
        self._engine.load("masked", ("person", "words", "shown"), masked)
        for table in ("kept", "latest"):
            self._engine.run(_SHOW_WORDS.format(table))

    def write(self, shape: Shape, file_format: FileFormat, file: Path) -> None:
        """Write one whole file, and its folder, readable by this user alone.

        Raises:
            RunnerError: it cannot be written.
        """
        with _drafting(file) as draft:
            if shape == "codebook":
                draft.write_text(self._write_codebook(file_format), encoding="utf-8")
                return
            columns = self._list_columns(shape)
            source = self._name_source(shape)
            if file_format == "sav":
                save_spss(self._engine, source, columns, draft)
            else:
                select = _write_select(columns, source, is_csv=file_format == "csv")
                self._engine.save(select, draft, _OPTIONS[file_format], file)

    def _list_columns(self, shape: str) -> list[FileColumn]:
        return list_columns(
            shape, self._content, self._kept.questions, self._low.question if self._low else 0
        )

    def _write_codebook(self, file_format: FileFormat) -> str:
        ((people,),) = self._engine.rows(f"SELECT count(*) FROM {_EVERYBODY}")
        content = self._content
        book = describe_columns(self._list_columns("answers"), content.campaign, content.title, people)
        return book.write() + "\n" if file_format == "json" else book.write_markdown()

    def _name_source(self, shape: Shape) -> str:
        """Return what the cells of a file come from, and the order of its rows."""
        low = self._low if shape == "callbacks" else None
        answers = "".join(
            f", any_value(latest) FILTER (WHERE question = {number}) AS question_{number}"
            for number in range(len(self._kept.questions))
        )
        people = f"LEFT JOIN (SELECT person{answers} FROM latest GROUP BY person) a ON a.person = p.person"
        ids = ", ".join(quote(message) for message in self._kept.messages)
        is_low = f"WHERE {low.condition} AND {self._content.may_call}" if low else ""
        source = {
            "answers": f"{_EVERYBODY} p {people}",
            "answers-long": f"""(SELECT *, ([{ids}]::VARCHAR[])[message + 1] AS id FROM touches) p
                LEFT JOIN kept a ON a.person = p.person AND a.message = p.message""",
            "results": "kept_results p",
            "callbacks": f"persons p {people}",
        }[shape]
        order = {
            "answers": "1",
            "answers-long": "p.message, 1, a.question",
            "results": "p.message, p.us NULLS FIRST, p.result_guid",
            "callbacks": f"a.question_{low.question if low else 0}.value, 1",
        }[shape]
        return f"FROM {source} LEFT JOIN members m ON m.person = p.person {is_low} ORDER BY {order}"


_OPTIONS = {"csv": "FORMAT csv, HEADER", "parquet": "FORMAT parquet, COMPRESSION zstd"}


@contextmanager
def _drafting(file: Path) -> Iterator[Path]:
    """Yield the path of a draft, which becomes the file, readable by this user alone.

    Raises:
        RunnerError: it cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # The engine makes files that everybody can read: this folder keeps others out.
        with TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as private:
            draft = Path(private, file.name)
            yield draft
            draft.chmod(0o600)
            draft.replace(file)
    except OSError as error:
        raise RunnerError(f"{file} cannot be written: {error.strerror}") from None


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
