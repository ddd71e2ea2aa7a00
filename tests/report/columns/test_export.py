"""Files of answers: a row a participant, or a row a result; nothing in them that was not asked for."""

from __future__ import annotations

import csv
import hashlib
from typing import TYPE_CHECKING

import duckdb
import pytest

from runner.errors import RunnerError
from runner.ledger.report_model import FeedRow, ResultVersion
from runner.report.columns.counting import count_campaign
from runner.report.columns.dataset import ResultColumns
from runner.report.columns.export import AnswerFiles
from runner.report.columns.members import load_members
from runner.report.facts import MessageOutline, QuestionOutline, WayOutline
from tests.report.counted import make_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COLOUR = QuestionOutline("colour", "Which colour?", ("Red", "=Blue"))
AGE = QuestionOutline("age", "How old?", scale="number")
WHY = QuestionOutline("why", "Why?", scale="text")
ASK = MessageOutline("ask", "tag", (COLOUR, AGE, WHY))
AGAIN = MessageOutline("again", "tag", (WHY,), (WayOutline("a", (WHY,)), WayOutline("b", (WHY,))))
TEXT = MessageOutline("notice", "tag")
ROWS = (
    make_row("p2", "colour", "red", "1", text="Which, Ada?", guid="1", created="2026-11-20T10:00:00"),
    make_row("p2", "colour", "=blue", "2", text="Which, Ada?", guid="2", created="2026-11-20T10:05:00"),
    make_row("p2", "why", "=HYPERLINK(1)", "=HYPERLINK(1)", guid="3", created="2026-11-20T10:06:00"),
    make_row("p1", "age", "-7.50", "-7.50", guid="4", created="2026-11-20T10:01:00"),
)
EXPORT_KEY = "0123456789abcdef" * 2
P0, P1, P2 = (hashlib.sha256(f"{EXPORT_KEY}{one}".encode()).hexdigest()[:20] for one in ("p0", "p1", "p2"))
PHONES = {"p1": "+14155550101", "p2": "+14155550102"}


def export(
    folder: Path,
    rows: Sequence[FeedRow],
    *outlines: MessageOutline,
    name: str = "answers.csv",
    include_pii: bool = False,
) -> Path:
    """Write one file of answers, as a report does; return it."""
    copy, file = ResultColumns(folder / "copy"), folder / "out" / name
    with copy.hold() as engine:
        copy.refresh(engine, ResultVersion("edition", 1), lambda _: rows, lambda _: "")
        if include_pii:
            load_members(engine, folder, PHONES.items(), 0)
        answers = AnswerFiles(engine, include_pii, EXPORT_KEY)
        count_campaign(engine, outlines, {}, keep_answers=answers.keep)
        answers.write(
            "answers" if "answers" in name else "results", "csv" if "csv" in name else "parquet", file
        )
    return file


def read_csv(file: Path) -> list[list[str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))


def read_parquet(file: Path) -> list[tuple[object, ...]]:
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        found = engine.read_parquet(str(file))
        # Python's times with zones would need another package here.
        kinds = zip(found.columns, map(str, found.types), strict=True)
        cells = [
            '"{}"'.format(name.replace('"', '""')) + ("::VARCHAR" if "TIME ZONE" in kind else "")
            for name, kind in kinds
        ]
        return [tuple(found.columns), *found.project(", ".join(cells)).fetchall()]


def test_answers_are_a_row_a_participant(tmp_path: Path) -> None:
    """The latest answer to each question, sorted; own words stay away, and formulas don't run."""
    assert read_csv(export(tmp_path, ROWS, ASK)) == [
        ["participant", "first_answered_at", "colour", "age", "why"],
        [P1, "2026-11-20T10:01:00.000000Z", "", "-7.5", ""],
        [P2, "2026-11-20T10:00:00.000000Z", "'=Blue", "", ""],
    ]


