"""A campaign that is read in portions is read as it is in one piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.ledger.database import Ledger
from runner.reconcile.campaign import Portions, reconcile_campaign
from runner.reconcile.context import ReadingOrder
from tests.reconcile.conftest import AT, Campaign

if TYPE_CHECKING:
    from pathlib import Path

GUIDS = [f"launch-{number}" for number in range(40)]


@pytest.mark.parametrize("span", [7, 10_000])
def test_portions_add_up(campaign: Campaign, tmp_path: Path, span: int) -> None:
    """Lists cut in ranges, launches in groups and spans, one after the other: summary and ledger are the same."""
    with Ledger(f"sqlite:///{tmp_path / 'other.sqlite'}") as ledger:
        ledger.prepare()
        other = Campaign(ledger, campaign.client, campaign.service)
        for one in (campaign, other):
            one.launch(*GUIDS)
        campaign.service.launches[:] = GUIDS
        for number in range(300):
            campaign.service.add(number, GUIDS[number % 7 if number % 2 else number % 40])
        context = other.open(ReadingOrder(other.id, other.name, AT))
        summary = reconcile_campaign(context, Portions(records=20, launches=4, pages=5, span=span))
        assert summary == campaign.reconcile()
        assert summary.is_complete
        assert other.list_held() == campaign.list_held()
        assert len(other.list_held()) == 300


def test_spans_find_the_same_differences(campaign: Campaign, tmp_path: Path) -> None:
    """Launches that the service lists no more, or counts more results of: told alike, span by span."""
    with Ledger(f"sqlite:///{tmp_path / 'other.sqlite'}") as ledger:
        ledger.prepare()
        other = Campaign(ledger, campaign.client, campaign.service)
        for one in (campaign, other):
            one.launch(*GUIDS)
        campaign.service.launches[:] = GUIDS[3:]
        for number in range(100):
            campaign.service.add(number, GUIDS[3 + number % 30])
        context = other.open(ReadingOrder(other.id, other.name, AT))
        summary = reconcile_campaign(context, Portions(records=20, launches=4, pages=5, span=9))
        assert summary == campaign.reconcile()
        assert summary.missing_launches == sorted(GUIDS[:3])
        assert [one.problem for one in summary.differences] == ["unlisted"] * 3
