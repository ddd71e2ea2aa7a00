"""`runner record`: commits the lockfiles, the files of suppressions and the approvals, and pushes them."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.annotations import job_warning
from runner.cli.approval_record import find_books, find_secret, list_approvals, name_target
from runner.cli.campaigns import DEFAULT_FOLDER, show_path
from runner.cli.command_guard import write_command
from runner.cli.console import note, warn
from runner.cli.failures import Failures
from runner.cli.record_text import choose_author, write_message
from runner.cli.scope import Scope, path_scope
from runner.cli.suppressions import list_homes
from runner.cli.told_record import ToldRecord
from runner.errors import CampaignError, RunnerError, SuppressionsError, UsageError
from runner.ledger.gain import (
    Advance,
    are_suppressions_moved,
    find_suppression_gain,
    is_lockfile_moved,
    lacks_something,
)
from runner.ledger.suppression_file import SUFFIX, lacks_suppressions, unite_books
from runner.ledger.union import unite_lockfiles
from runner.plan.approval_book import ENDING as APPROVALS
from runner.plan.approval_book import lacks_approvals, unite_approvals
from runner.repository.clone import Clone
from runner.repository.git import Git, find_work_tree, hide_credentials
from runner.repository.recording import ASIDE, Change, Recorded, Recorder, find_what_waits, take_what_waits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runner.repository.recording import WaitingCommit

_LOCKFILE = ".lock.json"
_ENDINGS = (_LOCKFILE, SUFFIX, APPROVALS)


@click.command(
    epilog="\b\nExamples:\n  runner record\n  runner record --no-push\n"
    "  runner record campaigns/customer-pulse.yaml --remote origin --branch main"
)
@path_scope
@click.option(
    "--push/--no-push",
    "is_pushed",
    default=True,
    show_default=True,
    help="Push the commit, or leave it here.",
)
@click.option("--remote", default="origin", show_default=True, metavar="NAME", help="Where to push.")
@click.option(
    "--branch", metavar="NAME", help="The branch to record on. Default: the current one; in CI, the job's."
)
@click.option(
    "--fetch",
    "is_fetched",
    is_flag=True,
    help=f"Instead, bring what waits on the branch {ASIDE} into the work tree: a run goes on from it.",
)
def command(scope: Scope, is_pushed: bool, remote: str, branch: str | None, is_fetched: bool) -> int:
    """Commit the record: lockfiles, who is not to be texted, approvals; nothing else. Push the commit.

    Run it after every `runner apply`, whether that has failed or not. If the branch has moved on, the
    commit is made on its new tip. If it takes no push, the commit goes to the branch runner/record,
    which is to be merged. The log of the repository then says what was sent, when and by which run. Each
    file stands for itself: one that cannot be read is left out, with exit code 3.
    """
    if is_fetched and (scope.paths or not is_pushed):
        raise UsageError("--fetch takes all that waits: PATH and --no-push don't go with it")
    clone = _find_clone()
    with clone.hold():
        if is_fetched:
            branch = branch or _choose_branch(clone.git, os.environ)
            taken = take_what_waits(clone, remote, branch, _ENDINGS, partial(_unite, clone.root))
            click.echo(_say_taken(taken))
            return 0
        return _record(clone, scope.paths, remote, branch, is_pushed=is_pushed)


def _record(clone: Clone, paths: Sequence[Path], remote: str, branch: str | None, *, is_pushed: bool) -> int:
    failures = Failures()
    source = remote if is_pushed else None
    recorder = _make_recorder(clone, paths or (DEFAULT_FOLDER,), failures, source)
    if recorder is None:
        click.echo("Nothing to record: there is no lockfile.")
        return 0
    if is_pushed:
        branch = branch or _choose_branch(clone.git, os.environ)
        recorded = recorder.push(remote, branch)
    else:
        recorded = recorder.commit()
    if not failures.is_total:
        _report(recorded, f"{branch} of {hide_credentials(remote)}")
    return failures.find_exit_code(None if failures.is_total else 0)


def _find_clone() -> Clone:
    root = find_work_tree(Path.cwd())
    if root is None:
        raise RunnerError(
            "the current folder is in no git repository",
            hint="run it where the campaigns are kept, or make a repository with `runner init`",
        )
    return Clone(Git(root), root)


def _make_recorder(
    clone: Clone, paths: Sequence[Path], failures: Failures, remote: str | None
) -> Recorder | None:
    """Return what records the files of campaigns' record; None if there are none."""
    git, root = clone.git, clone.root
    files = _leave_out_ignored(git, root, [_place_below(root, file) for file in _iterate_files(paths)])
    if not files:
        return None
    failures.expect(len(files))
    head = git.ask("rev-parse", "--verify", "--quiet", "HEAD").output.strip()
    named = git.ask("config", "user.email").status == 0 or "GIT_COMMITTER_EMAIL" in os.environ
    author = {} if named else choose_author(os.environ)
    describe = partial(_describe, clone, head, remote)
    return Recorder(
        clone,
        files,
        partial(_unite, root),
        partial(_is_older, root),
        describe,
        _ENDINGS,
        partial(_attempt, failures),
        author,
    )


