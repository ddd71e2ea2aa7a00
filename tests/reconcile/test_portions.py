"""A campaign that is read in portions is read as it is in one piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, select

from runner.ledger.database import Ledger
from runner.ledger.tables import launch_readings
from runner.reconcile import campaign as reconciling
from tests.reconcile.conftest import Campaign

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

GUIDS = [f"launch-{number}" for number in range(40)]


def test_portions_add_up(campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists read from end to end, launches some at a time: summary, differences and ledger are the same.

    Nothing is left of what waited in the ledger.
    """
    with Ledger(f"sqlite:///{tmp_path / 'other.sqlite'}") as ledger:
        ledger.prepare()
        other = Campaign(ledger, campaign.client, campaign.service)
        for one in (campaign, other):
            one.launch(*GUIDS)
        campaign.service.launches[:] = GUIDS[3:]
        for number in range(300):
            campaign.service.add(number, GUIDS[3 + (number % 7 if number % 2 else number % 37)])
        campaign.service.count = lambda guid: len(campaign.service.list_results(guid)) + (guid == GUIDS[9])
        whole = campaign.reconcile()
        for name, most in (("SWEPT", 5), ("LAUNCHES", 4), ("RESULTS", 20)):
            monkeypatch.setattr(reconciling, name, most)
        summary = other.reconcile()
        assert summary == whole
        assert summary.missing_launches == sorted(GUIDS[:3])
        assert [one.problem for one in summary.differences] == ["unlisted"] * 3 + ["more_counted"]
        assert other.list_held() == campaign.list_held()
        assert len(other.list_held()) == 300
        with ledger.reading() as connection:
            assert connection.execute(select(func.count()).select_from(launch_readings)).scalar() == 0
