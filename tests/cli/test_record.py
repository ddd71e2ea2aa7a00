"""`runner ci record`: lockfiles get into the repository, whatever the clone and the remote look like."""

from __future__ import annotations

import shutil
import subprocess
import time
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.git.lease import Clocks, LeasePatience, hold_lease
from runner.git.state_ref import STATE_FILE, Holder, State, StateRef
from runner.ledger.files.lockfile import LockfileContents, parse_lockfile, save_lockfile
from runner.ledger.files.suppressions import PauseLine, seal_book
from runner.ledger.fingerprint import TargetKey, launch_key
from runner.ledger.model import LaunchRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

KEY = TargetKey.of("live", None)
LOCKFILE = "campaigns/coffee.live.lock.json"
AT = "2026-12-01T10:00:00.000000Z"


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def make_launch(number: int, people: int = 2, message: str = "taste", name: str = "coffee") -> LaunchRecord:
    fingerprints = (blake2b(f"{number} {one}".encode(), digest_size=10).hexdigest() for one in range(people))
    recipients = tuple(sorted(fingerprints))
    return LaunchRecord(
        message=message,
        key=launch_key(name, message, "0" * 32, recipients),
        tag="coffee",
        payload_digest="0" * 32,
        project_launch_guid=f"00000000-0000-4000-8000-{number:012}",
        sent_at="2026-12-01T10:00:00Z",
        recipients=recipients,
    )


def write(folder: Path, *numbers: int, name: str = "coffee", key: TargetKey = KEY) -> Path:
    """Write a lockfile with these launches, two recipients each."""
    file = folder / f"campaigns/{name}.live.lock.json"
    launches = (make_launch(number, name=name) for number in numbers)
    ordered = sorted(launches, key=lambda launch: launch.key)
    save_lockfile(file, LockfileContents(name, key, ordered))
    return file


def list_guids(text: str) -> set[int]:
    """Return the numbers of the launches that a lockfile has; it must be whole, and JSON."""
    lockfile, is_merged = parse_lockfile(Path(LOCKFILE), text, KEY)
    assert not is_merged
    return {int(launch.project_launch_guid[-12:]) for launch in lockfile.launches}


