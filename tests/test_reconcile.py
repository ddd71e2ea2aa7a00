"""Reconciling against the real sandbox service: incremental, each result once, checked against its counts."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from runner.cli.main import run as run_command
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import CampaignLaunches, Intent, Outcome
from runner.ledger.people.forgotten import forget_person
from runner.ledger.people.opt_outs import dismiss_opt_outs, iterate_opt_outs, read_suppressions
from runner.ledger.people.replies import list_opt_ins
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import add_intents
from runner.ledger.results.reconciled import read_totals
from runner.ledger.results.result_feed import iterate_feed
from runner.ledger.results.sendings import count_answered
from runner.reconcile.campaign import ReconcileSummary, reconcile_campaign
from runner.reconcile.launches import ReconcileContext
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from runner.sandbox.web.server import running_service
from runner.service.answer import Answer
from runner.service.client import ServiceClient
from runner.service.connection import Connection
from runner.service.target import Credentials, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runner.sandbox.model import ServiceAddress

AT = "2026-11-20T12:00:00.000000Z"
KEY = TargetKey.of("sandbox", None)
PHONES = [f"+1{area}555{number:04}" for area in (212, 415) for number in range(100, 200)]
DEFINITION = {
    "tag": "pulse-2026",
    "questions": [
        {"text": "How likely?", "tag": "nps", "responses": ["0", "5", "10"]},
        {"text": "Why?", "tag": "reason"},
    ],
}


class CountingConnection(Connection):
    """A connection that counts its requests, and lets a test act between two of them."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.requests: Counter[str] = Counter()
        self.before_page: Callable[[str, dict[str, str | int]], None] = lambda _path, _query: None
        self.change: Callable[[str, Answer], Answer] = lambda _path, answer: answer

    def get(self, path: str, query: dict[str, str | int]) -> Answer:
        """Send one GET, and count it."""
        self.requests[path] += 1
        self.before_page(path, query)
        return self.change(path, super().get(path, query))


class Survey:
    """A survey in the ledger and in a running service, whose participants answer when told."""

    def __init__(self, ledger: Ledger, address: ServiceAddress, db: Path) -> None:
        target = Target("sandbox", address.url, Credentials(address.username, address.api_key))
        self.ledger = ledger
        self.connection = CountingConnection(target)
        self.api_key = address.api_key
        self.guids: list[str] = []
        self._client = ServiceClient(target, self.connection, wait=lambda _: None)
        self._db = db
        with ledger.writing() as opened:
            self.campaign_id = enter_campaign(opened, "sandbox", "pulse")

    def launch(self, *phones: str, message: str = "ask") -> str:
        """Send the survey, and record it as sent."""
        reply = self._client.send(json.dumps(DEFINITION), list(phones))
        assert reply.project_launch_guid is not None
        recipients = tuple(sorted(KEY.fingerprint(phone) for phone in phones))
        intent = Intent(message, f"key-{len(self.guids)}", "pulse-2026", "d1g35t", recipients, "{}")
        with self.ledger.writing() as opened:
            (number,) = add_intents(opened, self.campaign_id, [intent], AT)
            record_outcomes(opened, [Outcome(number, "sent", AT, reply.project_launch_guid)])
        self.guids.append(reply.project_launch_guid)
        return reply.project_launch_guid

    def answer(self, *phones: str, text: str = "10") -> None:
        """Make participants text an answer."""
        with closing(open_store(self._db)) as store:
            service = Service(store)
            for phone in phones:
                service.receive(phone, text, datetime.now(UTC))

    def reconcile(self, opt_out_words: tuple[str, ...] = ()) -> ReconcileSummary:
        """Reconcile once, and forget the requests that were counted before."""
        self.connection.requests.clear()
        return reconcile_campaign(
            ReconcileContext(
                self.ledger,
                self._client,
                KEY,
                self.campaign_id,
                AT,
                opt_out_words=opt_out_words,
            )
        )

    def list_results(self) -> list[tuple[str, str]]:
        """Return participant and response of each result in the ledger."""
        with self.ledger.reading() as opened:
            return [(row.participant, row.response) for row in iterate_feed(opened, self.campaign_id, -1)]


