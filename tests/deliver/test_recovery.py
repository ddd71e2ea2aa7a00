"""A run that finds traces of another one, or of its own earlier rounds: nobody is texted twice."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from runner.ledger.files.lockfile import LOCKFILE, dump_lockfile, parse_lockfile
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import format_moment
from tests.deliver.conftest import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.deliver.conftest import Behaviour, FaultyService, Repository, Request, StatJson

ONE_BY_ONE = ("--concurrency", "1")
A_LIST = 2
"""Reads of a full list: of the list, and of its count."""
WAITS = (
    r"pulse: waiting [56]\d\d s, so that nobody is texted twice: if a run of another machine was lost, "
    r"the service may still have to list what it sent\.\n"
)
"""What is left of a settle window of ten minutes: the first look, too, takes some of it."""


def lose_records(repository: Repository) -> None:
    """Leave nothing of what was sent on this machine."""
    repository.lockfile.unlink()
    for file in repository.ledger.parent.glob("ledger*"):
        file.unlink()


def list_recorded(repository: Repository) -> list[str]:
    """Return the guids of the launches in the lockfile, in order."""
    launches = json.loads(repository.lockfile.read_text(encoding="utf-8"))["launches"]
    return sorted(launch["project_launch_guid"] for launch in launches)


def test_what_a_lost_run_has_sent_is_waited_for(
    repository: Repository, faulty: FaultyService, request: pytest.FixtureRequest
) -> None:
    """A lost run of which something is listed may have sent more: nothing leaves before that must be listed."""
    phones = repository.write_campaign(6)
    assert repository.apply("--limit", "5").code == 0
    lose_records(repository)
    request.getfixturevalue("skipped_windows")
    before = len(faulty.reads)

    def list_late(number: int, launches: list[StatJson]) -> list[StatJson]:
        # A new ledger has the launches under all tags counted, too.
        return launches[:2] if number <= before + A_LIST + 1 else launches

    faulty.choose_listed = list_late
    applied = repository.apply("--format", "json")
    assert applied.code == 0
    assert re.fullmatch(
        r"pulse: adopted 2 launches that the service knows and the record had lost\.\n"
        rf"pulse: adopted 3 launches that the service knows and the record had lost\.\n{WAITS}",
        applied.err,
    )
    assert (applied.campaign["adopted"], applied.campaign["sent"]) == (5, 1)
    assert faulty.accepted == dict.fromkeys(phones, 1)


def list_until(faulty: FaultyService, is_over: Callable[[int], bool]) -> None:
    """Have the service list launches until so many reads have come; after that it answers none."""

    def choose(number: int, launches: list[StatJson]) -> list[StatJson]:
        faulty.refuse_reads(500 if is_over(number) else None)
        return launches

    faulty.choose_listed = choose


@pytest.mark.slow
def test_what_the_first_list_told_counts_without_a_second(
    repository: Repository, faulty: FaultyService
) -> None:
    """A run that can ask the service only once records, and counts, what it has adopted; the rest stays open."""
    phones = repository.write_campaign(4)
    read_before: list[int] = []

    def decide(number: int, _request: Request) -> Behaviour:
        read_before.append(len(faulty.reads))
        return {"status": 500, "accepts": number == 2} if number in (2, 3) else {}

    faulty.decide = decide
    list_until(faulty, lambda number: bool(read_before) and number > read_before[-1] + A_LIST)
    applied = repository.apply("--format", "json", *ONE_BY_ONE)
    assert applied.code == 4
    assert "Warning: pulse: what is unclear cannot be settled now: " in applied.err
    counts = {name: applied.campaign[name] for name in ("sent", "unknown", "unresolved")}
    assert counts == {"sent": 3, "unknown": 1, "unresolved": 1}
    assert list_recorded(repository) == sorted(faulty.guids)
    list_until(faulty, lambda _number: False)
    assert repository.apply().code == 0
    assert faulty.accepted == dict.fromkeys(phones, 1)


@pytest.mark.slow
def test_what_is_adopted_before_a_run_gives_up_is_in_the_lockfile(
    repository: Repository, faulty: FaultyService
) -> None:
    """An earlier run's launches that the first list names are on record, also if the second cannot be had."""
    repository.write_campaign(3)
    faulty.decide = lambda number, _request: {"status": 500, "accepts": number == 2} if number > 1 else {}
    list_until(faulty, lambda _number: bool(faulty.requests))
    assert repository.apply(*ONE_BY_ONE).code == 4
    assert list_recorded(repository) == faulty.guids[:1]
    before = len(faulty.reads)
    list_until(faulty, lambda number: number > before + A_LIST)
    applied = repository.apply()
    assert applied.code == 1
    assert "pulse: 1 launch of unknown outcome had been sent; recorded.\n" in applied.err
    assert list_recorded(repository) == sorted(faulty.guids)