def test_the_first_answer_is_the_first_on_one_clock(tmp_path: Path) -> None:
    """Offsets change no order: the earliest moment is told, in UTC, and a time that is none tells nothing."""
    rows = [
        make_row("p1", "colour", "red", guid="1", created="2026-11-20T09:30:00"),
        make_row("p1", "why", "so", guid="2", created="2026-11-20T10:00:00+02:00"),
        make_row("p2", "why", "so", guid="3", created="soon"),
    ]
    table = read_csv(export(tmp_path, rows, ASK))
    assert [row[:2] for row in table[1:]] == [[P1, "2026-11-20T08:00:00.000000Z"], [P2, ""]]
    copied = export(tmp_path, rows, ASK, name="answers.parquet")
    assert [row[1] for row in read_parquet(copied)[1:]] == ["2026-11-20 08:00:00+00", None]
    with duckdb.connect() as engine:
        kinds = engine.read_parquet(str(copied)).types
    assert str(kinds[1]) == "TIMESTAMP WITH TIME ZONE"


def test_own_words_and_phones_are_there_if_asked_for(tmp_path: Path) -> None:
    """With --include-pii phones and texts of participants' own stand in the file, and still don't run."""
    assert read_csv(export(tmp_path, ROWS, ASK, include_pii=True)) == [
        ["participant", "participant_phone_number", "first_answered_at", "colour", "age", "why"],
        [P1, "+14155550101", "2026-11-20T10:01:00.000000Z", "", "-7.5", ""],
        [P2, "+14155550102", "2026-11-20T10:00:00.000000Z", "'=Blue", "", "'=HYPERLINK(1)"],
    ]


def test_results_are_a_row_a_result(tmp_path: Path) -> None:
    """Every result by time, those that were answered anew among them; questions as the campaign has them."""
    assert read_csv(export(tmp_path, ROWS, ASK, name="results.csv")) == [
        ["message", "arm", "participant", "question_tag", "question_text", "question_display_order",
         "result_answer", "result_response", "created", "result_guid"],
        ["ask", "", P2, "colour", "Which colour?", "1", "1", "Red", "2026-11-20T10:00:00", "1"],
        ["ask", "", P1, "age", "How old?", "1", "-7.50", "-7.5", "2026-11-20T10:01:00", "4"],
        ["ask", "", P2, "colour", "Which colour?", "1", "2", "'=Blue", "2026-11-20T10:05:00", "2"],
        ["ask", "", P2, "why", "Why?", "1", "", "", "2026-11-20T10:06:00", "3"],
    ]  # fmt: skip


def test_results_have_everything_if_asked_for(tmp_path: Path) -> None:
    """With --include-pii results are as the service gave them, with phones."""
    header, first, *_, last = read_csv(export(tmp_path, ROWS, ASK, name="results.csv", include_pii=True))
    assert header[3] == "participant_phone_number"
    assert first[3:9] == ["+14155550102", "colour", "Which, Ada?", "1", "1", "red"]
    assert last[3:9] == ["+14155550102", "why", "as asked", "1", "'=HYPERLINK(1)", "'=HYPERLINK(1)"]


def test_parquet_has_the_texts_as_they_are(tmp_path: Path) -> None:
    """What no spreadsheet opens needs no apostrophes; what was not answered is missing, not empty."""
    assert read_parquet(export(tmp_path, ROWS, ASK, name="answers.parquet")) == [
        ("participant", "first_answered_at", "colour", "age", "why"),
        (P1, "2026-11-20 10:01:00+00", None, "-7.5", None),
        (P2, "2026-11-20 10:00:00+00", "=Blue", None, ""),
    ]
    found = read_parquet(export(tmp_path, ROWS, ASK, name="results.parquet"))
    assert found[1][5:] == (1, "1", "Red", "2026-11-20T10:00:00", "1")
    assert found[-1][6:8] == (None, None)


def test_several_messages_stand_side_by_side(tmp_path: Path) -> None:
    """Columns of more than one message have its id before them; who answered either has a row; arms are told."""
    rows = [
        *ROWS,
        make_row("p0", "why", "so", "so", message="again", arm="b", guid="5"),
        make_row("p1", "why", "so", "so", message="again", arm="a", guid="6"),
    ]
    table = read_csv(export(tmp_path, rows, ASK, TEXT, AGAIN, include_pii=True))
    assert table[0][2:] == ["ask.first_answered_at", "ask.colour", "ask.age", "ask.why", "again.arm",
                            "again.first_answered_at", "again.why"]  # fmt: skip
    assert [row[0] for row in table[1:]] == sorted([P0, P1, P2])
    assert [row[6:9:2] for row in table[1:]] == [["b", "so"], ["a", "so"], ["", ""]]
    assert table[1][1:6] == [""] * 5