@pytest.fixture
def survey(tmp_path: Path) -> Iterator[Survey]:
    """A survey with an empty ledger, and the service to send it to."""
    db = tmp_path / "service.sqlite"
    with running_service(db) as address, Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        ledger.prepare()
        made = Survey(ledger, address, db)
        yield made
        made.connection.close()


def test_results_come_into_the_ledger(survey: Survey) -> None:
    """Counts and results are kept; participants are known by fingerprint, not by phone."""
    survey.launch(*PHONES[:3])
    survey.answer(PHONES[0])
    survey.answer(PHONES[0], text="I like it")
    survey.answer(PHONES[1], text="5")
    summary = survey.reconcile()
    assert summary == ReconcileSummary(
        recorded_launches=1,
        launches=1,
        whole_launches=1,
        missing_launches=[],
        unread_launches=[],
        sessions={"queued": 0, "active": 2, "complete": 1},
        results=3,
        new_results=3,
        expected_results=3,
        forgotten_results=0,
        opted_out=0,
        doubtful=0,
        short_launches=[],
        differences=[],
        unlisted_results=0,
        unlisted_launches=[],
        renamed_results=0,
        dropped_results=0,
        unreadable_results=0,
        unreadable=[],
    )
    ada, bo = (KEY.fingerprint(phone) for phone in PHONES[:2])
    assert sorted(survey.list_results()) == sorted([(ada, "10"), (ada, "I like it"), (bo, "5")])
    with survey.ledger.reading() as opened:
        totals = read_totals(opened, CampaignLaunches(survey.campaign_id))["ask"]
        assert count_answered(opened, CampaignLaunches(survey.campaign_id)) == {"ask": 2}
    assert (totals.sent, totals.active, totals.complete, totals.results) == (3, 2, 1, 3)
    assert totals.reconciled_at == AT


def test_results_from_before_orders_counted_from_zero_are_read_on(survey: Survey) -> None:
    """A ledger whose question orders count from 1 takes those that count from 0, and each result once."""
    survey.launch(*PHONES[:2])
    survey.answer(PHONES[0])
    survey.reconcile()
    with survey.ledger.writing() as opened:
        opened.exec_driver_sql("UPDATE results SET question_display_order = 1")
    survey.answer(PHONES[0], text="I like it")
    survey.answer(PHONES[1])
    summary = survey.reconcile()
    assert (summary.results, summary.new_results, summary.is_complete) == (3, 2, True)
    with survey.ledger.reading() as opened:
        rows = list(iterate_feed(opened, survey.campaign_id, -1))
    assert sorted((row.response, row.question_display_order) for row in rows) == [
        ("10", 0),
        ("10", 0),
        ("I like it", 1),
    ]


def test_no_phone_goes_into_the_ledger(survey: Survey, tmp_path: Path) -> None:
    """Results come with phone numbers; none of them is kept, nor are the credentials."""
    survey.launch(*PHONES[:20])
    survey.answer(*PHONES[:20])
    assert survey.reconcile().results == 20
    content = b"".join(file.read_bytes() for file in tmp_path.glob("ledger.sqlite*"))
    assert b"How likely?" in content
    for phone in PHONES[:20]:
        assert phone[1:].encode() not in content
    assert survey.api_key.encode() not in content


def test_nothing_new_takes_no_results_request(survey: Survey) -> None:
    """A second time only the counts are read: they say that the ledger has everything."""
    for phone in PHONES[:3]:
        survey.launch(phone)
    survey.answer(*PHONES[:3])
    assert survey.reconcile().new_results == 3
    assert survey.connection.requests["/api/results"] > 0
    summary = survey.reconcile()
    assert (summary.results, summary.new_results, summary.expected_results) == (3, 0, 3)
    assert survey.connection.requests == {"/api/stats/": 1}


def test_a_launch_that_the_service_does_not_list_is_named(survey: Survey) -> None:
    """A launch on record that the service doesn't list is found, by its guid."""
    survey.launch(PHONES[0])
    gone = survey.launch(PHONES[1])
    with survey.ledger.writing() as opened:
        opened.exec_driver_sql(
            "UPDATE launches SET project_launch_guid = 'gone' WHERE project_launch_guid = ?", (gone,)
        )
    summary = survey.reconcile()
    assert (summary.launches, summary.missing_launches) == (1, ["gone"])


