"""Approvals from the plan to the send: what people approved is sent, and nothing that goes beyond it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from runner.github.comments import write_marker
from runner.github.pull_requests import PlanNumbers, write_numbers
from runner.ledger.files.suppressions import read_approvals, seal_book
from runner.ledger.fingerprint import TargetKey
from runner.plan.digest import digest_json
from tests.forge.github_server import BOT, Fault, GitHub, running_github
from tests.repository.free_ref import leave_free_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

KEY = "a-state-key-for-tests-Xq3v9LrT0bWc"
SEALS = TargetKey.of("live", KEY)
OTHER_KEY = "another-key-for-tests-Zp7k2MsY5dUe"
BOOK = "campaigns/live.approvals.json"
HOW = (
    "  have the plan approved and record that with `runner ci approve --plan FILE`, then send it with "
    "`runner apply --plan FILE`\n"
)
RIGHTS = (
    "  give the job's token the permissions `actions: read`, `contents: read` and `pull-requests: read`\n"
)


@dataclass
class Desk:
    """Runs commands in a repository of one campaign, on a service and with a state key."""

    run_command: Run
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run_command(*arguments, cwd=self.folder, env=self.environment | variables)

    def plan(self, *options: str, **variables: str) -> dict[str, str]:
        """Save a plan as a job does, and return the outputs of its step."""
        outputs = self.folder / "outputs"
        outputs.write_text("", encoding="utf-8")
        done = self.run(
            "plan",
            "--out",
            "plan.json",
            "--format",
            "github",
            *options,
            GITHUB_OUTPUT=str(outputs),
            **variables,
        )
        assert done.returncode == 0, done.stderr
        self.said = done.stdout
        self.noted = done.stderr
        return dict(line.split("=", 1) for line in outputs.read_text(encoding="utf-8").splitlines())

    def approve(self, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("ci", "approve", "--plan", "plan.json", *(options or ("--by", "ada")), **variables)

    def apply(self, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("apply", "--plan", "plan.json", "--require-approval", *options, **variables)

    def read_plan(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))
        return document

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.folder / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def read_book(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = json.loads((self.folder / BOOK).read_text(encoding="utf-8"))[
            "entries"
        ]
        return entries


@pytest.fixture
def desk(folder: Path, run: Run, serve: Callable[..., Any]) -> Iterator[Desk]:
    """A repository, a service and a state key."""
    with serve(folder, "--db", "service.sqlite") as environment:
        yield Desk(run, folder, {**environment, "RUNNER_STATE_KEY": KEY})


@pytest.mark.slow
def test_a_plan_is_sent_once_it_is_approved(desk: Desk, check_json: Callable[[str, str], Any]) -> None:
    """Before, nothing is sent, with exit code 5; after, exactly what was approved, and nothing is left to ask."""
    outputs = desk.plan()
    assert outputs == {
        "to-send": "4",
        "covered": "0",
        "approval": "needed",
        "plan-digest": desk.read_plan()["plan_digest"],
    }
    assert desk.said.endswith("pulse: needs approval: nothing was approved yet\n")
    check_json((desk.folder / "plan.json").read_text(encoding="utf-8"), "plan")
    refused = desk.apply()
    assert refused.returncode == 5
    assert refused.stderr.endswith(f"Error: pulse is not approved: nothing was approved yet\n{HOW}")
    done = desk.approve("--by", "bo", "--by", " ada ")
    assert (done.returncode, done.stdout) == (0, "Approved by ada, bo: pulse.\n")
    (entry,) = desk.read_book()
    assert entry["request"]["messages"] == {"ask": {"recipients": 4, "segments": 1}}
    assert (entry["approved_by"], entry["plan_digest"]) == (["ada", "bo"], outputs["plan-digest"])
    sent = desk.apply()
    assert sent.returncode == 0, sent.stderr
    assert desk.plan() == {
        "to-send": "0",
        "covered": "0",
        "approval": "none",
        "plan-digest": desk.read_plan()["plan_digest"],
    }
    assert desk.approve().stdout == "Nothing to approve: the plan is approved already, or it sends nothing.\n"
    assert len(desk.read_book()) == 1


@pytest.mark.slow
def test_a_covered_plan_is_sent_without_asking(desk: Desk) -> None:
    """What an approval covers is sent by later runs, piece by piece; the plan says by whom it was approved."""
    desk.plan()
    desk.approve()
    for _ in range(2):
        outputs = desk.plan("--limit", "2")
        assert (outputs["to-send"], outputs["covered"], outputs["approval"]) == ("2", "2", "covered")
        assert desk.said.endswith("pulse: approved by ada\n")
        assert desk.apply().returncode == 0
    assert "Approval" not in desk.run("plan", "--format", "markdown").stdout
    assert desk.plan()["approval"] == "none"


def test_an_approval_of_a_part_is_of_that_part(desk: Desk) -> None:
    """--limit shows a part, and only that is approved."""
    desk.plan("--limit", "3")
    desk.approve()
    assert desk.plan()["approval"] == "needed"
    assert desk.said.endswith("pulse: needs approval: `ask`: 1 recipient more than were approved\n")


ATTACKS = {
    "one added and one removed": (
        "campaigns/audience/people.csv",
        "4155550104",
        "4155550106",
        "its audience has changed since it was approved",
    ),
    "a word": (
        "campaigns/pulse.yaml",
        "a word about",
        "a word on",
        "the campaign file has changed since it was approved",
    ),
    "who is excluded": (
        "campaigns/pulse.yaml",
        "+14155550105",
        "+14155550104",
        "the campaign file has changed since it was approved",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_was_not_reviewed_needs_an_approval(desk: Desk, attack: str) -> None:
    """Another person, another word: as many recipients as were approved, and not the same."""
    file, old, new, words = ATTACKS[attack]
    desk.plan()
    desk.approve()
    desk.edit(file, old, new)
    outputs = desk.plan()
    assert (outputs["to-send"], outputs["covered"], outputs["approval"]) == ("4", "0", "needed")
    assert desk.said.endswith(f"pulse: needs approval: {words}\n")
    assert desk.apply().returncode == 5
    assert "launches" not in desk.run("status").stdout


def test_what_only_reports_read_needs_no_new_approval(desk: Desk) -> None:
    """A title, or a comment for whoever edits the file, goes to nobody: a saved and approved plan stays good."""
    desk.plan()
    desk.approve()
    desk.edit("campaigns/pulse.yaml", "version: 1\n", "version: 1  # of the format\ntitle: Our pulse\n")
    sent = desk.apply()
    assert sent.returncode == 0, sent.stderr


def test_a_clock_that_was_wrong_shadows_no_later_approval(desk: Desk) -> None:
    """An approval of a machine that was ahead of time is before the next one all the same."""
    desk.plan("--limit", "1")
    desk.approve()
    book = desk.folder / BOOK
    (known,), _ = read_approvals(book, book.read_text(encoding="utf-8"), SEALS)
    ahead = replace(known, at="2099-01-01T00:00:00.000000Z")
    book.write_text("".join(seal_book(SEALS, [ahead])), encoding="utf-8")
    desk.plan()
    desk.approve("--by", "bo")
    assert [one["at"] for one in desk.read_book()] == [
        "2099-01-01T00:00:00.000000Z",
        "2099-01-01T00:00:01.000000Z",
    ]
    assert desk.plan()["approval"] == "covered"


def test_a_target_that_leads_elsewhere_needs_an_approval(desk: Desk) -> None:
    """The address is part of what was approved, and so is whether texts go there in the clear."""
    desk.plan()
    desk.approve()
    assert desk.plan(RUNNER_BASE_URL="https://sms.invalid")["approval"] == "needed"
    assert desk.said.endswith("pulse: needs approval: it goes elsewhere than was approved: address changed\n")
    assert desk.plan()["approval"] == "covered"


def test_approvals_of_another_target_or_key_are_not_believed(desk: Desk) -> None:
    """A file that was copied from another target, or edited, counts for nothing, and the plan says so."""
    desk.plan()
    desk.approve()
    book = desk.folder / BOOK
    (desk.folder / "campaigns/staging.approvals.json").write_bytes(book.read_bytes())
    desk.plan(RUNNER_TARGET="staging")
    assert desk.said.endswith("pulse: needs approval: nothing was approved yet\n")
    book.write_text(book.read_text(encoding="utf-8").replace('"recipients":4', '"recipients":400'))
    assert desk.plan()["approval"] == "needed"
    warning = f"Warning: {BOOK}: 1 approval is not sealed with this RUNNER_STATE_KEY, and not believed\n"
    assert warning in desk.noted
    assert desk.apply().returncode == 5


@pytest.mark.slow
def test_follow_ups_are_covered_and_others_are_not(desk: Desk) -> None:
    """A reminder that was forecast is sent without asking; a second one that is added later is not."""
    desk.edit(
        "campaigns/pulse.yaml",
        '    conclusion: "Thank you!"\n',
        '    conclusion: "Thank you!"\n  - {id: nudge, after: {message: ask, wait: 1s}, text: Still there?, '
        "complete_existing_sessions: true}\n",
    )
    desk.plan()
    desk.approve()
    assert {name: one["recipients"] for name, one in desk.read_book()[0]["request"]["messages"].items()} == {
        "ask": 4,
        "nudge": 4,
    }
    assert desk.apply().returncode == 0
    # Much later, nobody would be texted before somebody reconciles.
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    outputs = desk.plan("--now", soon)
    assert (outputs["to-send"], outputs["approval"]) == ("4", "covered")
    with (desk.folder / "campaigns/pulse.yaml").open("a", encoding="utf-8") as stream:
        stream.write("  - {id: more, text: Hello, complete_existing_sessions: true}\n")
    assert desk.plan("--now", soon)["approval"] == "needed"


@pytest.mark.slow
def test_each_campaign_is_approved_for_itself(desk: Desk) -> None:
    """Of two campaigns the one that was approved is sent, and the other left out, with exit code 5."""
    with (desk.folder / "campaigns/pulse.yaml").open("a", encoding="utf-8") as stream:
        stream.write("policy: {open_session: queue}\n")
    desk.plan()
    desk.approve()
    other = (desk.folder / "campaigns/pulse.yaml").read_text(encoding="utf-8")
    text = other.replace("name: pulse", "name: other").replace("tag: pulse-2026", "tag: other-2026")
    (desk.folder / "campaigns/other.yaml").write_text(text, encoding="utf-8")
    assert desk.plan()["approval"] == "needed"
    assert desk.said.endswith("other: needs approval: nothing was approved yet\npulse: approved by ada\n")
    done = desk.apply()
    assert done.returncode == 5
    assert f"Left out: other is not approved: nothing was approved yet\n{HOW}" in done.stderr
    assert done.stdout == "pulse: 4 people texted.\n"
    assert desk.plan()["to-send"] == "4"


def test_the_variable_requires_it_too(desk: Desk) -> None:
    """RUNNER_REQUIRE_APPROVAL holds for every apply, also for one without a saved plan."""
    done = desk.run("apply", "--auto-approve", RUNNER_REQUIRE_APPROVAL="1")
    assert done.returncode == 5
    assert done.stderr.endswith(f"Error: pulse is not approved: nothing was approved yet\n{HOW}")
    assert desk.run("plan", RUNNER_REQUIRE_APPROVAL="1").stdout.endswith(
        "\npulse: needs approval: nothing was approved yet\n"
    )


@pytest.mark.slow
def test_without_a_key_the_digest_is_the_approval(desk: Desk) -> None:
    """Nothing is kept then: only the plan that this run names by its digest is sent."""
    del desk.environment["RUNNER_STATE_KEY"]
    digest = desk.plan()["plan-digest"]
    words = "without a RUNNER_STATE_KEY no approval is kept: each plan needs one of its own"
    assert desk.said.endswith(f"pulse: needs approval: {words}\n")
    done = desk.approve()
    assert (done.returncode, done.stdout) == (0, "Approved by ada: pulse.\n")
    assert done.stderr == (
        "Without a RUNNER_STATE_KEY the approval is not saved: send exactly this plan now, with "
        f"`runner apply --plan plan.json --require-approval --expect-digest {digest}`\n"
    )
    assert not (desk.folder / BOOK).exists()
    assert desk.apply().stderr.endswith(f"Error: pulse is not approved: {words}\n{HOW}")
    assert desk.apply("--expect-digest", "0" * 32).returncode == 1
    assert desk.apply("--expect-digest", digest).returncode == 0


def test_with_a_key_the_digest_is_no_approval(desk: Desk) -> None:
    """A workflow names the digest of every plan: that says nothing of who approved it."""
    digest = desk.plan()["plan-digest"]
    assert desk.apply("--expect-digest", digest).returncode == 5


def forge_plan(desk: Desk, change: Callable[[dict[str, Any]], None]) -> None:
    """Edit the saved plan, and give it a checksum that fits."""
    document = desk.read_plan()
    change(document["campaigns"][0])
    body = {name: value for name, value in document.items() if name != "checksum"}
    text = json.dumps({**body, "checksum": digest_json(body)})
    (desk.folder / "plan.json").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one["approval"]["request"]["messages"]["ask"].update(recipients=5000),
        lambda one: one["messages"][0].update(forecast=0, deferred=12),
        lambda one: one["approval"].update(seal="0" * 32),
        lambda one: one["approval"].update(seal=None),
        lambda one: one.update(refusals=["nothing"]),
    ],
)
def test_a_plan_that_was_edited_is_not_approved(desk: Desk, change: Callable[[dict[str, Any]], None]) -> None:
    """The plan's file passes through hands that have no key: its numbers are under a seal."""
    desk.plan()
    forge_plan(desk, change)
    done = desk.approve()
    assert done.returncode == 1
    assert done.stderr == (
        "Error: the plan plan.json was edited, or made with another RUNNER_STATE_KEY: its seal doesn't fit\n"
        "  make a new plan with `runner plan --out`, with the key set, and have that approved\n"
    )
    assert not (desk.folder / BOOK).exists()


