"""Campaigns and texts made from the files that people would write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.campaign.load import load_campaign
from runner.campaign.message_model import TemplateText
from runner.source.diagnostic import Position

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.campaign.model import Campaign


@pytest.fixture
def text(tmp_path: Path) -> Callable[[str], TemplateText]:
    """Return a template as it would stand in one line of a campaign file."""

    def make_text(source: str) -> TemplateText:
        return TemplateText(source, Position(tmp_path / "campaign.yaml", 3, 5), 3, 5, is_block=False)

    return make_text


@pytest.fixture
def campaign(tmp_path: Path) -> Callable[[str], Campaign]:
    """Return the campaign that a campaign file describes; it must be valid."""

    def load(yaml: str) -> Campaign:
        file = tmp_path / "campaign.yaml"
        file.write_text(yaml, encoding="utf-8")
        loaded, problems = load_campaign(file, current=tmp_path)
        assert loaded is not None, problems
        return loaded

    return load
