"""Figures of reports, from the texts that people send to the sandbox to the documents."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from runner.sandbox.web.server import running_service
from runner.source.storage import shipped_folder
from tests.cli.inside import run_inside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from runner.sandbox.model import ServiceAddress

PHONES = [f"+1415555{number:04}" for number in range(100, 200)]
LONG_AGO = "2020-01-01T00:00:00.000000"
SURVEY = """\
version: 1
name: pulse
tag: pulse-2026
recipients:
  - csv: people.csv
messages:
  - id: ask
    questions:
      - {tag: why, text: "Why?"}
      - {tag: more, text: "Anything else?"}
"""

UNKNOWN = ("audience", "rejected")
"""What the service and the lockfile do not tell of a message."""


def strip(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report less the time of its reconciling, and what only the ledger that sent can know."""
    kept = {name: value for name, value in report.items() if name != "reconciled_at"}
    left_out = {"reconciled_at", *UNKNOWN}
    messages = [
        {name: value for name, value in message.items() if name not in left_out}
        for message in report["messages"]
    ]
    return kept | {"messages": messages}


class Live:
    """A campaign on a sandbox of its own."""

    def __init__(self, folder: Path, db: Path, address: ServiceAddress) -> None:
        self.folder, self.db = folder, db
        self.environment = {
            "RUNNER_BASE_URL": address.url,
            "RUNNER_USERNAME": address.username,
            "RUNNER_API_KEY": address.api_key,
            "RUNNER_SETTLE_WINDOW": "0s",
        }
        (folder / "campaigns").mkdir()
        self.write(SURVEY, PHONES)

    def write(self, text: str, phones: Sequence[str]) -> None:
        """Write the campaign, and its audience."""
        (self.folder / "campaigns/pulse.yaml").write_text(text, encoding="utf-8")
        rows = "".join(f"{phone}\n" for phone in phones)
        (self.folder / "campaigns/people.csv").write_text(f"phone\n{rows}", encoding="utf-8")

    def run(self, *arguments: str, code: int = 0) -> str:
        """Return what a command writes to its standard output; it must end with a code."""
        done = run_inside(*arguments, cwd=self.folder, env=self.environment)
        assert done.returncode == code, done.stderr
        return done.stdout

    def send(self) -> None:
        """Send what is due."""
        self.run("apply", "--auto-approve")

    def say(self, phones: Sequence[str], *texts: str) -> None:
        """Have people text."""
        with closing(open_store(self.db)) as store:
            service = Service(store)
            for phone in phones:
                for text in texts:
                    service.receive(phone, text, datetime.now(UTC))

    def expire(self, phones: Sequence[str]) -> None:
        """Let people's open sessions expire."""
        with closing(sqlite3.connect(self.db)) as store, store:
            for phone in phones:
                store.execute(
                    "UPDATE session SET updated = ? WHERE status = 'ACTIVE' AND participant_id = "
                    "(SELECT id FROM participant WHERE phone = ?)",
                    (LONG_AGO, phone),
                )
        with closing(open_store(self.db)) as opened:
            Service(opened).expire_sessions(datetime.now(UTC))

    def report(self) -> dict[str, Any]:
        """Reconcile, and return the report as its schema allows it."""
        document = json.loads(self.run("report", "--reconcile", "--format", "json"))
        schema = json.loads((shipped_folder("schemas") / "report.schema.json").read_text(encoding="utf-8"))
        Draft202012Validator(schema).validate(document)
        return dict(document)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """A survey of two open questions, for a hundred people."""
    db = tmp_path / "service.sqlite"
    with running_service(db) as address:
        yield Live(tmp_path, db, address)


def test_dispositions_are_those_of_each_person(live: Live) -> None:
    """Who answered before the session ended is a partial, whatever ended it; silence in an open one is unknown."""
    live.send()
    live.say(PHONES[:15], "it was fine")
    live.say(PHONES[10:15], "STOP")
    live.expire([*PHONES[:10], *PHONES[15:60]])
    report = live.report()
    message, people = report["messages"][0], report["people"]
    assert message["sessions"] == {"queued": 0, "active": 40, "complete": 60}
    assert people["dispositions"] == {
        "complete": 0,
        "partial": 15,
        "refusal": 0,
        "non_contact": 45,
        "other": 0,
        "unknown_eligibility": 40,
        "replaced": 0,
    }
    assert (people["open"], people["is_interim"], people["opted_out"]) == (40, True, 5)
    assert (people["rates"]["rr2"], people["rates"]["rr6"], people["rates"]["e"]) == (0.15, None, 1)


def test_a_reply_that_opts_out_is_no_answer(live: Live) -> None:
    """Ten who write `stop please` to an open question have refused: they answered nothing, with no word."""
    live.send()
    live.say(PHONES[:8], "it was fine")
    live.say(PHONES[8:18], "stop please")
    live.say(PHONES[18:19], "STOP")
    report = live.report()
    message, people = report["messages"][0], report["people"]
    why = message["questions"][0]
    assert (message["results"], message["participants_answered"], message["response_rate"]) == (18, 8, 0.08)
    assert why["answers"] == 8
    assert sum(day["answers"] for day in message["days"]) == 8
    assert (people["dispositions"]["partial"], people["dispositions"]["refusal"]) == (8, 11)
    assert message["opt_outs"] == people["opted_out"] == 11
    assert message["discrepancies"] == []


