"""The ref that moves by compare-and-swap."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runner.git.command import Git, GitError
from runner.git.state_ref import RefMovedError, Snapshot, StateRef, name_ref

if TYPE_CHECKING:
    from collections.abc import Callable


def put(ref: StateRef, old: str | None, **files: str) -> str:
    """Move the ref to files of these texts; return where it is then."""
    commit = ref.compose(files)
    ref.swap(old, commit)
    return commit


def test_what_one_clone_puts_there_another_reads(clone: Callable[..., Path], remote: Path) -> None:
    """Also a shallow one; neither history nor refs of the clones have changed."""
    first = StateRef.open(clone("first", "--depth=1"), "origin", "live")
    second = StateRef.open(clone("second", "--depth=1"), "origin", "live")
    assert second.read() == Snapshot()
    old = put(first, None, state="one\n", other="Grüße\n")
    new = put(first, old, state="two\n", other="Grüße\n")
    snapshot = second.read()
    assert snapshot.commit == new
    assert snapshot.texts == {
        "state": "two\n",
        "other": "Grüße\n",
    }
    assert Git(remote).run("rev-list", "--count", first.name) == "1"
    for folder in (remote.parent / "first", remote.parent / "second"):
        assert "refs/runner" not in Git(folder).run("for-each-ref")
        assert not (folder / ".git/FETCH_HEAD").exists()
        assert Git(folder).run("rev-list", "--count", "HEAD") == "1"


@pytest.mark.parametrize("place", ["team", "team/x", "Kunden für uns"])
def test_it_is_read_from_a_subfolder_as_from_the_top(clone: Callable[..., Path], place: str) -> None:
    """Git shows the part of a tree that the current folder is; a state is whole, whatever its files' names."""
    top = clone("first")
    (top / place).mkdir(parents=True)
    below = StateRef.open(top / place, "origin", "live")
    old = put(below, None, **{"state.json": "one\n", "Grüße.lock.json": "two\n"})
    for ref in (below, StateRef.open(top, "origin", "live")):
        snapshot = ref.read()
        assert snapshot.commit == old
        assert dict(snapshot.texts) == {
            "state.json": "one\n",
            "Grüße.lock.json": "two\n",
        }


def test_a_clone_that_gets_files_when_it_needs_them_moves_it_too(
    clone: Callable[..., Path], remote: Path
) -> None:
    """A partial clone, as CI makes them of large repositories: it has the whole of a state."""
    for setting in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        Git(remote).run("config", setting, "true")
    old = put(StateRef.open(clone("first"), "origin", "live"), None, one="1", two="2")
    partial = StateRef.open(clone("second", "--filter=blob:none", "--depth=1"), "origin", "live")
    snapshot = partial.read()
    assert snapshot.commit == old
    new = partial.compose(snapshot.texts)
    partial.swap(old, partial.compose({**snapshot.texts, "three": "3"}, old))
    partial.swap(partial.find(), new)
    assert partial.find() == new


def test_whoever_was_slower_is_told_where_it_is(clone: Callable[..., Path]) -> None:
    """A move from where the ref no longer is fails, and so does a second creation."""
    first, second = (StateRef.open(clone(name), "origin", "live") for name in ("first", "second"))
    there = put(first, None, state="one")
    for old in (None, "0123456789" * 4):
        with pytest.raises(
            RefMovedError, match=r"^refs/runner/live on origin was moved by another run$"
        ) as e:
            put(second, old, state="two")
        assert e.value.found == there
    assert second.read().commit == there


def test_of_many_at_once_one_moves_it(clone: Callable[..., Path]) -> None:
    """However they come: each either moves the ref or learns that it has not."""
    refs = [StateRef.open(clone(f"clone-{number}"), "origin", "live") for number in range(4)]

    def try_to_put(number: int) -> bool:
        try:
            put(refs[number], None, state=str(number))
        except RefMovedError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(try_to_put, range(4)))
    assert done.count(True) == 1
    snapshot = refs[0].read()
    assert snapshot.texts["state"] == str(done.index(True))


