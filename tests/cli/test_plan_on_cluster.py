"""`runner plan --cluster`: the output of one process, from real workers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

NOW = "2026-11-20T17:00:00Z"
FIRST = """\
version: 1
name: alpha
recipients: [{csv: people.csv}]
messages: [{id: hello, text: "Hi {{ name }}"}]
"""
CAPPED = """\
version: 1
name: beta
recipients: [{csv: more.csv}]
messages: [{id: hello, text: "Hello {{ name }}"}]
policy: {frequency_cap: {messages: 1, within: 7d}}
"""


@pytest.fixture
def shared(folder: Path) -> Path:
    """A folder with two campaigns, of which the second counts what the first sends."""
    campaigns = folder / "campaigns"
    for file in campaigns.iterdir():
        if file.is_file():
            file.unlink()
    (campaigns / "alpha.yaml").write_text(FIRST, encoding="utf-8")
    (campaigns / "beta.yaml").write_text(CAPPED, encoding="utf-8")
    rows = [f"+1415555{number:04},Name{number}\n" for number in range(300)]
    (campaigns / "people.csv").write_text("phone,name\n" + "".join(rows[:200]), encoding="utf-8")
    (campaigns / "more.csv").write_text("phone,name\n" + "".join(rows[100:]), encoding="utf-8")
    return folder


def read(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode in (0, 2), done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_cluster_plans_what_one_process_plans(run: Run, shared: Path) -> None:
    """JSON, exit code, digests and the saved plan are those of one process; nothing else stays."""
    options = ("plan", "--format", "json", "--now", NOW, "--detailed-exitcode")
    alone = run(*options, cwd=shared)
    together = run(*options, "--cluster", "local:2", "--out", "plan.json", cwd=shared)
    assert (together.returncode, read(together)) == (alone.returncode, read(alone))
    counts = [campaign["messages"][0] for campaign in read(together)["campaigns"]]
    assert [(one["to_send"], one["capped"]) for one in counts] == [(200, 0), (100, 100)]
    saved = json.loads((shared / "plan.json").read_text(encoding="utf-8"))
    assert saved["plan_digest"] == read(alone)["plan_digest"]
    assert list((shared / ".runner" / "cluster").iterdir()) == []


@pytest.mark.slow
def test_the_open_step_of_a_rollout_is_the_same_on_a_cluster(run: Run, shared: Path) -> None:
    """The process that plans finds it, and workers text nobody beyond it."""
    steps = "rollout: {steps: [{share: 10%, hold: 2h}, {share: 100%}], guards: {opt_outs: 2%}}\n"
    (shared / "campaigns/alpha.yaml").write_text(FIRST + steps, encoding="utf-8")
    options = ("plan", "campaigns/alpha.yaml", "--format", "json", "--now", NOW)
    alone, together = run(*options, cwd=shared), run(*options, "--cluster", "local:2", cwd=shared)
    assert read(together) == read(alone)
    (campaign,) = read(together)["campaigns"]
    (message,) = campaign["messages"]
    assert message["to_send"] == campaign["rollout"]["people"] < message["later_step"]


@pytest.mark.slow
def test_where_people_are_by_law_is_the_same_on_a_cluster(run: Run, shared: Path) -> None:
    """Regions, holidays and places without a rule: the same counts, reasons and digests."""
    campaign = (
        "version: 1\nname: alpha\n"
        "recipients:\n"
        '  - {phone: "+12125550001", region: US-FL, vars: {name: Ada}}\n'
        "  - {csv: people.csv, region: US, region_column: state}\n"
        'messages: [{id: hello, text: "Hi {{ name }}"}]\n'
        "policy: {quiet_hours: legal}\n"
    )
    (shared / "campaigns" / "alpha.yaml").write_text(campaign, encoding="utf-8")
    states = ("", "FL", "Louisiana", "CA", "DE", "Germany", "KE", "US-TX")
    rows = [
        f"+1{area}555{n:04},Name{area}{n},{state}\n"
        for area in (212, 415, 416, 504)
        for n, state in enumerate(states)
    ]
    (shared / "campaigns" / "people.csv").write_text("phone,name,state\n" + "".join(rows), encoding="utf-8")
    options = ("plan", "campaigns/alpha.yaml", "--format", "json", "--now", "2026-12-25T20:30:00-05:00")
    alone = run(*options, cwd=shared)
    together = run(*options, "--cluster", "local:2", cwd=shared)
    assert read(together) == read(alone)
    (message,) = read(alone)["campaigns"][0]["messages"]
    assert {name: message[name] for name in ("no_rule", "deferred", "to_send")} == {
        "no_rule": 10,
        "deferred": 10,
        "to_send": 12,
    }
    assert any("Christmas Day" in one["reason"] for one in message["reasons"])


@pytest.mark.slow
def test_problems_on_a_cluster_are_those_of_one_process(run: Run, shared: Path) -> None:
    """What is wrong with rows is said in the same words, with the same exit code; the neighbour is planned."""
    with (shared / "campaigns" / "people.csv").open("a", encoding="utf-8") as stream:
        stream.write("12,Bo\n+14155559999,\n")
    alone = run("plan", "--quiet", cwd=shared)
    together = run("plan", "--quiet", "--cluster", "local:2", cwd=shared)
    assert alone.returncode == 3
    assert (together.returncode, together.stdout, together.stderr) == (3, alone.stdout, alone.stderr)


@pytest.mark.slow
def test_open_surveys_count_on_a_cluster(run: Run, shared: Path) -> None:
    """Who has one waits, as in one process: nothing was read of it, it is open, or it has ended for them."""
    survey = FIRST.replace('text: "Hi {{ name }}"', 'questions: [{tag: why, text: "Why, {{ name }}?"}]')
    (shared / "campaigns" / "alpha.yaml").write_text(survey, encoding="utf-8")
    (shared / "campaigns" / "beta.yaml").write_text(CAPPED.partition("policy")[0], encoding="utf-8")
    sent = run("apply", "campaigns/alpha.yaml", "--auto-approve", cwd=shared)
    assert sent.returncode == 0, sent.stderr
    simulated = run("sandbox", "simulate", "--seed", "3", "--response-rate", "0.5", cwd=shared)
    assert simulated.returncode == 0, simulated.stderr
    found = []
    for _ in range(2):
        options = ("plan", "campaigns/beta.yaml", "--format", "json", "--now", NOW)
        alone = read(run(*options, cwd=shared))
        assert read(run(*options, "--cluster", "local:2", cwd=shared)) == alone
        message = alone["campaigns"][0]["messages"][0]
        found.append((message["to_send"], message["open_session"]))
        assert run("reconcile", cwd=shared).returncode == 0
    (before, after) = found
    assert before == (100, 100)
    assert sum(after) == 200
    assert 100 < after[0] < 200


@pytest.mark.slow
def test_surveys_of_earlier_campaigns_of_the_run_count_on_a_cluster(run: Run, shared: Path) -> None:
    """Three campaigns that share people: the plan is that of one process, and so is what is sent."""
    campaigns = shared / "campaigns"
    survey = 'questions: [{tag: why, text: "Why, {{ name }}?"}]'
    (campaigns / "alpha.yaml").write_text(FIRST.replace('text: "Hi {{ name }}"', survey), encoding="utf-8")
    beta = CAPPED.partition("policy")[0]
    (campaigns / "beta.yaml").write_text(beta.replace('text: "Hello {{ name }}"', survey), encoding="utf-8")
    gamma = CAPPED.replace("beta", "gamma").replace("messages: 1,", "messages: 2,")
    rows = [f"+1415555{number:04},Name{number}\n" for number in range(150, 350)]
    (campaigns / "late.csv").write_text("phone,name\n" + "".join(rows), encoding="utf-8")
    (campaigns / "gamma.yaml").write_text(gamma.replace("more.csv", "late.csv"), encoding="utf-8")
    options = ("plan", "--format", "json", "--now", NOW)
    alone = read(run(*options, cwd=shared))
    assert read(run(*options, "--cluster", "local:2", cwd=shared)) == alone
    assert read(run(*options, "--cluster", "local:2", "--out", "plan.json", cwd=shared)) == alone
    counts = [each["messages"][0] for each in alone["campaigns"]]
    assert [(one["to_send"], one["open_session"]) for one in counts] == [(200, 0), (100, 100), (50, 150)]
    done = read(run("apply", "--plan", "plan.json", "--cluster", "local:2", "--format", "json", cwd=shared))
    assert [(one["recipients_sent"], one["open_session"]) for one in done["campaigns"]] == [
        (200, 0),
        (100, 100),
        (50, 150),
    ]


def test_what_shows_every_text_is_made_in_one_process(run: Run, shared: Path) -> None:
    """A cluster is for people too many to be shown one by one: the option that does so is refused."""
    done = run("plan", "--launches", "--cluster", "local:2", cwd=shared)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr == (
        "Error: --launches shows every person's text, and is not made on a cluster\n"
        "  leave out --launches, or plan in one process, without --cluster\n"
    )


@pytest.mark.slow
def test_what_a_file_of_suppressions_tells_counts_on_a_cluster(run: Run, shared: Path) -> None:
    """Opt-outs and a pause that another ledger has written are counted, and nothing is written."""
    other = ("--ledger", f"sqlite:///{shared}/other.sqlite")
    assert run("optouts", "add", "+14155550001", "+14155550150", *other, cwd=shared).returncode == 0
    assert run("pause", "beta", *other, cwd=shared).returncode == 0
    options = ("plan", "--format", "json", "--now", NOW)
    alone = run(*options, cwd=shared)
    together = run(*options, "--cluster", "local:2", cwd=shared)
    assert (alone.returncode, together.returncode) == (7, 7)
    assert json.loads(together.stdout) == json.loads(alone.stdout)
    counts = [campaign["messages"][0] for campaign in json.loads(together.stdout)["campaigns"]]
    assert [(one["opted_out"], one["paused"], one["to_send"]) for one in counts] == [
        (2, 0, 198),
        (1, 100, 0),
    ]
    assert run("optouts", "list", *other, cwd=shared).stdout.startswith("sandbox: 2 people have opted out")


@pytest.mark.slow
def test_unread_replies_hold_texts_back_on_a_cluster(run: Run, shared: Path) -> None:
    """As in one process: the same plan and exit code; a saved plan waits, too, and is sent once they are read."""
    survey = "messages: [{id: ask, questions: [{tag: why, text: Why?}]}]\n"
    people = 'recipients: [{phone: "+14155552671"}]\n'
    (shared / "campaigns" / "gamma.yaml").write_text(f"version: 1\n{people}{survey}", encoding="utf-8")
    assert run("apply", "campaigns/gamma.yaml", "--auto-approve", cwd=shared).returncode == 0
    beta = ("campaigns/beta.yaml", "--cluster", "local:2")
    assert run("plan", *beta, "--out", "plan.json", cwd=shared).returncode == 0
    assert run("sandbox", "clock", "+25h", cwd=shared).returncode == 0
    later = run("sandbox", "clock", "--format", "json", cwd=shared)
    options = ("plan", "--format", "json", "--now", json.loads(later.stdout)["time"])
    alone = run(*options, cwd=shared)
    together = run(*options, "--cluster", "local:2", cwd=shared)
    assert (alone.returncode, together.returncode) == (5, 5)
    assert json.loads(together.stdout) == json.loads(alone.stdout)
    counts = [campaign["messages"][0] for campaign in json.loads(together.stdout)["campaigns"]]
    assert [(one["deferred"], one["to_send"]) for one in counts] == [(200, 0), (200, 0), (0, 0)]
    send = ("apply", "--plan", "plan.json", "--cluster", "local:2", "--quiet")
    held = run(*send, cwd=shared)
    assert (held.returncode, held.stdout) == (5, ""), held.stderr
    assert held.stderr.startswith("Error: beta: 200 texts wait: replies to gamma are unread since ")
    assert run("reconcile", cwd=shared).returncode == 0
    assert run(*send, cwd=shared).stdout == "beta: 200 people texted.\n"
