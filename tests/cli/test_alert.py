"""`runner ci alert`, as the last step of a job runs it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt

from runner.github.comments import LONGEST_BODY, count_units, write_marker
from tests.cli.test_optouts import ADA, BOB, CY, say
from tests.cli.test_settling import LOCKFILE, edit_ledger, make_partial
from tests.forge.github_server import TOKEN, Fault, GitHub

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]

MARKER = write_marker("sandbox", kind="issue")
PAGE = "https://github.example/acme/campaigns"
WORKFLOW = (
    f"in the workflow [Campaigns send]({PAGE}/actions/workflows/campaigns-send.yml), *Run workflow* with"
)
_HOLD = "UPDATE launches SET state = 'unknown', project_launch_guid = NULL WHERE id = "
KEPT = "<sub>Kept up to date by `runner ci alert`, which closes it when all is done."
SAID = (
    "Wrong number!! call me at 415-555-0199 or ada@acme.example, see www.acme.example/ada " + "please " * 20
)


def name_job(
    github: GitHub, folder: Path, job: str = "send", run: int = 42, **variables: str
) -> dict[str, str]:
    """Return the environment of a job of a run of the workflow."""
    workflow = "acme/campaigns/.github/workflows/campaigns-send.yml@refs/heads/main"
    ids = {"GITHUB_JOB": job, "GITHUB_RUN_ID": str(run), "GITHUB_RUN_ATTEMPT": "1"}
    return github.job(folder, GITHUB_WORKFLOW_REF=workflow) | ids | variables


def hold(folder: Path, launches: int) -> None:
    """Leave launches without an outcome, as a run does that dies, and no lockfile that knows better."""
    for number in range(1, launches + 1):
        edit_ledger(folder, _HOLD + str(number))
    (folder / LOCKFILE).unlink(missing_ok=True)


def list_replies(folder: Path, run: Run) -> list[dict[str, str]]:
    replies: list[dict[str, str]] = json.loads(run("optouts", "list", "--format", "json", cwd=folder).stdout)[
        "replies"
    ]
    return replies


def test_a_failed_job_opens_an_issue_and_a_good_one_closes_it(run: Run, sent: Path, github: GitHub) -> None:
    """The issue names the job with its run, and says how to start one; the next good job closes it."""
    job = name_job(github, sent)
    done = run("ci", "alert", "--outcome", "success", cwd=sent, env=job)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "All is well: no issue is open\n")
    done = run("ci", "alert", "--outcome", "failure", cwd=sent, env=job)
    (issue,) = github.issues
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"Issue opened: {issue['html_url']}\n")
    assert issue["title"] == "Campaigns on sandbox: a run failed"
    run_url = f"{PAGE}/actions/runs/42"
    failed = f'{{"later":"","outcome":"failure","run":"42.1","url":"{run_url}"}}'
    assert issue["body"] == (
        f'{MARKER}\n<!-- state {{"change":0,"jobs":{{"send":{failed}}}}} -->\n'
        "### Campaigns → sandbox: action needed\n\n"
        f"- [ ] **The job send failed**: [its run]({run_url})\n- [x] Nobody is held.\n"
        "- [x] No reply waits for a decision.\n\n"
        "#### A run failed\n\nIts summary and its log say why. The next run goes on where it ended, and nobody is "
        f"texted twice. To start one now: {WORKFLOW} the action `send`.\n\n\n"
        f"{KEPT} Last looked at by [this run]({run_url}).</sub>\n"
    )
    assert run("ci", "alert", "--outcome", "failure", cwd=sent, env=job).stderr.startswith(
        "Issue unchanged: http"
    )
    later = name_job(github, sent, run=43)
    done = run("ci", "alert", "--outcome", "success", cwd=sent, env=later)
    assert done.stderr == f"Issue closed, all is well: {issue['html_url']}\n"
    assert (issue["state"], issue["title"]) == ("closed", "Campaigns on sandbox: all is well")
    assert [comment["body"] for comment in github.threads[issue["number"]]] == [
        f"<!-- change=1 -->\nAll is well. [The run]({PAGE}/actions/runs/43).\n"
    ]
    assert run("ci", "alert", "--quiet", cwd=sent, env=later).stderr == ""


def test_held_people_are_counted_and_can_be_resolved_from_the_issue(
    run: Run, sent: Path, github: GitHub
) -> None:
    """Their number, the workflow's inputs and the commands that end it; a comment says what became worse."""
    hold(sent, 2)
    job = name_job(github, sent)
    run("ci", "alert", cwd=sent, env=job)
    (issue,) = github.issues
    assert issue["title"] == "Campaigns on sandbox: people are held"
    what = "they may have got a message, and are not texted until a person says"
    assert issue["body"].partition(" -->\n### ")[2] == (
        "Campaigns → sandbox: action needed\n\n"
        f"- [ ] **2 people are held**: {what}\n- [x] No reply waits for a decision.\n\n"
        "#### People are held\n\n"
        "| campaign | file | message | people | why |\n|---|---|---|---|---|\n"
        "| pulse | campaigns/pulse.yaml | ask | 2 | about to be sent, and no answer proves whether it was |\n"
        f"\nSay what became of these launches {WORKFLOW} the campaign's file and `adopt-all` (they were sent) or "
        "`not-sent-all` (they were not sent by it), or with one launch's guid or key and `adopt` or `not-sent`. With "
        "`pause` the campaign waits meanwhile.\n\nOr in a clone: `runner resolve --target sandbox` "
        "lists them, and takes `--adopt-all`, `--not-sent-all`, `--adopt GUID` or `--launch KEY --not-sent`; then "
        "`runner ci record`.\n\n\n"
        f"{KEPT} Last looked at by [this run]({PAGE}/actions/runs/42).</sub>\n"
    )
    hold(sent, 3)
    run("ci", "alert", cwd=sent, env=job)
    edit_ledger(sent, "UPDATE launches SET state = 'sent', project_launch_guid = id WHERE id > 1")
    assert run("ci", "alert", "--outcome", "failure", cwd=sent, env=job).stderr.startswith("Issue edited: ")
    assert "- [ ] **1 person is held**: " in issue["body"]
    failed = f"**The job send failed**: [its run]({PAGE}/actions/runs/42)"
    assert [comment["body"] for comment in github.threads[issue["number"]]] == [
        f"<!-- change=1 -->\n- **3 people are held**: {what}\n\nWhat to do stands above.\n",
        f"<!-- change=2 -->\n- {failed}\n\nWhat to do stands above.\n",
    ]
    issue["locked"] = True
    hold(sent, 2)
    done = run("ci", "alert", cwd=sent, env=job)
    assert (done.returncode, done.stderr) == (
        0,
        f"Issue edited: {issue['html_url']}\n",
    )
    assert "**2 people are held**" in issue["body"]
    done = run("ci", "alert", cwd=sent)
    assert (done.returncode, done.stderr) == (0, "Warning: No issue: this is no job of GitHub\n")
    assert done.stdout.startswith("### Campaigns → sandbox: action needed\n\n- [ ] **2 people are held**: ")
    assert "in the workflow Campaigns send, *Run workflow* with the campaign's file" in done.stdout