def test_a_plan_is_approved_with_its_own_key(desk: Desk) -> None:
    """Without the key, or with another one, nothing is recorded that would not be believed."""
    desk.plan()
    anew = "  make a new plan with `runner plan --out`, with the key set, and have that approved\n"
    assert desk.approve(RUNNER_STATE_KEY="").stderr == (
        "Error: the plan plan.json was made with a RUNNER_STATE_KEY, and none is set\n  set the same one\n"
    )
    assert desk.approve(RUNNER_STATE_KEY=OTHER_KEY).returncode == 1
    desk.plan(RUNNER_STATE_KEY="")
    assert desk.approve().stderr == (
        f"Error: the plan plan.json was made without the RUNNER_STATE_KEY\n{anew}"
    )
    forge_plan(desk, lambda one: one.pop("approval"))
    assert desk.approve().stderr == (
        f"Error: the plan plan.json was saved by an older version of runner\n{anew}"
    )
    desk.plan()
    assert desk.approve("--by", "ada", "--expect-digest", "0" * 32).returncode == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--by", "ada", "--merge"],
            "--by names who approved, and --merge asks GitHub: use one of them\n",
        ),
        (["--by", " "], "--by takes a name of one line, of at most 100 characters\n"),
        (["--by", "ada\nApproved-By: bo"], "--by takes a name of one line, of at most 100 characters\n"),
        (["--by", "a" * 101], "--by takes a name of one line, of at most 100 characters\n"),
        (
            ["--quiet"],
            (
                "nobody is named who approved it, and this is not a GitHub job, which could ask\n"
                "  name them with --by; in a job, give the step GITHUB_TOKEN\n"
            ),
        ),
    ],
)
def test_who_approved_has_to_be_said(desk: Desk, options: list[str], words: str) -> None:
    """A command line that does not say it, or not in one line, is wrong."""
    desk.plan()
    done = desk.approve(*options)
    assert (done.returncode, done.stderr) == (64, f"Error: {words}")


