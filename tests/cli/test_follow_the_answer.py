"""Follow-ups that go by an answer (`to: {question: …, values: …}`), on the sandbox, as a user meets them."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runner.plan.answer_rule import UNREAD
from tests.cli.world import ADA, ASK, BOB, CY, NPS, World

if TYPE_CHECKING:
    from collections.abc import Callable

    CheckJson = Callable[[str, str], dict[str, Any]]

VICTIM = Path(__file__).parents[1] / "torture/victim.py"
NUDGE = (
    f"{{id: nudge, after: {{message: ask, wait: 1d}}, to: unanswered, introduction: Still there?, "
    f"questions: [{NPS}], complete_existing_sessions: true}}"
)
WHY = "{id: why, after: {message: ask, wait: 1h}, to: {question: nps, values: 0-6}, text: Why?}"
LATE_WHY = WHY.replace("1h", "2d")
OTHER_VALUE = "their answer to `nps` has another value"
NO_ANSWER = "they have not answered `nps`"
NO_RESPONSE = "their answer to `nps` is none of its responses"


@pytest.mark.slow
def test_only_those_with_the_values_are_texted(world: World) -> None:
    """An hour after their answer, once it was read after that hour; the others are counted, and why."""
    world.write(ASK, WHY, phones=(ADA, BOB, CY))
    world.ask((ADA, "6"), (BOB, "7"))
    counts, reasons = world.explain()
    assert counts == {"deferred": 1, "not_qualified": 2}
    assert set(reasons) == {"the `wait` of the follow-up is not over", OTHER_VALUE, NO_ANSWER}
    world.pass_time("1h")
    assert world.explain()[0] == {"awaiting": 1, "not_qualified": 2}
    assert UNREAD in world.explain()[1]
    assert world.apply() == 0
    world.run("reconcile")
    assert world.explain()[0] == {"to_send": 1, "not_qualified": 2}
    assert world.apply() == 1
    assert [world.count_texts(phone) for phone in (ADA, BOB, CY)] == [1, 0, 0]
    assert world.apply() == 0


@pytest.mark.slow
def test_the_wait_counts_from_the_answer(world: World) -> None:
    """Not from the message that was answered."""
    world.write(ASK, WHY)
    world.apply()
    world.pass_time("3h")
    world.reply(ADA, "0")
    world.run("reconcile")
    assert world.explain()[0] == {"deferred": 1}
    world.pass_time("59m")
    world.run("reconcile")
    assert world.apply() == 0
    world.pass_time("2m")
    world.run("reconcile")
    assert world.apply() == 1


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second", "texted"), [("3", "9", 0), ("9", "3", 1)])
def test_the_latest_answer_counts(world: World, first: str, second: str, texted: int) -> None:
    """The answer to a reminder moves a person out of the condition, or into it, before the wait is over."""
    nudge = NUDGE.replace("unanswered", "everyone")
    world.write(ASK, nudge, LATE_WHY)
    world.ask((ADA, first))
    world.pass_time("25h")
    world.run("reconcile")
    world.ask((ADA, second))
    world.pass_time("2d")
    world.run("reconcile")
    assert world.apply() == texted
    assert world.count_texts(ADA) == texted


@pytest.mark.slow
def test_an_unread_answer_to_a_reminder_holds_the_follow_up(world: World) -> None:
    """Until the answers to all messages that ask were read after the wait, nobody is texted on an old one."""
    world.write(ASK, NUDGE.replace("unanswered", "everyone"), LATE_WHY)
    world.ask((ADA, "3"))
    world.pass_time("25h")
    world.apply()
    world.reply(ADA, "9")
    world.pass_time("2d")
    assert world.explain() == ({"awaiting": 1}, [UNREAD])
    assert world.apply() == 0
    world.run("reconcile")
    assert world.explain() == ({"not_qualified": 1}, [OTHER_VALUE])


@pytest.mark.slow
def test_a_reminder_brings_an_answer(world: World) -> None:
    """Who answers the reminder alone is followed up by that answer."""
    world.write(ASK, NUDGE, WHY)
    world.ask()
    assert world.explain() == ({"not_qualified": 1}, [NO_ANSWER])
    world.pass_time("25h")
    world.run("reconcile")
    world.ask((ADA, "2"))
    world.pass_time("1h")
    world.run("reconcile")
    assert world.apply() == 1
    assert world.count_texts(ADA) == 1


@pytest.mark.slow
def test_an_edited_answer_changes_nothing_that_was_sent(world: World) -> None:
    """After the text it changes nothing; before it, the answer as it is now decides."""
    world.write(ASK, WHY, phones=(ADA, BOB))
    world.ask((ADA, "3"), (BOB, "3"))
    world.edit(
        "UPDATE result SET answer = '10', response = '9', updated = '2031-01-01T00:00:00.000000' "
        "WHERE participant_id = (SELECT id FROM participant WHERE phone = ?)",
        BOB,
    )
    world.pass_time("1h")
    world.run("reconcile", "--full")
    assert world.explain()[0] == {"to_send": 1, "not_qualified": 1}
    assert world.apply() == 1
    world.edit("UPDATE result SET answer = '10', response = '9'")
    world.run("reconcile", "--full")
    assert world.explain()[0] == {"already_sent": 1, "not_qualified": 1}
    assert world.apply() == 0
    assert (world.count_texts(ADA), world.count_texts(BOB)) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("created", ["2099-01-01T00:00:00.000000", "yesterday"])
def test_an_answer_without_a_possible_time_counts_from_its_reading(world: World, created: str) -> None:
    """The wait begins when it was read, whatever the service says."""
    world.write(ASK, WHY)
    world.apply()
    world.reply(ADA, "3")
    world.edit("UPDATE result SET created = ?", created)
    world.pass_time("2h")
    world.run("reconcile")
    assert world.explain()[0] == {"deferred": 1}
    assert world.apply() == 0
    world.pass_time("1h")
    assert world.apply() == 1


@pytest.mark.slow
def test_a_text_in_the_place_of_a_response_is_no_value(world: World) -> None:
    """It is counted with its reason, and goes to no branch."""
    world.write(ASK, WHY, WHY.replace("why", "thanks").replace("0-6", "7-10"))
    world.apply()
    world.reply(ADA, "3")
    world.edit("UPDATE result SET answer = 'bad', response = 'bad, really'")
    world.pass_time("2h")
    world.run("reconcile")
    assert world.explain() == ({"not_qualified": 1}, [NO_RESPONSE])
    assert world.explain("thanks") == ({"not_qualified": 1}, [NO_RESPONSE])
    assert world.apply() == 0


@pytest.mark.slow
def test_each_arm_is_read_by_its_own_responses(world: World) -> None:
    """The same value stands in different words in the arms of an experiment."""
    ask = (
        '{id: ask, questions: [{tag: sat, text: "Well?", scale: csat, responses: '
        "[{text: Bad, value: 1}, {text: Good, value: 5}]}]}"
    )
    why = "{id: why, after: {message: ask, wait: 1h}, to: {question: sat, values: 1}, text: Why?}"
    arms = (
        "variants:\n  seed: s\n  of: ask\n  arms:\n    - {id: plain}\n    - {id: stars, questions: [{tag: sat, "
        'text: "Stars?", scale: csat, responses: [{text: Many, value: 5}, {text: Few, value: 1}]}]}\n'
    )
    phones = tuple(f"+1415555{number:04}" for number in range(110, 122))
    world.write(ask, why, phones=phones, rules=arms)
    # By their lines: 1 is "Bad" in one arm, and "Many" in the other.
    world.ask(*[(phone, "1") for phone in phones])
    world.pass_time("1h")
    world.run("reconcile")
    plan = json.loads(world.run("plan", "--format", "json"))["campaigns"][0]["messages"]
    assert 0 < world.apply() == plan[1]["to_send"] < len(phones)
    with closing(sqlite3.connect(world.folder / ".runner/sandbox/service.sqlite")) as connection:
        bad = connection.execute("SELECT count(*) FROM result WHERE response = 'Bad'").fetchone()[0]
    assert sum(world.count_texts(phone) for phone in phones) == bad


def test_a_response_is_named_by_its_text(world: World) -> None:
    """Where responses have no values, without regard to case."""
    ask = '{id: ask, questions: [{tag: when, text: "When?", responses: ["Call me", "Another day"]}]}'
    call = '{id: why, after: {message: ask, wait: 0s}, to: {question: when, values: ["call me"]}, text: Why?}'
    world.write(ask, call, phones=(ADA, BOB))
    world.ask((ADA, "1"), (BOB, "2"))
    assert world.explain() == (
        {"to_send": 1, "not_qualified": 1},
        ["their answer to `when` has another value"],
    )


@pytest.mark.slow
def test_an_answer_in_another_language_has_the_same_value(world: World) -> None:
    """A response is the same one in all languages, and named in the default one."""
    ask = (
        "{id: ask, questions: [{tag: when, text: {en: When?, es: ¿Cuándo?}, "
        "responses: [{en: Call me, es: Llámenme}, {en: Another day, es: Otro día}]}]}"
    )
    call = (
        "{id: why, after: {message: ask, wait: 0s}, to: {question: when, values: [call me]}, "
        "text: {en: Why?, es: ¿Por qué?}}"
    )
    world.write(ask, call, rules="languages: {default: en, known: [en, es]}\n")
    file = world.folder / "campaigns/pulse.yaml"
    people = f'[{{phone: "{ADA}", language: es}}, {{phone: "{BOB}", language: es}}]'
    file.write_text(
        file.read_text(encoding="utf-8").replace(f'[{{phone: "{ADA}"}}]', people), encoding="utf-8"
    )
    world.ask((ADA, "llámenme"), (BOB, "otro día"))
    assert world.apply() == 1
    assert (world.count_texts(ADA, "¿Por qué?"), world.count_texts(BOB, "¿Por qué?")) == (1, 0)


@pytest.mark.slow
def test_a_renamed_message_keeps_its_answers(world: World) -> None:
    """Answers to a message under its former id count for it under the new one."""
    world.write(ASK, WHY)
    world.ask((ADA, "3"))
    world.write(
        ASK.replace("id: ask", "id: first, renamed_from: [ask]"),
        WHY.replace("message: ask", "message: first"),
    )
    world.pass_time("1h")
    world.run("reconcile")
    assert world.apply() == 1


@pytest.mark.slow
def test_a_saved_plan_sends_to_whom_it_named(world: World) -> None:
    """Who qualifies only after it was made waits for the next plan."""
    world.write(ASK, WHY, phones=(ADA, BOB, CY))
    world.ask((ADA, "3"), (BOB, "9"))
    world.pass_time("1h")
    world.run("reconcile")
    world.run("plan", "--out", "plan.json")
    world.reply(CY, "2")
    world.pass_time("2h")
    world.run("reconcile")
    world.run("apply", "--plan", "plan.json")
    assert [world.count_texts(phone) for phone in (ADA, BOB, CY)] == [1, 0, 0]
    assert world.apply() == 1


@pytest.mark.slow
def test_who_explains_the_follow_up(world: World) -> None:
    """The decision on one person, and why."""
    world.write(ASK, WHY)
    world.ask((ADA, "9"))
    document = world.check(world.run("who", ADA, "--format", "json"), "who")
    (next_text,) = document["campaigns"][0]["next"]
    assert (next_text["message"], next_text["disposition"]) == ("why", "not_qualified")
    assert next_text["reasons"] == [OTHER_VALUE]


def test_a_preview_walks_the_branches(world: World) -> None:
    """Below a question stands which answer leads to which message, in the text and as JSON."""
    world.write(ASK, WHY, WHY.replace("why", "thanks").replace("0-6", "7-10").replace("1h", "0s"))
    shown = world.run("preview", "campaigns/pulse.yaml", "--phone", ADA)
    assert "\n  0-6 → message why after 1h\n  7-10 → message thanks\n" in shown
    assert "\n  1h after they answer 0-6 to nps\n" in shown
    text = world.run("preview", "campaigns/pulse.yaml", "--phone", ADA, "--format", "json")
    ask, why, _ = world.check(text, "preview")["messages"]
    assert ask["branches"] == [
        {"question_tag": "nps", "values": ["0-6"], "message": "why", "wait": "1h"},
        {"question_tag": "nps", "values": ["7-10"], "message": "thanks", "wait": ""},
    ]
    assert "branches" not in why


@pytest.mark.slow
def test_simulated_people_go_on_through_the_branches(world: World) -> None:
    """Simulated answers lead on: each person gets the one follow-up that their answer is for."""
    phones = tuple(f"+1415555{number:04}" for number in range(110, 140))
    why = WHY.replace("text: Why?", "questions: [{tag: reason, text: Why?}]")
    thanks = WHY.replace("id: why", "id: thanks").replace("0-6", "7-10").replace("Why?", "Thanks!")
    world.write(ASK, NUDGE, why, thanks, phones=phones)
    for _ in range(4):
        world.run("apply", "--auto-approve")
        world.run("sandbox", "simulate", "--response-rate", "0.7")
        world.pass_time("25h")
        world.run("reconcile")
    with closing(sqlite3.connect(world.folder / ".runner/sandbox/service.sqlite")) as connection:
        answers = connection.execute(
            "SELECT phone, response FROM result JOIN participant ON participant.id = participant_id "
            "WHERE question_tag = 'nps' ORDER BY result.created"
        ).fetchall()
        reasons = connection.execute("SELECT count(*) FROM result WHERE question_tag = 'reason'").fetchone()[
            0
        ]
    latest = {phone: int(response) for phone, response in answers}
    assert world.plan()["already_sent"] == sum(value <= 6 for value in latest.values()) > 0
    assert world.plan("thanks")["already_sent"] == sum(value > 6 for value in latest.values()) > 0
    assert reasons > 0


@pytest.mark.slow
def test_each_wave_goes_by_its_own_answers(world: World) -> None:
    """What somebody answered in an earlier wave leads to nothing in this one."""
    world.write(ASK, WHY, phones=(ADA, BOB), rules="wave: q1\n")
    world.ask((ADA, "3"), (BOB, "9"))
    world.pass_time("1h")
    world.run("reconcile")
    assert world.apply() == 1
    world.write(ASK, WHY, phones=(ADA, BOB), rules="wave: q2\n")
    world.ask((ADA, "9"), (BOB, "3"))
    world.pass_time("1h")
    world.run("reconcile")
    assert world.apply() == 1
    assert [world.count_texts(phone) for phone in (ADA, BOB)] == [1, 1]


@pytest.mark.slow
def test_a_lost_ledger_asks_nobody_twice(world: World) -> None:
    """The record is rebuilt from the lockfile and the service: who was followed up is not, and who waits is."""
    world.write(ASK, WHY, phones=(ADA, BOB))
    world.ask((ADA, "3"))
    world.pass_time("1h")
    world.run("reconcile")
    assert world.apply() == 1
    world.reply(BOB, "2")
    for file in (world.folder / ".runner").glob("ledger*"):
        file.unlink()
    world.pass_time("2h")
    world.run("reconcile")
    assert world.apply() == 1
    assert (world.count_texts(ADA), world.count_texts(BOB)) == (1, 1)


@pytest.mark.parametrize("loses_ledger", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("step", "number"),
    [("commit", 2), *[pytest.param("commit", n, marks=pytest.mark.slow) for n in (1, 3, 4, 5)]],
)
def test_a_killed_run_follows_up_once(world: World, step: str, number: int, *, loses_ledger: bool) -> None:
    """Wherever it was killed, and with its ledger lost: each person who is meant gets one text, nobody else."""
    phones = tuple(f"+1415555{number:04}" for number in range(110, 118))
    world.write(ASK, WHY, phones=phones, rules="limits: {recipients_per_send: 2}\n")
    world.ask(*[(phone, str(place)) for place, phone in enumerate(phones, start=3)])
    world.pass_time("1h")
    world.run("reconcile")
    death = json.dumps({"step": step, "phase": "after", "number": number})
    victim = [sys.executable, str(VICTIM), death, "apply", "--auto-approve"]
    done = subprocess.run(victim, cwd=world.folder, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    if loses_ledger:
        for file in (world.folder / ".runner").glob("ledger*"):
            file.unlink()
    for _ in range(2):
        world.run("reconcile")
        world.run("apply", "--auto-approve")
    assert [world.count_texts(phone) for phone in phones] == [1, 1, 1, 1, 0, 0, 0, 0]


@pytest.mark.slow
def test_the_forecast_brackets_what_comes(world: World) -> None:
    """Who has answered otherwise, and is not asked again, is no longer possible; who may still answer is."""
    world.write(ASK, NUDGE, WHY, phones=(ADA, BOB, CY))
    assert world.forecast() == (0, 3)
    world.ask((ADA, "3"), (BOB, "9"))
    assert world.forecast() == (0, 2)
    world.pass_time("25h")
    world.run("reconcile")
    world.ask((CY, "10"))
    assert world.count_texts(ADA) == 1
    assert world.forecast() == (0, 0)