@pytest.mark.slow
def test_a_new_ledger_waits_whatever_the_services_clock_says(
    repository: Repository, faulty: FaultyService, request: pytest.FixtureRequest
) -> None:
    """Clocks differ: what is listed as an hour old may be a minute old, and a new ledger waits all the same."""
    phones = repository.write_campaign(3)
    assert repository.apply("--limit", "2").code == 0
    lose_records(repository)
    for launch in faulty.launches:
        launch["project_launch_start"] = "2026-01-05T08:00:00.000000"
    request.getfixturevalue("skipped_windows")
    applied = repository.apply()
    assert re.fullmatch(
        rf"pulse: adopted 2 launches that the service knows and the record had lost\.\n{WAITS}",
        applied.err,
    )
    assert faulty.accepted == dict.fromkeys(phones, 1)


def test_a_lost_launch_of_an_earlier_tag_and_wave_holds_nobody(
    repository: Repository, faulty: FaultyService, request: pytest.FixtureRequest
) -> None:
    """The record knows the earlier tag by another launch: the lost one is of that wave, and of no other."""
    phones = repository.write_campaign(3)
    request.getfixturevalue("skipped_windows")
    written = repository.campaign.read_text(encoding="utf-8")
    repository.campaign.write_text(f"{written}wave: a\n", encoding="utf-8")
    assert repository.apply("--limit", "2").code == 0
    kept = repository.lockfile.read_bytes()
    assert repository.apply().code == 0
    lose_records(repository)
    repository.lockfile.write_bytes(kept)
    renamed = written.replace("tag: pulse-2026", "tag: beat")
    repository.campaign.write_text(f"{renamed}wave: b\n", encoding="utf-8")
    applied = repository.apply()
    assert applied.code == 0, applied.err
    assert faulty.accepted == dict.fromkeys(phones, 2)


def test_a_list_that_is_too_short_hides_nothing(repository: Repository, faulty: FaultyService) -> None:
    """A service that lists fewer launches than are on record may still list one that isn't."""
    phones = repository.write_campaign(5)
    assert repository.apply("--limit", "1").code == 0
    lost, *_ = faulty.launches
    lose_records(repository)
    faulty.choose_listed = lambda _number, _launches: []
    repository.write_campaign(4)
    kept = repository.campaign.read_text(encoding="utf-8")
    without_first = kept.replace(f'  - phone: "{phones[0]}"\n', "")
    repository.campaign.write_text(without_first, encoding="utf-8")
    assert repository.apply().code == 0
    repository.write_campaign(5)
    faulty.choose_listed = lambda _number, _launches: [lost]
    refused = repository.apply()
    assert refused.code == 1
    assert refused.err == (
        "pulse: adopted 1 launch that the service knows and the record had lost.\n"
        "Error: pulse: the service does not list 3 launches that it is known to have accepted: its list does not "
        "show what a lost run may have sent. Nothing was sent\n"
        "  run the same command again later; if it stays so, ask the service's provider\n"
    )
    faulty.choose_listed = lambda _number, launches: launches
    assert repository.apply().code == 0
    assert faulty.accepted == dict.fromkeys(phones, 1)