def test_what_cannot_be_used_is_said(desk: Desk) -> None:
    """A merge outside of a job, a campaign with another name, files that are none: each in words."""
    desk.plan()
    assert (
        desk.approve("--merge").stderr == "Error: who approved this is not known: this is no job of GitHub\n"
    )
    done = desk.run("plan", "--format", "github", GITHUB_OUTPUT="nowhere/outputs")
    assert done.stderr.endswith(
        "Error: the file of GITHUB_OUTPUT, nowhere/outputs, cannot be written: No such file or directory\n"
    )
    desk.edit("campaigns/pulse.yaml", "name: pulse", "name: other")
    assert desk.approve().stderr == "Error: campaigns/pulse.yaml is not the campaign pulse that was planned\n"
    desk.edit("campaigns/pulse.yaml", "name: other", "name: pulse")
    (desk.folder / BOOK).mkdir()
    assert desk.approve().stderr == f"Error: {BOOK} cannot be read: Is a directory\n  restore it with git\n"


def test_damaged_approvals_count_for_nothing(desk: Desk) -> None:
    """A plan names the file and asks for an approval; nothing is approved or sent on the strength of it."""
    desk.plan()
    assert desk.approve().returncode == 0
    (desk.folder / BOOK).write_text("{", encoding="utf-8")
    assert desk.plan()["approval"] == "needed"
    assert f"no approval counts: {BOOK} is not JSON, or was edited by hand" in desk.noted
    for command in (desk.approve, desk.apply):
        done = command()
        assert done.returncode == 1
        assert f"{BOOK} is not JSON, or was edited by hand (line 1)\n  restore it with git\n" in done.stderr


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=ada", "-c", "user.email=ada@example.com")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@dataclass
class Merge:
    """A job after the merge of pull request 7, whose comment said what the plan says."""

    desk: Desk
    github: GitHub
    commit: str

    @property
    def job(self) -> dict[str, str]:
        return self.github.job(
            self.desk.folder, GITHUB_REF_NAME="main", GITHUB_ENV=str(self.desk.folder / "env")
        )

    def say(self, count: int, login: str = BOT, target: str = "live") -> None:
        """Comment the numbers of a plan on the pull request."""
        line = write_numbers(PlanNumbers(target, {"pulse": {"ask": count}}))
        self.github.add_comment(f"{write_marker(target)}\n{line}\n### Campaign plan\n", login)


