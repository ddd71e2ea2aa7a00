"""Files of answers: a row a person, an answer or a result; nothing in them that was not asked for."""

from __future__ import annotations

import codecs
import csv
import hashlib
import json
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pandas as pd
import pytest
from pyarrow import parquet

from runner.ledger.report_model import ContactRow, FeedRow, ResultVersion
from runner.report.columns.answer_files import AnswerFiles, LowScores
from runner.report.columns.counting import count_campaign
from runner.report.columns.dataset import ResultColumns, load_members
from runner.report.columns.file_columns import FileContent
from runner.report.columns.kept_answers import gather_comments, keep_answers
from runner.report.facts import (
    CampaignOutline,
    ExperimentOutline,
    MessageOutline,
    QuestionOutline,
)
from runner.report.gathering import pool_questions
from runner.source.json_schema import load_validator
from tests.report.counted import make_contact, make_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.campaign.message_model import ResponseValue
    from runner.report.columns.engine import Engine

COLOUR = QuestionOutline("colour", "Which colour?", ("Red", "=Blue"))
AGE = QuestionOutline("age", "How old?", scale="number")
WHY = QuestionOutline("why", "Why?", scale="text")
NPS = QuestionOutline("nps", "0 to 10?", tuple(map(str, range(11))), "nps")
ASK = MessageOutline("ask", "tag", (COLOUR, AGE, WHY))
AGAIN = MessageOutline("again", "tag", (WHY,))
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
    number = UUID(f"{hashlib.sha256(participant.encode()).hexdigest()[:31]}1")
    return hashlib.sha256(f"{EXPORT_KEY}{number}".encode()).hexdigest()[:20]


P0, P1, P2 = map(mask, ("p0", "p1", "p2"))


def make_member(
    name: str,
    phone: str = "",
    *values: str,
    control: str = "0",
    language: str = "",
    cells: str = "",
    may_call: str = "1",
) -> tuple[str, ...]:
    """Return a person of the audience, as a report reads it."""
    return (name, phone, control, language, cells, may_call, *values)


MEMBERS = (make_member("p1", "+14155550101"), make_member("p2", "+14155550102"))


@contextmanager
def exporting(
    folder: Path,
    rows: Sequence[FeedRow],
    *outlines: MessageOutline,
    contacts: Sequence[ContactRow] = (),
    refusals: Mapping[tuple[int, str], bool] = MappingProxyType({}),
    members: Sequence[tuple[str, ...]] = MEMBERS,
    arms: Sequence[str] = (),
    low: LowScores | None = None,
    **content: Any,
) -> Iterator[tuple[Engine, CampaignOutline, AnswerFiles]]:
    """Yield what writes files of answers, as a report has it; `members` have phone, control group and values."""
    copy = ResultColumns(folder / "copy")
    experiment = ExperimentOutline(outlines[0].id, dict.fromkeys(arms, 1.0)) if arms else None
    pooled = tuple(pool_questions(outlines))
    scored = [number for number, one in enumerate(pooled) if one.question.scale == "nps"]
    outline = CampaignOutline(outlines, pooled, experiment=experiment, score=next(iter(scored), None))
    with copy.hold() as engine:
        version = ResultVersion("edition", 1)
        copy.refresh(engine, version, lambda _: rows, lambda _: "", refusals, "mark", lambda: contacts)
        exported = (f"export_{number}" for number in range(len(members[0]) - 6))
        load_members(engine, members, ["language", "cells", "may_call", *exported])
        tally = count_campaign(engine, outline, {})
        keep_answers(engine, outline, tally.readings)
        yield engine, outline, AnswerFiles(engine, outline, FileContent("pulse", EXPORT_KEY, **content), low)


def export(
    folder: Path,
    rows: Sequence[FeedRow],
    *outlines: MessageOutline,
    name: str = "answers.csv",
    **content: Any,
) -> Path:
    """Write one file of answers; return it."""
    file = folder / "out" / name
    with exporting(folder, rows, *outlines, **content) as (_, _, answers):
        answers.write(name, file)
    return file


def read_csv(file: Path) -> list[list[str]]:
    assert file.read_bytes().startswith(codecs.BOM_UTF8)
    with file.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.reader(stream))


def read_rows(file: Path) -> dict[str, dict[str, str]]:
    """Return the rows of a CSV file by participant."""
    header, *rows = read_csv(file)
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows}


