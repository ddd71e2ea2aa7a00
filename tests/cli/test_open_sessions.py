"""People with an open survey (`policy.open_session`), on the sandbox, as a user meets them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from runner.plan.decisions import ENDS, IN_ORDER, QUEUES, SAME_RUN
from tests.cli.world import Project

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.world import Enter


ADA, BOB = "+14155550101", "+14155550102"
ASK = '{id: ask, questions: [{tag: why, text: "Why?"}, {tag: how, text: "How?"}]}'
NEWS = "{id: news, text: Some news}"
NUDGE = "{id: nudge, after: {message: ask, wait: 1d}, to: unanswered, text: Still there?}"
KINDS = {
    "ask": ((ASK,), ""),
    "news": ((NEWS,), ""),
    "several": ((NEWS, ASK), ""),
    "recorded": (("{id: news, text: Some news, replies: recorded}",), ""),
    "ending": ((ASK.replace("{id: ask,", "{id: ask, complete_existing_sessions: true,"),), ""),
    "completing": ((NEWS,), "policy: {open_session: complete}\n"),
    "queueing": ((ASK,), "policy: {open_session: queue}\n"),
}
UNREAD = (
    "`first` has sent them a survey, and whether it has ended was not read yet: run `runner reconcile` first"
)
OPEN = (
    "they have an open survey of `first`, as last read: this goes out once `runner reconcile` finds that it has "
    "ended; `open_session` in `policy` can end it instead"
)


class World(Project):
    """A repository with several campaigns."""

    def write(self, name: str, *messages: str, phones: tuple[str, ...] = (ADA,), rules: str = "") -> None:
        """Write a campaign."""
        people = ", ".join(f'{{phone: "{phone}"}}' for phone in phones)
        content = f"version: 1\nrecipients: [{people}]\nmessages:\n" + "".join(f"  - {m}\n" for m in messages)
        (self.folder / f"campaigns/{name}.yaml").write_text(content + rules, encoding="utf-8")

    def apply(self, *names: str) -> dict[str, int]:
        """Send; return how many each campaign reached."""
        paths = [f"campaigns/{name}.yaml" for name in names]
        done = self.check(self.run("apply", "--auto-approve", "--format", "json", *paths), "apply")
        return {one["name"]: one["recipients_sent"] for one in done["campaigns"]}

    def plan(self, name: str) -> dict[str, tuple[int, int, list[str]]]:
        """Return of each message who is sent to, who waits behind an open survey, and the reasons."""
        text = self.run("plan", "--format", "json", f"campaigns/{name}.yaml")
        return {
            one["id"]: (one["to_send"], one["open_session"], [each["reason"] for each in one["reasons"]])
            for one in self.check(text, "plan")["campaigns"][0]["messages"]
        }

    def count_status(self, name: str) -> list[dict[str, Any]]:
        """Return what `runner status` says of each message of a campaign."""
        text = self.run("status", "--format", "json", f"campaigns/{name}.yaml")
        messages: list[dict[str, Any]] = self.check(text, "status")["campaigns"][0]["messages"]
        return messages

    def list_sessions(self, phone: str = ADA) -> list[tuple[str, str | None]]:
        """Return the sessions that a person has had at the service, each with its state and why it ended."""
        return self.select(
            "SELECT status, sub_status FROM session JOIN participant ON participant.id = participant_id "
            "WHERE phone = ? ORDER BY session.id",
            phone,
        )


@pytest.fixture
def world(enter: Enter) -> World:
    """A repository without campaigns."""
    return enter(World)


@pytest.mark.slow
def test_a_survey_waits_for_the_end_of_another_one(world: World) -> None:
    """It is deferred, with its reason, until the open one has ended and that was read; then it goes out."""
    world.write("first", ASK)
    world.write("second", ASK)
    assert world.apply("first") == {"first": 1}
    assert world.plan("second") == {"ask": (0, 1, [UNREAD])}
    told = world.run("apply", "--auto-approve", "campaigns/second.yaml")
    assert told == "second: nothing sent, 1 person behind an open survey.\n"
    world.run("reconcile", "campaigns/first.yaml")
    assert world.plan("second") == {"ask": (0, 1, [OPEN])}
    world.reply(ADA, "Because", "Well")
    assert world.plan("second") == {"ask": (0, 1, [OPEN])}
    world.run("reconcile", "campaigns/first.yaml")
    assert world.plan("second") == {"ask": (1, 0, [])}
    assert world.apply("second") == {"second": 1}
    assert world.list_sessions() == [("COMPLETE", None), ("ACTIVE", None)]


def test_status_counts_who_waits_behind_an_open_survey(world: World) -> None:
    """They are neither planned nor deferred, and have a column of their own where there are any."""
    world.write("first", ASK)
    world.write("second", NEWS, phones=(ADA, BOB))
    assert "open session" not in world.run("status", "campaigns/second.yaml")
    world.apply("first")
    shown = world.run("status", "campaigns/second.yaml")
    assert shown.splitlines()[2].split()[2:6] == ["to", "send", "open", "session"]
    (status,) = world.count_status("second")
    assert [status[name] for name in ("planned", "deferred", "open_session", "no_rule")] == [1, 0, 1, 0]


@pytest.mark.slow
def test_with_queue_a_survey_goes_and_the_plan_says_what_that_risks(world: World) -> None:
    """`open_session: queue` sends at once; the service holds the question back until the first has ended."""
    world.write("first", ASK)
    world.write("second", ASK, rules="policy: {open_session: queue}\n")
    world.apply("first")
    assert world.plan("second") == {"ask": (1, 0, [QUEUES])}
    assert f"1 person to send: {QUEUES}" in world.run("plan", "campaigns/second.yaml")
    assert world.apply("second") == {"second": 1}
    assert world.list_sessions() == [("ACTIVE", None), ("QUEUED", None)]


@pytest.mark.slow
def test_only_those_whose_own_survey_is_open_wait(world: World) -> None:
    """Of a launch to several people, who has ended it gets the next message, the others wait."""
    world.write("first", ASK, phones=(ADA, BOB))
    world.write("second", NEWS, phones=(ADA, BOB))
    world.apply("first")
    world.reply(ADA, "Because", "Well")
    world.run("reconcile", "campaigns/first.yaml")
    assert world.plan("second") == {"news": (1, 1, [OPEN])}
    world.apply("second")
    assert world.list_sessions(ADA) == [("COMPLETE", None), ("COMPLETE", None)]
    assert world.list_sessions(BOB) == [("ACTIVE", None)]
    world.reply(BOB, "Because", "Well")
    world.run("reconcile", "campaigns/first.yaml")
    assert world.plan("second") == {"news": (1, 0, [])}


@pytest.mark.slow
def test_of_two_messages_of_a_run_the_second_waits(world: World) -> None:
    """A survey and a text at once would queue at the service; both go out, one after the other's end."""
    world.write("first", ASK, NEWS)
    assert world.plan("first") == {"ask": (1, 0, []), "news": (0, 1, [SAME_RUN])}
    assert world.apply("first") == {"first": 1}
    assert world.plan("first") == {"ask": (0, 0, []), "news": (0, 1, [UNREAD])}
    world.reply(ADA, "Because", "Well")
    world.run("reconcile")
    assert world.apply("first") == {"first": 1}
    assert world.list_sessions() == [("COMPLETE", None), ("COMPLETE", None)]


