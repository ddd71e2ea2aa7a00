"""A whole run against a service that goes wrong: exit codes, records, and the run after it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from freezegun import freeze_time

from runner.source.json_schema import load_validator
from tests.deliver.conftest import PATIENCE_S
from tests.keys import OTHER_STATE_KEY, STATE_KEY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.deliver.conftest import Applied, Behaviour, FaultyService, Repository, Request

JSON = ("--format", "json")
ONE_BY_ONE = ("--concurrency", "1")


def assert_each_once(service: FaultyService, phones: tuple[str, ...]) -> None:
    """Hold a service to having texted each of the phones once, and nobody else."""
    assert service.accepted == dict.fromkeys(phones, 1)


def read_lockfile(repository: Repository) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(repository.lockfile.read_text(encoding="utf-8"))
    load_validator("lockfile").validate(data)
    return data


def list_counts(applied: Applied) -> dict[str, int]:
    load_validator("apply").validate(json.loads(applied.out))
    campaign = applied.campaign
    counts = {name: campaign[name] for name in ("sent", "rejected", "unknown", "not_sent", "recipients_sent")}
    outcomes = [launch["outcome"] for launch in campaign["launches"]]
    assert {name: outcomes.count(name) for name in ("sent", "rejected", "unknown", "not_sent")} == {
        name: count for name, count in counts.items() if name != "recipients_sent"
    }
    return counts


@pytest.mark.parametrize("status", [200, 201])
def test_everybody_is_texted_once(repository: Repository, faulty: FaultyService, status: int) -> None:
    """A run sends to everybody, the run after it to nobody, and the lockfile stays as it was."""
    phones = repository.write_campaign(10, per_send=3)
    faulty.behave({"status": status})
    first = repository.apply(*JSON)
    assert first.code == 0
    assert list_counts(first) == {
        "sent": 4, "rejected": 0, "unknown": 0, "not_sent": 0, "recipients_sent": 10
    }  # fmt: skip
    assert_each_once(faulty, phones)
    lockfile = read_lockfile(repository)
    assert sorted(launch["project_launch_guid"] for launch in lockfile["launches"]) == sorted(faulty.guids)
    assert sorted(len(launch["recipients"]) for launch in lockfile["launches"]) == [1, 3, 3, 3]
    before = repository.lockfile.read_bytes()
    assert repository.apply().code == 0
    assert_each_once(faulty, phones)
    assert repository.lockfile.read_bytes() == before


def test_an_intent_is_durable_before_its_request(repository: Repository, faulty: FaultyService) -> None:
    """When a request arrives, another connection to the ledger sees its launch, its text and its people."""
    repository.write_campaign(6, per_send=2)
    seen = []

    def look(_number: int, request: Request) -> Behaviour:
        definition = {key: value for key, value in request.data.items() if key != "phone"}
        rows = repository.query(
            "SELECT state, definition, recipients, project_launch_guid, outcome_at, "
            "(SELECT count(*) FROM deliveries WHERE launch_id = launches.id AND NOT released) FROM launches "
            "WHERE state = 'intent'"
        )
        seen.append(("intent", definition, 2, None, None, 2) in [(s, json.loads(d), *r) for s, d, *r in rows])
        return {}

    faulty.decide = look
    assert repository.apply().code == 0
    assert seen == [True, True, True]


def test_an_outcome_is_durable_before_much_is_intended(repository: Repository, faulty: FaultyService) -> None:
    """A run is at most two launches a thread ahead of what it has recorded: more cannot be lost."""
    repository.write_campaign(20)
    open_launches = []

    def look(_number: int, _request: Request) -> Behaviour:
        (row,) = repository.query("SELECT count(*) FROM launches WHERE state = 'intent'")
        open_launches.append(row[0])
        return {}

    faulty.decide = look
    assert repository.apply("--concurrency", "2").code == 0
    assert max(open_launches) <= 4


@pytest.mark.slow
def test_a_rejected_launch_does_not_stop_the_others(repository: Repository, faulty: FaultyService) -> None:
    """400 and 422 are recorded against their launch; the others go on, and the exit code says partly done."""
    phones = repository.write_campaign(6)

    def refuse_two(number: int, _request: Request) -> Behaviour:
        status = {2: 400, 4: 422}.get(number, 201)
        return {"status": status, "accepts": status == 201} if status != 201 else {}

    faulty.decide = refuse_two
    applied = repository.apply(*JSON, *ONE_BY_ONE)
    assert applied.code == 3
    assert list_counts(applied) == {
        "sent": 4, "rejected": 2, "unknown": 0, "not_sent": 0, "recipients_sent": 4
    }  # fmt: skip
    refused = [launch for launch in applied.campaign["launches"] if launch["outcome"] == "rejected"]
    assert [launch["project_launch_guid"] for launch in refused] == [None, None]
    assert len(read_lockfile(repository)["launches"]) == 4
    # What was refused has reached nobody: the next run tries it again, and nothing else.
    faulty.behave({})
    assert repository.apply().code == 0
    assert len(faulty.requests) == 8
    assert_each_once(faulty, phones)


def test_if_all_are_rejected_the_run_failed(repository: Repository, faulty: FaultyService) -> None:
    """Nothing sent and everything refused is a failure, and leaves no lockfile."""
    repository.write_campaign(3)
    faulty.behave({"status": 400, "accepts": False, "body": b"no such tag"})
    applied = repository.apply(*JSON)
    assert applied.code == 1
    assert applied.campaign["rejected"] == 3
    assert "Warning: pulse: HTTP 400: no such tag\n" in applied.err
    assert not repository.lockfile.exists()


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_for_all_ends_the_run(repository: Repository, faulty: FaultyService, status: int) -> None:
    """Where every further send would fail too, the run ends at once; the next one sends the rest."""
    phones = repository.write_campaign(9)
    faulty.plan = {"renders": {"used": 50, "max": 50}}
    faulty.decide = lambda number, _: {"status": status, "accepts": False} if number == 4 else {}
    applied = repository.apply(*JSON, *ONE_BY_ONE)
    assert applied.code == 1
    assert len(faulty.requests) == 4
    counts = list_counts(applied)
    assert (counts["sent"], counts["rejected"], counts["unknown"]) == (3, 1, 0)
    assert (
        f"Warning: pulse: the service refuses to send (HTTP {status}) because its plan is used up: "
        "50 of 50 renders are used\n"
    ) in applied.err
    assert repository.apply().code == 0
    assert_each_once(faulty, phones)
    assert len(read_lockfile(repository)["launches"]) == 9


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_service_gets_everything_in_one_run(
    repository: Repository, faulty: FaultyService, status: int
) -> None:
    """What the service refuses for a while is sent again by the same run, and counted once."""
    phones = repository.write_campaign(9)

    def refuse_every_third(number: int, _request: Request) -> Behaviour:
        busy: Behaviour = {"status": status, "accepts": False, "headers": {"Retry-After": "0"}}
        return {} if number % 3 else busy

    faulty.decide = refuse_every_third
    applied = repository.apply(*JSON)
    assert applied.code == 0
    assert list_counts(applied) == {
        "sent": 9, "rejected": 0, "unknown": 0, "not_sent": 0, "recipients_sent": 9
    }  # fmt: skip
    assert len(faulty.requests) > 9
    assert_each_once(faulty, phones)


def test_a_service_in_trouble_ends_the_run(repository: Repository, faulty: FaultyService) -> None:
    """A row of failures ends the run before the whole audience is in doubt."""
    phones = repository.write_campaign(60)
    faulty.behave({"status": 500, "accepts": False, "body": b"oops"})
    applied = repository.apply(*JSON, *ONE_BY_ONE)
    assert applied.code == 1
    assert len(faulty.requests) == 10
    assert (
        "Warning: pulse: the run was ended, every further send would fail too: "
        "10 launches in a row failed, the last one with: HTTP 500: oops\n"
    ) in applied.err
    assert not faulty.accepted
    faulty.behave({})
    assert repository.apply().code == 0
    assert_each_once(faulty, phones)


@pytest.mark.parametrize("concurrency", [pytest.param("1", marks=pytest.mark.slow), "16"])
def test_every_second_connection_is_lost(
    repository: Repository, faulty: FaultyService, concurrency: str
) -> None:
    """A service that accepts and then drops every second send has texted all once, and the run knows it."""
    phones = repository.write_campaign(60)
    faulty.decide = lambda number, _: {} if number % 2 else {"end": "drop"}
    applied = repository.apply(*JSON, "--concurrency", concurrency)
    assert applied.code == 0
    assert list_counts(applied)["recipients_sent"] == 60
    assert_each_once(faulty, phones)
    guids = [launch["project_launch_guid"] for launch in read_lockfile(repository)["launches"]]
    assert sorted(guids) == sorted(faulty.guids)


UNCLEAR: tuple[Behaviour, ...] = (
    {"end": "drop"},
    {"end": "reset"},
    {"end": "half"},
    {"end": "noise"},
    {"status": 500},
    {"status": 302, "headers": {"Location": "/api/send"}},
    {"body": b"{}"},
    {"body": b"accepted"},
)


@pytest.mark.parametrize("accepts", [True, False])
def test_an_unknown_outcome_is_settled(
    repository: Repository,
    faulty: FaultyService,
    accepts: bool,  # noqa: FBT001  a column of the table
) -> None:
    """A launch that may have been accepted is looked up: it is adopted, or sent again as it was not."""
    count = 2 * len(UNCLEAR)
    phones = repository.write_campaign(count)

    def decide(number: int, _request: Request) -> Behaviour:
        is_unclear = number % 2 == 0 and number <= count
        return {**UNCLEAR[number // 2 - 1], "accepts": accepts} if is_unclear else {}

    faulty.decide = decide
    applied = repository.apply(*JSON, *ONE_BY_ONE)
    assert applied.code == 0
    assert list_counts(applied)["recipients_sent"] == count
    assert len(faulty.requests) == (count if accepts else count + len(UNCLEAR))
    assert_each_once(faulty, phones)
    assert len(read_lockfile(repository)["launches"]) == count


def test_an_unknown_outcome_is_held_while_nobody_can_be_asked(
    repository: Repository, faulty: FaultyService
) -> None:
    """As long as the service cannot be read nobody of a doubtful launch is texted again."""
    phones = repository.write_campaign(5)

    def drop_second(number: int, _request: Request) -> Behaviour:
        if number == 2:
            faulty.refuse_reads(404)
            return {"end": "drop"}
        return {}

    faulty.decide = drop_second
    applied = repository.apply(*JSON, *ONE_BY_ONE)
    assert applied.code == 4
    assert list_counts(applied) == {
        "sent": 4, "rejected": 0, "unknown": 1, "not_sent": 0, "recipients_sent": 4
    }  # fmt: skip
    assert repository.count_recipients() == {"sent": 4, "unknown": 1}
    assert repository.apply().code != 0
    assert len(faulty.requests) == 5
    faulty.refuse_reads(None)
    assert repository.apply().code == 0
    assert_each_once(faulty, phones)


def test_a_guid_that_comes_twice_proves_nothing(repository: Repository, faulty: FaultyService) -> None:
    """A guid names one launch: a send that is answered with an earlier one's is looked up like a lost one."""
    phones = repository.write_campaign(4)
    faulty.decide = lambda number, _request: (
        {} if number == 1 else {"body": json.dumps({"project_launch_guid": faulty.guids[0]}).encode()}
    )
    for _ in range(2):
        applied = repository.apply(*JSON, *ONE_BY_ONE)
        assert applied.code == 0
        assert_each_once(faulty, phones)
        launches = read_lockfile(repository)["launches"]
        assert sorted(launch["project_launch_guid"] for launch in launches) == sorted(faulty.guids)


