"""The proof on a cluster, at the size of a test run; `make torture-cluster` has the size that convinces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.torture.cluster.series import count_cluster_faults, run_rounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.postgres import PostgresServer

ROUND_S = 6.0
CAMPAIGNS = 2


@pytest.mark.timeout(300)
def test_nobody_is_texted_twice_and_nobody_skipped(
    postgres: PostgresServer, record_property: Callable[[str, object], None]
) -> None:
    """Whoever is killed, stopped or cut off, workers, scheduler or client: everybody is texted once."""
    tally = run_rounds(postgres, faults=1, campaigns=CAMPAIGNS, round_s=ROUND_S)
    assert not tally.violations, "\n".join(tally.violations)
    assert (tally.twice, tally.skipped) == (0, 0)
    faults = count_cluster_faults(tally)
    assert faults > 0
    record_property("torture", f"cluster: {faults:,} faults injected, {tally.sum_up()}")
