"""Campaigns in folders of a repository that has more in it: the workflows that `runner init` places."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cli.inside import run_inside
from tests.forge.github_server import HEAD, running_github
from tests.gitops.actions import is_triggered, run_workflow
from tests.gitops.forge import Event, Forge
from tests.gitops.team import REQUIREMENT

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDERS = ("teams/x", "teams/für uns", "texts")


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone whose repository has a workflow of its own, and three folders of campaigns."""
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\n\tname = Ada\n\temail = ada@example.com\n", encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", "remote.git")
    git(tmp_path / "remote.git", "config", "uploadpack.allowAnySHA1InWant", "true")
    git(tmp_path, "clone", "--quiet", "remote.git", "clone")
    clone = tmp_path / "clone"
    git(clone, "checkout", "--quiet", "-B", "main")
    (clone / ".github/workflows").mkdir(parents=True)
    (clone / ".github/workflows/ci.yml").write_text("on: push\n", encoding="utf-8")
    for folder in FOLDERS:
        done = run_inside("init", folder, "--requirement", REQUIREMENT, cwd=clone)
        assert done.returncode == 0, done.stderr
    commit(clone)
    return clone


def commit(clone: Path) -> str:
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "-m", "Start")
    git(clone, "push", "--quiet", "origin", "HEAD:main")
    return git(clone, "rev-parse", "HEAD")


def find_workflow(clone: Path, kind: str, folder: str) -> Path:
    ending = folder.replace("/", "--").replace("für uns", "f_r_uns-*")
    (found,) = (clone / ".github/workflows").glob(f"campaigns-{kind}-{ending}.yml")
    return found


