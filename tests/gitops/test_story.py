"""A team's whole story: each `run:` of the workflows that `runner init` writes, for real and in order.

The remote is a bare repository, the service the sandbox on a socket, GitHub's REST API a small real server.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.cli.inside import run_inside
from tests.gitops.forge import Event, MachineLostError
from tests.gitops.team import REQUIREMENT, REVIEWER, git

if TYPE_CHECKING:
    from tests.gitops.team import Team

pytestmark = pytest.mark.slow

CAMPAIGN = """\
version: 1
name: coffee
recipients:
  - csv: audience/guests.csv
messages:
  - id: taste
    introduction: "Hi {{ name }}, one question about your coffee. Reply STOP to opt out."
    questions:
      - {tag: rating, text: "How was it?", responses: ["Great", "Fine", "Not good"]}
    conclusion: "Thank you!"
  - id: nudge
    tag: coffee-nudge
    after: {message: taste, wait: 2d}
    to: unanswered
    complete_existing_sessions: true
    questions:
      - {tag: rating, text: "Still there? How was your coffee?", responses: ["Great", "Fine", "Not good"]}
limits:
  rate: 25/s
"""
GUESTS = [f"+1415555{number:04}" for number in range(100, 145)]


@pytest.mark.timeout(900)
def test_nobody_is_texted_twice_nobody_is_skipped_and_git_log_tells_the_story(team: Team) -> None:
    """From `runner init` to the report, with a kill and a re-run of an old commit on the way."""
    _start(team)
    _propose_with_an_error(team)
    merged = _merge_and_lose_the_machine(team)
    _run_the_old_commit_again(team, merged)
    _add_recipients(team)
    answered = _let_people_answer(team)
    _send_what_is_due_after_two_days(team)
    _find_nothing_to_do(team)

    assert team.texts("coffee") == Counter(GUESTS)
    assert team.texts("coffee-nudge") == Counter(set(GUESTS) - answered)
    reminded = len(GUESTS) - len(answered)
    assert len(team.asked) == 3
    assert team.count_recorded() == {"coffee": 45 + reminded}
    assert [subject for subject in team.subjects() if "Record" in subject][-3:] == [
        "Record 5 texts of coffee on live",
        f"Record {reminded} texts of coffee on live",
        "Record the denial of tea on live",
    ]


def _start(team: Team) -> None:
    """`runner init` and `git push` are all that there is to do; without a target nothing is sent."""
    assert run_inside("init", "clone", "--requirement", REQUIREMENT, cwd=team.folder).returncode == 0
    git(team.clone, "remote", "add", "origin", str(team.forge.remote))
    sha = team.commit("Start campaigns")
    git(team.clone, "push", "--quiet", "--set-upstream", "origin", "main")
    paths = git(team.clone, "ls-files").splitlines()
    jobs = team.send(Event("push", "refs/heads/main", sha, tuple(paths)))
    assert {name for name, job in jobs.items() if job.result != "skipped"} == {"plan"}
    assert "::notice title=Nothing is sent::" in jobs["plan"].log("Plan")
    assert not team.github.requests


def _propose_with_an_error(team: Team) -> None:
    """The error stands at its line and in the comment, which says what would be sent once it is mended."""
    team.branch("coffee")
    done = run_inside("init", "--base-url", team.service_url, cwd=team.clone)
    assert "campaigns/targets.yaml" in done.stdout
    team.shorten_settling()
    team.shorten_lease()
    example = ("first-order.yaml", "audience/first-orders.csv", "tests/first-order.yaml")
    git(team.clone, "rm", "--quiet", *(f"campaigns/{name}" for name in example))
    team.write_campaign("coffee", CAMPAIGN.replace("{{ name }}", "{{ nme }}"))
    team.write_audience(GUESTS[:40])
    team.commit("Ask how the coffee was")
    refused = team.review()
    assert refused.outcomes()["Review"] == "failure"
    assert "::error file=campaigns/coffee.yaml,line=7," in refused.log("Review")
    (comment,) = team.github.comments
    assert "nme" in comment["body"]
    team.write_campaign("coffee", CAMPAIGN)
    team.commit("Spell it right")
    accepted = team.review()
    assert accepted.result == "success", accepted.show()
    (edited,) = team.github.comments
    assert edited["id"] == comment["id"]
    assert "40" in edited["body"]
    assert not any(phone in edited["body"] for phone in GUESTS)


def _merge_and_lose_the_machine(team: Team) -> Event:
    """The machine is gone after some texts, before anything could be pushed or recorded by its last steps."""
    event = team.merge("coffee", "Merge pull request #7: ask how the coffee was")

    def lose_machine(process: int) -> None:
        while len(team.texts("coffee")) < 10:
            time.sleep(0.02)
        os.killpg(process, signal.SIGKILL)
        raise MachineLostError

    # Sixteen requests at a time: it never gets to the last one before somebody sees the first ten.
    with pytest.raises(MachineLostError), team.sends.hold_after(10):
        team.send(event, team.approve, {"Send": lose_machine})
    assert 10 <= len(team.texts("coffee")) < 40
    return event


def _run_the_old_commit_again(team: Team, merged: Event) -> None:
    """Somebody presses "Re-run" after main has moved on: the rest is sent, as approved, and recorded on the tip."""
    (team.clone / "README.md").write_text("Ask Ada.\n", encoding="utf-8")
    assert team.push("Say whom to ask about campaigns").sha != merged.sha
    jobs = team.send(merged)
    assert jobs["send"].result == "success", jobs["send"].show()
    assert team.texts("coffee") == Counter(GUESTS[:40])


def _add_recipients(team: Team) -> None:
    """Only those are texted who are new; they are beyond what was approved, so somebody is asked."""
    team.branch("more-guests")
    team.write_audience(GUESTS)
    team.commit("Invite five more")
    event = team.merge("more-guests", "Merge pull request #7: five more guests")
    jobs = team.send(event, team.approve)
    assert jobs["send"].result == "success", jobs["send"].show()
    assert "5 people texted" in jobs["send"].log("Send")
    assert team.asked[-1] == f"Approve the plan {jobs['plan'].outputs['plan-digest']}, 5 recipients"
    assert f"Approved-By: {REVIEWER}" in git(team.forge.remote, "log", "-1", "--format=%b", "main")


def _let_people_answer(team: Team) -> set[str]:
    """Not quite half of them answer, the first ones; and two days go by."""
    answered = set(GUESTS[:20])
    for phone in sorted(answered):
        assert team.ask("/_sandbox/reply", {"phone": phone, "text": "Great"})["was_expected"]
    team.pass_time(timedelta(days=2, hours=1))
    return answered


def _send_what_is_due_after_two_days(team: Team) -> None:
    """The reminder was approved with the rest, and does not wait for what is asked now; reports are published."""
    team.forge = replace(team.forge, variables={"CAMPAIGNS_PAGE": "true"})
    team.write_campaign("tea", CAMPAIGN.replace("coffee", "tea"))
    jobs = team.send(team.push("Ask how the tea was"), team.reject)
    assert "25 people texted" in jobs["plan"].log("Plan"), jobs["plan"].show()
    assert (jobs["approve"].result, jobs["send"].result) == ("failure", "success")
    assert jobs["plan"].result == "success", jobs["plan"].show()
    assert jobs["page"].result == "success"
    assert "index.html" in jobs["plan"].artifacts["github-pages"]
    assert jobs["plan"].artifacts["campaigns-plan"] == ["plan.json"]
    assert {"coffee.html", "coffee.json"} <= set(jobs["plan"].artifacts["campaigns-reports"])
    assert "coffee" in jobs["plan"].summary
    assert not team.texts("tea")


def _find_nothing_to_do(team: Team) -> None:
    """The next hour there is nothing to send, nobody to ask, and nothing to commit."""
    (team.campaigns / "tea.yaml").unlink()
    team.push("Ask nobody about tea")
    before = team.tip()
    jobs = team.send(team.hour())
    assert jobs["plan"].result == "success", jobs["plan"].show()
    assert jobs["plan"].outputs["to-send"] == "0"
    assert jobs["send"].result == "skipped"
    assert "Nothing to record" in jobs["plan"].log("Plan")
    assert team.tip() == before
