"""Traces of audiences, which show later whether they still say the same of people."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from runner.audience.rows import read_header
from runner.audience.table import normalize_name
from runner.campaign.model import FileRecipients
from runner.document import Part
from runner.source.storage import iterate_content

if TYPE_CHECKING:
    from runner.campaign.model import Campaign


class AudienceTrace(Part, frozen=True, array_like=True):
    """The columns of an audience's files, by their names for comparison, and a digest of what it holds."""

    columns: tuple[str, ...]
    digest: str

    def add_columns(self, before: AudienceTrace) -> AudienceTrace:
        """Return it with the columns of an earlier one, too: texts may have used them."""
        return self.replace(columns=tuple(sorted({*self.columns, *before.columns})))


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
    return AudienceTrace(tuple(sorted(columns)), digest.hexdigest())