def read(file: Path) -> dict[Any, Any]:
    workflow: dict[Any, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return workflow


@pytest.mark.slow
def test_placed_workflows_are_as_good_as_those_of_the_top(repository: Path) -> None:
    """By GitHub's schema and by those who look for holes; and no two have a file, a name or turns in common."""
    files = sorted((repository / ".github/workflows").glob("campaigns-*.yml"))
    assert len(files) == 2 * len(FOLDERS)
    for command in (
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"],
        [str(Path(sys.executable).parent / "zizmor"), "--offline", "--persona=pedantic", "--no-progress"],
    ):
        done = subprocess.run([*command, *map(str, files)], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert len({read(file)["name"] for file in files}) == len(files)
    groups = [
        group["group"]
        for file in files
        for part in (read(file), *read(file)["jobs"].values())
        if isinstance(group := part.get("concurrency"), dict)
    ]
    # A pause of one folder may wait for that of another.
    own = [group for group in groups if group.removeprefix("campaigns").startswith("-")]
    assert own
    assert len(set(own)) == len(own)


@pytest.mark.parametrize("folder", FOLDERS)
def test_jobs_work_in_their_folder_once_it_is_checked_out(repository: Path, folder: str) -> None:
    """A job without the repository has no such folder to start in."""
    seen = set()
    for kind in ("review", "send"):
        for job in read(find_workflow(repository, kind, folder))["jobs"].values():
            has_it = any("checkout" in step.get("uses", "") for step in job["steps"])
            seen.add(has_it)
            assert job.get("defaults") == ({"run": {"working-directory": folder}} if has_it else None)
    assert seen == {True, False}
    review = read(find_workflow(repository, "review", folder))
    assert review["name"] == f"Campaigns review ({folder})"
    # The check that a rule asks for by its name.
    assert [job["name"] for job in review["jobs"].values()] == [f"Review ({folder})"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "started"),
    [
        (lambda folder, _: f"{folder}/campaigns/coffee.yaml", True),
        (lambda folder, _: f"{folder}/campaigns/audience/guests.csv", True),
        (lambda folder, _: f"{folder}/campaigns/coffee.live.lock.json", False),
        (lambda _, file: f".github/workflows/{file}", True),
        (lambda _folder, _file: ".github/requirements.txt", True),
        (lambda _folder, _file: ".github/requirements.lock", True),
        (lambda _folder, _file: "campaigns/coffee.yaml", False),
        (lambda _folder, _file: "other/campaigns/coffee.yaml", False),
        (lambda _folder, _file: ".github/workflows/campaigns-send.yml", False),
    ],
)
def test_a_push_starts_what_it_is_about(
    repository: Path, path: Callable[[str, str], str], *, started: bool
) -> None:
    """What changes in a folder sends its campaigns, and nobody else's."""
    for folder in FOLDERS:
        file = find_workflow(repository, "send", folder)
        event = Event("push", "refs/heads/main", "0" * 40, (path(folder, file.name),))
        assert is_triggered(read(file), event) is started


@pytest.mark.slow
def test_a_pull_request_has_a_comment_for_each_folder(repository: Path, tmp_path: Path) -> None:
    """Problems stand at their files, as the repository's top sees them; no folder's comment replaces another's."""
    (repository / "teams/für uns/campaigns/first-order.yaml").write_text("version: 1\n", encoding="utf-8")
    sha = commit(repository)
    git(repository, "push", "--quiet", "origin", "HEAD:refs/pull/7/merge")
    (tmp_path / "machines").mkdir()
    with running_github() as github:
        environment = {"GITHUB_API_URL": github.url, "GIT_CONFIG_NOSYSTEM": "1"}
        forge = Forge(tmp_path / "remote.git", tmp_path / "machines", environment=environment)
        names = {"full_name": github.repository}
        request = {"number": 7, "head": {"sha": HEAD, "repo": names}, "base": {"repo": names}}
        event = Event("pull_request", "refs/pull/7/merge", sha, payload={"pull_request": request})
        results = {}
        for folder in FOLDERS:
            jobs = run_workflow(find_workflow(repository, "review", folder), event, forge)
            assert jobs is not None
            results[folder] = jobs["review"]
    assert {folder: job.result for folder, job in results.items()} == {
        "teams/x": "success",
        "teams/für uns": "failure",
        "texts": "success",
    }
    assert "::error file=teams/für uns/campaigns/first-order.yaml," in results["teams/für uns"].log("Review")
    bodies = github.bodies()
    assert len(bodies) == len(FOLDERS)
    assert len({body.partition("\n")[0] for body in bodies}) == len(FOLDERS)


@pytest.mark.slow
def test_each_folder_says_itself_where_it_sends(repository: Path, tmp_path: Path) -> None:
    """The target of one is none of another."""
    done = run_inside("init", "--base-url", "https://sms.example.com", cwd=repository / "texts")
    assert done.stdout.startswith("Wrote 1 file to ..:\n  texts/campaigns/targets.yaml\n")
    sha = commit(repository)
    (tmp_path / "machines").mkdir()
    forge = Forge(tmp_path / "remote.git", tmp_path / "machines", environment={"GIT_CONFIG_NOSYSTEM": "1"})
    for folder in FOLDERS:
        event = Event("schedule", "refs/heads/main", sha)
        jobs = run_workflow(find_workflow(repository, "send", folder), event, forge)
        assert jobs is not None
        # Where there is one, its credentials are missed: this forge has no secrets.
        assert jobs["plan"].result == ("failure" if folder == "texts" else "success"), jobs["plan"].show()
        assert ("::notice title=Nothing is sent::" in jobs["plan"].log("Plan")) == (folder != "texts")


def test_a_name_is_taken_in_all_folders(repository: Path) -> None:
    """Their record is shared: of two campaigns of one name, the second one's people would count as texted."""
    for folder in FOLDERS:
        done = run_inside("validate", cwd=repository / folder)
        assert done.stdout == "Valid: 1 campaign, 0 errors, 0 warnings.\n"
    text = "version: 1\nname: spring\nrecipients: [{phone: '+14155550101'}]\nmessages: [{id: a, text: Hi}]\n"
    (repository / "teams/x/campaigns/spring.yaml").write_text(text, encoding="utf-8")
    assert run_inside("validate", cwd=repository / "texts").returncode == 0
    (repository / "texts/campaigns/may.yaml").write_text(text, encoding="utf-8")
    other = repository / "teams/x/campaigns/spring.yaml"
    done = run_inside("validate", cwd=repository / "texts")
    assert done.returncode == 1
    assert done.stdout == (
        f"campaigns/may.yaml:2:7: error: the name or record 'spring' is claimed by {other}, too [campaign-name-repeated]\n"
        "  | name: spring\n  |       ^\n"
        "    deliveries are known by the campaign's name: let one campaign alone have it, as name or in renamed_from\n"
        "Invalid: 2 campaigns, 1 error, 0 warnings.\n"
    )
    planned = run_inside("plan", "texts/campaigns", cwd=repository)
    assert planned.returncode == 3
    assert (
        "texts/campaigns/may.yaml: the name or record 'spring' is claimed by teams/x/campaigns/spring.yaml, too"
    ) in planned.stderr
    applied = run_inside("apply", "--auto-approve", cwd=repository / "texts")
    assert applied.returncode == 3
    assert not list(repository.rglob("may.*.lock.json"))
