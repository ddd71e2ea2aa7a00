"""What counts as consent to a plan on GitHub, what becomes of a denial, and stopping without consent."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.gitops.forge import Environment
from tests.gitops.team import REVIEWER
from tests.gitops.test_jobs import CAMPAIGN, GUESTS, write

if TYPE_CHECKING:
    from tests.gitops.team import Team

pytestmark = pytest.mark.slow


def set_reviewers(team: Team, *, are_there: bool) -> None:
    environments = {**team.forge.environments, "campaigns-approval": Environment(has_reviewers=are_there)}
    team.forge = replace(team.forge, environments=environments)


@pytest.mark.timeout(900)
def test_an_approval_counts_for_its_attempt_alone(team: Team) -> None:
    """A run that is run again for more people, with reviewers gone or back too late, sends nothing unasked."""
    team.start()
    write(team, "coffee")
    team.write_audience(GUESTS[:2])
    event = team.push("Tell two of the coffee")
    assert team.send(event, team.approve)["send"].result == "success"
    team.write_audience(GUESTS)
    team.push("Tell all of the coffee")

    set_reviewers(team, are_there=False)
    jobs = team.send(event, rerun=(1, 2))
    assert jobs["send"].result == "failure"
    assert "the environment `campaigns-approval` has no required reviewers" in jobs["send"].log("Send")

    def bring_back(_process: int) -> None:
        team.github.reviewers = [REVIEWER]

    jobs = team.send(event, during={"Send": bring_back}, rerun=(1, 3))
    assert jobs["send"].result == "failure"
    assert "nobody approved this run: nothing was recorded" in jobs["send"].log("Send")
    assert team.texts("coffee") == Counter(GUESTS[:2])

    set_reviewers(team, are_there=True)
    jobs = team.send(event, team.approve, rerun=(1, 4))
    assert jobs["send"].result == "success", jobs["send"].show()
    assert team.texts("coffee") == Counter(GUESTS)

    # A dispatch has no plan that would tell its attempts apart.
    pause, resume = (
        team.dispatch(action=action, campaign="campaigns/coffee.yaml") for action in ("pause", "resume")
    )
    assert team.send(pause)["act"].result == "success"
    assert team.send(resume, team.approve)["act"].result == "success"
    jobs = team.send(resume, team.approve, rerun=(3, 2))
    assert jobs["act"].result == "failure"
    assert "this is attempt 2 of the run" in jobs["act"].log("Act")


@pytest.mark.timeout(900)
def test_a_denied_plan_is_not_asked_about_again_until_it_changes(team: Team) -> None:
    """The record keeps who denied it, and the issue says so until there is another plan."""
    team.start()
    write(team, "coffee")
    team.write_audience(GUESTS[:2])
    jobs = team.send(team.push("Tell two of the coffee"), team.reject)
    assert (jobs["approve"].result, jobs["send"].result) == ("failure", "success"), jobs["send"].show()
    assert f"{REVIEWER} denied the plan" in jobs["send"].log("Send")
    (issue,) = team.github.issues
    assert issue["title"].endswith("a plan was denied")
    assert f"**The plan was denied by {REVIEWER}:**" in issue["body"]
    assert '"denied_by":["' in team.show_on_ref("live.approvals.json")

    jobs = team.send(team.hour())
    assert (jobs["plan"].outputs["approval"], jobs["approve"].result) == ("denied", "skipped")
    assert f"{REVIEWER} denied the plan" in jobs["plan"].summary
    assert not team.texts("coffee")
    assert f"**The plan was denied by {REVIEWER}:**" in issue["body"]

    team.write_audience(GUESTS[:1])
    jobs = team.send(team.push("Tell only one"), team.approve)
    assert jobs["send"].result == "success", jobs["send"].show()
    assert team.texts("coffee") == Counter(GUESTS[:1])
    assert "denied" not in issue["body"]
    assert issue["state"] == "closed"


@pytest.mark.timeout(900)
def test_a_pause_waits_neither_for_a_reviewer_nor_for_a_send(team: Team) -> None:
    """Somebody who runs the workflow stops the send that is under way; once resumed, it texts the others once."""
    team.start()
    guests = [f"+1415555{number:04}" for number in range(100, 190)]
    # Slow enough for somebody to stop it amid them.
    team.write_campaign("coffee", CAMPAIGN.format(name="coffee") + "limits: {rate: 1/s}\n")
    team.write_audience(guests)

    def pause(_process: int) -> None:
        while not team.texts("coffee"):
            time.sleep(0.1)
        jobs = team.send(
            team.dispatch(action="pause", campaign="campaigns/coffee.yaml", reason="a wrong link")
        )
        assert jobs["act"].result == "success", jobs["act"].show()
        assert '"reason":"a wrong link"' in team.show_on_ref("live.suppressions.json")

    jobs = team.send(team.push("Tell all of the coffee"), team.approve, {"Send": pause})
    assert "since this one ended early" in jobs["send"].log("Send")
    texted = team.texts("coffee")
    assert 0 < len(texted) < len(guests)

    write(team, "coffee")
    jobs = team.send(team.push("Tell the others faster"))
    assert jobs["plan"].result == "success", jobs["plan"].show()
    assert team.texts("coffee") == texted

    jobs = team.send(team.dispatch(action="resume", campaign="campaigns/coffee.yaml"), team.approve)
    assert jobs["act"].result == "success", jobs["act"].show()
    jobs = team.send(team.dispatch(campaign="campaigns/coffee.yaml"), team.approve)
    assert jobs["send"].result == "success", jobs["send"].show()
    assert team.texts("coffee") == Counter(guests)