@pytest.mark.slow
def test_what_resolve_lists_is_what_is_held(run: Run, folder: Path, github: GitHub) -> None:
    """A launch that really is held by `apply` is counted, and no longer once a person has resolved it."""
    launch = make_partial(folder, run)
    assert run("apply", "--auto-approve", "--settle-window", "100ms", cwd=folder).returncode == 4
    run("ci", "alert", cwd=folder, env=name_job(github, folder))
    assert "| pulse | campaigns/pulse.yaml | ask | 3 | " in github.issues[0]["body"]
    assert run("resolve", "--adopt", launch["project_launch_guid"], cwd=folder).returncode == 0
    done = run("ci", "alert", cwd=folder, env=name_job(github, folder))
    assert done.stderr.startswith("Issue closed, all is well: ")


def test_people_whom_nobody_explains_are_counted(run: Run, sent: Path, github: GitHub) -> None:
    """Launches that the service lists and no record explains hold people, too; one that holds nobody does not."""
    edit_ledger(sent, "UPDATE launches SET state = 'unexplained' WHERE id <= 2")
    edit_ledger(sent, "DELETE FROM deliveries WHERE launch_id = 1")
    (sent / LOCKFILE).unlink()
    run("ci", "alert", cwd=sent, env=name_job(github, sent))
    row = "| pulse | campaigns/pulse.yaml | ask | 1 | the service lists texts that no record explains |\n"
    assert row in github.issues[0]["body"]


