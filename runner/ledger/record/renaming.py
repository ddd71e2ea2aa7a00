"""Renaming of campaigns and messages: their records move to the new names and ids.

Recorded campaigns that no file claims, and other targets, may have been renamed without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, bindparam, delete, exists, func, or_, select, update

from runner.errors import LockfileError
from runner.ledger.database import insert_missing
from runner.ledger.fingerprint import launch_key
from runner.ledger.people.suppressions import absorb_hold, iterate_holds
from runner.ledger.record.deliveries import enter_campaign, iterate_held
from runner.ledger.record.entry import dismiss_launches, read_dismissed
from runner.ledger.record.unsettled import REACHED, drop_unexplained
from runner.ledger.results.result_feed import renew_edition
from runner.ledger.tables import (
    audiences,
    campaigns,
    deliveries,
    dismissed_launches,
    former_names,
    launches,
    of_target,
    opt_outs,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Row


def enter_under_names(
    connection: Connection, target: str, names: Sequence[str], row: Row[Any] | None, former: Iterable[str]
) -> int:
    """Enter a campaign under its current name, the first one, and return the ledger's number of it.

    `row` is its row so far; `former` has other names that it had.
    """
    former = set(former) - {names[0]}
    if row is None:
        campaign_id = enter_campaign(connection, target, names[0])
    else:
        campaign_id = row.id
        if row.name != names[0]:
            former.add(row.name)
            _take_in(connection, target, names[0], campaign_id)
            connection.execute(update(campaigns).where(campaigns.c.id == campaign_id).values(name=names[0]))
            # Renamed back: the name is a former one no more.
            back = and_(_is_former(campaign_id), former_names.c.name == names[0])
            connection.execute(delete(former_names).where(back))
    for name in sorted({*former, *names[1:]} - {names[0]}):
        _take_in(connection, target, name, campaign_id)
    rows = [{"campaign_id": campaign_id, "message": "", "name": name} for name in former]
    insert_missing(connection, former_names, rows)
    return campaign_id


def _take_in(connection: Connection, target: str, name: str, campaign_id: int) -> None:
    """Move what is recorded under another name without launches: dismissed and unexplained launches."""
    query = select(campaigns.c.id).where(campaigns.c.target == target, campaigns.c.name == name)
    blank = connection.execute(query).scalar()
    if blank is None or blank == campaign_id:
        return
    dismissed = read_dismissed(connection, blank)
    holds = [one for one in iterate_holds(connection, target) if one.campaign == name]
    drop_unexplained(connection, blank)
    for table in (audiences, dismissed_launches, former_names):
        connection.execute(delete(table).where(table.c.campaign_id == blank))
    connection.execute(delete(campaigns).where(campaigns.c.id == blank))
    dismiss_launches(connection, campaign_id, dismissed)
    for hold in holds:
        absorb_hold(connection, target, hold, campaign_id)


def list_former_names(connection: Connection, campaign_id: int) -> list[str]:
    """Return the former names of a campaign, in order."""
    query = select(former_names.c.name).where(_is_former(campaign_id)).order_by(former_names.c.name)
    return list(connection.execute(query).scalars())


def _is_former(campaign_id: int, *, of_messages: bool = False) -> ColumnElement[bool]:
    """Return the condition for former names of a campaign, or for former ids of its messages."""
    is_kind = former_names.c.message != "" if of_messages else former_names.c.message == ""
    return and_(former_names.c.campaign_id == campaign_id, is_kind)


def require_current_ids(connection: Connection, campaign_id: int, message_ids: Mapping[str, str]) -> None:
    """Ensure that no message of a campaign has an id that is a former one in the ledger."""
    used = set(message_ids.values())
    for old, new in read_message_names(connection, campaign_id).items():
        if old in used and message_ids.get(new) != old:
            raise LockfileError(
                f"the ledger knows the message {old!r} as {new!r} now",
                hint="update this checkout, it is older than the rename; or rename back: "
                f"`renamed_from: [{new}]`; a message of its own needs an id of its own",
            )


def rename_messages(connection: Connection, campaign_id: int, message_ids: Mapping[str, str]) -> None:
    """Move the records of messages to their current ids, and record the old ones."""
    renames = {old: new for old, new in message_ids.items() if old != new}
    if not renames:
        return
    is_own = launches.c.campaign_id == campaign_id
    entered = set[str]()
    for table in (launches, deliveries):
        theirs = (table.c.campaign_id == campaign_id, table.c.message.in_(renames))
        entered.update(connection.execute(select(table.c.message).where(*theirs).distinct()).scalars())
    for old in sorted(entered):
        _move_deliveries(connection, campaign_id, old, renames[old])
        connection.execute(
            update(launches).where(is_own, launches.c.message == old).values(message=renames[old])
        )
    if entered:
        renew_edition(connection)
    _remember(connection, campaign_id, renames)


def _move_deliveries(connection: Connection, campaign_id: int, old: str, new: str) -> None:
    """Move deliveries to another id. Of two of one person the more certain one stays."""
    other = deliveries.alias()
    sent = select(launches.c.id).where(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
    is_twin = and_(other.c.campaign_id == campaign_id, other.c.fingerprint == deliveries.c.fingerprint)
    is_weaker = or_(
        deliveries.c.released.is_(True),
        and_(other.c.launch_id.in_(sent), deliveries.c.launch_id.not_in(sent)),
    )
    is_outdone = exists().where(is_twin, other.c.message == old, other.c.released.is_(False), is_weaker)
    has_twin = exists().where(is_twin, other.c.message == new)
    is_own = deliveries.c.campaign_id == campaign_id
    connection.execute(delete(deliveries).where(is_own, deliveries.c.message == new, is_outdone))
    connection.execute(delete(deliveries).where(is_own, deliveries.c.message == old, has_twin))
    connection.execute(update(deliveries).where(is_own, deliveries.c.message == old).values(message=new))


def renew_launch_keys(
    connection: Connection, campaign: str, *conditions: ColumnElement[bool]
) -> list[tuple[int, int]]:
    """Renew the keys of launches that match conditions from the people that they hold now.

    Returns the launches' numbers, each with that of its people.
    """
    held = list(iterate_held(connection, *conditions))
    if held:
        statement = update(launches).where(launches.c.id == bindparam("b_id"))
        renewed = [
            {"b_id": row.id, "b_key": launch_key(campaign, row.message, row.payload_digest, people)}
            for row, people in held
        ]
        connection.execute(statement.values(launch_key=bindparam("b_key")), renewed)
    return [(row.id, len(people)) for row, people in held]


def _remember(connection: Connection, campaign_id: int, renames: Mapping[str, str]) -> None:
    before = read_message_names(connection, campaign_id)
    # Messages that were renamed twice have the newest id.
    after = {**{old: renames.get(new, new) for old, new in before.items()}, **renames}
    after = {old: new for old, new in after.items() if old not in renames.values()}
    if after == before:
        return
    connection.execute(delete(former_names).where(_is_former(campaign_id, of_messages=True)))
    rows = [{"campaign_id": campaign_id, "message": new, "name": old} for old, new in after.items()]
    insert_missing(connection, former_names, rows)


def read_message_names(connection: Connection, campaign_id: int) -> dict[str, str]:
    """Return the current ids of a campaign's renamed messages, by former ones."""
    query = select(former_names.c.name, former_names.c.message)
    of_messages = _is_former(campaign_id, of_messages=True)
    return {row.name: row.message for row in connection.execute(query.where(of_messages))}