def read_parquet(file: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = parquet.read_table(file).to_pylist()
    return rows


PERSON = ["participant", "language", "arm", "control_group", "sent", "sent_at", "texted", "state", "session", "disposition", "answered", "opted_out",
          "first_answered_at"]  # fmt: skip
ANSWERS = [
    "colour.code",
    "colour.label",
    "colour.answered_at",
    "age.value",
    "age.answered_at",
    "why.answered_at",
]


def test_answers_are_a_row_a_person(tmp_path: Path) -> None:
    """The latest answer to each question, sorted; own words stay away, and formulas don't run."""
    early, late = f"{DAY}T10:01:00.000000Z", f"{DAY}T10:05:00.000000Z"
    first = f"{DAY}T10:00:00.000000Z"
    assert read_csv(export(tmp_path, ROWS, ASK)) == [
        [*PERSON, *ANSWERS],
        [P1, "", "", "false", "", "", "", "", "ended", "partial", "true", "false", early,
         "", "", "", "-7.5", early, ""],
        [P2, "", "", "false", "", "", "", "", "ended", "complete", "true", "false", first,
         "2", "'=Blue", late, "", "", f"{DAY}T10:06:00.000000Z"],
    ]  # fmt: skip


def test_everybody_who_was_sent_to_has_a_row_with_what_became_of_them(tmp_path: Path) -> None:
    """Each final disposition, opt-out and session is the one that reports count, those by keyword among them."""
    contacts = [
        make_contact("p1"),
        make_contact("p2", began="2026-11-20T11:00:00+02:00"),
        make_contact("refused", "COMPLETE", "stopped"),
        make_contact("wrote stop"),
        make_contact("silent"),
        make_contact("replaced", "COMPLETE", "replaced"),
        make_contact("open", "ACTIVE"),
        make_contact("queued", "QUEUED"),
        make_contact("blocked", "COMPLETE", "stopped", "blocked"),
        make_contact("withdrawn", "COMPLETE", "stopped", was_texted="0"),
        make_contact("uncertain", "COMPLETE", "replaced", was_texted=""),
        make_contact("unread", "", is_read="0", is_listed="0", was_texted=""),
        make_contact("lost", "", is_sent="0", is_listed="0"),
        make_contact("texted", message="notice"),
    ]
    rows = [*ROWS, make_row("wrote stop", ROWS[0].question_tag, "stop", guid="stop")]
    refusals = {(1, "stop"): True}
    found = read_rows(export(tmp_path, rows, ASK, TEXT, contacts=contacts, refusals=refusals))
    names = ("state", "session", "disposition", "opted_out")
    for person in ("unread", "lost"):
        assert [found[mask(person)][name] for name in ("texted", "answered", "opted_out")] == ["", "", ""]
    assert (found[mask("unread")]["sent"], found[mask("lost")]["sent"]) == ("true", "")
    assert (found[mask("withdrawn")]["texted"], found[mask("uncertain")]["texted"]) == ("false", "")
    assert {
        one.participant: tuple(found[mask(one.participant)][name] for name in names) for one in contacts
    } == {
        "p1": ("texted", "ended", "partial", "false"),
        "p2": ("texted", "ended", "complete", "false"),
        "refused": ("texted", "ended", "refusal", "true"),
        "wrote stop": ("texted", "ended", "refusal", "true"),
        "silent": ("texted", "ended", "non_contact", "false"),
        "replaced": ("texted", "ended", "replaced", "false"),
        "open": ("texted", "open", "unknown_eligibility", "false"),
        "queued": ("queued", "open", "unknown_eligibility", "false"),
        "blocked": ("blocked", "ended", "refusal", "false"),
        "withdrawn": ("withdrawn", "not_known", "unknown_eligibility", "false"),
        "uncertain": ("uncertain", "not_known", "unknown_eligibility", "false"),
        "unread": ("uncertain", "not_known", "unknown_eligibility", ""),
        "lost": ("unresolved", "not_known", "unknown_eligibility", ""),
        "texted": ("texted", "", "", "false"),
    }
    assert found[P2]["sent_at"] == f"{DAY}T09:00:00.000000Z"
    assert len(found) == len(contacts)


def test_the_control_group_has_rows(tmp_path: Path) -> None:
    """People who are drawn to get nothing stand beside the others, unless they were sent something all the same."""
    members = [
        make_member("p1", "", "Köln", control="1", language="de"),
        make_member("p2", "", "=gold"),
        make_member("p8", "", "Bonn", control="1"),
        make_member("p9", "", "Rome"),
    ]
    found = read_rows(export(tmp_path, ROWS, ASK, members=members, columns=("City",)))
    names = ("control_group", "sent", "disposition", "language", "City")
    assert {person: tuple(row[name] for name in names) for person, row in found.items()} == {
        P1: ("false", "", "partial", "de", "Köln"),
        P2: ("false", "", "complete", "", "'=gold"),
        mask("p8"): ("true", "false", "", "", "Bonn"),
    }


def test_the_end_of_a_survey_is_that_of_its_arm(tmp_path: Path) -> None:
    """Who answered an arm's last question is done, though another arm asks more; each arm's responses have codes."""
    short = (COLOUR,)
    long = (QuestionOutline("colour", "Which?", ("blue", "RED", "Pink")), WHY)
    outline = MessageOutline("ask", "tag", (COLOUR, WHY), {"a": short, "b": long})
    rows = [
        make_row("p1", "colour", "Red", arm="a", guid="1"),
        make_row("p2", "colour", "Pink", arm="b", guid="2"),
        make_row("p3", "colour", "red", arm="b", guid="3"),
    ]
    contacts = [make_contact("p0", arm="b"), make_contact("p1", arm="a")]
    found = read_rows(export(tmp_path, rows, outline, contacts=contacts, arms="ab"))
    names = ("arm", "disposition", "colour.code", "colour.label")
    assert {person: tuple(row[name] for name in names) for person, row in found.items()} == {
        mask("p0"): ("b", "non_contact", "", ""),
        P1: ("a", "complete", "1", "Red"),
        P2: ("b", "partial", "4", "Pink"),
        mask("p3"): ("b", "partial", "1", "RED"),
    }


def test_own_words_and_phones_are_there_if_asked_for(tmp_path: Path) -> None:
    """With --include-pii phones and what people wrote stand in the file, and still don't run."""
    header, first, second = read_csv(export(tmp_path, ROWS, ASK, has_phones=True, has_words=True))
    assert header[:2] == ["participant", "participant_phone_number"]
    assert (first[1], first[header.index("age.value")]) == ("'+14155550101", "-7.5")
    assert (second[1], second[header.index("why.words")]) == ("'+14155550102", "'=HYPERLINK(1)")


@pytest.mark.slow
def test_words_are_masked_unless_phones_are_shown(tmp_path: Path) -> None:
    """With --comments words stand in the files without what tells who people are; of strangers they stay away."""
    rows = [
        make_row("p1", "why", "Ada, ada@x.example, 415 555 0101", guid="1"),
        make_row("p1", "colour", "pink, says Ada", "pink", guid="2"),
        make_row("gone", "why", "I am Bo", "I am Bo", guid="3"),
        make_row("gone", "stray", "I am Bo", "I am Bo", guid="4"),
        make_row("p1", "stray", "Ada", "Ada", guid="5"),
    ]
    members = [make_member("p1", cells="Ada Lovelace\x1fOakland")]
    found = read_rows(export(tmp_path, rows, ASK, members=members, has_words=True))
    assert found[P1]["why.words"] == "[name], [e-mail], [phone]"
    assert found[P1]["colour.words"] == "pink, says [name]"
    assert found[mask("gone")]["why.words"] == ""
    long = read_csv(export(tmp_path, rows, ASK, members=members, has_words=True, name="answers-long.csv"))
    assert {row[long[0].index("words")] for row in long[1:]} == {
        "[name], [e-mail], [phone]", "pink, says [name]", ""}  # fmt: skip
    results = export(tmp_path, rows, ASK, members=members, has_words=True, name="results.csv")
    assert [row[-4] for row in read_csv(results)[1:]] == [
        "[name], [e-mail], [phone]", "pink, says [name]", "", "", "[name]"]  # fmt: skip
    plain = export(tmp_path, rows, ASK, members=members, name="results.csv").read_text(encoding="utf-8")
    assert not any(
        word in f"{plain}{results.read_text(encoding='utf-8')}" for word in ("Ada", "Bo", "x.example")
    )


def test_comments_are_the_newest_words_beside_the_score(tmp_path: Path) -> None:
    """The newest first, of each person the latest answer to a question; those of strangers are counted alone."""
    outline = MessageOutline("ask", "tag", (NPS, WHY))
    rows = [
        make_row("p1", "nps", "9", "10", guid="1"),
        make_row("p1", "why", "Before", guid="2", created="2026-11-20T10:00:00"),
        make_row("p1", "why", " Ada was great ", guid="3", created="2026-11-20T10:05:00"),
        make_row("p2", "why", "Slow", guid="4", created="2026-11-20T10:07:00"),
        make_row("p2", "nps", "depends", "-", guid="5", created="2026-11-20T10:02:00"),
        make_row("gone", "why", "I am Bo", guid="6"),
        make_row("p2", "why", "  ", guid="7", message="again"),
    ]
    members = [make_member("p1", cells="Ada"), make_member("p2")]
    with exporting(tmp_path, rows, outline, members=members) as (engine, whole, _):
        found = gather_comments(engine, whole)
    assert (found.total, found.left_out) == (3, 1)
    assert [(one.question, one.words, one.score) for one in found.newest] == [
        ("why", "Slow", None),
        ("why", "[name] was great", 9),
        ("nps", "depends", None),
    ]
    assert found.newest[0].answered_at == datetime(2026, 11, 20, 10, 7, tzinfo=UTC)
    with exporting(tmp_path / "none", rows[:1], outline, members=members) as (engine, whole, _):
        nothing = gather_comments(engine, whole)
    assert (nothing.newest, nothing.total, nothing.left_out) == ((), 0, 0)


def test_callbacks_are_people_with_low_scores_who_may_be_called(tmp_path: Path) -> None:
    """The lowest first, with phone and words; who opted out, or has left the audience, is not there."""
    outline = MessageOutline("ask", "tag", (WHY, NPS))
    people = {"p0": "0", "p1": "6", "p2": "7", "out": "3", "gone": "2", "p3": "0"}
    rows = [make_row(name, "nps", said, str(int(said) + 1), guid=name) for name, said in people.items()]
    rows.append(make_row("p1", "why", "Slow", guid="w"))
    members = [
        make_member(name, f"+1{name}", may_call="" if name == "out" else "1")
        for name in people
        if name != "gone"
    ]
    with exporting(
        tmp_path,
        rows,
        outline,
        members=members,
        low=LowScores(1, "<= 6"),
        has_phones=True,
        has_words=True,
    ) as made:
        made[2].write("callbacks.csv", tmp_path / "calls.csv")
        header, *found = read_csv(tmp_path / "calls.csv")
    assert header == ["participant", "participant_phone_number", "nps.value", "nps.code", "nps.label", "nps.words",
                      "nps.answered_at", "why.words"]  # fmt: skip
    assert [(row[1], row[2], row[-1]) for row in found[:2]] == [
        (f"'+1{name}", "0", "") for name in sorted(("p0", "p3"), key=mask)]  # fmt: skip
    assert [(row[1], row[2], row[-1]) for row in found[2:]] == [("'+1p1", "6", "Slow")]


@pytest.mark.parametrize("name", ["answers", "results"])
def test_a_data_frame_has_phones_and_times_as_they_are(tmp_path: Path, name: str) -> None:
    """Data frames take no phone for a number, and one way to read times is right for all."""
    rows = [*ROWS, make_row("p1", "why", "so", guid="5", created="2026-11-20T12:00:00.5+02:00")]
    frame = pd.read_csv(export(tmp_path, rows, ASK, name=f"{name}.csv", has_phones=True))
    assert set(frame["participant_phone_number"]) == {"'+14155550101", "'+14155550102"}
    column = "first_answered_at" if name == "answers" else "created"
    times = pd.to_datetime(frame[column])
    typed = pd.read_parquet(export(tmp_path, rows, ASK, name=f"{name}.parquet", has_phones=True))
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
        ["ask", "", P1, "age", "How old?", "1", "-7.50", "", f"{DAY}T10:01:00.000000Z", "4", "-7.5"],
        ["ask", "", P2, "colour", "Which colour?", "1", "2", "'=Blue", f"{DAY}T10:05:00.000000Z", "2", ""],
        ["ask", "", P2, "why", "Why?", "1", "", "", f"{DAY}T10:06:00.000000Z", "3", ""],
    ]  # fmt: skip


