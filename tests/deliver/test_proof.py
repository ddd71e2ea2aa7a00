"""What counts as proof: an answer outranks a list, and a list that cannot show a launch proves nothing."""

from __future__ import annotations

import copy
import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.deliver.conftest import PHONES
from tests.deliver.machines import World, assert_everybody_once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tests.deliver.conftest import Applied, Behaviour, FaultyService, Repository, Request, StatJson

ONE_BY_ONE = ("--concurrency", "1")
A, B, C = PHONES[:3]
TEXT: dict[str, Any] = {"text": "Hello, how are you?"}
SURVEY: dict[str, Any] = {
    "introduction": "Hi!",
    "questions": [{"text": "How?", "tag": "how", "responses": ["good", "bad"]}],
}
_RUNS = 5


@dataclass(frozen=True)
class Sending:
    """A campaign that is sent to a faulty service, and what it wants each phone to get."""

    repository: Repository
    faulty: FaultyService

    def write(self, messages: Sequence[Mapping[str, Any]], phones: Sequence[str], **settings: Any) -> None:
        """Write the campaign file; `settings` are its other keys."""
        per_send = settings.pop("per_send", 1)
        document = {
            "version": 1,
            "name": "pulse",
            "tag": "pulse-2026",
            "recipients": [{"phone": phone} for phone in phones],
            "limits": {"recipients_per_send": per_send},
            "policy": {"open_session": "queue"},
            "messages": list(messages),
            **settings,
        }
        self.repository.campaign.parent.mkdir(exist_ok=True)
        self.repository.campaign.write_text(json.dumps(document), encoding="utf-8")

    def lose(self, *, keeps_lockfile: bool = False) -> None:
        """Lose the machine: the ledger, and unless it was committed, the lockfile."""
        if not keeps_lockfile:
            self.repository.lockfile.unlink(missing_ok=True)
        for file in self.repository.ledger.parent.glob("ledger*"):
            file.unlink()

    def run_to_rest(self) -> Applied:
        """Run until a run neither sends nor finds anything, and return it."""
        before = None
        for _ in range(_RUNS):
            applied = self.repository.apply(*ONE_BY_ONE)
            found = applied.code, len(self.faulty.requests)
            if found == before:
                break
            before = found
        return applied

    def check(self, wanted: Mapping[str, int], applied: Applied) -> None:
        """Nobody got more than is wanted, and if a run says that all is well, nobody got less."""
        assert all(count <= wanted[phone] for phone, count in self.faulty.accepted.items())
        if applied.code == 0:
            assert self.faulty.accepted == wanted


@pytest.fixture
def sending(repository: Repository, faulty: FaultyService) -> Sending:
    """A campaign to be written."""
    return Sending(repository, faulty)


def list_as(change: Callable[[int, StatJson], object]) -> Callable[[int, list[StatJson]], list[StatJson]]:
    """Return what lists launches as `change` makes them, given the place of each in order of acceptance."""

    def choose(_number: int, launches: list[StatJson]) -> list[StatJson]:
        listed = copy.deepcopy(launches)
        for place, launch in enumerate(listed):
            change(place, launch)
        return listed

    return choose


def leave_out(people: slice, *, counts: bool) -> Callable[[int, StatJson], object]:
    """Return what lists the first launch with some of its sessions, and with right counts or none."""

    def change(place: int, launch: StatJson) -> None:
        if place == 0:
            launch["num_active_sessions"] = len(launch["sessions"]) if counts else 0
            launch["sessions"] = launch["sessions"][people]

    return change


