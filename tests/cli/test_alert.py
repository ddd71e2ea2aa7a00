"""`runner alert`, as the last step of a job runs it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt

from runner.github.comments import LONGEST_BODY, count_units, write_marker
from tests.cli.test_settling import LOCKFILE, edit_ledger, make_partial
from tests.forge.github_server import TOKEN, Fault, GitHub

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]

MARKER = write_marker("sandbox", kind="alert")
PAGE = "https://github.example/acme/campaigns"
NO_GIT = (
    "Not known here: whether the record waits to be merged (the current folder is not in a git repository)"
)
_HOLD = "UPDATE launches SET state = 'unknown', project_launch_guid = NULL WHERE id = "
KEPT = "<sub>Kept up to date by `runner alert`, which closes it when all is well."


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


def test_a_failed_job_opens_an_issue_and_a_good_one_closes_it(run: Run, sent: Path, github: GitHub) -> None:
    """The issue names the job with its run, and says how to start one; the next good job closes it."""
    job = name_job(github, sent)
    done = run("alert", "--outcome", "success", cwd=sent, env=job)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "All is well: there is no issue\n")
    done = run("alert", "--outcome", "failure", cwd=sent, env=job)
    (issue,) = github.issues
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"Issue opened: {issue['html_url']}\n")
    assert issue["title"] == "Campaigns on sandbox: a run failed"
    state = f'{{"change":0,"held":0,"jobs":{{"send":["42.1","failure","{PAGE}/actions/runs/42",""]}},"record":false}}'
    assert issue["body"] == (
        f"{MARKER}\n<!-- state {state} -->\n### Campaigns → sandbox: action needed\n\n"
        f"- **The job send failed**: [its run]({PAGE}/actions/runs/42)\n- {NO_GIT}\n\n"
        "#### A run failed\n\nIts summary and its log say why. The next run goes on where it ended, and nobody is "
        f"texted twice. To start one now: in the workflow [Campaigns send]({PAGE}/actions/workflows/"
        "campaigns-send.yml), *Run workflow* with the action `send`.\n\n\n"
        f"{KEPT} Last looked at by [this run]({PAGE}/actions/runs/42).</sub>\n"
    )
    assert run("alert", "--outcome", "failure", cwd=sent, env=job).stderr.startswith("Issue unchanged: http")
    later = name_job(github, sent, run=43)
    done = run("alert", "--outcome", "success", cwd=sent, env=later)
    assert done.stderr == f"Issue closed, all is well: {issue['html_url']}\n"
    assert issue["state"] == "closed"
    assert [comment["body"] for comment in github.threads[issue["number"]]] == [
        (
            f"<!-- change=1 -->\nAll is well: no job has failed since and nobody is held. "
            f"[The run]({PAGE}/actions/runs/43).\n\n- {NO_GIT}"
        )
    ]
    assert run("alert", "--quiet", cwd=sent, env=later).stderr == ""


def test_held_people_are_counted_and_can_be_resolved_from_the_issue(
    run: Run, sent: Path, github: GitHub
) -> None:
    """Who is held stands there as a number, with the workflow's inputs and the commands that end it."""
    hold(sent, 2)
    job = name_job(github, sent)
    run("alert", cwd=sent, env=job)
    (issue,) = github.issues
    assert issue["title"] == "Campaigns on sandbox: people are held"
    assert issue["body"].partition(" -->\n### ")[2] == (
        "Campaigns → sandbox: action needed\n\n"
        "- **2 recipients are held**: they may have got a message, and are not texted until a person says\n"
        f"- {NO_GIT}\n\n#### People are held\n\n"
        "| campaign | file | message | recipients | launches | why |\n|---|---|---|---|---|---|\n"
        "| pulse | campaigns/pulse.yaml | ask | 2 | 2 | about to be sent, and no answer proves whether it was |\n"
        f"\nSay what became of these launches: in the workflow [Campaigns send]({PAGE}/actions/workflows/"
        "campaigns-send.yml), *Run workflow* with\n\n"
        "| if | action | campaign | launch |\n|---|---|---|---|\n"
        "| all of a campaign were sent | `adopt-all` | the campaign’s file |  |\n"
        "| none of a campaign were sent by it | `not-sent-all` | the campaign’s file |  |\n"
        "| one was sent | `adopt` | the campaign’s file | its guid at the service |\n"
        "| one was not sent | `not-sent` | the campaign’s file | its guid or its key |\n"
        "| the campaign is to wait meanwhile | `pause` | the campaign’s file |  |\n"
        "| it is to go on | `resume` | the campaign’s file |  |\n"
        "\nOr in a clone:\n\n```sh\nrunner record --fetch\n"
        "runner resolve --target sandbox   # lists them, and what the service knows of them\n"
        "runner resolve --target sandbox FILE --adopt-all\n"
        "runner resolve --target sandbox FILE --not-sent-all\n"
        "runner resolve --target sandbox FILE --adopt GUID\n"
        "runner resolve --target sandbox FILE --launch KEY --not-sent\n"
        "runner record\n```\n\n"
        f"{KEPT} Last looked at by [this run]({PAGE}/actions/runs/42).</sub>\n"
    )


