"""Waves (`wave: NAME`): each texts everybody once, as a user meets them on the sandbox."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import runner
from tests.cli.world import Project
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.world import CheckJson, Enter
    from tests.forge.github_server import GitHub


ADA, BOB, CY = "+14155550101", "+14155550102", "+14155550103"
SCALE = ", ".join(f'"{point}"' for point in range(11))
ASK = f'{{id: ask, questions: [{{tag: nps, text: "0 to 10?", responses: [{SCALE}], scale: nps}}]}}'
NUDGE = "{id: nudge, after: {message: ask, wait: 2d}, to: everyone, text: Thanks again.}"
HELLO = "{id: hello, text: Hello!}"
AGAIN = "Everybody again: b is a new wave, and 3 people were texted in the wave a."


class World(Project):
    """A repository with a campaign in waves."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str], check: CheckJson) -> None:
        super().__init__(folder, capture, check)
        self.lockfile = folder / "campaigns/pulse.sandbox.lock.json"

    def write(
        self, wave: str, *messages: str, phones: tuple[str, ...] = (ADA, BOB, CY), rules: str = ""
    ) -> None:
        """Write the campaign, in a wave if that is not empty."""
        people = ", ".join(f'{{phone: "{phone}"}}' for phone in phones)
        rules += f"wave: {wave}\n" if wave else ""
        content = f"version: 1\n{rules}recipients: [{people}]\nmessages:\n"
        content += "".join(f"  - {one}\n" for one in messages or (HELLO,))
        (self.folder / "campaigns/pulse.yaml").write_text(content, encoding="utf-8")

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command; return what it wrote, with what it said if it failed."""
        out = super().run(*arguments, code=code)
        return out + (self.errors if code else "")

    def read(self, *arguments: str) -> dict[str, Any]:
        """Return a command's document."""
        return self.check(self.run(*arguments, "--format", "json"), arguments[0])

    def plan(self) -> dict[str, Any]:
        """Return the campaign's plan."""
        found: dict[str, Any] = self.read("plan")["campaigns"][0]
        return found

    def apply(self, code: int = 0) -> str:
        """Send without asking."""
        return self.run("apply", "--auto-approve", code=code)

    def list_tags(self) -> list[str]:
        """Return the tags of the launches that the service has accepted."""
        return [
            tag for (tag,) in self.select("SELECT json_extract(definition, '$.tag') FROM launch ORDER BY id")
        ]

    def count_texts(self) -> Counter[tuple[str, str]]:
        """Return how often a person got texts under a tag."""
        return Counter(
            self.select(
                "SELECT phone, json_extract(definition, '$.tag') FROM session "
                "JOIN participant ON participant.id = participant_id JOIN launch ON launch.id = launch_id"
            )
        )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, enter: Enter) -> World:
    """A repository without a campaign; its service lists a launch at once."""
    monkeypatch.setenv("RUNNER_SETTLE_WINDOW", "10ms")
    return enter(World)


@pytest.mark.slow
def test_each_wave_texts_everybody_once(world: World) -> None:
    """In a wave nobody is texted twice; in the next everybody is, and the plan says so first."""
    world.write("a")
    world.apply()
    assert world.plan()["wave"] == {
        "name": "a",
        "is_new": False,
        "before": None,
        "texted_before": None,
        "later": None,
    }
    assert (world.plan()["people"], world.plan()["messages"][0]["already_sent"]) == (0, 3)
    world.write("b")
    plan = world.plan()
    assert plan["wave"] == {"name": "b", "is_new": True, "before": "a", "texted_before": 3, "later": None}
    assert (plan["people"], plan["messages"][0]["already_sent"]) == (3, 0)
    assert world.run("plan").splitlines()[1] == AGAIN
    world.apply()
    world.apply()
    assert world.count_texts() == {(one, f"pulse-{wave}"): 1 for one in (ADA, BOB, CY) for wave in "ab"}
    assert "Everybody again" not in world.run("plan")


def test_the_first_wave_of_a_campaign_that_had_none_texts_everybody_again(world: World) -> None:
    """Who was texted before there were waves is texted in the first one; the plan says it."""
    world.write("")
    world.apply()
    world.write("a")
    said = "Everybody again: a is a new wave, and 3 people were texted before there were waves."
    assert world.run("plan").splitlines()[1] == said
    world.apply()
    assert world.list_tags() == ["pulse", "pulse-a"]


def test_a_tag_that_ends_with_the_wave_is_sent_as_it_is(world: World) -> None:
    """A tag that a person has raised beside the wave gets it only once."""
    world.write("a", rules="tag: pulse-a\n")
    world.apply()
    world.write("b", rules="tag: pulse-b\n")
    world.apply()
    assert world.list_tags() == ["pulse-a", "pulse-b"]


