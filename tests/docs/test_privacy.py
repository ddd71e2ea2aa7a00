"""The page on privacy says where each kind of data is."""

from __future__ import annotations

import re
from pathlib import Path

from runner.ledger.tables import metadata

PAGE = Path(__file__).parents[2] / "docs/privacy.md"
NO_DATA_OF_PEOPLE = {
    "campaigns",
    "campaign_pauses",
    "dismissed_launches",
    "former_names",
    "locks",
    "result_revisions",
    "runs",
}
"""Tables of names, guids and moments of campaigns and runs."""


def test_every_table_is_classified() -> None:
    """A table of the ledger is on the page, or holds nothing of people: a new one needs a decision."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    named = set(re.findall(r"`([a-z_]+)`", "\n".join(rows)))
    tables = set(metadata.tables)
    assert tables - NO_DATA_OF_PEOPLE <= named
    assert tables >= NO_DATA_OF_PEOPLE