def test_more_people_are_news_and_fewer_are_not(run: Run, sent: Path, github: GitHub) -> None:
    """A comment says what became worse; what became better stands in the body alone."""
    job = name_job(github, sent)
    for launches in (1, 3, 3):
        hold(sent, launches)
        run("alert", cwd=sent, env=job)
    edit_ledger(sent, "UPDATE launches SET state = 'sent', project_launch_guid = id WHERE id > 1")
    assert run("alert", "--outcome", "failure", cwd=sent, env=job).stderr.startswith("Issue edited: ")
    (issue,) = github.issues
    assert "- **1 recipient is held**: " in issue["body"]
    assert [comment["body"] for comment in github.threads[issue["number"]]] == [
        "<!-- change=1 -->\n- **3 recipients are held**, 2 more than before.\n\nWhat to do stands above.\n",
        f"<!-- change=2 -->\n- **The job send failed**: [its run]({PAGE}/actions/runs/42)\n\nWhat to do stands above.\n",
    ]


def test_what_resolve_lists_is_what_is_held(run: Run, folder: Path, github: GitHub) -> None:
    """A launch that really is held by `apply` is counted, and no longer once a person has resolved it."""
    launch = make_partial(folder, run)
    assert run("apply", "--auto-approve", "--settle-window", "100ms", cwd=folder).returncode == 4
    run("alert", cwd=folder, env=name_job(github, folder))
    assert "| pulse | campaigns/pulse.yaml | ask | 3 | 1 | " in github.issues[0]["body"]
    assert run("resolve", "--adopt", launch["project_launch_guid"], cwd=folder).returncode == 0
    done = run("alert", cwd=folder, env=name_job(github, folder))
    assert done.stderr.startswith("Issue closed, all is well: ")


def test_people_whom_nobody_explains_are_counted(run: Run, sent: Path, github: GitHub) -> None:
    """Launches that the service lists and no record explains hold people, too; one that holds nobody does not."""
    edit_ledger(sent, "UPDATE launches SET state = 'unexplained' WHERE id <= 2")
    edit_ledger(sent, "DELETE FROM deliveries WHERE launch_id = 1")
    (sent / LOCKFILE).unlink()
    run("alert", cwd=sent, env=name_job(github, sent))
    row = "| pulse | campaigns/pulse.yaml | ask | 1 | 1 | the service lists launches that no record explains |\n"
    assert row in github.issues[0]["body"]


def test_a_deleted_campaign_still_holds_people(run: Run, sent: Path, github: GitHub) -> None:
    """Without its file a campaign's people are counted all the same; PATH leaves out other campaigns."""
    hold(sent, 1)
    text = (sent / "campaigns/pulse.yaml").read_text(encoding="utf-8")
    (sent / "campaigns/pulse.yaml").rename(sent / "pulse.txt")
    (sent / "campaigns/other.yaml").write_text(text.replace("name: pulse", "name: other"), encoding="utf-8")
    run("alert", cwd=sent, env=name_job(github, sent))
    assert "| pulse | not in these folders | ask | 1 | 1 | " in github.issues[0]["body"]
    done = run("alert", "campaigns/other.yaml", cwd=sent, env=name_job(github, sent))
    assert done.stderr.startswith("Issue closed, all is well: ")


