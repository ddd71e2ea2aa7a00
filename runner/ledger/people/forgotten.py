"""Forgotten people, and the removal of their data from the ledger (GDPR, article 17; CCPA, section 1798.105).

An opt-out with the source `forgotten` stays on each target, and the files of suppressions carry it to other
ledgers: without it the next `apply` of a file with the phone would text the person as a newcomer. That is the
least that can carry out their wish (GDPR, article 17(3)(b) and (e)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, delete, exists, func, select, update

from runner.ledger.bulk import iterate_rows
from runner.ledger.database import insert_into, insert_or_update
from runner.ledger.fingerprint import TargetKey
from runner.ledger.people.opt_outs import add_opt_outs, find_next_moment, read_forgotten
from runner.ledger.record.deliveries import renew_launch_keys
from runner.ledger.record.unsettled import OPEN
from runner.ledger.results.result_feed import renew_edition
from runner.ledger.tables import (
    campaigns,
    deliveries,
    launch_stats,
    launches,
    opt_ins,
    opt_outs,
    results,
    sessions,
)
from runner.ledger.target_key import enter_key, list_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import ColumnElement

    from runner.ledger.database import Ledger

_UNREACHED = (
    (
        "lockfiles in git's history, branches and clones hold their fingerprints: commit the ones that are "
        "written anew; ledgers of other machines keep what they have: run `runner forget` there, too"
    ),
    (
        "the service keeps its own records: ask its operator; reports, exports, audience files and backups "
        "are yours to write anew"
    ),
)


LOG_KEEPS = "the database has the old rows in its log and its unused space until it reuses them"
"""What is said of a database whose log is not empty."""


def remove_person(
    connection: Connection, campaign_id: int, campaign: str, fingerprint: str
) -> dict[str, int]:
    """Remove a person from a campaign's record, except launches to them of unknown outcome.

    Returns the numbers of `deliveries`, `results` and `unresolved` launches.
    """
    is_open = launches.c.state.in_(OPEN)
    theirs = and_(deliveries.c.campaign_id == campaign_id, deliveries.c.fingerprint == fingerprint)
    query = select(launches.c.id, is_open).join(deliveries, deliveries.c.launch_id == launches.c.id)
    rows = connection.execute(query.where(theirs)).all()
    settled = [launch_id for launch_id, may_be_sent in rows if not may_be_sent]
    removed = delete(deliveries).where(theirs, deliveries.c.launch_id.in_(settled))
    own = select(launches.c.id).where(launches.c.campaign_id == campaign_id)
    said = sessions.c.participant == fingerprint, sessions.c.launch_id.in_(own)
    connection.execute(delete(sessions).where(*said))
    answered = and_(results.c.participant == fingerprint, results.c.launch_id.in_(own))
    counts = {
        "results": drop_results(connection, answered),
        "unresolved": len(rows) - len(settled),
        "deliveries": connection.execute(removed).rowcount,
    }
    # Launches that hold nobody: theirs, and those that were replaced by another one.
    held = exists().where(deliveries.c.launch_id == launches.c.id)
    is_bare = and_(launches.c.campaign_id == campaign_id, launches.c.recipients <= 1, ~is_open, ~held)
    connection.execute(update(launches).where(is_bare).values(definition=None, detail=None))
    # The old keys are digests of the person's fingerprint, among others.
    renewed = renew_launch_keys(connection, campaign, launches.c.id.in_(settled), launches.c.state == "sent")
    for launch_id, people in renewed:
        connection.execute(update(launches).where(launches.c.id == launch_id).values(recipients=people))
    return counts


def drop_results(connection: Connection, theirs: ColumnElement[bool]) -> int:
    """Remove results, count them as results that are not kept, and return their number."""
    counted = select(results.c.launch_id, func.count()).where(theirs).group_by(results.c.launch_id)
    statement = insert_into(connection, launch_stats).from_select(["launch_id", "forgotten_results"], counted)
    more = launch_stats.c.forgotten_results + statement.excluded.forgotten_results
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[launch_stats.c.launch_id], set_={"forgotten_results": more}
        )
    )
    removed = connection.execute(delete(results).where(theirs)).rowcount
    if removed:
        renew_edition(connection)
    return removed


def note_forgotten_results(connection: Connection, counts: Mapping[int, int]) -> None:
    """Store the numbers of results that are not kept, so that counts agree with the service's.

    The counts, by launch number, are of a complete reading.
    """
    rows = [{"launch_id": launch_id, "forgotten_results": count} for launch_id, count in counts.items()]
    insert_or_update(connection, launch_stats, rows)


def remove_lingering(connection: Connection, campaign_id: int, campaign: str) -> None:
    """Remove a campaign's data of forgotten people, as another ledger has forgotten them.

    Launches to them of unknown outcome stay until that is known.
    """
    forgotten = read_forgotten(connection, campaign_id)
    if not forgotten:
        return
    query = (
        select(deliveries.c.fingerprint)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(deliveries.c.campaign_id == campaign_id, launches.c.state.not_in(OPEN))
        .distinct()
    )
    for (fingerprint,) in set(iterate_rows(connection, query, deliveries.c.fingerprint, forgotten)):
        remove_person(connection, campaign_id, campaign, fingerprint)


@dataclass(frozen=True, slots=True)
class ForgottenCampaign:
    """The parts of a campaign's record that were removed.

    Attributes:
        target: the target's name.
        campaign: the campaign's name.
        deliveries: entries that said that they were texted.
        results: answers of theirs.
        unresolved: launches to them of unknown outcome, which stay until they are resolved.
    """

    target: str
    campaign: str
    deliveries: int
    results: int
    unresolved: int


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The effects of forgetting a person, and the places out of reach; without their phone.

    `keys` are those of the targets where nobody texts them again; `opt_outs` counts replaced rows of replies
    and lists. `unreached` has unchanged targets, each with the variable of its missing secret. `log_keeps`:
    the database still has the old rows in its log or unused space.
    """

    keys: tuple[TargetKey, ...]
    opt_outs: int
    campaigns: tuple[ForgottenCampaign, ...]
    unreached: tuple[tuple[str, str], ...]
    log_keeps: bool

    def list_unreached(self) -> list[str]:
        """Return sentences about places that may still have data of the person."""
        found = [*_UNREACHED]
        if self.log_keeps:
            found.append(LOG_KEEPS)
        found += [
            f"the target {target}, where nothing was changed: set {variable} to the key of its records, and "
            f"forget them again with --target {target}"
            for target, variable in self.unreached
        ]
        found += [
            f"{one.campaign} on {one.target} has launches to them of unknown outcome ({one.unresolved}): "
            "run `runner apply` or `runner resolve`, then forget them again"
            for one in self.campaigns
            if one.unresolved
        ]
        return found