def test_parquet_has_types(tmp_path: Path) -> None:
    """Numbers are numbers, times are times, and texts stay as they are; what was not answered is missing."""
    values: tuple[ResponseValue, ...] = (Fraction(3), Fraction(1), "none")
    mood = QuestionOutline("mood", "How?", ("Good", "Bad", "Don't know"), "csat", values=values)
    rows = [
        make_row("p1", "mood", "Good", "1", guid="1"),
        make_row("p2", "mood", "Don't know", "3", guid="2"),
        make_row("p1", "nps", "10", "11", guid="3"),
        make_row("p2", "nps", "12", "12", guid="4"),
        make_row("p1", "age", "41", guid="5"),
    ]
    file = export(
        tmp_path, rows, MessageOutline("ask", "tag", (mood, NPS, AGE, COLOUR)), name="answers.parquet"
    )
    types = {field.name: str(field.type) for field in parquet.read_schema(file)}
    assert {
        name: types[name] for name in ("sent", "first_answered_at", "mood.value", "mood.code", "age.value")
    } == {
        "sent": "bool",
        "first_answered_at": "timestamp[us, tz=UTC]",
        "mood.value": "int64",
        "mood.code": "int64",
        "age.value": "double",
    }
    names = ("mood.value", "mood.code", "mood.label", "nps.value", "nps.code", "nps.label", "age.value")
    found = {row["participant"]: tuple(row[name] for name in names) for row in read_parquet(file)}
    assert found == {
        P1: (3, 1, "Good", 10, 11, "10", 41.0),
        P2: (None, 3, "Don't know", None, None, "12", None),
    }


