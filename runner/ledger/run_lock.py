"""What a run asks of its lock, whatever kind of ledger that belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection


class RunLock(Protocol):
    """What a run holds so that it is the only one."""

    def require_held(self, connection: Connection) -> None:
        """Raise unless this run is the only one, as long as the transaction of `connection` lasts."""

    def require_seen(self) -> None:
        """Raise unless this run was the only one a moment ago; cheap, from any thread."""


class Unlocked:
    """The lock of a run beside which there can be no other."""

    def require_held(self, connection: Connection) -> None:
        """Let every transaction pass."""

    def require_seen(self) -> None:
        """Let every request pass."""


@dataclass(frozen=True, slots=True)
class JointLock:
    """A lock that is held only as long as something else is, too.

    Attributes:
        lock: the lock.
        require_other: raises unless the other thing is held; cheap, from any thread.
    """

    lock: RunLock
    require_other: Callable[[], None]

    def require_held(self, connection: Connection) -> None:
        """Raise unless both are held, the lock as long as the transaction of `connection` lasts."""
        self.lock.require_held(connection)
        self.require_other()

    def require_seen(self) -> None:
        """Raise unless both were held a moment ago."""
        self.lock.require_seen()
        self.require_other()