@pytest.fixture
def merge(desk: Desk) -> Iterator[Merge]:
    """The clone, and its forge."""
    git(desk.folder, "init", "-q", "-b", "main")
    git(desk.folder, "add", "campaigns")
    git(desk.folder, "commit", "-qm", "Ask for a word (#7)")
    with running_github() as github:
        commit = git(desk.folder, "rev-parse", "HEAD")
        github.add_commit(commit, "Ask for a word (#7)")
        github.add_pull(7, commit)
        yield Merge(desk, github, commit)


def test_the_forge_says_who_approved_the_run(merge: Merge) -> None:
    """The environment's reviewers are recorded."""
    desk, github = merge.desk, merge.github
    github.add_approval(42, "campaigns-approval", "cy")
    github.add_approval(42, "campaigns-approval", "bo")
    github.add_approval(42, "campaigns-approval", "bo")
    github.add_approval(42, "campaigns-approval", "mallory", "rejected")
    github.add_approval(42, "production", "eve")
    desk.plan(**merge.job)
    done = desk.approve("--quiet", **merge.job)
    assert (done.returncode, done.stdout) == (0, "Approved by bo, cy: pulse.\n"), done.stderr
    (entry,) = desk.read_book()
    assert entry["approved_by"] == ["bo", "cy"]
    assert entry["run_url"] == "https://github.example/acme/campaigns/actions/runs/42"
    assert (desk.folder / "env").read_text(encoding="utf-8") == ("RUNNER_PLAN_DENIED_BY=\n")


