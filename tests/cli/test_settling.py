"""What `apply`, `plan` and `resolve` do about launches that no record, or an unclear one, tells of."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.service.conftest import API_KEY, USERNAME, ListService, reaching

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]
    Serve = Callable[..., Any]
    CheckJson = Callable[[str, str], dict[str, Any]]

LOCKFILE = "campaigns/pulse.sandbox.lock.json"
SHORT = ("--settle-window", "100ms")


def lose_ledger(folder: Path) -> None:
    for file in (folder / ".runner").glob("ledger*"):
        file.unlink()


def edit_ledger(folder: Path, statement: str) -> None:
    """Bring the ledger into a state that a run may leave behind when it dies."""
    with closing(sqlite3.connect(folder / ".runner/ledger.sqlite")) as connection:
        connection.execute(statement)
        connection.commit()


def test_plan_warns_of_a_record_that_looks_lost(folder: Path, run: Run) -> None:
    """An empty record whose tag the service knows is pointed out before anything is sent."""
    run("apply", "--auto-approve", cwd=folder)
    lose_ledger(folder)
    (folder / LOCKFILE).unlink()
    planned = run("plan", cwd=folder)
    assert planned.stderr == (
        "Warning: pulse has an empty record, but the service knows 4 launches under its tag 'pulse-2026': "
        "was it renamed (`renamed_from`), or is its record lost? `runner apply` adopts those that match, and holds the people of the others\n"
    )


def test_plan_says_that_the_service_does_not_count(folder: Path, run: Run) -> None:
    """A service that does not say how many launches it knows is not taken for one that knows none."""
    service = ListService()
    service.change_page = lambda _page: {"objects": []}
    with reaching(service) as target:
        environment = {
            "RUNNER_BASE_URL": str(target.base_url),
            "RUNNER_USERNAME": USERNAME,
            "RUNNER_API_KEY": API_KEY,
        }
        planned = run("plan", cwd=folder, env=environment)
    assert planned.returncode == 0
    assert planned.stderr == (
        "The service does not say how many launches it knows under the tag 'pulse-2026'.\n"
    )


def make_partial(folder: Path, run: Run) -> dict[str, Any]:
    """Leave one launch of two recipients unresolved, of which the service lists a part alone."""
    file = folder / "campaigns/pulse.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("Hi {{ first_name }}", "Hi"), encoding="utf-8")
    run("apply", "--auto-approve", "--limit", "1", cwd=folder)
    with (folder / "campaigns/pulse.yaml").open("a", encoding="utf-8") as stream:
        stream.write("limits: {recipients_per_send: 10}\n")
    run("apply", "--auto-approve", cwd=folder)
    launches = json.loads((folder / LOCKFILE).read_text())["launches"]
    edit_ledger(
        folder,
        "UPDATE launches SET state = 'unknown', project_launch_guid = NULL WHERE recipients = 3",
    )
    (folder / LOCKFILE).unlink()
    with closing(sqlite3.connect(folder / ".runner/sandbox/service.sqlite")) as connection:
        connection.execute("DELETE FROM session WHERE id = (SELECT max(id) FROM session)")
        connection.commit()
    (large,) = [launch for launch in launches if len(launch["recipients"]) == 3]
    return dict(large)


@pytest.mark.slow
def test_what_is_unknown_of_a_campaign_without_a_file_is_no_success(folder: Path, run: Run) -> None:
    """It exits with 4 until a person has said what became of it; settling alone does not."""
    launch = make_partial(folder, run)
    assert run("apply", "--auto-approve", *SHORT, cwd=folder).returncode == 4
    (folder / "campaigns/pulse.yaml").unlink()
    done = run("apply", "--auto-approve", *SHORT, cwd=folder)
    assert done.returncode == 4
    assert done.stderr.endswith(
        "Error: pulse: its file is gone, and 3 recipients of it may have been texted: the outcome is unknown\n"
        "  `runner resolve` lists the launches, and records what a person says of them\n"
    )
    assert run("apply", "--settle-only", *SHORT, cwd=folder).returncode == 0
    listed = run("resolve", cwd=folder)
    assert (listed.returncode, launch["project_launch_guid"] in listed.stdout) == (4, True)
    adopted = run("resolve", "--adopt", launch["project_launch_guid"], cwd=folder)
    assert (adopted.returncode, adopted.stdout) == (0, "Nothing is unresolved.\n")
    assert launch["project_launch_guid"] in (folder / LOCKFILE).read_text(encoding="utf-8")
    assert run("apply", "--auto-approve", *SHORT, cwd=folder).returncode == 0


@pytest.mark.slow
def test_a_partial_launch_is_held_and_resolved_by_a_person(
    folder: Path, run: Run, check_json: CheckJson
) -> None:
    """What only partly fits exits with 4, is listed with its candidates, and --adopt settles it.

    The service counts three sessions and lists two: all three may have been reached.
    """
    launch = make_partial(folder, run)
    held = run("apply", "--auto-approve", *SHORT, cwd=folder)
    assert held.returncode == 4
    assert held.stdout == (
        "pulse: nothing sent. 3 people have an unknown outcome and will not be texted: `runner resolve`.\n"
    )
    listed = run("resolve", "--format", "json", cwd=folder)
    assert listed.returncode == 4
    (case,) = check_json(listed.stdout, "resolve")["launches"]
    assert (case["key"], case["recipients"]) == (launch["key"], 3)
    (candidate,) = case["candidates"]
    assert candidate["project_launch_guid"] == launch["project_launch_guid"]
    assert (candidate["recipients_in_common"], candidate["same_definition"]) == (2, True)
    shown = run("resolve", cwd=folder)
    assert launch["project_launch_guid"] in shown.stdout
    adopted = run("resolve", "--adopt", launch["project_launch_guid"], cwd=folder)
    assert (adopted.returncode, adopted.stdout) == (0, "Nothing is unresolved.\n")
    assert adopted.stderr == (
        "Warning: pulse: 1 person of this text is not in the service's list of it, and counts as texted: "
        "nobody sends it to them again\n"
        "Recorded: pulse sent 1 text (3 people).\n"
    )
    plan = json.loads(run("plan", "--format", "json", cwd=folder).stdout)["campaigns"][0]["messages"][0]
    assert (plan["already_sent"], plan["to_send"], plan["unresolved"]) == (4, 0, 0)


@pytest.mark.slow
def test_a_person_can_say_that_it_was_not_sent(folder: Path, run: Run) -> None:
    """--not-sent frees the recipients of a held launch."""
    launch = make_partial(folder, run)
    done = run("resolve", "--launch", launch["key"], "--not-sent", cwd=folder)
    assert done.returncode == 0
    plan = json.loads(run("plan", "--format", "json", cwd=folder).stdout)["campaigns"][0]["messages"][0]
    assert (plan["to_send"], plan["unresolved"]) == (3, 0)


def test_nobody_can_say_that_a_listed_launch_was_not_sent(folder: Path, run: Run) -> None:
    """--not-sent is refused where the service lists the very launch: its recipients would be texted again."""
    run("apply", "--auto-approve", "--limit", "1", cwd=folder)
    (launch,) = json.loads((folder / LOCKFILE).read_text())["launches"]
    edit_ledger(folder, "UPDATE launches SET state = 'unknown', project_launch_guid = NULL")
    (folder / LOCKFILE).unlink()
    key, guid = launch["key"], launch["project_launch_guid"]
    refused = run("resolve", "--not-sent", cwd=folder)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"Error: {key} was sent: the service lists the same text to the same people as {guid}\n"
        f"  record it with: runner resolve --launch {key} --adopt {guid}\n"
    )
    adopted = run("resolve", "--launch", key, "--adopt", guid, cwd=folder)
    assert (adopted.returncode, adopted.stderr) == (0, "Recorded: pulse sent 1 text (1 person).\n")


def test_without_any_record_nobody_is_texted_again(folder: Path, run: Run) -> None:
    """With ledger and lockfile lost, apply adopts what the service knows and sends nothing."""
    run("apply", "--auto-approve", cwd=folder)
    guids = sorted(x["project_launch_guid"] for x in json.loads((folder / LOCKFILE).read_text())["launches"])
    lose_ledger(folder)
    (folder / LOCKFILE).unlink()
    again = run("apply", "--auto-approve", cwd=folder)
    assert (again.returncode, again.stdout) == (0, "pulse: nothing sent.\n")
    assert again.stderr == "pulse: adopted 4 launches that the service knows and the record had lost.\n"
    found = sorted(x["project_launch_guid"] for x in json.loads((folder / LOCKFILE).read_text())["launches"])
    assert found == guids


@pytest.mark.slow
def test_after_an_older_lockfile_only_the_rest_is_sent(folder: Path, run: Run) -> None:
    """With the ledger lost and an older lockfile checked out, apply adopts what was sent and sends the rest."""
    run("apply", "--auto-approve", "--limit", "1", cwd=folder)
    older = (folder / LOCKFILE).read_bytes()
    run("apply", "--auto-approve", "--limit", "2", cwd=folder)
    lose_ledger(folder)
    (folder / LOCKFILE).write_bytes(older)
    done = run("apply", "--auto-approve", cwd=folder)
    assert done.stdout == "pulse: 1 person texted.\n"
    assert len(json.loads((folder / LOCKFILE).read_text())["launches"]) == 4


def test_an_intent_of_a_dead_run_is_adopted(folder: Path, run: Run) -> None:
    """An intent without an outcome whose launch the service lists turns out to be sent."""
    run("apply", "--auto-approve", cwd=folder)
    edit_ledger(folder, "UPDATE launches SET state = 'intent', project_launch_guid = NULL, outcome_at = NULL")
    (folder / LOCKFILE).unlink()
    again = run("apply", "--auto-approve", *SHORT, cwd=folder)
    assert (again.returncode, again.stdout) == (0, "pulse: nothing sent.\n")
    assert again.stderr == "pulse: 4 launches of unknown outcome had been sent; recorded.\n"
    assert len(json.loads((folder / LOCKFILE).read_text())["launches"]) == 4


def test_an_intent_that_never_left_is_sent_after_the_window(folder: Path, run: Run) -> None:
    """An intent whose launch is missing from two lists, a settle window apart, is sent again."""
    run("apply", "--auto-approve", "--limit", "1", cwd=folder)
    edit_ledger(
        folder, "UPDATE launches SET state = 'unknown', project_launch_guid = NULL, tag = 'never-' || tag"
    )
    (folder / LOCKFILE).unlink()
    (folder / ".runner/sandbox/service.sqlite").unlink()
    again = run("apply", "--auto-approve", *SHORT, cwd=folder)
    assert again.stdout == "pulse: 4 people texted.\n"
    assert (
        "pulse: waiting 0.1 s, so that nobody is texted twice: the service may still have to list launches of "
        "unknown outcome.\n"
    ) in again.stderr