def _attempt(failures: Failures, file: Path, find: Callable[[], Change | None]) -> Change | None:
    """Return what is found for a file; what is wrong with one keeps no other from being recorded."""

    def find_apart() -> Change | None:
        try:
            return find()
        except SuppressionsError as error:
            raise CampaignError(error.message, hint=error.hint) from None

    return failures.attempt_file(file, None, find_apart)


def list_waiting(remote: str, branch: str) -> list[WaitingCommit]:
    """Return the commits of the record that wait to be merged into a branch, the latest first.

    Raises:
        RunnerError: there is no repository, the remote cannot be reached, or the record cannot be read.
    """
    clone = _find_clone()
    return find_what_waits(clone, remote, branch, _ENDINGS, partial(_is_older, clone.root))


def find_branch(environment: Mapping[str, str]) -> str:
    """Return the branch that the record of this clone belongs to: the current one; in CI, the job's.

    Raises:
        RunnerError: there is no repository, or no branch.
    """
    return _choose_branch(_find_clone().git, environment)


def _unite(root: Path, path: str, ours: str, theirs: str) -> str:
    if path.endswith(APPROVALS):
        return unite_approvals(name_target(path), ours, theirs)
    for before, after in ((theirs, ours), (ours, theirs)):
        if _is_moved(root, path, before, after):
            return after
    unite = unite_books if path.endswith(SUFFIX) else unite_lockfiles
    return unite(root / path, ours, theirs)


def _is_older(root: Path, path: str, ours: str, theirs: str) -> bool:
    if path.endswith(APPROVALS):
        return lacks_approvals(before=theirs, after=ours)
    if _is_moved(root, path, theirs, ours):
        return False
    lacks = lacks_suppressions if path.endswith(SUFFIX) else lacks_something
    return lacks(root / path, before=theirs, after=ours)


def _is_moved(root: Path, path: str, before: str, after: str) -> bool:
    """Return whether a text is an earlier one that `runner key rotate` has moved to the key at hand."""
    file = root / path
    ending = SUFFIX if path.endswith(SUFFIX) else _LOCKFILE
    target = file.name.removesuffix(ending).rpartition(".")[2]
    is_moved = are_suppressions_moved if ending == SUFFIX else is_lockfile_moved
    return is_moved(file, before, after, lambda: find_secret(file, target, os.environ))