def test_without_a_ledger_nothing_is_claimed(run: Run, folder: Path, github: GitHub) -> None:
    """A machine that knows of nobody who is held neither closes the issue nor says that nobody is."""
    run("apply", "--auto-approve", cwd=folder)
    hold(folder, 2)
    run("alert", cwd=folder, env=name_job(github, folder))
    for file in (folder / ".runner").glob("ledger*"):
        file.unlink()
    done = run("alert", "--outcome", "success", cwd=folder, env=name_job(github, folder))
    assert done.stderr.startswith("Issue edited: ")
    gap = "Not known here: how many people are held (there is no ledger on this machine: \\`runner apply\\` fills one)"
    body = github.issues[0]["body"]
    assert "- **2 recipients are held** when it was last known: they may have got a message" in body
    assert f"- {gap}\n- {NO_GIT}\n" in body
    printed = run("alert", cwd=folder).stdout
    assert printed.startswith(
        f"### Campaigns → sandbox\n\nNothing is wrong, as far as is known.\n\n- {gap}\n"
    )


def test_one_job_does_not_hide_another_ones_failure(run: Run, sent: Path, github: GitHub) -> None:
    """What the job that plans says does not close what the job that sends has opened, hour after hour."""
    actions = []
    for hour, ended in enumerate(("failure", "failure", "success")):
        for job, outcome in (("plan", "success"), ("send", ended)):
            done = run("alert", "--outcome", outcome, cwd=sent, env=name_job(github, sent, job, hour))
            actions.append(done.stderr.partition(":")[0])
    assert actions == [
        "All is well",
        "Issue opened",
        "Issue edited",
        "Issue edited",
        "Issue edited",
        "Issue closed, all is well",
    ]
    assert len(github.issues) == 1
    assert [c["body"].split("\n")[0] for c in github.threads[100]] == ["<!-- change=1 -->"]


def test_a_job_that_has_nothing_to_do_any_more_is_no_trouble(run: Run, sent: Path, github: GitHub) -> None:
    """A job that failed and is skipped since counts as failed until a whole run has passed without it."""
    run("alert", "--outcome", "cancelled", cwd=sent, env=name_job(github, sent, "send", 1))
    assert (
        "- **The job send was cancelled, by a person or after its time limit**: " in github.issues[0]["body"]
    )
    said = [
        run("alert", "--outcome", "success", cwd=sent, env=name_job(github, sent, "plan", number)).stderr
        for number in (1, 2, 2, 3)
    ]
    assert [line.partition(":")[0] for line in said][1:] == [
        "Issue edited",
        "Issue unchanged",
        "Issue closed, all is well",
    ]


