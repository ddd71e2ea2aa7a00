"""Lockfiles of two branches that git has merged: their launches are the union, or the reader stops."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import LockfileError
from runner.ledger.fingerprint import FingerprintKey, launch_key
from runner.ledger.lockfile.format import read_lockfile
from runner.ledger.lockfile.integrity import renew_key
from runner.ledger.lockfile.writer import LockfileContents, write_lockfile
from runner.ledger.model import LaunchRecord
from runner.ledger.record.campaign_record import read_record
from runner.ledger.record.recorded import Identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

KEY = FingerprintKey.from_salt("0123456789abcdef" * 2)
OTHER = FingerprintKey.from_salt("fedcba9876543210" * 2)
SECRET = FingerprintKey.from_secret("a state key")
STYLES = ("merge", "diff3", "zdiff3")
NAME = "pulse.live.lock.json"


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., int]:
    """Run git in an own repository, whatever this machine's git is told; return its exit code."""
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{
            f"GIT_{who}_{what}": "someone@example.com"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }

    def run_git(*arguments: str) -> int:
        command = ["git", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, check=False, capture_output=True
        ).returncode

    assert run_git("init", "--initial-branch=main") == 0
    (tmp_path / "readme").write_text("A repository.\n", encoding="utf-8")
    assert run_git("add", "readme") == run_git("commit", "-m", "first") == 0
    return run_git


def make_launch(number: int, message: str = "ask", campaign: str = "pulse") -> LaunchRecord:
    recipients = (f"{number:020x}",)
    key = launch_key(campaign, message, "d1g35t", recipients)
    at = f"2026-11-20T12:00:{number % 60:02}Z"
    return LaunchRecord(message, key, "pulse", "d1g35t", recipients, f"guid-{number}", at)


def write(
    folder: Path, launches: Iterable[LaunchRecord], key: FingerprintKey = KEY, stem: str = "pulse"
) -> None:
    ordered = sorted(launches, key=lambda launch: (launch.message, launch.key))
    write_lockfile(folder / f"{stem}.live.lock.json", LockfileContents(stem, "live", key, ordered))


def commit(git: Callable[..., int], branch: str) -> None:
    assert git("add", "-A") == git("commit", "-m", branch) == 0


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("order", [("here", "there"), ("there", "here")], ids="-".join)
@pytest.mark.parametrize(
    ("base", "here", "there"),
    [
        ([1, 9], [3], [5]),
        ([], [3], [5]),
        ([], [3, 4], [3, 5]),
        ([5], [1], [9]),
        ([5], [9], [8, 10]),
        ([1], [], [2]),
    ],
    ids=["between", "first of both", "one in common", "both ends", "at the end", "one side"],
)
def test_the_same_campaign_to_different_people(
    tmp_path: Path, git: Callable[..., int], style: str, order: tuple[str, str],
    base: list[int], here: list[int], there: list[int],
) -> None:  # fmt: skip
    """Two branches that sent one campaign to different people read, merged in either order, as the union."""
    git("config", "merge.conflictStyle", style)
    write(tmp_path, map(make_launch, base))
    commit(git, "base")
    for branch, new in (("here", here), ("there", there)):
        git("checkout", "-b", branch, "main")
        write(tmp_path, map(make_launch, [*base, *new]))
        (tmp_path / branch).touch()
        commit(git, branch)
    git("checkout", order[0])
    git("merge", order[1])
    lockfile = read_lockfile(tmp_path / NAME)
    assert lockfile is not None
    assert set(lockfile.launches) == {make_launch(number) for number in (*base, *here, *there)}


def test_different_campaigns(tmp_path: Path, git: Callable[..., int]) -> None:
    """Two branches that each sent another campaign merge without a conflict: the lockfiles are apart."""
    for branch in ("pulse", "news"):
        git("checkout", "-b", branch, "main")
        write(tmp_path, [make_launch(1, campaign=branch)], stem=branch)
        commit(git, branch)
    assert git("merge", "pulse") == 0
    for stem in ("pulse", "news"):
        lockfile = read_lockfile(tmp_path / f"{stem}.live.lock.json")
        assert lockfile is not None
        assert not lockfile.is_merged


@pytest.mark.parametrize("style", STYLES)
def test_first_sends_on_both_branches_with_a_state_key(
    tmp_path: Path, git: Callable[..., int], style: str
) -> None:
    """Two lockfiles that both branches have added are united when both were made with the user's key."""
    git("config", "merge.conflictStyle", style)
    for number, branch in enumerate(("here", "there")):
        git("checkout", "-b", branch, "main")
        write(tmp_path, [make_launch(number)], SECRET)
        commit(git, branch)
    assert git("merge", "here") != 0
    lockfile = read_lockfile(tmp_path / NAME)
    assert lockfile is not None
    assert set(lockfile.launches) == {make_launch(0), make_launch(1)}
    assert lockfile.is_merged


@pytest.mark.parametrize("style", STYLES)
def test_first_sends_on_both_branches_without_a_state_key(
    tmp_path: Path, git: Callable[..., int], style: str
) -> None:
    """Two salts cannot be one record: the error says how to come out of it."""
    git("config", "merge.conflictStyle", style)
    for number, (branch, key) in enumerate((("here", KEY), ("there", OTHER))):
        git("checkout", "-b", branch, "main")
        write(tmp_path, [make_launch(number)], key)
        commit(git, branch)
    assert git("merge", "here") != 0
    with pytest.raises(LockfileError) as caught:
        read_lockfile(tmp_path / NAME)
    assert caught.value.message == (
        f"the lockfile {tmp_path / NAME} holds the sends of two branches, each made with a key of its own"
    )
    assert caught.value.hint == (
        f"keep the side that was sent with the ledger here (git checkout --ours {tmp_path / NAME}, or "
        "--theirs), or either one and move the ledger away; `runner apply` then asks the service for what "
        "the other side sent. With a RUNNER_STATE_KEY branches just merge"
    )


