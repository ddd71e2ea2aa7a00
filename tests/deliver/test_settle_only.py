"""`apply --settle-only`: the record is made whole first, so that a plan that is saved after that holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.deliver.test_recovery import lose_records

if TYPE_CHECKING:
    from tests.deliver.conftest import FaultyService, Repository


def test_what_was_lost_is_recorded_and_nothing_is_sent(
    repository: Repository, faulty: FaultyService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launches that the service knows are adopted, and stand in the lockfile; the others wait."""
    repository.write_campaign(3)
    assert repository.apply("--limit", "2").code == 0
    lose_records(repository)
    monkeypatch.setenv("RUNNER_SETTLE_WINDOW", "10ms")
    settled = repository.apply("--settle-only")
    assert (settled.code, settled.out) == (0, "pulse: 2 launches of earlier runs found at the service.\n")
    assert len(faulty.accepted) == 2
    assert repository.lockfile.read_text(encoding="utf-8").count('"project_launch_guid"') == 2
    again = repository.apply("--settle-only")
    assert (again.code, again.out) == (0, "pulse: nothing new on record.\n")


@pytest.mark.parametrize("option", [("--plan", "campaigns/pulse.yaml"), ("--test-to", "+14155550101")])
def test_options_that_send_do_not_go_with_it(repository: Repository, option: tuple[str, str]) -> None:
    """Nobody is left in doubt whether something is sent."""
    repository.write_campaign(1)
    applied = repository.apply("--settle-only", *option)
    assert applied.code == 64
    assert applied.err == "Error: --settle-only sends nothing: --plan and --test-to don't go with it\n"
