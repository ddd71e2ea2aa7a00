"""A campaign that is read in portions is read as it is in one piece, without a cluster, too."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from runner.execution.executor import LocalExecutor
from runner.ledger.database import Ledger
from runner.reconcile.campaign import Portions, SharedReading, reconcile_campaign
from runner.reconcile.context import ReadingOrder
from runner.reconcile.parts import strip_stat
from runner.service.model import StatRecord
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
        shared = SharedReading(LocalExecutor(), context, Portions(records=20, launches=4, pages=5, span=span))
        summary = reconcile_campaign(context, shared)
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
        shared = SharedReading(LocalExecutor(), context, Portions(records=20, launches=4, pages=5, span=9))
        summary = reconcile_campaign(context, shared)
        assert summary == campaign.reconcile()
        assert summary.missing_launches == sorted(GUIDS[:3])
        assert [one.problem for one in summary.differences] == ["unlisted"] * 3


def test_counts_travel_without_people() -> None:
    """What goes to workers by way of the scheduler has nobody's phone in it, nor what they were sent."""
    phone = "+14155550101"
    people = {"recipients": (phone,), "stopped": (phone,), "blocked": (phone,), "statuses": ("ACTIVE",)}
    stat = StatRecord("guid", AT, 1, 0, 1, 1, 0, 1, 3, "tag", {"text": "Hello"}, **people)
    stripped = strip_stat(stat, "tag")
    assert stripped.num_results == 3
    assert phone not in str(asdict(stripped))
    assert "Hello" not in str(asdict(stripped))
