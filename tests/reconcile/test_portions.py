"""A campaign that is read in portions is read as it is in one piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.reconcile import result_reading

if TYPE_CHECKING:
    import pytest

    from tests.reconcile.conftest import Campaign

GUIDS = [f"launch-{number}" for number in range(40)]


def test_many_launches_are_compared_some_at_a_time(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tag's list, then the launches that lack something: nothing is missing, and nothing is left waiting."""
    monkeypatch.setattr(result_reading, "PAGES_AT_ONCE", 4)
    campaign.launch(*GUIDS)
    campaign.service.launches[:] = GUIDS[3:]
    for number in range(300):
        campaign.service.add(number, GUIDS[3 + (number % 7 if number % 2 else number % 37)])
    campaign.service.count = lambda guid: len(campaign.service.list_results(guid)) + (guid == GUIDS[9])
    summary = campaign.reconcile()
    assert summary.missing_launches == sorted(GUIDS[:3])
    assert [one.problem for one in summary.differences] == ["unlisted"] * 3 + ["more_counted"]
    assert len(campaign.list_held()) == 300
    full = campaign.reconcile(full=True)
    assert full == summary.replace(new_results=0)
