"""Campaigns in several languages (`languages`), on the sandbox, as a user meets them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import runner
from runner.cli.main import run as run_command
from runner.view.markdown import write_markdown
from runner.workflow.preview import show_example
from tests.cli.world import Project

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.world import CheckJson, Enter


ADA, BEA, CEM, DIA = "+14155550101", "+14155550102", "+14155550103", "+14155550104"
PEOPLE = f"phone,lang,name\n{ADA},en,Ada\n{BEA},ES,Bea\n{CEM},ar,Cem\n{DIA},,Dia\n"
HOW = {"en": "How was it, {{ name }}?", "es": "¿Qué tal, {{ name }}?", "ar": "كيف كان، {{ name }}؟"}
GOOD, BAD = {"en": "Good", "es": "Bien", "ar": "جيد"}, {"en": "Bad", "es": "Mal", "ar": "سيئ"}
YAML = f"""\
version: 1
name: visit
languages: {{default: en, known: [en, es, ar]}}
recipients:
  - csv: people.csv
    language_column: lang
    invalid_rows: skip
messages:
  - id: ask
    questions:
      - tag: sat
        text: {json.dumps(HOW, ensure_ascii=False)}
        responses:
          - {{value: 2, text: {json.dumps(GOOD, ensure_ascii=False)}}}
          - {{value: 1, text: {json.dumps(BAD, ensure_ascii=False)}}}
        scale: csat
        conclude_on: Good
      - {{tag: why, text: "?"}}
    conclusion: {{en: Thanks!, es: ¡Gracias!, ar: شكرا}}
"""
ARMS = """\
variants:
  seed: a
  of: ask
  arms:
    - {id: plain}
    - {id: short, conclusion: {en: "Thx", es: "Grs", ar: "شك"}}
"""


class World(Project):
    """A repository with a campaign in three languages."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str], check: CheckJson) -> None:
        super().__init__(folder, capture, check)
        self.write()

    def write(self, rules: str = "", people: str = PEOPLE, text: str = YAML) -> None:
        """Write the campaign and its people."""
        (self.folder / "visit.yaml").write_text(text + rules, encoding="utf-8")
        (self.folder / "people.csv").write_text(people, encoding="utf-8")

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command; return what it wrote, and what it warned of."""
        out = super().run(*arguments, code=code)
        return self.errors if code else out

    def plan(self, *options: str) -> dict[str, Any]:
        """Return the plan of the campaign."""
        document = self.check(self.run("plan", "visit.yaml", "--format", "json", *options), "plan")
        found: dict[str, Any] = document["campaigns"][0]
        return found

    def list_sent(self) -> dict[str, dict[str, Any]]:
        """Return what was sent to each phone."""
        query = (
            "SELECT phone, definition FROM session JOIN participant ON participant.id = participant_id "
            "JOIN launch ON launch.id = launch_id"
        )
        return {phone: json.loads(definition) for phone, definition in self.select(query)}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, enter: Enter) -> World:
    """A repository with a campaign in three languages, and a person of each and one without."""
    monkeypatch.setenv("RUNNER_SETTLE_WINDOW", "0s")
    return enter(World)


def test_everybody_gets_all_texts_in_their_language(world: World) -> None:
    """The default goes to people without one; case makes no difference; texts for all go to all."""
    world.run("apply", "visit.yaml", "--auto-approve")
    sent = world.list_sent()
    for phone, name, language in (
        (ADA, "Ada", "en"),
        (BEA, "Bea", "es"),
        (CEM, "Cem", "ar"),
        (DIA, "Dia", "en"),
    ):
        first, second = sent[phone]["questions"]
        assert first["text"] == HOW[language].replace("{{ name }}", name)
        assert first["responses"] == [GOOD[language], BAD[language]]
        assert first["conclude_on"] == GOOD[language]
        assert second["text"] == "?"
    assert sent[CEM]["conclusion"] == "شكرا"


def test_the_plan_shows_people_and_segments_by_language(world: World) -> None:
    """In JSON and for people, most people first; Arabic takes UCS-2."""
    (message,) = world.plan()["messages"]
    assert [list(one.values()) for one in message["languages"]] == [
        ["en", 2, 2, 6, 0],
        ["ar", 1, 1, 3, 0],
        ["es", 1, 1, 3, 0],
    ]
    words = (
        "ask: languages: en 2 people (2 to 6 segments), ar 1 person (1 to 3 segments), es 1 person (1 to 3"
    )
    assert words in world.run("plan", "visit.yaml")
    assert "languages: en 2 people" in world.run("plan", "visit.yaml", "--format", "markdown")


def test_the_plan_shows_who_comes_later_by_language(world: World) -> None:
    """People who wait for their hour, or for an earlier message, are counted, too."""
    nudge = "  - {id: nudge, after: {message: ask, wait: 1d}, text: {en: Hey, es: Oye, ar: أهلا}}\n"
    world.write(nudge)
    assert "nudge: languages: en up to 2 later, ar up to 1 later, es up to 1 later" in world.run(
        "plan", "visit.yaml"
    )


def test_the_page_of_a_preview_keeps_the_direction_of_each_text(world: World) -> None:
    """A right-to-left text is whole, and shown from the right."""
    preview = runner.open([world.folder / "visit.yaml"]).preview(language="ar")
    assert '<pre dir="auto">كيف كان، Cem؟\n1. جيد\n2. سيئ</pre>' in preview._repr_html_()


def test_the_comment_shows_each_language(world: World) -> None:
    """Reviewers read the texts of all languages, without anybody's name."""
    campaign = runner.open([world.folder / "visit.yaml"]).preview(language="ar").campaign
    shown = write_markdown(show_example(campaign))
    for language, text in HOW.items():
        assert f"language {language})" in shown
        assert text.replace("{{ name }}", "‹name›") in shown