def rewrite_replies(**words: str) -> Callable[[str, Answer], Answer]:
    """Make the service report other words than were texted: services differ in their commands."""

    def change(path: str, answer: Answer) -> Answer:
        page: dict[str, Any] = json.loads(answer.body)
        for item in page["objects"] if path == "/api/results" else ():
            item["result_response"] = words.get(item["result_response"], item["result_response"])
        return Answer(answer.status, answer.headers, json.dumps(page).encode())

    return change


def find_suppressed(survey: Survey, *phones: str) -> list[str | None]:
    with survey.ledger.reading() as opened:
        found = read_suppressions(opened, KEY)
    return [found.find(phone) for phone in phones]


def forget(survey: Survey, phone: str) -> None:
    forget_person(survey.ledger, phone, KEY, lambda _: ("RUNNER_STATE_KEY", None), AT)


def test_replies_that_opt_out_are_kept(survey: Survey, tmp_path: Path) -> None:
    """An exact word suppresses at once, a doubtful text waits for a decision, other answers do neither."""
    survey.launch(*PHONES[:3])
    survey.answer(*PHONES[:3])
    survey.answer(PHONES[0], text="halt")
    survey.answer(PHONES[1], text="Please stop texting me")
    survey.answer(PHONES[2], text="It never stops to amaze me")
    survey.connection.change = rewrite_replies(halt="STOP!")
    summary = survey.reconcile()
    assert (summary.results, summary.opted_out, summary.doubtful) == (6, 1, 1)
    assert find_suppressed(survey, *PHONES[:3]) == ["confirmed", "doubtful", None]
    again = survey.reconcile()
    assert (again.opted_out, again.doubtful) == (0, 1)
    content = b"".join(file.read_bytes() for file in tmp_path.glob("ledger.sqlite*"))
    assert not any(phone[1:].encode() in content for phone in PHONES[:3])


def test_a_stop_that_the_service_obeys_itself_is_seen(survey: Survey) -> None:
    """STOP is no result; the session says that it was stopped, and so does a later one that was blocked."""
    survey.launch(*PHONES[:3])
    survey.answer(PHONES[0], text="STOP")
    summary = survey.reconcile()
    assert (summary.results, summary.opted_out) == (0, 1)
    assert find_suppressed(survey, *PHONES[:3]) == ["confirmed", None, None]
    survey.answer(PHONES[1], text="unsubscribe")
    survey.launch(PHONES[1], message="nudge")
    assert survey.reconcile().opted_out == 2
    assert survey.reconcile().opted_out == 0


def test_a_stop_stays_decided(survey: Survey) -> None:
    """Readmitted people stay readmitted until they stop another launch; nothing is entered of the forgotten."""
    survey.launch(*PHONES[:2])
    survey.answer(*PHONES[:2], text="STOP")
    survey.reconcile()
    forget(survey, PHONES[1])
    with survey.ledger.writing() as opened:
        dismiss_opt_outs(opened, KEY.target, KEY.fingerprint(PHONES[0]), AT)
    assert survey.reconcile().opted_out == 0
    assert find_suppressed(survey, PHONES[0]) == [None]
    survey.launch(PHONES[0], message="nudge")
    assert survey.reconcile().opted_out == 1
    with survey.ledger.reading() as opened:
        rows = [(item.source, item.state) for item in iterate_opt_outs(opened, "sandbox")]
    assert sorted(rows) == [("forgotten", "confirmed"), ("import", "confirmed"), ("reply", "dismissed")]


@pytest.mark.parametrize(("first", "second", "asking"), [("STOP!", "START", 1), ("START", "STOP!", 0)])
def test_a_wish_to_be_texted_again_is_a_proposal(
    survey: Survey, first: str, second: str, asking: int
) -> None:
    """START after an opt-out waits for a decision and lets nobody in; before one it is overtaken."""
    survey.connection.change = rewrite_replies(one=first, two=second)
    for message, word in (("ask", "one"), ("nudge", "two")):
        survey.launch(PHONES[0], message=message)
        survey.answer(PHONES[0])
        survey.answer(PHONES[0], text=word)
    survey.reconcile()
    survey.reconcile()
    assert find_suppressed(survey, PHONES[0]) == ["confirmed"]
    with survey.ledger.reading() as opened:
        assert len(list_opt_ins(opened, "sandbox")) == asking