def test_a_deleted_campaign_still_holds_people(run: Run, sent: Path, github: GitHub) -> None:
    """Without its file a campaign's people are counted all the same."""
    hold(sent, 1)
    (sent / "campaigns/pulse.yaml").rename(sent / "pulse.txt")
    run("ci", "alert", cwd=sent, env=name_job(github, sent))
    assert "| pulse | not in these folders | ask | 1 | " in github.issues[0]["body"]


def test_what_a_stopped_job_left_is_for_the_next_run(run: Run, sent: Path, github: GitHub) -> None:
    """Nobody is asked what became of its last launches: the next run asks the service first."""
    hold(sent, 2)
    run("ci", "alert", "--outcome", "cancelled", cwd=sent, env=name_job(github, sent))
    (issue,) = github.issues
    assert issue["title"] == "Campaigns on sandbox: a run failed"
    assert "the next run asks the service what became of the last launches" in issue["body"]
    assert "not-sent-all" not in issue["body"]


@pytest.mark.slow
def test_replies_are_listed_until_they_are_decided(run: Run, sent: Path, github: GitHub) -> None:
    """With what they may ask for and how to decide; words on request, without digits."""
    job = name_job(github, sent)
    run("optouts", "add", CY, cwd=sent)
    for phone, text in ((ADA, SAID), (CY, "START")):
        say(sent, phone, "10", text)
    assert run("reconcile", cwd=sent).returncode == 0
    first, back = list_replies(sent, run)
    run("ci", "alert", cwd=sent, env=job)
    (issue,) = github.issues
    assert issue["title"] == "Campaigns on sandbox: replies wait for a decision"
    said = "for a decision**: their authors are not texted until a person decides"
    assert issue["body"].partition(" -->\n### ")[2] == (
        "Campaigns → sandbox: action needed\n\n"
        f"- [x] Nobody is held.\n- [ ] **2 replies wait {said}\n\n"
        "#### Replies wait for a decision\n\n"
        "| reply | asks | campaign | message | read as | found |\n|---|---|---|---|---|---|\n"
        f"| `{first['reply']}` | for no more texts | pulse | ask | en: wrong number | "
        f"{first['found_at'][:10]} |\n"
        f"| `{back['reply']}` | for texts again | pulse | ask | opt-in word | "
        f"{back['found_at'][:10]} |\n\n"
        f"Decide {WORKFLOW} the replies, with blanks between, and `confirm` (they opt out, or their authors are let "
        "in again) or `dismiss` (they don't, or stay out).\n\nOr in a clone, by one key each: "
        "`runner reconcile --target sandbox`, `runner optouts list --show-replies --target sandbox`, `runner ci record`.\n\n"
        "What they say is not shown to everybody who may read this issue: a review shows it, and so does this "
        "issue where the repository's variable `CAMPAIGNS_REPLIES` is `true`, with digits and addresses "
        "masked.\n\n\n"
        f"{KEPT} Last looked at by [this run]({PAGE}/actions/runs/42).</sub>\n"
    )
    run("ci", "alert", cwd=sent, env=job | {"CAMPAIGNS_REPLIES": "true"})
    assert "Digits and addresses in them are masked." in issue["body"]
    shown = MarkdownIt().enable("table").render(issue["body"])
    words = "Wrong number!! call me at •••-•••-•••• or ••• see ••• please please please plea…"
    assert f"<td>{words}</td>" in shown
    for hidden in ("0199", "acme.example", ADA, "5550101", "555-0101"):
        assert hidden not in issue["body"]

    say(sent, BOB, "10", "take me off this thing please")
    assert run("reconcile", cwd=sent).returncode == 0
    run("ci", "alert", cwd=sent, env=job)
    (third,) = [one for one in list_replies(sent, run) if one not in (first, back)]
    assert f"| `{third['reply']}` | for no more texts | pulse | ask | en: remove me | " in issue["body"]
    for reply, command in ((first, "confirm"), (back, "confirm"), (third, "dismiss")):
        assert run("optouts", command, reply["reply"], cwd=sent).returncode == 0
    done = run("ci", "alert", cwd=sent, env=job)
    assert done.stderr == f"Issue closed, all is well: {issue['html_url']}\n"
    assert [comment["body"] for comment in github.threads[issue["number"]]] == [
        f"<!-- change=1 -->\n- **3 replies wait {said}\n\nWhat to do stands above.\n",
        f"<!-- change=2 -->\nAll is well. [The run]({PAGE}/actions/runs/42).\n",
    ]