def test_a_campaign_without_languages_has_none_in_its_plan(world: World) -> None:
    """Its plan has no key for them."""
    world.write(
        text="version: 1\nname: visit\nrecipients: [{csv: people.csv}]\nmessages: [{id: a, text: Hi}]\n"
    )
    assert "languages" not in world.plan()["messages"][0]


@pytest.mark.slow
def test_arms_vary_texts_by_language(world: World) -> None:
    """Each arm's people get its texts in their language, and the plan counts both ways."""
    people = "phone,lang,name\n" + "".join(
        f"+1415555{number:04},{('en', 'es', 'ar')[number % 3]},Ada\n" for number in range(100, 160)
    )
    world.write(ARMS, people)
    (message,) = world.plan()["messages"]
    assert sum(message["arms"].values()) == sum(one["recipients"] for one in message["languages"]) == 60
    world.run("apply", "visit.yaml", "--auto-approve")
    endings = {"en": {"Thanks!", "Thx"}, "es": {"¡Gracias!", "Grs"}, "ar": {"شكرا", "شك"}}
    found: dict[str, set[str]] = {}
    for phone, sent in world.list_sent().items():
        found.setdefault(("en", "es", "ar")[int(phone) % 3 - int("+14155550000") % 3], set()).add(
            sent["conclusion"]
        )
    assert found == endings


@pytest.mark.slow
def test_an_answer_in_their_language_ends_the_survey(world: World) -> None:
    """`conclude_on` names a response in the default language, and means it in all."""
    world.run("apply", "visit.yaml", "--auto-approve")
    world.reply(CEM, "جيد")
    world.reply(BEA, "Mal")
    rows = world.select(
        "SELECT phone, status FROM session JOIN participant ON participant.id = participant_id"
    )
    states = dict(rows)
    assert (states[BEA], states[CEM]) == ("ACTIVE", "COMPLETE")