@pytest.mark.parametrize(
    "content", [TEXT, pytest.param(SURVEY, marks=pytest.mark.slow)], ids=["text", "survey"]
)
@pytest.mark.parametrize("accepts", [False, True], ids=["unaccepted", "accepted"])
@pytest.mark.parametrize("counts", [True, False], ids=["counted", "uncounted"])
@pytest.mark.parametrize("comes", ["late", "never"])
@pytest.mark.parametrize(
    "kind", ["second", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("follow-up", "variant"))]
)
def test_an_answer_outranks_a_list(
    sending: Sending, content: dict[str, Any], kind: str, comes: str, *, accepts: bool, counts: bool
) -> None:
    """A launch to A and B that was answered stays sent, though its list lacks B and another message says the same."""
    faulty = sending.faulty
    hello, again = {"id": "hello", **content}, {"id": "again", **content}
    sending.write([hello], [A, B], per_send=2)
    assert sending.repository.apply().code == 0
    faulty.choose_listed = list_as(leave_out(slice(1), counts=counts))
    settings: dict[str, Any] = {}
    if kind == "follow-up":
        again |= {"after": {"message": "hello", "wait": "0s"}}
    if kind == "variant":
        settings["variants"] = {"seed": "x", "of": "again", "arms": [{"id": "a"}, {"id": "b"}]}
    sending.write([hello, again], [A, B], **settings)
    faulty.decide = lambda _number, request: (
        {"end": "reset", "accepts": accepts} if request.data["phone"] == [A] else {}
    )
    first = sending.repository.apply(*ONE_BY_ONE)
    sending.check({A: 2, B: 2}, first)
    faulty.behave({})
    sending.check({A: 2, B: 2}, sending.run_to_rest())
    if comes == "late":
        faulty.choose_listed = lambda _number, launches: launches
        rested = sending.run_to_rest()
        assert (rested.code, faulty.accepted) == (0, {A: 2, B: 2})
    guids = {
        row[0]
        for row in sending.repository.query("SELECT project_launch_guid FROM launches WHERE state = 'sent'")
    }
    assert faulty.guids[0] in guids