def test_a_rename_on_one_branch(tmp_path: Path, git: Callable[..., int]) -> None:
    """One branch renamed the campaign, the other went on sending it: the new name has all the launches."""
    write(tmp_path, [make_launch(1)])
    commit(git, "base")
    git("checkout", "-b", "there", "main")
    write(tmp_path, [make_launch(1), make_launch(2)])
    commit(git, "there")
    git("checkout", "-b", "here", "main")
    renamed = replace(KEY, first_name="pulse")
    write_lockfile(
        tmp_path / NAME, LockfileContents("heartbeat", "live", renamed, [make_launch(1), make_launch(3)])
    )
    commit(git, "here")
    git("merge", "there")
    record = read_record(None, Identity("heartbeat", tmp_path / "pulse.yaml", "live", None, ("pulse",)))
    assert record.known.sent == {"ask": {f"{number:020x}" for number in (1, 2, 3)}}
    assert record.key == renamed


launches = st.builds(make_launch, st.integers(0, 40), st.sampled_from(["ask", "nudge"]))
groups = st.lists(launches, max_size=8, unique_by=lambda launch: launch.project_launch_guid)


@given(base=groups, ours=groups, theirs=groups, style=st.sampled_from(["", "--diff3", "--zdiff3"]))
def test_any_two_growths_of_a_record_merge_to_their_union(
    tmp_path: Path, base: list[LaunchRecord], ours: list[LaunchRecord], theirs: list[LaunchRecord], style: str
) -> None:
    """Whatever two branches add to a lockfile, git's merge of the two reads as the union."""
    known = {launch.project_launch_guid: launch for launch in (*base, *ours, *theirs)}
    sides = {"base": base, "ours": [*base, *ours], "theirs": [*base, *theirs]}
    for side, held in sides.items():
        guids = {launch.project_launch_guid for launch in held}
        write(tmp_path, (known[guid] for guid in guids))
        (tmp_path / NAME).rename(tmp_path / side)
    command = ["git", "merge-file", "-p", *filter(None, [style]), "ours", "base", "theirs"]
    merged = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True)
    assert 0 <= merged.returncode < 128, merged.stderr
    (tmp_path / NAME).write_bytes(merged.stdout)
    lockfile = read_lockfile(tmp_path / NAME)
    assert lockfile is not None
    assert {launch.project_launch_guid: launch for launch in lockfile.launches} == known


def test_what_both_sides_say_of_a_launch_is_taken_together(tmp_path: Path) -> None:
    """Two machines that learned in two ways what one launch reached: all of it counts as reached."""
    first = make_launch(1)
    second = replace(first, sent_at="2026-11-20T11:00:00Z", recipients=("a" * 20,))
    write(tmp_path, [first, renew_key(second, "pulse")])
    lockfile = read_lockfile(tmp_path / NAME)
    assert lockfile is not None
    united = replace(second, recipients=(*first.recipients, "a" * 20))
    assert lockfile.launches == (renew_key(united, "pulse"),)


def test_one_launch_under_two_messages_stops(tmp_path: Path) -> None:
    """A launch was of one message: a lockfile that says otherwise is damaged."""
    write(tmp_path, [make_launch(1), make_launch(1, message="nudge")])
    with pytest.raises(LockfileError, match="has the launch guid-1 under two messages"):
        read_lockfile(tmp_path / NAME)


@pytest.mark.parametrize(
    ("cut", "put", "words"),
    [
        ('"guid-2"', '"guid-2" ', "is not JSON"),
        ('"guid-2"', "guid-2", "is not JSON"),
        ("    {", "    # mine\n    {", "is not JSON"),
        ("  ],", "  ],\n=======", "is not JSON"),
        ("  ],", "<<<<<<< here\n  ],", "has merge conflict markers in it, around lines that were edited"),
        ("  ],", "<<<<<<< here\n=======\n=======\n>>>>>>> there\n  ],", "has merge conflict markers in it"),
        ('  "target": "live"\n}\n', "", "is not JSON"),
        ('  "target": "live"\n', "", "is damaged at its top level: 'target' is a required property"),
        (
            '  "target": "live"\n',
            '  "target": "live"\n  "target": "dead"\n',
            "its sides don't agree on target",
        ),
        (
            '  "target": "live"\n',
            '  "target": "live"\n  "mine": "x"\n',
            "is damaged at its top level: Additional",
        ),
    ],
)
def test_anything_but_our_own_lines_is_damage(tmp_path: Path, cut: str, put: str, words: str) -> None:
    """Only a file that git has put together from lines of ours is read leniently: never what was edited or cut off."""
    write(tmp_path, [make_launch(1), make_launch(2)])
    text = (tmp_path / NAME).read_text(encoding="utf-8").replace("},\n", "}\n", 1)
    assert cut in text
    (tmp_path / NAME).write_text(text, encoding="utf-8")
    assert read_lockfile(tmp_path / NAME) is not None
    (tmp_path / NAME).write_text(text.replace(cut, put, 1), encoding="utf-8")
    with pytest.raises(LockfileError) as caught:
        read_lockfile(tmp_path / NAME)
    assert words in caught.value.message