def test_a_question_of_several_messages_is_one_and_each_answer_stands_in_the_long_file(
    tmp_path: Path,
) -> None:
    """A person's latest answer over all messages counts; the long file has each, and who answered nothing."""
    rows = [
        *ROWS,
        make_row("p2", "why", "sooner", message="again", guid="5", created="2026-11-20T09:00:00"),
        make_row("p1", "why", "so", message="again", guid="6", created="2026-11-20T12:00:00"),
    ]
    contacts = [
        make_contact("p1"),
        make_contact("p2"),
        make_contact("p1", message="again"),
        make_contact("p0"),
    ]
    export_to: dict[str, Any] = {"contacts": contacts, "has_words": True, "has_phones": True}
    found = read_rows(export(tmp_path, rows, ASK, TEXT, AGAIN, **export_to))
    assert (found[P1]["why.words"], found[P2]["why.words"]) == ("so", "'=HYPERLINK(1)")
    header, *long = read_csv(export(tmp_path, rows, ASK, TEXT, AGAIN, name="answers-long.csv", **export_to))
    assert header == ["participant", "participant_phone_number", "message", "arm", "sent", "sent_at", "question",
                      "value", "code", "label", "words", "answered_at"]  # fmt: skip
    assert sorted((row[0], row[2], row[4], *row[6:11]) for row in long) == sorted([
        (P0, "ask", "true", "", "", "", "", ""),
        (P1, "ask", "true", "age", "-7.5", "", "", ""),
        (P2, "ask", "true", "colour", "", "2", "'=Blue", ""),
        (P2, "ask", "true", "why", "", "", "", "'=HYPERLINK(1)"),
        (P1, "again", "true", "why", "", "", "", "so"),
        (P2, "again", "false", "why", "", "", "", "sooner"),
    ])  # fmt: skip


