"""Files of answers: a row a participant, or a row a result; nothing in them that was not asked for."""

from __future__ import annotations

import codecs
import csv
import hashlib
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from pyarrow import parquet

from runner.ledger.report_model import FeedRow, ResultVersion
from runner.report.columns.answer_files import AnswerFiles
from runner.report.columns.counting import count_campaign
from runner.report.columns.dataset import ResultColumns, load_members, load_refusing
from runner.report.facts import CampaignOutline, MessageOutline, QuestionOutline, WayOutline
from tests.report.counted import make_contact, make_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runner.campaign.model import ResponseValue
    from runner.ledger.report_model import ContactRow

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
DAY = "2026-11-20"


def mask(participant: str) -> str:
    """Return a participant's pseudonym in files."""
    return hashlib.sha256(f"{EXPORT_KEY}{participant}".encode()).hexdigest()[:20]


P0, P1, P2 = map(mask, ("p0", "p1", "p2"))
PHONES = {"p1": "+14155550101", "p2": "+14155550102"}


def export(
    folder: Path,
    rows: Sequence[FeedRow],
    *outlines: MessageOutline,
    name: str = "answers.csv",
    include_pii: bool = False,
    asked: Sequence[ContactRow] = (),
    opted_out: Sequence[tuple[str, str]] = (),
    members: Sequence[tuple[str, ...]] | None = None,
    columns: Sequence[str] = (),
) -> Path:
    """Write one file of answers, as a report does; return it."""
    copy, file = ResultColumns(folder / "copy"), folder / "out" / name
    with copy.hold() as engine:
        version = ResultVersion("edition", 1)
        copy.refresh(engine, version, lambda _: rows, lambda _: "", (), "mark", lambda: asked)
        people = members or list(PHONES.items())
        load_members(engine, ((name, phone, "0", *cells) for name, phone, *cells in people), len(columns))
        load_refusing(engine, ((*person, "1") for person in opted_out))
        answers = AnswerFiles(
            engine, include_pii, EXPORT_KEY, [(name, number) for number, name in enumerate(columns)]
        )
        count_campaign(engine, CampaignOutline(outlines), {}, keep_answers=answers.keep)
        answers.write(
            "answers" if "answers" in name else "results", "csv" if "csv" in name else "parquet", file
        )
    return file


def read_csv(file: Path) -> list[list[str]]:
    assert file.read_bytes().startswith(codecs.BOM_UTF8)
    with file.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.reader(stream))


def read_parquet(file: Path) -> list[tuple[object, ...]]:
    table = parquet.read_table(file)
    return [tuple(table.column_names), *(tuple(row.values()) for row in table.to_pylist())]


def test_answers_are_a_row_a_participant(tmp_path: Path) -> None:
    """The latest answer to each question, sorted; own words stay away, and formulas don't run."""
    assert read_csv(export(tmp_path, ROWS, ASK)) == [
        ["participant", "asked_at", "disposition", "first_answered_at", "colour", "age", "why"],
        [P1, "", "partial", "2026-11-20T10:01:00.000000Z", "", "-7.5", ""],
        [P2, "", "complete", "2026-11-20T10:00:00.000000Z", "'=Blue", "", ""],
    ]


def test_everybody_who_was_asked_has_a_row(tmp_path: Path) -> None:
    """Those who did not answer stand there with what became of them, as far as that is known."""
    asked = [
        make_contact("p0", message="ask", arm="", began="2026-11-20T09:00:00.25", is_read="1"),
        make_contact("p1", message="ask", arm="", began="2026-11-20T11:00:00+02:00", is_read="1"),
        make_contact("p2", message="ask", arm="", began="", is_read="1"),
        make_contact("p3", message="ask", arm="", began="2026-11-20T09:00:00", is_read="1"),
        make_contact("p4", message="ask", arm="", began="2026-11-20T09:00:00", is_read="0"),
        make_contact("p5", message="notice", arm="", began="2026-11-20T09:00:00", is_read="1"),
    ]
    opted_out = [("ask", "p3"), ("ask", "p2"), ("notice", "p0")]
    header, *rows = read_csv(export(tmp_path, ROWS, ASK, TEXT, asked=asked, opted_out=opted_out))
    people = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    assert [people[mask("p0")][name] for name in header[1:4]] == [
        "2026-11-20T09:00:00.250000Z", "no_answer", ""]  # fmt: skip
    assert [people[P1][name] for name in header[1:4]] == [
        "2026-11-20T09:00:00.000000Z", "partial", "2026-11-20T10:01:00.000000Z"]  # fmt: skip
    assert [people[mask(one)]["disposition"] for one in ("p2", "p3", "p4")] == [
        "complete", "opted_out", "not_known"]  # fmt: skip
    assert len(rows) == 5


