"""Services that write, sort and leave out what they like: nobody is texted twice for it."""

from __future__ import annotations

import copy
import itertools
import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.deliver.conftest import Behaviour, FaultyService, Repository, Request, StatJson

ONE_BY_ONE = ("--concurrency", "1")
SURVEY = """\
    introduction: Hi!
    questions:
      - {text: How?, tag: how, responses: [good, bad]}
      - {text: Why?, tag: why}
"""


def lose_records(repository: Repository) -> None:
    """Leave nothing of what was sent on this machine."""
    repository.lockfile.unlink()
    for file in repository.ledger.parent.glob("ledger*"):
        file.unlink()


def list_as(change: Callable[[StatJson], object]) -> Callable[[int, list[StatJson]], list[StatJson]]:
    """Return what lists launches as `change` makes them."""

    def choose(_number: int, launches: list[StatJson]) -> list[StatJson]:
        listed = copy.deepcopy(launches)
        for launch in listed:
            change(launch)
        return listed

    return choose


def write_nulls(launch: StatJson) -> None:
    """Write out what is left out."""
    launch["project_definition"] |= {"conclusion": None, "text": None}
    for question in launch["project_definition"]["questions"]:
        question |= {"conclude_on": None, "webhook": None, "responses": question.get("responses")}


def write_phones_for_people(launch: StatJson) -> None:
    """Write +14155550101 as +1 415 555-0101."""
    for session in launch["sessions"]:
        phone = session["to"]
        session["to"] = f"{phone[:2]} ({phone[2:5]}) {phone[5:8]}-{phone[8:]}"


def write_an_offset(launch: StatJson) -> None:
    """Write moments in another zone than UTC."""
    launch["project_launch_start"] = "2026-11-20T14:00:00+02:00"


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        write_nulls,
        write_phones_for_people,
        write_an_offset,
    ],
)
def test_what_is_listed_in_other_words_is_known_all_the_same(
    repository: Repository, faulty: FaultyService, change: Callable[[StatJson], object]
) -> None:
    """Launches whose answers were lost, and those of a lost record, are found however they are written."""
    phones = repository.write_campaign(4)
    text = repository.campaign.read_text(encoding="utf-8")
    text = text.replace("    text: Hello, how are you?\n", SURVEY)
    repository.campaign.write_text(text, encoding="utf-8")
    faulty.choose_listed = list_as(change)
    faulty.decide = lambda number, _request: {} if number % 2 else {"end": "drop"}
    assert repository.apply().code == 0
    lose_records(repository)
    assert repository.apply().out == "pulse: nothing sent.\n"
    assert faulty.accepted == dict.fromkeys(phones, 1)
    assert {launch["sent_at"][-1] for launch in json.loads(repository.lockfile.read_bytes())["launches"]} == {
        "Z"
    }


@pytest.mark.slow
def test_phones_that_cannot_be_read_keep_everybody_from_being_texted(
    repository: Repository, faulty: FaultyService
) -> None:
    """A launch of a lost record whose phones are no E.164 may be anybody's: nothing is sent."""
    phones = repository.write_campaign(3)
    assert repository.apply("--limit", "1").code == 0
    lose_records(repository)
    faulty.choose_listed = list_as(lambda launch: launch.update(sessions=[{"to": "(415) 555-0100 x1"}]))
    stopped = repository.apply()
    assert (stopped.code, stopped.out) == (1, "")
    assert stopped.err == (
        "Error: a stat record of the service has no usable sessions\n"
        f"  look at the launch {faulty.guids[0]} at the service: without it nobody knows who was sent to, "
        "so nothing is sent\n"
    )
    assert faulty.accepted == {phones[0]: 1}


@pytest.mark.slow
def test_a_launch_that_is_listed_without_sessions_is_held(
    repository: Repository, faulty: FaultyService
) -> None:
    """Where the service doesn't say whom it has texted, an unknown outcome stays so, and a person decides."""
    phones = repository.write_campaign(2)
    faulty.choose_listed = list_as(lambda launch: launch.update(sessions=None))
    faulty.decide = lambda number, _request: {"end": "drop"} if number == 1 else {}
    held = repository.apply(*ONE_BY_ONE)
    assert held.code == 4
    assert faulty.accepted == dict.fromkeys(phones, 1)
    resolved = repository.run("resolve", "--adopt", faulty.guids[0])
    assert resolved.code == 0
    assert resolved.err == (
        "Warning: pulse: 1 person of this text is not in the service's list of it, and counts as texted: "
        "nobody sends it to them again\n"
        "Recorded: pulse sent 1 text (1 person).\n"
    )
    assert repository.apply().out == "pulse: nothing sent.\n"
    assert faulty.accepted == dict.fromkeys(phones, 1)