def test_start_of_somebody_who_never_opted_out_proposes_nothing(survey: Survey) -> None:
    """There is nobody to let in; of the forgotten no proposal stays."""
    survey.connection.change = rewrite_replies(one="START")
    survey.launch(PHONES[0])
    survey.answer(PHONES[0])
    survey.answer(PHONES[0], text="one")
    survey.reconcile()
    with survey.ledger.reading() as opened:
        assert list_opt_ins(opened, "sandbox") == []
        assert len(opened.exec_driver_sql("SELECT * FROM opt_ins").all()) == 1
    forget(survey, PHONES[0])
    with survey.ledger.reading() as opened:
        assert opened.exec_driver_sql("SELECT * FROM opt_ins").all() == []


def test_words_that_a_campaign_adds_are_looked_for_in_what_is_there(survey: Survey) -> None:
    """With another word of the campaign's own, replies in the ledger are looked through once more."""
    survey.launch(*PHONES[:2])
    survey.answer(*PHONES[:2])
    survey.answer(PHONES[0], text="Genug, Leute")
    survey.answer(PHONES[1], text="nicht genug Auswahl")
    assert survey.reconcile().opted_out == 0
    assert survey.reconcile(opt_out_words=("genug",)).opted_out == 1
    assert find_suppressed(survey, *PHONES[:2]) == ["confirmed", None]
    survey.reconcile(opt_out_words=("genug",))
    assert survey.connection.requests == {"/api/stats/": 1}


def test_what_the_question_offers_is_an_answer(survey: Survey) -> None:
    """A response that is an opt-out word elsewhere answers its own question, be it known here or there."""
    offer = {"questions": [{"text": "How likely?", "tag": "nps", "responses": ["Keep", "Cancel"]}]}
    survey.launch(PHONES[0])
    survey.launch(PHONES[1])
    survey.launch(PHONES[2])
    with survey.ledger.writing() as opened:
        opened.exec_driver_sql("UPDATE launches SET definition = ? WHERE id = 1", (json.dumps(offer),))
        opened.exec_driver_sql("UPDATE launches SET definition = NULL WHERE id = 2")
    survey.answer(*PHONES[:3])
    in_words = rewrite_replies(**{"10": "Cancel"})

    def change(path: str, answer: Answer) -> Answer:
        page: dict[str, Any] = json.loads(in_words(path, answer).body)
        for item in page.get("objects", [page]):
            if item["project_launch_guid"] == survey.guids[1] and "project_definition" in item:
                item["project_definition"] = offer
        return Answer(answer.status, answer.headers, json.dumps(page).encode())

    survey.connection.change = change
    assert survey.reconcile().opted_out == 1
    assert find_suppressed(survey, *PHONES[:3]) == [None, None, "confirmed"]


def test_opt_outs_from_before_they_were_kept_are_found(survey: Survey) -> None:
    """All launches of an older ledger are read once more."""
    for phone in PHONES[:3]:
        survey.launch(phone)
    survey.answer(*PHONES[:3])
    survey.answer(PHONES[1], text="please stop texting me")
    survey.reconcile()
    with survey.ledger.writing() as opened:
        opened.exec_driver_sql("DELETE FROM opt_outs")
        opened.exec_driver_sql("DELETE FROM ledger_info WHERE name LIKE 'key of %'")
        opened.exec_driver_sql("DELETE FROM ledger_info WHERE name LIKE 'opt_outs_screened_%'")
    summary = survey.reconcile()
    assert (summary.new_results, summary.doubtful) == (0, 1)
    assert find_suppressed(survey, *PHONES[:3]) == [None, "doubtful", None]
    survey.reconcile()
    assert survey.connection.requests == {"/api/stats/": 1}


