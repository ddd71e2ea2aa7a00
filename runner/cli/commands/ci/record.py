"""`runner ci record`: commits of lockfiles, suppressions and approvals, and their push."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Command
from runner.cli.console import print_prose
from runner.cli.options import path_scope
from runner.errors import UsageError
from runner.workflow.observer import note
from runner.workflow.records.record_push import fetch_record, push_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.workflow.records.recording import Recorded
    from runner.workflow.scope import Scope


@click.command(short_help="Commit and push lockfiles, opt-outs, approvals.", cls=Command)
@path_scope
@click.option("--push/--no-push", "is_pushed", default=True, help="Push the commit, or keep it local.")
@click.option("--remote", default="origin", metavar="NAME", help="The git remote to push to.")
@click.option(
    "--branch", metavar="NAME", help="The branch to commit to. Default: the current one; in CI, the job's."
)
@click.option(
    "--fetch", "is_fetched", is_flag=True, help="Instead, copy what the state remote has into the work tree."
)
def record(scope: Scope, is_pushed: bool, remote: str, branch: str | None, is_fetched: bool) -> int:
    """Commit the record, and push it: lockfiles, suppressions and approvals, nothing else.

    Run it after every `runner apply`, even if that failed. What the state remote has is copied to the branch,
    for people: git's log tells what was sent, when, and by which run. If the branch has moved on, the commit
    is made on its new tip. Author, signature and filters are those that git is set up with. A branch that
    takes no push is left as it is, if the state remote has everything; without one that is an error. A file
    that cannot be read is left out, with exit code 3.

    Examples:
        runner ci record
        runner ci record --no-push
        runner ci record campaigns/customer-pulse.yaml --remote origin --branch main
    """
    if is_fetched and (scope.paths or not is_pushed):
        raise UsageError("--fetch takes everything: PATH and --no-push don't go with it")
    if is_fetched:
        show_fetched(fetch_record(scope, remote))
        return 0
    recorded = push_record(scope, remote, branch, is_pushed=is_pushed)
    show_recorded(recorded)
    return recorded.code


def show_fetched(files: Sequence[str]) -> None:
    """Write which files were taken from the state remote."""
    print_prose(
        f"Copied from the state remote: {', '.join(files)}." if files else "There is nothing to copy."
    )


def show_recorded(recorded: Recorded) -> None:
    """Write what was recorded, and where."""
    subject = recorded.message.partition("\n")[0]
    if not recorded.has_files:
        print_prose("Nothing to record: there is no lockfile.")
    elif recorded.refusal is not None:
        print_prose(
            f"{recorded.place} takes no push from here ({recorded.refusal}). The record is on "
            f"{', '.join(recorded.refs)}, where every command finds it; for people, `runner ci record "
            "--branch NAME` puts it on a branch that can be merged."
        )
    elif recorded.commit is None and not recorded.is_failed:
        print_prose("Nothing to record: the lockfiles are unchanged.")
    elif recorded.commit is not None and not recorded.place:
        print_prose(f"Committed: {subject} ({recorded.commit[:10]}).")
    elif recorded.commit is not None:
        print_prose(f"Pushed to {recorded.place}: {subject} ({recorded.commit[:10]}).")
        if not recorded.is_followed:
            note("This clone has commits or changes of its own: `git stash`, `git pull`, `git stash pop`.")