@pytest.mark.slow
def test_a_list_in_another_order_at_each_page_is_read_in_full(
    repository: Repository, faulty: FaultyService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost record is found again even where no two pages come in the same order."""
    monkeypatch.setattr("runner.service.client.PAGE", 3)
    phones = repository.write_campaign(7)
    assert repository.apply().code == 0
    lose_records(repository)
    turns = itertools.count()

    def turn(_number: int, launches: list[StatJson]) -> list[StatJson]:
        place = next(turns) * 3 % len(launches) if launches else 0
        return launches[place:] + launches[:place]

    faulty.choose_listed = turn
    assert repository.apply().out == "pulse: nothing sent.\n"
    assert faulty.accepted == dict.fromkeys(phones, 1)
    reconciled = repository.run("reconcile")
    assert (reconciled.code, reconciled.err) == (0, "")


def write_two_messages(repository: Repository, people: int = 1) -> None:
    """Write a campaign whose two messages differ in their tags alone."""
    repository.write_campaign(people)
    text, _, _ = repository.campaign.read_text(encoding="utf-8").partition("messages:")
    messages = "messages:\n  - {id: monday, tag: w1, text: Hello?}\n  - {id: friday, tag: w2, text: Hello?}\n"
    repository.campaign.write_text(text + messages, encoding="utf-8")


@pytest.mark.slow
def test_a_lost_message_is_known_by_its_tag(repository: Repository, faulty: FaultyService) -> None:
    """Of two messages with one text, a lost launch is recorded as the one whose tag it has."""
    write_two_messages(repository)
    assert repository.apply("--only", "friday").code == 0
    lose_records(repository)
    assert repository.apply().code == 0
    assert [launch["project_tag"] for launch in faulty.launches] == ["w2", "w1"]
    assert set(repository.query("SELECT message, tag FROM launches")) == {("friday", "w2"), ("monday", "w1")}


@pytest.mark.slow
def test_an_unknown_outcome_is_settled_by_its_tag(repository: Repository, faulty: FaultyService) -> None:
    """Of two messages with one text, the launch that is listed is not taken for the one that is not."""
    write_two_messages(repository, people=2)
    assert repository.apply("--limit", "1").code == 0

    def lose(_number: int, request: Request) -> Behaviour:
        if request.data["tag"] == "w2":
            # It is listed without its people: that it was sent is not certain.
            faulty.choose_listed = lambda _number, launches: [
                *launches[:2],
                *({**one, "sessions": None} for one in launches[2:]),
            ]
            return {"end": "drop"}
        # A list without what is known proves nothing.
        faulty.choose_listed = lambda _number, _launches: []
        return {"end": "drop", "accepts": False}

    faulty.decide = lose
    # One message a run: in one run the second would wait for what has become of the first.
    assert repository.apply("--only", "friday").code == 4
    assert repository.apply("--only", "monday").code == 4
    states = "SELECT message, state FROM launches ORDER BY id"
    assert repository.query(states)[2:] == [("friday", "unknown"), ("monday", "unknown")]
    faulty.behave({})
    faulty.choose_listed = lambda _number, launches: launches
    assert repository.apply().code == 0
    assert [launch["project_tag"] for launch in faulty.launches] == ["w1", "w2", "w2", "w1"]
    assert repository.query(states)[2:] == [("friday", "sent"), ("monday", "not_sent"), ("monday", "sent")]


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@pytest.mark.parametrize(
    ("status", "body", "detail"),
    [
        (400, "nope".encode("utf-16"), "HTTP 400: \ufffd\ufffdnope"),
        (201, b'{"project_launch_guid": "a\\u0000b"}', None),
        (201, b'{"project_launch_guid": "a\\ud800b"}', None),
    ],
)
def test_an_answer_that_no_database_holds_ends_no_run(
    repository: Repository,
    faulty: FaultyService,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    database: str,
    status: int,
    body: bytes,
    detail: str | None,
) -> None:
    """An odd answer to one launch is recorded, on either database, and the others go on."""
    if database == "postgresql":
        monkeypatch.setenv("RUNNER_LEDGER", request.getfixturevalue("postgres_ledger"))
    phones = repository.write_campaign(3)
    faulty.decide = lambda number, _request: (
        {"status": status, "body": body, "accepts": status != 400} if number == 1 else {}
    )
    applied = repository.apply(*ONE_BY_ONE)
    assert applied.code == (3 if detail else 0)
    assert (f"Warning: pulse: {detail}\n" in applied.err) == bool(detail)
    faulty.decide = lambda _number, _request: {}
    assert repository.apply().code == 0
    assert faulty.accepted == dict.fromkeys(phones, 1)