def test_without_a_ledger_nothing_is_claimed(run: Run, sent: Path, github: GitHub) -> None:
    """A machine that knows of nobody who is held, and of no reply, neither closes the issue nor says so."""
    hold(sent, 2)
    run("ci", "alert", cwd=sent, env=name_job(github, sent))
    for file in (sent / ".runner").glob("ledger*"):
        file.unlink()
    for _ in range(2):
        done = run("ci", "alert", "--outcome", "success", cwd=sent, env=name_job(github, sent))
    assert done.stderr.startswith("Issue unchanged: ")
    why = "(there is no ledger on this machine: \\`runner apply\\` fills one)"
    gaps = f"- Not known here: whether people are held {why}\n"
    replies = f"- Not known here: whether replies wait for a decision {why}\n"
    body = github.issues[0]["body"]
    assert "- [ ] **2 people are held** when it was last known: they may have got a message" in body
    assert f"{gaps}{replies}" in body
    printed = run("ci", "alert", cwd=sent).stdout
    assert printed.startswith(f"### Campaigns → sandbox: all is well\n\n{gaps}{replies}")


def test_an_issue_that_cannot_be_written_is_no_failure(run: Run, folder: Path, github: GitHub) -> None:
    """It costs a warning with the reason, on one line, and the job's summary has everything."""
    summary = folder / "summary.md"
    limit = {"X-RateLimit-Remaining": "0"}
    for fault, said in (
        (
            Fault("POST", "/issues", 403, "Resource not accessible"),
            ": the token has no right to (403: Resource not accessible)",
        ),
        (
            Fault("POST", "/issues", 410, "Issues are disabled\n::error::for this repo"),
            " (410: Issues are disabled\\u000a::error::for this repo)",
        ),
        (
            Fault("GET", "/issues", 403, "API rate limit exceeded", limit),
            f": {github.url} cannot be reached: its rate limit is reached",
        ),
    ):
        github.faults[:] = [fault]
        done = run("ci", "alert", "--outcome", "failure", cwd=folder, env=name_job(github, folder))
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr == f"Warning: No issue{said}. The job's summary has everything\n"
        assert summary.read_text(encoding="utf-8").startswith(
            "### Campaigns → sandbox: action needed\n\n- [ ] **The job send failed**: "
        )
    github.requests.clear()
    done = run("ci", "alert", cwd=folder, env=name_job(github, folder, GITHUB_TOKEN=""))
    assert (done.returncode, done.stderr) == (
        0,
        (
            "Warning: No issue: there is no GITHUB_TOKEN: hand it to the step with "
            "`env: {GITHUB_TOKEN: ${{ github.token }}}`. The job's summary has everything\n"
        ),
    )
    assert github.requests == []


