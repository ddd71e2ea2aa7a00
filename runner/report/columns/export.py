"""Answers as files for those who analyse surveys: a row a participant, or a row a result.

Participants have pseudonyms that are made for these files alone, with a key of their own: those of the ledger
stand in the lockfile, too, and who has both could tell from the repository whose answers these are. What
somebody wrote in their own words, questions as they were rendered for one person, and phones are in them only
if that is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from runner.errors import RunnerError
from runner.report.columns.engine import quote
from runner.report.csv_table import defuse_formula
from runner.report.rounding import round_exactly

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.report.answers import Reading
    from runner.report.columns.engine import Engine
    from runner.report.columns.questions import Asked
    from runner.report.facts import MessageOutline

Shape = Literal["answers", "results"]
"""`answers`: a row a participant, a column a question; `results`: a row a result."""
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
  if(is_kept, answer, NULL), labels.label, answer, response, created, result_guid
FROM read_replies
LEFT JOIN labels ON labels.reading = read_replies.reading
LEFT JOIN texts ON texts.place = read_replies.place
"""
_RESULTS = """
CREATE OR REPLACE TEMP TABLE kept_results (message VARCHAR, arm VARCHAR, participant VARCHAR,
  question_tag VARCHAR, question VARCHAR, question_text VARCHAR, question_display_order INTEGER,
  answer VARCHAR, response VARCHAR, result_answer VARCHAR, result_response VARCHAR, created VARCHAR,
  result_guid VARCHAR)
"""

# On one clock before they are compared: times as texts, some with offsets, have another order.
_FIRST_ANSWERED = "min(created_us) FILTER (WHERE created_us > 0) AS first_answered_us"
_FIRST_ANSWERED_AT = {
    True: "strftime(make_timestamp({}), '%Y-%m-%dT%H:%M:%S.%fZ')",
    False: "make_timestamp({}) AT TIME ZONE 'UTC'",
}
"""How the time of a first answer is written, in UTC: as text in CSV, else as a time with its zone."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A message whose answers are in a table of the engine."""

    message: str
    table: str
    tags: tuple[str, ...]
    has_arms: bool


