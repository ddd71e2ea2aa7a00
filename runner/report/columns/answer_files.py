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
frames take them for numbers, and lose the plus sign. CSV is UTF-8 with LF line ends.
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
from runner.report.columns.dataset import read_time
from runner.report.columns.engine import quote
from runner.report.documents.wording import defuse_formula
from runner.report.funnel import count_completed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from fractions import Fraction

    from runner.report.columns.engine import Engine
    from runner.report.columns.question_columns import Asked
    from runner.report.facts import AnswerReading, MessageOutline, QuestionOutline

Shape = Literal["answers", "results"]
"""`answers`: a row a person asked, a column a question; `results`: a row a result."""
FileFormat = Literal["csv", "parquet"]

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
    """A message whose answers are in a table of the engine.

    `valued` are the places of questions whose responses count as something else than they read.
    """

    message: str
    table: str
    tags: tuple[str, ...]
    has_arms: bool
    valued: frozenset[int]


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
        labels = [_label(reading) for reading in readings]
        self.engine.run(
            "CREATE OR REPLACE TEMP TABLE labels AS SELECT unnest(?::INTEGER[]) AS reading, "
            "unnest(?::VARCHAR[]) AS label, unnest(?::VARCHAR[]) AS value",
            [list(range(len(labels))), labels, [_write_number(reading.number) for reading in readings]],
        )
        self.engine.run(
            "CREATE OR REPLACE TEMP TABLE texts AS SELECT unnest(?::INTEGER[]) AS place, "
            "unnest(?::VARCHAR[]) AS question",
            [list(range(len(asked.questions))), [question.text for question in asked.questions]],
        )
        self.engine.run(_KEEP_RESULTS, [outline.id])
        self._keep_ends(outline)
        table = f"kept_answers_{len(self._kept)}"
        self.engine.run(self._gather_answers(table, len(asked.tags)))
        valued = frozenset(place for place, one in enumerate(asked.questions) if _has_values(one))
        has_arms = bool(outline.ways and outline.ways[0].arm)
        self._kept.append(_Kept(outline.id, table, asked.tags, has_arms, valued))

    def write(self, shape: Shape, file_format: FileFormat, file: Path) -> None:
        """Write one whole file, and its folder, readable by this user alone.

        Raises:
            RunnerError: it cannot be written.
        """
        is_csv = file_format == "csv"
        select = (self._select_answers if shape == "answers" else self._select_results)(is_csv=is_csv)
        if is_csv:
            select = f"SELECT defuse(COLUMNS(*)) FROM ({select})"
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

    def _keep_ends(self, outline: MessageOutline) -> None:
        """Make the table `ends` of the paths that lead to the end of the survey."""
        paths = self.engine.rows("SELECT DISTINCT arm, path FROM people ORDER BY ALL")
        ended = [bool(sum(count_completed(outline, {(arm, path): 1}).values())) for arm, path in paths]
        self.engine.run(
            "CREATE OR REPLACE TEMP TABLE ends AS SELECT unnest(?::VARCHAR[]) AS arm, "
            "unnest(?::VARCHAR[]) AS path, unnest(?::BOOLEAN[]) AS is_complete",
            [[arm for arm, _ in paths], [path for _, path in paths], ended],
        )

    def _gather_answers(self, table: str, places: int) -> str:
        """Return the statement for a table of a row a participant: the latest answer to each question."""
        shown = "coalesce(labels.label, response)" if self.include_pii else "labels.label"
        latest = "".join(
            f", arg_max(shown, rank) FILTER (WHERE place = {place}) AS answer_{place}"
            f", nullif(arg_max(coalesce(value, ''), rank) FILTER (WHERE place = {place}), '')"
            f" AS point_{place}"
            for place in range(places)
        )
        # The empty text stands for one that is not shown, as `arg_max` would skip a missing one.
        return f"""
            CREATE OR REPLACE TEMP TABLE {table} AS
            SELECT answered.*, ends.is_complete, people.first_us FROM (
              SELECT participant, person, min(arm) AS arm{latest}
              FROM (SELECT read_answers.*, coalesce({shown}, '') AS shown, value FROM read_answers
                LEFT JOIN labels ON labels.reading = read_answers.reading)
              GROUP BY participant, person) answered
            JOIN people ON people.person = answered.person
            JOIN ends ON ends.arm = people.arm AND ends.path = people.path"""

    def _select_answers(self, *, is_csv: bool) -> str:
        asking = [kept for kept in self._kept if kept.tags]
        columns = [("pseudonym(everybody.participant)", "participant")]
        if self.include_pii:
            columns.append((_write_phone(is_csv=is_csv), "participant_phone_number"))
        joins = []
        for kept in asking:
            before = f"{kept.message}." if len(asking) > 1 else ""
            columns += [(cell, before + name) for cell, name in _list_cells(kept, is_csv=is_csv)]
            joins.append(_join(kept))
        columns += [(f"members.value_{number}", name) for name, number in self.columns]
        # A tag that only results know is any text of the service.
        names = _distinguish(defuse_formula(name) if is_csv else name for _, name in columns)
        cells = (f"{cell} AS {_name(name)}" for (cell, _), name in zip(columns, names, strict=True))
        people = " UNION ".join(
            f"SELECT participant FROM {kept.table} "
            f"UNION SELECT participant FROM asked_people WHERE message = {quote(kept.message)}"
            for kept in asking
        )
        if self.include_pii or self.columns:
            joins.append(" LEFT JOIN members ON members.participant = everybody.participant")
        everybody = people or "SELECT '' AS participant WHERE false"
        return f"SELECT {', '.join(cells)} FROM ({everybody}) everybody{''.join(joins)} ORDER BY 1"

    def _select_results(self, *, is_csv: bool) -> str:
        columns = "message, arm, pseudonym(participant) AS participant"
        if self.include_pii:
            columns += f""", {_write_phone(is_csv=is_csv)} AS participant_phone_number, question_tag,
              question_text, question_display_order, result_answer, result_response"""
        else:
            columns += """, question_tag, question AS question_text, question_display_order,
              answer AS result_answer, response AS result_response"""
        members = " LEFT JOIN members USING (participant)" if self.include_pii else ""
        created = _write_time("created_us", is_csv=is_csv)
        return f"""SELECT {columns}, {created} AS created, result_guid, value
            FROM kept_results{members}
            ORDER BY message, created_us NULLS FIRST, result_guid"""