@pytest.mark.slow
def test_answers_in_any_language_count_as_the_response(world: World) -> None:
    """A follow-up on low values goes to those who chose them in their language, in that language."""
    why = (
        "  - {id: why, after: {message: ask, wait: 1h}, to: {question: sat, values: 1}, "
        "complete_existing_sessions: true, text: {en: Why?, es: ¿Por qué?, ar: لماذا؟}}\n"
    )
    world.write(why)
    world.run("apply", "visit.yaml", "--auto-approve")
    for phone, text in ((ADA, "Good"), (BEA, "Mal"), (CEM, "سيئ")):
        world.reply(phone, text)
    world.run("sandbox", "clock", "+2h")
    world.run("reconcile", "visit.yaml")
    world.run("apply", "visit.yaml", "--auto-approve")
    sent = {phone: one.get("text") for phone, one in world.list_sent().items()}
    assert (sent[BEA], sent[CEM], sent[ADA]) == ("¿Por qué?", "لماذا؟", None)
    document = json.loads(world.run("report", "visit.yaml", "--format", "json"))
    (asked,) = (one for one in document["messages"][0]["questions"] if one["tag"] == "sat")
    assert {one["label"]: one["count"] for one in asked["distribution"]} == {"Good": 1, "Bad": 2}


@pytest.mark.slow
@pytest.mark.parametrize("response", ["", "2"])
def test_the_number_of_a_line_counts_as_its_response(world: World, response: str) -> None:
    """Where the service returns no text but the line, follow-ups, reports and files read the response."""
    why = "  - {id: why, after: {message: ask, wait: 1h}, to: {question: sat, values: 1}, text: Why?}\n"
    world.write(why.replace("text: Why?", "complete_existing_sessions: true, text: Why?"))
    world.run("apply", "visit.yaml", "--auto-approve")
    for phone, text in ((ADA, "Good"), (BEA, "Mal"), (CEM, "سيئ")):
        world.reply(phone, text)
    with closing(sqlite3.connect(world.folder / ".runner/sandbox/service.sqlite")) as connection, connection:
        changed = connection.execute("UPDATE result SET response = ? WHERE response <> 'Good'", [response])
        assert changed.rowcount == 2
    world.run("sandbox", "clock", "+2h")
    world.run("reconcile", "visit.yaml")
    world.run("apply", "visit.yaml", "--auto-approve")
    assert {phone for phone, one in world.list_sent().items() if one.get("text") == "Why?"} == {BEA, CEM}
    document = json.loads(world.run("report", "visit.yaml", "--format", "json"))
    (asked,) = (one for one in document["messages"][0]["questions"] if one["tag"] == "sat")
    assert {one["label"]: one["count"] for one in asked["distribution"]} == {"Good": 1, "Bad": 2}
    assert asked["mean"] == pytest.approx(4 / 3, abs=0.0001)


@pytest.mark.slow
def test_files_have_the_responses_of_the_default_language(world: World) -> None:
    """Beside the value, and the language of each person's texts, whatever the column is called."""
    world.write(text=YAML.replace("lang\n", "tongue\n"), people=PEOPLE.replace("lang", "tongue"))
    world.run("apply", "visit.yaml", "--auto-approve")
    for phone, text in ((ADA, "Good"), (BEA, "Mal"), (CEM, "سيئ")):
        world.reply(phone, text)
    world.run("reconcile", "visit.yaml")
    table = runner.open("visit.yaml").answers(library="arrow", include_pii=True)
    keys = "participant_phone_number", "language", "sat.label", "sat.value"
    assert {tuple(row[key] for key in keys) for row in table.to_pylist()} == {
        (ADA, "en", "Good", 2.0),
        (BEA, "es", "Bad", 1.0),
        (CEM, "ar", "Bad", 1.0),
        (DIA, "en", None, None),
    }


@pytest.mark.slow
def test_simulated_people_answer_in_their_language(world: World) -> None:
    """What participants choose are responses that they were shown."""
    people = "phone,lang,name\n" + "".join(f"+1415555{number:04},ar,Cem\n" for number in range(100, 140))
    world.write(people=people)
    world.run("apply", "visit.yaml", "--auto-approve")
    world.run("sandbox", "simulate", "--seed", "1")
    given = world.select("SELECT DISTINCT response FROM result WHERE question_tag = 'sat'")
    assert {text for (text,) in given} == {"جيد", "سيئ"}