def test_a_wave_is_not_taken_out_or_back(world: World) -> None:
    """Without its wave, or with one before the latest, a campaign is not sent: both readings are said."""
    world.write("a")
    world.apply()
    world.write("")
    said = world.apply(code=4)
    assert "pulse has no `wave`, and 3 people were texted in its wave a" in said
    assert "put `wave: a` back in campaigns/pulse.yaml to go on with that wave, or write a new one" in said
    world.write("b")
    world.apply()
    world.write("a")
    said = world.apply(code=4)
    assert "pulse has `wave: a`, and its wave b has begun since: this may be an old checkout" in said
    assert world.list_tags() == ["pulse-a", "pulse-b"]


def test_a_wave_in_other_letters_is_refused(world: World) -> None:
    """A lost record could not tell the two apart, since project tags are compared without case."""
    world.write("q3")
    world.apply()
    world.write("Q3")
    world.run("apply", "--auto-approve", code=4)


def test_a_saved_plan_of_another_wave_is_refused(world: World) -> None:
    """The plan that was reviewed was of another wave."""
    world.write("a")
    world.run("plan", "--out", "plan.json")
    world.write("b")
    world.run("apply", "--plan", "plan.json", code=1)
    assert not (world.folder / "campaigns/pulse.sandbox.lock.json").exists()


@pytest.mark.slow
def test_a_follow_up_is_of_its_wave(world: World) -> None:
    """It waits for the message of its own wave, whatever an earlier one has sent."""
    world.write("a", ASK, NUDGE, rules="policy: {open_session: queue}\n")
    world.apply()
    world.run("sandbox", "clock", "+3d")
    world.run("reconcile")
    world.apply()
    world.write("b", ASK, NUDGE, rules="policy: {open_session: queue}\n")
    assert [one["awaiting"] for one in world.plan()["messages"]] == [0, 3]
    world.apply()
    assert [one["already_sent"] for one in world.plan()["messages"]] == [3, 0]
    assert [one["deferred"] for one in world.plan()["messages"]] == [0, 3]
    world.run("sandbox", "clock", "+3d")
    world.run("reconcile")
    world.apply()
    assert set(world.count_texts().values()) == {2}


def test_the_frequency_cap_counts_all_waves(world: World) -> None:
    """A wave that is raised too early texts nobody before the cap allows it."""
    cap = "policy: {frequency_cap: {messages: 1, within: 30d}}\n"
    world.write("a", rules=cap)
    world.apply()
    world.write("b", rules=cap)
    assert world.plan()["messages"][0]["capped"] == 3
    world.run("sandbox", "clock", "+31d")
    assert world.plan()["messages"][0]["to_send"] == 3


