"""The door to git."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.git.command import Git, GitAnswer, GitError, find_work_tree, hide_credentials

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def git(tmp_path: Path) -> Git:
    git = Git(tmp_path)
    git.run("init", "--quiet")
    return git


def test_a_failure_says_which_command_and_why(git: Git) -> None:
    """The reason is git's own."""
    with pytest.raises(GitError, match=r"^`git rev-parse` failed: fatal: Needed a single revision$"):
        git.run("rev-parse", "--verify", "no-such-branch")


def test_git_that_is_missing_is_an_error(git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without git the user is told what to install."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(GitError, match=r"^git is not installed$") as caught:
        git.run("status")
    assert caught.value.hint == "install git, version 2.30 or later"


@pytest.fixture
def other_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Put a program of these bytes in the place of git."""

    def replace(content: bytes) -> None:
        file = tmp_path / "bin/git"
        file.parent.mkdir()
        file.write_bytes(content)
        file.chmod(0o755)
        monkeypatch.setenv("PATH", str(file.parent))

    return replace


def test_git_that_cannot_be_started_is_an_error(git: Git, other_git: Callable[[bytes], None]) -> None:
    """A program of another machine, or a wrapper that is broken, is the user's to mend."""
    other_git(b"\x00 no program")
    with pytest.raises(GitError, match=r"^git cannot be started: Exec format error$") as caught:
        git.run("status")
    assert caught.value.hint == (
        "see that `git --version` works in this environment: PATH and LD_PRELOAD are git's, too"
    )


def test_git_that_dies_is_an_error(git: Git, other_git: Callable[[bytes], None]) -> None:
    """A library that is preloaded can crash it before it has said a word."""
    other_git(b"#!/bin/sh\nkill -SEGV $$\n")
    with pytest.raises(GitError, match=r"^`git status` failed: ended by signal 11$"):
        git.run("status")


def test_a_folder_that_is_gone_is_named(git: Git, tmp_path: Path) -> None:
    """Not git is missing then."""
    assert git.ask("status").status == 0
    gone = tmp_path / "gone"
    with pytest.raises(GitError) as caught:
        Git(gone).run("status")
    assert caught.value.message == f"git cannot be run in {gone}: there is no such folder"


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    """No run waits for ever for a remote."""
    Git(tmp_path).run("init", "--quiet")
    slow = Git(tmp_path, timeout_s=0.2)
    with pytest.raises(GitError, match=r"^`git -c` did not end within 0\.2 s$") as caught:
        slow.run("-c", "alias.wait=!sleep 5", "wait")
    assert caught.value.hint == "check that the remote can be reached"


def test_a_work_tree_is_found_from_any_folder_in_it(git: Git, tmp_path: Path) -> None:
    """Its top is returned; outside of one there is none."""
    assert git.run("status", "--short") == ""
    (tmp_path / "campaigns").mkdir()
    assert find_work_tree(tmp_path / "campaigns") == tmp_path.resolve()


def test_a_folder_outside_any_repository_has_no_work_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is no error yet."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert find_work_tree(tmp_path) is None


def test_a_repository_of_another_user_is_no_missing_one(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git's own reason is handed on, as in a container that mounts the checkout."""
    assert git.run("rev-parse", "--is-bare-repository") == "false"
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(GitError, match=r"^`git rev-parse` failed: fatal: detected dubious ownership in repo"):
        find_work_tree(tmp_path)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("to https://x-access-token:s3cret@example.com/a.git failed", "to https://example.com/a.git failed"),
        ("'https://ada:s3@cr@et@example.com/a.git/': not found", "'https://example.com/a.git/': not found"),
        ("https://ada:s3/cret@example.com/a.git", "https://example.com/a.git"),
        ("https://ada:s3?cr=et@example.com/a.git", "https://example.com/a.git"),
        ("https://example.com/a.git?private_token=s3cret", "https://example.com/a.git?…"),
        (
            "unable to access 'https://u:s3@example.com/a.git?private_token=s3cret&x=s3@y/': 404",
            "unable to access 'https://example.com/a.git?…': 404",
        ),
        ("git@example.com:a.git and /srv/a@b.git stay", "git@example.com:a.git and /srv/a@b.git stay"),
    ],
)
def test_credentials_in_addresses_are_hidden(said: str, shown: str) -> None:
    """Tokens stand in addresses of remotes, before the host and in queries, and git repeats these."""
    assert hide_credentials(said) == shown


def test_a_token_in_a_remotes_query_is_not_said(git: Git) -> None:
    """Git's own words about a remote that it cannot reach come without the token."""
    git.run("remote", "add", "origin", "http://127.0.0.1:9/a.git?private_token=s3cret")
    answer = git.ask("ls-remote", "origin")
    assert answer.status
    assert "127.0.0.1:9/a.git?…" in answer.reason
    assert "s3cret" not in answer.complaint


def test_the_reason_is_what_git_marks() -> None:
    """Hints and progress are left out."""
    answer = GitAnswer(1, "", "hint: try\n ! [rejected] main -> main (fetch first)\nerror: failed to push\n")
    assert answer.reason == "! [rejected] main -> main (fetch first); error: failed to push"