@pytest.mark.slow
def test_a_preview_of_one_language(world: World) -> None:
    """It shows the worst cases of these people, or one person's texts in that language."""
    shown = world.run("preview", "visit.yaml", "--language", "AR")
    assert "ask (SMS, tag visit, language ar): 1 person" in shown
    assert "كيف كان، Cem؟\n" in shown
    assert "How was it" not in shown
    of_ada = world.run("preview", "visit.yaml", "--language", "es", "--phone", ADA)
    assert "¿Qué tal, Ada?" in of_ada
    every = world.run("preview", "visit.yaml", "--format", "json")
    cases = json.loads(every)["cases"]
    assert [one["language"] for one in cases] == ["en", "es", "ar"]
    assert cases[2]["conversation"][0]["text"] == "كيف كان، Cem؟\n1. جيد\n2. سيئ"


@pytest.mark.slow
def test_a_preview_from_python(world: World) -> None:
    """`Project.preview` takes the language as well."""
    preview = runner.open([world.folder / "visit.yaml"]).preview(language="es")
    assert [one.language for one in preview.conversations] == ["es"]


@pytest.mark.parametrize(
    ("language", "people", "said"),
    [
        ("fr", PEOPLE, "visit has no language 'fr'"),
        ("es", f"phone,lang,name\n{ADA},en,Ada\n", "nobody gets anything of visit in the language es"),
    ],
)
def test_a_language_that_nobody_has(world: World, language: str, people: str, said: str) -> None:
    """A preview in it is refused."""
    world.write(people=people)
    arguments = ("preview", "visit.yaml", "--language", language)
    assert run_command(arguments) != 0
    assert said in world._capture.readouterr().err  # noqa: SLF001  the exit codes differ


def test_texts_in_one_language_have_no_preview_by_language(world: World) -> None:
    """The hint is to leave the option out."""
    world.write(
        text="version: 1\nname: visit\nrecipients: [{csv: people.csv}]\nmessages: [{id: a, text: Hi}]\n"
    )
    assert "visit has no `languages`" in world.run("preview", "visit.yaml", "--language", "en", code=64)


def test_rows_of_an_unknown_language_can_be_left_out(world: World) -> None:
    """`invalid_rows: skip` counts them, as other rows that cannot be read."""
    world.write(people=f"{PEOPLE}+14155550105,fr,Eve\n")
    (message,) = world.plan()["messages"]
    assert (message["invalid"], message["to_send"]) == (1, 4)
    world.run("apply", "visit.yaml", "--auto-approve")
    assert "+14155550105" not in world.list_sent()


@pytest.mark.slow
def test_a_report_can_show_languages_apart(world: World) -> None:
    """By the languages of the texts, whatever the file writes, or has left blank."""
    people = "phone,lang,name\n" + "".join(
        f"+1415555{number:04},{('en', 'ES', '')[number % 3]},Ada\n" for number in range(100, 160)
    )
    world.write(people=people)
    world.run("apply", "visit.yaml", "--auto-approve")
    world.run("sandbox", "simulate", "--seed", "1")
    world.run("reconcile", "visit.yaml")
    shown = world.run("report", "visit.yaml", "--by", "lang")
    groups = [line.split(" | ")[0] for line in shown.partition("## By lang")[2].splitlines() if "|" in line]
    assert {"| en", "| es"} <= set(groups)
    assert "| ES" not in groups


@pytest.mark.slow
def test_a_report_shows_languages_of_people_in_the_campaign_file_apart(world: World) -> None:
    """Their key is `language`, and so is the name of the column."""
    people = "".join(
        f"  - {{phone: '+1415555{number:04}', vars: {{name: Ada}}{', language: es' * (number % 2)}}}\n"
        for number in range(100, 140)
    )
    files = "  - csv: people.csv\n    language_column: lang\n    invalid_rows: skip\n"
    world.write(text=YAML.replace(files, people))
    world.run("apply", "visit.yaml", "--auto-approve")
    world.run("sandbox", "simulate", "--seed", "1")
    world.run("reconcile", "visit.yaml")
    document = json.loads(world.run("report", "visit.yaml", "--by", "language", "--format", "json"))
    (column,) = document["groups"]
    groups = column["groups"]
    assert {one["name"]: one["texted"] for one in groups} == {"en": 20, "es": 20}