@pytest.mark.parametrize(
    "last",
    [NEWS.replace("news", "last"), NEWS.replace("news", "last")[:-1] + ", complete_existing_sessions: true}"],
)
def test_nothing_overtakes_a_message_that_waits_for_the_next_run(world: World, last: str) -> None:
    """What comes after it in the file waits with it, in the order of the file; also what would end the survey."""
    world.write("first", NEWS, ASK, last)
    held = {"news": (1, 0, []), "ask": (0, 1, [SAME_RUN]), "last": (0, 1, [IN_ORDER])}
    assert world.plan("first") == held
    world.apply("first")
    assert [world.plan("first")[name][0] for name in ("ask", "last")] == [1, int("complete" in last)]


def test_a_campaign_waits_for_another_one_of_the_same_run(world: World) -> None:
    """Who is to get a survey from the first waits at the second, and after the run until that was read."""
    world.write("first", ASK, phones=(ADA,))
    world.write("second", ASK, phones=(ADA, BOB))
    done = json.loads(world.run("apply", "--auto-approve", "--format", "json"))
    counts = {one["name"]: (one["recipients_sent"], one["open_session"]) for one in done["campaigns"]}
    assert counts == {"first": (1, 0), "second": (1, 1)}
    assert world.list_sessions(ADA) == [("ACTIVE", None)]
    assert world.plan("second") == {"ask": (0, 1, [UNREAD])}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("ask", "ask", "ask"), [(4, 0), (2, 2), (1, 3)]),
        (("ask", "news", "ask"), [(4, 0), (2, 2), (2, 2)]),
        (("news", "ask", "news"), [(4, 0), (4, 0), (2, 2)]),
        (("news", "news", "ask"), [(4, 0), (4, 0), (4, 0)]),
        (("ask", "ending", "news"), [(4, 0), (4, 0), (1, 3)]),
        (("ask", "completing", "news"), [(4, 0), (4, 0), (2, 2)]),
        (("ask", "completing", "queueing"), [(4, 0), (4, 0), (4, 0)]),
        (("queueing", "several", "ask"), [(4, 0), (2, 6), (2, 2)]),
        (("recorded", "news", "completing"), [(4, 0), (2, 2), (4, 0)]),
    ],
)
def test_a_plan_foresees_what_its_own_campaigns_ask(
    world: World, kinds: tuple[str, ...], expected: list[tuple[int, int]]
) -> None:
    """Of campaigns that share people the saved plan counts what is then sent, message by message."""
    names = ("first", "second", "third")
    phones = [f"+141555501{number:02}" for number in range(1, 8)]
    for place, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        # By the bits of their numbers, somebody is in each of the campaigns, and in each pair of them.
        people = tuple(phone for number, phone in enumerate(phones, 1) if number >> place & 1)
        messages, rules = KINDS[kind]
        world.write(name, *messages, phones=people, rules=rules)
    saved = json.loads(world.run("plan", "--format", "json", "--out", "plan.json"))
    assert add_up(saved, "to_send") == expected
    assert add_up(json.loads(world.run("status", "--format", "json")), "planned") == expected
    done = json.loads(world.run("apply", "--plan", "plan.json", "--format", "json"))
    assert [(one["recipients_sent"], one["open_session"]) for one in done["campaigns"]] == expected