@pytest.mark.slow
def test_a_doubtful_reply_is_an_answer_until_it_is_decided(live: Live) -> None:
    """What only sounds like an opt-out counts until a person confirms it; who is let in has still refused."""
    live.send()
    live.say(PHONES[:5], "it was fine")
    live.say(PHONES[5:6], "lose my number")
    live.say(PHONES[6:7], "stop please")
    message = live.report()["messages"][0]
    assert (message["participants_answered"], message["opt_outs"], message["doubtful"]) == (6, 1, 1)
    live.run("optouts", "remove", PHONES[6], "--auto-approve")
    assert live.report()["messages"][0]["participants_answered"] == 6
    (waiting,) = json.loads(live.run("optouts", "list", "--format", "json"))["replies"]
    live.run("optouts", "confirm", waiting["reply"])
    report = live.report()
    message = report["messages"][0]
    assert (message["participants_answered"], report["people"]["dispositions"]["refusal"]) == (5, 2)
    assert (message["opt_outs"], message["doubtful"]) == (1, 0)


@pytest.mark.slow
def test_a_ledger_that_was_filled_gives_the_same_figures(live: Live) -> None:
    """From the lockfile, and from the service alone; what neither tells is null, and said to be unknown."""
    live.send()
    live.say(PHONES[:15], "it was fine")
    live.say(PHONES[10:15], "STOP")
    first = live.report()
    (lockfile,) = (live.folder / "campaigns").glob("*.lock.json")
    shutil.rmtree(live.folder / ".runner")
    filled = live.report()
    assert strip(filled) == strip(first)
    assert [filled["messages"][0][name] for name in UNKNOWN] == [None, None]
    shutil.rmtree(live.folder / ".runner")
    lockfile.unlink()
    live.run("apply", "--settle-only", "--auto-approve")
    adopted = live.report()
    assert strip(adopted) == strip(first | {"runs": []})


REMINDED = """\
version: 1
name: pulse
tag: pulse-2026
recipients:
  - csv: people.csv
messages:
  - id: ask
    questions: &nps
      - {tag: nps, text: "0 to 10?", responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"], scale: nps}
  - id: remind
    tag: pulse-2026-remind
    after: {message: ask, wait: 0s}
    complete_existing_sessions: true
    questions:
      - {tag: nps, text: "Really, 0 to 10?", responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"], scale: nps}
"""


NOTICE = """version: 1
name: notice
tag: notice-2026
recipients: [{csv: some.csv}]
policy: {open_session: complete}
messages: [{id: tell, text: "We open at nine."}]
"""


@pytest.mark.slow
def test_people_are_counted_once_over_a_survey_its_reminder_and_what_replaced_it(live: Live) -> None:
    """A reminder replaces nobody; a text of another campaign does, and is out of the second rate."""
    live.write(REMINDED.replace(" &nps", ""), PHONES[:60])
    live.send()
    live.say(PHONES[:20], "9")
    live.run("reconcile")
    live.send()
    live.say(PHONES[20:25], "3")
    (live.folder / "campaigns/notice.yaml").write_text(NOTICE, encoding="utf-8")
    (live.folder / "campaigns/some.csv").write_text(
        "\n".join(["phone", *PHONES[40:50], ""]), encoding="utf-8"
    )
    live.run("reconcile")
    live.run("apply", "--auto-approve", "campaigns/notice.yaml")
    live.expire(PHONES[50:60])
    live.run("reconcile", "campaigns/pulse.yaml")
    report = json.loads(live.run("report", "--format", "json", "campaigns/pulse.yaml"))
    people = report["people"]
    assert (people["sent"], people["texted"], people["answered"]) == (60, 60, 25)
    assert (people["response_rate"], people["replaced"]) == (round(25 / 60, 4), 10)
    assert people["response_rate_without_replaced"] == 0.5
    expected = {"complete": 25, "non_contact": 10, "replaced": 10, "unknown_eligibility": 15}
    assert {name: count for name, count in people["dispositions"].items() if count} == expected
    assert (report["score"]["value"], report["score"]["counted"]) == (60.0, 25)
    assert sum(message["participants_answered"] for message in report["messages"]) == 25


@pytest.mark.slow
def test_a_survey_and_its_reminder_have_one_score(live: Live) -> None:
    """Of people who answered both the latest answer counts, once; each message keeps a score of its own."""
    live.write(REMINDED.replace(" &nps", ""), PHONES[:30])
    live.send()
    live.say(PHONES[:20], "0")
    live.run("reconcile")
    live.send()
    live.say(PHONES[10:25], "10")
    report = live.report()
    (pooled,) = report["questions"]
    assert (report["score"]["tag"], report["score"]["value"], report["score"]["counted"]) == ("nps", 20.0, 25)
    assert (pooled["question"]["answers"], pooled["question"]["nps"]["score"]) == (25, 20.0)
    assert pooled["parts"] == [{"message": "ask", "answers": 10}, {"message": "remind", "answers": 15}]
    alone = [message["questions"][0]["nps"]["score"] for message in report["messages"]]
    assert alone == [-100.0, 100.0]
    rows = live.run("report", "--format", "csv").splitlines()
    assert "pulse,live,,,score.value,,20.0" in rows