def test_the_codebook_says_what_each_column_holds(tmp_path: Path) -> None:
    """Every column of the file, in its order, with the codes, labels and values of responses."""
    outline = MessageOutline("ask", "tag", (COLOUR, NPS, WHY))
    with exporting(tmp_path, ROWS, outline, title="Our *pulse*", has_words=True) as (_, _, answers):
        answers.write("answers.csv", tmp_path / "answers.csv")
        answers.write("codebook.json", tmp_path / "book.json")
        answers.write("codebook.md", tmp_path / "book.md")
    header, *rows = read_csv(tmp_path / "answers.csv")
    document = json.loads((tmp_path / "book.json").read_text(encoding="utf-8"))
    load_validator("codebook").validate(document)
    assert [one["name"] for one in document["columns"]] == header
    assert document["people"] == len(rows)
    columns = {one["name"]: one for one in document["columns"]}
    assert columns["colour.code"]["responses"] == [
        {"code": 1, "label": "Red", "value": None}, {"code": 2, "label": "=Blue", "value": None}]  # fmt: skip
    assert columns["nps.value"]["kind"] == "integer"
    assert (columns["why.words"]["scale"], columns["why.words"]["responses"]) == ("text", [])
    shown = (tmp_path / "book.md").read_text(encoding="utf-8")
    assert shown.startswith("# Our \\*pulse\\*: codebook\n")
    assert "| 11 | 10 | 10 |" in shown