def test_what_is_not_sent_now_holds_nobody(world: World) -> None:
    """Neither a survey that is paused nor one that breaks a limit makes later campaigns wait."""
    world.write("first", ASK)
    world.write("second", ASK, phones=(ADA, BOB), rules="limits: {recipients: 1}\n")
    world.write("third", NEWS, phones=(ADA, BOB))
    world.run("pause", "first")
    planned = json.loads(world.run("plan", "--format", "json", code=5))
    assert [each["messages"][0]["open_session"] for each in planned["campaigns"]] == [0, 0, 0]


def add_up(document: dict[str, Any], column: str) -> list[tuple[int, int]]:
    """Return of each campaign how many texts are in a column, and how many wait behind an open survey."""
    return [
        (sum(one[column] for one in each["messages"]), sum(one["open_session"] for one in each["messages"]))
        for each in document["campaigns"]
    ]


def test_a_reminder_waits_until_the_survey_has_ended(world: World) -> None:
    """Without `complete_existing_sessions` it would queue behind the very survey that it is about."""
    world.write("first", ASK, NUDGE)
    world.apply("first")
    world.run("sandbox", "clock", "+25h")
    world.run("reconcile")
    assert world.plan("first")["nudge"] == (0, 1, [OPEN])
    assert "Nothing to send now; up to 1 text later (1 more person). Behind an open survey: 1" in world.run(
        "plan"
    )
    world.run("sandbox", "clock", "+7d")
    world.run("reconcile")
    assert world.plan("first")["nudge"] == (1, 0, [])


def test_what_only_a_lockfile_tells_counts_as_not_read(world: World) -> None:
    """A machine with an empty ledger plans and sends by the same rule: nothing was read of that survey."""
    world.write("first", ASK)
    world.apply("first")
    world.write("first", ASK, NEWS)
    (world.folder / ".runner/ledger.sqlite").unlink()
    assert world.plan("first") == {"ask": (0, 0, []), "news": (0, 1, [UNREAD])}
    assert world.apply("first") == {"first": 0}
    assert world.plan("first") == {"ask": (0, 0, []), "news": (0, 1, [UNREAD])}


@pytest.mark.slow
def test_a_survey_that_only_the_lockfile_of_another_campaign_tells_of_counts(world: World) -> None:
    """A machine with an empty ledger that sends one campaign by its path reads the lockfiles beside it."""
    world.write("first", ASK, phones=(ADA,))
    world.write("plain", NEWS, phones=(BOB,))
    world.apply("first", "plain")
    world.write("second", NEWS, phones=(ADA, BOB))
    (world.folder / ".runner/ledger.sqlite").unlink()
    assert world.plan("second") == {"news": (1, 1, [UNREAD])}
    assert world.apply("second") == {"second": 1}
    assert world.list_sessions(ADA) == [("ACTIVE", None)]
    # The ledger has only the second campaign now, and reads the first one by its lockfile still.
    world.write("third", NEWS)
    assert world.plan("third") == {"news": (0, 1, [UNREAD])}


