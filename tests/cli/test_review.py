"""What a pull request's job says, from the one commit that a job has: the merge of the request into main."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from runner.github.job import find_git_settings
from runner.github.pull_requests import read_numbers
from tests.forge.github_server import HEAD, GitHub
from tests.keys import STATE_KEY
from tests.repository.free_ref import leave_free_ref

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

TARGETS = """\
version: 1
targets:
  live: {base_url: "https://sms.example.com", limits: {rate: 5/s}}
"""
LOCKFILE = "campaigns/pulse.live.lock.json"
LIVE = {"RUNNER_TARGET": "live"}
CREDENTIALS = {"RUNNER_USERNAME": "u", "RUNNER_API_KEY": "k"}
GOES = (
    "Goes to https:&#8203;//sms.example.com, with the credentials in RUNNER\\_USERNAME and "
    "RUNNER\\_API\\_KEY.\n"
)


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture(autouse=True)
def isolated_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but the test's own reach git, and no CI that the tests themselves run in."""
    home = tmp_path / "gitconfig"
    home.write_text("[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for variable in ("GITHUB_ACTIONS", "GITHUB_BASE_REF", "GITHUB_REF", "GITHUB_SHA", "CI_COMMIT_BRANCH"):
        monkeypatch.delenv(variable, raising=False)


class Repository:
    """A bare repository, the clone of who opens pull requests, and the checkouts of jobs.

    Args:
        folder: where they are.
        github: has the pull request.
    """

    def __init__(self, folder: Path, github: GitHub) -> None:
        self.remote = folder / "remote.git"
        self.work = folder / "work"
        self._github = github
        self._jobs = 0
        git(folder, "init", "--quiet", "--bare", "-b", "main", str(self.remote))

    def push(self, branch: str = "main") -> None:
        """Commit all that is in the clone's folder, and push it to a branch."""
        git(self.work, "add", "--all")
        git(self.work, "commit", "--quiet", "--allow-empty", "-m", "Change something")
        git(self.work, "push", "--quiet", "origin", f"HEAD:{branch}")

    def check_out(self, *, depth: str | None = "1") -> tuple[Path, dict[str, str]]:
        """Push the clone's folder as a pull request; return a job's checkout of its merge, and its environment."""
        git(self.work, "fetch", "--quiet", "origin", "main")
        git(self.work, "checkout", "--quiet", "-B", "change")
        self.push("change")
        git(self.work, "checkout", "--quiet", "--detach", "origin/main")
        git(self.work, "merge", "--quiet", "--no-ff", "-m", "Merge", "change")
        git(self.work, "push", "--quiet", "--force", "origin", "HEAD:refs/pull/7/merge")
        self._jobs += 1
        job = self.work.with_name(f"job{self._jobs}")
        git(self.work.parent, "init", "--quiet", str(job))
        git(job, "remote", "add", "origin", f"file://{self.remote}")
        depths = [f"--depth={depth}"] if depth else []
        git(
            job,
            "fetch",
            "--quiet",
            "--no-tags",
            *depths,
            "origin",
            "+refs/pull/7/merge:refs/remotes/pull/7/merge",
        )
        git(job, "checkout", "--quiet", "refs/remotes/pull/7/merge")
        environment = self._github.job(
            self.work.parent,
            GITHUB_BASE_REF="main",
            GITHUB_HEAD_REF="change",
            GITHUB_REF="refs/pull/7/merge",
            GITHUB_SHA=git(job, "rev-parse", "HEAD"),
        )
        return job, environment


@pytest.fixture
def repository(folder: Path, github: GitHub, tmp_path: Path) -> Repository:
    """A repository of one campaign and one target, nothing of which was sent."""
    repository = Repository(tmp_path, github)
    git(tmp_path, "clone", "--quiet", f"file://{repository.remote}", str(repository.work))
    shutil.move(folder / "campaigns", repository.work / "campaigns")
    (repository.work / "campaigns/targets.yaml").write_text(TARGETS, encoding="utf-8")
    (repository.work / ".gitignore").write_text(".runner/\n", encoding="utf-8")
    repository.push()
    return repository


@pytest.fixture
def send(run: Run, repository: Repository, serve: Callable[..., Any]) -> Callable[..., None]:
    """Send the campaigns for real from the clone's folder, to a service that every call shares."""

    def apply(*options: str) -> None:
        with serve(repository.work.parent, "--db", "service.sqlite") as environment:
            # targets.yaml names an address that there is not: the environment's goes before it.
            env = {**environment, **LIVE, "RUNNER_SETTLE_WINDOW": "0.1s"}
            done = run("apply", "--auto-approve", *options, cwd=repository.work, env=env)
            assert done.returncode == 0, done.stderr

    return apply


def comment(
    run: Run, repository: Repository, github: GitHub, *options: str, code: int = 0, **given: str | None
) -> str:
    """Run `runner ci comment` in a pull request's job, and return the comment without its hidden lines."""
    job, environment = repository.check_out(**given)
    done = run("ci", "comment", *options, cwd=job, env={**environment, **LIVE})
    assert done.returncode == code, done.stderr
    lines = github.bodies()[-1].split("\n")
    assert lines[0] == "<!-- sms-campaign-runner target=live -->"
    assert git(job, "status", "--porcelain") == ""
    return "\n".join(line for line in lines[1:] if not line.startswith("<!-- runner-numbers "))


def test_a_request_that_changes_nothing(run: Run, repository: Repository, github: GitHub) -> None:
    """Address, that targets and records stay as they are, and counts, in this order."""
    (repository.work / "README.md").write_text("Campaigns\n", encoding="utf-8")
    assert comment(run, repository, github).startswith(
        f"### Campaign plan → live\n\n{GOES}\nTargets and records stay as they are.\n\n"
        "**1 campaign · 4 people to text · 8 to 16 segments · 0 errors**\n\n"
    )


def test_a_request_that_edits_targets(run: Run, repository: Repository, github: GitHub) -> None:
    """Every setting that differs, above the counts: what it was, and what it is now."""
    text = f'{TARGETS}  old: {{base_url: "https://old.example.com"}}\n'
    (repository.work / "campaigns/targets.yaml").write_text(text, encoding="utf-8")
    repository.push()
    (repository.work / "campaigns/targets.yaml").write_text(
        "version: 1\ndefault: live\ntargets:\n"
        '  live: {base_url: "http://sms.example.net", insecure: true, username_env: RUNNER_EU_USERNAME,\n'
        "    limits: {rate: 50/s, concurrency: 8}}\n"
        '  test: {base_url: "https://test.example.com"}\n',
        encoding="utf-8",
    )
    assert comment(run, repository, github).startswith(
        "### Campaign plan → live\n\n"
        "**Goes to http:&#8203;//sms.example.net, UNENCRYPTED: anybody on the way can read phone numbers, texts "
        "and credentials (\\`insecure: true\\`), with the credentials in RUNNER\\_EU\\_USERNAME and "
        "RUNNER\\_API\\_KEY.**\n\n"
        "#### Look here: this pull request changes where texts go, or how (targets.yaml is changed)\n\n"
        "- campaigns/targets.yaml: **default**: not set → **live**\n"
        "- campaigns/targets.yaml: **live.base\\_url**: **https:&#8203;//sms.example.com** → "
        "**http:&#8203;//sms.example.net**\n"
        "- campaigns/targets.yaml: **live.insecure**: not set → **true**\n"
        "- campaigns/targets.yaml: **live.limits.concurrency**: not set → **8**\n"
        "- campaigns/targets.yaml: **live.limits.rate**: **5/s** → **50/s**\n"
        "- campaigns/targets.yaml: **live.username\\_env**: not set → **RUNNER\\_EU\\_USERNAME**\n"
        "- campaigns/targets.yaml: **old.base\\_url**: **https:&#8203;//old.example.com** → not set\n"
        "- campaigns/targets.yaml: **test.base\\_url**: not set → **https:&#8203;//test.example.com**\n\n"
        "Records stay as they are.\n\n**1 campaign · "
    )


def test_a_request_that_edits_rules(run: Run, repository: Repository, github: GitHub) -> None:
    """Defaults and bounds come first, former ones before new ones; a target of that name is no rule."""
    rules = "require: {rollout_above: 1000, renders: 90000}\ndefaults: {limits: {renders: 80000}}\n"
    (repository.work / "campaigns/targets.yaml").write_text(f"{TARGETS}{rules}", encoding="utf-8")
    repository.push()
    rules = "require: {landlines: warn, renders: 95000}\ndefaults: {limits: {renders: 95000}}\n"
    target = '  require: {base_url: "https://other.example.com"}\n'
    (repository.work / "campaigns/targets.yaml").write_text(f"{TARGETS}{target}{rules}", encoding="utf-8")
    shown = comment(run, repository, github)
    assert shown.startswith(
        f"### Campaign plan → live\n\n{GOES}\n"
        "#### Look here: this pull request changes the rules of all campaigns (`defaults` and `require` in "
        "targets.yaml)\n\n"
        "- campaigns/targets.yaml: **defaults.limits.renders**: **80000** → **95000**\n"
        "- campaigns/targets.yaml: **require.renders**: **90000** → **95000**\n"
        "- campaigns/targets.yaml: **require.rollout\\_above**: **1000** → not set\n"
        "- campaigns/targets.yaml: **require.landlines**: not set → **warn**\n\n"
        "#### Look here: this pull request changes where texts go, or how (targets.yaml is changed)\n\n"
        "- campaigns/targets.yaml: **require.base\\_url**: not set → **https:&#8203;//other.example.com**\n\n"
    )
    taken = "Taken from \\`defaults\\` in campaigns/targets.yaml by pulse: \\`limits.renders: 95000\\`."
    assert f"· 0 errors**\n\n{taken}\n" in shown


def test_nothing_of_invalid_targets_is_shown(run: Run, repository: Repository, github: GitHub) -> None:
    """A version that is no such file may hold a credential: it is said that it is changed, and no more."""
    secret = f"{TARGETS.rstrip()[:-1]}, api_key: hunter2secret}}\n"
    (repository.work / "campaigns/targets.yaml").write_text(secret, encoding="utf-8")
    job, environment = repository.check_out()
    assert run("ci", "comment", cwd=job, env={**environment, **LIVE}).returncode == 1
    (body,) = github.bodies()
    assert (
        "### Invalid campaigns → live\n\n"
        "#### Look here: this pull request changes where texts go, or how (targets.yaml is changed)\n\n"
        "- campaigns/targets.yaml: the new version cannot be read as one: what it changes is **not known**\n"
    ) in body
    assert "hunter2secret" not in body


@pytest.mark.slow
def test_what_is_on_record_of_a_moved_campaign_counts(
    run: Run, repository: Repository, github: GitHub, send: Callable[..., None]
) -> None:
    """A file that was moved, or is called otherwise, without its lockfile: nobody looks new."""
    send()
    repository.push()
    (repository.work / "campaigns/winter").mkdir()
    git(repository.work, "mv", "campaigns/pulse.yaml", "campaigns/winter/december.yaml")
    git(repository.work, "mv", "campaigns/audience", "campaigns/winter/audience")
    body = comment(run, repository, github)
    assert "**1 campaign · 0 people to text · 0 segments · 0 errors**\n" in body


@pytest.mark.slow
def test_a_moved_campaign_goes_on_from_its_record(
    run: Run, repository: Repository, send: Callable[..., None]
) -> None:
    """On a machine without a ledger nobody is texted again, and the lockfile in the new place has it all."""
    send("--limit", "3")
    shutil.rmtree(repository.work / ".runner")
    (repository.work / "pulses").mkdir()
    git(repository.work, "mv", "campaigns/pulse.yaml", "pulses/pulse.yaml")
    git(repository.work, "mv", "campaigns/audience", "pulses/audience")
    with_target = {**LIVE, "RUNNER_USERNAME": "u", "RUNNER_API_KEY": "k"}
    plan = run("plan", "pulses", "--format", "json", cwd=repository.work, env=with_target)
    (message,) = json.loads(plan.stdout)["campaigns"][0]["messages"]
    assert (message["already_sent"], message["to_send"]) == (3, 1)
    before = json.loads((repository.work / LOCKFILE).read_text(encoding="utf-8"))
    send("pulses")
    after = json.loads((repository.work / "pulses/pulse.live.lock.json").read_text(encoding="utf-8"))
    assert len(after["launches"]) == 4
    assert [launch for launch in before["launches"] if launch not in after["launches"]] == []


@pytest.mark.slow
def test_two_campaigns_of_a_name_are_not_taken_for_one(
    run: Run, repository: Repository, send: Callable[..., None]
) -> None:
    """Where two projects of a repository call a campaign alike, whose record a target has is for a person to say."""
    send()
    shutil.copytree(repository.work / "campaigns", repository.work / "other/campaigns")
    (repository.work / "other" / LOCKFILE).unlink()
    env = LIVE | {"RUNNER_USERNAME": "u", "RUNNER_API_KEY": "k", "RUNNER_BASE_URL": "http://127.0.0.1:9"}
    own = run("plan", "campaigns", "--format", "json", cwd=repository.work, env=env)
    assert json.loads(own.stdout)["campaigns"][0]["messages"][0]["already_sent"] == 4
    other = repository.work / "other/campaigns/pulse.yaml"
    done = run("plan", other, cwd=repository.work, env=env)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: campaigns/pulse.live.lock.json is the record of campaigns/pulse.yaml, which is called 'pulse', too\n"
        "  on a target, a name has one record: name one of the two otherwise, or have them on two targets\n"
    )
    # The remedy.
    text = other.read_text(encoding="utf-8")
    other.write_text(re.sub(r"(?m)^name: pulse$", "name: pulse-2", text), encoding="utf-8")
    done = run("plan", other, "--format", "json", cwd=repository.work, env=env)
    assert json.loads(done.stdout)["campaigns"][0]["messages"][0]["already_sent"] == 0


