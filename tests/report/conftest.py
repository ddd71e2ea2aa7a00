"""Reports as values (`sample`), and the browser that shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.report.sample import build_sample
from tests.sandbox.inbox.conftest import browser

if TYPE_CHECKING:
    from runner.report.model import CampaignReport

__all__ = ["browser"]


@pytest.fixture(scope="session")
def sample_report() -> CampaignReport:
    """A survey in two arms, a follow-up and a reminder."""
    return build_sample()