def test_broken_settings_and_ledgers_are_told_of(run: Run, sent: Path, github: GitHub) -> None:
    """A `targets.yaml` that broke the job does not silence the alert; an unreadable ledger fails it afterwards."""
    job = name_job(github, sent)
    (sent / "campaigns/targets.yaml").write_text("version: 2\n", encoding="utf-8")
    done = run("ci", "alert", "--target", "live", "--outcome", "failure", cwd=sent, env=job)
    assert done.returncode == 0
    assert (
        "- Not known here: whether people are held (\\`targets.yaml\\` has errors, which the job's log shows)\n"
        in github.issues[0]["body"]
    )
    for options in (("--outcome", "failure"), ("--target", "a -->")):
        done = run("ci", "alert", *options, cwd=sent, env=job)
        assert (done.returncode, len(github.issues)) == (1, 1)
    (sent / "campaigns/targets.yaml").unlink()
    for file in (sent / ".runner").glob("ledger*"):
        file.write_bytes(b"no database" * 100)
    done = run("ci", "alert", "--outcome", "failure", cwd=sent, env=job)
    assert done.returncode == 1
    assert done.stderr.splitlines()[1].startswith("Error: ")
    assert "- Not known here: whether people are held (" in github.issues[1]["body"]


@pytest.mark.slow
def test_ten_thousand_campaigns_with_hostile_names_fit(run: Run, sent: Path, github: GitHub) -> None:
    """However much is held, and whatever it is called, the body is short enough and nothing in it has power."""
    with closing(sqlite3.connect(sent / ".runner/ledger.sqlite")) as connection:
        for number in range(10_000):
            name = f"{number:05} @ada <img src=x> | `#1` ](http://x) --> \n# +14155550101 {'x' * 200}"
            row = connection.execute("INSERT INTO campaigns (target, name) VALUES ('sandbox', ?)", (name,))
            launch = connection.execute(
                "INSERT INTO launches (campaign_id, message, launch_key, tag, payload_digest, recipients, state, intent_at)"
                " VALUES (?, ?, 'k', 't', 'd', 1, 'unknown', '2026-11-20T12:00:00Z')",
                (row.lastrowid, name),
            )
            connection.execute(
                "INSERT INTO deliveries (campaign_id, message, fingerprint, launch_id, released)"
                " VALUES (?, ?, 'f', ?, 0)",
                (row.lastrowid, name, launch.lastrowid),
            )
        connection.commit()
    done = run("ci", "alert", cwd=sent, env=name_job(github, sent))
    assert done.stderr.startswith("Issue opened: ")
    body = github.issues[0]["body"]
    assert count_units(body) <= LONGEST_BODY
    assert "**10,000 people are held**" in body
    assert "\n… and 9,950 more\n" in body
    assert "4155550101" not in body
    assert TOKEN not in body
    tokens = MarkdownIt().enable("table").parse(body)
    kinds = {child.type for token in tokens for child in token.children or []}
    assert kinds <= {
        "text",
        "softbreak",
        "strong_open",
        "strong_close",
        "em_open",
        "em_close",
        "code_inline",
        "link_open",
        "link_close",
        "html_inline",
    }
    links = {
        child.attrs["href"] for token in tokens for child in token.children or [] if child.type == "link_open"
    }
    assert all(str(link).startswith(PAGE) for link in links)
    inline = [
        child.content for token in tokens for child in token.children or [] if child.type == "html_inline"
    ]
    assert set(inline) <= {"<sub>", "</sub>"}
    assert "@ada" not in body
