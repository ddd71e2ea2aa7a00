"""`runner key`: makes state keys, and moves records to them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.approval import APPROVAL, require_approval
from runner.cli.campaigns import DEFAULT_FOLDER, show_path
from runner.cli.console import note
from runner.cli.diagnostics import refuse_errors
from runner.cli.duration import DURATION
from runner.cli.holder import describe_this_run
from runner.cli.phone_list import iterate_phones
from runner.cli.record import find_branch, list_waiting
from runner.cli.reserving import Reserving
from runner.cli.scope import Scope, target_scope
from runner.cli.workspace import Workspace
from runner.errors import ConfigurationError, RunnerError
from runner.ledger.lock import hold_campaign_lock
from runner.ledger.screening import list_recorded_campaigns
from runner.ledger.translation import Translation
from runner.repository.git import Git, find_work_tree, hide_credentials
from runner.repository.recording import ASIDE
from runner.service.state_key import OLD_STATE_KEY, make_state_key, read_old_state_key
from runner.service.target import list_variables
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.campaign.model import Campaign
    from runner.cli.rotating import Rotation
    from runner.cli.suppressions import SuppressionFiles
    from runner.ledger.database import Ledger


@click.group(epilog="\b\nExample:\n  runner key new | gh secret set RUNNER_STATE_KEY --env campaigns")
def command() -> None:
    """Make state keys, and move records to a new one.

    A state key (RUNNER_STATE_KEY) makes the fingerprints in lockfiles, which nobody can guess phones from
    without it, and signs their lines, which nobody can change without it.
    """


@command.command(epilog="\b\nExample:\n  runner key new")
def new() -> int:
    """Print a good state key: 32 random bytes.

    Keep it where secrets are kept, and a copy where it cannot be lost: without it nothing more can be sent
    of what was recorded with it.
    """
    click.echo(make_state_key())
    return 0


@command.command(
    epilog="\b\nExample:\n  RUNNER_OLD_STATE_KEY=… RUNNER_STATE_KEY=… runner key rotate --target live"
)
@target_scope
@click.option(
    "--phones",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A CSV file with phones of people on record; may be repeated.",
)
@click.option(
    "--phone-column", default="phone", show_default=True, metavar="NAME", help="The column that has them."
)
@click.option("--region", metavar="CC", help="The country of numbers in national form, as in US.")
@click.option(
    "--lock-timeout",
    type=DURATION,
    default="0s",
    show_default=True,
    metavar="TIME",
    help="How long to wait for runs that are sending.",
)
@APPROVAL
def rotate(
    scope: Scope,
    files: tuple[Path, ...],
    phone_column: str,
    region: str | None,
    lock_timeout: float,
    auto_approve: bool,
) -> int:
    """Move the records of a target to the key in RUNNER_STATE_KEY, all of them or none.

    The key that they were made with is in RUNNER_OLD_STATE_KEY; records that were made without one have a
    salt. Fingerprints cannot be turned back into phones: these are taken from audiences, from --phones, and
    from the service's lists of what was sent. With the same key in both variables fingerprints stay as they
    are, those that were made with a salt, too, and only what has no MAC yet is signed.

    As long as a record waits on the branch runner/record nothing is moved: versions under two keys cannot be
    united. Run it again if it was broken off. What git's history has of the old key stays there.
    """
    workspace = Workspace.open(scope)
    translation = _make_translation(workspace)
    _require_merged(scope.state_remote or "origin")
    campaigns = scope.load_valid_campaigns() if scope.paths or DEFAULT_FOLDER.exists() else ()
    problems = Problems()
    phones = [phone for file in files for phone in iterate_phones(file, phone_column, region, problems)]
    refuse_errors(problems, quiet=scope.quiet)
    with workspace.open_bare_ledger() as ledger, ExitStack() as stack:
        reserving = Reserving(workspace, ledger)
        reserving.hold(stack, lock_timeout, quiet=scope.quiet)
        _hold_locks(stack, workspace, ledger, campaigns, lock_timeout)
        # Imported here: what `key new` does without.
        from runner.cli.rotating import Rotation

        rotation = Rotation(workspace, ledger, campaigns, translation)
        changed = _move(rotation, workspace.suppressions, ledger, phones, is_approved=auto_approve)
    for file in changed:
        click.echo(f"{show_path(file)}: written anew; commit it.")
    click.echo(f"All records of {workspace.target.name} are under this key, and signed.")
    return int(reserving.is_behind)


def _move(
    rotation: Rotation,
    suppressions: SuppressionFiles,
    ledger: Ledger,
    phones: Sequence[str],
    *,
    is_approved: bool,
) -> list[Path]:
    """Move records to the key, after asking; return the files that have changed."""
    suppressions.absorb_old(
        ledger,
        read_old_state_key(os.environ),
        lambda file: require_approval(
            f"Sign all of {file}, which no key has signed?", is_approved=is_approved
        ),
    )
    rotation.gather()
    rotation.match(phones)
    changed = []
    if not rotation.is_empty():
        _ask(rotation, is_approved=is_approved)
        changed = rotation.write()
    return [*changed, *suppressions.replace(ledger)]


def _require_merged(remote: str) -> None:
    """Refuse to leave a version behind that waits under the old key."""
    root = find_work_tree(Path.cwd())
    if root is None or Git(root).ask("remote", "get-url", "--", remote).status:
        return
    branch = find_branch(os.environ)
    if list_waiting(remote, branch):
        raise RunnerError(
            f"nothing was changed: a record waits on the branch {ASIDE} of {hide_credentials(remote)}, and "
            "versions under two keys cannot be united",
            hint=f"merge it into {branch}, `git pull`, and run this again",
        )


def _make_translation(workspace: Workspace) -> Translation:
    target = workspace.target
    variable = list_variables(target.name, workspace.targets)[2]
    if target.state_key is None:
        raise ConfigurationError(
            f"there is no key to move records to: {variable} is not set",
            hint=f"`runner key new` prints one: put it into {variable}, and the old one, if there is one, "
            f"into {OLD_STATE_KEY}",
        )
    return Translation(target.name, target.state_key, read_old_state_key(os.environ))


def _hold_locks(
    stack: ExitStack, workspace: Workspace, ledger: Ledger, campaigns: Sequence[Campaign], timeout_s: float
) -> None:
    """Hold the locks of all campaigns of the target that are known."""
    target = workspace.target.name
    names = {name for one in campaigns for name in (one.name, *one.renamed_from)}
    with ledger.reading() as connection:
        names.update(name for recorded, name in list_recorded_campaigns(connection) if recorded == target)
    if names:
        holder = describe_this_run(workspace.now_text())
        stack.enter_context(hold_campaign_lock(ledger, target, names, holder, timeout_s=timeout_s))


def _ask(rotation: Rotation, *, is_approved: bool) -> None:
    for sentence in rotation.describe():
        note(sentence)
    require_approval("Go ahead?", is_approved=is_approved)
