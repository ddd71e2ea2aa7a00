"""Plans of campaigns made from the files that people would write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.campaign.load import load_campaign

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.campaign.model import Campaign


@pytest.fixture
def campaign(tmp_path: Path) -> Callable[..., Campaign]:
    """Return the campaign that a campaign file describes, beside the CSV files given by name."""

    def load(yaml: str, **tables: str) -> Campaign:
        for name, table in tables.items():
            (tmp_path / f"{name}.csv").write_text(table, encoding="utf-8")
        file = tmp_path / "campaign.yaml"
        file.write_text(yaml, encoding="utf-8")
        loaded, problems = load_campaign(file, current=tmp_path)
        assert loaded is not None, problems
        return loaded

    return load