def list_launches(folder: Path, revision: str = "HEAD") -> set[int]:
    """Return the numbers of the launches that a revision's lockfile has."""
    return list_guids(git(folder, "show", f"{revision}:{LOCKFILE}") + "\n")


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A bare repository whose main has one campaign."""
    bare = tmp_path / "remote.git"
    git(tmp_path, "init", "--quiet", "--bare", "-b", "main", str(bare))
    seed = clone(bare, tmp_path / "seed")
    (seed / "campaigns").mkdir()
    (seed / "campaigns/coffee.yaml").write_text("version: 1\n", encoding="utf-8")
    (seed / ".gitignore").write_text("*.sandbox.lock.json\n", encoding="utf-8")
    git(seed, "add", ".")
    git(seed, "commit", "--quiet", "-m", "Ask how the coffee was")
    git(seed, "push", "--quiet", "origin", "HEAD:main")
    return bare


@pytest.fixture(autouse=True)
def isolated_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but the test's own reach git, and no CI that the tests themselves run in."""
    home = tmp_path / "gitconfig"
    home.write_text("[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for variable in (
        *("GITHUB_ACTIONS", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID", "GITHUB_ACTOR"),
        *("GITHUB_TRIGGERING_ACTOR", "GITHUB_REF_TYPE", "GITHUB_REF_NAME", "CI_COMMIT_BRANCH", "CI_JOB_URL"),
        *("GITLAB_USER_LOGIN", "GIT_COMMITTER_EMAIL"),
    ):
        monkeypatch.delenv(variable, raising=False)


def clone(remote: Path, folder: Path, *options: str) -> Path:
    git(remote.parent, "clone", "--quiet", *options, f"file://{remote}", str(folder))
    return folder


def protect(remote: Path, pattern: str) -> None:
    """Have a remote refuse pushes to some of its branches, as protection does."""
    hook = remote / "hooks/update"
    hook.write_text(f'#!/bin/sh\ncase "$1" in {pattern}) echo protected >&2; exit 1;; esac\n')
    hook.chmod(0o755)


def test_a_lockfile_is_committed_and_pushed(run: Run, remote: Path, tmp_path: Path) -> None:
    """The subject says how many texts of what were sent where."""
    here = clone(remote, tmp_path / "here")
    before = git(here, "rev-parse", "HEAD")
    write(here, 1, 2)
    environment = {
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "acme/campaigns",
        "GITHUB_RUN_ID": "42",
        "GITHUB_ACTOR": "ada",
    }
    done = run("ci", "record", cwd=here, env=environment)
    commit = git(here, "rev-parse", "HEAD")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Pushed to main of origin: Record 4 texts of coffee on live ({commit[:10]}).\n"
    assert git(here, "log", "-1", "--format=%B%an %ae", "origin/main") == (
        "Record 4 texts of coffee on live\n\n"
        f"Campaigns-Commit: {before}\n"
        "Run: https://github.com/acme/campaigns/actions/runs/42\n"
        "Triggered-By: ada\nAda ada@example.com"
    )
    assert git(here, "log", "-1", "--format=%(trailers:key=Triggered-By,valueonly)") == "ada"
    assert git(remote, "rev-parse", "main") == commit
    assert git(here, "status", "--porcelain") == ""


def test_recording_again_changes_nothing(run: Run, remote: Path, tmp_path: Path) -> None:
    """A second time there is nothing to say."""
    here = clone(remote, tmp_path / "here")
    write(here, 1)
    run("ci", "record", cwd=here)
    before = git(remote, "rev-parse", "main")
    done = run("ci", "record", cwd=here)
    assert (done.returncode, done.stdout) == (0, "Nothing to record: the lockfiles are unchanged.\n")
    assert git(remote, "rev-parse", "main") == before


def test_without_lockfiles_there_is_nothing_to_record(run: Run, remote: Path, tmp_path: Path) -> None:
    """The first run of a repository may not have sent anything; the sandbox's lockfile is none to keep."""
    here = clone(remote, tmp_path / "here")
    (here / "campaigns/coffee.sandbox.lock.json").write_text("{}\n")
    (here / "campaigns/drafts").mkdir()
    (here / "campaigns/drafts/tea.live.lock.json").write_text("{}\n")
    with (here / ".git/info/exclude").open("a", encoding="utf-8") as exclude:
        exclude.write("drafts/\n")
    done = run("ci", "record", cwd=here)
    assert (done.returncode, done.stdout) == (0, "Nothing to record: there is no lockfile.\n")


def test_other_changes_stay_out_and_as_they_are(run: Run, remote: Path, tmp_path: Path) -> None:
    """What is changed, staged or new beside the lockfile is neither committed nor touched."""
    here = clone(remote, tmp_path / "here")
    write(here, 1)
    (here / "campaigns/coffee.yaml").write_text("version: 1\nname: half-written\n")
    (here / "staged.txt").write_text("staged\n")
    git(here, "add", "staged.txt")
    (here / "new.txt").write_text("new\n")
    assert run("ci", "record", cwd=here).returncode == 0
    assert git(here, "show", "--format=", "--name-only", "origin/main") == LOCKFILE
    assert git(here, "status", "--porcelain").splitlines() == [
        "M campaigns/coffee.yaml",
        "A  staged.txt",
        "?? new.txt",
    ]


def test_a_branch_that_has_moved_on_is_followed(run: Run, remote: Path, tmp_path: Path) -> None:
    """Others' commits stay, ours comes after them, and the clone has both."""
    here, other = clone(remote, tmp_path / "here"), clone(remote, tmp_path / "other")
    (other / "campaigns/tea.yaml").write_text("version: 1\n")
    git(other, "add", ".")
    git(other, "commit", "--quiet", "-m", "Ask how the tea was")
    git(other, "push", "--quiet")
    write(here, 1)
    assert run("ci", "record", cwd=here).returncode == 0
    assert git(remote, "log", "--format=%s", "main").splitlines() == [
        "Record 2 texts of coffee on live",
        "Ask how the tea was",
        "Ask how the coffee was",
    ]
    assert (here / "campaigns/tea.yaml").is_file()
    assert git(here, "status", "--porcelain") == ""


def test_what_two_machines_sent_is_united(run: Run, remote: Path, tmp_path: Path) -> None:
    """Both went on from the same record: both sides count, in a file that is whole."""
    first = clone(remote, tmp_path / "first")
    write(first, 1)
    run("ci", "record", cwd=first)
    second = clone(remote, tmp_path / "second")
    write(first, 1, 2)
    run("ci", "record", cwd=first)
    write(second, 1, 3)
    done = run("ci", "record", cwd=second)
    assert "Record 2 texts of coffee on live" in done.stdout
    assert list_launches(remote, "main") == {1, 2, 3}
    assert list_launches(second) == {1, 2, 3}
    assert git(second, "status", "--porcelain") == ""


def test_a_stale_clone_does_not_put_the_record_back(run: Run, remote: Path, tmp_path: Path) -> None:
    """A re-run of an old commit has an old lockfile that it has not changed: the branch's is right."""
    stale = clone(remote, tmp_path / "stale")
    write(stale, 1)
    run("ci", "record", cwd=stale)
    other = clone(remote, tmp_path / "other")
    write(other, 1, 2)
    run("ci", "record", cwd=other)
    assert run("ci", "record", cwd=stale).stdout == "Nothing to record: the lockfiles are unchanged.\n"
    assert list_launches(remote, "main") == {1, 2}


def test_a_lockfile_of_an_older_commit_undoes_nothing(run: Run, remote: Path, tmp_path: Path) -> None:
    """What the checked out commit has on record stays, though an older file was put in its place."""
    here = clone(remote, tmp_path / "here")
    write(here, 1)
    run("ci", "record", cwd=here)
    write(here, 1, 2)
    run("ci", "record", cwd=here)
    git(here, "checkout", "HEAD~1", "--", LOCKFILE)
    assert run("ci", "record", cwd=here).stdout == "Nothing to record: the lockfiles are unchanged.\n"
    write(here, 1, 3)
    run("ci", "record", cwd=here)
    assert list_launches(remote, "main") == {1, 2, 3}


def test_a_file_that_is_no_text_is_an_error(run: Run, remote: Path, tmp_path: Path) -> None:
    """What cannot be read is named, and nothing is recorded."""
    here = clone(remote, tmp_path / "here")
    file = write(here, 1)
    file.write_bytes(b"\xff")
    done = run("ci", "record", cwd=here)
    assert done.returncode == 1
    assert done.stderr == f"Error: {file} is not UTF-8\n  restore it with git; nothing was recorded\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff", "{file} is not UTF-8"),
        (b"{", "the lockfile {file} is not JSON, or was edited by hand (line 1)"),
    ],
)
def test_a_lockfile_that_cannot_be_read_keeps_no_other_back(
    run: Run, remote: Path, tmp_path: Path, content: bytes, words: str
) -> None:
    """The lockfiles beside a broken one are recorded; it is named, stays as it is, and the exit code is 3."""
    here = clone(remote, tmp_path / "here")
    write(here, 1)
    broken = write(here, 2, name="tea")
    broken.write_bytes(content)
    for expected in ("Pushed to main of origin: Record 2 texts of coffee on live", "Nothing to record: "):
        done = run("ci", "record", cwd=here)
        assert done.returncode == 3
        assert done.stdout.startswith(expected)
        assert done.stderr.startswith(f"Left out: {words.format(file=broken)}\n")
        assert broken.read_bytes() == content
    git(here, "fetch")
    assert list_launches(here, "origin/main") == {1}


