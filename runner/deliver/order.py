"""A campaign's messages reach a person in the order of the file, although launches are sent side by side.

The next message of a person leaves when the launch before it has its outcome, and the service took it or
refused it for good. Otherwise the person's later messages wait for another run: the earlier one may still
come.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.plan.model import PlannedLaunch
    from runner.service.model import SendReply

_LETS_ON = ("sent", "rejected")


class MessageOrder:
    """People with a launch on its way, and people whose later messages wait. Of one thread."""

    def __init__(self) -> None:
        self._away: set[str] = set()
        self._held: set[str] = set()

    def is_free(self, launch: PlannedLaunch) -> bool:
        """Return whether nobody in a launch has another one on its way."""
        return self._away.isdisjoint(launch.phones)

    def leave_out_held(self, launch: PlannedLaunch) -> PlannedLaunch | None:
        """Return a launch less those whose earlier message may still come; None if that is everybody."""
        if self._held.isdisjoint(launch.phones):
            return launch
        kept = tuple([phone for phone in launch.phones if phone not in self._held])
        return replace(launch, phones=kept) if kept else None

    def hold(self, phones: Iterable[str]) -> None:
        """Have the later messages of people wait for another run."""
        self._held.update(phones)

    def depart(self, launch: PlannedLaunch) -> None:
        """Take note of a launch that goes on its way."""
        self._away.update(launch.phones)

    def turn_back(self, phones: Iterable[str], held: Iterable[str]) -> None:
        """Take note of people who do not leave after all.

        Args:
            phones: of those.
            held: of them, those who may get it later.
        """
        self._away.difference_update(phones)
        self._held.update(held)

    def arrive(self, launch: PlannedLaunch, reply: SendReply, *, comes_again: bool) -> None:
        """Take note of what has come of a launch.

        Args:
            launch: that was on its way.
            reply: its outcome.
            comes_again: whether this run tries those who are left of it once more, before anything else.
        """
        self._away.difference_update(launch.phones)
        if reply.outcome not in _LETS_ON and not comes_again:
            self._held.update(launch.phones)