def test_a_run_that_nobody_approved_is_refused(merge: Merge) -> None:
    """An environment without reviewers lets everything through: that is no approval."""
    desk = merge.desk
    desk.plan(**merge.job)
    done = desk.approve("--quiet", **merge.job)
    assert done.returncode == 5
    assert done.stderr == (
        "Error: nobody approved this run: nothing was recorded\n"
        "  let people approve the run: give the environment `campaigns-approval` required reviewers; where "
        "GitHub has none for this repository, take the merge of a reviewed pull request for the approval: --merge\n"
    )
    assert not (desk.folder / BOOK).exists()


def test_an_environment_without_reviewers_approves_nothing(merge: Merge) -> None:
    """Whoever approved the run before: today nobody would have been asked."""
    desk, github = merge.desk, merge.github
    github.add_approval(42, "campaigns-approval", "cy")
    github.reviewers = []
    desk.plan(**merge.job)
    for options in (("--plan", "plan.json"), ("--run",)):
        done = desk.run("ci", "approve", "--quiet", *options, **merge.job)
        assert done.returncode == 5
        assert done.stderr.startswith(
            "Error: the environment `campaigns-approval` has no required reviewers, so nobody was asked: nothing was "
            "recorded\n"
        )
    assert not (desk.folder / BOOK).exists()


def test_an_approval_counts_for_its_attempt(merge: Merge) -> None:
    """GitHub lists the decisions of all attempts without times: what was there before the plan is not about it."""
    desk, github = merge.desk, merge.github
    again = {**merge.job, "GITHUB_RUN_ATTEMPT": "2"}
    github.add_approval(42, "campaigns-approval", "cy")
    desk.plan(**merge.job)
    done = desk.approve("--quiet", **again)
    assert done.returncode == 5
    assert done.stderr == (
        "Error: this is attempt 2 of the run, and approvals of earlier attempts do not count: nothing was "
        "recorded\n  start a new run: *Run workflow* of `Campaigns send`, or re-run all jobs of this one\n"
    )
    assert desk.run("ci", "approve", "--run", **again).returncode == 5
    desk.plan(**again)
    done = desk.approve("--quiet", **again)
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        5,
        "Error: nobody approved this run: nothing was recorded",
    )
    github.add_approval(42, "campaigns-approval", "bo")
    assert desk.approve("--quiet", **again).stdout == "Approved by bo: pulse.\n"


@pytest.mark.slow
def test_a_denied_plan_is_not_asked_about_again(merge: Merge) -> None:
    """The record keeps who denied it, until the plan changes or somebody approves it all the same."""
    desk, github = merge.desk, merge.github
    digest = desk.plan(**merge.job)["plan-digest"]
    github.add_approval(42, "campaigns-approval", "bo", "rejected")
    done = desk.approve("--quiet", **merge.job)
    assert done.returncode == 5
    assert done.stderr.startswith(f"Error: bo denied the plan {digest}: nothing of it is sent, and nobody ")
    (entry,) = desk.read_book()
    assert (entry["approved_by"], entry["denied_by"], entry["plan_digest"]) == ([], ["bo"], digest)
    assert desk.run("ci", "record", "--no-push").stdout.startswith(
        "Committed: Record the denial of pulse on live ("
    )
    assert git(desk.folder, "log", "-1", "--format=%(trailers:key=Denied-By,valueonly)").strip() == "bo"
    assert read_approvers(desk.folder) == ""
    job = {**merge.job, "GITHUB_RUN_ID": "43"}
    assert desk.plan(**job)["approval"] == "denied"
    assert f"bo denied the plan {digest}: nobody is asked again until it changes" in desk.said
    assert desk.apply().returncode == 5
    assert desk.plan("--limit", "3", **job)["approval"] == "needed"
    # The remedy.
    desk.plan()
    assert desk.approve("--by", "ada").returncode == 0
    assert desk.plan(**job)["approval"] == "covered"