def test_chosen_columns_of_the_audience_stand_at_the_end(tmp_path: Path) -> None:
    """A column that is called as a question has another name; who left the audience has no value."""
    members = [("p1", "", "Köln", "=gold"), ("p9", "", "Rome", "gold")]
    table = read_csv(export(tmp_path, ROWS, ASK, members=members, columns=("city", "Age")))
    assert [row[-2:] for row in table] == [["city", "Age (2)"], ["Köln", "'=gold"], ["", ""]]
    table = read_csv(
        export(tmp_path, ROWS, ASK, name="results.csv", members=members, columns=("city", "Age"))
    )
    assert "city" not in table[0]


def test_the_end_of_a_survey_is_that_of_its_arm(tmp_path: Path) -> None:
    """Who answered an arm's last question is done, though another arm asks more."""
    short, long = WayOutline("a", (COLOUR,)), WayOutline("b", (COLOUR, WHY))
    outline = MessageOutline("ask", "tag", (COLOUR, WHY), (short, long))
    rows = [
        make_row("p1", "colour", "Red", arm="a", guid="1"),
        make_row("p2", "colour", "Red", arm="b", guid="2"),
    ]
    asked = [make_contact("p0", message="ask", arm="b", began="2026-11-20T09:00:00", is_read="1")]
    header, *rows_ = read_csv(export(tmp_path, rows, outline, asked=asked))
    assert header[1:4] == ["arm", "asked_at", "disposition"]
    assert {row[0]: (row[1], row[3]) for row in rows_} == {
        mask("p0"): ("b", "no_answer"),
        P1: ("a", "complete"),
        P2: ("b", "partial"),
    }


def test_the_first_answer_is_the_first_on_one_clock(tmp_path: Path) -> None:
    """Offsets change no order: the earliest moment is told, in UTC, and a time that is none tells nothing."""
    rows = [
        make_row("p1", "colour", "red", guid="1", created="2026-11-20T09:30:00"),
        make_row("p1", "why", "so", guid="2", created="2026-11-20T10:00:00+02:00"),
        make_row("p2", "why", "so", guid="3", created="soon"),
    ]
    table = read_csv(export(tmp_path, rows, ASK))
    assert [(row[0], row[3]) for row in table[1:]] == [(P1, "2026-11-20T08:00:00.000000Z"), (P2, "")]
    copied = read_parquet(export(tmp_path, rows, ASK, name="answers.parquet"))
    assert [row[3] for row in copied[1:]] == [datetime(2026, 11, 20, 8, tzinfo=UTC), None]


def test_own_words_and_phones_are_there_if_asked_for(tmp_path: Path) -> None:
    """With --include-pii phones and texts of participants' own stand in the file, and still don't run."""
    header, first, second = read_csv(export(tmp_path, ROWS, ASK, include_pii=True))
    assert header[:2] == ["participant", "participant_phone_number"]
    assert (first[1], first[-3:]) == ("'+14155550101", ["", "-7.5", ""])
    assert (second[1], second[-3:]) == ("'+14155550102", ["'=Blue", "", "'=HYPERLINK(1)"])


@pytest.mark.parametrize("name", ["answers", "results"])
def test_a_data_frame_has_phones_and_times_as_they_are(tmp_path: Path, name: str) -> None:
    """Data frames take no phone for a number, and one way to read times is right for all."""
    rows = [*ROWS, make_row("p1", "why", "so", guid="5", created="2026-11-20T12:00:00.5+02:00")]
    frame = pd.read_csv(export(tmp_path, rows, ASK, name=f"{name}.csv", include_pii=True))
    assert set(frame["participant_phone_number"]) == {"'+14155550101", "'+14155550102"}
    column = "first_answered_at" if name == "answers" else "created"
    times = pd.to_datetime(frame[column])
    typed = pd.read_parquet(export(tmp_path, rows, ASK, name=f"{name}.parquet", include_pii=True))
    assert str(typed[column].dtype) == "datetime64[us, UTC]"
    assert list(times) == list(typed[column])
    assert set(typed["participant_phone_number"]) == {"+14155550101", "+14155550102"}
    assert pd.Timestamp("2026-11-20T10:00:00Z") in list(times)


def test_results_are_a_row_a_result(tmp_path: Path) -> None:
    """Every result by time, those that were answered anew among them; questions as the campaign has them."""
    assert read_csv(export(tmp_path, ROWS, ASK, name="results.csv")) == [
        ["message", "arm", "participant", "question_tag", "question_text", "question_display_order",
         "result_answer", "result_response", "created", "result_guid", "value"],
        ["ask", "", P2, "colour", "Which colour?", "1", "1", "Red", f"{DAY}T10:00:00.000000Z", "1", ""],
        ["ask", "", P1, "age", "How old?", "1", "-7.50", "-7.5", f"{DAY}T10:01:00.000000Z", "4", "-7.5"],
        ["ask", "", P2, "colour", "Which colour?", "1", "2", "'=Blue", f"{DAY}T10:05:00.000000Z", "2", ""],
        ["ask", "", P2, "why", "Why?", "1", "", "", f"{DAY}T10:06:00.000000Z", "3", ""],
    ]  # fmt: skip


