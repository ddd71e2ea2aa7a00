"""`runner key`: new state keys, and moves of records to them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.command import Group
from runner.cli.confirmation import APPROVAL, require_approval
from runner.cli.encoding import print_text
from runner.cli.options import LOCK_TIMEOUT, region_option, target_scope
from runner.service.target import make_state_key
from runner.workflow.campaigns import show_path

if TYPE_CHECKING:
    from runner.workflow.scope import Scope


@click.group(
    cls=Group, epilog="\b\nExample:\n  runner key new | gh secret set RUNNER_STATE_KEY --env campaigns"
)
def command() -> None:
    """Create state keys, and move records to a new key.

    A state key (RUNNER_STATE_KEY) makes the fingerprints in lockfiles and signs their lines. Without it,
    nobody can guess phones from fingerprints or change a line unnoticed.
    """


@command.command(epilog="\b\nExample:\n  runner key new")
def new() -> int:
    """Print a new state key: 32 random bytes.

    Keep it with your other secrets, and keep a second copy: if it is lost, nothing recorded with it can be
    sent any further.
    """
    print_text(make_state_key())
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
    help="A CSV file with phones of recorded people; may be repeated.",
)
@click.option(
    "--phone-column", default="phone", show_default=True, metavar="NAME", help="The column of the phones."
)
@region_option
@LOCK_TIMEOUT
@APPROVAL
def rotate(
    scope: Scope,
    files: tuple[Path, ...],
    phone_column: str,
    region: str | None,
    lock_timeout_s: float,
    auto_approve: bool,
) -> int:
    """Move a target's records to a new state key.

    All records are moved, or none. The new key is in RUNNER_STATE_KEY, and the one that the records were made
    with in RUNNER_OLD_STATE_KEY, which stays unset for records made without one. Fingerprints cannot be
    turned back into phones, so the phones are taken from audiences, from --phones, and from the service's
    lists of launches.

    If the move is interrupted, run it again. `runner ci record`, with both keys still set, commits what was
    moved. Git's history keeps what was made with the old key.
    """
    # Imported here: `key new` needs none of it.
    from runner.workflow.records.key_rotation import rotate_key
    from runner.workflow.records.phones import PhoneReading

    rotated = rotate_key(
        scope,
        files,
        PhoneReading(phone_column, region),
        lock_timeout_s,
        partial(require_approval, is_approved=auto_approve),
    )
    for file in rotated.changed:
        print_text(f"{show_path(file)}: rewritten; commit it.")
    print_text(f"All records of {rotated.target} are under this key, and signed.")
    return int(rotated.is_behind)
