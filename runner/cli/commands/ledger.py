"""`runner ledger`: move the ledger to another database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Group
from runner.cli.console import print_prose, show
from runner.cli.options import common_scope, format_option
from runner.wording import count_words
from runner.workflow.records.ledger_copy import copy_records

if TYPE_CHECKING:
    from runner.workflow.records.ledger_copy import LedgerCopy
    from runner.workflow.scope import Scope


@click.group(cls=Group, name="ledger")
def command() -> None:
    """Copy the ledger to another database.

    Back it up by the database's own means: `VACUUM INTO` of SQLite, `pg_dump` of PostgreSQL. With `lockfile:
    counts` in a campaign, only the ledger knows who was texted: back it up after each run.
    """


@command.command()
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
    show(copy_records(scope, source), format_, {"human": _print_copy})
    return 0


def _print_copy(copy: LedgerCopy) -> None:
    parts = [
        count_words(copy.rows["campaigns"], "campaign"),
        count_words(copy.rows["launches"], "launch", "launches"),
        count_words(copy.rows["deliveries"], "delivery", "deliveries"),
        count_words(copy.rows["results"], "result"),
    ]
    print_prose(f"Copied {copy.source} to {copy.ledger}: {', '.join(parts)}.")
