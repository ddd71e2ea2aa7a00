"""What a reading has left in the ledger of the service's counts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from runner.ledger.database import insert_or_update
from runner.ledger.tables import launch_stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection


@dataclass
class LaunchStats:
    """The service's own counts of one launch; None if missing."""

    launch_id: int
    num_active_sessions: int | None
    num_complete_sessions: int | None
    num_messages: int | None
    num_questions: int | None
    num_queued_sessions: int | None
    num_renders: int | None
    num_results: int | None


def store_stats(connection: Connection, stats: Sequence[LaunchStats], at: str) -> None:
    """Store counts as those of the latest reading."""
    insert_or_update(connection, launch_stats, [{**asdict(one), "reconciled_at": at} for one in stats])