def test_what_git_has_merged_is_recorded_whole(run: Run, remote: Path, tmp_path: Path) -> None:
    """Markers of a conflict stay in the clone that has it, and are gone there, too."""
    here = clone(remote, tmp_path / "here")
    ours, theirs = (write(here, *numbers).read_text(encoding="utf-8") for numbers in ((1, 2), (1, 3)))
    sides = [side.splitlines()[1:-1] for side in (ours, theirs)]
    text = "\n".join(["{", "<<<<<<< a", *sides[0], "=======", *sides[1], ">>>>>>> b", "}", ""])
    (here / LOCKFILE).write_text(text, encoding="utf-8")
    run("ci", "record", cwd=here)
    assert list_launches(remote, "main") == {1, 2, 3}
    assert git(here, "status", "--porcelain") == ""


def test_what_the_remote_has_already_is_not_in_the_way(run: Run, remote: Path, tmp_path: Path) -> None:
    """A run that was killed behind its push, or another machine, has recorded it: `git pull` goes on."""
    here, there = clone(remote, tmp_path / "here"), clone(remote, tmp_path / "there")
    write(here, 1)
    run("ci", "record", cwd=here)
    write(here, 1, 2)
    write(there, 1, 2)
    run("ci", "record", cwd=here)
    assert run("ci", "record", cwd=there).stdout == "Nothing to record: the lockfiles are unchanged.\n"
    assert git(there, "status", "--porcelain") == ""
    assert git(there, "rev-parse", "HEAD") == git(remote, "rev-parse", "main")


def test_a_shallow_clone_on_a_detached_head_will_do(run: Run, remote: Path, tmp_path: Path) -> None:
    """That is what CI checks out: a commit without its history, and no branch."""
    other = clone(remote, tmp_path / "other")
    here = clone(remote, tmp_path / "here", "--depth", "1")
    git(here, "checkout", "--quiet", "--detach")
    (other / "campaigns/tea.yaml").write_text("version: 1\n")
    git(other, "add", ".")
    git(other, "commit", "--quiet", "-m", "Ask how the tea was")
    git(other, "push", "--quiet")
    write(here, 1)
    environment = {"GITHUB_REF_TYPE": "branch", "GITHUB_REF_NAME": "main"}
    assert run("ci", "record", cwd=here, env=environment).returncode == 0
    assert git(remote, "log", "-2", "--format=%s", "main").splitlines() == [
        "Record 2 texts of coffee on live",
        "Ask how the tea was",
    ]
    assert git(here, "status", "--porcelain") == ""
    assert git(here, "rev-parse", "HEAD") == git(remote, "rev-parse", "main")


