"""People who have an open survey, as last read (`policy.open_session`).

At the service, what is sent to them waits until that survey has ended, and then leaves at any hour: nothing
that this program does can hold it back there. Every campaign on the target counts: a person has one queue.
What was sent and not read since counts as open. As for the frequency cap, each campaign's own fingerprint of
a phone is made anew and looked up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, inspect, select, true

from runner.errors import LedgerError
from runner.ledger.fingerprint_set import FingerprintSet
from runner.ledger.frequency import REACHED, iterate_messages, open_campaign_key
from runner.ledger.open_launches import IS_OPEN
from runner.ledger.renaming import find_first_name
from runner.ledger.tables import campaigns, deliveries, launch_stats, launches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from runner.ledger.fingerprint import FingerprintKey

_GROUP = 1000


class OpenShelf(NamedTuple):
    """The people with an open survey of one campaign.

    Attributes:
        campaign: its name.
        first_name: the name that its fingerprints are made with.
        key: makes them.
        open: those whose session was open when it was last read.
        unread: those of whose session nothing was read since it was sent.
    """

    campaign: str
    first_name: str
    key: FingerprintKey
    open: FingerprintSet
    unread: FingerprintSet


class OpenSession(NamedTuple):
    """What holds a person.

    Attributes:
        campaign: the name of the campaign whose survey it is.
        state: whether the service has said that it is open, nothing was read of it yet, or an earlier
            campaign of the same run is about to send it.
    """

    campaign: str
    state: Literal["read", "unread", "planned"]


@dataclass(frozen=True, slots=True)
class OpenSessions:
    """The people with open surveys on a target.

    Attributes:
        shelves: by campaign.
    """

    shelves: tuple[OpenShelf, ...] = ()

    def find(self, phone: str) -> OpenSession | None:
        """Return what holds a person; None if nothing does, as last read.

        Args:
            phone: E.164.
        """
        for shelf in self.shelves:
            person = shelf.key.fingerprint(shelf.first_name, phone)
            if person in shelf.open:
                return OpenSession(shelf.campaign, "read")
            if person in shelf.unread:
                return OpenSession(shelf.campaign, "unread")
        return None


def read_open_sessions(
    connection: Connection,
    target: str,
    state_key: str | None,
    phones: Collection[str] | None = None,
    *,
    other_than: int | None = None,
) -> OpenSessions:
    """Return who has an open survey on a target, by 16 bytes a person.

    Args:
        connection: reads one state of the ledger, which may be of an older version.
        target: the target's name.
        state_key: the user's secret; None if there is none.
        phones: E.164 of those who are asked about; None for everybody.
        other_than: the ledger's number of a campaign that does not count; None to count all.

    Raises:
        LedgerError: a campaign with open surveys was written with a key that is not at hand.
    """
    is_open, has_not_ended = _find_conditions(connection)
    may_hold = and_(launches.c.state.in_(REACHED), is_open)
    query = _select_holding(target, may_hold).order_by(campaigns.c.name)
    if other_than is not None:
        query = query.where(campaigns.c.id != other_than)
    shelves = []
    for row in connection.execute(query).all():
        key = open_campaign_key(row.salt, row.key_fingerprint, state_key)
        if key is None:
            raise LedgerError(
                f"who has an open survey of the campaign {row.name!r} cannot be told: it was written with "
                "another RUNNER_STATE_KEY, or with one that is not set",
                hint="set RUNNER_STATE_KEY to the key it was written with",
            )
        name = find_first_name(connection, row.id) or row.name
        asked = None if phones is None else [key.fingerprint(name, phone) for phone in phones]
        people = list(_iterate_people(connection, row.id, and_(may_hold, has_not_ended), asked))
        shelves.append(
            OpenShelf(
                row.name,
                name,
                key,
                FingerprintSet(person for person, is_read in people if is_read),
                FingerprintSet(person for person, is_read in people if not is_read),
            )
        )
    return OpenSessions(tuple(shelves))


def has_open_launches(connection: Connection, target: str) -> bool:
    """Return whether a launch on a target may have open sessions.

    Args:
        connection: reads one state of the ledger, which may be of an older version.
        target: the target's name.
    """
    is_open, _ = _find_conditions(connection)
    query = _select_holding(target, and_(launches.c.state.in_(REACHED), is_open))
    return connection.execute(query.limit(1)).first() is not None


def _select_holding(target: str, may_hold: ColumnElement[bool]) -> Select[Any]:
    """Select the campaigns of which launches may have open sessions."""
    return select(campaigns).where(
        campaigns.c.target == target, exists().where(launches.c.campaign_id == campaigns.c.id, may_hold)
    )


def _find_conditions(connection: Connection) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return what tells open launches, and recipients of theirs whose sessions have not ended."""
    present = {column["name"] for column in inspect(connection).get_columns(launches.name)}
    if launches.c.is_open.name not in present:
        return IS_OPEN, true()
    return launches.c.is_open, deliveries.c.has_ended.is_(None)


def _iterate_people(
    connection: Connection, campaign_id: int, is_held: ColumnElement[bool], asked: list[str] | None
) -> Iterator[tuple[str, bool]]:
    """Yield fingerprints in order, each with whether anything was read of the launch since it was sent."""
    query = (
        select(deliveries.c.fingerprint, launch_stats.c.launch_id.is_not(None))
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .outerjoin(launch_stats, launch_stats.c.launch_id == launches.c.id)
        .where(
            deliveries.c.campaign_id == campaign_id,
            launches.c.campaign_id == campaign_id,
            deliveries.c.released.is_(False),
            is_held,
        )
        .order_by(deliveries.c.fingerprint)
    )
    if asked is None:
        rows = connection.execute(query.execution_options(yield_per=_GROUP))
        yield from ((person, is_read) for person, is_read in rows)
        return
    # By the whole primary key: there may be many deliveries, and few are asked about.
    own = query.where(deliveries.c.message.in_(list(iterate_messages(connection, campaign_id))))
    found: list[tuple[str, bool]] = []
    for start in range(0, len(asked), _GROUP):
        part = own.where(deliveries.c.fingerprint.in_(asked[start : start + _GROUP]))
        found += ((person, is_read) for person, is_read in connection.execute(part))
    yield from sorted(found)