def test_opt_outs_of_launches_that_are_not_listed_are_looked_for_again(survey: Survey) -> None:
    """A launch that the service leaves out today may be listed tomorrow: until then it isn't done with."""
    survey.launch(PHONES[0])
    survey.answer(PHONES[0])
    survey.answer(PHONES[0], text="please stop texting me")
    survey.reconcile()
    with survey.ledger.writing() as opened:
        opened.exec_driver_sql("DELETE FROM opt_outs")
        opened.exec_driver_sql("DELETE FROM ledger_info WHERE name LIKE 'opt_outs_screened_%'")
        opened.exec_driver_sql("UPDATE launches SET project_launch_guid = 'gone'")
    assert survey.reconcile().missing_launches == ["gone"]
    with survey.ledger.writing() as opened:
        opened.exec_driver_sql("UPDATE launches SET project_launch_guid = ?", (survey.guids[0],))
    assert survey.reconcile().doubtful == 1


def test_the_answers_of_the_forgotten_are_not_stored_again(survey: Survey) -> None:
    """What a forgotten person answered is counted and not kept: no difference, and nothing read in vain."""
    survey.launch(*PHONES[:3])
    survey.answer(*PHONES[:2])
    survey.reconcile()
    forget(survey, PHONES[0])
    survey.answer(PHONES[0], text="please stop texting me")
    survey.answer(PHONES[2])
    summary = survey.reconcile()
    assert (summary.results, summary.new_results, summary.forgotten_results) == (2, 1, 2)
    assert summary.is_complete
    assert summary.doubtful == 0
    assert KEY.fingerprint(PHONES[0]) not in {who for who, _ in survey.list_results()}
    assert find_suppressed(survey, PHONES[0]) == ["confirmed"]
    assert survey.reconcile() == summary.replace(new_results=0)
    assert survey.connection.requests == {"/api/stats/": 1}


def test_a_forgotten_person_answers_for_the_first_time(survey: Survey) -> None:
    """If only new results are read, those left out of them are counted too."""
    survey.launch(*PHONES[:3])
    survey.answer(PHONES[0])
    survey.reconcile()
    forget(survey, PHONES[1])
    survey.answer(*PHONES[1:3])
    summary = survey.reconcile()
    assert (summary.results, summary.forgotten_results, summary.is_complete) == (2, 1, True)
    assert survey.reconcile() == summary.replace(new_results=0)
    assert survey.connection.requests == {"/api/stats/": 1}


def test_whoever_is_let_in_again_is_heard_again(survey: Survey) -> None:
    """The answers of a forgotten person who came back are kept from then on, the old ones too."""
    survey.launch(*PHONES[:2])
    survey.answer(*PHONES[:2])
    forget(survey, PHONES[0])
    assert survey.reconcile().forgotten_results == 1
    with survey.ledger.writing() as opened:
        dismiss_opt_outs(opened, KEY.target, KEY.fingerprint(PHONES[0]), AT)
    survey.answer(PHONES[0], text="because")
    summary = survey.reconcile()
    assert (summary.results, summary.forgotten_results, summary.is_complete) == (3, 0, True)


