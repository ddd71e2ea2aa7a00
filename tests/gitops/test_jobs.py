"""What happens between the jobs of a plan, its approval and its sending, and what people do by hand."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.gitops.forge import Environment, MachineLostError
from tests.gitops.team import NUMBER, git

if TYPE_CHECKING:
    from tests.gitops.forge import Waiting
    from tests.gitops.team import Team

pytestmark = pytest.mark.slow

CAMPAIGN = """\
version: 1
name: {name}
recipients:
  - csv: audience/guests.csv
policy: {{open_session: queue}}
messages:
  - id: news
    questions:
      - {{tag: like, text: "Hi {{{{ name }}}}, do you like our new {name}?", responses: ["Much", "Not so much"]}}
"""
GUESTS = [f"+1415555{number:04}" for number in range(100, 106)]


def write(team: Team, *names: str) -> None:
    for name in names:
        team.write_campaign(name, CAMPAIGN.format(name=name))


@pytest.mark.timeout(900)
def test_an_approval_is_of_one_plan_and_never_of_people_who_opt_out(team: Team) -> None:
    """Replaced by a newer plan, granted after an opt-out; and a campaign is deleted on the way."""
    team.start()
    write(team, "coffee")
    team.write_audience(GUESTS[:4])
    _replace_the_plan_that_waits(team)
    _opt_out_while_an_approval_waits(team)
    _delete_the_campaign_that_was_replied_to(team)
    assert team.count_recorded() == {"coffee": 6, "tea": 5, "juice": 4}


def _replace_the_plan_that_waits(team: Team) -> None:
    """The older one can no longer be approved; both run to their ends while nobody waits for anybody."""

    def push_more(waiting: Waiting) -> None:
        team.write_audience(GUESTS)
        newer = team.send(team.push("Tell all of the coffee"), team.approve)
        assert newer["send"].result == "success", newer["send"].show()
        assert waiting.is_cancelled

    team.write_audience(GUESTS[:3])
    jobs = team.send(team.push("Tell three of the coffee"), push_more)
    assert (jobs["approve"].result, jobs["send"].result) == ("cancelled", "skipped")
    assert team.texts("coffee") == Counter(GUESTS)


def _opt_out_while_an_approval_waits(team: Team) -> None:
    """The plan is refused, since one of its people is not to be texted; the others are, by the same approval."""
    write(team, "tea")

    def opt_out(waiting: Waiting) -> None:
        team.ask("/_sandbox/reply", {"phone": GUESTS[0], "text": "STOP"})
        team.approve(waiting)

    jobs = team.send(team.push("Tell all of the tea"), opt_out)
    assert jobs["send"].result == "success", jobs["send"].show()
    assert "is out of date" in jobs["send"].log("Send")
    assert team.texts("tea") == Counter(GUESTS[1:])


def _delete_the_campaign_that_was_replied_to(team: Team) -> None:
    """Whoever opts out of a campaign that is gone is not texted by another one."""
    team.ask("/_sandbox/reply", {"phone": GUESTS[1], "text": "STOP"})
    for file in team.campaigns.glob("*a.yaml"):
        file.unlink()
    (team.campaigns / "coffee.yaml").unlink()
    team.write_campaign("juice", f"{CAMPAIGN.format(name='juice')}renamed_from: none\n")
    jobs = team.send(team.push("Tell all of the juice"), team.approve)
    assert jobs["send"].result == "success", jobs["send"].show()
    assert team.texts("juice") == Counter(GUESTS[2:])


@pytest.mark.timeout(900)
def test_who_opts_out_of_what_a_lost_machine_sent_gets_nothing_more(team: Team) -> None:
    """What was approved before is sent in the job that finds the launch: the replies to it are read first."""
    team.start()
    write(team, "coffee", "tea")
    with (team.campaigns / "targets.yaml").open("a", encoding="utf-8") as targets:
        targets.write("      concurrency: 1\n")
    team.write_audience(GUESTS[:3])

    def lose_machine(process: int) -> None:
        while not team.texts("coffee"):
            time.sleep(0.02)
        os.killpg(process, signal.SIGKILL)
        raise MachineLostError

    # It is lost while it waits for the first answer, however long it takes until somebody sees the text.
    with pytest.raises(MachineLostError), team.sends.hold_after(0):
        team.send(team.push("Tell of coffee and tea"), team.approve, {"Send": lose_machine})
    (first,) = team.texts("coffee")
    assert not team.texts("tea")
    team.ask("/_sandbox/reply", {"phone": first, "text": "STOP"})
    write(team, "juice")
    jobs = team.send(team.push("Tell of the juice"), team.reject)
    assert "2 people texted" in jobs["plan"].log("Plan")
    assert team.texts("tea") == Counter(GUESTS[:3]) - Counter([first])


@pytest.mark.timeout(900)
def test_a_record_that_is_deleted_while_an_approval_waits_hides_no_opt_out(team: Team) -> None:
    """Anybody who may push branches can delete it: the launches are found at the service, then the replies."""
    team.start(is_protected=True)
    write(team, "coffee")
    team.write_audience(GUESTS[:3])
    team.send(team.push("Tell three of the coffee"), team.approve)
    assert team.texts("coffee") == Counter(GUESTS[:3])
    write(team, "tea")

    def delete_the_record(waiting: Waiting) -> None:
        team.ask("/_sandbox/reply", {"phone": GUESTS[0], "text": "STOP"})
        git(team.forge.remote, "update-ref", "-d", "refs/runner/live")
        team.approve(waiting)

    jobs = team.send(team.push("Tell three of the tea"), delete_the_record)
    assert jobs["send"].result == "success", jobs["send"].show()
    assert team.texts("tea") == Counter(GUESTS[1:3])


@pytest.mark.timeout(900)
def test_a_broken_neighbour_stops_nobody_and_is_told_until_it_is_mended(team: Team) -> None:
    """In a subfolder of the repository: the other campaign is sent, the job is red, and an issue is open."""
    team.place = "texts"
    team.start()
    write(team, "coffee", "tea")
    team.write_campaign("coffee", CAMPAIGN.format(name="coffee").replace("{{ name }}", "{{ nme }}"))
    team.write_audience(GUESTS)
    jobs = team.send(team.push("Tell all of coffee and tea"), team.approve)
    assert (jobs["plan"].result, jobs["send"].result) == ("failure", "success"), jobs["plan"].show()
    assert team.texts("tea") == Counter(GUESTS)
    (issue,) = team.github.issues
    assert issue["state"] == "open"

    write(team, "coffee")
    jobs = team.send(team.push("Spell it right"), team.approve)
    assert (jobs["plan"].result, jobs["send"].result) == ("success", "success"), jobs["plan"].show()
    assert (team.texts("tea"), team.texts("coffee")) == (Counter(GUESTS), Counter(GUESTS))
    assert issue["state"] == "closed"
    assert team.count_recorded() == {"coffee": 6, "tea": 6}


@pytest.mark.timeout(900)
def test_what_is_held_is_resolved_and_what_is_paused_waits(team: Team) -> None:
    """By hand and with a reviewer's consent, on main that takes no push from jobs."""
    team.start(is_protected=True)
    write(team, "coffee")
    team.write_audience(GUESTS)
    team.ask("/api/send", {"tag": "coffee", "text": "Coffee? From a lost machine.", "phone": GUESTS[:2]})
    jobs = team.send(team.push("Tell all of the coffee"), team.approve)
    assert jobs["send"].result == "failure", jobs["send"].show()
    assert team.texts("coffee") == Counter(GUESTS)
    (issue,) = team.github.issues
    assert issue["state"] == "open"

    jobs = team.send(team.dispatch(action="adopt-all", campaign="campaigns/coffee.yaml"), team.approve)
    assert jobs["act"].result == "success", jobs["act"].show()
    assert "adopt-all campaigns/coffee.yaml" in team.asked[-1]
    jobs = team.send(team.dispatch(action="pause", campaign="campaigns/coffee.yaml", reason="ill"))
    assert jobs["act"].result == "success", jobs["act"].show()

    more = ["+14155550199"]
    team.write_audience([*GUESTS, *more])
    jobs = team.send(team.push("Tell one more"))
    assert jobs["plan"].result == "success", jobs["plan"].show()
    assert team.texts("coffee") == Counter(GUESTS)

    jobs = team.send(team.dispatch(action="resume", campaign="campaigns/coffee.yaml"), team.reject)
    assert jobs["act"].result == "skipped"
    jobs = team.send(team.dispatch(action="resume", campaign="campaigns/coffee.yaml"), team.approve)
    assert jobs["act"].result == "success", jobs["act"].show()
    jobs = team.send(team.dispatch(campaign="campaigns/coffee.yaml"), team.approve)
    assert jobs["send"].result == "success", jobs["send"].show()
    assert team.texts("coffee") == Counter([*GUESTS, *more])
    # Nobody is held any more; that main takes no push from jobs leaves nothing to do.
    assert "\n- [x] Nobody is held.\n" in issue["body"]
    assert issue["body"].count("\n- [ ] ") == 0


