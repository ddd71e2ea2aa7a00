"""The service's names of launches: each is of one launch, the first that it was given to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from runner.ledger.record.unsettled import list_claimed
from runner.service.model import SendReply
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.ledger.database import Ledger


REPEATED_GUID = "the service named an earlier launch"


class Claims(NamedTuple):
    """Guids on record: of earlier runs, and the launches of this run by guid.

    Another process may have sent or adopted launches of this run.
    """

    earlier: Collection[str] = frozenset()
    own: Mapping[str, int] = MappingProxyType({})


FindClaims = Callable[[Collection[str]], Claims]


def read_claims(ledger: Ledger, target: str) -> FindClaims:
    """Read all guids of a target that are on record, and return a function that looks them up.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    with ledger.reading() as connection:
        claimed = list_claimed(connection, target, explained_only=False)
    return lambda guids: Claims(claimed.intersection(map(normalize_guid, guids)))


def doubt_guid(reply: SendReply) -> SendReply:
    """Return a reply as of unknown outcome if its guid cannot be looked up."""
    if reply.project_launch_guid is None:
        return reply
    return SendReply("unknown", detail="what it was named could not be looked up", status=reply.status)


class Guids:
    """The guids of a target's launches, as they become known during a run."""

    def __init__(self, find_claims: FindClaims = lambda _guids: Claims()) -> None:
        self._find_claims = find_claims
        self._named: set[str] = set()

    def judge(self, replies: Sequence[tuple[int, SendReply]]) -> list[SendReply]:
        """Return replies in their order, with an unknown outcome where the guid is another launch's.

        Each reply comes with the ledger's number of its launch.

        Raises:
            LedgerError: the record cannot be read.
        """
        named = {reply.project_launch_guid for _, reply in replies if reply.project_launch_guid is not None}
        claims = self._find_claims(named) if named else Claims()
        return [self._judge(launch_id, reply, claims) for launch_id, reply in replies]

    def _judge(self, launch_id: int, reply: SendReply, claims: Claims) -> SendReply:
        if reply.project_launch_guid is None:
            return reply
        guid = normalize_guid(reply.project_launch_guid)
        # A late reply's launch may have been settled meanwhile: its own guid is on record then.
        is_own = claims.own.get(guid, launch_id) == launch_id
        if is_own and guid not in self._named and guid not in claims.earlier:
            self._named.add(guid)
            return reply
        return SendReply("unknown", detail=REPEATED_GUID, status=reply.status)
