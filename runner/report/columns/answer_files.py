"""Files of answers for survey analysts: a row a person asked, or a row a result.

For each message with questions, a person's row has:

- `arm`: the experiment's, if the message has arms;
- `asked_at`: the start of the launch by the service, or else its acceptance; empty for participants whom the
  ledger does not know as asked;
- `disposition`: `complete` (answered the last question, or ended the survey by an answer), `partial`
  (answered, not to the end), `opted_out` (neither, and a reply opts out), `no_answer`, `not_known` (the
  launch's results were never read), empty for people who were not asked;
- `first_answered_at`, and the latest answer to each question; behind it, as `TAG.value`, what it counts as on
  the question's scale, where that is something else than it reads.

The audience's columns that the campaign names (`export_columns`) follow, with present values.
Times are UTC: in Parquet of that type, in CSV ISO 8601 with microseconds and a Z, all of one length. Phones
are E.164; in CSV an apostrophe stands before them, as before other formulas: otherwise spreadsheets and data
frames take them for numbers, and lose the plus sign. CSV is UTF-8 with a byte order mark, without which Excel
takes it for another encoding, and LF line ends.
Pseudonyms are made for these files alone, with a key of their own: those of the ledger are in the lockfile,
too, and would link answers to the repository. Participants' own words, questions as rendered for one person,
and phones are included only on request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from runner.campaign.model import SCORED
from runner.campaign.scales import read_points
from runner.document import round_exactly
from runner.errors import RunnerError
from runner.report.columns.engine import quote
from runner.report.documents.wording import defuse_formula, distinguish
from runner.report.funnel import count_completed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from fractions import Fraction

    from runner.report.columns.engine import Engine
    from runner.report.columns.question_columns import Asked
    from runner.report.facts import AnswerReading, MessageOutline, QuestionOutline

Shape = Literal["answers", "results"]
"""`answers`: a row a person asked, a column a question; `results`: a row a result."""
FileFormat = Literal["csv", "parquet"]

BOM = "\N{BYTE ORDER MARK}"
_NUMBER_PLACES = 15
# A spreadsheet runs a cell that starts so (OWASP, "CSV injection"), unless it is a number.
_DEFUSE = r"""
CREATE OR REPLACE TEMP MACRO defuse(cell) AS
CASE WHEN regexp_matches(cell::VARCHAR, '^[=+\-@\t\r\n＝＋－＠]')
    AND NOT regexp_full_match(cell::VARCHAR, '[+-]?[0-9]+(\.[0-9]+)?')
  THEN '''' || cell ELSE cell::VARCHAR END
"""
_PSEUDONYM = """
CREATE OR REPLACE TEMP MACRO pseudonym(participant) AS left(sha256({key} || participant), 20)
"""
_KEEP_RESULTS = """
INSERT INTO kept_results
SELECT ?::VARCHAR, arm, participant, question_tag, texts.question, question_text, question_display_order,
  if(is_kept, answer, NULL), labels.label, answer, response, labels.value, nullif(created_us, 0), result_guid
FROM read_replies
LEFT JOIN labels ON labels.reading = read_replies.reading
LEFT JOIN texts ON texts.place = read_replies.place
"""
_RESULTS = """
CREATE OR REPLACE TEMP TABLE kept_results (message VARCHAR, arm VARCHAR, participant VARCHAR,
  question_tag VARCHAR, question VARCHAR, question_text VARCHAR, question_display_order INTEGER,
  answer VARCHAR, response VARCHAR, result_answer VARCHAR, result_response VARCHAR, value VARCHAR,
  created_us BIGINT, result_guid VARCHAR)
"""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A message whose people and answers are in a table of the engine, with the columns' names in files."""

    message: str
    table: str
    columns: Mapping[str, str]


_TIMES = ("asked_at", "first_answered_at")


@dataclass(slots=True)
class AnswerFiles:
    """A collector of each message's answers while they are counted, which then writes files of them.

    `include_pii` adds phones (from the table `members`) and participants' own texts. `key` makes pseudonyms:
    hexadecimal digits of fixed length. `columns` of the audience come with their number in `members`.
    """

    engine: Engine
    include_pii: bool
    key: str = field(repr=False)
    columns: Sequence[tuple[str, int]] = ()
    _kept: list[_Kept] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Start without answers."""
        self.engine.run(_DEFUSE)
        self.engine.run(_PSEUDONYM.format(key=quote(self.key)))
        self.engine.run(_RESULTS)

    def keep(self, outline: MessageOutline, asked: Asked, readings: Sequence[AnswerReading]) -> None:
        """Keep the answers to a message that the engine has counted."""
        self.engine.fill(
            "labels",
            {"reading": "INTEGER", "label": "VARCHAR", "value": "VARCHAR"},
            [(number, _label(one), _write_number(one.number)) for number, one in enumerate(readings)],
        )
        self.engine.fill(
            "texts",
            {"place": "INTEGER", "question": "VARCHAR"},
            [(place, question.text) for place, question in enumerate(asked.questions)],
        )
        paths = self.engine.rows("SELECT DISTINCT arm, path FROM people ORDER BY ALL")
        self.engine.fill(
            "ends",
            {"arm": "VARCHAR", "path": "VARCHAR", "is_complete": "BOOLEAN"},
            [(*path, any(count_completed(outline, {path: 1}).values())) for path in paths],
        )
        self.engine.run(_KEEP_RESULTS, [outline.id])
        if asked.questions:
            kept = _Kept(outline.id, f"kept_{len(self._kept)}", dict(_name_columns(outline, asked)))
            self.engine.run(self._gather_people(kept, len(asked.questions)))
            self._kept.append(kept)

    def write(self, shape: Shape, file_format: FileFormat, file: Path) -> None:
        """Write one whole file, and its folder, readable by this user alone.

        Raises:
            RunnerError: it cannot be written.
        """
        is_csv = file_format == "csv"
        select = (self._select_answers if shape == "answers" else self._select_results)(is_csv=is_csv)
        if is_csv:
            # The engine writes no byte order mark, but the name of the first column as it is.
            first = "participant" if shape == "answers" else "message"
            select = (
                f"SELECT defuse({first}) AS {_name(f'{BOM}{first}')}, defuse(COLUMNS(* EXCLUDE {first})) "
                f"FROM ({select})"
            )
        options = "FORMAT csv, HEADER" if is_csv else "FORMAT parquet, COMPRESSION zstd"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            # The engine makes files that everybody can read: this folder keeps others out.
            with TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as private:
                draft = Path(private, file.name)
                self.engine.save(select, draft, options, file)
                draft.chmod(0o600)
                draft.replace(file)
        except OSError as error:
            raise RunnerError(f"{file} cannot be written: {error.strerror}") from None

    def _gather_people(self, kept: _Kept, places: int) -> str:
        """Return the statement for a table of a row a person asked, and a participant."""
        shown = "coalesce(labels.label, response)" if self.include_pii else "labels.label"
        latest = "".join(
            f", arg_max(shown, rank) FILTER (WHERE place = {place}) AS answer_{place}"
            f", nullif(arg_max(coalesce(value, ''), rank) FILTER (WHERE place = {place}), '')"
            f" AS point_{place}"
            for place in range(places)
        )
        # The empty text stands for one that is not shown, as `arg_max` would skip a missing one.
        return f"""
            CREATE OR REPLACE TEMP TABLE {kept.table} AS
            SELECT participant, coalesce(answered.arm, asked.arm) AS arm,
              make_timestamptz(began_us) AS asked_at,
              CASE WHEN is_complete THEN 'complete' WHEN answered.participant IS NOT NULL THEN 'partial'
                WHEN has_opted_out THEN 'opted_out' WHEN NOT is_read THEN 'not_known'
                ELSE 'no_answer' END AS disposition,
              make_timestamptz(first_us) AS first_answered_at, answered.* EXCLUDE (participant, person, arm)
            FROM (
              SELECT participant, person, min(arm) AS arm{latest}
              FROM (SELECT read_answers.*, coalesce({shown}, '') AS shown, value FROM read_answers
                LEFT JOIN labels ON labels.reading = read_answers.reading)
              GROUP BY participant, person) answered
            JOIN people ON people.person = answered.person
            JOIN ends ON ends.arm = people.arm AND ends.path = people.path
            FULL JOIN (
              SELECT contacts.*, coalesce(refusing.is_opt_out, false) AS has_opted_out
              FROM contacts LEFT JOIN refusing USING (message, person)
              WHERE contacts.message = {quote(kept.message)} AND is_sent) asked USING (participant)"""

    def _select_answers(self, *, is_csv: bool) -> str:
        columns = [("pseudonym(participant)", "participant")]
        if self.include_pii:
            columns.append((_write_phone(is_csv=is_csv), "participant_phone_number"))
        for kept in self._kept:
            before = f"{kept.message}." if len(self._kept) > 1 else ""
            for column, name in kept.columns.items():
                cell = f"{kept.table}.{column}"
                is_time = is_csv and column in _TIMES
                columns.append((_write_time(cell) if is_time else cell, before + name))
        columns += [(f"members.value_{number}", name) for name, number in self.columns]
        names = distinguish(defuse_formula(name) if is_csv else name for _, name in columns)
        cells = (f"{cell} AS {_name(name)}" for (cell, _), name in zip(columns, names, strict=True))
        people = " UNION ".join(f"SELECT participant FROM {kept.table}" for kept in self._kept)
        tables = [kept.table for kept in self._kept]
        if self.include_pii or self.columns:
            tables.append("members")
        joins = "".join(f" LEFT JOIN {table} USING (participant)" for table in tables)
        everybody = people or "SELECT '' AS participant WHERE false"
        return f"SELECT {', '.join(cells)} FROM ({everybody}){joins} ORDER BY 1"

    def _select_results(self, *, is_csv: bool) -> str:
        columns = "message, arm, pseudonym(participant) AS participant"
        if self.include_pii:
            columns += f""", {_write_phone(is_csv=is_csv)} AS participant_phone_number, question_tag,
              question_text, question_display_order, result_answer, result_response"""
        else:
            columns += """, question_tag, question AS question_text, question_display_order,
              answer AS result_answer, response AS result_response"""
        members = " LEFT JOIN members USING (participant)" if self.include_pii else ""
        time = "make_timestamptz(created_us)"
        return f"""SELECT {columns}, {_write_time(time) if is_csv else time} AS created, result_guid, value
            FROM kept_results{members}
            ORDER BY message, created_us NULLS FIRST, result_guid"""


def _name_columns(outline: MessageOutline, asked: Asked) -> Iterator[tuple[str, str]]:
    """Yield the columns of a message's table, each with its name in files."""
    if outline.ways and outline.ways[0].arm:
        yield "arm", "arm"
    for name in ("asked_at", "disposition", "first_answered_at"):
        yield name, name
    for place, question in enumerate(asked.questions):
        yield f"answer_{place}", question.tag
        if _has_values(question):
            yield f"point_{place}", f"{question.tag}.value"


def _write_time(time: str) -> str:
    return f"strftime({time}, '%Y-%m-%dT%H:%M:%S.%fZ')"


def _write_phone(*, is_csv: bool) -> str:
    """Return the expression for a phone, which readers of CSV would take for a number."""
    return "'''' || nullif(members.phone, '')" if is_csv else "nullif(members.phone, '')"


def _label(reading: AnswerReading) -> str | None:
    """Return an answer as text; None for one in the participant's own words."""
    return _write_number(reading.number) if reading.label is None else reading.label


def _write_number(number: Fraction | None) -> str | None:
    return None if number is None else f"{round_exactly(number, _NUMBER_PLACES).normalize():f}"


def _has_values(question: QuestionOutline) -> bool:
    """Return whether a question's responses count as something else than they read."""
    points = read_points(question.scale, question.responses, question.values)
    is_scored = any(point is not None for point in points) and question.scale in SCORED
    return is_scored and any(
        _write_number(point) != text.strip() for point, text in zip(points, question.responses, strict=True)
    )


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