def _describe(
    clone: Clone, head: str, remote: str | None, tips: Sequence[str], changes: Sequence[Change]
) -> str:
    told = ToldRecord(clone, tips, remote)
    lockfiles = [one for one in changes if one.path.endswith(_LOCKFILE)]
    advances = [Advance.read(clone.root / one.path, one.before, one.after) for one in lockfiles]
    known = told.find_guids({guid: at for advance in advances for guid, at in advance.list_fresh().items()})
    gains = []
    for change, advance in zip(lockfiles, advances, strict=True):
        gains.append(advance.find_gain(known, told.list_versions(change.path, advance)))
        # A campaign that was moved may have two lockfiles in one commit.
        known.update(advance.list_fresh())
    suppressions = [
        find_suppression_gain(clone.root / one.path, one.before, one.after)
        for one in changes
        if one.path.endswith(SUFFIX)
    ]
    approvals = list_approvals(clone.root, changes, gains, os.environ)
    return write_message(gains, suppressions, approvals, head, os.environ)


def _iterate_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of the record of campaigns: of a campaign file its lockfiles, of a folder all in it.

    Those of any target, and the files of suppressions with them. Campaigns are not read: what was sent is
    recorded, whatever they say by now.
    """
    for path in paths:
        if path.is_dir():
            for file in sorted(one for ending in _ENDINGS for one in path.rglob(f"*{ending}")):
                if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
                    yield file
        else:
            yield from (
                file
                for file in sorted(path.parent.iterdir())
                if file.name.startswith(f"{path.stem}.") and file.name.endswith(_LOCKFILE)
            )
    for home in list_homes(paths):
        yield from sorted(home.glob(f"*{SUFFIX}"))
        yield from find_books(home)


def _place_below(root: Path, file: Path) -> Path:
    real = file.resolve()
    if not real.is_relative_to(root):
        raise UsageError(f"{show_path(file)} is outside the git repository of the current folder")
    return real


def _leave_out_ignored(git: Git, root: Path, files: Sequence[Path]) -> list[Path]:
    """Return the files that git keeps: the sandbox's lockfiles record texts that nobody got."""
    names = [file.relative_to(root).as_posix() for file in dict.fromkeys(files)]
    listed = "".join(f"{name}\0" for name in names)
    ignored = git.ask("check-ignore", "-z", "--stdin", text=listed).output.split("\0")
    return [root / name for name in names if name not in ignored]


def _choose_branch(git: Git, environment: Mapping[str, str]) -> str:
    current = git.ask("symbolic-ref", "--quiet", "--short", "HEAD")
    if current.status == 0:
        return current.output.strip()
    if environment.get("GITHUB_REF_TYPE") == "branch" and environment.get("GITHUB_REF_NAME"):
        return environment["GITHUB_REF_NAME"]
    if environment.get("CI_COMMIT_BRANCH"):
        return environment["CI_COMMIT_BRANCH"]
    raise UsageError(
        "the work tree is on no branch (a detached HEAD)", hint="name the one to record on with --branch"
    )


def _say_taken(taken: Sequence[str]) -> str:
    if not taken:
        return f"Nothing waits on the branch {ASIDE}."
    return f"Taken from the branch {ASIDE}, which is to be merged: {', '.join(taken)}."


def _report(recorded: Recorded, place: str) -> None:
    subject = recorded.message.partition("\n")[0]
    if recorded.refusal is not None:
        what = f"{subject}: it is" if recorded.commit else "what is new is already"
        text = (
            f"{place} takes no push from here ({recorded.refusal}). {what} on the branch {recorded.branch}, "
            "which is to be merged; until then the service tells the next run what was sent"
        )
        warn(text)
        if os.environ.get("GITHUB_ACTIONS") == "true":
            # The job succeeds, and nobody reads the log of one that does.
            write_command(job_warning("The record is to be merged", text))
    elif recorded.commit is None:
        click.echo("Nothing to record: the lockfiles are as they were.")
    elif recorded.branch is None:
        click.echo(f"Committed: {subject} ({recorded.commit[:10]}).")
    else:
        click.echo(f"Pushed to {place}: {subject} ({recorded.commit[:10]}).")
        if not recorded.is_followed:
            note("This clone has commits or changes of its own: `git stash`, `git pull`, `git stash pop`.")