def test_spss_has_labels_and_marks_what_is_missing(tmp_path: Path) -> None:
    """Variables and values have labels; no answer, other words and people who got nothing are told apart."""
    pyreadstat = pytest.importorskip("pyreadstat")
    outline = MessageOutline("ask", "tag", (COLOUR, QuestionOutline("by", "By?", ("Yes", "No")), WHY))
    contacts = [make_contact("p2"), make_contact("p1"), make_contact("p0", "QUEUED")]
    rows = [*ROWS, make_row("p1", "colour", "neither", "-", guid="9")]
    file = export(
        tmp_path, rows, outline, contacts=contacts, has_words=True, has_phones=True, name="answers.sav"
    )
    frame, about = pyreadstat.read_sav(file, user_missing=True)
    found = dict(zip(frame["participant"], frame["colour.code"], strict=True))
    assert found == {P2: 2, P1: -2, P0: -3}
    assert set(frame["by.code"]) == {-1, -3}
    assert about.variable_value_labels["colour.code"] == {
        1: "Red", 2: "=Blue", -1: "No answer", -2: "Answered in other words", -3: "Not texted"}  # fmt: skip
    assert about.column_names_to_labels["why.words"] == "Why? (open-ended)"
    assert about.column_names_to_labels["state"] == "what became of the texts"
    assert about.variable_value_labels["answered"] == {0: "No", 1: "Yes"}
    assert [one["lo"] for one in about.missing_ranges["colour.code"]] == [-1, -2, -3]


def test_tags_that_the_engine_takes_for_one_stay_two(tmp_path: Path) -> None:
    """Tags that differ in case alone, or are called as another column is, have columns of their own."""
    tags = ("Why", "why", 'a "quoted.tag"', "=cmd()")
    outline = MessageOutline("ask", "tag", tuple(QuestionOutline(tag, "?", ("Yes",)) for tag in tags))
    rows = [make_row("p", tag, "Yes", str(number), guid=str(number)) for number, tag in enumerate(tags)]
    named = ["Why.label", "why.label (2)", 'a "quoted.tag".label']
    header, row = read_csv(export(tmp_path, rows, outline))
    assert [one for one in header if ".label" in one] == [*named, "'=cmd().label"]
    assert row.count("Yes") == len(tags)
    assert {*named, "=cmd().label"} <= read_parquet(export(tmp_path, rows, outline, name="answers.parquet"))[
        0
    ].keys()


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
    rows = [make_row("p", "why", text, text)]
    header, row = read_csv(export(tmp_path, rows, ASK, has_phones=True, has_words=True))
    assert row[header.index("why.words")] == cell


@pytest.mark.parametrize("name", ["answers.csv", "answers-long.csv", "results.csv", "answers.parquet"])
def test_files_are_the_same_each_time(tmp_path: Path, name: str) -> None:
    """The same results in another order give the same file, byte for byte."""
    rows = [
        make_row(f"p{number % 400:03}", "why", "x" * (number % 7), "x", guid=str(number))
        for number in range(3000)
    ]
    first = export(tmp_path / "1", rows, ASK, name=name, has_phones=True, has_words=True).read_bytes()
    assert (
        export(tmp_path / "2", rows[::-1], ASK, name=name, has_phones=True, has_words=True).read_bytes()
        == first
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["answers.csv", "answers.parquet", "answers-long.csv", "results.csv"])
@pytest.mark.parametrize("outlines", [(), (TEXT,), (ASK,), (ASK, AGAIN)])
def test_without_answers_there_are_columns_alone(
    tmp_path: Path, name: str, outlines: tuple[MessageOutline, ...]
) -> None:
    """A campaign that nobody answered, or that asks nothing, has a file all the same."""
    file = export(tmp_path, (), *outlines, name=name)
    header = read_csv(file)[0] if name.endswith("csv") else parquet.read_schema(file).names
    assert header[0] == ("message" if name.startswith("results") else "participant")