def test_tags_that_the_engine_takes_for_one_stay_two(tmp_path: Path) -> None:
    """Tags that differ in case alone, or are called as another column is, have columns of their own."""
    tags = ("Why", "why", "participant", "FIRST_ANSWERED_AT", 'a "quoted.tag"', "why (2)", "")
    outline = MessageOutline("ask", "tag", tuple(QuestionOutline(tag, "?", ("Yes",)) for tag in tags))
    rows = [make_row("p", tag, "Yes", str(number), guid=str(number)) for number, tag in enumerate(tags)]
    named = ["participant", "first_answered_at", "Why", "why (2)", "participant (2)", "FIRST_ANSWERED_AT (2)",
             'a "quoted.tag"', "why (2) (2)", "untagged"]  # fmt: skip
    table = read_csv(export(tmp_path, rows, outline))
    assert [table[0], table[1][1:]] == [named, ["2026-11-20T10:00:00.000000Z", *["Yes"] * 7]]
    assert read_parquet(export(tmp_path, rows, outline, name="answers.parquet"))[0] == tuple(named)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+1 415", "'+1 415"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\tx", "'\tx"),
        ("\r\nx", "'\r\nx"),
        ("＝1", "'＝1"),
        ("-5", "-5"),
        ("+5.25", "+5.25"),
        ("-5-5", "'-5-5"),
        ("plain, “text”", "plain, “text”"),
        ('"', '"'),
        ("two\nlines", "two\nlines"),
    ],
)
def test_formulas_are_defused_and_numbers_left(tmp_path: Path, text: str, cell: str) -> None:
    """A cell that a spreadsheet would run starts with an apostrophe; a number is no formula."""
    (_, row) = read_csv(export(tmp_path, [make_row("p", "why", text, text)], ASK, include_pii=True))
    assert row[-1] == cell


def test_a_strange_tag_does_not_run_either(tmp_path: Path) -> None:
    """The service may give any tag: as the name of a column it is defused as a cell is."""
    header, *_ = read_csv(export(tmp_path, [make_row("p", "=cmd()", "x")], ASK))
    assert header[-1] == "'=cmd()"


@pytest.mark.parametrize("name", ["answers.csv", "results.csv", "answers.parquet", "results.parquet"])
def test_files_are_the_same_each_time(tmp_path: Path, name: str) -> None:
    """The same results in another order give the same file, byte for byte."""
    rows = [
        make_row(f"p{number % 400:03}", "why", "x" * (number % 7), "x", guid=str(number))
        for number in range(3000)
    ]
    first = export(tmp_path / "1", rows, ASK, name=name, include_pii=True).read_bytes()
    assert export(tmp_path / "2", rows[::-1], ASK, name=name, include_pii=True).read_bytes() == first


@pytest.mark.parametrize("name", ["answers.csv", "answers.parquet", "results.csv", "results.parquet"])
@pytest.mark.parametrize("outlines", [(), (TEXT,), (ASK,), (ASK, AGAIN)])
def test_without_answers_there_are_columns_alone(
    tmp_path: Path, name: str, outlines: tuple[MessageOutline, ...]
) -> None:
    """A campaign that nobody answered, or that asks nothing, has a file all the same."""
    file = export(tmp_path, (), *outlines, name=name)
    (header,) = read_csv(file) if name.endswith("csv") else read_parquet(file)
    assert header[0] == ("participant" if name.startswith("answers") else "message")


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A folder in the place of the file is told in words."""
    (tmp_path / "out" / "answers.csv").mkdir(parents=True)
    with pytest.raises(RunnerError) as caught:
        export(tmp_path, ROWS, ASK)
    assert caught.value.message == f"{tmp_path / 'out' / 'answers.csv'} cannot be written: Is a directory"