@pytest.mark.timeout(900)
def test_replies_that_wait_are_decided_by_hand(team: Team) -> None:
    """An issue lists them; a reviewer agrees to what is said of them; it holds on every machine from then on."""
    team.start()
    open_question = CAMPAIGN.format(name="coffee").replace(', responses: ["Much", "Not so much"]', "")
    team.write_campaign("coffee", open_question)
    team.write_audience(GUESTS[:4])
    assert team.send(team.push("Tell four of the coffee"), team.approve)["send"].result == "success"
    for phone, text in zip(
        GUESTS, ("take me off this thing please", "is this a wrong number?", "STOP"), strict=False
    ):
        team.ask("/_sandbox/reply", {"phone": phone, "text": text})
    team.forge = replace(team.forge, variables={"CAMPAIGNS_REPLIES": "true"})
    jobs = team.send(team.hour())
    assert jobs["plan"].result == "success", jobs["plan"].show()
    (issue,) = team.github.issues
    assert issue["title"] == "Campaigns on live: replies wait for a decision"
    assert not any(phone in issue["body"] for phone in GUESTS)
    (out,) = re.findall(r"`([^`]+)` \|.*take me off", issue["body"])
    (kept,) = re.findall(r"`([^`]+)` \|.*is this a wrong number", issue["body"])

    jobs = team.send(team.dispatch(action="confirm", replies=out), team.reject)
    assert jobs["act"].result == "skipped"
    jobs = team.send(team.dispatch(action="confirm", replies="nobody's"), team.approve)
    assert "there is no such reply on live: nobody's; nothing was changed" in jobs["act"].log("Act")
    for action, reply in (("confirm", out), ("dismiss", kept)):
        jobs = team.send(team.dispatch(action=action, replies=f"  {reply} "), team.approve)
        assert jobs["act"].result == "success", jobs["act"].show()
        assert team.asked[-1].split() == ["Agree:", action, reply]
    assert issue["state"] == "closed"

    write(team, "tea")
    jobs = team.send(team.push("Tell them of the tea"), team.approve)
    assert jobs["send"].result == "success", jobs["send"].show()
    assert team.texts("tea") == Counter([GUESTS[1], GUESTS[3]])
    assert len(team.github.issues) == 1