@dataclass(slots=True)
class AnswerFiles:
    """Collects the answers of each message while they are counted, then writes files of them.

    Args:
        engine: that counts.
        include_pii: write phones, which must be in the table `members`, and texts of participants' own.
        key: of the participants' pseudonyms: hexadecimal digits, always as many.
    """

    engine: Engine
    include_pii: bool
    key: str = field(repr=False)
    _kept: list[_Kept] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Begin without answers."""
        self.engine.run(_DEFUSE)
        self.engine.run(_PSEUDONYM.format(key=quote(self.key)))
        self.engine.run(_RESULTS)

    def keep(self, outline: MessageOutline, asked: Asked, readings: Sequence[Reading]) -> None:
        """Keep the answers to a message, which the engine has at hand."""
        labels = [_label(reading) for reading in readings]
        self.engine.run(
            "CREATE OR REPLACE TEMP TABLE labels AS SELECT unnest(?::INTEGER[]) AS reading, "
            "unnest(?::VARCHAR[]) AS label",
            [list(range(len(labels))), labels],
        )
        self.engine.run(
            "CREATE OR REPLACE TEMP TABLE texts AS SELECT unnest(?::INTEGER[]) AS place, "
            "unnest(?::VARCHAR[]) AS question",
            [list(range(len(asked.questions))), [question.text for question in asked.questions]],
        )
        self.engine.run(_KEEP_RESULTS, [outline.id])
        table = f"kept_answers_{len(self._kept)}"
        self.engine.run(self._gather_answers(table, len(asked.tags)))
        self._kept.append(_Kept(outline.id, table, asked.tags, bool(outline.ways and outline.ways[0].arm)))

    def write(self, shape: Shape, file_format: FileFormat, file: Path) -> None:
        """Write one file whole, for this user alone, and the folder that it is in.

        Raises:
            RunnerError: it cannot be written.
        """
        is_csv = file_format == "csv"
        select = self._select_answers(is_csv=is_csv) if shape == "answers" else self._select_results()
        if is_csv:
            select = f"SELECT defuse(COLUMNS(*)) FROM ({select})"
        options = "FORMAT csv, HEADER" if is_csv else "FORMAT parquet, COMPRESSION zstd"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            # The engine makes files that everybody can read: in this folder nobody else gets at them.
            with TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as private:
                draft = Path(private, file.name)
                self.engine.save(select, draft, options, file)
                draft.chmod(0o600)
                draft.replace(file)
        except OSError as error:
            raise RunnerError(f"{file} cannot be written: {error.strerror}") from None

    def _gather_answers(self, table: str, places: int) -> str:
        """Return the statement for a table of a row a participant: the latest answer to each question."""
        shown = "coalesce(labels.label, response)" if self.include_pii else "labels.label"
        latest = [
            f"arg_max(shown, rank) FILTER (WHERE place = {place}) AS answer_{place}"
            for place in range(places)
        ]
        # An empty text stands for one that is not shown: `arg_max` would pass over a missing one.
        return f"""
            CREATE OR REPLACE TEMP TABLE {table} AS
            SELECT participant, min(arm) AS arm, {", ".join([*latest, _FIRST_ANSWERED])}
            FROM (SELECT read_answers.*, coalesce({shown}, '') AS shown FROM read_answers
              LEFT JOIN labels ON labels.reading = read_answers.reading)
            GROUP BY participant"""

    def _select_answers(self, *, is_csv: bool) -> str:
        asking = [kept for kept in self._kept if kept.tags]
        columns = [("pseudonym(participant)", "participant")]
        if self.include_pii:
            columns.append(("members.phone", "participant_phone_number"))
        for kept in asking:
            before = f"{kept.message}." if len(asking) > 1 else ""
            if kept.has_arms:
                columns.append((f"{kept.table}.arm", f"{before}arm"))
            first = _FIRST_ANSWERED_AT[is_csv].format(f"{kept.table}.first_answered_us")
            columns.append((first, f"{before}first_answered_at"))
            columns += [
                (f"{kept.table}.answer_{place}", before + (tag or "untagged"))
                for place, tag in enumerate(kept.tags)
            ]
        # A tag that only results know is whatever the service says.
        names = _distinguish(defuse_formula(name) if is_csv else name for _, name in columns)
        cells = (f"{cell} AS {_name(name)}" for (cell, _), name in zip(columns, names, strict=True))
        joined = (
            " FULL JOIN ".join(
                kept.table + (" USING (participant)" if place else "") for place, kept in enumerate(asking)
            )
            or "(SELECT '' AS participant WHERE false)"
        )
        members = " LEFT JOIN members USING (participant)" if self.include_pii else ""
        return f"SELECT {', '.join(cells)} FROM {joined}{members} ORDER BY 1"

    def _select_results(self) -> str:
        columns = "message, arm, pseudonym(participant) AS participant"
        if self.include_pii:
            columns += """, members.phone AS participant_phone_number, question_tag, question_text,
              question_display_order, result_answer, result_response"""
        else:
            columns += """, question_tag, question AS question_text, question_display_order,
              answer AS result_answer, response AS result_response"""
        members = " LEFT JOIN members USING (participant)" if self.include_pii else ""
        return f"""SELECT {columns}, created, result_guid FROM kept_results{members}
            ORDER BY message, created, result_guid"""


def _label(reading: Reading) -> str | None:
    """Return how an answer is written; None for one that is in the participant's own words."""
    if reading.label is not None:
        return reading.label
    if reading.number is None:
        return None
    return f"{round_exactly(reading.number, _NUMBER_PLACES).normalize():f}"


def _distinguish(names: Iterable[str]) -> list[str]:
    """Return names of which no two are alike, which for the engine they are in whatever case: by numbers."""
    found: dict[str, str] = {}
    for name in names:
        candidates = (name, *(f"{name} ({number})" for number in range(2, len(found) + 2)))
        free = next(candidate for candidate in candidates if candidate.casefold() not in found)
        found[free.casefold()] = free
    return list(found.values())


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
