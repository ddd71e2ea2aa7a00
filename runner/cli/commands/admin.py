"""`runner doctor`, `runner key` and `runner ledger`: the care of an installation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from runner.cli.command import Command, Group
from runner.cli.confirmation import APPROVAL, require_approval
from runner.cli.console import print_json, print_prose
from runner.cli.encoding import print_text
from runner.cli.options import FILE, LOCK_TIMEOUT, common_scope, format_option, region_option, target_scope
from runner.cli.output.screen import show
from runner.service.target import make_state_key
from runner.view.blocks import Sentence
from runner.wording import count_words
from runner.workflow.campaigns import show_path
from runner.workflow.doctor import examine
from runner.workflow.records.ledger_copy import copy_records

if TYPE_CHECKING:
    from pathlib import Path

    from runner.workflow.doctor import Examination
    from runner.workflow.scope import Scope


_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command(cls=Command)
@target_scope
@format_option("human", "json")
def doctor(scope: Scope, format_: str) -> int:
    """Show what is configured, what can be reached, and how clocks agree.

    It changes nothing and sends nothing. It writes no secret and no phone number: paste it into a bug report.
    Exits with 1 if something does not work.

    Examples:
        runner doctor
        runner doctor --target live --format json
    """
    examination = examine(scope)
    if format_ == "json":
        print_json(examination)
    else:
        _print_checks(examination)
    return int(examination.has_failed)


def _print_checks(examination: Examination) -> None:
    print_prose("\n".join([*examination.versions, ""]))
    for check in examination:
        state = click.style(f"{check.state:8}", fg=_COLOURS[check.state])
        print_prose(f"{state}{check.name:10} {check.found}")
        if check.hint and check.state != "ok":
            print_prose(f"{'':19}{check.hint}")


@click.group(cls=Group)
def key() -> None:
    """Create state keys, and move records to a new key.

    A state key (RUNNER_STATE_KEY) makes the fingerprints in lockfiles and signs their lines. Without it,
    nobody can guess phones from fingerprints or change a line unnoticed.

    Example:
        runner key new | gh secret set RUNNER_STATE_KEY --env campaigns
    """


@key.command()
def new() -> int:
    """Print a new state key: 32 random bytes.

    Keep it with your other secrets, and keep a second copy: if it is lost, nothing recorded with it can be
    sent any further.

    Example:
        runner key new
    """
    print_text(make_state_key())
    return 0


@key.command()
@target_scope
@click.option(
    "--phones",
    "files",
    multiple=True,
    type=FILE,
    help="A CSV file with phones of recorded people; may be repeated.",
)
@click.option("--phone-column", default="phone", metavar="NAME", help="The column of the phones.")
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

    Example:
        RUNNER_OLD_STATE_KEY=… RUNNER_STATE_KEY=… runner key rotate --target live
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


@click.group(cls=Group, name="ledger")
def ledger() -> None:
    """Copy the ledger to another database.

    Back it up by the database's own means: `VACUUM INTO` of SQLite, `pg_dump` of PostgreSQL. With `lockfile:
    counts` in a campaign, only the ledger knows who was texted: back it up after each run.
    """


@ledger.command()
@click.option("--from", "source", required=True, metavar="URL", help="The database of the ledger to copy.")
@common_scope
@format_option("human", "json")
def copy(scope: Scope, source: str, format_: str) -> int:
    r"""Fill an empty ledger from another one.

    Copies the ledger at --from, as of one moment, into that of --ledger, completely or not at all. SQLite and
    PostgreSQL can be copied into each other. End all runs first, and use only the copy from then on.

    Example:
        runner ledger copy --from sqlite:///.runner/ledger.sqlite \
          --ledger postgresql://ledger.example.com/campaigns
    """
    done = copy_records(scope, source)
    parts = [
        count_words(done.rows["campaigns"], "campaign"),
        count_words(done.rows["launches"], "launch", "launches"),
        count_words(done.rows["deliveries"], "delivery", "deliveries"),
        count_words(done.rows["results"], "result"),
    ]
    show(done, format_, [Sentence(f"Copied {done.source} to {done.ledger}: {', '.join(parts)}.")])
    return 0