def list_unclaimed(
    connection: Connection, target: str, claimed: Collection[str]
) -> list[tuple[int, str, str, int]]:
    """Return the numbers and names of a target's campaigns that are not `claimed`, with their tags.

    Each tag comes with the number of recipients who were reached under it, or may have been.
    """
    columns = campaigns.c.id, campaigns.c.name, launches.c.tag, func.sum(launches.c.recipients)
    query = (
        of_target(select(*columns), target)
        .where(campaigns.c.name.not_in(claimed), launches.c.state.in_(REACHED))
        .group_by(campaigns.c.id, campaigns.c.name, launches.c.tag)
    )
    return [(*row, int(count)) for *row, count in connection.execute(query)]


def has_own_launches(connection: Connection, campaign_id: int) -> bool:
    """Return whether a run has sent launches of a campaign, or may have: found ones have no run."""
    query = select(launches.c.id).where(
        launches.c.campaign_id == campaign_id, launches.c.state.in_(REACHED), launches.c.run.is_not(None)
    )
    return connection.execute(query.limit(1)).first() is not None


def list_targets(connection: Connection, own: str, names: Collection[str] | None) -> set[str]:
    """Return the targets with launches or opt-outs on record.

    `own` counts only with launches; others, if `names` are given, only with launches of these campaigns.
    """
    has_launches = exists().where(launches.c.campaign_id == campaigns.c.id, launches.c.state.in_(REACHED))
    query = select(campaigns.c.target).distinct().where(has_launches)
    if names is not None:
        query = query.where(or_(campaigns.c.target == own, campaigns.c.name.in_(names)))
    found = set(connection.execute(query).scalars())
    if names is None:
        opted_out = select(opt_outs.c.target).distinct().where(opt_outs.c.target != own)
        found |= set(connection.execute(opted_out).scalars())
    return found
