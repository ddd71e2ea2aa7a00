"""Jobs: what a worker needs to plan, without the user's secret."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from runner.cluster.folder import PlanJob, SharedFolder, open_job, store_job
from runner.errors import ConfigurationError
from runner.ledger.fingerprint import FingerprintSet, KnownPeople, TargetKey
from runner.ledger.model import RecordedDeliveries
from runner.plan.model import PlanOptions
from runner.plan.plan_context import PlanContext
from tests.keys import STATE_KEY
from tests.plan.worlds import NOON, World

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.campaign.model import Campaign

DAY = timedelta(days=1)


def test_a_job_has_keys_without_the_secret(
    campaign: Callable[..., Campaign], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key from the secret is made anew of the worker's own; a public one of its target's name."""
    own, public = TargetKey.of("sandbox", STATE_KEY), TargetKey.of("test", None)
    people = FingerprintSet([own.fingerprint("+14155550101")])
    context = PlanContext(
        NOON,
        suppressions=KnownPeople(public, {"confirmed": people}),
        recent={DAY: KnownPeople(own, {"": people})},
    )
    known = RecordedDeliveries({"ask": {own.fingerprint("+14155550101")}}, {})
    loaded = World(()).load(campaign)
    job = PlanJob(loaded, "sandbox", PlanOptions(), context, 2, known, own, "THE_SECRET")
    folder = SharedFolder(str(tmp_path))
    store_job(folder, "pulse.job", job)
    stored = folder.read("pulse.job")
    assert STATE_KEY.encode() not in stored
    assert own._key not in stored  # noqa: SLF001  what it is about
    monkeypatch.setenv("THE_SECRET", STATE_KEY)
    opened, _ = open_job(folder, "pulse.job")
    assert opened.key == own
    assert own.fingerprint("+14155550101") in opened.known.sent["ask"]
    assert own.fingerprint("+14155550102") not in opened.known.sent["ask"]
    assert opened.context is not None
    assert opened.context.recent[DAY].key == own
    assert opened.context.recent[DAY].count("+14155550101") == 1
    assert opened.context.suppressions is not None
    assert opened.context.suppressions.key == public


def test_a_job_is_not_read_with_another_secret(
    campaign: Callable[..., Campaign], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another key everybody would look new: nothing is planned."""
    own = TargetKey.of("sandbox", STATE_KEY)
    job = PlanJob(World(()).load(campaign), "sandbox", PlanOptions(), PlanContext(NOON), 2, key=own)
    folder = SharedFolder(str(tmp_path))
    store_job(folder, "pulse.job", replace(job, key_variable="THE_SECRET"))
    monkeypatch.setenv("THE_SECRET", "another key of somebody who is elsewhere")
    with pytest.raises(ConfigurationError, match="THE_SECRET is not set as for the command"):
        open_job(folder, "pulse.job")
