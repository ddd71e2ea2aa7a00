"""Traces of audiences, which show later whether they still say the same of people."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.audience.rows import read_header
from runner.audience.table import normalize_name
from runner.campaign.model import FileRecipients
from runner.source.storage import iterate_content

if TYPE_CHECKING:
    from runner.campaign.model import Campaign


@dataclass(frozen=True, slots=True)
class AudienceTrace:
    """The columns of an audience's files, by their names for comparison, and a digest of what it holds."""

    columns: frozenset[str]
    digest: str

    def write(self) -> str:
        """Return it as text, for the ledger."""
        return json.dumps([sorted(self.columns), self.digest])

    def add_columns(self, before: AudienceTrace | None) -> AudienceTrace:
        """Return it with the columns of an earlier one, too: texts may have used them."""
        return self if before is None else AudienceTrace(self.columns | before.columns, self.digest)


def read_trace(text: str | None) -> AudienceTrace | None:
    """Return a trace from its text; None for none."""
    if text is None:
        return None
    columns, digest = json.loads(text)
    return AudienceTrace(frozenset(columns), digest)


def trace_audience(campaign: Campaign) -> AudienceTrace:
    """Return what the audience is like now.

    Of files at URLs only the columns are traced: reading them again may take long. Files that cannot be read
    have no columns.
    """
    columns: set[str] = set()
    digest = hashlib.sha256()
    for source in campaign.recipients:
        if not isinstance(source, FileRecipients):
            digest.update(json.dumps(dict(source.vars), default=str, sort_keys=True).encode())
            continue
        columns |= set(map(normalize_name, read_header(source)))
        if source.url is None:
            try:
                for part in iterate_content(source.location):
                    digest.update(part)
            except OSError:
                digest.update(b"unreadable")
    return AudienceTrace(frozenset(columns), digest.hexdigest())