def test_a_push_whose_answer_was_lost_is_looked_up(clone: Callable[..., Path], remote: Path) -> None:
    """The remote has moved the ref and then says nothing for too long."""
    ref = StateRef.open(clone("first"), "origin", "live")
    hook = remote / "hooks/post-receive"
    hook.write_text("#!/bin/sh\nkill -9 $PPID\n", encoding="utf-8")
    hook.chmod(0o755)
    commit = put(ref, None, state="one")
    assert ref.find() == commit


def test_hooks_of_the_clone_have_no_say(clone: Callable[..., Path]) -> None:
    """What a team checks before it pushes a branch is not asked."""
    folder = clone("first")
    hook = folder / ".git/hooks/pre-push"
    hook.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    put(StateRef.open(folder, "origin", "live"), None, state="one")


def test_a_remote_that_refuses_is_quoted(clone: Callable[..., Path], remote: Path) -> None:
    """A hook of the server, or a rule of the forge."""
    ref = StateRef.open(clone("first"), "origin", "live")
    hook = remote / "hooks/update"
    hook.write_text("#!/bin/sh\necho 'no such refs here'\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    with pytest.raises(GitError) as caught:
        put(ref, None, state="one")
    assert caught.value.message == (
        "the git remote origin refuses to move refs/runner/live: hook declined (no such refs here)"
    )
    assert caught.value.hint == ("let this user, or the token of CI, push to refs/runner/* on the remote")


def test_a_ref_in_the_way_is_named(clone: Callable[..., Path], remote: Path) -> None:
    """Git can have no ref below another one: that is no race, which would be run again and again."""
    ref = StateRef.open(clone("first"), "origin", "live")
    Git(remote).run("update-ref", f"{ref.name}/other", "main")
    with pytest.raises(GitError) as caught:
        put(ref, None, state="one")
    assert not isinstance(caught.value, RefMovedError)
    assert caught.value.message.startswith("the git remote origin refuses to move refs/runner/live: ")
    assert "'refs/runner/live/other' exists; cannot create 'refs/runner/live'" in caught.value.message


def test_a_remote_that_is_gone_is_said(clone: Callable[..., Path], remote: Path) -> None:
    """When it is read, and when it is to be moved."""
    ref = StateRef.open(clone("first"), "origin", "live")
    commit = ref.compose({"state": "one"})
    remote.rename(remote.with_name("elsewhere.git"))
    expected = (
        rf"^the git remote origin cannot be used: fatal: '{re.escape(str(remote))}' does not appear to be"
    )
    for fail in (ref.read, lambda: ref.swap(None, commit)):
        with pytest.raises(GitError, match=expected) as caught:
            fail()
        assert caught.value.hint == (
            "check the network, and that this user may use the remote: git ls-remote origin"
        )


def test_an_unknown_remote_is_said(clone: Callable[..., Path]) -> None:
    """With those that there are."""
    with pytest.raises(GitError, match=r"^there is no git remote 'upstream' to keep the state on$") as e:
        StateRef.open(clone("first"), "upstream", "live")
    assert e.value.hint == "known: origin; --state-remote and RUNNER_STATE_REMOTE take a remote's name"


def test_a_folder_outside_of_repositories_is_said(tmp_path: Path) -> None:
    """In git's own words."""
    with pytest.raises(
        GitError,
        match=r"^the state cannot be kept on the git remote 'origin': fatal: not a git repository \(or any",
    ) as caught:
        StateRef.open(tmp_path, "origin", "live")
    assert caught.value.hint == "run this in a clone of the repository that the campaigns are kept in"


@settings(max_examples=30, deadline=None)
@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30))
@example("live", "Live")
@example("a.lock", "..")
def test_every_target_has_a_ref_of_its_own(target: str, other: str) -> None:
    """Whatever it is called, git takes it for a ref; also where file systems ignore case."""
    ref = name_ref(target)
    assert Git(Path.cwd()).run("check-ref-format", ref) == ""
    assert (ref.lower() == name_ref(other).lower()) == (target == other)
