"""The ledger as files: export and import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.errors import LedgerError
from runner.ledger.maintenance.ledger_export import export_ledger, import_ledger
from runner.ledger.record.campaign_record import find_campaign_id
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from runner.ledger.database import Ledger
    from runner.ledger.maintenance.ledger_export import Export
    from runner.workflow.scope import Scope


def export_records(scope: Scope, folder: Path) -> Export:
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
        return export_ledger(ledger, folder, workspace.now_text(), chosen)


def import_records(scope: Scope, folder: Path) -> Export:
    """Fill an empty ledger from an exported folder, all or nothing.

    Raises:
        LedgerError: the ledger is not empty, or the files were changed.
    """
    workspace = Workspace.open(scope)
    with workspace.open_bare_ledger() as ledger:
        entered = import_ledger(ledger, folder)
        workspace.suppressions.write(ledger)
    return entered


def _find_chosen(scope: Scope, workspace: Workspace, ledger: Ledger) -> list[int]:
    campaigns = scope.load_valid_campaigns()
    found = [find_campaign_id(ledger, workspace.identify(campaign)) for campaign in campaigns]
    return [number for number in found if number is not None]
