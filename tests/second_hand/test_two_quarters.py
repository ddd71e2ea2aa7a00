"""A survey in three languages over two quarters, from `validate` to the report, against counts of the service's records."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from tests.cli.inside import run_inside
from tests.second_hand.languages import (
    DETRACTORS,
    LANGUAGES,
    answer,
    build_campaign,
    make_people,
    read_value,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.second_hand.languages import Respondent

PEOPLE = 2000
WAVES = ("2026q3", "2026q4")
MESSAGES = {("nps", "sat"): "ask", ("nps",): "remind", ("reason",): "why"}
"""Messages by the questions that they ask."""
_RESULTS = """
SELECT phone, launch.guid, question_tag, result.response FROM result
JOIN participant ON participant.id = participant_id JOIN launch ON launch.id = result.launch_id ORDER BY result.id
"""
_SESSIONS = """
SELECT launch.guid, launch.project_tag, definition, phone, coalesce(opted_out < launch.started, 0) FROM session
JOIN participant ON participant.id = participant_id JOIN launch ON launch.id = session.launch_id
"""


@dataclass
class Counted:
    """What the service has of one wave.

    Attributes:
        texted: phones by message, each as often as it was texted.
        reached: people who had not opted out by then, perhaps seen by the service alone, which texts nothing then.
        latest: of each question the latest answer of each person.
        answered: phones by message that answered it.
        given: answers by message and question.
        results: by message.
        languages: languages of the texts, with the phones that got them.
    """

    texted: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    reached: set[str] = field(default_factory=set)
    latest: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    answered: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    given: defaultdict[tuple[str, str], dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    results: Counter[str] = field(default_factory=Counter)
    languages: set[tuple[str, str]] = field(default_factory=set)


class Quarters:
    """A repository, and the sandbox of its commands."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._db = folder / ".runner/sandbox/service.sqlite"
        self._random = Random(33)  # noqa: S311  the same people each time
        self.people = make_people(PEOPLE)
        (folder / "campaigns").mkdir()
        rows = [f"{person.phone},{person.language}" for person in self.people]
        (folder / "campaigns/people.csv").write_text("\n".join(("phone,lang", *rows, "")))

    def write(self, wave: str) -> None:
        """Write the campaign of a wave."""
        text = json.dumps(build_campaign(wave), ensure_ascii=False, indent=1)
        (self._folder / "campaigns/pulse.yaml").write_text(text, encoding="utf-8")

    def run(self, *arguments: str) -> str:
        """Run a command that has to succeed, and return what it wrote."""
        env = {"RUNNER_SETTLE_WINDOW": "0s"}
        ended = run_inside(*arguments, cwd=self._folder, env=env)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def ask(self) -> dict[str, Any]:
        """Return the plan's messages by id."""
        document = json.loads(self.run("plan", "--format", "json"))
        return {message["id"]: message for message in document["campaigns"][0]["messages"]}

    def pass_time(self, length: str) -> None:
        """Move the sandbox's clock, and read what was answered by then."""
        self.run("sandbox", "clock", f"+{length}")
        self.run("reconcile")

    def reply(self, share: float, *, stops: int = 0) -> None:
        """Have a share of those who are being asked answer, some of them half; of the others some write STOP."""
        moment = datetime.fromisoformat(json.loads(self.run("sandbox", "clock", "--format", "json"))["time"])
        with closing(open_store(self._db)) as store:
            service = Service(store)
            for person in self.people:
                if self._random.random() < share:
                    self._answer(service, person, moment)
            for person in self._random.sample(self.people, stops):
                service.receive(person.phone, "STOP", moment)

    def _answer(self, service: Service, person: Respondent, moment: datetime) -> None:
        asked = self._find_question(person)
        while asked is not None:
            text = answer(person, asked, self._random)
            receipt = service.receive(person.phone, text, moment)
            assert receipt.result_guid is not None, (asked, text)
            asked = (
                None if receipt.prompt is None or self._random.random() < 0.15 else _tell_tag(receipt.prompt)
            )

    def _find_question(self, person: Respondent) -> str | None:
        """Return the tag of the question that waits for a person's answer."""
        query = (
            "SELECT question.tag FROM session JOIN participant ON participant.id = participant_id "
            "JOIN question ON question.launch_id = session.launch_id AND question.position = session.position "
            "WHERE phone = ? AND status = 'ACTIVE'"
        )
        with closing(sqlite3.connect(self._db)) as connection:
            row = connection.execute(query, (person.phone,)).fetchone()
        return row[0] if row else None

    def count(self, wave: str) -> Counted:
        """Count what the service has of a wave."""
        counted, messages = Counted(), {}
        with closing(sqlite3.connect(self._db)) as connection:
            for guid, tag, text, phone, is_blocked in connection.execute(_SESSIONS):
                if tag != f"pulse-{wave}":
                    continue
                definition = json.loads(text)
                messages[guid] = message = MESSAGES[tuple(one["tag"] for one in definition["questions"])]
                counted.texted[message][phone] += 1
                if not is_blocked:
                    counted.reached.add(phone)
                counted.languages.add((_tell_language(message, definition), phone))
            for phone, guid, question, response in connection.execute(_RESULTS):
                if guid in messages:
                    message = messages[guid]
                    counted.latest[question][phone] = response
                    counted.given[message, question][phone] = response
                    counted.answered[message].add(phone)
                    counted.results[message] += 1
        return counted


def _tell_tag(prompt: Any) -> str:
    return str(prompt.definition.questions[prompt.position].tag)