@pytest.mark.parametrize("status", [403, 404])
def test_without_rights_the_summary_has_everything(run: Run, sent: Path, github: GitHub, status: int) -> None:
    """A token without `issues: write` costs a warning, and no failure."""
    github.faults.append(Fault("POST", "/issues", status, "Resource not accessible by integration"))
    done = run("alert", "--outcome", "failure", cwd=sent, env=name_job(github, sent))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "Warning: No issue: the token has no right to "
        f"({status}: Resource not accessible by integration). The job's summary has everything\n"
    )
    summary = (sent / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("### Campaigns → sandbox: action needed\n\n- **The job send failed**: ")


def test_a_repository_without_issues(run: Run, sent: Path, github: GitHub) -> None:
    """What the forge says of it is told, on one line."""
    github.faults.append(Fault("POST", "/issues", 410, "Issues are disabled\n::error::for this repo"))
    done = run("alert", "--outcome", "failure", cwd=sent, env=name_job(github, sent))
    assert (done.returncode, done.stderr) == (
        0,
        (
            "Warning: No issue (410: Issues are disabled\\u000a::error::for this repo). "
            "The job's summary has everything\n"
        ),
    )


def test_a_rate_limit_is_no_failure(run: Run, sent: Path, github: GitHub) -> None:
    """A forge that cannot be asked costs a warning."""
    limit = {"X-RateLimit-Remaining": "0"}
    github.faults.append(Fault("GET", "/issues", 403, "API rate limit exceeded", limit))
    done = run("alert", cwd=sent, env=name_job(github, sent))
    assert (done.returncode, done.stderr) == (
        0,
        (
            f"Warning: No issue: {github.url} cannot be reached: its rate limit is reached. "
            "The job's summary has everything\n"
        ),
    )


def test_without_a_token_it_is_said(run: Run, sent: Path, github: GitHub) -> None:
    """A step that was not handed the token learns how to."""
    done = run("alert", cwd=sent, env=name_job(github, sent, GITHUB_TOKEN=""))
    assert (done.returncode, done.stderr) == (
        0,
        (
            "Warning: No issue: there is no GITHUB_TOKEN: hand it to the step with "
            "`env: {GITHUB_TOKEN: ${{ github.token }}}`. The job's summary has everything\n"
        ),
    )
    assert github.requests == []


def test_outside_of_a_job_it_is_printed(run: Run, sent: Path) -> None:
    """On a person's machine the issue goes to standard output."""
    hold(sent, 1)
    done = run("alert", cwd=sent)
    assert (done.returncode, done.stderr) == (0, "Warning: No issue: this is no job of GitHub\n")
    assert done.stdout.startswith("### Campaigns → sandbox: action needed\n\n- **1 recipient is held**: ")
    assert "in the workflow Campaigns send, *Run workflow* with\n" in done.stdout


def test_a_locked_issue_is_told_of(run: Run, sent: Path, github: GitHub) -> None:
    """Where no comment can be written, the body is up to date all the same."""
    hold(sent, 1)
    run("alert", cwd=sent, env=name_job(github, sent))
    github.issues[0]["locked"] = True
    hold(sent, 2)
    done = run("alert", cwd=sent, env=name_job(github, sent))
    url = github.issues[0]["html_url"]
    assert (done.returncode, done.stderr) == (
        0,
        f"Warning: No comment on {url}: 403: Unable to create comment because issue is locked.\nIssue edited: {url}\n",
    )
    assert "**2 recipients are held**" in github.issues[0]["body"]


def test_broken_settings_are_told_of(run: Run, sent: Path, github: GitHub) -> None:
    """A `targets.yaml` that broke the job does not silence the alert; without a target's name it is an error."""
    (sent / "campaigns/targets.yaml").write_text("version: 2\n", encoding="utf-8")
    done = run("alert", "--target", "live", "--outcome", "failure", cwd=sent, env=name_job(github, sent))
    assert done.returncode == 0
    assert (
        "- Not known here: how many people are held (\\`targets.yaml\\` has errors, which the job's log shows)\n"
        in github.issues[0]["body"]
    )
    done = run("alert", "--outcome", "failure", cwd=sent, env=name_job(github, sent))
    assert (done.returncode, len(github.issues)) == (1, 1)
    done = run("alert", "--target", "a -->", cwd=sent, env=name_job(github, sent))
    assert (done.returncode, len(github.issues)) == (1, 1)


def test_a_ledger_that_cannot_be_read_is_an_error(run: Run, sent: Path, github: GitHub) -> None:
    """The issue says that it is not known who is held, and then the command fails."""
    for file in (sent / ".runner").glob("ledger*"):
        file.write_bytes(b"no database" * 100)
    done = run("alert", "--outcome", "failure", cwd=sent, env=name_job(github, sent))
    assert done.returncode == 1
    assert done.stderr.splitlines()[1].startswith("Error: ")
    assert "- Not known here: how many people are held (" in github.issues[0]["body"]


def test_another_outcome_is_refused(run: Run, folder: Path) -> None:
    """Only how jobs end is an outcome."""
    assert run("alert", "--outcome", "skipped", cwd=folder).returncode == 64


def test_ten_thousand_campaigns_with_hostile_names_fit(run: Run, sent: Path, github: GitHub) -> None:
    """However much is held, and whatever it is called, the body is short enough and nothing in it has power."""
    with closing(sqlite3.connect(sent / ".runner/ledger.sqlite")) as connection:
        for number in range(10_000):
            name = f"{number:05} @ada <img src=x> | `#1` ](http://x) --> \n# +14155550101 {'x' * 200}"
            row = connection.execute(
                "INSERT INTO campaigns (target, name, key_fingerprint) VALUES ('sandbox', ?, 'k')", (name,)
            )
            connection.execute(
                "INSERT INTO launches (campaign_id, message, launch_key, tag, payload_digest, recipients, state, intent_at)"
                " VALUES (?, ?, 'k', 't', 'd', 1, 'unknown', '2026-11-20T12:00:00Z')",
                (row.lastrowid, name),
            )
        connection.commit()
    done = run("alert", cwd=sent, env=name_job(github, sent))
    assert done.stderr.startswith("Issue opened: ")
    body = github.issues[0]["body"]
    assert count_units(body) <= LONGEST_BODY
    assert "**10,000 recipients are held**" in body
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