def send_from_elsewhere(repository: Repository, send: Callable[..., None]) -> None:
    """Send from a machine whose record is on the state remote, and on no branch."""
    leave_free_ref(repository.work)
    send("--state-remote", "origin")
    (repository.work / LOCKFILE).unlink()


@pytest.mark.slow
def test_what_is_on_the_state_remote_counts(
    run: Run, repository: Repository, github: GitHub, send: Callable[..., None]
) -> None:
    """Main takes no push: two people more are two to send, and no file changes; also for `runner plan`."""
    send_from_elsewhere(repository, send)
    people = repository.work / "campaigns/audience/people.csv"
    with people.open("a", encoding="utf-8") as stream:
        stream.write("Fay,4155550106\nGil,4155550107\n")
    body = comment(run, repository, github)
    assert body.startswith(
        f"### Campaign plan → live\n\n{GOES}\nTargets and records stay as they are.\n\n"
        "**1 campaign · 2 people to text · 4 to 8 segments · 0 errors**\n"
    )
    numbers = read_numbers(github.bodies()[0])
    assert numbers is not None
    assert numbers.campaigns == {"pulse": {"ask": 2}}
    job, environment = repository.check_out()
    env = {**environment, **LIVE, "RUNNER_USERNAME": "u", "RUNNER_API_KEY": "k"}
    for count, is_there in ((2, True), (6, False)):
        if not is_there:
            shutil.rmtree(repository.remote)
        done = run("plan", "--format", "json", cwd=job, env=env)
        assert json.loads(done.stdout)["campaigns"][0]["messages"][0]["to_send"] == count
        warned = (
            "Warning: what other machines recorded may be missing: the git remote origin cannot be used: "
        )
        assert (warned in done.stderr) != is_there


