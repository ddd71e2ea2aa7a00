"""`runner optouts issue`, as a step of a job runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt

from runner.github.comments import write_marker
from tests.cli.test_alert import PAGE, name_job
from tests.cli.test_optouts import ADA, BOB, CY, say

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.forge.github_server import GitHub

    Run = Callable[..., CompletedProcess[str]]

MARKER = write_marker("sandbox", kind="replies")
SAID = (
    "Wrong number!! call me at 415-555-0199 or ada@acme.example, see www.acme.example/ada " + "please " * 20
)


def receive(folder: Path, run: Run, phone: str, text: str) -> dict[str, str]:
    """Have somebody reply, reconcile, and return the reply that waits since."""
    before = {one["reply"] for one in list_replies(folder, run)}
    say(folder, phone, "10", text)
    assert run("reconcile", cwd=folder).returncode == 0
    (new,) = [one for one in list_replies(folder, run) if one["reply"] not in before]
    return new


def list_replies(folder: Path, run: Run) -> list[dict[str, str]]:
    listed = run("optouts", "list", "--format", "json", cwd=folder).stdout
    replies: list[dict[str, str]] = json.loads(listed)["replies"]
    return replies


@pytest.mark.slow
def test_what_waits_is_listed_until_it_is_decided(run: Run, sent: Path, github: GitHub) -> None:
    """One issue: opened with what waits and how to decide it, told of more, and closed when none is left."""
    job = name_job(github, sent)
    done = run("optouts", "issue", cwd=sent, env=job)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "No reply waits for a decision: there is no issue\n"
    first = receive(sent, run, ADA, SAID)
    done = run("optouts", "issue", cwd=sent, env=job)
    (issue,) = github.issues
    assert done.stderr == f"Issue of replies opened: {issue['html_url']}\n"
    assert issue["title"] == "Replies on sandbox wait for a decision"
    state = f'{{"change":0,"replies":["{first["reply"][:8]}"]}}'
    assert issue["body"] == (
        f"{MARKER}\n<!-- state {state} -->\n### Replies → sandbox: a decision is needed\n\n"
        "- **1 reply sounds like an opt-out**: nobody who wrote so is texted until a person decides\n\n"
        f"#### How to decide\n\nDecide in the workflow [Campaigns send]({PAGE}/actions/workflows/"
        "campaigns-send.yml), *Run workflow* with\n\n"
        "| if | action | replies |\n|---|---|---|\n"
        "| a reply opts out | `confirm` | as below; several with blanks between |\n"
        "| a reply is an answer, and no opt-out | `dismiss` | as below; several with blanks between |\n"
        "| the author of one that asks for texts again is let in | `confirm` | as below; several with blanks "
        "between |\n"
        "| the author of one that asks for texts again stays out | `dismiss` | as below; several with blanks "
        "between |\n"
        "\nOr in a clone, by one key each:\n\n```sh\nrunner record --fetch\nrunner reconcile --target sandbox\n"
        "runner optouts review --target sandbox\nrunner record\n```\n\n"
        "What they say is not shown to everybody who may read this issue: a review shows it, and so does this "
        "issue where the repository's variable `CAMPAIGNS_REPLIES` is `true`, with digits and addresses "
        "masked.\n\n\n"
        "#### Do they opt out?\n\n| reply | campaign | message | phone | read as | found |\n"
        f"|---|---|---|---|---|---|\n| `{first['reply']}` | pulse | ask | \\+14•••••••01 | en: wrong number | "
        f"{first['found_at'][:10]} |\n\n\n"
        "<sub>Kept up to date by `runner optouts issue`, which closes it when none waits. Last looked at by "
        f"[this run]({PAGE}/actions/runs/42).</sub>\n"
    )
    assert run("optouts", "issue", cwd=sent, env=job).stderr.startswith("Issue of replies unchanged: ")

    second = receive(sent, run, BOB, "take me off this thing please")
    assert run("optouts", "issue", cwd=sent, env=job).stderr.startswith("Issue of replies edited: ")
    assert "- **2 replies sound like an opt-out**: " in issue["body"]
    for reply, command in ((first, "confirm"), (second, "dismiss")):
        assert run("optouts", command, reply["reply"], cwd=sent).returncode == 0
    done = run("optouts", "issue", cwd=sent, env=job)
    assert done.stderr == f"Issue of replies closed, none waits: {issue['html_url']}\n"
    assert issue["state"] == "closed"
    assert [comment["body"] for comment in github.threads[issue["number"]]] == [
        "<!-- change=1 -->\n**1 more reply waits for a decision**, as stands above.\n",
        "<!-- change=2 -->\nNo reply waits for a decision any more.\n",
    ]


def test_a_wish_to_be_texted_again_is_listed_apart(run: Run, sent: Path, github: GitHub) -> None:
    """Its author asks for something else than an opt-out, and the actions do something else."""
    run("optouts", "add", CY, cwd=sent)
    reply = receive(sent, run, CY, "START")
    run("optouts", "issue", cwd=sent, env=name_job(github, sent))
    (issue,) = github.issues
    assert (
        "- **1 reply asks for texts again**: nobody who wrote so is texted until a person lets them in\n"
        in issue["body"]
    )
    assert "Do they opt out?" not in issue["body"]
    assert (
        "#### Are they let in again?\n\n| reply | campaign | message | phone | read as | found |\n"
        f"|---|---|---|---|---|---|\n| `{reply['reply']}` | pulse | ask | \\+14•••••••03 | opt-in word | "
        in issue["body"]
    )


def test_what_they_say_is_shown_only_on_request_and_without_digits_and_addresses(
    run: Run, sent: Path, github: GitHub
) -> None:
    """Everybody who may read the repository may read the issue."""
    receive(sent, run, ADA, SAID)
    job = name_job(github, sent)
    run("optouts", "issue", cwd=sent, env=job)
    (issue,) = github.issues
    assert "rong number!!" not in issue["body"]
    run("optouts", "issue", "--show-replies", cwd=sent, env=job)
    assert "Digits and addresses in them are masked." in issue["body"]
    assert "| found | what it says |\n" in issue["body"]
    shown = MarkdownIt().enable("table").render(issue["body"])
    words = "Wrong number!! call me at •••-•••-•••• or ••• see ••• please please please plea…"
    assert f"<td>{words}</td>" in shown
    for hidden in ("0199", "acme.example", ADA, "5550101", "555-0101"):
        assert hidden not in issue["body"]


def test_what_the_files_do_not_tell_is_not_known(run: Run, sent: Path, github: GitHub) -> None:
    """An author who is in no audience any more, and a reply that only the file of suppressions tells of."""
    reply = receive(sent, run, BOB, "take me off this thing please")
    people = sent / "campaigns/audience/people.csv"
    text = people.read_text(encoding="utf-8")
    people.write_text(text.replace("(415) 555-0102", "(415) 555-0112"), encoding="utf-8")
    job = name_job(github, sent)
    run("optouts", "issue", cwd=sent, env=job)
    (issue,) = github.issues
    assert f"| `{reply['reply']}` | pulse | ask | not known | en: remove me | " in issue["body"]
    for file in (sent / ".runner").glob("ledger*"):
        file.unlink()
    run("optouts", "issue", "--show-replies", cwd=sent, env=job)
    row = f"| `{reply['reply']}` | not known | not known | not known | not known | {reply['found_at'][:10]} | not known |"
    assert row in issue["body"]


def test_without_a_ledger_the_issue_stays_as_it_is(run: Run, folder: Path, github: GitHub) -> None:
    """That nothing is known is no reason to close it."""
    github.add_issue(f"{MARKER}\n<!-- state {{}} -->\nOne waits.")
    done = run("optouts", "issue", cwd=folder, env=name_job(github, folder))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "There is no ledger for sandbox on this machine: the issue was not checked.\n"
    assert github.requests == []


def test_outside_of_a_job_the_text_is_printed(run: Run, sent: Path) -> None:
    """With why there is no issue."""
    receive(sent, run, ADA, "please stop texting me")
    done = run("optouts", "issue", cwd=sent, env={"GITHUB_REPOSITORY": ""})
    assert done.returncode == 0
    assert done.stdout.startswith("### Replies → sandbox: a decision is needed\n")
    assert done.stderr.startswith("Warning: No issue: ")


@pytest.mark.slow
def test_one_that_a_person_has_closed_stays_closed_until_there_are_more(
    run: Run, sent: Path, github: GitHub
) -> None:
    """Nobody is nagged; another reply opens another issue."""
    job = name_job(github, sent)
    receive(sent, run, ADA, "please stop texting me")
    run("optouts", "issue", cwd=sent, env=job)
    (issue,) = github.issues
    issue["state"] = "closed"
    done = run("optouts", "issue", cwd=sent, env=job)
    assert done.stderr == (
        f"Somebody has closed the issue of replies, and no other has come since: {issue['html_url']}\n"
    )
    receive(sent, run, BOB, "take me off this thing please")
    done = run("optouts", "issue", cwd=sent, env=job)
    assert done.stderr.startswith("Issue of replies opened: ")
    assert [one["state"] for one in github.issues] == ["closed", "open"]
