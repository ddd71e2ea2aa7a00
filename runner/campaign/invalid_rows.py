"""Rows of an audience file that cannot be read: errors, or left out, counted and warned of."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runner.campaign.recipients import FileRecipients
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.audience_rows import Entry
    from runner.campaign.recipients import RecipientSource
    from runner.source.diagnostic import Diagnostic


class RowProblems(Problems):
    """Receives what is wrong with the rows of one source; where they are left out, errors become warnings.

    Args:
        source: whose rows.
        target: receives it all.

    Attributes:
        rows: how many rows there were, once all were read.
        invalid: of them, those that are left out.
    """

    def __init__(self, source: RecipientSource, target: Problems) -> None:
        super().__init__()
        self._target = target
        self._is_skipping = isinstance(source, FileRecipients) and source.skips_invalid
        self.rows = 0
        self.invalid = 0
        self._last = 0

    def add(self, diagnostic: Diagnostic) -> None:
        """Pass on one problem. Those of a row come before those of the next."""
        if self._is_skipping and diagnostic.severity == "error":
            self.invalid += diagnostic.line != self._last
            self._last = diagnostic.line
            message = f"{diagnostic.message}: the row is left out"
            diagnostic = replace(diagnostic, severity="warning", message=message)
        self._target.add(diagnostic)

    def is_left_out(self, line: int) -> bool:
        """Return whether the row in a line, the last one that was read, is left out."""
        return line == self._last

    def iterate(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        """Yield the entries of rows, and count them with those that are left out before they become one."""
        yielded = yielded_wrong = 0
        for entry in entries:
            yield entry
            yielded += 1
            yielded_wrong += entry[1] == self._last
        self.rows = yielded + self.invalid - yielded_wrong