def test_a_plan_that_waits_in_another_run_is_not_asked_about_again(merge: Merge) -> None:
    """It goes by the digest in the name of the job that waits; this run itself is no other."""
    desk, github = merge.desk, merge.github
    digest = desk.plan(**merge.job)["plan-digest"]
    for runs, approval in (
        ({41: f"Approve the plan {digest}"}, "waiting"),
        ({42: f"Approve the plan {digest}"}, "needed"),
        ({41: f"Approve the plan {'0' * 32}"}, "needed"),
    ):
        github.waiting = runs
        assert desk.plan(**merge.job)["approval"] == approval
    github.faults.append(Fault("GET", "/actions/runs?", 403, "Resource not accessible by integration"))
    assert desk.plan(**merge.job)["approval"] == "needed"
    assert "Whether another run waits for this plan's approval is not known: " in desk.noted


def test_a_run_that_sends_no_plan_takes_an_approval_too(merge: Merge) -> None:
    """Its approver is named; nobody is a refusal, also where a merge approves plans."""
    desk, github = merge.desk, merge.github
    done = desk.run("ci", "approve", "--run", **merge.job)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == (
        "Error: nobody approved this run: nothing was recorded\n"
        "  give the environment `campaigns-approval` required reviewers; where GitHub has none for this "
        "repository, do it from a machine of your own: see `runner resolve --help` and `runner resume --help`\n"
    )
    github.add_approval(42, "campaigns-approval", "cy")
    done = desk.run("ci", "approve", "--run", **merge.job)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Approved by cy.\n", "")
    assert not (desk.folder / BOOK).exists()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--run"], "this is not a GitHub job, which could ask who approved its run\n"),
        (["--run", "--by", "ada"], "--run takes no plan: leave out the other options\n"),
        ([], "no plan was named\n  name the approved plan with --plan FILE\n"),
    ],
)
def test_what_is_approved_has_to_be_said(desk: Desk, options: list[str], error: str) -> None:
    """A plan, or the run of a job."""
    done = desk.run("ci", "approve", *options)
    assert done.returncode == 64
    assert done.stderr.startswith(f"Error: {error}")


def test_a_forge_that_does_not_tell_approves_nothing(merge: Merge) -> None:
    """Without the right to ask nothing is recorded."""
    desk, github = merge.desk, merge.github
    desk.plan(**merge.job)
    github.faults.append(Fault("GET", "/approvals", 403, "Resource not accessible by integration"))
    done = desk.approve("--quiet", **merge.job)
    assert (done.returncode, done.stderr) == (
        1,
        "Error: GitHub does not say who approved this (403: Resource not accessible by integration)\n"
        + RIGHTS,
    )


def test_a_forge_that_is_out_of_order_approves_nothing(merge: Merge) -> None:
    """What could not be asked is not taken for a yes."""
    headers = {"x-ratelimit-remaining": "0"}
    merge.desk.plan(**merge.job)
    merge.github.faults.append(Fault("GET", "/approvals", 403, "API rate limit exceeded", headers))
    done = merge.desk.approve("--quiet", **merge.job)
    assert (done.returncode, done.stderr) == (
        1,
        (
            f"Error: who approved this is not known: {merge.github.url} cannot be reached: its rate limit is "
            "reached\n  run the job again\n"
        ),
    )


def test_the_merge_of_a_reviewed_pull_request_approves(merge: Merge) -> None:
    """Where environments have no reviewers, who approved the last commit of the pull request approved the plan."""
    desk, github = merge.desk, merge.github
    merge.say(4)
    github.add_review(7, "bo", "CHANGES_REQUESTED")
    github.add_review(7, "bo")
    github.add_review(7, "bo", "COMMENTED")
    desk.plan(**merge.job)
    done = desk.approve("--merge", **merge.job)
    assert (done.returncode, done.stdout) == (0, "Approved by bo: pulse.\n"), done.stderr
    assert desk.read_book()[0]["approved_by"] == ["bo"]


REVIEW_FIRST = (
    "Error: nobody approved the pull request #7 as it was merged\n"
    "  have somebody who may push, and is not its author, approve the last commit of the pull request, which "
    "can be done after the merge, and run the job again\n"
)


@pytest.mark.parametrize(
    "review",
    [
        {},
        {"login": "ada"},
        {"login": "bo", "state": "COMMENTED"},
        {"login": "bo", "state": "CHANGES_REQUESTED"},
        {"login": "bo", "sha": "1" * 40},
        {"login": "reader"},
        {"login": "approver[bot]"},
    ],
)
def test_only_a_review_of_what_was_merged_approves(merge: Merge, review: dict[str, str]) -> None:
    """Not the author's, not a comment, not one of an earlier commit, not of somebody who may not push, no app's."""
    desk, github = merge.desk, merge.github
    merge.say(4)
    github.readers.add("reader")
    if review:
        github.add_review(7, **review)
    desk.plan(**merge.job)
    done = desk.approve("--merge", **merge.job)
    assert (done.returncode, done.stderr) == (5, REVIEW_FIRST)
    assert not (desk.folder / BOOK).exists()


