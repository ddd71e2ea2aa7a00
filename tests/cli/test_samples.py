"""Samples, and campaigns that stop once enough people have answered, on the sandbox, as a user meets them."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.world import ASK

if TYPE_CHECKING:
    from tests.cli.world import World

PHONES = tuple(f"+1415555{number:04}" for number in range(100, 140))
NUDGE = "{id: nudge, after: {message: ask, wait: 1d}, to: unanswered, text: Still there?}"


def answer(world: World, phones: tuple[str, ...]) -> None:
    """Have people answer, and read that."""
    for phone in phones:
        world.reply(phone, "9")
    world.run("reconcile")


def list_texted(world: World) -> list[str]:
    """Return who was texted, by the service's own records."""
    return world.query("SELECT phone FROM participant JOIN session ON participant_id = participant.id")


@pytest.mark.slow
def test_a_sample_is_sent_and_enlarged(world: World) -> None:
    """A larger size texts the people that it lacks, and files of answers say how probable each was."""
    world.write(ASK, phones=PHONES, rules="sample: {size: 10}\n")
    assert world.plan("ask")["not_sampled"] == 30
    assert world.apply() == 10
    assert world.apply() == 0
    world.write(ASK, phones=PHONES, rules="sample: {size: 16}\n")
    assert world.apply() == 6
    assert len(set(list_texted(world))) == 16
    answer(world, ())
    report = json.loads(world.run("report", "--format", "json"))
    assert report["sample"] == {"eligible": 40, "drawn": 16, "probability": 0.4}
    world.run("report", "--format", "answers.csv", "--out", "answers")
    with (world.folder / "answers/pulse.answers.csv").open(encoding="utf-8-sig", newline="") as file:
        assert {row["selection_probability"] for row in csv.DictReader(file)} == {"0.4"}


def test_a_sample_of_everybody_is_certain(world: World) -> None:
    """With no more people than the size, each was drawn with probability 1."""
    world.write(ASK, phones=PHONES[:3], rules="sample: {size: 10}\n")
    assert world.apply() == 3
    world.run("reconcile")
    report = json.loads(world.run("report", "--format", "json"))
    assert report["sample"] == {"eligible": 3, "drawn": 3, "probability": 1.0}


def test_a_lost_ledger_draws_the_same(world: World) -> None:
    """Without the ledger the lockfile tells who is in the sample already."""
    world.write(ASK, phones=PHONES, rules="sample: {size: 10}\n")
    assert world.apply() == 10
    (world.folder / ".runner/ledger.sqlite").unlink()
    assert world.apply() == 0
    assert len(list_texted(world)) == 10


def test_people_of_the_sample_get_its_other_messages_too(world: World) -> None:
    """A message that comes later goes to those who were drawn, and to nobody else."""
    world.write(ASK, phones=PHONES, rules="sample: {size: 10}\n")
    assert world.apply() == 10
    world.write(
        ASK,
        "{id: hello, text: Hello}",
        phones=PHONES,
        rules="sample: {size: 12}\npolicy: {open_session: queue}\n",
    )
    assert world.plan("hello")["not_sampled"] == 28
    assert world.apply() == 14
    assert len(list_texted(world)) == 24
    assert len(set(list_texted(world))) == 12


def test_a_sample_of_another_audience_is_not_known(world: World) -> None:
    """With a list that lacks the people who were texted, nobody can say how probable they were."""
    world.write(ASK, phones=PHONES, rules="sample: {size: 10}\n")
    assert world.apply() == 10
    world.write(ASK, phones=PHONES[:3], rules="sample: {size: 10}\n")
    world.apply()
    report = json.loads(world.run("report", "--format", "json"))
    assert report["sample"] == {"eligible": None, "drawn": None, "probability": None}


def test_follow_ups_are_for_the_sample(world: World) -> None:
    """Whoever is not in it waits for no message."""
    world.write(ASK, NUDGE, phones=PHONES, rules="sample: {size: 10}\n")
    assert (world.plan("nudge")["not_sampled"], world.plan("nudge")["awaiting"]) == (30, 10)
    assert world.apply() == 10
    assert (world.plan("nudge")["not_sampled"], world.plan("nudge")["awaiting"]) == (30, 10)


def test_a_step_of_a_rollout_is_of_the_sample(world: World) -> None:
    """Its people are those of the sample, and a guard is warned of by their number."""
    rollout = "rollout: {steps: [{share: 50%, hold: 1h}, {share: 100%}], guards: {opt_outs: 20%}}\n"
    world.write(ASK, phones=PHONES, rules=f"sample: {{size: 10}}\n{rollout}")
    said = json.loads(world.run("validate", "--format", "json"))
    assert any("5 people or so" in one["message"] for one in said["diagnostics"])
    document = json.loads(world.run("plan", "--format", "json"))
    step = document["campaigns"][0]["rollout"]
    assert step["people"] == step["waiting"] == document["campaigns"][0]["people"] < 10


@pytest.mark.slow
def test_nobody_is_texted_once_enough_have_answered(world: World) -> None:
    """New people and reminders stop; the plan and the report say how many there are."""
    world.write(ASK, NUDGE, phones=PHONES[:20], rules="limits: {completes: 3}\n")
    assert world.apply() == 20
    answer(world, tuple(list_texted(world)[:2]))
    assert "2 completes of 3" in world.run("plan")
    answer(world, tuple(list_texted(world)[2:4]))
    world.pass_time("2d")
    world.run("reconcile")
    world.write(ASK, NUDGE, phones=PHONES, rules="limits: {completes: 3}\n")
    assert "4 completes of 3: nobody else is texted" in world.run("plan")
    assert world.plan("ask")["enough"] == 20
    assert world.plan("nudge")["enough"] == 36
    assert world.forecast("nudge") == (0, 0)
    assert world.apply() == 0
    assert "4 of 3 completes" in world.run("report")


@pytest.mark.slow
def test_a_run_under_way_stops_once_enough_have_answered(world: World) -> None:
    """Results are looked at before each group of sends: what is in flight is the most that goes beyond."""
    world.write(ASK, phones=PHONES, rules="limits: {completes: 1, recipients_per_send: 1, rate: 1/s}\n")
    command = [
        sys.executable,
        "-m",
        "runner",
        "apply",
        "--auto-approve",
        "--concurrency",
        "1",
        "--format",
        "json",
    ]
    world.run("sandbox", "clock")  # so that the service has its tables
    with subprocess.Popen(command, cwd=world.folder, stdout=subprocess.PIPE, text=True) as process:
        while not list_texted(world):
            time.sleep(0.1)
        answer(world, (list_texted(world)[0],))
        before = len(list_texted(world))
        said, _ = process.communicate(timeout=60)
    (campaign,) = json.loads(said)["campaigns"]
    assert campaign["recipients_sent"] - before < 6
    assert campaign["recipients_sent"] + campaign["enough"] == len(PHONES)
    assert campaign["not_tried"] == 0