def test_a_second_round_sends_no_more_than_was_asked_for(
    repository: Repository, faulty: FaultyService
) -> None:
    """What was not sent after all is sent again; `--limit` holds for the rounds of a run together."""
    phones = repository.write_campaign(8)
    lost: set[str] = set()

    def lose_first_tries(_number: int, request: Request) -> Behaviour:
        (phone,) = request.data["phone"]
        if phone in lost:
            return {}
        lost.add(phone)
        return {"accepts": False, "end": "drop"}

    faulty.decide = lose_first_tries
    applied = repository.apply("--limit", "3", "--format", "json")
    assert (applied.code, applied.campaign["sent"], applied.campaign["recipients_sent"]) == (0, 3, 3)
    assert faulty.accepted == dict.fromkeys(phones[:3], 1)


def test_people_of_an_edited_text_are_held_when_the_record_is_lost(
    repository: Repository, faulty: FaultyService
) -> None:
    """Launches that say something else than the plan have reached people all the same: these are not texted."""
    phones = repository.write_campaign(3)
    assert repository.apply("--limit", "2").code == 0
    lose_records(repository)
    text = repository.campaign.read_text(encoding="utf-8").replace("how are you", "how do you do")
    repository.campaign.write_text(text, encoding="utf-8")
    applied = repository.apply("--format", "json")
    assert (applied.code, applied.campaign["sent"], applied.campaign["unresolved"]) == (4, 1, 2)
    assert applied.err == (
        "Warning: pulse: no record explains 2 launches known to the service, first: "
        f"{faulty.guids[0]}. The people that they may have reached are held: `runner resolve` shows them, and "
        "settles it\n"
    )
    assert faulty.accepted == dict.fromkeys(phones, 1)


def test_what_was_adopted_is_in_the_lockfile_whatever_comes_next(
    repository: Repository, faulty: FaultyService
) -> None:
    """A run that adopts launches and then may not send leaves a lockfile that has them."""
    repository.write_campaign(4)
    assert repository.apply("--limit", "3").code == 0
    written = repository.lockfile.read_bytes()
    lose_records(repository)
    refused = repository.run("apply")
    assert (refused.code, len(faulty.requests)) == (64, 3)
    launches = json.loads(repository.lockfile.read_bytes())["launches"]
    before = json.loads(written)["launches"]
    assert sorted(launch["project_launch_guid"] for launch in launches) == sorted(
        launch["project_launch_guid"] for launch in before
    )


def test_a_run_that_has_lost_its_lock_sends_nothing_more(
    repository: Repository, faulty: FaultyService
) -> None:
    """A lock that goes while the service has asked to wait keeps back what was about to be sent."""
    repository.write_campaign(6)

    def take_the_lock_away(number: int, _request: Request) -> Behaviour:
        if number == 3:
            shutil.rmtree(repository.ledger.parent / "locks")
            return {"accepts": False, "status": 429, "headers": {"Retry-After": "1"}}
        return {}

    faulty.decide = take_the_lock_away
    applied = repository.apply(*ONE_BY_ONE)
    assert applied.code == 1
    assert applied.err == (
        "Error: this run has lost the lock of pulse on live; nothing more is sent\n"
        "  check that the ledger is there and was not moved, then run the same command again\n"
    )
    assert len(faulty.requests) == 3
    assert not repository.lockfile.exists()
    faulty.behave({})
    assert repository.apply().code == 0
    assert set(faulty.accepted.values()) == {1}
    assert len(faulty.accepted) == 6


def answer_with_guid(number: int) -> bytes:
    """Return the body of an answer that names the launch of another send."""
    return json.dumps({"project_launch_guid": f"00000000-0000-4000-8000-{number:012}"}).encode()


@pytest.mark.parametrize(("wrong", "found"), [(1, (4, 1)), (2, (0, 2))])
def test_a_guid_that_two_launches_share_proves_neither(
    repository: Repository, faulty: FaultyService, wrong: int, found: tuple[int, int]
) -> None:
    """When a send is answered with another's guid, the later of the two is settled by asking, or held."""
    phones = repository.write_campaign(2)
    faulty.decide = lambda number, _request: {"body": answer_with_guid(3 - wrong)} if number == wrong else {}
    applied = repository.apply(*ONE_BY_ONE, "--format", "json")
    assert (applied.code, applied.campaign["sent"]) == found
    repository.apply()
    assert faulty.accepted == dict.fromkeys(phones, 1)


