"""Jobs: what a worker needs to plan, without the user's secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.cluster.folder import SharedFolder
from runner.cluster.plan_job import LedgerLookup, PlanJob, open_job, store_job
from runner.ledger.fingerprint import FingerprintSet, KnownPeople, TargetKey
from runner.plan.model import PlanOptions
from runner.plan.plan_context import PlanContext
from tests.keys import STATE_KEY
from tests.plan.worlds import NOON, World

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from runner.campaign.model import Campaign


def test_a_job_has_keys_without_the_secret(
    campaign: Callable[..., Campaign], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key from the secret is made anew of the worker's own; a public one of its target's name."""
    own, public = TargetKey.of("sandbox", STATE_KEY), TargetKey.of("test", None)
    people = FingerprintSet([own.fingerprint("+14155550101")])
    context = PlanContext(
        NOON,
        suppressions=KnownPeople(public, {"confirmed": people}),
        recent=KnownPeople(own, {"": people}),
    )
    lookup = LedgerLookup(key_variable="THE_SECRET", key=own)
    job = PlanJob(World(()).load(campaign), "sandbox", PlanOptions(), context, 2, lookup)
    folder = SharedFolder(str(tmp_path))
    store_job(folder, "pulse.job", job)
    stored = folder.read("pulse.job")
    assert STATE_KEY.encode() not in stored
    assert own._key not in stored  # noqa: SLF001  what it is about
    monkeypatch.setenv("THE_SECRET", STATE_KEY)
    opened, _ = open_job(folder, "pulse.job")
    assert opened.lookup == lookup
    assert opened.context is not None
    assert opened.context.recent is not None
    assert opened.context.recent.key == own
    assert opened.context.recent.count("+14155550101") == 1
    assert opened.context.suppressions is not None
    assert opened.context.suppressions.key == public
