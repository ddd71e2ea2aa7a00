"""`runner ci comment`, as a pull request's job runs it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from runner.github.comments import count_units, write_marker
from runner.github.pull_requests import PlanNumbers, read_numbers, write_numbers
from runner.wording import escape_html, escape_markdown, hide_phones
from runner.workflow.review.publishing import CommentText, Piece
from tests.forge.github_server import HEAD, TOKEN, Fault, GitHub
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]

MARKER = write_marker("sandbox", None)


def replace_in(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_the_plan_is_one_comment(run: Run, folder: Path, github: GitHub) -> None:
    """Counts come first, details are folded, the commit stands last; a second job changes nothing."""
    done = run("ci", "comment", cwd=folder, env=github.job(folder))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith(f"Commented: {github.url}/acme/campaigns/pull/7#issuecomment-")
    (body,) = github.bodies()
    numbers = PlanNumbers("sandbox", {"pulse": {"ask": 4}})
    assert read_numbers(body) == numbers
    assert body.startswith(
        f"{MARKER}\n{write_numbers(numbers)}\n### Campaign plan → sandbox\n\n"
        "Goes to the embedded sandbox, which texts nobody.\n\n"
        "**1 campaign · 4 people to text · 8 to 16 segments · 0 errors**\n"
        "\n<details><summary>pulse: 4 people to text</summary>\n\ncampaigns/pulse.yaml\n\n| message |"
    )
    assert body.endswith(f"\n</details>\n\n<sub>For commit {HEAD}</sub>\n")
    assert not (folder / "summary.md").exists()
    again = run("ci", "comment", cwd=folder, env=github.job(folder))
    assert again.stderr.startswith("Comment unchanged: ")
    assert github.writes() == ["POST"]
    assert run("ci", "comment", "--quiet", cwd=folder, env=github.job(folder)).stderr == ""


def test_an_invalid_campaign_replaces_the_plan(run: Run, folder: Path, github: GitHub) -> None:
    """Errors take the place of an outdated plan, and the command exits with 1; mended, the plan is back."""
    run("ci", "comment", cwd=folder, env=github.job(folder))
    replace_in(folder / "campaigns/pulse.yaml", "version: 1", "version: 2")
    done = run("ci", "comment", cwd=folder, env=github.job(folder))
    assert done.returncode == 1
    assert done.stderr.endswith("Error: 1 error: nothing was done\n")
    (body,) = github.bodies()
    assert body.startswith(
        f"{MARKER}\n### Invalid campaigns → sandbox\n\n"
        "Goes to the embedded sandbox, which texts nobody.\n\n"
        "**1 error · 0 warnings**: nothing is planned.\n"
        "\n| severity | where | what | what to do |\n|---|---|---|---|\n"
        "| error | campaigns/pulse.yaml:1:10 | \\`version\\` must be 1, not 2"
        " | write \\`version: 1\\` |\n"
    )
    replace_in(folder / "campaigns/pulse.yaml", "version: 2", "version: 1")
    assert run("ci", "comment", cwd=folder, env=github.job(folder)).returncode == 0
    assert "### Campaign plan" in github.bodies()[0]
    assert github.writes() == ["POST", "PATCH", "PATCH"]


def test_changes_since_it_was_sent_are_shown(run: Run, folder: Path, github: GitHub) -> None:
    """Messages whose texts differ from what was sent are named; phones in the texts are masked."""
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    replace_in(folder / "campaigns/pulse.yaml", '"Thank you!"', '"Thanks, @ada: +1 415 555 0199 </details>"')
    assert run("ci", "comment", cwd=folder, env=github.job(folder)).returncode == 0
    (body,) = github.bodies()
    assert "<details><summary>Changed since it was sent</summary>\n\n- pulse/ask\n" in body
    assert "\nThanks, @ada: +1 ••• ••• ••99 </details>\n" in body
    # The text stands in a block of code, where nothing of it counts.
    fences = [token for token in MarkdownIt().parse(body) if token.type == "fence"]
    assert any("@ada" in token.content for token in fences)


def test_no_phone_is_in_the_comment(run: Run, folder: Path, github: GitHub) -> None:
    """Neither a plan nor an error shows a phone number."""
    bad = "first_name,mobile\nBob,415-555-0102 ext 7\nCy,14155550103.5\nDee,+1 415 555 01\nEve,1.4155E+10\n"
    (folder / "campaigns/audience/people.csv").write_text(bad, encoding="utf-8")
    done = run("ci", "comment", cwd=folder, env=github.job(folder))
    assert done.returncode == 1
    (body,) = github.bodies()
    assert "4 errors" in body
    for digits in ("555-0102", "5550103", "555 01", "4155550101", "5550101"):
        assert digits not in body


def test_without_rights_the_summary_has_everything(run: Run, folder: Path, github: GitHub) -> None:
    """A fork's token may not comment: that is said, and is no failure."""
    github.faults.append(Fault("POST", "/comments", 403, "Resource not accessible by integration"))
    done = run("ci", "comment", cwd=folder, env=github.job(folder))
    assert done.returncode == 0
    assert done.stderr == (
        "Warning: No comment: the token has no right to "
        "(403: Resource not accessible by integration). The job's summary has everything\n"
    )
    summary = (folder / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("### Campaign plan → sandbox\n")
    assert "</details>" in summary


def test_without_rights_errors_are_errors(run: Run, folder: Path, github: GitHub) -> None:
    """The exit code is that of the campaigns, comment or not."""
    github.faults.append(Fault("GET", "/comments", 404, "Not Found"))
    replace_in(folder / "campaigns/pulse.yaml", "version: 1", "version: 2")
    assert run("ci", "comment", cwd=folder, env=github.job(folder)).returncode == 1
    assert "### Invalid campaigns" in (folder / "summary.md").read_text(encoding="utf-8")


def test_outside_of_a_job_the_comment_is_printed(run: Run, folder: Path) -> None:
    """On a person's machine the comment goes to standard output."""
    done = run("ci", "comment", cwd=folder)
    assert done.returncode == 0
    assert done.stdout.startswith("### Campaign plan → sandbox\n\nGoes to the embedded sandbox, which")
    assert "\n\n**1 campaign · " in done.stdout
    assert done.stderr == "Warning: No comment: this is no job of GitHub\n"


def test_an_overtaken_job_is_said(run: Run, folder: Path, github: GitHub) -> None:
    """A job of an earlier commit writes nothing."""
    github.head = "e" * 40
    done = run("ci", "comment", cwd=folder, env=github.job(folder))
    assert done.stderr == (
        "The pull request has moved on to another commit, whose job comments: nothing was written\n"
    )


def test_a_limit_is_shown_and_stops(run: Run, folder: Path, github: GitHub) -> None:
    """A plan beyond a limit is commented, and exits with 5 as `runner plan` does."""
    replace_in(folder / "campaigns/pulse.yaml", "messages:", "limits: {recipients: 1}\nmessages:")
    done = run("ci", "comment", cwd=folder, env=github.job(folder))
    assert done.returncode == 5
    (body,) = github.bodies()
    assert "### Campaign plan: stopped by a limit → sandbox" in body
    assert "\n- **Stopped**: pulse: " in body


TARGETS = """\
version: 1
targets:
  live: {base_url: "https://sms.example.com", state_key_env: PULSE_KEY}
"""


def test_no_credentials_are_needed(run: Run, folder: Path, github: GitHub) -> None:
    """Nothing is asked of the service: a pull request's job has no credentials for it."""
    env = github.job(folder, PULSE_KEY=STATE_KEY)
    (folder / "campaigns/targets.yaml").write_text(TARGETS, encoding="utf-8")
    assert run("ci", "comment", "--target", "live", cwd=folder, env=env).returncode == 0
    assert "### Campaign plan → live" in github.bodies()[0]


def test_where_it_goes_is_shown(run: Run, folder: Path, github: GitHub) -> None:
    """Address, `insecure` and the credentials' variables stand above the counts, and are no link."""
    file = folder / "campaigns/targets.yaml"
    file.write_text(TARGETS.replace(", state_key_env: PULSE_KEY", ""), encoding="utf-8")
    assert run("ci", "comment", "--target", "live", cwd=folder, env=github.job(folder)).returncode == 0
    (body,) = github.bodies()
    assert (
        "### Campaign plan → live\n\nGoes to https:&#8203;//sms.example.com, "
        "with the credentials in RUNNER\\_USERNAME and RUNNER\\_API\\_KEY.\n\n**1 campaign · "
    ) in body
    replace_in(file, "https://sms.example.com", "http://SMS.example.com:80/v2/")
    replace_in(file, "live: {", "live: {insecure: true, api_key_env: RUNNER_EU_API_KEY, ")
    assert run("ci", "comment", "--target", "live", cwd=folder, env=github.job(folder)).returncode == 0
    (body,) = github.bodies()
    assert (
        "**Goes to http:&#8203;//sms.example.com/v2, "
        "UNENCRYPTED: anybody on the way can read phone numbers, texts and credentials (\\`insecure: true\\`), "
        "with the credentials in RUNNER\\_USERNAME and RUNNER\\_EU\\_API\\_KEY.**\n"
    ) in body


def test_a_fork_without_secrets_is_validated(run: Run, folder: Path, github: GitHub) -> None:
    """Where a plan needs a secret, a fork's campaigns are valid or not; outside of jobs it is an error."""
    (folder / "campaigns/targets.yaml").write_text(TARGETS, encoding="utf-8")
    assert run("ci", "comment", "--target", "live", cwd=folder).returncode == 1
    fork = {"head": {"sha": HEAD, "repo": {"full_name": "mallory/campaigns"}}}
    done = run("ci", "comment", "--target", "live", cwd=folder, env=github.job(folder, event=fork))
    assert done.returncode == 0
    assert done.stderr.startswith(
        "Warning: not planned, since this pull request gets no secrets: the target 'live' has no key for its fingerprints\n"
    )
    (body,) = github.bodies()
    assert "The target 'live' has no key" in body
    replace_in(folder / "campaigns/pulse.yaml", "version: 1", "version: 2")
    done = run("ci", "comment", "--target", "live", cwd=folder, env=github.job(folder, event=fork))
    assert done.returncode == 1
    assert "### Invalid campaigns → live" in github.bodies()[0]


def test_a_key_that_a_rule_requires_is_no_pull_requests(run: Run, folder: Path, github: GitHub) -> None:
    """A job without secrets says what is known without; whoever sends needs the key."""
    text = 'version: 1\ntargets: {live: {base_url: "https://sms.example.com"}}\nrequire: {state_key: true}\n'
    (folder / "campaigns/targets.yaml").write_text(text, encoding="utf-8")
    done = run("ci", "comment", "--target", "live", cwd=folder, env=github.job(folder))
    assert done.returncode == 0
    assert "has no state key, and campaigns/targets.yaml:3 requires one" in done.stderr
    assert "| pulse | ask | 5 | 0 | 4 |\n" in github.bodies()[0]
    assert run("ci", "comment", "--target", "live", cwd=folder).returncode == 1


def test_without_the_key_of_the_record_its_people_are_counted(run: Run, folder: Path, github: GitHub) -> None:
    """The key is the sender's alone: a pull request's job doesn't fail for the want of it."""
    key = {"RUNNER_STATE_KEY": STATE_KEY}
    assert run("apply", "--auto-approve", cwd=folder, env=key).returncode == 0
    # A new machine has the lockfile and no ledger.
    shutil.rmtree(folder / ".runner")
    done = run("ci", "comment", cwd=folder, env=github.job(folder))
    assert done.returncode == 0
    (body,) = github.bodies()
    assert "### Campaign plan → sandbox" in body
    assert "| pulse | ask | 5 | 4 | 0 |\n" in body
    assert "planned without knowing who was texted, since this pull request gets no secrets" in done.stderr
    assert run("ci", "comment", cwd=folder).returncode == 1


def test_no_campaign_and_wrong_targets_are_commented(run: Run, folder: Path, github: GitHub) -> None:
    """An outdated plan doesn't stay when there is nothing left to plan, or no way to."""
    run("ci", "comment", cwd=folder, env=github.job(folder))
    (folder / "campaigns/targets.yaml").write_text("targets: 3\n", encoding="utf-8")
    assert run("ci", "comment", "--target", "sandbox", cwd=folder, env=github.job(folder)).returncode == 1
    assert "### Invalid campaigns → sandbox" in github.bodies()[0]
    (folder / "campaigns/targets.yaml").unlink()
    (folder / "campaigns/pulse.yaml").unlink()
    assert run("ci", "comment", cwd=folder, env=github.job(folder)).returncode == 0
    assert github.bodies()[0].startswith(
        f"{MARKER}\n### No campaigns → sandbox\n\n"
        "Goes to the embedded sandbox, which texts nobody.\n\n"
        "There is no campaign: nothing is sent.\n"
    )


LONG = """\
version: 1
name: long
tag: long
recipients:
  - phone: "+14155550101"
messages:
""" + "".join(f"  - {{id: m{n}, text: word {' '.join(map(str, range(1_500)))}}}\n" for n in range(12))


def test_what_overflows_goes_to_the_summary(run: Run, folder: Path, github: GitHub) -> None:
    """A comment too long for GitHub names what it leaves out, and where that stands."""
    file = folder / "campaigns/long.yaml"
    file.write_text(LONG, encoding="utf-8")
    done = run("ci", "comment", file, cwd=folder, env=github.job(folder))
    assert done.returncode == 0, done.stderr
    (body,) = github.bodies()
    page = "[the job's summary](https://github.example/acme/campaigns/actions/runs/42)"
    assert (
        f"\n> **Too long for here, see {page}:** long: what is sent, with variables by their names\n" in body
    )
    assert "<summary>long: 1 person to text</summary>" in body
    summary = (folder / "summary.md").read_text(encoding="utf-8")
    assert "\nword 0 1 2" in summary
    assert MARKER not in summary


def test_the_token_is_nowhere(run: Run, folder: Path, github: GitHub) -> None:
    """The token is in no output, comment or summary."""
    github.faults.append(Fault("PATCH", "/comments", 403, "no"))
    github.add_comment(f"{MARKER}\nold")
    done = run("ci", "comment", "-v", cwd=folder, env=github.job(folder))
    told = (
        done.stdout + done.stderr + (folder / "summary.md").read_text(encoding="utf-8") + str(github.bodies())
    )
    assert TOKEN not in told


PIECES = st.builds(Piece, st.text(max_size=30), st.text(max_size=3000), st.booleans())


@given(st.lists(PIECES, max_size=8), st.integers(2_000, 9_000))
def test_a_text_fits_its_room(pieces: list[Piece], room: int) -> None:
    """Whatever the pieces, the text is no longer than it may be, and says if something is missing."""
    text = CommentText("head\n", tuple(pieces), "tail")
    body, left_out = text.fit(room, count_units, "see there")
    assert count_units(body) <= room
    assert ("Too long for here" in body) == bool(left_out)
    assert body.startswith("head\n")
    assert body.endswith("\ntail\n")


HOSTILE = st.lists(
    st.sampled_from(
        ["@ada", "#12", "GH-3", "</details>", "<!--", "|", "`", "```", "\n", "\\", "&#64;", "https://"]
    )
    | st.sampled_from(
        ["www.", "a.b", ":+1:", "[x](y)", "![", "*", "_", "~~", "$", "\r", "<script>", " ", "x"]
    )
    | st.text(max_size=3),
    max_size=10,
).map("".join)


@given(HOSTILE)
@example("&#64;ada @ada ![x](https://evil.example) </details>")
def test_a_text_of_others_is_only_text(text: str) -> None:
    """Whatever a campaign says, it is shown: no markup, no element, no mention, no reference, no link."""
    markdown = MarkdownIt("gfm-like", {"linkify": False})
    table = f"| a | b |\n|---|---|\n| {escape_markdown(text)} | end |\n"
    tokens = markdown.parse(table)
    cells = [t for t in tokens if t.type == "inline"][2:]
    assert [cell.content for cell in cells][1:] == ["end"]
    assert {child.type for child in cells[0].children or []} <= {"text", "text_special"}
    shown = "".join(child.content for child in cells[0].children or [])
    for reference in ("@a", "#1", "GH-3", "www.", "://"):
        assert reference not in shown


@given(HOSTILE)
def test_a_title_cannot_end_its_element(text: str) -> None:
    """In a `<summary>` there is no HTML but ours, and no line break that would begin Markdown."""
    shown = escape_html(text)
    assert not set("<>\n\r") & set(shown)
    assert "@a" not in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("call +14155550101 now", "call +14•••••••01 now"),
        ("(415) 555-0102", "(41•) •••-••02"),
        ("'4155550101'", "'415•••••01'"),
        ("due 2026-12-01 09:00 UTC, 1,204 recipients, lines 1,055", None),
        ("digest 0123456789abcdef", None),
    ],
)
def test_phones_are_masked_and_nothing_else(text: str, shown: str | None) -> None:
    """Numbers that could be phones are masked; dates, counts and digests are not."""
    assert hide_phones(text) == (shown or text)