def test_an_unreachable_service_leaves_everybody_planned(
    repository: Repository, faulty: FaultyService, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no connection comes about nothing is recorded as sent; once the service is back all are texted."""
    phones = repository.write_campaign(5)
    monkeypatch.setenv("RUNNER_BASE_URL", f"http://127.0.0.1:{closed_port}")
    applied = repository.apply(*JSON)
    assert applied.code == 1
    assert applied.err.startswith(
        "Error: the service cannot be asked (GET /api/stats/): it cannot be reached\n"
    )
    assert not repository.count_recipients()
    assert not repository.lockfile.exists()
    monkeypatch.setenv("RUNNER_BASE_URL", faulty.url)
    assert repository.apply().code == 0
    assert_each_once(faulty, phones)


def test_a_deleted_ledger_texts_nobody_again(repository: Repository, faulty: FaultyService) -> None:
    """The lockfile alone is enough to know who was texted."""
    phones = repository.write_campaign(4)
    assert repository.apply().code == 0
    before = repository.lockfile.read_bytes()
    shutil.rmtree(repository.ledger.parent)
    assert repository.apply().code == 0
    assert_each_once(faulty, phones)
    assert repository.lockfile.read_bytes() == before


def test_a_deleted_lockfile_texts_nobody_again(repository: Repository, faulty: FaultyService) -> None:
    """The ledger alone is enough to know who was texted, and writes the lockfile again."""
    phones = repository.write_campaign(4)
    assert repository.apply().code == 0
    before = repository.lockfile.read_bytes()
    repository.lockfile.unlink()
    assert repository.apply().code == 0
    assert_each_once(faulty, phones)
    assert repository.lockfile.read_bytes() == before


def test_an_edited_text_goes_to_new_people_alone(repository: Repository, faulty: FaultyService) -> None:
    """Editing the text never sends it again; new recipients get the new one (docs/delivery.md)."""
    repository.write_campaign(2)
    assert repository.apply().code == 0
    phones = repository.write_campaign(3)
    text = repository.campaign.read_text(encoding="utf-8").replace("Hello, how are you?", "Good evening")
    repository.campaign.write_text(text, encoding="utf-8")
    assert repository.apply().code == 0
    assert_each_once(faulty, phones)
    assert faulty.requests[-1].data == {"phone": [phones[2]], "tag": "pulse-2026", "text": "Good evening"}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (None, STATE_KEY, "was written without a RUNNER_STATE_KEY, and now there is one\n"),
        (STATE_KEY, None, "was written with a RUNNER_STATE_KEY, and none is set\n"),
        (STATE_KEY, OTHER_STATE_KEY, "was written with another RUNNER_STATE_KEY\n"),
    ],
)
def test_a_switched_state_key_texts_nobody_again(
    repository: Repository,
    faulty: FaultyService,
    monkeypatch: pytest.MonkeyPatch,
    before: str | None,
    after: str | None,
    words: str,
) -> None:
    """With another RUNNER_STATE_KEY than the record's nobody looks new: it stops, also without the ledger."""
    phones = repository.write_campaign(3)
    places = ("", "the ledger's record of live ", "the lockfile campaigns/pulse.live.lock.json ")
    for state_key, place in zip((before, after, after), places, strict=True):
        if state_key is None:
            monkeypatch.delenv("RUNNER_STATE_KEY", raising=False)
        else:
            monkeypatch.setenv("RUNNER_STATE_KEY", state_key)
        applied = repository.apply()
        assert applied.code == (1 if place else 0)
        assert applied.err.startswith(f"Error: {place}") or not place
        assert not place or words in applied.err
        assert "-for-tests" not in applied.err
        if place:
            shutil.rmtree(repository.ledger.parent)
    assert_each_once(faulty, phones)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            "<<<<<<< ours\n{}\n=======\n>>>>>>> theirs\n",
            "has merge conflict markers in it, around lines that were edited by hand",
        ),
        ('{"campaign": "pul', "is not JSON, or was edited by hand (line 1)"),
        ('{\n  "lockfile_version": 9\n}\n', "was written by a newer version of runner"),
    ],
)
def test_a_damaged_lockfile_stops_before_the_first_send(
    repository: Repository, faulty: FaultyService, damage: str, words: str
) -> None:
    """As long as it is unclear who was texted nobody is, and the file is left for git to restore."""
    repository.write_campaign(3)
    repository.lockfile.write_text(damage, encoding="utf-8")
    applied = repository.apply()
    assert applied.code == 1
    assert applied.out == ""
    assert applied.err.startswith(f"Error: the lockfile campaigns/{repository.lockfile.name} {words}\n")
    assert not faulty.requests
    assert repository.lockfile.read_text(encoding="utf-8") == damage


