"""Doubts what the service names twice: a guid names one launch, and proves nothing when it comes again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from runner.ledger.unsettled import list_claimed
from runner.service.model import SendReply
from runner.source.folding import fold_guid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.ledger.database import Ledger

REPEATED_GUID = "the service named an earlier launch"


class Claims(NamedTuple):
    """Which of some guids are on record already.

    Attributes:
        earlier: of launches of other runs.
        own: of launches of the same run, which another process may have sent, or adopted: by the guid, the
            ledger's number of the launch.
    """

    earlier: Collection[str] = frozenset()
    own: Mapping[str, int] = MappingProxyType({})


FindClaims = Callable[[Collection[str]], Claims]


def read_claims(ledger: Ledger, target: str) -> FindClaims:
    """Read all guids of a target that are on record, and return what looks them up.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    with ledger.reading() as connection:
        claimed = list_claimed(connection, target, explained_only=False)
    return lambda guids: Claims(claimed.intersection(map(fold_guid, guids)))


def doubt_guid(reply: SendReply) -> SendReply:
    """Return what a reply is worth whose guid cannot be looked up."""
    if reply.project_launch_guid is None:
        return reply
    return SendReply("unknown", detail="what it was named could not be looked up", status=reply.status)


class Guids:
    """The guids of a target's launches, as they become known during a run.

    Args:
        find_claims: says which of some guids are on record.

    Attributes:
        disputed: those that the run was given twice, as `fold_guid` writes them: which of the two launches
            each names, nobody can tell.
    """

    def __init__(self, find_claims: FindClaims = lambda _guids: Claims()) -> None:
        self._find_claims = find_claims
        self._named: set[str] = set()
        self.disputed: set[str] = set()

    def judge(self, replies: Sequence[tuple[int, SendReply]]) -> list[SendReply]:
        """Return what replies are worth, in their order: themselves, or that the outcome is unknown.

        Args:
            replies: each with the ledger's number of its launch.

        Raises:
            LedgerError: the record cannot be read.
        """
        named = {reply.project_launch_guid for _, reply in replies if reply.project_launch_guid is not None}
        claims = self._find_claims(named) if named else Claims()
        return [self._judge(launch_id, reply, claims) for launch_id, reply in replies]

    def _judge(self, launch_id: int, reply: SendReply, claims: Claims) -> SendReply:
        if reply.project_launch_guid is None:
            return reply
        guid = fold_guid(reply.project_launch_guid)
        # Of who comes late the launch may have been settled meanwhile: its own guid is on record then.
        if guid in self._named or claims.own.get(guid, launch_id) != launch_id:
            self.disputed.add(guid)
        elif guid not in claims.earlier:
            self._named.add(guid)
            return reply
        return SendReply("unknown", detail=REPEATED_GUID, status=reply.status)
