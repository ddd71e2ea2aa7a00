"""The ledger as files: export and import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from runner.document import Count, Document, Moment, Part
from runner.errors import LedgerError
from runner.ledger.maintenance.ledger_export import export_ledger, import_ledger
from runner.ledger.record.campaign_record import find_campaign_id
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from runner.ledger.database import Ledger
    from runner.ledger.maintenance.ledger_export import Export
    from runner.workflow.scope import Scope


class ExportedCampaign(Part, frozen=True):
    """A campaign of an export.

    Attributes:
        target: the target's name.
        name: the campaign's name.
    """

    target: str
    name: str


class LedgerFiles(Document, frozen=True):
    """What the commands of `runner ledger` write with `--format json`.

    Attributes:
        command: what was asked for.
        folder: where the export is.
        exported_at: when it was made: UTC, ISO 8601.
        campaigns: those in it, sorted.
        rows: how many rows each table has, by its name.
    """

    command: Literal["export", "import"]
    folder: str
    exported_at: Moment
    campaigns: tuple[ExportedCampaign, ...]
    rows: dict[str, Count]

    @classmethod
    def of(cls, command: Literal["export", "import"], folder: Path, export: Export) -> LedgerFiles:
        """Return the document of an export."""
        campaigns = tuple(ExportedCampaign(*one) for one in export.campaigns)
        return cls(command, str(folder), export.exported_at, campaigns, export.count())


def export_records(scope: Scope, folder: Path) -> LedgerFiles:
    """Export the ledger, or the scope's campaigns in it, to a new folder.

    Raises:
        LedgerError: there is no ledger, or it cannot be read or written.
    """
    workspace = Workspace.open(scope)
    with workspace.open_ledger_if_present() as ledger:
        if ledger is None:
            raise LedgerError(
                "there is no ledger to export",
                hint="check --ledger and RUNNER_LEDGER; `runner apply` makes one",
            )
        chosen = _find_chosen(scope, workspace, ledger) if scope.paths else None
        return LedgerFiles.of("export", folder, export_ledger(ledger, folder, workspace.now_text(), chosen))


def import_records(scope: Scope, folder: Path) -> LedgerFiles:
    """Fill an empty ledger from an exported folder, all or nothing.

    Raises:
        LedgerError: the ledger is not empty, or the files were changed.
    """
    workspace = Workspace.open(scope)
    with workspace.open_bare_ledger() as ledger:
        entered = import_ledger(ledger, folder)
        workspace.suppressions.write(ledger)
    return LedgerFiles.of("import", folder, entered)


def _find_chosen(scope: Scope, workspace: Workspace, ledger: Ledger) -> list[int]:
    campaigns = scope.load_valid_campaigns()
    found = [find_campaign_id(ledger, workspace.identify(campaign)) for campaign in campaigns]
    return [number for number in found if number is not None]