def _tell_language(message: str, definition: dict[str, Any]) -> str:
    written = next(one for one in build_campaign("")["messages"] if one["id"] == message)
    texts: dict[str, str] = written["questions"][0]["text"]
    return next(code for code, text in texts.items() if text == definition["questions"][0]["text"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_counts_scores_and_forecasts_hold(tmp_path: Path) -> None:
    """Everybody is asked once a quarter in their language, detractors alone are asked why, and all adds up."""
    quarters = Quarters(tmp_path)
    reports = {}
    for wave in WAVES:
        quarters.write(wave)
        quarters.run("validate")
        forecast = quarters.ask()
        assert forecast["ask"]["to_send"] > PEOPLE * 0.9
        _live_a_quarter(quarters)
        counted = quarters.count(wave)
        _check_people(quarters, counted, forecast)
        reports[wave] = report = json.loads(quarters.run("report", "--format", "json"))
        assert report["wave"] == wave
        _check_report(report, counted)
        quarters.run("sandbox", "clock", "+80d")
    # What was counted of the first quarter is what its report says after the second.
    earlier = json.loads(quarters.run("report", "--format", "json", "--wave", WAVES[0]))
    _check_report(earlier, quarters.count(WAVES[0]))
    trend = reports[WAVES[1]]["series"]["waves"]
    assert [one["score"] for one in trend] == [reports[wave]["score"]["value"] for wave in WAVES]
    assert [one["answered"] for one in trend] == [reports[wave]["people"]["answered"] for wave in WAVES]


def _live_a_quarter(quarters: Quarters) -> None:
    quarters.run("apply", "--auto-approve")
    quarters.reply(0.4, stops=10)
    quarters.run("reconcile")
    quarters.run("apply", "--auto-approve")
    quarters.pass_time("61m")
    quarters.run("apply", "--auto-approve")
    quarters.reply(0.2)
    quarters.pass_time("48h")
    quarters.run("apply", "--auto-approve")
    quarters.reply(0.3)
    quarters.pass_time("2h")
    quarters.run("apply", "--auto-approve")
    quarters.reply(0.5)
    # Those who stopped half-way are asked why once their survey has expired.
    for _ in range(2):
        quarters.pass_time("8d")
        quarters.run("apply", "--auto-approve")
    quarters.run("reconcile")
    assert not any(message["to_send"] for message in quarters.ask().values())


def _check_people(quarters: Quarters, counted: Counted, forecast: dict[str, Any]) -> None:
    """Compare whom the service texted with what was promised, and with what the first plan expected."""
    for message, phones in counted.texted.items():
        assert max(phones.values()) == 1, f"{message}: somebody twice"
        coming = [one["recipients"] for one in forecast[message]["coming"]]
        least = forecast[message]["to_send"] + sum(one["least"] for one in coming)
        most = forecast[message]["to_send"] + sum(one["most"] for one in coming)
        assert least <= len(phones) <= most, (message, least, len(phones), most)
    assert counted.languages == {
        (person.said, person.phone) for person in quarters.people if person.phone in counted.texted["ask"]
    }
    assert {language for language, _ in counted.languages} == set(LANGUAGES)
    first = counted.given["ask", "nps"]
    assert not counted.texted["remind"].keys() & first.keys()
    for phone in counted.texted["why"]:
        said = [counted.given[message, "nps"].get(phone) for message in ("ask", "remind")]
        assert any(one is not None and read_value("nps", one) in DETRACTORS for one in said), phone
    low = {phone for phone, said in counted.latest["nps"].items() if read_value("nps", said) in DETRACTORS}
    assert low <= counted.texted["why"].keys() | _list_stopped(quarters)


def _list_stopped(quarters: Quarters) -> set[str]:
    with closing(sqlite3.connect(quarters._db)) as connection:  # noqa: SLF001  the second hand reads what it likes
        return {
            row[0] for row in connection.execute("SELECT phone FROM participant WHERE opted_out IS NOT NULL")
        }


def _check_report(report: dict[str, Any], counted: Counted) -> None:
    everybody = set().union(*counted.texted.values())
    answered = set().union(*counted.answered.values())
    assert report["people"]["texted"] == len(counted.reached)
    assert report["people"]["blocked"] == len(everybody - counted.reached)
    assert report["people"]["answered"] == len(answered)
    for message in report["messages"]:
        name = message["id"]
        assert message["sent"] == len(counted.texted[name])
        assert message["participants_answered"] == len(counted.answered[name])
        assert message["results"] == counted.results[name]
        for question in message["questions"]:
            assert question["answers"] == len(counted.given[name, question["tag"]])
    for pooled in report["questions"]:
        question, tag = pooled["question"], pooled["question"]["tag"]
        assert question["answers"] == len(counted.latest[tag])
        if tag != "reason":
            _check_distribution(question, counted.latest[tag])
    score = _score(counted.latest["nps"].values())
    assert report["score"]["value"] == pytest.approx(score, abs=1e-4)
    assert report["score"]["counted"] == len(counted.latest["nps"])


def _check_distribution(question: dict[str, Any], latest: dict[str, str]) -> None:
    values = Counter(read_value(question["tag"], said) for said in latest.values())
    assert [one["count"] for one in question["distribution"]] == [
        values[value] for value in ((*range(11),) if question["tag"] == "nps" else (5, 4, 3, 2, 1, None))
    ]
    if question["tag"] == "sat":
        told = values.total() - values[None]
        assert question["csat"]["counted"] == told
        assert question["csat"]["satisfied"] == values[5] + values[4]
        mean = sum(value * number for value, number in values.items() if value is not None) / told
        assert question["mean"] == pytest.approx(mean, abs=1e-4)


def _score(said: Any) -> float:
    points = [read_value("nps", one) for one in said]
    assert None not in points
    promoters = sum(point >= 9 for point in points if point is not None)
    return 100 * (promoters - sum(point in DETRACTORS for point in points)) / len(points)
