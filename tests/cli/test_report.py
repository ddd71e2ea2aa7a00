"""`runner report`: what it can be asked for, what it refuses, and that it is a function of the ledger."""

from __future__ import annotations

import csv
import json
import os
import re
import runpy
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from runner.ledger.database import Ledger
from runner.report.columns.dataset import ResultColumns
from tests.cli.inside import run_inside as run
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]
SURVEY = """\
version: 1
name: pulse
tag: pulse-2026
export_columns: [Plan, CITY]
recipients:
  - phone: "+14155550101"
    vars: {first_name: Ada, plan: gold}
  - csv: audience/people.csv
    phone_column: mobile
    region: US
messages:
  - id: ask
    questions:
      - {tag: nps, text: "0 to 10, {{ first_name }}?", scale: nps,
         responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]}
      - {tag: Reason, text: "Why?"}
      - {tag: reason, text: "Why else?"}
"""
OTHER = """\
version: 1
name: other
tag: other-2026
recipients: [{phone: "+14155550199"}]
messages: [{id: notice, text: "Hello"}]
"""
PEOPLE = 24
FORMATS = ("md", "html", "json", "csv", "answers.csv", "answers.parquet", "answers-long.csv", "answers-long.parquet",
           "results.csv", "results.parquet", "codebook.json", "codebook.md")  # fmt: skip
ALL = [word for name in FORMATS for word in ("--format", name)]
PERSON = (
    "language,arm,control_group,sent,sent_at,texted,state,session,disposition,answered,opted_out,first_answered_at,nps.value,nps.code,nps.label,"
    "nps.words,nps.answered_at,Reason.words,Reason.answered_at,reason.words (2),reason.answered_at (2),plan,city"
)


@pytest.fixture(autouse=True)
def state_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state key: with it files of answers have the same pseudonyms each time."""
    monkeypatch.setenv("RUNNER_STATE_KEY", STATE_KEY)


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a campaign was sent to 25 people, who have answered; tests copy it."""
    folder = tmp_path_factory.mktemp("sent")
    (folder / "campaigns/audience").mkdir(parents=True)
    (folder / "campaigns/pulse.yaml").write_text(SURVEY, encoding="utf-8")
    rows = [
        f"Bob,{'Lyon' if n < 11 else 'Paris' if n < 22 else 'Nice'},{4155550200 + n}" for n in range(PEOPLE)
    ]
    text = "\n".join(["first_name,city,mobile", *rows, ""])
    (folder / "campaigns/audience/people.csv").write_text(text, encoding="utf-8")
    for command in (
        ("apply", "--auto-approve"),
        ("sandbox", "simulate", "--response-rate", "1"),
        ("reconcile",),
    ):
        done = run(*command, cwd=folder, env={"RUNNER_STATE_KEY": STATE_KEY})
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def folder(sent: Path, tmp_path: Path) -> Path:
    """A copy of the prepared folder."""
    return shutil.copytree(sent, tmp_path / "work")


