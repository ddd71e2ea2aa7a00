"""What a run asks of its lock, whatever kind of ledger that belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
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