def _list_cells(kept: _Kept, *, is_csv: bool) -> Iterator[tuple[str, str]]:
    """Yield the cells of a message's row, each with the column's name."""
    answers, asked = kept.table, f"asked_{kept.table}"
    if kept.has_arms:
        yield f"coalesce({answers}.arm, {asked}.arm)", "arm"
    yield _write_time(read_time(f"{asked}.asked_at"), is_csv=is_csv), "asked_at"
    yield (
        f"""CASE WHEN {answers}.is_complete THEN 'complete'
        WHEN {answers}.participant IS NOT NULL THEN 'partial'
        WHEN {asked}.participant IS NULL THEN NULL WHEN {asked}.has_opted_out THEN 'opted_out'
        WHEN {asked}.is_read = '0' THEN 'not_known' ELSE 'no_answer' END""",
        "disposition",
    )
    yield _write_time(f"{answers}.first_us", is_csv=is_csv), "first_answered_at"
    for place, tag in enumerate(kept.tags):
        yield f"{answers}.answer_{place}", tag or "untagged"
        if place in kept.valued:
            yield f"{answers}.point_{place}", f"{tag}.value"


def _join(kept: _Kept) -> str:
    """Return the joins of one message: people asked, and participants."""
    answers, asked = kept.table, f"asked_{kept.table}"
    return f"""
        LEFT JOIN (
          SELECT asked_people.*, opted_out.participant IS NOT NULL AS has_opted_out
          FROM asked_people LEFT JOIN opted_out USING (message, participant)
          WHERE asked_people.message = {quote(kept.message)}
        ) {asked} ON {asked}.participant = everybody.participant
        LEFT JOIN {answers} ON {answers}.participant = everybody.participant"""


def _write_time(microseconds: str, *, is_csv: bool) -> str:
    """Return the expression for a time, given its microseconds since 1970."""
    time = f"make_timestamptz({microseconds})"
    return f"strftime({time}, '%Y-%m-%dT%H:%M:%S.%fZ')" if is_csv else time


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


def _distinguish(names: Iterable[str]) -> list[str]:
    """Return names made distinct by numbers, regardless of case, as the engine compares them."""
    found: dict[str, str] = {}
    for name in names:
        candidates = (name, *(f"{name} ({number})" for number in range(2, len(found) + 2)))
        free = next(candidate for candidate in candidates if candidate.casefold() not in found)
        found[free.casefold()] = free
    return list(found.values())


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