@pytest.mark.slow
def test_a_record_that_nobody_signed_is_not_believed(
    run: Run, repository: Repository, send: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a state key, who may push refs cannot have people counted as texted by a lockfile of their own."""
    send_from_elsewhere(repository, send)
    job, environment = repository.check_out()
    monkeypatch.setenv("RUNNER_STATE_KEY", STATE_KEY)
    env = {**environment, **LIVE, "RUNNER_USERNAME": "u", "RUNNER_API_KEY": "k"}
    done = run("plan", cwd=job, env=env)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "Error: the lockfile origin:refs/runner/live/pulse.lock.json was written without a RUNNER_STATE_KEY, "
        "and now there is one\n"
    )


@pytest.mark.slow
def test_without_the_state_key_those_on_record_are_taken_off_by_their_number(
    run: Run,
    repository: Repository,
    github: GitHub,
    send: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pull request's job does not know who was texted, but how many."""
    with monkeypatch.context() as keyed:
        keyed.setenv("RUNNER_STATE_KEY", STATE_KEY)
        send()
        added = run("optouts", "add", "+14155550199", cwd=repository.work, env={**LIVE, **CREDENTIALS})
        assert added.returncode == 0, added.stderr
    repository.push()
    with (repository.work / "campaigns/audience/people.csv").open("a", encoding="utf-8") as stream:
        stream.write("Fay,4155550106\nGil,4155550107\n")
    said = comment(run, repository, github)
    assert said.split("\n\n")[3:6] == [
        "**1 campaign · 2 texts to send · 0 errors**",
        (
            "The jobs of pull requests don't have the state key. So it is known here how many people were texted, and "
            "not who of them is among these, or who has opted out: the plan after the merge says it."
        ),
        (
            "| campaign | message | people | texted already | texts to send, now or later |\n|---|--:|--:|--:|--:|\n"
            "| pulse | ask | 7 | 4 | 2 |"
        ),
    ]
    # Least is not known: who has it already is not.
    assert (
        "<details><summary>pulse: what comes, at most</summary>\n\n"
        "| when | message | why | people | segments |\n|---|---|---|---|---|\n"
        "| now | ask |  | 6 | 24 |\n"
    ) in said
    assert "\nHi ‹first_name›, a word about Acme?\n" in said
    assert github.bodies()[0].split("\n")[2] == "### Campaign plan → live"
    numbers = read_numbers(github.bodies()[0])
    assert numbers is not None
    assert numbers.campaigns == {"pulse": {"ask": 2}}


def test_a_remote_that_is_gone_is_said(run: Run, repository: Repository, github: GitHub) -> None:
    """Neither the base nor the record can be read: the comment says what is not known, and plans."""
    job, environment = repository.check_out()
    shutil.rmtree(repository.remote)
    assert run("ci", "comment", cwd=job, env={**environment, **LIVE}).returncode == 0
    (body,) = github.bodies()
    found = re.search(re.escape(GOES) + r"\n(> .*)\n\n(> .*)\n\n\*\*1 campaign · 4 people to text", body)
    assert found is not None
    assert found[1].startswith(
        "> **Not known: what this pull request changes of targets and records.** "
        "\\`git fetch\\` failed: fatal: "
    )
    assert found[2].startswith(
        "> **Not known: what the state remote has. People that only it tells of count as not texted yet.** "
        "The git remote origin cannot be used: "
    )


@pytest.mark.slow
def test_a_request_that_edits_records_is_seen(
    run: Run, repository: Repository, github: GitHub, send: Callable[..., None]
) -> None:
    """Launches that are taken away or put in, and every other file that commands alone write, are named."""
    send()
    repository.push()
    file = repository.work / LOCKFILE
    lines = file.read_text(encoding="utf-8").split("\n")
    kept = [line for line in lines if '"project_launch_guid"' not in line or lines.index(line) % 2]
    text = re.sub(r",(\s*\])", r"\1", "\n".join(kept))
    lost = sum('"project_launch_guid"' in line for line in lines) - text.count('"project_launch_guid"')
    file.write_text(text, encoding="utf-8")
    assert run("pause", "pulse", cwd=repository.work, env=LIVE).returncode == 0
    assert (
        f"{GOES}\n#### Look here: this pull request changes records, which jobs write and people don't (with "
        "another record other people are texted, or nobody)\n\n"
        "- campaigns/live.suppressions.json: new\n"
        f"- campaigns/pulse.live.lock.json: changed, with 0 texts more and **{lost} texts less**\n\n"
        "Targets stay as they are.\n" in comment(run, repository, github)
    )
    assert lost == 2
    file.write_text("{", encoding="utf-8")
    job, environment = repository.check_out()
    run("ci", "comment", cwd=job, env={**environment, **LIVE})
    assert (
        "- campaigns/pulse.live.lock.json: changed, and it **cannot be read**: who got texts by it is not known\n"
    ) in github.bodies()[0]


def test_files_of_a_request_have_no_power_over_the_comment(
    run: Run, repository: Repository, github: GitHub
) -> None:
    """Names of files and targets are shown as they are, phones in them masked; many are counted."""
    for number in range(25):
        (repository.work / f"campaigns/@ada-{number} <img> +14155550123.live.lock.json").write_text("")
    # Whose records they are is not known, so nothing can be planned.
    body = comment(run, repository, github, code=1)
    assert "- campaigns/@&#8203;ada-0 &lt;img&gt; +14•••••••23.live.lock.json: new, and it **cannot" in body
    assert body.count("**cannot be read**") == 20
    assert "\n- … and 5 more changes of this kind\n" in body
    assert "<img>" not in body


def test_a_checkout_of_the_branch_is_compared_with_where_it_left_main(
    run: Run, repository: Repository, github: GitHub
) -> None:
    """What others have changed on main since is not the pull request's; with the history cut off it is not known."""
    git(repository.work, "checkout", "--quiet", "-B", "change")
    (repository.work / "README.md").write_text("Campaigns\n", encoding="utf-8")
    repository.push("change")
    git(repository.work, "checkout", "--quiet", "--detach", "origin/main")
    faster = TARGETS.replace("5/s", "9/s")
    (repository.work / "campaigns/targets.yaml").write_text(faster, encoding="utf-8")
    repository.push()
    cut_off = (
        "The commit where this one left main is not in this clone (check out what actions/checkout does by "
        "default, or the history with \\`fetch-depth: 0\\`).\n"
    )
    for depth, said in (((), "Targets and records stay as they are.\n"), (("--depth=1",), cut_off)):
        job = repository.work.with_name(f"branch{len(depth)}")
        git(
            repository.work.parent,
            "clone",
            "--quiet",
            *depth,
            "-b",
            "change",
            f"file://{repository.remote}",
            str(job),
        )
        env = github.job(repository.work.parent, GITHUB_BASE_REF="main", GITHUB_REF="refs/heads/change")
        assert run("ci", "comment", cwd=job, env={**env, **LIVE}).returncode == 0
        assert said in github.bodies()[0]


def test_a_private_repository_is_read_with_the_jobs_token(repository: Repository, github: GitHub) -> None:
    """Git gets the token for the job's own server from the environment, and for no other one."""
    environment = github.job(repository.work.parent)
    settings = {**environment, **find_git_settings(environment)}
    asked = {}
    for host in ("github.example", "github.example.net"):
        answer = subprocess.run(
            ["git", "credential", "fill"],
            cwd=repository.work,
            env={
                **settings,
                "PATH": "/usr/bin:/bin",
                "GIT_TERMINAL_PROMPT": "0",
                "GIT_ASKPASS": "/bin/false",
            },
            input=f"protocol=https\nhost={host}\n\n",
            capture_output=True,
            text=True,
            check=False,
        )
        asked[host] = answer.stdout
    assert f"password={environment['GITHUB_TOKEN']}\n" in asked["github.example"]
    assert asked["github.example.net"] == ""
    assert environment["GITHUB_TOKEN"] not in "".join(find_git_settings(environment).values())
    assert find_git_settings({**environment, "GIT_CONFIG_COUNT": "1"}) == {}
    assert find_git_settings({**environment, "GITHUB_SERVER_URL": "http://github.example"}) == {}
    assert HEAD not in asked["github.example"]
