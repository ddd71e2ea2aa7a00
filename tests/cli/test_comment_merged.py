"""`runner ci comment --merged`, as a job runs it after it has sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt

from runner.github.comments import LONGEST_BODY, count_units, write_marker
from tests.cli.test_settling import LOCKFILE, edit_ledger
from tests.forge.github_server import TOKEN, GitHub, running_github

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]

MARKER = write_marker("sandbox", kind="sent")
MERGE, DOCS, RECORD = "a" * 40, "b" * 40, "c" * 40
RUN = "https://github.example/acme/campaigns/actions/runs/42"
AS_OF = f"<sub>As of [the last run]({RUN}).</sub>\n"
HEAD = f"{MARKER}\n### Campaigns sent → sandbox\n\nSince this was merged (2026-11-21 08:00 UTC): "


@pytest.fixture
def github() -> Iterator[GitHub]:
    """GitHub, where #9 brought the campaign, #10 changed the README, and the last commit is a record."""
    with running_github() as server:
        server.add_commit(MERGE, "Ask how it was (#9)")
        server.add_pull(9, MERGE)
        server.add_commit(DOCS, "Explain it")
        server.add_pull(10, DOCS)
        server.files[10] = ["README.md", "campaigns.md"]
        server.add_commit(RECORD, f"Record 4 texts\n\nCampaigns-Commit: {DOCS}\n")
        yield server


def job(github: GitHub, folder: Path, **variables: str) -> dict[str, str]:
    """Return the environment of a job of main."""
    return github.job(folder, GITHUB_SHA=RECORD, GITHUB_REF_NAME="main") | variables


def read_comment(github: GitHub, number: int = 9) -> str:
    """Return the only comment below a pull request."""
    (comment,) = github.threads[number]
    body: str = comment["body"]
    return body


@pytest.mark.slow
def test_what_was_sent_is_one_comment_on_the_merged_pull_request(
    run: Run, folder: Path, github: GitHub
) -> None:
    """It goes to the last one that changed campaigns, and later runs of the same merge edit it."""
    run("apply", "--auto-approve", "--limit", "1", cwd=folder)
    done = run("ci", "comment", "--merged", cwd=folder, env=job(github, folder))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"Commented: {github.threads[9][0]['html_url']}\n"
    table = (
        "| campaign | message | texted | deferred | held | refused | still to send |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    assert read_comment(github) == (
        f"{HEAD}**1 text sent · 3 still to send**\n\n{table}| pulse | ask | 1 | 0 | 0 | 0 | 3 |\n\n\n{AS_OF}"
    )
    run("apply", "--auto-approve", cwd=folder)
    done = run("ci", "comment", "--merged", cwd=folder, env=job(github, folder))
    assert done.stderr.startswith("Comment edited: ")
    assert read_comment(github) == (
        f"{HEAD}**4 texts sent**\n\n{table}| pulse | ask | 4 | 0 | 0 | 0 | 0 |\n\n\n{AS_OF}"
    )
    assert github.threads.keys() == {9}
    assert run("ci", "comment", "--merged", "--quiet", cwd=folder, env=job(github, folder)).stderr == ""


def test_a_machine_without_a_ledger_reads_the_lockfile(run: Run, folder: Path, github: GitHub) -> None:
    """What the record says was sent is told, whoever sent it."""
    run("apply", "--auto-approve", cwd=folder)
    for file in (folder / ".runner").glob("ledger*"):
        file.unlink()
    run("ci", "comment", "--merged", cwd=folder, env=job(github, folder))
    assert "**4 texts sent**" in read_comment(github)


def test_what_was_sent_before_the_merge_is_left_out(run: Run, folder: Path, github: GitHub) -> None:
    """A pull request that came later is told what was sent since."""
    run("apply", "--auto-approve", cwd=folder)
    edit_ledger(folder, "UPDATE launches SET outcome_at = '2026-11-20T12:00:00Z' WHERE id > 1")
    run("ci", "comment", "--merged", cwd=folder, env=job(github, folder))
    assert read_comment(github).startswith(f"{HEAD}**1 text sent**\n")


def test_held_refused_and_deferred_people_are_told_of(run: Run, folder: Path, github: GitHub) -> None:
    """Each has its number; the held ones with what to do about them."""
    run("apply", "--auto-approve", "--limit", "2", cwd=folder)
    (folder / LOCKFILE).unlink()
    edit_ledger(folder, "UPDATE launches SET state = 'unknown', project_launch_guid = NULL WHERE id = 1")
    edit_ledger(folder, "UPDATE launches SET state = 'rejected', project_launch_guid = NULL WHERE id = 2")
    edit_ledger(folder, "UPDATE deliveries SET released = 1 WHERE launch_id = 2")
    schedule = "schedule: {not_before: 2099-12-01T09:00, timezone: UTC}\n"
    with (folder / "campaigns/pulse.yaml").open("a", encoding="utf-8") as stream:
        stream.write(schedule)
    run("ci", "comment", "--merged", cwd=folder, env=job(github, folder))
    body = read_comment(github)
    assert body.startswith(
        f"{HEAD}**0 texts sent · 3 deferred · 1 held · 1 refused**\n\n"
        "| campaign | message | texted | deferred | held | refused | still to send |\n"
        "|---|---|---|---|---|---|---|\n"
        "| pulse | ask | 0 | 3 | 1 | 1 | 0 |\n\n\n#### People are held\n\n"
        "They may have got a message, and are not texted until a person says what became of it.\n\n"
        "Say what became of these launches in the workflow Campaigns send, *Run workflow* with the campaign's file and "
        "`adopt-all` (they were sent) or `not-sent-all` "
    )