def test_a_review_that_was_taken_back_approves_nothing(merge: Merge) -> None:
    """Of each person the latest review counts."""
    merge.say(4)
    for state in ("APPROVED", "DISMISSED"):
        merge.github.add_review(7, "bo", state)
    merge.desk.plan(**merge.job)
    assert merge.desk.approve("--merge", **merge.job).stderr == REVIEW_FIRST


NO_PULL_REQUEST = (
    "Error: no pull request brought what is to be sent, so no merge approves it\n"
    "  change campaigns by pull requests alone, or say who approved it with --by\n"
)


@pytest.mark.parametrize(
    "change",
    [
        {"merged_at": None},
        {"merge_commit_sha": "1" * 40},
        {"base": {"ref": "develop"}},
    ],
)
def test_a_push_without_a_merge_is_not_approved_by_one(merge: Merge, change: dict[str, Any]) -> None:
    """A pull request that is open, that only has this commit in it, or that went to another branch says nothing."""
    desk, github = merge.desk, merge.github
    merge.say(4)
    github.add_review(7, "bo")
    github.pulls[merge.commit][0].update(change)
    desk.plan(**merge.job)
    done = desk.approve("--merge", **merge.job)
    assert (done.returncode, done.stderr) == (5, NO_PULL_REQUEST)


def commit_on_top(merge: Merge, message: str) -> None:
    (merge.desk.folder / "campaigns/pulse.live.lock.json.note").write_text(message, encoding="utf-8")
    git(merge.desk.folder, "add", "campaigns")
    git(merge.desk.folder, "commit", "-qm", message)
    merge.github.add_commit(git(merge.desk.folder, "rev-parse", "HEAD"), message)


def test_commits_of_the_record_are_looked_past(merge: Merge) -> None:
    """An hourly run is on a commit of the record; anybody else's on top of the merge is not approved by it."""
    desk, github = merge.desk, merge.github
    merge.say(4)
    github.add_review(7, "bo")
    commit_on_top(merge, f"Record 2 texts of news on live\n\nCampaigns-Commit: {merge.commit}")
    desk.plan(**merge.job)
    assert desk.approve("--merge", **merge.job).returncode == 0
    (desk.folder / BOOK).unlink()
    commit_on_top(merge, "Change something")
    assert desk.approve("--merge", **merge.job).stderr == NO_PULL_REQUEST


def test_a_plan_that_has_grown_is_not_approved_by_the_merge(merge: Merge) -> None:
    """Beyond the comment's numbers, and the campaign's margin, a person has to look again."""
    desk, github = merge.desk, merge.github
    github.add_review(7, "bo")
    merge.say(3)
    desk.plan(**merge.job)
    growth = "`ask` may reach 4 more, and the comment on #7 said 3"
    done = desk.approve("--merge", **merge.job)
    assert done.returncode == 5
    assert done.stderr == (
        f"Error: the plan is larger than what was reviewed: pulse: {growth}\n"
        "  look at the plan, and say who approved it with --by; how much larger a plan may be is "
        "`policy.review_margin` of the campaign\n"
    )
    assert not (desk.folder / BOOK).exists()
    desk.edit("campaigns/pulse.yaml", "version: 1\n", "version: 1\npolicy: {review_margin: 33.4%}\n")
    desk.plan(**merge.job)
    assert desk.approve("--merge", **merge.job).returncode == 0


@pytest.mark.parametrize("said", [{"login": "mallory"}, {"target": "staging"}, None])
def test_only_the_jobs_own_comment_says_what_was_reviewed(merge: Merge, said: dict[str, Any] | None) -> None:
    """A person's comment, or one on another target, is not believed, whatever it looks like."""
    desk, github = merge.desk, merge.github
    github.add_review(7, "bo")
    if said is not None:
        merge.say(4, **said)
    desk.plan(**merge.job)
    done = desk.approve("--merge", **merge.job)
    assert done.returncode == 5
    assert done.stderr == (
        "Error: the pull request #7 has no comment with the numbers of its plan: what was reviewed is not known\n"
        "  have `runner ci comment` run in the pull request's job, or say who approved it with --by\n"
    )