def test_an_opt_out_in_one_wave_counts_in_the_next(world: World) -> None:
    """Opt-outs go over all waves."""
    world.write("a")
    world.apply()
    world.run("optouts", "add", ADA)
    world.write("b")
    assert world.plan()["messages"][0]["opted_out"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("keeps_lockfile", [True, False])
def test_a_fresh_machine_tells_the_waves_apart(world: World, *, keeps_lockfile: bool) -> None:
    """With a lockfile of three waves or without one: those of this wave are known, and of others held for nothing."""
    for wave in "abc":
        world.write(wave)
        world.apply()
    world.lose_ledger()
    if not keeps_lockfile:
        world.lockfile.unlink()
    world.apply()
    assert len(world.list_tags()) == 3
    world.lose_ledger()
    if not keeps_lockfile:
        world.lockfile.unlink(missing_ok=True)
    world.write("d")
    world.apply()
    assert world.list_tags() == [f"pulse-{wave}" for wave in "abcd"]
    assert set(world.count_texts().values()) == {1}


@pytest.mark.slow
def test_lockfiles_of_branches_with_waves_of_their_own_are_merged(world: World) -> None:
    """Both waves are on record after the merge, whichever ledger is there."""
    world.write("a")
    world.apply()
    before = world.lockfile.read_bytes()
    world.write("b")
    world.apply()
    ours = json.loads(world.lockfile.read_text(encoding="utf-8"))
    world.lose_ledger()
    world.lockfile.write_bytes(before)
    world.write("c")
    world.apply()
    theirs = json.loads(world.lockfile.read_text(encoding="utf-8"))
    both = {json.dumps(one, sort_keys=True): one for one in (*ours["launches"], *theirs["launches"])}
    merged = theirs | {
        "launches": sorted(both.values(), key=lambda one: (one["message"], one["key"])),
        "runs": list({one["id"]: one for one in (*ours["runs"], *theirs["runs"])}.values()),
    }
    world.lockfile.write_text(json.dumps(merged), encoding="utf-8")
    world.lose_ledger()
    world.apply()
    assert sorted(world.list_tags()) == ["pulse-a", "pulse-b", "pulse-c"]
    world.write("b")
    assert "its wave c has begun since" in world.apply(code=4)


@pytest.mark.slow
def test_a_cluster_knows_who_was_texted_in_the_wave(world: World) -> None:
    """Workers have the same record: its plan is that of one process."""
    world.write("a")
    world.apply()
    world.write("b", phones=(ADA, BOB))
    world.apply()
    world.write("b")
    alone, together = world.plan(), world.read("plan", "--cluster", "local:2")["campaigns"][0]
    (message,) = together["messages"]
    assert (message["already_sent"], message["to_send"]) == (2, 1)
    assert (together["digests"], together["messages"]) == (alone["digests"], alone["messages"])


def test_a_new_wave_can_have_other_messages(world: World) -> None:
    """An id that is gone is a rename in doubt only within a wave: in the next one nobody has anything yet."""
    world.write("a")
    world.apply()
    other = HELLO.replace("id: hello", "id: greeting")
    world.write("a", other)
    assert "`hello`, which it has no more, texted 3 people" in world.apply(code=4)
    world.write("b", other)
    world.apply()
    assert world.list_tags() == ["pulse-a", "pulse-b"]


def test_the_comment_on_a_pull_request_says_first_that_everybody_is_texted_again(world: World) -> None:
    """It stands above the counts, outside of what is folded."""
    world.write("a")
    world.apply()
    world.write("b")
    comment = world.run("ci", "comment")
    assert f"\n\n**pulse: {AGAIN}**\n\n**1 campaign · 3 people to text" in comment


def test_a_job_without_the_key_says_so_too(
    world: World, monkeypatch: pytest.MonkeyPatch, github: GitHub
) -> None:
    """Lockfiles tell the waves: nobody was texted in the new one yet."""
    monkeypatch.setenv("RUNNER_STATE_KEY", STATE_KEY)
    world.write("a")
    world.apply()
    monkeypatch.delenv("RUNNER_STATE_KEY")
    world.lose_ledger()
    for name, value in github.job(world.folder).items():
        monkeypatch.setenv(name, value)
    world.write("b")
    world.run("ci", "comment")
    (body,) = github.bodies()
    assert f"\n\n**pulse: {AGAIN}**\n\n**1 campaign · 3 texts to send" in body
    assert "| pulse | hello | 3 | 0 | 3 |" in body


@pytest.mark.slow
def test_people_and_unclear_launches_show_their_wave(world: World) -> None:
    """`runner who` and `runner resolve` name the wave of each text."""
    world.write("a")
    world.apply()
    world.write("b")
    world.apply()
    received = world.read("who", ADA)["campaigns"][0]["received"]
    assert [one["wave"] for one in received] == ["a", "b"]
    assert "hello, b: sent " in world.run("who", ADA)
    with closing(sqlite3.connect(world.folder / ".runner/ledger.sqlite")) as connection:
        connection.execute(
            "UPDATE launches SET state = 'unknown', project_launch_guid = NULL, outcome_at = NULL "
            "WHERE occasion = 'b'"
        )
        connection.commit()
    document = json.loads(world.run("resolve", "--format", "json", code=4).split("\nError")[0])
    assert [one["wave"] for one in document["launches"]] == ["b"]


@pytest.mark.slow
def test_a_report_is_of_one_wave_and_compares_all(world: World) -> None:
    """Figures, status and files of answers are of the present wave, or the one asked for; the trend has all."""
    phones = tuple(f"+1415555{number:04}" for number in range(100, 140))
    for seed, wave in enumerate("abc"):
        world.write(wave, ASK, phones=phones)
        world.apply()
        rate = ("0.9", "0.6", "0.3")[seed]
        world.run("sandbox", "simulate", "--seed", str(seed), "--response-rate", rate)
        world.run("sandbox", "clock", "+10d")
        world.run("reconcile")
    texts = world.select(
        "SELECT json_extract(definition, '$.tag'), count(DISTINCT result.session_id) FROM result "
        "JOIN session ON session.id = result.session_id JOIN launch ON launch.id = session.launch_id GROUP BY 1"
    )
    answered = dict(texts)
    assert len(answered) == 3
    report = world.read("report")
    assert (report["wave"], report["people"]["texted"], report["people"]["answered"]) == (
        "c",
        40,
        answered["pulse-c"],
    )
    waves = [(one["campaign"], one["texted"], one["answered"]) for one in report["series"]["waves"]]
    assert waves == [(f"pulse {wave}", 40, answered[f"pulse-{wave}"]) for wave in "abc"]
    before = world.read("report", "--wave", "a")
    assert (before["wave"], before["people"]["answered"]) == ("a", answered["pulse-a"])
    status = world.read("status")["campaigns"][0]["messages"][0]
    assert (status["sent"], status["answered"]) == (40, answered["pulse-c"])
    world.run("report", "--format", "answers.csv", "--out", "out", "--wave", "b")
    with (world.folder / "out/pulse.answers.csv").open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert {one["occasion"] for one in rows} == {"b"}
    assert sum(one["answered"] == "true" for one in rows) == answered["pulse-b"]
    (made,) = runner.open(world.folder).report(wave="a").reports
    assert made.report.people.answered == answered["pulse-a"]
    assert "pulse has no wave 'z' on record" in world.run("report", "--wave", "z", code=1)