def test_a_person_is_forgotten_while_results_are_read(survey: Survey) -> None:
    """Neither earlier nor later results of the person are kept; the next time makes the counts whole."""
    survey.launch(*PHONES)
    survey.answer(*PHONES)
    listed = iter([None])

    def forget_meanwhile(path: str, query: dict[str, str | int]) -> None:
        if path == "/api/results" and query["offset"] and next(listed, "done") is None:
            for phone in (PHONES[0], PHONES[-1]):
                forget(survey, phone)

    survey.connection.before_page = forget_meanwhile
    survey.reconcile()
    gone = {KEY.fingerprint(phone) for phone in (PHONES[0], PHONES[-1])}
    assert gone.isdisjoint(who for who, _ in survey.list_results())
    survey.connection.before_page = lambda _path, _query: None
    summary = survey.reconcile()
    assert (summary.results, summary.forgotten_results, summary.is_complete) == (198, 2, True)


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A repository whose campaign was sent to the embedded sandbox."""
    monkeypatch.chdir(tmp_path)
    campaign = tmp_path / "campaigns" / "pulse.yaml"
    campaign.parent.mkdir()
    recipients = "".join(f'  - phone: "{phone}"\n' for phone in PHONES[:3])
    campaign.write_text(
        f"version: 1\nname: pulse\nrecipients:\n{recipients}tag: pulse-2026\n"
        "messages:\n  - id: ask\n    questions:\n      - {tag: why, text: Why?}\n",
        encoding="utf-8",
    )
    assert run_command(["apply", "--auto-approve", "--quiet"]) == 0
    capsys.readouterr()
    return tmp_path


def change_ledger(repository: Path, *statements: str) -> None:
    with closing(sqlite3.connect(repository / ".runner" / "ledger.sqlite")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_the_command_warns_of_missing_launches(sent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Launches in the ledger that the service doesn't list are reported in words, and by the exit code."""
    change_ledger(sent, "UPDATE launches SET project_launch_guid = 'gone'")
    (sent / "campaigns" / "pulse.sandbox.lock.json").unlink()
    assert run_command(["reconcile"]) == 1
    assert capsys.readouterr().err == (
        "Warning: pulse: 1 recorded launch is not listed by the service, first: gone\n"
        "Warning: pulse: 1 launch of 1 could not be read as a whole, first: gone; what they would add to is "
        "shown as not known\n"
        "Warning: pulse: somebody may have answered 1 launch who is not known to, so follow-ups that go by "
        "answers wait; run `runner reconcile` again later, and if that stays, "
        "`runner reconcile --accept-differences`\n"
    )


def test_the_command_warns_of_counts_that_differ(sent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stored results are compared with the service's own counts, and a difference is reported."""
    change_ledger(
        sent,
        "INSERT INTO results (launch_id, result_guid, participant, question_guid, question_tag, question_text, "
        "question_display_order, result_answer, result_response, created, updated) "
        "VALUES (1, 'r', 'p', 'q', 'why', 'Why?', 1, 'a', 'a', '2026', '2026')",
    )
    assert run_command(["reconcile", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    with closing(sqlite3.connect(sent / ".runner" / "ledger.sqlite")) as connection:
        ((guid,),) = connection.execute("SELECT project_launch_guid FROM launches").fetchall()
    assert err == (
        "Warning: pulse: the service does not list 1 result any more that the ledger has, first of launch "
        f"{guid}; they go on counting until `runner reconcile --drop-unlisted` removes them\n"
    )
    document = json.loads(out)
    assert document["format_version"] == "1.0"
    assert document["campaigns"] == [
        {
            "name": "pulse",
            "recorded_launches": 1,
            "launches": 1,
            "whole_launches": 1,
            "missing_launches": [],
            "unread_launches": [],
            "sessions": {"queued": 0, "active": 3, "complete": 0},
            "results": 1,
            "new_results": 0,
            "expected_results": 0,
            "forgotten_results": 0,
            "opted_out": 0,
            "doubtful": 0,
            "short_launches": [],
            "differences": [],
            "unlisted_results": 1,
            "unlisted_launches": [guid],
            "renamed_results": 0,
            "dropped_results": 0,
            "unreadable_results": 0,
            "unreadable": [],
        }
    ]
    assert run_command(["reconcile", "--drop-unlisted", "--format", "json"]) == 0
    dropped = json.loads(capsys.readouterr().out)["campaigns"][0]
    assert [dropped[name] for name in ("results", "new_results", "dropped_results")] == [0, 0, 1]


def test_the_command_tells_of_opt_outs(sent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command reports its findings, and how to decide doubtful ones."""
    with closing(open_store(sent / ".runner" / "sandbox" / "service.sqlite")) as store:
        service = Service(store)
        for phone, text in ((PHONES[0], "Ştop"), (PHONES[1], "please stop texting me"), (PHONES[2], "Fine")):
            service.receive(phone, text, datetime.now(UTC))
    assert run_command(["reconcile"]) == 0
    out, err = capsys.readouterr()
    assert out == (
        "pulse: 1 launch; sessions: 0 queued, 0 active, 3 complete; 3 results, 3 of them new; 1 opt-out found.\n"
    )
    assert err == (
        "Warning: 1 reply sounds like an opt-out on sandbox, and nobody who wrote so is texted until you "
        "decide: run `runner optouts list --show-replies`\n"
    )
