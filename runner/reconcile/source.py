"""A launch whose results are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runner.ledger.model import OpenLaunch
    from runner.service.model import StatRecord


@dataclass(frozen=True, slots=True)
class Source:
    """A launch whose results are read.

    Attributes:
        launch: as the ledger knows it.
        stat: as the service does.
        is_whole: whether all of its results are to be read, not only those that the ledger lacks.
    """

    launch: OpenLaunch
    stat: StatRecord
    is_whole: bool
