"""Copying a ledger to another database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.document import Count, Document
from runner.errors import LedgerError
from runner.ledger.database import Ledger, show_url
from runner.ledger.maintenance import copy_ledger
from runner.workflow.workspace.folders import make_state_folder
from runner.workflow.workspace.workspace import default_ledger_url

if TYPE_CHECKING:
    from runner.workflow.scope import Scope


class LedgerCopy(Document, frozen=True):
    """The document that `runner ledger copy` writes with `--format json`.

    Attributes:
        source: the URL of the ledger that was copied, without its password.
        ledger: the URL of the copy, without its password.
        rows: how many rows each table has, by its name.
    """

    source: str
    ledger: str
    rows: dict[str, Count]


def copy_records(scope: Scope, source_url: str) -> LedgerCopy:
    """Fill the empty ledger of a scope from another one, all or nothing."""
    url = scope.ledger or default_ledger_url()
    missing = LedgerError(f"there is no ledger {show_url(source_url)}", hint="check --from")
    if not Ledger.exists(source_url):
        raise missing
    with Ledger(source_url) as source:
        if not source.is_ready():
            raise missing
        if scope.ledger is None:
            make_state_folder()
        with Ledger(url) as ledger:
            ledger.prepare()
            return LedgerCopy(show_url(source_url), show_url(url), copy_ledger(source, ledger))