@pytest.mark.parametrize(
    "counts", [pytest.param(True, id="counted"), pytest.param(False, id="uncounted", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "accepts",
    [
        (True, False),
        *(pytest.param(one, marks=pytest.mark.slow) for one in ((True, True), (False, True), (False, False))),
    ],
)
def test_two_lost_launches_in_the_same_words(
    sending: Sending, accepts: tuple[bool, bool], *, counts: bool
) -> None:
    """Of a launch to A and B and one to A, both without an answer, one that is listed for A alone may be either."""
    faulty = sending.faulty
    hello, again = {"id": "hello", **TEXT}, {"id": "again", **TEXT}
    sending.write([hello], [A, B], per_send=2)
    faulty.choose_listed = list_as(leave_out(slice(1), counts=counts) if accepts[0] else lambda *_: None)

    def lose(number: int, _request: Request) -> Behaviour:
        faulty.refuse_reads(500)
        return {"end": "drop", "accepts": accepts[number - 1]}

    faulty.decide = lose
    sending.repository.apply()
    # What is unclear bars nobody from another message that doesn't come after it.
    sending.write([hello, again], [A], per_send=1)
    faulty.refuse_reads(None)
    sending.repository.apply("--only", "again")
    faulty.refuse_reads(None)
    faulty.behave({})
    sending.write([hello, again], [A, B])
    sending.check({A: 2, B: 2}, sending.run_to_rest())
    faulty.choose_listed = lambda _number, launches: launches
    sending.check({A: 2, B: 2}, sending.run_to_rest())


REFUSALS = (400, 404, 405, 406, 410, 411, 413, 414, 415, 422, 431)


@pytest.mark.parametrize(
    "status", [*REFUSALS[:2], *(pytest.param(x, marks=pytest.mark.slow) for x in REFUSALS[2:])]
)
@pytest.mark.parametrize(
    "content", [TEXT, pytest.param(SURVEY, marks=pytest.mark.slow)], ids=["text", "survey"]
)
def test_what_was_refused_is_looked_for(sending: Sending, status: int, content: dict[str, Any]) -> None:
    """A 4xx after accepting, listed late, is adopted: nothing that has left is sent again without proof."""
    faulty = sending.faulty
    sending.write([{"id": "hello", **content}], [A, B, C])
    faulty.decide = lambda number, _request: {"status": status} if number < 3 else {}
    late = [len(faulty.reads)]

    def list_late(number: int, launches: list[StatJson]) -> list[StatJson]:
        # From the second list of the second run on.
        return launches if number > late[0] + 3 else launches[2:]

    faulty.choose_listed = lambda _number, launches: launches[2:]
    assert sending.repository.apply(*ONE_BY_ONE).code == 3
    late[0] = len(faulty.reads)
    faulty.choose_listed = list_late
    faulty.behave({})
    rested = sending.run_to_rest()
    assert (rested.code, faulty.accepted) == (0, {A: 1, B: 1, C: 1})


@pytest.mark.slow
def test_another_machine_looks_for_what_was_refused(
    tmp_path: Path, service_env: dict[str, str], faulty: FaultyService
) -> None:
    """A launch that one machine saw refused, and that is listed late, is not sent by the next one."""
    world = World(tmp_path / "world", service_env)
    first, second = world.clone("first"), world.clone("second")
    faulty.decide = lambda number, _request: {"status": 422} if number < 3 else {}
    faulty.choose_listed = lambda _number, launches: launches[2:]
    assert first.apply(*ONE_BY_ONE).returncode == 3
    faulty.behave({})
    before = len(faulty.reads)
    faulty.choose_listed = lambda number, launches: launches if number > before + 3 else launches[2:]
    done = second.apply()
    assert (done.returncode, done.stderr) == (0, "")
    assert_everybody_once(world, faulty)
    assert first.apply().returncode == 0
    assert_everybody_once(world, faulty)


@pytest.mark.slow
@pytest.mark.parametrize("status", [200, 422])
def test_on_postgresql(
    sending: Sending, postgres_ledger: str, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """A shared ledger holds to the same: an answer outranks a list, and a refused launch is looked for."""
    monkeypatch.setenv("RUNNER_LEDGER", postgres_ledger)
    faulty = sending.faulty
    hello, again = {"id": "hello", **TEXT}, {"id": "again", **TEXT}
    sending.write([hello], [A, B], per_send=2)
    faulty.behave({"status": status})
    sending.repository.apply()
    faulty.choose_listed = list_as(leave_out(slice(1), counts=False))
    faulty.decide = lambda _number, request: (
        {"end": "reset", "accepts": False} if request.data["phone"] == [A] else {}
    )
    sending.write([hello, again], [A, B])
    sending.check({A: 2, B: 2}, sending.repository.apply(*ONE_BY_ONE))
    faulty.behave({})
    sending.check({A: 2, B: 2}, sending.run_to_rest())
    faulty.choose_listed = lambda _number, launches: launches
    sending.check({A: 2, B: 2}, sending.run_to_rest())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("message", "code"), [("hello", 0), ("again", 1)], ids=["same message", "another message"]
)
def test_a_guid_that_was_given_twice_is_settled_by_a_person(
    sending: Sending, message: str, code: int
) -> None:
    """A launch whose guid another one was given is held; a person has it recorded with that one, or sent."""
    faulty = sending.faulty
    sending.write([{"id": "hello", **TEXT}, {"id": "again", **TEXT}], [A, B])

    def name_wrongly(number: int, _request: Request) -> Behaviour:
        if number == 1:
            return {"end": "drop"}
        return {"body": json.dumps({"project_launch_guid": faulty.guids[0]}).encode(), "accepts": False}

    faulty.decide = name_wrongly
    assert sending.repository.apply(*ONE_BY_ONE, "--only", "hello").code == 4
    with closing(sqlite3.connect(sending.repository.ledger)) as connection, connection:
        ((sent,),) = connection.execute("SELECT id FROM launches WHERE state = 'sent'").fetchall()
        connection.execute("UPDATE launches SET message = ?, recipients = 9 WHERE id = ?", [message, sent])
        connection.execute("UPDATE deliveries SET message = ? WHERE launch_id = ?", [message, sent])
    said = sending.repository.run("resolve", "--adopt", faulty.guids[0])
    assert said.code == code, said.err
    if code:
        assert "on record" in said.err
        words = said.err.split("have it sent: runner ")[1].split()
        assert sending.repository.run(*words).code == 0
    faulty.behave({})
    done = sending.repository.apply("--only", "hello")
    assert faulty.accepted[A] == 1 + code, done


@pytest.mark.slow
def test_what_was_refused_and_is_absent_is_sent_again(sending: Sending) -> None:
    """Two lists without a refused launch are proof, once: it is sent again, and not looked for a third time."""
    faulty = sending.faulty
    sending.write([{"id": "hello", **TEXT}], [A, B])
    faulty.decide = lambda number, _request: {"status": 422, "accepts": False} if number == 1 else {}
    assert sending.repository.apply(*ONE_BY_ONE).code == 3
    faulty.behave({})
    assert sending.run_to_rest().code == 0
    assert faulty.accepted == {A: 1, B: 1}
    before = len(faulty.reads)
    assert sending.repository.apply().out == "pulse: nothing sent.\n"
    assert len(faulty.reads) == before


def write_without_country(phone: str) -> str:
    """Write +14155550100 as 4155550100."""
    return phone[2:]


def write_last_digits(phone: str) -> str:
    """Write +14155551100 as 1100."""
    return phone[-4:]


def write_with_zeros(phone: str) -> str:
    """Write +14155550100 as 0014155550100."""
    return f"00{phone[1:]}"


def write_from_abroad(phone: str) -> str:
    """Write +14155550100 as 01114155550100."""
    return f"011{phone[1:]}"


def write_masked(phone: str) -> str:
    """Write +14155550100 as +1415*****00."""
    return f"{phone[:5]}*****{phone[-2:]}"


FORMS = [write_without_country, write_last_digits, write_with_zeros, write_from_abroad, write_masked]
DIGITS = tuple(f"+1415555{number}" for number in range(1100, 1106))


def write_phones(form: Callable[[str], str]) -> Callable[[int, list[StatJson]], list[StatJson]]:
    """Return what lists phones in another form."""

    def change(_place: int, launch: StatJson) -> None:
        for session in launch["sessions"]:
            session["to"] = form(session["to"])

    return list_as(change)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("known", [2, *(pytest.param(known, marks=pytest.mark.slow) for known in (0, 4))])
@pytest.mark.parametrize("record", ["kept", "lost", pytest.param("edited", marks=pytest.mark.slow)])
def test_people_who_cannot_be_matched_are_held(
    sending: Sending, form: Callable[[str], str], known: int, record: str
) -> None:
    """A list with other forms of numbers proves nothing: nobody who was texted is texted again."""
    faulty = sending.faulty
    sending.write([{"id": "hello", **TEXT}], DIGITS)
    faulty.choose_listed = write_phones(form)
    faulty.decide = lambda number, _request: {"end": "drop"} if number > known else {}
    sending.check(dict.fromkeys(DIGITS, 1), sending.repository.apply(*ONE_BY_ONE))
    faulty.behave({})
    if record != "kept":
        sending.lose()
    if record == "edited":
        sending.write([{"id": "hello", "text": "Good morning!"}], DIGITS)
    sending.check(dict.fromkeys(DIGITS, 1), sending.run_to_rest())
    assert faulty.accepted == dict.fromkeys(DIGITS, 1)


def drop_tag(_place: int, launch: StatJson) -> None:
    """List a launch without its tag, which its definition has."""
    launch["project_tag"] = ""


def drop_tags(_place: int, launch: StatJson) -> None:
    """List a launch without any tag."""
    launch["project_tag"] = ""
    launch["project_definition"].pop("tag", None)


@pytest.mark.parametrize("change", [drop_tag, drop_tags])
@pytest.mark.parametrize("some", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("record", ["kept", "lost", "edited"])
def test_launches_without_their_tag(
    sending: Sending, change: Callable[[int, StatJson], None], record: str, *, some: bool
) -> None:
    """Launches that are listed without their tag are found in the list of all tags."""
    faulty = sending.faulty
    phones = PHONES[:4]
    sending.write([{"id": "hello", **TEXT}], phones)
    faulty.decide = lambda number, _request: {"end": "drop"} if number > 2 else {}
    faulty.choose_listed = list_as(
        lambda place, launch: change(place, launch) if place > 1 or not some else None
    )
    sending.check(dict.fromkeys(phones, 1), sending.repository.apply(*ONE_BY_ONE))
    faulty.behave({})
    if record != "kept":
        sending.lose()
    if record == "edited":
        sending.write([{"id": "hello", "text": "Good morning!"}], phones)
    sending.check(dict.fromkeys(phones, 1), sending.run_to_rest())
    assert faulty.accepted == dict.fromkeys(phones, 1)


@pytest.mark.slow
def test_an_empty_list_of_all_tags_is_no_proof(sending: Sending) -> None:
    """An empty list for the tag of a follow-up proves nothing where launches under another tag are missing, too."""
    faulty = sending.faulty
    hello = {"id": "hello", **TEXT}
    follow = {
        "id": "again",
        "tag": "pulse-again",
        "text": "And now?",
        "after": {"message": "hello", "wait": "0s"},
    }
    sending.write([hello], [A, B])
    assert sending.repository.apply().code == 0
    sending.write([hello, follow], [A, B])
    faulty.choose_listed = lambda _number, _launches: []
    faulty.behave({"end": "drop"})
    assert sending.repository.apply(*ONE_BY_ONE).code != 0
    sending.check({A: 2, B: 2}, sending.run_to_rest())
    faulty.choose_listed = lambda _number, launches: launches
    rested = sending.run_to_rest()
    assert (rested.code, faulty.accepted) == (0, {A: 2, B: 2})


@pytest.mark.slow
@pytest.mark.parametrize("content", [TEXT, {"text": "Good morning!"}], ids=["same", "edited"])
@pytest.mark.parametrize("lockfile", ["kept", "older", "lost"])
def test_a_tag_that_was_changed_around_a_lost_machine(
    sending: Sending, content: dict[str, Any], lockfile: str
) -> None:
    """What a lost machine has sent under another tag has reached these people: they are held, whatever it said."""
    faulty, phones = sending.faulty, PHONES[:8]
    hello = [{"id": "hello", **TEXT}]
    sending.write(hello, phones[:4], tag="tag-c")
    assert sending.repository.apply().code == 0
    older = sending.repository.lockfile.read_bytes()
    sending.write(hello, phones[:6], tag="tag-d")
    assert sending.repository.apply().code == 0
    sending.lose(keeps_lockfile=lockfile == "kept")
    if lockfile == "older":
        sending.repository.lockfile.write_bytes(older)
    sending.write([{"id": "hello", **content}], phones, tag="tag-c")
    rested = sending.run_to_rest()
    assert faulty.accepted == dict.fromkeys(phones, 1)
    assert rested.code == (0 if lockfile == "kept" else 4)


@pytest.mark.slow
def test_a_ledger_that_is_behind_looks_under_all_tags(sending: Sending) -> None:
    """A ledger that lacks launches of the lockfile may lack more, which a machine that is lost has sent."""
    faulty, phones = sending.faulty, PHONES[:6]
    hello, ledger = [{"id": "hello", **TEXT}], sending.repository.ledger
    sending.write(hello, phones[:2], tag="tag-c")
    assert sending.repository.apply().code == 0
    older = {file: file.read_bytes() for file in ledger.parent.glob("ledger*")}
    sending.write(hello, phones[:3], tag="tag-c")
    assert sending.repository.apply().code == 0
    lockfile = sending.repository.lockfile.read_bytes()
    sending.write(hello, phones[:5], tag="tag-d")
    assert sending.repository.apply().code == 0
    sending.lose()
    for file, content in older.items():
        file.write_bytes(content)
    sending.repository.lockfile.write_bytes(lockfile)
    sending.write(hello, phones, tag="tag-c")
    assert sending.run_to_rest().code == 4
    assert faulty.accepted == dict.fromkeys(phones, 1)


def test_arms_with_tags_of_their_own(sending: Sending) -> None:
    """Arms that had tags of their own are known to have reached people, once the campaign is as before."""
    faulty, phones = sending.faulty, PHONES[:8]
    hello = [{"id": "hello", **TEXT}]
    arms = [{"id": "a", "tag": "arm-a"}, {"id": "b", "tag": "arm-b", "text": "Hi!"}]
    sending.write(hello, phones[:6], variants={"seed": "x", "of": "hello", "arms": arms})
    assert sending.repository.apply().code == 0
    sending.lose()
    sending.write(hello, phones)
    assert sending.run_to_rest().code == 4
    assert faulty.accepted == dict.fromkeys(phones, 1)


@pytest.mark.parametrize("where", ["ledger", "lockfile"])
def test_launches_of_other_campaigns_hold_nobody(sending: Sending, where: str) -> None:
    """A new campaign goes to people whom other campaigns on record have texted."""
    faulty = sending.faulty
    sending.write([{"id": "hello", **TEXT}], [A, B])
    assert sending.repository.apply().code == 0
    if where == "lockfile":
        sending.lose(keeps_lockfile=True)
    new = sending.repository.campaign.with_name("new.yaml")
    text = sending.repository.campaign.read_text(encoding="utf-8")
    new.write_text(text.replace("pulse", "new").replace("Hello", "Hey"), encoding="utf-8")
    assert sending.repository.apply(str(new)).code == 0
    assert faulty.accepted == {A: 2, B: 2}


def test_launches_older_than_the_history_hold_nobody(sending: Sending) -> None:
    """What is older than `settle_history` was no lost run of this campaign."""
    faulty = sending.faulty
    sending.write([{"id": "hello", **TEXT}], [A, B], tag="last-year")
    assert sending.repository.apply().code == 0
    faulty.launches[0]["project_launch_start"] = "2025-01-05T08:00:00.000000"
    sending.lose()
    sending.write([{"id": "hello", "text": "Hey"}], [A, B])
    assert sending.repository.apply().code == 4
    assert faulty.accepted == {A: 2, B: 1}


@pytest.mark.slow
def test_an_adopted_launch_takes_in_whom_a_later_list_adds(sending: Sending) -> None:
    """A lost launch to A and B that was first listed for A alone has reached B, who is not texted."""
    faulty = sending.faulty
    sending.write([{"id": "hello", **TEXT}], [A, B], per_send=2)
    assert sending.repository.apply().code == 0
    sending.lose()
    faulty.choose_listed = list_as(leave_out(slice(1), counts=False))
    sending.write([{"id": "hello", **TEXT}], [A], per_send=2)
    assert sending.repository.apply().out == "pulse: nothing sent.\n"
    faulty.choose_listed = lambda _number, launches: launches
    sending.write([{"id": "hello", **TEXT}], [A, B, C], per_send=2)
    assert sending.run_to_rest().code == 0
    assert faulty.accepted == {A: 1, B: 1, C: 1}
    (launch, _) = sorted(
        json.loads(sending.repository.lockfile.read_bytes())["launches"], key=lambda one: one["sent_at"]
    )
    assert len(launch["recipients"]) == 2