def test_gitlab_names_its_branch_too(run: Run, remote: Path, tmp_path: Path) -> None:
    """GitLab checks out a detached HEAD, and says which branch it is of."""
    here = clone(remote, tmp_path / "here")
    git(here, "checkout", "--quiet", "--detach")
    write(here, 1)
    url = "https://gitlab.example/acme/texts/-/jobs/9"
    run(
        "ci",
        "record",
        cwd=here,
        env={"CI_COMMIT_BRANCH": "main", "CI_JOB_URL": url, "GITLAB_USER_LOGIN": "bob"},
    )
    assert git(remote, "log", "-1", "--format=%(trailers:key=Triggered-By,valueonly)", "main") == "bob"


def test_a_detached_head_needs_a_branch(run: Run, remote: Path, tmp_path: Path) -> None:
    """Nobody's branch is guessed."""
    here = clone(remote, tmp_path / "here")
    git(here, "checkout", "--quiet", "--detach")
    write(here, 1)
    done = run("ci", "record", cwd=here)
    assert done.returncode == 64
    assert done.stderr == (
        "Error: the work tree is not on a branch (a detached HEAD)\n  name one with --branch\n"
    )


def test_a_branch_that_takes_no_push_is_an_error_where_nothing_else_has_the_record(
    run: Run, remote: Path, tmp_path: Path
) -> None:
    """What is new is in the files alone: they stay, and the remedies are named."""
    protect(remote, "refs/heads/main")
    here = clone(remote, tmp_path / "here")
    write(here, 1)
    done = run("ci", "record", cwd=here)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: main of origin takes no push from here (hook declined (protected)), and what is new is nowhere else\n"
        "  have a ref keep the record (targets.yaml: `state_remote: origin`; `runner ci start`), or let this user, "
        "or the job's token, push there, and meet the branch's rules, such as signed commits (git's "
        "commit.gpgSign and user.signingKey). The files here have everything: keep them\n"
    )
    assert git(here, "status", "--porcelain") == f"?? {LOCKFILE}"


def put_on_ref(folder: Path, *numbers: int, **texts: str) -> None:
    """Leave a free state ref on the remote, with a lockfile of these launches and other files."""
    ref = StateRef.open(folder, "origin", "live")
    files = {"coffee.lock.json": write(folder, *numbers).read_text(encoding="utf-8"), **texts}
    (folder / LOCKFILE).unlink()
    files[STATE_FILE] = State().dump()
    ref.swap(ref.find(), ref.compose(files))


def test_a_protected_branch_leaves_the_record_on_the_ref(run: Run, remote: Path, tmp_path: Path) -> None:
    """Nothing is lost and nothing waits: the next machine takes all of it from there; a branch can be had."""
    protect(remote, "refs/heads/main")
    first, second = clone(remote, tmp_path / "first"), clone(remote, tmp_path / "second", "--depth", "1")
    put_on_ref(first, 1, 2)
    write(first, 1, 2, 3)
    said = (
        "main of origin takes no push from here (hook declined (protected)). The record is on refs/runner/live on "
        "origin, where every command finds it; for people, `runner ci record --branch NAME` puts it on a branch "
        "that can be merged.\n"
    )
    # The third launch is on the ref by now.
    for _ in range(2):
        done = run("ci", "record", cwd=first)
        assert (done.returncode, done.stderr, done.stdout) == (0, "", said)
    taken = run("ci", "record", "--fetch", cwd=second)
    assert taken.stdout == f"Copied from the state remote: {LOCKFILE}.\n"
    assert (second / LOCKFILE).read_bytes() == (first / LOCKFILE).read_bytes()
    assert run("ci", "record", "--fetch", cwd=second).stdout == "There is nothing to copy.\n"
    # The remedy, for people.
    assert run("ci", "record", "--branch", "to-merge", cwd=second).returncode == 0
    assert list_launches(remote, "to-merge") == {1, 2, 3}


def test_a_damaged_file_of_a_ref_is_not_copied(run: Run, remote: Path, tmp_path: Path) -> None:
    """It would stand in the work tree, where git has nothing to restore it from."""
    here = clone(remote, tmp_path / "here")
    put_on_ref(here, 1, **{"tea.lock.json": '{"x":1}\n'})
    done = run("ci", "record", "--fetch", cwd=here)
    assert done.stdout == f"Copied from the state remote: {LOCKFILE}.\n"
    assert (
        "campaigns/tea.live.lock.json: what refs/runner/live on origin has is not brought there: "
        in done.stderr
    )
    assert not (here / "campaigns/tea.live.lock.json").exists()


def test_a_ref_that_takes_no_push_leaves_the_record_to_the_branch(
    run: Run, remote: Path, tmp_path: Path
) -> None:
    """What is new is recorded where it can be, and the exit code tells that other machines may lack it."""
    here = clone(remote, tmp_path / "here")
    put_on_ref(here, 1, 2)
    protect(remote, "refs/runner/*")
    write(here, 1, 2, 3)
    done = run("ci", "record", cwd=here)
    assert done.returncode == 1
    assert done.stderr == (
        "Warning: what is new was not brought to the state remote: the git remote origin refuses to move "
        "refs/runner/live: hook declined (protected)\n"
        "  let this user, or the token of CI, push to refs/runner/* on the remote\n"
    )
    assert list_launches(remote, "main") == {1, 2, 3}