def test_records_and_their_pull_requests_are_passed_over(run: Run, folder: Path, github: GitHub) -> None:
    """A merge of records alone, an open pull request and one into another branch brought no campaign."""
    for number, sha in enumerate(("d" * 40, "e" * 40, "f" * 40), start=20):
        github.add_commit(sha, "Merge it")
        github.add_pull(number, sha)
    github.files[20] = ["campaigns/pulse.live.lock.json"]
    github.pulls["e" * 40][0]["merged_at"] = None
    github.pulls["f" * 40][0]["base"]["ref"] = "feature"
    run("ci", "comment", "--merged", cwd=folder, env=job(github, folder, GITHUB_SHA="f" * 40))
    assert github.threads.keys() == {9}


def test_without_a_merged_pull_request_the_summary_has_it(run: Run, folder: Path, github: GitHub) -> None:
    """What was pushed without one is told of in the job's summary."""
    github.pulls.clear()
    done = run("ci", "comment", "--merged", cwd=folder, env=job(github, folder))
    assert (done.returncode, done.stderr) == (
        0,
        (
            f"Warning: No comment: no merged pull request that changed the campaigns leads to {RECORD[:10]}. "
            "The job's summary has everything\n"
        ),
    )
    assert (
        (folder / "summary.md")
        .read_text(encoding="utf-8")
        .startswith("### Campaigns sent → sandbox\n\n**0 texts")
    )


def test_a_job_that_cannot_comment_says_why(run: Run, folder: Path, github: GitHub) -> None:
    """What is missing is named, and is no failure."""
    done = run("ci", "comment", "--merged", cwd=folder, env=job(github, folder, GITHUB_SHA="main"))
    assert done.returncode == 0
    assert done.stderr == (
        "Warning: No comment: GITHUB_SHA doesn't say which commit this job is for. The job's summary has everything\n"
    )


def test_a_broken_neighbour_is_told_of(run: Run, folder: Path, github: GitHub) -> None:
    """What one campaign sent is told, and why another one is left out."""
    run("apply", "--auto-approve", cwd=folder)
    (folder / "campaigns/@ada.yaml").write_text("version: 2\n", encoding="utf-8")
    done = run("ci", "comment", "--merged", cwd=folder, env=job(github, folder))
    assert done.returncode == 0
    body = read_comment(github)
    assert "| pulse | ask | 4 | 0 | 0 | 0 | 0 |\n" in body
    assert "| campaigns/@&#8203;ada.yaml | campaigns/@&#8203;ada.yaml: 4 errors |  |\n" in body


@pytest.mark.slow
def test_names_have_no_power_and_length_is_bounded(run: Run, folder: Path, github: GitHub) -> None:
    """However many campaigns there are, and whatever their files are called, the comment fits and is escape_markdown."""
    text = (folder / "campaigns/pulse.yaml").read_text(encoding="utf-8")
    for number in range(150):
        named = text.replace("name: pulse", f"name: {number:03}{'_' * 97}").replace(
            "pulse-2026", f"t{number}"
        )
        (folder / f"campaigns/c{number}.yaml").write_text(named, encoding="utf-8")
    hostile = folder / "campaigns/@ada <img> `#1` | ](x) +14155550101.yaml"
    hostile.write_text("version: 2\n", encoding="utf-8")
    run("ci", "comment", "--merged", cwd=folder, env=job(github, folder))
    body = read_comment(github)
    assert count_units(body) <= LONGEST_BODY
    assert "\n… and 51 more\n" in body
    assert "4155550101" not in body
    assert "@ada" not in body
    assert TOKEN not in body
    assert "campaigns/@&#8203;ada &lt;img&gt; \\`\\#&#8203;1\\` \\|" in body
    tokens = MarkdownIt().enable("table").parse(body)
    links = [one for token in tokens for one in token.children or [] if one.type == "link_open"]
    assert [link.attrs["href"] for link in links] == [RUN]


def test_it_is_another_comment_than_the_plan(run: Run, folder: Path, github: GitHub) -> None:
    """What was said before the merge stays."""
    github.add_comment(f"{write_marker('sandbox')}\nthe plan", issue=9)
    for _ in range(2):
        run("ci", "comment", "--merged", cwd=folder, env=job(github, folder))
    markers = [comment["body"].split("\n")[0] for comment in github.threads[9]]
    assert markers == [write_marker("sandbox"), MARKER]


def test_outside_of_a_job_it_is_printed(run: Run, folder: Path) -> None:
    """On a person's machine the comment goes to standard output."""
    run("apply", "--auto-approve", cwd=folder)
    done = run("ci", "comment", "--merged", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "Warning: No comment: this is no job of GitHub\n")
    assert done.stdout.startswith("### Campaigns sent → sandbox\n\n**4 texts sent**\n")
