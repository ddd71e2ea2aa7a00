"""The proof, at the size of a test run; `make torture` has the size that convinces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.torture.ledgers import LocalLedger, PostgresLedger, SqliteLedger
from tests.torture.series import run_scenarios

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.torture.ledgers import Ledger

pytestmark = pytest.mark.slow

FAULTS = 40
MAKERS: dict[str, Callable[[Path], Ledger]] = {"SQLite": SqliteLedger, "state remote": LocalLedger}


@pytest.fixture(params=["SQLite", "PostgreSQL", "state remote"])
def make_ledger(request: pytest.FixtureRequest) -> Callable[[Path], Ledger]:
    """A function that makes a ledger, given a repository's folder."""
    if request.param in MAKERS:
        return MAKERS[request.param]
    server = request.getfixturevalue("postgres")
    return lambda _folder: PostgresLedger(server)


@pytest.mark.timeout(1800)
def test_nobody_is_texted_twice_and_nobody_skipped(
    make_ledger: Callable[[Path], Ledger],
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    """Whatever is killed, dropped, lost or late: in the end everybody was texted once, and it is recorded."""
    tally = run_scenarios(make_ledger, faults=FAULTS)
    assert not tally.violations, "\n".join(tally.violations)
    assert (tally.twice, tally.skipped) == (0, 0)
    assert tally.faults.total() >= FAULTS
    name = request.node.callspec.params["make_ledger"]
    record_property("torture", f"{name}: {tally.faults.total():,} faults injected, {tally.sum_up()}")