def forget_person(
    ledger: Ledger, phone: str, own: TargetKey, find_secret: Callable[[str], tuple[str, str | None]], at: str
) -> Forgotten:
    """Remove everything in the ledger that can be tied to a phone (E.164), and suppress the person.

    `own` is the key of a target that the ledger may not know yet; `find_secret` returns the variable of
    another target's secret, and its value. Targets whose keys are missing stay unchanged.
    """
    with ledger.writing() as connection:
        overwrite_removed(ledger, connection)
        enter_key(connection, own)
        keys, unreached = {own.target: own}, []
        for target, name in list_keys(connection).items():
            if target != own.target:
                variable, secret = find_secret(target)
                both = TargetKey.of(target, secret), TargetKey.of(target, None)
                keys |= {key.target: key for key in both if key.name == name}
                unreached += [] if target in keys else [(target, variable)]
        replaced = sum(_suppress(connection, key, phone, at) for key in keys.values())
        found = []
        theirs = select(campaigns).where(campaigns.c.target.in_(keys))
        for row in connection.execute(theirs.order_by(campaigns.c.target, campaigns.c.name)).all():
            removed = remove_person(connection, row.id, row.name, keys[row.target].fingerprint(phone))
            if any(removed.values()):
                found.append(ForgottenCampaign(row.target, row.name, **removed))
    log_keeps = not empty_log(ledger)
    return Forgotten(tuple(keys.values()), replaced, tuple(found), tuple(unreached), log_keeps=log_keeps)


def overwrite_removed(ledger: Ledger, connection: Connection) -> None:
    """Have SQLite overwrite what this connection removes: freed pages keep their content otherwise.

    Source: sqlite.org, PRAGMA secure_delete.
    """
    if ledger.file is not None:
        connection.exec_driver_sql("PRAGMA secure_delete = ON")


def empty_log(ledger: Ledger) -> bool:
    """Empty an SQLite log; return False if readers prevent that, or the database is another one."""
    if ledger.file is None:
        return False
    with ledger.autocommit() as connection:
        is_busy, _, _ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
    return not is_busy


def compact(ledger: Ledger) -> bool:
    """Rewrite an SQLite file without what was removed; return False if its log, or a server, may keep it."""
    if ledger.file is not None:
        with ledger.autocommit() as connection:
            connection.exec_driver_sql("VACUUM")
    return empty_log(ledger)


def _suppress(connection: Connection, key: TargetKey, phone: str, at: str) -> int:
    """Replace a person's entries by one suppression, and return their number."""
    is_theirs, asked = (
        and_(table.c.target == key.target, table.c.fingerprint == key.fingerprint(phone))
        for table in (opt_outs, opt_ins)
    )
    at = find_next_moment(connection, is_theirs, at)
    replaced = connection.execute(delete(opt_outs).where(is_theirs)).rowcount
    connection.execute(delete(opt_ins).where(asked))
    add_opt_outs(connection, key, [phone], "forgotten", at)
    return replaced
