"""`runner ledger`: the ledger as files, for backups, analysis, and moves to another database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.console import print_prose, show
from runner.cli.options import Group, format_option, ledger_scope, recorded_scope
from runner.wording import count_words
from runner.workflow.records.ledger_files import export_records, import_records

if TYPE_CHECKING:
    from runner.workflow.records.ledger_files import LedgerFiles
    from runner.workflow.scope import Scope

_NEW = click.Path(path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group(cls=Group, name="ledger")
def command() -> None:
    """Export the ledger to Parquet files, or import it.

    Use it for backups, for analysis, or to move to another database. With `lockfile: summary` in a campaign,
    only the ledger knows who was texted: export it after each run, and keep the export somewhere else.
    """


@command.command(
    epilog="\b\nExamples:\n  runner ledger export backup/2026-11-21\n"
    "  runner ledger export pulse campaigns/customer-pulse.yaml --target live --format json",
)
@click.argument("folder", type=_NEW, metavar="DIR")
@recorded_scope
@format_option("human", "json")
def export(scope: Scope, folder: Path, format_: str) -> int:
    """Export the ledger to a new folder.

    Writes the ledger as of one moment to DIR: all of it, or the campaigns at PATH. Each table becomes one or
    more files, and manifest.json has their row counts and digests. The export has no phones, but it has
    people's answers and, without a RUNNER_STATE_KEY, the salt of the fingerprints, with which phones can be
    found by trying. Only the current user can read the folder.
    """
    show(export_records(scope, folder), format_, {"human": _write_human})
    return 0


@command.command(
    "import",
    epilog="\b\nExample:\n  runner ledger import backup/2026-11-21 --ledger postgresql://runner@db/ledger",
)
@click.argument("folder", type=_FOLDER, metavar="DIR")
@ledger_scope
@format_option("human", "json")
def import_(scope: Scope, folder: Path, format_: str) -> int:
    """Fill an empty ledger from an export.

    DIR is a folder from `runner ledger export`, with unchanged files. It is imported completely or not at
    all. Texts sent after the export are missing: the next `runner apply` asks the service about them before
    it sends or, if a lockfile has only totals, refuses an export that is too old.
    """
    show(import_records(scope, folder), format_, {"human": _write_human})
    return 0


def _write_human(files: LedgerFiles) -> None:
    parts = [
        count_words(len(files.campaigns), "campaign"),
        count_words(files.rows.get("launches", 0), "launch", "launches"),
        count_words(files.rows.get("deliveries", 0), "delivery", "deliveries"),
        count_words(files.rows.get("results", 0), "result"),
    ]
    said = "Wrote" if files.command == "export" else "Entered from"
    print_prose(f"{said} {files.folder}: {', '.join(parts)}.")