def test_a_guid_of_another_campaign_proves_nothing(repository: Repository, faulty: FaultyService) -> None:
    """A send that is answered with the guid of another campaign's launch is not taken as accepted."""
    phones = repository.write_campaign(1)
    other = repository.campaign.with_name("other.yaml")
    text = repository.campaign.read_text(encoding="utf-8")
    other.write_text(text.replace("pulse", "other").replace(phones[0], "+14155550150"), encoding="utf-8")
    assert repository.apply(str(other)).code == 0
    faulty.decide = lambda number, _request: (
        {"accepts": False, "body": answer_with_guid(1)} if number == 2 else {}
    )
    assert repository.apply(str(repository.campaign)).code == 0
    assert faulty.accepted == {phones[0]: 1, "+14155550150": 1}


def hold_launch(repository: Repository, faulty: FaultyService, listed: list[str]) -> StatJson:
    """Leave one launch unresolved, of whose recipients the service lists other ones."""

    def drop(_number: int, _request: Request) -> Behaviour:
        faulty.refuse_reads(500)
        return {"end": "drop"}

    faulty.decide = drop
    assert repository.apply().code == 4
    faulty.refuse_reads(None)
    faulty.behave({})
    (launch,) = faulty.launches
    sessions = [{"to": phone, "method": "SMS", "status": "ACTIVE"} for phone in listed]
    launch["sessions"] = sessions
    return launch


@pytest.mark.slow
def test_recipients_that_an_adopted_launch_has_reached_besides_are_not_texted(
    repository: Repository, faulty: FaultyService
) -> None:
    """`resolve --adopt` records everybody who is listed or was sent to: a list that lacks somebody proves little."""
    first, second, third = (*repository.write_campaign(2, per_send=2), "+14155550102")
    launch = hold_launch(repository, faulty, [first, third])
    repository.write_campaign(3, per_send=2)
    assert repository.run("resolve", "--adopt", launch["project_launch_guid"]).code == 0
    assert repository.apply().code == 0
    assert [request.data["phone"] for request in faulty.requests] == [[first, second]]
    before = repository.lockfile.read_bytes()
    for file in repository.ledger.parent.glob("ledger*"):
        file.unlink()
    assert repository.apply().code == 0
    assert len(faulty.requests) == 1
    assert repository.lockfile.read_bytes() == before


@pytest.mark.slow
def test_a_launch_that_is_listed_with_other_people_is_held_with_these(
    repository: Repository, faulty: FaultyService
) -> None:
    """What may be a launch of unknown outcome is not taken for another one: all people of both are held."""
    first, second, third = (*repository.write_campaign(2, per_send=2), "+14155550102")
    hold_launch(repository, faulty, [first, third])
    repository.write_campaign(3, per_send=2)
    assert repository.apply().code == 4
    assert repository.apply().code == 4
    assert [request.data["phone"] for request in faulty.requests] == [[first, second]]


def test_a_run_says_why_nothing_was_sent(repository: Repository, faulty: FaultyService) -> None:
    """A service that fails every send without accepting any is asked twice, and its answer is shown."""
    repository.write_campaign(2)
    faulty.behave({"accepts": False, "status": 500, "body": b"out of order"})
    applied = repository.apply()
    assert (applied.code, applied.out) == (
        1,
        "pulse: 0 people texted, 2 texts not sent.\n",
    )
    assert "Warning: pulse: HTTP 500: out of order\n" in applied.err
    assert len(faulty.requests) == 4


def test_launches_without_recipients_are_looked_at_again(
    repository: Repository, faulty: FaultyService, request: pytest.FixtureRequest
) -> None:
    """A service that lists a launch before it lists whom it reached is given the settle window."""
    phones = repository.write_campaign(3)
    assert repository.apply("--limit", "2").code == 0
    lose_records(repository)
    request.getfixturevalue("skipped_windows")
    before = len(faulty.reads)
    faulty.choose_listed = lambda number, launches: (
        [{**launch, "sessions": []} for launch in launches] if number <= before + 3 else launches
    )
    assert repository.apply().code == 0
    assert faulty.accepted == dict.fromkeys(phones, 1)