def test_what_the_ref_has_is_copied_to_the_branch(run: Run, remote: Path, tmp_path: Path) -> None:
    """Also of campaigns that this machine did not send; to the place that each has, whatever it was called."""
    here, there = clone(remote, tmp_path / "here"), clone(remote, tmp_path / "there")
    write(here, 1)
    run("ci", "record", cwd=here)
    put_on_ref(there, 1, 2)
    done = run("ci", "record", cwd=there)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Pushed to main of origin: Record 2 texts of coffee on live (")
    assert list_launches(remote, "main") == {1, 2}
    assert git(there, "status", "--porcelain") == ""


def test_without_a_state_remote_no_ref_is_read(run: Run, remote: Path, tmp_path: Path) -> None:
    """Whoever says `none` records the files of the work tree alone."""
    here = clone(remote, tmp_path / "here")
    put_on_ref(here, 1, 2)
    write(here, 3)
    done = run("ci", "record", cwd=here, env={"RUNNER_STATE_REMOTE": "none"})
    assert done.returncode == 0, done.stderr
    assert list_launches(remote, "main") == {3}


def test_a_run_that_was_killed_between_its_two_pushes_loses_nothing(
    run: Run, remote: Path, tmp_path: Path
) -> None:
    """Its machine is gone with its files: the next one copies from the ref, whatever that one has sent."""
    gone, here = clone(remote, tmp_path / "gone"), clone(remote, tmp_path / "here")
    put_on_ref(gone, 1, 2)
    shutil.rmtree(gone)
    write(here, 3)
    assert run("ci", "record", cwd=here).returncode == 0
    assert list_launches(remote, "main") == {1, 2, 3}
    ref = StateRef.open(here, "origin", "live")
    assert list_guids(ref.read().texts["coffee.lock.json"]) == {1, 2, 3}


def test_a_ref_that_is_held_keeps_its_launches(run: Run, remote: Path, tmp_path: Path) -> None:
    """Its holder writes what is sent; decisions of others are added all the same."""
    here = clone(remote, tmp_path / "here")
    put_on_ref(here, 1)
    ref = StateRef.open(here, "origin", "live")
    clocks = Clocks(time.monotonic, time.sleep)
    write(here, 1, 2)
    book = here / "campaigns/live.suppressions.json"
    pieces = seal_book(KEY, [PauseLine("coffee", "", "paused", AT)])
    book.write_text("".join(pieces), encoding="utf-8")
    with hold_lease(ref, Holder("one", "1", 60), clocks, LeasePatience()) as lease:
        assert run("ci", "record", cwd=here).returncode == 0
        lease.write(lease.texts)
        found = lease.texts
    assert list_guids(found["coffee.lock.json"]) == {1}
    other = StateRef.open(here, "origin", "live")
    assert other.read().texts[book.name] == book.read_text(encoding="utf-8")


def test_a_password_in_an_address_is_not_shown(run: Run, remote: Path, tmp_path: Path) -> None:
    """An address that is given instead of a remote's name is shown without it."""
    here = clone(remote, tmp_path / "here")
    write(here, 1)
    done = run("ci", "record", "--remote", "http://ann:pass@127.0.0.1:9/texts.git", cwd=here)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: the git remote http://127.0.0.1:9/texts.git cannot be used: ")
    assert "pass@" not in done.stderr


def test_everything_is_fetched(run: Run, remote: Path, tmp_path: Path) -> None:
    """A part of it would leave the rest with another key."""
    here = clone(remote, tmp_path / "here")
    done = run("ci", "record", "--fetch", "campaigns", cwd=here)
    assert done.returncode == 64
    assert done.stderr == "Error: --fetch takes everything: PATH and --no-push don't go with it\n"


def test_a_linked_work_tree_will_do(run: Run, remote: Path, tmp_path: Path) -> None:
    """It has an index, a branch and a lock of its own."""
    here = clone(remote, tmp_path / "here")
    git(here, "worktree", "add", "--quiet", "-b", "beside", str(tmp_path / "beside"))
    write(tmp_path / "beside", 1)
    done = run("ci", "record", "--branch", "main", cwd=tmp_path / "beside")
    assert (done.returncode, done.stderr) == (0, "")
    assert list_launches(remote, "main") == {1}
    assert git(here, "status", "--porcelain") == ""


def test_a_remote_that_is_gone_is_an_error(run: Run, remote: Path, tmp_path: Path) -> None:
    """The user hears of another way."""
    here = clone(remote, tmp_path / "here")
    write(here, 1)
    done = run("ci", "record", "--remote", "nowhere", cwd=here)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: the git remote nowhere cannot be used: fatal: 'nowhere' does not")
    assert done.stderr.endswith(
        "check the network, and that this user may use the remote: git ls-remote nowhere\n"
    )


def test_a_push_that_loses_a_race_is_tried_again(run: Run, remote: Path, tmp_path: Path) -> None:
    """Somebody pushes between our fetch and our push: we come after them."""
    here, other = clone(remote, tmp_path / "here"), clone(remote, tmp_path / "other")
    (other / "campaigns/tea.yaml").write_text("version: 1\n")
    git(other, "add", ".")
    git(other, "commit", "--quiet", "-m", "Ask how the tea was")
    # It gets in the way of the first push, from the hook that runs between fetch and push.
    hook = here / ".git/hooks/pre-push"
    hook.write_text(
        f"#!/bin/sh\nunset GIT_DIR\ngit -C '{other}' push --quiet origin main 2>/dev/null\nexit 0\n"
    )
    hook.chmod(0o755)
    write(here, 1)
    assert run("ci", "record", cwd=here).returncode == 0
    assert git(remote, "log", "-2", "--format=%s", "main").splitlines() == [
        "Record 2 texts of coffee on live",
        "Ask how the tea was",
    ]


@pytest.mark.slow
def test_a_branch_that_never_rests_is_left_alone(run: Run, remote: Path, tmp_path: Path) -> None:
    """Who loses every race says so; the files stay."""
    here, other = clone(remote, tmp_path / "here"), clone(remote, tmp_path / "other")
    hook = here / ".git/hooks/pre-push"
    hook.write_text(
        f"#!/bin/sh\nunset GIT_DIR\ncd '{other}'\ngit commit --quiet --allow-empty -m More\n"
        "git push --quiet origin main\n"
    )
    hook.chmod(0o755)
    write(here, 1)
    done = run("ci", "record", cwd=here)
    assert done.returncode == 1
    assert "main of origin takes no push from here (others pushed to it all the time)" in done.stderr


def test_a_commit_can_be_left_unpushed(run: Run, remote: Path, tmp_path: Path) -> None:
    """`--no-push` commits onto the current branch."""
    here = clone(remote, tmp_path / "here")
    write(here, 1)
    done = run("ci", "record", "--no-push", cwd=here)
    commit = git(here, "rev-parse", "HEAD")
    assert done.stdout == f"Committed: Record 2 texts of coffee on live ({commit[:10]}).\n"
    assert git(here, "log", "--format=%s", "origin/main..HEAD") == "Record 2 texts of coffee on live"
    assert git(here, "status", "--porcelain") == ""


def test_commits_of_ones_own_stay_unpushed(run: Run, remote: Path, tmp_path: Path) -> None:
    """The record is pushed without them, and the user is told how to bring the two together."""
    here = clone(remote, tmp_path / "here")
    git(here, "commit", "--quiet", "--allow-empty", "-m", "Mine")
    write(here, 1)
    done = run("ci", "record", cwd=here)
    assert done.returncode == 0
    assert done.stderr == (
        "This clone has commits or changes of its own: `git stash`, `git pull`, `git stash pop`.\n"
    )
    assert git(remote, "log", "-1", "--format=%s", "main") == "Record 2 texts of coffee on live"
    assert "Mine" not in git(remote, "log", "--format=%s", "main")
    assert git(here, "log", "-1", "--format=%s") == "Mine"
    for words in (["stash"], ["pull", "--rebase"], ["stash", "pop"]):
        git(here, *words)
    assert list_launches(here) == {1}
    assert git(here, "status", "--porcelain") == ""


def test_changes_that_would_be_lost_keep_the_clone_where_it_is(
    run: Run, remote: Path, tmp_path: Path
) -> None:
    """A file that is changed both here and on the branch is the user's to unite."""
    here, other = clone(remote, tmp_path / "here"), clone(remote, tmp_path / "other")
    (other / "campaigns/coffee.yaml").write_text("version: 1\nname: coffee\n")
    git(other, "commit", "--quiet", "--all", "-m", "Name it")
    git(other, "push", "--quiet")
    (here / "campaigns/coffee.yaml").write_text("version: 1\nname: mine\n")
    write(here, 1)
    done = run("ci", "record", cwd=here)
    assert "git stash" in done.stderr
    assert (here / "campaigns/coffee.yaml").read_text() == "version: 1\nname: mine\n"
    assert list_launches(remote, "main") == {1}


@pytest.mark.parametrize(
    ("environment", "author"),
    [
        ({}, "runner <runner@localhost>"),
        (
            {"GITHUB_ACTIONS": "true"},
            "github-actions[bot] <41898282+github-actions[bot]@users.noreply.github.com>",
        ),
    ],
)
def test_a_clone_that_names_nobody_has_a_bot_commit(
    run: Run, remote: Path, tmp_path: Path, environment: dict[str, str], author: str
) -> None:
    """CI machines have no name for git."""
    (tmp_path / "gitconfig").write_text("")
    here = clone(remote, tmp_path / "here")
    write(here, 1)
    assert run("ci", "record", cwd=here, env=environment).returncode == 0
    assert git(here, "log", "-1", "--format=%an <%ae>") == author


def test_a_name_that_git_must_not_make_up_is_asked_for(run: Run, remote: Path, tmp_path: Path) -> None:
    """With `user.useConfigOnly` git's own words are shown, and what to do; nothing is left staged."""
    (tmp_path / "gitconfig").write_text("[user]\nuseConfigOnly = true\nemail = ada@example.com\n")
    here = clone(remote, tmp_path / "here")
    write(here, 1)
    done = run("ci", "record", cwd=here)
    assert done.returncode == 1
    assert "`git commit` failed: fatal: no name was given and auto-detection is disabled\n" in done.stderr
    assert "  git config user.name NAME; git config user.email ADDRESS\n" in done.stderr
    assert git(here, "status", "--porcelain") == f"?? {LOCKFILE}"


@pytest.mark.parametrize("moves_on", [False, True])
def test_a_commit_that_was_not_pushed_is_recorded_anew(
    run: Run, remote: Path, tmp_path: Path, *, moves_on: bool
) -> None:
    """As a run leaves it that is killed before its push; whether the branch has moved on since, or not."""
    here, other = clone(remote, tmp_path / "here"), clone(remote, tmp_path / "other")
    write(here, 1)
    assert run("ci", "record", "--no-push", cwd=here).returncode == 0
    if moves_on:
        write(other, 2)
        assert run("ci", "record", cwd=other).returncode == 0
    assert run("ci", "record", cwd=here).returncode == 0
    assert list_launches(remote, "main") == ({1, 2} if moves_on else {1})
    assert git(here, "rev-parse", "HEAD") == git(remote, "rev-parse", "main")
    assert git(here, "status", "--porcelain") == ""


def test_what_one_remote_has_is_not_taken_back_for_another(run: Run, remote: Path, tmp_path: Path) -> None:
    """A second remote may be behind: the clone stays with the first one."""
    git(tmp_path, "clone", "--quiet", "--bare", str(remote), "second.git")
    here = clone(remote, tmp_path / "here")
    git(here, "remote", "add", "second", str(tmp_path / "second.git"))
    write(here, 1)
    assert run("ci", "record", cwd=here).returncode == 0
    assert run("ci", "record", "--remote", "second", cwd=here).returncode == 0
    assert git(here, "rev-parse", "HEAD") == git(remote, "rev-parse", "main")


def test_keys_of_ones_own_cannot_be_united(run: Run, remote: Path, tmp_path: Path) -> None:
    """Two first sends without a common key: a person has to choose a side."""
    first, second = clone(remote, tmp_path / "first"), clone(remote, tmp_path / "second")
    write(first, 1)
    run("ci", "record", cwd=first)
    write(second, 2, key=TargetKey.of("live", "f" * 32))
    done = run("ci", "record", cwd=second)
    assert done.returncode == 1
    assert "is there under two keys, and one version may have people that the other lacks" in done.stderr


def test_what_is_named_is_recorded_alone(run: Run, remote: Path, tmp_path: Path) -> None:
    """PATH chooses campaigns; their lockfiles are found by their names, whatever the files say."""
    here = clone(remote, tmp_path / "here")
    write(here, 1)
    write(here, 2, name="tea")
    done = run("ci", "record", "campaigns/coffee.yaml", cwd=here)
    assert done.returncode == 0
    assert git(here, "status", "--porcelain") == "?? campaigns/tea.live.lock.json"


def test_what_a_renamed_campaign_had_sent_is_not_counted_again(
    run: Run, remote: Path, tmp_path: Path
) -> None:
    """Its new lockfile has everything, and the old one, which was recorded, is still there."""
    here = clone(remote, tmp_path / "here")
    write(here, 1, 2)
    run("ci", "record", cwd=here)
    launches = sorted((make_launch(number) for number in (1, 2, 3)), key=lambda launch: launch.key)
    contents = LockfileContents("espresso", KEY, launches, former_names={"coffee"})
    save_lockfile(here / "campaigns/espresso.live.lock.json", contents)
    run("ci", "record", cwd=here)
    assert git(here, "log", "-1", "--format=%s") == "Record 2 texts of espresso on live"


def test_a_lost_lockfile_is_restored(run: Run, remote: Path, tmp_path: Path) -> None:
    """It was deleted, or put back to an older version, and is whole again."""
    here = clone(remote, tmp_path / "here")
    write(here, 1, 2)
    run("ci", "record", cwd=here)
    for version, told in (((1, 2, 3), 3), ((1, 2, 3, 4), 4)):
        if told == 3:
            git(here, "rm", "--quiet", LOCKFILE)
        else:
            write(here, 1)
        git(here, "commit", "--quiet", "-am", "Lose the record")
        git(here, "push", "--quiet", "origin", "HEAD:main")
        job = clone(remote, tmp_path / f"job{told}", "--depth=1")
        write(job, *version)
        assert run("ci", "record", cwd=job).returncode == 0
        git(here, "pull", "--quiet", "origin", "main")
        assert list_launches(here) == set(version)


def test_many_campaigns_are_counted(run: Run, remote: Path, tmp_path: Path) -> None:
    """A subject has room for two names."""
    here = clone(remote, tmp_path / "here")
    for number, name in enumerate(("coffee", "tea", "cake")):
        write(here, number, name=name)
    assert "Record 6 texts of 3 campaigns on live" in run("ci", "record", cwd=here).stdout


def test_lockfiles_of_another_repository_are_refused(run: Run, remote: Path, tmp_path: Path) -> None:
    """What is outside cannot be committed here."""
    here, other = clone(remote, tmp_path / "here"), clone(remote, tmp_path / "other")
    file = write(other, 1)
    done = run("ci", "record", str(other / "campaigns"), cwd=here)
    assert done.returncode == 64
    assert done.stderr == f"Error: {file} is outside the git repository of the current folder\n"


def test_outside_a_repository_there_is_nowhere_to_record(run: Run, tmp_path: Path) -> None:
    """The user is told where to run it."""
    (tmp_path / "campaigns").mkdir()
    done = run("ci", "record", cwd=tmp_path, env={"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)})
    assert done.returncode == 1
    assert done.stderr == (
        "Error: the current folder is not in a git repository\n"
        "  run it where the campaigns are kept, or make a repository with `runner init`\n"
    )


def test_a_repository_without_a_commit_has_nothing_to_record_on(run: Run, tmp_path: Path) -> None:
    """The campaigns come first."""
    git(tmp_path, "init", "--quiet", "-b", "main")
    (tmp_path / "campaigns").mkdir()
    write(tmp_path, 1)
    done = run("ci", "record", "--no-push", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == ("Error: there is no commit yet to record on\n  commit the campaigns first\n")


SIGNED_ONLY = """\
#!/bin/sh
while read old new ref; do
  git cat-file commit $new | grep -q '^gpgsig' || { echo 'error: Commits must have verified signatures.'; exit 1; }
done
"""


def test_commits_are_signed_as_git_is_set_up(run: Run, remote: Path, tmp_path: Path) -> None:
    """Where a remote takes signed commits alone: without a key its words are shown, and what to do."""
    (remote / "hooks/pre-receive").write_text(SIGNED_ONLY, encoding="utf-8")
    (remote / "hooks/pre-receive").chmod(0o755)
    here = clone(remote, tmp_path / "here")
    write(here, 1)
    done = run("ci", "record", cwd=here)
    assert done.returncode == 1
    assert "(pre-receive hook declined (Commits must have verified signatures.))" in done.stderr
    assert "signed commits (git's commit.gpgSign and user.signingKey)" in done.stderr
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    for setting in ("commit.gpgSign=yes", "gpg.format=ssh", f"user.signingKey={key}.pub"):
        git(here, "config", *setting.split("=", 1))
    assert run("ci", "record", cwd=here).returncode == 0
    assert list_launches(remote, "main") == {1}
    git(here, "config", "user.signingKey", str(tmp_path / "lost"))
    write(here, 2)
    unsigned = run("ci", "record", cwd=here)
    assert unsigned.returncode == 1
    assert "`git commit` failed: " in unsigned.stderr


def test_filters_of_git_apply_to_the_record(run: Run, remote: Path, tmp_path: Path) -> None:
    """Clean filters change what is committed, and smudge filters what is read, as with `git add`."""
    here = clone(remote, tmp_path / "here")
    (here / ".gitattributes").write_text("*.json filter=swap\n", encoding="utf-8")
    for side in ("clean", "smudge"):
        git(here, "config", f"filter.swap.{side}", "tr a-zA-Z n-za-mN-ZA-M")
    write(here, 1)
    assert run("ci", "record", cwd=here).returncode == 0
    assert '"pnzcnvta": "pbssrr"' in git(remote, "show", f"main:{LOCKFILE}")
    # Committed as it is here: git finds nothing changed, and neither does the next recording.
    assert git(here, "status", "--porcelain") == "?? .gitattributes"
    assert run("ci", "record", cwd=here).stdout == "Nothing to record: the lockfiles are unchanged.\n"


def test_line_ends_of_the_work_tree_are_its_own(run: Run, remote: Path, tmp_path: Path) -> None:
    """A repository whose files end their lines with CR LF records again and again."""
    here = clone(remote, tmp_path / "here")
    (here / ".gitattributes").write_text("* text=auto eol=crlf\n", encoding="utf-8")
    for number in (1, 2):
        write(here, *range(1, number + 1))
        done = run("ci", "record", cwd=here)
        assert done.returncode == 0, done.stderr
    assert list_launches(remote, "main") == {1, 2}
