"""Puts how sessions stand into the ledger while lists of launches are read: they are too long to keep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.reconcile.held import SessionEnds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.ledger.model import OpenLaunch
    from runner.reconcile.intake import Intake
    from runner.service.model import StatRecord

_AT_ONCE = 5_000
"""Sessions that are kept together."""


@dataclass(slots=True)
class SessionLog:
    """Keeps how each session of launches stands, and which launches have none open any more.

    Attributes:
        intake: of their campaign.
        launches: those of the campaign, by `project_launch_guid`.
    """

    intake: Intake
    launches: Mapping[str, OpenLaunch]
    _ends: SessionEnds = field(init=False)
    _waiting: list[StatRecord] = field(default_factory=list, init=False)
    _sessions: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Begin with nothing noted."""
        intake = self.intake
        self._ends = SessionEnds(intake.ledger, intake.campaign, intake.key, self.launches)

    def observe(self, stat: StatRecord) -> None:
        """Take note of what the service says of a launch of the campaign.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        self._ends.observe(stat)
        self._waiting.append(stat)
        self._sessions += 1 + len(stat.recipients)
        if self._sessions >= _AT_ONCE:
            self._keep_sessions()

    def keep(self) -> None:
        """Record what was noted since the last time.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        self._keep_sessions()
        self._ends.keep()

    def _keep_sessions(self) -> None:
        self.intake.store_sessions(self.launches, self._waiting)
        self._waiting, self._sessions = [], 0
