"""One cluster for all tests of a process: its workers are started once, when the first test asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.cluster.address import Address
from runner.cluster.dask_engine import open_cluster
from tests.plan.conftest import campaign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.cluster.dask_engine import Cluster

__all__ = ["campaign", "local_cluster"]


# Not for the session: Dask's deadlines would be set by the frozen clocks of other modules' tests.
@pytest.fixture(scope="module")
def local_cluster() -> Iterator[Cluster]:
    """A cluster of two worker processes on this machine.

    What a test's tasks read from the environment, it gives the workers with
    `ask_workers(local_cluster, set_variables, {…})`.
    """
    with open_cluster(Address("local:2", 2), {"RUNNER_TEST": "a value of the workers"}) as cluster:
        yield cluster
