"""`runner ledger`: the ledger as files, to be kept, analysed, or brought to another database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from runner.cli.console import count_words, print_json
from runner.cli.scope import Scope, format_option, ledger_scope, recorded_scope
from runner.cli.workspace import Workspace
from runner.errors import LedgerError
from runner.ledger.export import export_ledger
from runner.ledger.record import find_campaign_id
from runner.ledger.restoring import import_ledger

if TYPE_CHECKING:
    from runner.ledger.database import Ledger
    from runner.ledger.export_manifest import Export

_NEW = click.Path(path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group(name="ledger")
def command() -> None:
    """The ledger as Parquet files: a backup, a move to another database, or for analysis.

    With `lockfile: summary` in a campaign the ledger alone knows who was texted: export it after each run,
    and keep the export where the ledger is not.
    """


@command.command(
    short_help="Write the ledger to a folder of Parquet files.",
    epilog="\b\nExamples:\n  runner ledger export backup/2026-11-21\n"
    "  runner ledger export pulse campaigns/customer-pulse.yaml --target live --format json",
)
@click.argument("folder", type=_NEW, metavar="DIR")
@recorded_scope
@format_option("human", "json")
def export(scope: Scope, folder: Path, format_: str) -> int:
    """Write the ledger as of one moment to DIR, a new folder: all of it, or the campaigns at PATH.

    Each table is there as one or more files, with a manifest.json of their rows and digests. There are no
    phones in them. There are people's answers, and without a RUNNER_STATE_KEY the salt of the fingerprints,
    with which phones can be found out by trying: nobody but this user can read the folder.
    """
    workspace = Workspace.open(scope, needs_credentials=False)
    with workspace.open_ledger_if_present() as ledger:
        if ledger is None:
            raise LedgerError(
                "there is no ledger to export",
                hint="check --ledger and RUNNER_LEDGER; `runner apply` makes one",
            )
        chosen = _find_chosen(scope, workspace, ledger) if scope.paths else None
        written = export_ledger(ledger, folder, workspace.now_text(), chosen)
    _show("export", folder, written, format_)
    return 0


@command.command(
    "import",
    short_help="Fill an empty ledger from an export.",
    epilog="\b\nExample:\n  runner ledger import backup/2026-11-21 --ledger postgresql://runner@db/ledger",
)
@click.argument("folder", type=_FOLDER, metavar="DIR")
@ledger_scope
@format_option("human", "json")
def import_(scope: Scope, folder: Path, format_: str) -> int:
    """Fill an empty ledger from DIR, which `runner ledger export` has written, all or nothing.

    The files must be as they were written. What was sent since is not in them: the next `runner apply` asks
    the service for it before it sends, or, by a lockfile that sums up, refuses an export that is too old.
    """
    workspace = Workspace.open(scope, needs_credentials=False)
    with workspace.open_bare_ledger() as ledger:
        entered = import_ledger(ledger, folder)
        workspace.suppressions.write(ledger)
    _show("import", folder, entered, format_)
    return 0


def _find_chosen(scope: Scope, workspace: Workspace, ledger: Ledger) -> list[int]:
    campaigns = scope.load_valid_campaigns()
    found = [find_campaign_id(ledger, workspace.identify(campaign)) for campaign in campaigns]
    return [number for number in found if number is not None]


def _show(name: Literal["export", "import"], folder: Path, export: Export, format_: str) -> None:
    counts = export.count()
    if format_ == "json":
        print_json(
            {
                "format_version": "1.0",
                "command": name,
                "folder": str(folder),
                "exported_at": export.exported_at,
                "campaigns": [{"target": target, "name": one} for target, one in export.campaigns],
                "rows": counts,
            }
        )
        return
    parts = [
        count_words(len(export.campaigns), "campaign"),
        count_words(counts.get("launches", 0), "launch", "launches"),
        count_words(counts.get("deliveries", 0), "delivery", "deliveries"),
        count_words(counts.get("results", 0), "result"),
    ]
    said = "Wrote {}: {}." if name == "export" else "Entered from {}: {}."
    click.echo(said.format(folder, ", ".join(parts)))