def report_json(folder: Path, *options: str) -> dict[str, Any]:
    done = run("report", "--format", "json", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def read_files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def find_copy(folder: Path) -> Path:
    (copy,) = (folder / ".runner/results").iterdir()
    return copy


@pytest.mark.slow
def test_columns_break_the_turnout_down(folder: Path) -> None:
    """Columns of files and variables of recipients alike, each in turn; small groups are left out."""
    city, plan = report_json(folder, "--by", "city", "--by", "plan", "--by", "city")["groups"]
    assert (city["column"], plan["column"]) == ("city", "plan")
    assert [(group["name"], group["texted"]) for group in city["groups"]] == [("Paris", 11)]
    assert (city["suppressed"], city["suppressed_texted"]) == (3, 14)
    assert (plan["groups"], plan["suppressed"]) == ([], 2)
    assert (city["everybody"]["texted"], city["everybody"]["name"]) == (25, "")


def test_smaller_groups_are_shown_if_asked_for(folder: Path) -> None:
    """--min-group says how small a group may be."""
    (column,) = report_json(folder, "--by", "city", "--min-group", "2")["groups"]
    assert {group["name"]: group["texted"] for group in column["groups"]} == {"Lyon": 11, "Paris": 11}


@pytest.mark.parametrize(
    ("column", "hint"),
    [("citty", "did you mean city?"), ("x", "its columns: city, first_name, plan")],
)
def test_a_column_that_is_none_is_refused(sent: Path, column: str, hint: str) -> None:
    """A name that no source of the audience has is told, with the one that was meant, or with all."""
    done = run("report", "--by", column, cwd=sent)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr == f"Error: --by {column}: the audience of pulse has no such column\n  {hint}\n"


def test_sources_may_write_a_column_each_in_its_way(folder: Path) -> None:
    """A variable in the campaign file and a column of another case are one column."""
    survey = folder / "campaigns/pulse.yaml"
    survey.write_text(survey.read_text(encoding="utf-8").replace("plan: gold", "plan: gold, City: Lyon"))
    (column,) = report_json(folder, "--by", "city", "--min-group", "1")["groups"]
    assert column["column"] == "City"
    assert {one["name"]: one["texted"] for one in column["groups"]} == {"Lyon": 12, "Nice": 2, "Paris": 11}


def test_a_column_that_no_campaign_has_is_told_before_anything_is_written(folder: Path) -> None:
    """Nothing is reconciled, and no report written, when no campaign has such a column."""
    done = run("report", "--reconcile", *ALL, "--by", "town", "--out", "out", cwd=folder)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("Error: --by town: the audience of pulse has no such column\n")
    assert not (folder / "out").exists()


def test_a_campaign_without_a_column_is_left_out_and_the_others_are_written(folder: Path) -> None:
    """Of several campaigns those that have the column get their reports; the others are told, with exit code 3."""
    (folder / "campaigns/other.yaml").write_text(OTHER, encoding="utf-8")
    done = run("report", "--format", "json", "--by", "city", "--out", "out", cwd=folder)
    assert done.returncode == 3
    assert "--by city: the audience of other has no such column" in done.stderr
    assert list(read_files(folder / "out")) == ["pulse.json"]


def test_a_report_needs_no_audience(folder: Path) -> None:
    """Privacy rules delete files of people: a report is as before, and says what cannot be made without them."""
    before = report_json(folder)
    (folder / "campaigns/audience/others.csv").write_text("mobile\n", encoding="utf-8")
    (folder / "campaigns/audience/people.csv").unlink()
    done = run("report", "--format", "json", cwd=folder)
    assert (done.returncode, json.loads(done.stdout)) == (0, before)
    assert "warning: there is no file audience/people.csv [csv-not-found]" in done.stderr
    assert "others.csv" not in done.stderr
    missing = "needs the audience of pulse, and there is no file campaigns/audience/people.csv"
    for options, what in (
        (["--by", "city"], "--by city"),
        (["--format", "answers.csv", "--out", "out"], "`export_columns`"),
    ):
        refused = run("report", *options, cwd=folder)
        assert refused.returncode in (1, 64)
        assert f"Error: {what} {missing}" in refused.stderr
    refused = run("report", "--comments", cwd=folder)
    assert (refused.returncode, refused.stdout) == (1, "")


@pytest.mark.slow
def test_groups_say_that_they_are_not_known(folder: Path) -> None:
    """As long as some answers are unread, a column that was asked for has a sentence, and no empty list alone."""
    with closing(sqlite3.connect(folder / ".runner/ledger.sqlite")) as connection, connection:
        connection.execute("UPDATE launch_stats SET reconciled_at = NULL")
    assert (
        "By city: not known until all answers have been read."
        in run("report", "--by", "city", cwd=folder).stdout
    )
    found = report_json(folder, "--by", "city")
    assert (found["groups"], found["unknown_groups"]) == ([], ["city"])
    run("report", "--format", "answers.csv", "--out", "out", cwd=folder)
    with (folder / "out/pulse.answers.csv").open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert {(one["sent"], one["answered"], one["opted_out"]) for one in rows} == {("true", "true", "")}


@pytest.mark.parametrize("column", ["mobile", "Mobile"])
def test_nothing_is_broken_down_by_phone(sent: Path, column: str) -> None:
    """No report shows a phone number, however small a group may be."""
    done = run("report", "--by", column, "--min-group", "1", cwd=sent)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr == (
        f"Error: --by {column}: that column has phone numbers, which no report shows\n"
        "  break down by what people have in common\n"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ("--include-pii", "--format", "md"),
            (
                "Error: --include-pii has no effect here: reports have no phone numbers\n"
                "  it is for files of answers: add --format with one of answers.csv, answers.parquet, answers.sav, "
                "answers-long.csv, answers-long.parquet, results.csv, results.parquet, callbacks.csv, codebook.json, "
                "codebook.md\n"
            ),
        ),
        (
            ("--format", "callbacks.csv", "--out", "out"),
            (
                "Error: --format callbacks.csv has phone numbers\n"
                "  add --include-pii, and keep the file where phone numbers may be\n"
            ),
        ),
        (
            ("--format", "results.csv"),
            "Error: --format results.csv writes a file for each campaign\n  name a folder with --out DIR\n",
        ),
        (
            ("--format", "md", "--format", "json"),
            "Error: standard output takes one document\n  name a folder with --out DIR\n",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(sent: Path, options: tuple[str, ...], text: str) -> None:
    """Options that change nothing, or have nowhere to write to, are refused before anything is done."""
    done = run("report", *options, cwd=sent)
    assert (done.returncode, done.stdout, done.stderr) == (64, "", text)


@pytest.mark.slow
def test_several_campaigns_have_an_index(folder: Path) -> None:
    """Of more than one campaign in HTML there is a page that leads to each; of one there is none."""
    assert run("report", "--format", "html", "--out", "one", cwd=folder).returncode == 0
    (folder / "campaigns/other.yaml").write_text(OTHER, encoding="utf-8")
    done = run("report", "--format", "html", "--format", "answers.csv", "--out", "two", cwd=folder)
    assert done.returncode == 0
    assert sorted(read_files(folder / "one")) == ["pulse.html"]
    assert sorted(read_files(folder / "two")) == [
        "index.html",
        "other.answers.csv",
        "other.html",
        "pulse.answers.csv",
        "pulse.html",
    ]
    index = (folder / "two/index.html").read_text(encoding="utf-8")
    assert 'href="pulse.html"' in index
    assert 'href="other.html"' in index


def test_a_campaign_that_was_never_sent_has_files_without_rows(folder: Path) -> None:
    """Every file that is said to be written is there, also before there is a ledger."""
    shutil.rmtree(folder / ".runner")
    (folder / "campaigns/pulse.sandbox.lock.json").unlink()
    calls = ("--format", "callbacks.csv", "--include-pii")
    done = run("report", *ALL, *calls, "--out", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert sorted(read_files(folder / "out")) == sorted(
        f"pulse.{name}" for name in (*FORMATS, "callbacks.csv")
    )
    assert all((folder / line.removeprefix("Wrote ")).is_file() for line in done.stderr.splitlines())
    (header,) = (folder / "out/pulse.answers.csv").read_text(encoding="utf-8-sig").splitlines()
    assert header == f"participant,participant_phone_number,{PERSON}"


@pytest.mark.slow
def test_a_report_is_the_same_however_it_is_counted(folder: Path) -> None:
    """Again, from a copy that was made anew, and from one that was brought up to date: byte for byte the same."""
    (folder / ".runner").rename(folder / "kept")
    shutil.copytree(folder / "kept", folder / ".runner")
    assert run("report", *ALL, "--by", "city", "--out", "1", cwd=folder).returncode == 0
    assert run("report", *ALL, "--by", "city", "--out", "2", cwd=folder).returncode == 0
    shutil.rmtree(folder / ".runner/results")
    assert run("report", *ALL, "--by", "city", "--out", "3", cwd=folder).returncode == 0
    with Ledger(f"sqlite:///{folder / '.runner/ledger.sqlite'}") as ledger, ledger.writing() as connection:
        # The copy is made before half of the results have come in, and brought up to date after it.
        connection.exec_driver_sql("CREATE TABLE half AS SELECT * FROM results WHERE rowid % 2")
        connection.exec_driver_sql("DELETE FROM results WHERE rowid % 2")
    shutil.rmtree(folder / ".runner/results")
    assert run("report", "--quiet", cwd=folder).returncode == 0
    with Ledger(f"sqlite:///{folder / '.runner/ledger.sqlite'}") as ledger, ledger.writing() as connection:
        connection.exec_driver_sql("UPDATE half SET revision = 99")
        connection.exec_driver_sql("INSERT INTO results SELECT * FROM half")
        connection.exec_driver_sql("INSERT INTO result_revisions VALUES (99, 'mark')")
    assert run("report", *ALL, "--by", "city", "--out", "4", cwd=folder).returncode == 0
    first = read_files(folder / "1")
    assert [read_files(folder / name) for name in "234"] == [first, first, first]
    assert b"41555502" not in b"".join(first.values())


def test_phones_and_own_words_are_there_if_asked_for(folder: Path) -> None:
    """With --include-pii each participant's row has their phone, and what they wrote."""
    done = run("report", "--format", "answers.csv", "--include-pii", "--out", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    with (folder / "out/pulse.answers.csv").open(encoding="utf-8-sig", newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header == ["participant", "participant_phone_number", *PERSON.split(",")]
    found = [dict(zip(header, row, strict=True)) for row in rows]
    phone = "participant_phone_number"
    assert {row[phone] for row in found} == {
        "'+14155550101", *(f"'+1{4155550200 + n}" for n in range(PEOPLE))}  # fmt: skip
    assert any(row["Reason.words"] for row in found)
    assert {(row[phone], row["plan"], row["city"]) for row in found} >= {
        ("'+14155550101", "gold", ""),
        ("'+14155550200", "", "Lyon"),
    }
    assert list(rows) == sorted(rows)


def answer_in_words(folder: Path, words: str) -> None:
    """Have everybody answer one question with these words, as if the service had sent them."""
    with Ledger(f"sqlite:///{folder / '.runner/ledger.sqlite'}") as ledger, ledger.writing() as connection:
        statement = "UPDATE results SET result_response = ?, revision = 99 WHERE question_tag = 'reason'"
        connection.exec_driver_sql(statement, (words,))
        connection.exec_driver_sql("INSERT INTO result_revisions VALUES (99, 'mark')")


@pytest.mark.slow
def test_comments_stand_in_reports_and_files_without_what_tells_who_people_are(folder: Path) -> None:
    """With --comments, or as the campaign says, words are quoted, with addresses, phones and names masked."""
    answer_in_words(folder, "Bob: bob@x.example, (415) 555-0200, since 2026-11-26")
    assert report_json(folder)["comments"] is None
    shown = report_json(folder, "--comments")["comments"]
    masked = "[name]: [e-mail], [phone], since 2026-11-26"
    mine = [one for one in shown["newest"] if one["question"] == "reason"]
    # Ada is no Bob.
    assert [one["words"] == masked for one in mine].count(False) <= 1
    assert all(one["score"] in range(11) for one in mine)
    assert len(mine) > 1
    assert shown["total"] == len(shown["newest"])
    survey = folder / "campaigns/pulse.yaml"
    survey.write_text(survey.read_text(encoding="utf-8") + "report: {comments: true}\n", encoding="utf-8")
    assert report_json(folder)["comments"] == shown
    done = run("report", "--format", "answers.csv", "--format", "html", "--out", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    written = [(folder / f"out/pulse.{name}").read_text(encoding="utf-8") for name in ("answers.csv", "html")]
    assert all(masked in text for text in written)
    # A question that has only words to show stands with them.
    assert written[1].count("Why else?</bdi>") == 1
    assert "The other questions" not in written[1]


def test_a_campaign_with_comments_has_a_report_without_its_audience(folder: Path) -> None:
    """Where nobody's name can be read, no words are shown, and the report says why; who asks for them is told."""
    answer_in_words(folder, "Bob was here")
    survey = folder / "campaigns/pulse.yaml"
    survey.write_text(survey.read_text(encoding="utf-8") + "report: {comments: true}\n", encoding="utf-8")
    audience = folder / "campaigns/audience/people.csv"
    audience.write_text(audience.read_text(encoding="utf-8") + "Eve,Lyon,no number\n", encoding="utf-8")
    shown = report_json(folder)["comments"]
    assert shown["newest"] == []
    assert shown["total"] > 1
    assert shown["problem"] == "the audience of pulse cannot be read as a whole"
    assert f"{shown['total']} comments cannot be masked" in run("report", cwd=folder).stdout
    refused = run("report", "--comments", cwd=folder)
    assert refused.returncode == 1
    assert "the audience of pulse cannot be read as a whole" in refused.stderr


@pytest.mark.slow
def test_names_that_the_audience_has_lost_are_not_shown_unawares(folder: Path) -> None:
    """With other names the page and the command say so; without a column that texts used no words are shown."""
    answer_in_words(folder, "Bob was here")
    survey = folder / "campaigns/pulse.yaml"
    survey.write_text(survey.read_text(encoding="utf-8") + "report: {comments: true}\n", encoding="utf-8")
    audience = folder / "campaigns/audience/people.csv"
    sent = audience.read_text(encoding="utf-8")
    assert report_json(folder)["comments"]["is_audience_changed"] is False
    audience.write_text(sent.replace("Bob", "Rob"), encoding="utf-8")
    done = run("report", cwd=folder)
    assert "names that are no longer on it are not masked" in done.stdout
    assert "pulse: the audience has changed since it was sent to" in done.stderr
    audience.write_text(re.sub("first.name", "size", sent, count=1, flags=re.IGNORECASE), encoding="utf-8")
    shown = report_json(folder)["comments"]
    assert shown["newest"] == []
    assert shown["problem"].endswith("lacks columns that it had when it was sent to: firstname")


def test_comments_stay_out_of_summaries_of_jobs(folder: Path) -> None:
    """What people wrote stands in the document, and not where everybody who sees the repository may read it."""
    answer_in_words(folder, "It was slow")
    summary = folder / "summary.md"
    done = run(
        "report", "--comments", "--format", "github", cwd=folder, env={"GITHUB_STEP_SUMMARY": str(summary)}
    )
    assert "It was slow" in done.stdout
    assert "It was slow" not in summary.read_text(encoding="utf-8")


def test_people_with_low_scores_can_be_called_back(folder: Path) -> None:
    """A file of the people below 7 who have not opted out, with their phones, the lowest first."""
    everybody = run("report", "--format", "callbacks.csv", "--include-pii", "--out", "1", cwd=folder)
    assert everybody.returncode == 0, everybody.stderr
    with (folder / "1/pulse.callbacks.csv").open(encoding="utf-8-sig", newline="") as stream:
        low = list(csv.DictReader(stream))
    assert low
    scores = [int(one["nps.value"]) for one in low]
    assert scores == sorted(scores)
    assert scores[-1] <= 6
    phone = low[0]["participant_phone_number"].removeprefix("'")
    assert run("optouts", "add", phone, cwd=folder).returncode == 0
    assert (
        run("report", "--format", "callbacks.csv", "--include-pii", "--out", "2", cwd=folder).returncode == 0
    )
    with (folder / "2/pulse.callbacks.csv").open(encoding="utf-8-sig", newline="") as stream:
        assert list(csv.DictReader(stream)) == low[1:]


def test_what_is_low_must_be_known(folder: Path) -> None:
    """A campaign without a score, or with a number that has no low end, has no callbacks."""
    survey = folder / "campaigns/pulse.yaml"
    text = survey.read_text(encoding="utf-8")
    scale = 'scale: nps,\n         responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]'
    for other, words, hint in (
        (
            "scale: text",
            "pulse has no score, so nobody has a low one",
            "name the question that has it: `score: ",
        ),
        (
            "scale: number",
            "pulse does not say which answers to `nps` are low",
            "say what is not: `score: {question: nps,",
        ),
    ):
        survey.write_text(text.replace(scale, other), encoding="utf-8")
        done = run("report", "--format", "callbacks.csv", "--include-pii", "--out", "out", cwd=folder)
        assert (done.returncode, done.stdout) == (1, "")
        assert words in done.stderr
        assert hint in done.stderr


def test_files_for_spss_need_their_packages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are not installed, it says which extra to install."""
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    done = run("report", "--format", "answers.sav", "--out", "out", cwd=folder)
    assert done.returncode == 1
    assert done.stderr.endswith(
        "files for SPSS need pyreadstat, which is not installed\n  install the extra `spss`\n"
    )


SCRIPTS = REPOSITORY / "docs/how-to/analysis.md"


def test_scripts_recompute_the_first_row_of_the_page(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The five lines of the docs, for pandas and DuckDB, find the report's people, answers, response and score."""
    options = [word for name in ("json", "answers.parquet", "answers.csv") for word in ("--format", name)]
    assert run("report", *options, "--out", "reports", cwd=folder).returncode == 0
    report = json.loads((folder / "reports/pulse.json").read_text(encoding="utf-8"))
    people = report["people"]
    expected = [people["texted"], people["answered"], people["response_rate"]]
    monkeypatch.chdir(folder)
    scripts = {
        name: text.replace("visit.", "pulse.").replace("csat.value", "nps.value").replace(">= 4", ">= 9")
        for name, text in re.findall(
            r'^```\w+ title="(first_row[^"]+)"\n(.*?)^```', SCRIPTS.read_text(), re.MULTILINE | re.DOTALL
        )
    }
    assert set(scripts) == {"first_row.py", "first_row.sql", "first_row.R"}
    promoters = sum(
        one["count"]
        for question in report["questions"]
        for one in question["question"]["distribution"]
        if one["label"] in ("9", "10")
    )
    expected.append(promoters / report["score"]["counted"])
    (folder / "first_row.py").write_text(scripts["first_row.py"], encoding="utf-8")
    runpy.run_path("first_row.py")
    assert [float(line) for line in capsys.readouterr().out.split()] == pytest.approx(expected)
    assert duckdb.execute(scripts["first_row.sql"]).fetchone() == pytest.approx(tuple(expected))
    rscript = shutil.which("Rscript")
    if rscript is not None:
        (folder / "first_row.R").write_text(scripts["first_row.R"], encoding="utf-8")
        done = subprocess.run([rscript, "first_row.R"], check=True, capture_output=True, text=True)
        assert [float(line) for line in done.stdout.split()] == pytest.approx(expected)


def test_scripts_leave_out_people_of_whom_a_text_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A blank `texted` is neither yes nor no: the docs' scripts count one of three people, who answered 5."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports").mkdir()
    duckdb.execute("""COPY (FROM (VALUES (true, true, 5.0), (NULL, false, NULL), (false, false, NULL))
        people(texted, answered, "csat.value")) TO 'reports/visit.answers.parquet'""")
    blocks = re.findall(
        r'title="first_row.(py|sql)"\n(.*?)^```', SCRIPTS.read_text(), re.MULTILINE | re.DOTALL
    )
    scripts = dict(blocks)
    (tmp_path / "first_row.py").write_text(scripts["py"], encoding="utf-8")
    runpy.run_path("first_row.py")
    assert [float(line) for line in capsys.readouterr().out.split()] == [1, 1, 1, 1]
    assert duckdb.execute(scripts["sql"]).fetchone() == (1, 1, 1, 1)


def test_dispositions_can_be_recomputed_from_the_file(folder: Path) -> None:
    """Counted in the file, each final disposition and the opt-outs are the report's."""
    options = [word for name in ("json", "answers.csv") for word in ("--format", name)]
    assert run("report", *options, "--out", "out", cwd=folder).returncode == 0
    people = json.loads((folder / "out/pulse.json").read_text(encoding="utf-8"))["people"]
    with (folder / "out/pulse.answers.csv").open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    counted = Counter(row["disposition"] for row in rows)
    assert {name: counted[name] for name in people["dispositions"]} == people["dispositions"]
    assert sum(row["opted_out"] == "true" for row in rows) == people["opted_out"]


def read_people(folder: Path) -> tuple[set[str], ...]:
    """Return the participants in both kinds of files, as a new export names them, and in the lockfile."""
    formats = ("answers.csv", "results.csv")
    out = folder / f"out-{len(list(folder.iterdir()))}"
    options = [word for name in formats for word in ("--format", name)]
    done = run("report", *options, "--out", out.name, cwd=folder)
    assert done.returncode == 0, done.stderr
    found = []
    for name in formats:
        with (out / f"pulse.{name}").open(encoding="utf-8-sig", newline="") as stream:
            found.append({row["participant"] for row in csv.DictReader(stream)})
    lockfile = json.loads((folder / "campaigns/pulse.sandbox.lock.json").read_text(encoding="utf-8"))
    return *found, {one for launch in lockfile["launches"] for one in launch["recipients"]}


def test_participants_are_not_told_by_the_lockfile(folder: Path) -> None:
    """Files of answers have pseudonyms of their own, made with the state key: the same in all of them."""
    answers, results, people = read_people(folder)
    assert len(answers) == PEOPLE + 1
    assert answers == results == read_people(folder)[0]
    assert not answers & people


@pytest.mark.slow
def test_without_a_state_key_participants_are_others_each_time(
    tmp_path: Path, sent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that is kept could tell who they are; the files of one export fit together."""
    monkeypatch.delenv("RUNNER_STATE_KEY")
    shutil.copytree(sent / "campaigns", tmp_path / "campaigns")
    for kept in ("pulse.sandbox.lock.json", "sandbox.suppressions.json"):
        (tmp_path / "campaigns" / kept).unlink()
    for command in (
        ("apply", "--auto-approve"),
        ("sandbox", "simulate", "--response-rate", "1"),
        ("reconcile",),
    ):
        assert run(*command, cwd=tmp_path).returncode == 0
    first, second = read_people(tmp_path), read_people(tmp_path)
    assert len(first[0]) == PEOPLE + 1
    assert first[0] == first[1]
    assert second[0] == second[1]
    assert not first[0] & second[0]
    assert not (first[0] | second[0]) & first[2]


def test_files_with_people_in_them_are_their_owners_alone(folder: Path) -> None:
    """Whatever the umask, nobody else reads answers, also where a file that others could read is there."""
    (folder / "out").mkdir()
    (folder / "out/pulse.answers.csv").touch(0o644)
    formats = ("answers.csv", "answers.parquet", "results.csv", "callbacks.csv", "codebook.json")
    umask = os.umask(0o022)
    try:
        options = [word for name in formats for word in ("--format", name)]
        done = run("report", *options, "--include-pii", "--out", "out", cwd=folder)
    finally:
        os.umask(umask)
    assert done.returncode == 0, done.stderr
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (folder / "out").iterdir()}
    assert modes == {f"pulse.{name}": 0o600 for name in formats}


def test_what_only_the_lockfile_knows_is_no_zero(folder: Path) -> None:
    """In a clone without a ledger a report and status know who was texted, and that the rest is not known."""
    (folder / ".runner/ledger.sqlite").unlink()
    report = run("report", cwd=folder)
    assert (report.returncode, report.stderr) == (0, "")
    assert "- **Answered**: not known" in report.stdout
    done = run("status", "--format", "json", cwd=folder)
    (message,) = json.loads(done.stdout)["campaigns"][0]["messages"]
    assert (message["sent"], message["launches"] > 0) == (PEOPLE + 1, True)
    unknown = ("queued", "active", "complete", "answered")
    assert {name: message[name] for name in unknown} == dict.fromkeys(unknown)


@pytest.mark.slow
def test_a_report_waits_for_another(folder: Path) -> None:
    """While another report has the copy in hand, this one waits, and then is as it would have been."""
    expected = run("report", cwd=folder).stdout
    found: list[str] = []
    command = [sys.executable, "-m", "runner", "report"]
    waiting = threading.Thread(
        target=lambda: found.append(
            subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
        )
    )
    with ResultColumns(find_copy(folder)).hold():
        waiting.start()
        waiting.join(1)
        assert found == []
    waiting.join(100)
    assert found == [expected]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    yield disk
    # What a command has left open is closed at some time later.
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.parametrize("what", ["copy", "files"])
def test_a_full_disk_is_said(folder: Path, small_disk: Path, what: str) -> None:
    """Without room there are words, where and what to do, and the next report with room is whole."""
    expected = run("report", cwd=folder).stdout
    shutil.rmtree(folder / ".runner/results")
    if what == "copy":
        (small_disk / "results").mkdir()
        (folder / ".runner/results").symlink_to(small_disk / "results")
        out = folder / "out"
    else:
        out = small_disk / "out"
    (small_disk / "filler").write_bytes(bytes(2 * 1024 * 1024 - 8 * 1024))
    done = run("report", *ALL, "--out", out, cwd=folder)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert ": No space left on device\n" in done.stderr
    (small_disk / "filler").unlink()
    assert run("report", cwd=folder).stdout == expected


@pytest.mark.slow
def test_a_report_without_room_leaves_the_one_before(folder: Path, small_disk: Path) -> None:
    """A document or file of answers that does not fit is said, by its own name, and no half of it is there."""
    out = small_disk / "out"
    formats = ("--format", "html", "--out", out)
    assert run("report", *formats, cwd=folder).returncode == 0
    page = (out / "pulse.html").read_bytes()
    (small_disk / "filler").write_bytes(bytes(2 * 1024 * 1024 - len(page) - 16 * 1024))
    done = run("report", *formats, cwd=folder)
    assert (done.returncode, done.stderr) == (
        1,
        f"Error: the report cannot be written to {out}: No space left on device\n",
    )
    assert (out / "pulse.html").read_bytes() == page
    with (small_disk / "filler").open("ab") as filler, suppress(OSError):
        filler.write(bytes(1024 * 1024))
    done = run("report", "--format", "results.csv", "--out", out, cwd=folder)
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: {out / 'pulse.results.csv'} cannot be written: No space left on device\n"
        "  make room on the disk\n"
    )
    assert [file.name for file in out.iterdir()] == ["pulse.html"]
    (small_disk / "filler").unlink()
    (out / ".pulse.html.of-a-run-that-was-killed.tmp").write_text("half", encoding="utf-8")
    assert run("report", *formats, cwd=folder).returncode == 0
    assert [file.name for file in out.iterdir()] == ["pulse.html"]
