"""Doubts what the service names twice: a guid names one launch, and proves nothing when it comes again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.service.model import SendReply

if TYPE_CHECKING:
    from collections.abc import Iterable

REPEATED_GUID = "the service named an earlier launch"


class Guids:
    """The guids of a target's launches, as they become known during a run.

    Args:
        claimed: those that were on record before.

    Attributes:
        disputed: those that the run was given twice: which of the two launches each names, nobody can tell.
    """

    def __init__(self, claimed: Iterable[str] = ()) -> None:
        self._claimed = frozenset(claimed)
        self._named: set[str] = set()
        self.disputed: set[str] = set()

    def judge(self, reply: SendReply) -> SendReply:
        """Return what a reply is worth: itself, or that the outcome is unknown."""
        guid = reply.project_launch_guid
        if guid is None:
            return reply
        if guid in self._named:
            self.disputed.add(guid)
        elif guid not in self._claimed:
            self._named.add(guid)
            return reply
        return SendReply("unknown", detail=REPEATED_GUID, status=reply.status)
