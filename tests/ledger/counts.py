"""What a reading has left in the ledger of the service's counts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from runner.ledger.database import insert_or_update
from runner.ledger.tables import launch_stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from runner.ledger.model import LaunchStats


def store_stats(connection: Connection, stats: Sequence[LaunchStats], at: str) -> None:
    """Store counts as those of the latest reading."""
    insert_or_update(connection, launch_stats, [{**asdict(one), "reconciled_at": at} for one in stats])