def test_a_file_in_the_way_of_the_ledger_stops(repository: Repository, faulty: FaultyService) -> None:
    """Without a ledger nothing is sent."""
    repository.write_campaign(3)
    (repository.folder / ".runner").write_text("in the way", encoding="utf-8")
    applied = repository.apply()
    assert applied.code == 1
    assert applied.err == (
        f"Error: the folder {repository.ledger.parent} cannot be made: File exists\n"
        "  check that this user may write there, or name another place with --ledger\n"
    )
    assert not faulty.requests


def test_a_damaged_ledger_stops(repository: Repository, faulty: FaultyService) -> None:
    """A ledger that is no database is not taken for an empty one."""
    repository.write_campaign(3)
    repository.ledger.parent.mkdir()
    repository.ledger.write_text("no database" * 100, encoding="utf-8")
    applied = repository.apply()
    assert applied.code == 1
    assert applied.err == (
        f"Error: the ledger sqlite:///{repository.ledger} cannot be used: file is not a database\n"
        "  move it away and run again: the ledger is filled from the lockfiles\n"
    )
    assert not faulty.requests


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_wrong_ledger_url_is_an_error_in_words(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A wrong RUNNER_LEDGER is the user's mistake, not a bug, for commands that read and that write."""
    repository.write_campaign(1)
    monkeypatch.setenv("RUNNER_LEDGER", "nonsense")
    done = repository.run(command)
    assert done.code == 1
    assert done.err == (
        "Error: the ledger's URL is not one that can be used here\n"
        "  as in sqlite:///path/to/ledger.sqlite, or postgresql+psycopg://…\n"
    )


@pytest.mark.slow
def test_a_ledger_that_fails_under_way_ends_the_run(repository: Repository, faulty: FaultyService) -> None:
    """What cannot be recorded is not sent: the run ends, and the next one looks up what was in flight."""
    phones = repository.write_campaign(12)

    def break_ledger(number: int, _request: Request) -> Behaviour:
        if number == 4:
            with closing(sqlite3.connect(repository.ledger, timeout=PATIENCE_S)) as connection:
                connection.execute(
                    "CREATE TRIGGER refuse BEFORE UPDATE ON launches BEGIN "
                    "SELECT RAISE(ABORT, 'database or disk is full'); END"
                )
        return {}

    faulty.decide = break_ledger
    applied = repository.apply("--concurrency", "2")
    assert applied.code == 1
    assert applied.err == (
        f"Error: the ledger sqlite:///{repository.ledger} cannot be used: database or disk is full\n"
        "  check that this user may write to the file and its folder, and that the disk has room; then run the same "
        "command again: nothing was sent that is not recorded\n"
    )
    with closing(sqlite3.connect(repository.ledger, timeout=PATIENCE_S)) as connection:
        connection.execute("DROP TRIGGER refuse")
    held = repository.count_recipients()
    # Outcomes are committed in groups: on a slow machine none was when the ledger broke.
    assert "intent" in held
    assert set(held) <= {"sent", "intent"}
    faulty.behave({})
    assert repository.apply().code == 0
    assert_each_once(faulty, phones)
    assert repository.count_recipients() == {"sent": len(phones)}


def test_a_lockfile_that_cannot_be_written_loses_nothing(
    repository: Repository, faulty: FaultyService, tmp_path: Path
) -> None:
    """When the lockfile's place is taken under way, all is in the ledger and the next run writes it."""
    phones = repository.write_campaign(3)

    def block(_number: int, _request: Request) -> Behaviour:
        (repository.lockfile / "in the way").mkdir(parents=True, exist_ok=True)
        return {}

    faulty.decide = block
    applied = repository.apply()
    assert applied.code == 1
    assert applied.err == (
        f"Error: the lockfile {repository.lockfile.relative_to(tmp_path)} cannot be read: Is a directory\n"
        "  the ledger has all that was sent; restore it with git; "
        "nothing is sent as long as it is unclear who was texted\n"
    )
    (repository.lockfile / "in the way").rmdir()
    repository.lockfile.rmdir()
    assert repository.apply().code == 0
    assert_each_once(faulty, phones)
    assert len(read_lockfile(repository)["launches"]) == 3


TIMES = {
    "not_before": "schedule: {timezone: UTC, not_before: 2020-01-01T09:00}",
    "expires": "schedule: {timezone: UTC, expires: 2999-01-01T09:00}",
    "quiet hours": "policy: {quiet_hours: legal, purpose: survey}",
    "cap": "policy: {frequency_cap: {messages: 9, within: 7d}}",
}


@pytest.mark.parametrize("hours", [-10, 10])
@pytest.mark.parametrize("rule", TIMES)
def test_a_clock_far_from_the_service_s_sends_nothing(
    repository: Repository, faulty: FaultyService, rule: str, hours: int
) -> None:
    """Where hours or dates decide, the machine's clock is compared with the service's before the first send."""
    repository.write_campaign(1)
    with repository.campaign.open("a", encoding="utf-8") as stream:
        stream.write(TIMES[rule])
    faulty.clock_s = hours * 3600
    # It is noon where the people are.
    with freeze_time("2026-11-24T20:00:00Z", tick=True):
        applied = repository.apply("--quiet")
    assert (applied.code, applied.out, faulty.requests) == (5, "", [])
    assert "pulse: its texts go by hours or dates, and this machine's clock is " in applied.err
    assert (
        " from the service's. Nothing of it was sent\n  set this machine's clock (`runner doctor`"
        in applied.err
    )


@pytest.mark.parametrize("rule", ["", TIMES["not_before"]])
def test_clocks_that_differ_little_or_do_not_matter(
    repository: Repository, faulty: FaultyService, rule: str
) -> None:
    """Four minutes keep nobody from a text, nor does a day where no hours are kept."""
    repository.write_campaign(1)
    with repository.campaign.open("a", encoding="utf-8") as stream:
        stream.write(rule)
    faulty.clock_s = 240 if rule else 86_400
    assert repository.apply("--quiet").code == 0
    assert faulty.accepted.total() == 1