@pytest.mark.timeout(900)
def test_nothing_is_sent_where_nobody_was_asked(team: Team) -> None:
    """An environment without reviewers approves nothing; a reviewed merge does where the team has said so."""
    secrets = team.forge.environments["campaigns"]
    team.forge = replace(team.forge, environments={"campaigns": secrets, "campaigns-approval": Environment()})
    team.start()
    team.branch("coffee")
    write(team, "coffee")
    team.write_audience(GUESTS)
    team.commit("Tell all of the coffee")
    assert team.review().result == "success"
    event = team.merge("coffee", f"Merge pull request #{NUMBER}: coffee")
    jobs = team.send(event)
    assert jobs["send"].result == "failure"
    assert not team.texts("coffee")

    team.forge = replace(team.forge, variables={"CAMPAIGNS_APPROVAL": "merge"})
    jobs = team.send(event)
    assert jobs["approve"].result == "skipped"
    assert jobs["send"].result == "success", jobs["send"].show()
    assert team.texts("coffee") == Counter(GUESTS)
    assert git(team.forge.remote, "log", "-1", "--format=%b", "main")

    # What was sent has a key by now, which pull requests' jobs don't have: their comment says the most.
    more = ["+14155550198"]
    team.branch("more")
    team.write_audience([*GUESTS, *more])
    team.commit("Tell one more")
    assert team.review().result == "success"
    jobs = team.send(team.merge("more", f"Merge pull request #{NUMBER}: one more"))
    assert jobs["send"].result == "success", jobs["send"].show()
    assert team.texts("coffee") == Counter([*GUESTS, *more])

    # Nobody is asked about what is said by hand, either: only to stop needs no approval.
    for action in ("not-sent-all", "resume"):
        jobs = team.send(team.dispatch(action=action, campaign="campaigns/coffee.yaml"))
        assert jobs["act"].result == "failure", jobs["act"].show()
    jobs = team.send(team.dispatch(action="pause", campaign="campaigns/coffee.yaml"))
    assert jobs["act"].result == "success", jobs["act"].show()

    # The targets.yaml beside a campaign elsewhere would say where the credentials go.
    for action, job in (("send", "plan"), ("not-sent-all", "act")):
        jobs = team.send(team.dispatch(action=action, campaign="docs/tea.yaml"))
        assert jobs[job].result == "failure"
        assert "Error: a job is not about 'docs/tea.yaml'" in jobs[job].steps[3].log