def test_those_who_get_it_later_have_to_be_in_what_was_said(merge: Merge) -> None:
    """The approval is of all that a plan forecasts, a reminder to everybody among it."""
    desk, github = merge.desk, merge.github
    conclusion = '    conclusion: "Thank you!"\n'
    nudge = "  - {id: nudge, after: {message: ask, wait: 1s}, text: Still there?}\n"
    desk.edit("campaigns/pulse.yaml", conclusion, conclusion + nudge)
    github.add_review(7, "bo")
    line = write_numbers(PlanNumbers("live", {"pulse": {"ask": 4, "nudge": 2}}))
    comment = github.add_comment(f"{write_marker('live')}\n{line}\n### Campaign plan\n")
    desk.plan(**merge.job)
    done = desk.approve("--merge", **merge.job)
    assert "`nudge` may reach 4 more, and the comment on #7 said 2" in done.stderr
    assert done.returncode == 5
    comment["body"] = comment["body"].replace('"nudge":2', '"nudge":4')
    assert desk.approve("--merge", **merge.job).returncode == 0


def test_of_several_comments_each_has_to_have_said_enough(merge: Merge) -> None:
    """A further one, with larger numbers or without the campaign, takes nothing back of what the first said."""
    merge.github.add_review(7, "bo")
    merge.say(3)
    merge.say(1000)
    line = write_numbers(PlanNumbers("live", {"other": {"ask": 1000}}))
    merge.github.add_comment(f"{write_marker('live')}\n{line}\n")
    merge.desk.plan(**merge.job)
    done = merge.desk.approve("--merge", **merge.job)
    assert done.returncode == 5, done.stdout
    assert "`ask` may reach 4 more, and the comment on #7 said 3" in done.stderr


def read_approvers(folder: Path) -> str:
    """Return the approvers that the last commit names, as git finds them."""
    return git(folder, "log", "-1", "--format=%(trailers:key=Approved-By,valueonly,separator=%x2C)").strip()


@pytest.mark.slow
def test_the_log_of_the_repository_says_who_approved(merge: Merge) -> None:
    """Each commit of the record names those by whose approval its texts were sent, hours later as well."""
    desk, github = merge.desk, merge.github
    github.add_approval(42, "campaigns-approval", "bo")
    github.add_approval(42, "campaigns-approval", "cy")
    desk.plan(**merge.job)
    desk.approve("--quiet", **merge.job)
    done = desk.run("ci", "record", "--no-push")
    assert done.stdout.startswith("Committed: Record the approval of pulse on live ("), done.stderr
    assert git(desk.folder, "show", "--format=", "--name-only") == BOOK
    assert read_approvers(desk.folder) == "bo,cy"
    desk.plan("--limit", "1")
    assert desk.apply().returncode == 0
    assert desk.run("ci", "record", "--no-push").stdout.startswith(
        "Committed: Record 1 text of pulse on live ("
    )
    assert read_approvers(desk.folder) == "bo,cy"
    assert desk.plan()["approval"] == "covered"
    assert desk.apply().returncode == 0
    assert desk.run("ci", "record", "--no-push", "campaigns/pulse.yaml").returncode == 0
    assert read_approvers(desk.folder) == "bo,cy"


def test_a_forged_approval_names_nobody_in_the_log(desk: Desk) -> None:
    """What the key has not sealed is recorded as it is, and believed by nobody; nor without a key."""
    git(desk.folder, "init", "-q", "-b", "main")
    git(desk.folder, "add", "campaigns")
    git(desk.folder, "commit", "-qm", "Ask for a word")
    desk.plan()
    desk.approve()
    desk.apply()
    book = desk.folder / BOOK
    text = book.read_text(encoding="utf-8")
    book.write_text(text.replace('"ada"', '"mallory"'), encoding="utf-8")
    assert desk.run("ci", "record", "--no-push").returncode == 0
    assert read_approvers(desk.folder) == ""
    book.write_text(text, encoding="utf-8")
    done = desk.run("ci", "record", "--no-push", RUNNER_STATE_KEY="")
    assert done.stdout.startswith("Committed: Record decisions on live ("), done.stdout + done.stderr
    assert read_approvers(desk.folder) == ""


@pytest.mark.slow
def test_an_approval_on_the_ref_counts_where_no_file_has_it(desk: Desk, tmp_path: Path) -> None:
    """The machine that sends needs nothing but the state remote: approvals are part of its record."""
    git(desk.folder, "init", "-q", "-b", "main")
    git(desk.folder, "add", "campaigns")
    git(desk.folder, "commit", "-qm", "Ask for a word")
    git(tmp_path, "clone", "-q", "--bare", str(desk.folder), str(tmp_path / "remote.git"))
    git(desk.folder, "remote", "add", "origin", str(tmp_path / "remote.git"))
    leave_free_ref(desk.folder)
    desk.environment["RUNNER_STATE_REMOTE"] = "origin"
    desk.plan()
    desk.approve()
    assert desk.run("ci", "record").returncode == 0
    git(desk.folder, "reset", "-q", "--hard", "HEAD~1")
    assert not (desk.folder / BOOK).exists()
    assert desk.plan()["approval"] == "covered"
    sent = desk.apply()
    assert sent.returncode == 0, sent.stderr
