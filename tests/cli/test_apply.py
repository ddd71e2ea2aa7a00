"""`runner apply`: asking, saved plans, parts of a plan, trials, limits."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import requests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]
    Serve = Callable[..., Any]

OUT_OF_DATE = "Error: the plan plan.json is out of date: pulse: {cause}\n  nothing was sent; make a new plan, as with `runner plan --out FILE`, and review that\n"


def count_sent(run: Run, folder: Path, **options: Any) -> int:
    status = json.loads(run("status", "--format", "json", cwd=folder, **options).stdout)
    return sum(message["sent"] for campaign in status["campaigns"] for message in campaign["messages"])


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_without_a_terminal_apply_refuses(folder: Path, run: Run) -> None:
    """Without a terminal to ask at, nothing is sent unless it was approved beforehand."""
    refused = run("apply", cwd=folder, stdin="y\n")
    assert refused.returncode == 64
    assert refused.stderr == (
        "Error: there is no terminal to ask, and nothing was sent\n"
        "  send without asking with --auto-approve, or a reviewed plan with --plan FILE\n"
    )
    assert count_sent(run, folder) == 0


def test_a_saved_plan_is_sent_without_asking(folder: Path, run: Run) -> None:
    """`apply --plan` sends exactly what `plan --out` has saved; the file holds no phone number."""
    saved = run("plan", "--out", "plan.json", "--limit", "2", cwd=folder)
    text = (folder / "plan.json").read_text(encoding="utf-8")
    assert "555010" not in text
    assert saved.stderr == (
        "Saved to plan.json. Send exactly this with: runner apply --plan plan.json\n"
        f"Plan digest: {json.loads(text)['plan_digest']}\n"
    )
    applied = run("apply", "--plan", "plan.json", cwd=folder)
    assert (applied.returncode, applied.stdout) == (0, "pulse: 2 people texted.\n")


@pytest.mark.slow
def test_a_saved_plan_is_refused_after_it_was_sent(folder: Path, run: Run) -> None:
    """A plan is good for one time: what it describes is on record afterwards."""
    run("plan", "--out", "plan.json", cwd=folder)
    assert run("apply", "--plan", "plan.json", cwd=folder).returncode == 0
    again = run("apply", "--plan", "plan.json", cwd=folder)
    assert again.returncode == 1
    assert again.stderr == OUT_OF_DATE.format(cause="something has been sent, or recorded, in the meantime")


def test_a_saved_plan_is_refused_when_the_audience_has_changed(folder: Path, run: Run) -> None:
    """A plan for another audience is not sent."""
    run("plan", "--out", "plan.json", cwd=folder)
    edit(folder / "campaigns/audience/people.csv", "Bob", "Bert")
    refused = run("apply", "--plan", "plan.json", cwd=folder)
    assert refused.returncode == 1
    assert refused.stderr == OUT_OF_DATE.format(
        cause="audience, template, option or who may be texted changed: who gets what is not the same"
    )
    assert count_sent(run, folder) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "no json",
            (
                "Error: the plan plan.json is damaged or cut off: it is not JSON\n"
                "  nothing was sent; make a new plan, as with `runner plan --out FILE`, and review that\n"
            ),
        ),
        (
            '{"format_version": "1.0"}',
            (
                "Error: the plan plan.json is not one that `runner plan --out` has saved\n"
                "  nothing was sent; make a new plan, as with `runner plan --out FILE`, and review that\n"
            ),
        ),
    ],
)
def test_what_is_no_plan_is_refused(folder: Path, run: Run, content: str, message: str) -> None:
    """A file that is no saved plan is named as such."""
    (folder / "plan.json").write_text(content, encoding="utf-8")
    refused = run("apply", "--plan", "plan.json", cwd=folder)
    assert (refused.returncode, refused.stderr) == (1, message)


def test_a_saved_plan_goes_with_nothing_else(folder: Path, run: Run) -> None:
    """A saved plan says what to send: options that say it too are a mistake."""
    run("plan", "--out", "plan.json", cwd=folder)
    refused = run("apply", "--plan", "plan.json", "--limit", "1", cwd=folder)
    assert refused.returncode == 64
    assert refused.stderr == "Error: --plan says what to send: PATH, --only and --limit don't go with it\n"


@pytest.mark.slow
def test_limit_sends_to_some_now_and_to_the_rest_later(folder: Path, run: Run) -> None:
    """`--limit` holds recipients back, and the next apply sends to them."""
    plan = json.loads(run("plan", "--limit", "3", "--format", "json", cwd=folder).stdout)
    message = plan["campaigns"][0]["messages"][0]
    assert (message["to_send"], message["over_limit"]) == (3, 1)
    assert run("apply", "--limit", "3", "--auto-approve", cwd=folder).returncode == 0
    assert count_sent(run, folder) == 3
    assert run("apply", "--auto-approve", cwd=folder).stdout == "pulse: 1 person texted.\n"
    assert count_sent(run, folder) == 4


def test_only_sends_one_message(folder: Path, run: Run) -> None:
    """`--only` leaves the other messages of a campaign alone; an unknown one is a mistake."""
    with (folder / "campaigns/pulse.yaml").open("a", encoding="utf-8") as file:
        file.write('  - {id: note, text: "Bye."}\n')
    applied = json.loads(
        run("apply", "--only", "note", "--auto-approve", "--format", "json", cwd=folder).stdout
    )
    assert {launch["message"] for launch in applied["campaigns"][0]["launches"]} == {"note"}
    refused = run("apply", "--only", "nope", "--auto-approve", cwd=folder)
    assert refused.returncode == 64
    assert refused.stderr == "Error: no campaign has a message 'nope'\n  known: ask, note\n"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ("recipients: 3", "it would text 4 recipients, and limits.recipients is 3"),
        ("renders: 15", "it could cost 16 renders, and limits.renders is 15"),
    ],
)
def test_a_plan_beyond_a_limit_is_stopped(folder: Path, run: Run, limits: str, words: str) -> None:
    """A plan beyond a limit of the campaign sends nothing, with the numbers in the refusal."""
    with (folder / "campaigns/pulse.yaml").open("a", encoding="utf-8") as file:
        file.write(f"limits: {{{limits}}}\n")
    hint = "  check audience and campaign: limits are in the campaign, rules in targets.yaml\n"
    planned = run("plan", cwd=folder)
    assert (planned.returncode, planned.stderr) == (5, f"Error: pulse: {words}\n{hint}")
    # The plan ends with it, and does not say that anything is to be sent.
    assert planned.stdout.endswith(f"\nStopped: pulse: {words}. None of it is sent.\n")
    assert "To send" not in planned.stdout
    applied = run("apply", "--auto-approve", cwd=folder)
    assert (applied.returncode, applied.stderr) == (5, f"Error: pulse: {words}. Nothing was sent\n{hint}")
    assert count_sent(run, folder) == 0


def test_limits_allow_what_is_within_them(folder: Path, run: Run) -> None:
    """A plan exactly at its limits is sent."""
    with (folder / "campaigns/pulse.yaml").open("a", encoding="utf-8") as file:
        file.write("limits: {recipients: 4, renders: 16, recipients_per_send: 1}\n")
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0


def test_recipients_with_one_text_share_launches(folder: Path, run: Run) -> None:
    """Recipients of the same text go together, at most `recipients_per_send` in a launch."""
    edit(folder / "campaigns/pulse.yaml", "Hi {{ first_name }}", "Hi")
    with (folder / "campaigns/pulse.yaml").open("a", encoding="utf-8") as file:
        file.write("limits: {recipients_per_send: 3}\n")
    applied = json.loads(run("apply", "--auto-approve", "--format", "json", cwd=folder).stdout)
    assert sorted(launch["recipients"] for launch in applied["campaigns"][0]["launches"]) == [1, 3]


def test_a_trial_goes_to_one_phone_and_is_not_recorded(folder: Path, run: Run, serve: Serve) -> None:
    """`--test-to` sends the first texts to one phone, under a tag of their own, and records nothing."""
    with serve(folder, "--db", "service.sqlite") as environment:
        tried = run("apply", "--test-to", "+14155550142", "--auto-approve", cwd=folder, env=environment)
        assert tried.returncode == 0, tried.stderr
        assert tried.stderr == "Sent 3 test launches to +14•••••••42; nothing was recorded.\n"
        credentials = {"username": environment["RUNNER_USERNAME"], "api_key": environment["RUNNER_API_KEY"]}
        stats = requests.get(
            f"{environment['RUNNER_BASE_URL']}/api/stats/", params=credentials, timeout=10
        ).json()
        assert {session["to"] for launch in stats["objects"] for session in launch["sessions"]} == {
            "+14155550142"
        }
        assert {launch["project_tag"] for launch in stats["objects"]} == {"pulse-2026-test"}
        assert count_sent(run, folder, env=environment) == 0


def test_a_trial_only_reads(folder: Path, run: Run, serve: Serve) -> None:
    """`--test-to` settles nothing, waits for nothing, and leaves ledger and lockfile as they are."""
    with serve(folder, "--db", "service.sqlite") as environment:
        run("apply", "--auto-approve", "--limit", "1", cwd=folder, env=environment)
        ledger, lockfile = folder / ".runner/ledger.sqlite", folder / "campaigns/pulse.live.lock.json"
        with closing(sqlite3.connect(ledger)) as connection:
            connection.execute("UPDATE launches SET state = 'unknown', project_launch_guid = NULL")
            connection.commit()
        lockfile.unlink()
        trial = ("apply", "--test-to", "+14155550142", "--auto-approve", "--settle-window", "1h")
        tried = run(*trial, cwd=folder, env=environment)
        assert (tried.returncode, tried.stderr) == (
            0,
            "Sent 3 test launches to +14•••••••42; nothing was recorded.\n",
        )
        with closing(sqlite3.connect(ledger)) as connection:
            assert connection.execute("SELECT state FROM launches").fetchall() == [("unknown",)]
        assert not lockfile.exists()