def test_parquet_has_the_texts_as_they_are(tmp_path: Path) -> None:
    """What no spreadsheet opens needs no apostrophes; what was not answered is missing, not empty."""
    time = datetime(2026, 11, 20, 10, tzinfo=UTC)
    assert read_parquet(export(tmp_path, ROWS, ASK, name="answers.parquet")) == [
        ("participant", "asked_at", "disposition", "first_answered_at", "colour", "age", "why"),
        (P1, None, "partial", time.replace(minute=1), None, "-7.5", None),
        (P2, None, "complete", time, "=Blue", None, ""),
    ]
    found = read_parquet(export(tmp_path, ROWS, ASK, name="results.parquet"))
    assert found[1][5:] == (1, "1", "Red", time, "1", None)
    assert found[-1][6:8] == (None, None)


def test_values_stand_beside_what_was_said(tmp_path: Path) -> None:
    """A response has its value on the scale in a column of its own; one without a value has none."""
    values: tuple[ResponseValue, ...] = (Fraction(3), Fraction(1), "none")
    mood = QuestionOutline("mood", "How?", ("Good", "Bad", "Don't know"), "csat", values=values)
    rows = [
        make_row("p1", "mood", "Good", "1", guid="1"),
        make_row("p2", "mood", "Don't know", "3", guid="2"),
    ]
    outline = MessageOutline("ask", "tag", (mood,))
    header, *found = read_csv(export(tmp_path, rows, outline))
    assert header[-2:] == ["mood", "mood.value"]
    assert sorted(row[-2:] for row in found) == [["Don't know", ""], ["Good", "3"]]
    header, *found = read_csv(export(tmp_path, rows, outline, name="results.csv"))
    column = header.index("value")
    assert [row[column] for row in found] == ["3", ""]


def test_several_messages_stand_side_by_side(tmp_path: Path) -> None:
    """Columns of more than one message have its id before them; who answered either has a row; arms are told."""
    rows = [
        *ROWS,
        make_row("p0", "why", "so", "so", message="again", arm="b", guid="5"),
        make_row("p1", "why", "so", "so", message="again", arm="a", guid="6"),
    ]
    header, *found = read_csv(export(tmp_path, rows, ASK, TEXT, AGAIN, include_pii=True))
    names = ("asked_at", "disposition", "first_answered_at")
    ask = [f"ask.{name}" for name in (*names, "colour", "age", "why")]
    assert header[2:] == [*ask, "again.arm", *(f"again.{name}" for name in (*names, "why"))]
    assert [row[0] for row in found] == sorted([P0, P1, P2])
    assert [(row[8], row[-1]) for row in found] == [("b", "so"), ("a", "so"), ("", "")]
    assert found[0][1:8] == [""] * 7


def test_tags_that_the_engine_takes_for_one_stay_two(tmp_path: Path) -> None:
    """Tags that differ in case alone, or are called as another column is, have columns of their own."""
    tags = ("Why", "why", "participant", "FIRST_ANSWERED_AT", 'a "quoted.tag"', "why (2)")
    outline = MessageOutline("ask", "tag", tuple(QuestionOutline(tag, "?", ("Yes",)) for tag in tags))
    rows = [make_row("p", tag, "Yes", str(number), guid=str(number)) for number, tag in enumerate(tags)]
    named = ["participant", "asked_at", "disposition", "first_answered_at", "Why", "why (2)", "participant (2)", "FIRST_ANSWERED_AT (2)",
             'a "quoted.tag"', "why (2) (2)"]  # fmt: skip
    table = read_csv(export(tmp_path, rows, outline))
    assert [table[0], table[1][3:]] == [named, [f"{DAY}T10:00:00.000000Z", *["Yes"] * 6]]
    assert read_parquet(export(tmp_path, rows, outline, name="answers.parquet"))[0] == tuple(named)


@pytest.mark.slow
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
    """As the name of a column a tag is defused as a cell is."""
    outline = MessageOutline("ask", "tag", (QuestionOutline("=cmd()", "?", scale="text"),))
    header, *_ = read_csv(export(tmp_path, [make_row("p", "=cmd()", "x")], outline))
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["answers.csv", "answers.parquet", "results.csv", "results.parquet"])
@pytest.mark.parametrize("outlines", [(), (TEXT,), (ASK,), (ASK, AGAIN)])
def test_without_answers_there_are_columns_alone(
    tmp_path: Path, name: str, outlines: tuple[MessageOutline, ...]
) -> None:
    """A campaign that nobody answered, or that asks nothing, has a file all the same."""
    file = export(tmp_path, (), *outlines, name=name)
    (header,) = read_csv(file) if name.endswith("csv") else read_parquet(file)
    assert header[0] == ("participant" if name.startswith("answers") else "message")