@pytest.mark.slow
def test_nothing_is_accepted_after_the_end_by_a_slow_service(
    world: World, serve_process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that takes 1.5 s is sent nothing in the last seconds: what it accepts lies before `expires`."""
    phones = tuple(f"+1415555{number:04}" for number in range(100, 140))
    with serve_process(world.folder, "--db", "slow.sqlite", "--latency", "1.5s") as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        end = (datetime.now(UTC) + timedelta(seconds=25)).replace(microsecond=0)
        rules = (
            f"schedule: {{expires: {end:%Y-%m-%dT%H:%M:%S}, timezone: UTC}}\n"
            "limits: {recipients_per_send: 1}\n"
        )
        world.write("first", NEWS, phones=phones, rules=rules)
        (done,) = json.loads(world.run("apply", "--auto-approve", "--concurrency", "1", "--format", "json"))[
            "campaigns"
        ]
    with closing(sqlite3.connect(world.folder / "slow.sqlite")) as connection:
        rows = connection.execute("SELECT started FROM launch ORDER BY started").fetchall()
    accepted = [datetime.fromisoformat(str(row[0])).replace(tzinfo=UTC) for row in rows]
    assert 0 < len(accepted) < len(phones)
    assert (done["sent"], done["sent"] + done["deferred"] + done["expired"]) == (len(accepted), len(phones))
    # The next answer may take twice as long as the slowest before: one that takes longer, nobody foresees.
    gaps = [later - earlier for earlier, later in pairwise(accepted)]
    is_foreseen = not gaps or gaps[-1] <= 2 * max(gaps[:-1], default=timedelta(seconds=1.5))
    assert accepted[-1 if is_foreseen else -2] < end


def test_a_survey_that_expires_holds_nobody_any_more(world: World) -> None:
    """The service ends what nobody answers; once that is read, the next message goes out."""
    world.write("first", ASK)
    world.write("second", NEWS)
    world.apply("first")
    world.run("sandbox", "clock", "+8d")
    assert world.plan("second") == {"news": (0, 1, [UNREAD])}
    world.run("reconcile", "campaigns/first.yaml")
    assert world.plan("second") == {"news": (1, 0, [])}


def test_with_complete_a_survey_ends_the_other_one(world: World) -> None:
    """`open_session: complete` ends what is open, and the plan counts who loses it."""
    world.write("first", ASK, phones=(ADA,))
    world.write("second", ASK, phones=(ADA, BOB), rules="policy: {open_session: complete}\n")
    world.apply("first")
    assert world.plan("second") == {"ask": (2, 0, [ENDS])}
    assert f"1 person to send: {ENDS}" in world.run("plan", "campaigns/second.yaml")
    assert world.apply("second") == {"second": 2}
    assert world.list_sessions() == [("COMPLETE", "REPLACED"), ("ACTIVE", None)]


def test_a_message_that_completes_by_itself_does_not_wait(world: World) -> None:
    """`complete_existing_sessions: true` needs no policy; `false` holds against `open_session: complete`."""
    world.write("first", ASK)
    world.write("second", "{id: news, text: Some news, complete_existing_sessions: true}")
    never = "{id: news, text: Some news, complete_existing_sessions: false}"
    world.write("third", never, rules="policy: {open_session: complete}\n")
    world.apply("first")
    assert world.plan("second") == {"news": (1, 0, [ENDS])}
    assert world.plan("third") == {"news": (0, 1, [UNREAD])}


def test_a_plain_text_holds_nobody(world: World) -> None:
    """It is over as soon as it is sent, whether or not that was read."""
    world.write("first", NEWS)
    world.write("second", ASK)
    world.apply("first")
    assert world.plan("second") == {"ask": (1, 0, [])}


def test_a_text_before_a_survey_goes_alone_too(world: World) -> None:
    """Of a survey and another message, one goes in a run; the survey is for the next one."""
    world.write("first", NEWS, ASK)
    assert world.plan("first") == {"news": (1, 0, []), "ask": (0, 1, [SAME_RUN])}
    assert world.apply("first") == {"first": 1}
    assert world.apply("first") == {"first": 1}
    assert world.list_sessions() == [("COMPLETE", None), ("ACTIVE", None)]


def test_two_plain_texts_of_a_run_both_go(world: World) -> None:
    """Neither holds the other back."""
    world.write("first", NEWS, "{id: more, text: More news}")
    assert world.apply("first") == {"first": 2}


def test_the_plan_names_the_campaign_of_the_run_that_they_wait_for(world: World) -> None:
    """The reason is that of the first campaign that asks them, and what is on record goes before it."""
    for name in ("first", "second", "third"):
        world.write(name, ASK, phones=(ADA,))
    planned = json.loads(world.run("plan", "--format", "json"))["campaigns"]
    reason = "`first` sends them a survey in this run: this waits until that has ended"
    assert [each["messages"][0]["reasons"] for each in planned] == [
        [],
        *[[{"reason": reason, "recipients": 1}]] * 2,
    ]
    world.apply("first")
    for each in json.loads(world.run("plan", "--format", "json"))["campaigns"][1:]:
        assert each["messages"][0]["reasons"] == [{"reason": UNREAD, "recipients": 1}]


def test_a_reminder_that_completes_the_survey_goes_out(world: World) -> None:
    """That it ends the survey that it comes after is no loss to tell of."""
    world.write("first", ASK, NUDGE.replace("text:", "complete_existing_sessions: true, text:"))
    world.apply("first")
    world.run("sandbox", "clock", "+25h")
    world.run("reconcile")
    assert world.plan("first")["nudge"] == (1, 0, [])
    world.apply("first")
    assert world.list_sessions() == [("COMPLETE", "REPLACED"), ("COMPLETE", None)]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["no file", "an invalid file", "a damaged lockfile"])
def test_another_campaign_that_cannot_be_read_stops_none(world: World, fault: str) -> None:
    """Its lockfile says whom it asks something; without it nobody knows, and its own plan says what is wrong."""
    world.write("first", ASK)
    world.apply("first")
    world.write("second", NEWS)
    (world.folder / ".runner/ledger.sqlite").unlink()
    file = world.folder / "campaigns/first.yaml"
    if fault == "no file":
        file.unlink()
    else:
        damaged = file if fault == "an invalid file" else file.with_name("first.sandbox.lock.json")
        damaged.write_text("{", encoding="utf-8")
    expected = (1, 0, []) if fault == "a damaged lockfile" else (0, 1, [UNREAD])
    assert world.plan("second") == {"news": expected}


def test_a_plain_text_that_only_a_lockfile_tells_of_holds_nobody(world: World) -> None:
    """The campaign's file says that this message asks nothing."""
    world.write("first", NEWS)
    world.apply("first")
    world.write("first", NEWS, ASK)
    (world.folder / ".runner/ledger.sqlite").unlink()
    assert world.plan("first")["ask"] == (1, 0, [])
    assert world.apply("first") == {"first": 1}


def send_behind(world: World) -> list[str]:
    """Send a survey, another one behind it to the same six people, and have two of them come to it."""
    phones = [f"+1415555010{number}" for number in range(1, 7)]
    for name, rule in (("first", ""), ("second", "queue"), ("third", "complete")):
        rules = f"policy: {{open_session: {rule}}}\n" if rule else ""
        world.write(name, ASK, phones=tuple(phones), rules=rules)
    world.apply("first")
    world.apply("second")
    for phone in phones[:2]:
        world.reply(phone, "Because", "Well")
    return phones


def read_people(world: World, name: str) -> dict[str, Any]:
    """Return what a campaign's report says of people, once everything was read."""
    for each in ("first", "second", "third"):
        world.run("reconcile", f"campaigns/{each}.yaml")
    people: dict[str, Any] = json.loads(world.run("report", "--format", "json", f"campaigns/{name}.yaml"))[
        "people"
    ]
    return people


@pytest.mark.slow
def test_who_waited_until_the_survey_was_ended_was_not_texted(world: World) -> None:
    """An opt-out, or a later send, ends what waits: these people are apart, and have not opted out of it."""
    phones = send_behind(world)
    read_people(world, "second")
    world.reply(phones[0], "Because")
    world.reply(phones[5], "STOP")
    world.apply("third")
    people = read_people(world, "second")
    assert (people["sent"], people["texted"], people["withdrawn"], people["uncertain"]) == (6, 2, 4, 0)
    assert (people["answered"], people["response_rate"], people["opted_out"]) == (1, 0.5, 0)
    assert people["dispositions"]["refusal"] == 0
    assert people["dispositions"]["unknown_eligibility"] == 4
    first = read_people(world, "first")
    assert (first["texted"], first["opted_out"], first["withdrawn"]) == (6, 1, 0)


@pytest.mark.slow
def test_where_nobody_looked_it_is_not_known_who_was_texted(world: World) -> None:
    """Of surveys that were never seen open behind one that ended in the same way, nothing is taken for granted."""
    phones = send_behind(world)
    world.reply(phones[0], "Because")
    world.apply("third")
    people = read_people(world, "second")
    assert (people["texted"], people["withdrawn"], people["uncertain"]) == (2, 0, 4)
    told = world.run("report", "campaigns/second.yaml")
    assert "People of whom it is not known whether they were texted: 4." in told
    assert read_people(world, "first")["texted"] == 6