def test_who_has_lost_the_lock_sets_nobody_free(repository: Repository, faulty: FaultyService) -> None:
    """What a run finds unclear may be what another one is about to send, once that has the lock."""
    repository.write_campaign(2)
    faulty.behave({"accepts": False, "status": 500})

    def take_the_lock(_number: int, launches: list[StatJson]) -> list[StatJson]:
        if faulty.requests:
            with closing(sqlite3.connect(repository.ledger, timeout=PATIENCE_S)) as connection, connection:
                connection.execute("UPDATE locks SET term = term + 1")
        return launches

    faulty.choose_listed = take_the_lock
    applied = repository.apply(*ONE_BY_ONE)
    assert (applied.code, applied.out) == (6, "")
    assert "Error: this run has lost the lock of pulse on live to another run" in applied.err
    assert applied.err.endswith("  let the other run end, then run the same command again\n")
    assert repository.query("SELECT DISTINCT released FROM deliveries") == [(0,)]


@pytest.mark.slow
def test_counts_that_agree_by_chance_prove_nothing(repository: Repository, faulty: FaultyService) -> None:
    """A list that has as many launches as are on record, but other ones, shows what a lost run has sent."""
    phones = repository.write_campaign(6)
    assert repository.apply("--limit", "2").code == 0
    kept = repository.lockfile.read_bytes()
    assert repository.apply("--limit", "2").code == 0
    lose_records(repository)
    repository.lockfile.write_bytes(kept)
    # The two on record are late, and the two that were lost are listed.
    faulty.choose_listed = lambda _number, launches: launches[2:]
    late = repository.apply()
    assert (late.code, len(faulty.requests)) == (1, 4)
    assert "adopted 2 launches" in late.err
    faulty.choose_listed = lambda _number, launches: launches
    assert repository.apply().code == 0
    assert faulty.accepted == dict.fromkeys(phones, 1)


@pytest.mark.slow
def test_a_service_that_forgets_hides_no_lost_launch(repository: Repository, faulty: FaultyService) -> None:
    """A service that has forgotten two old launches, and lists two that no record knows, has texted these people."""
    phones = repository.write_campaign(6)
    with repository.campaign.open("a", encoding="utf-8") as stream:
        # Whether people can reply to what only a lockfile tells of is not known, and it is months old.
        stream.write("policy: {read_replies_within: 100w}\n")
    assert repository.apply("--limit", "2").code == 0
    old = parse_lockfile(repository.lockfile, repository.lockfile.read_text(encoding="utf-8")).lockfile
    assert repository.apply("--limit", "2").code == 0
    lose_records(repository)
    at = format_moment(datetime.now(UTC) - timedelta(weeks=30))
    launches = [replace(launch, sent_at=at) for launch in old.launches]
    LOCKFILE.save(repository.lockfile, dump_lockfile("pulse", TargetKey.of("live", None), launches))
    del faulty.launches[:2]
    assert repository.apply().code == 0
    assert faulty.accepted == dict.fromkeys(phones, 1)


def test_a_list_without_what_is_known_sets_nobody_free(repository: Repository, faulty: FaultyService) -> None:
    """An unknown outcome stays one while the list lacks launches that were accepted at the same time."""
    phones = repository.write_campaign(4)
    faulty.decide = lambda number, _request: {"end": "drop"} if number == 3 else {}
    faulty.choose_listed = lambda _number, _launches: []
    held = repository.apply(*ONE_BY_ONE)
    assert (held.code, faulty.accepted) == (4, dict.fromkeys(phones, 1))
    assert (
        "Warning: pulse: the service does not list 3 launches that it is known to have accepted: what it lacks is not "
        "proven unsent, and stays unresolved\n"
    ) in held.err
    faulty.choose_listed = lambda _number, launches: launches
    assert repository.apply().code == 0
    assert faulty.accepted == dict.fromkeys(phones, 1)
