"""Forgotten people, and the removal of their data from the ledger (GDPR, article 17; CCPA, section 1798.105).

One keyed suppression entry stays on each target, and one in each campaign with data of the person. Lockfiles
carry these to other ledgers: without them the next `apply` of a file with the phone would text the person as
a newcomer. That is the least that can carry out their wish (GDPR, article 17(3)(b) and (e)).
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, bindparam, delete, exists, func, select, update

from runner.ledger.database import insert_missing, insert_or_update
from runner.ledger.fingerprint import FingerprintKey, launch_key
from runner.ledger.lockfile.checkpoints import remove_people
from runner.ledger.lockfile.integrity import leave_out
from runner.ledger.people.opt_outs import add_opt_outs, find_next_moment, remove_opt_out
from runner.ledger.record.deliveries import iterate_accepted
from runner.ledger.record.renaming import list_campaigns, renew_launch_keys
from runner.ledger.record.unsettled import OPEN
from runner.ledger.results.result_feed import renew_edition
from runner.ledger.tables import (
    campaigns,
    deliveries,
    forgotten_people,
    forgotten_results,
    launch_readings,
    launches,
    message_names,
    opt_ins,
    opt_outs,
    results,
    sessions,
)
from runner.ledger.target_key import enter_target_key, list_keyed_targets, reach_target_key

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord
    from runner.ledger.target_key import KeySource, TargetKey, TargetSecret


def remove_person(
    connection: Connection, campaign_id: int, first_name: str, fingerprint: str
) -> dict[str, int]:
    """Remove a person from a campaign's record, except launches to them of unknown outcome.

    Returns the numbers of `deliveries`, `results`, `texts`, `shared_texts` and `unresolved` launches.
    """
    is_open = launches.c.state.in_(OPEN)
    theirs = and_(deliveries.c.campaign_id == campaign_id, deliveries.c.fingerprint == fingerprint)
    query = select(launches.c.id, launches.c.definition, is_open.label("is_open")).join(
        deliveries, deliveries.c.launch_id == launches.c.id
    )
    rows = connection.execute(query.where(theirs)).all()
    settled = [row.id for row in rows if not row.is_open]
    alone = _find_alone(connection, settled, fingerprint)
    abandoned = _find_abandoned(connection, campaign_id, first_name, fingerprint)
    written = {row.id for row in rows if row.definition is not None} & set(settled)
    counts = {
        "results": _forget_results(connection, campaign_id, fingerprint),
        "texts": len(written & alone) + len(abandoned),
        "shared_texts": len(written - alone),
        "unresolved": len(rows) - len(settled),
    }
    remove_people(connection, campaign_id, settled, fingerprint)
    removed = delete(deliveries).where(theirs, deliveries.c.launch_id.in_(settled))
    counts["deliveries"] = connection.execute(removed).rowcount
    blank = update(launches).where(launches.c.id.in_(alone | abandoned)).values(definition=None, detail=None)
    connection.execute(blank)
    # A reading that is under way asks the service for the text again; of a killed one nothing is to stay.
    connection.execute(update(launch_readings).values(definition=None))
    # The old keys are digests of the person's fingerprint, among others.
    renew_launch_keys(connection, first_name, launches.c.id.in_(settled), launches.c.state == "sent")
    return counts


def _find_alone(connection: Connection, launch_ids: Collection[int], fingerprint: str) -> set[int]:
    """Return the launches to the person alone."""
    other = exists().where(deliveries.c.launch_id == launches.c.id, deliveries.c.fingerprint != fingerprint)
    query = select(launches.c.id).where(launches.c.id.in_(launch_ids), launches.c.recipients <= 1, ~other)
    return set(connection.execute(query).scalars())


def _find_abandoned(connection: Connection, campaign_id: int, first_name: str, fingerprint: str) -> set[int]:
    """Return launches to the person alone that reached nobody and were replaced by another one.

    No row names their recipient, but their keys are digests of it.
    """
    held = exists().where(deliveries.c.launch_id == launches.c.id)
    query = select(launches.c.id, launches.c.message, launches.c.payload_digest, launches.c.launch_key).where(
        launches.c.campaign_id == campaign_id,
        launches.c.recipients == 1,
        launches.c.definition.is_not(None),
        launches.c.state.not_in(OPEN),
        ~held,
    )
    renames = connection.execute(
        select(message_names).where(message_names.c.campaign_id == campaign_id)
    ).all()
    return {
        row.id
        for row in connection.execute(query)
        # A launch that reached nobody keeps the key of the message's old id.
        for message in (row.message, *(one.name for one in renames if one.message == row.message))
        if row.launch_key == launch_key(first_name, message, row.payload_digest, [fingerprint])
    }


def _forget_results(connection: Connection, campaign_id: int, fingerprint: str) -> int:
    own = select(launches.c.id).where(launches.c.campaign_id == campaign_id)
    theirs = and_(results.c.participant == fingerprint, results.c.launch_id.in_(own))
    counted = (
        select(results.c.launch_id, func.count().label("number")).where(theirs).group_by(results.c.launch_id)
    )
    connection.execute(
        delete(sessions).where(sessions.c.participant == fingerprint, sessions.c.launch_id.in_(own))
    )
    counts: dict[int, int] = {row.launch_id: row.number for row in connection.execute(counted)}
    kept = select(forgotten_results).where(forgotten_results.c.launch_id.in_(counts))
    for row in connection.execute(kept).all():
        counts[row.launch_id] += row.results
    note_forgotten_results(connection, counts)
    removed = connection.execute(delete(results).where(theirs)).rowcount
    if removed:
        renew_edition(connection)
    return removed


def note_forgotten_results(connection: Connection, counts: Mapping[int, int]) -> None:
    """Store the numbers of results that are not kept, so that counts agree with the service's.

    The counts, by launch number, are of a complete reading.
    """
    rows = [{"launch_id": launch_id, "results": count} for launch_id, count in counts.items()]
    insert_or_update(connection, forgotten_results, rows)


# Built once: `reconcile` asks for each page of results.
_FORGOTTEN = select(forgotten_people.c.fingerprint, forgotten_people.c.released).where(
    forgotten_people.c.campaign_id == bindparam("b_id")
)


def read_forgotten(connection: Connection, campaign_id: int, told: Iterable[str] = ()) -> set[str]:
    """Return the fingerprints of forgotten people who were not let in again, including `told` ones."""
    found = set(told)
    rows = connection.execute(_FORGOTTEN, {"b_id": campaign_id}).all()
    found.update(row.fingerprint for row in rows)
    return found.difference(row.fingerprint for row in rows if row.released)


def mark_forgotten(connection: Connection, campaign_id: int, fingerprint: str) -> None:
    """Enter a person as forgotten, even if they were let in again before."""
    row = {"campaign_id": campaign_id, "fingerprint": fingerprint, "released": False}
    insert_or_update(connection, forgotten_people, [row])


def absorb_forgotten(
    connection: Connection, campaign_id: int, first_name: str, told: Collection[str]
) -> set[str]:
    """Enter the forgotten people of lockfiles, and remove the rows of all forgotten people.

    People who were let in again here stay so. Returns the fingerprints of all forgotten people.
    """
    rows = [{"campaign_id": campaign_id, "fingerprint": one, "released": False} for one in sorted(told)]
    insert_missing(connection, forgotten_people, rows)
    found = read_forgotten(connection, campaign_id)
    if found:
        # Another ledger has forgotten them, or a launch to them was settled just now.
        for fingerprint in _find_lingering(connection, campaign_id, settled_only=True):
            remove_person(connection, campaign_id, first_name, fingerprint)
    return found


def iterate_remembered(connection: Connection, campaign_id: int, first_name: str) -> Iterator[LaunchRecord]:
    """Yield a campaign's accepted launches as `iterate_accepted` does, without forgotten people."""
    forgotten = _find_lingering(connection, campaign_id)
    if not forgotten:
        yield from iterate_accepted(connection, campaign_id, first_name)
        return
    altered = [
        leave_out(record, forgotten, first_name)
        for record in iterate_accepted(connection, campaign_id, first_name)
        if not forgotten.isdisjoint(record.recipients)
    ]
    unaltered = (
        record
        for record in iterate_accepted(connection, campaign_id, first_name)
        if forgotten.isdisjoint(record.recipients)
    )
    by_place = attrgetter("place")
    yield from merge(sorted(altered, key=by_place), unaltered, key=by_place)


def find_as_forgotten(
    connection: Connection, target: str, phone: str, state_key: str | None
) -> list[tuple[int, str]]:
    """Return the numbers of the campaigns that have forgotten a person, with the fingerprints there.

    Campaigns with another key than `state_key` are skipped.
    """
    is_theirs = and_(forgotten_people.c.campaign_id == campaigns.c.id, forgotten_people.c.released.is_(False))
    have_forgotten = select(forgotten_people).where(is_theirs).exists()
    found = []
    for row in list_campaigns(connection, campaigns.c.target == target, have_forgotten):
        key = FingerprintKey.reopen(row.salt, state_key, row.key_fingerprint)
        if key is None:
            continue
        fingerprint = key.fingerprint(row.first_name, phone)
        if fingerprint in read_forgotten(connection, row.id):
            found.append((row.id, fingerprint))
    return found


def let_in(connection: Connection, people: KeySource, phone: str, at: str) -> int:
    """Let a person be texted again who opted out or was forgotten; return the number of removed entries.

    Raises:
        LedgerError: the target's key is missing.
    """
    key = people.read(connection)
    dismissed = remove_opt_out(connection, key, phone, at) if key else 0
    found = find_as_forgotten(connection, people.target, phone, people.state_key)
    for campaign_id, fingerprint in found:
        is_it = and_(
            forgotten_people.c.campaign_id == campaign_id, forgotten_people.c.fingerprint == fingerprint
        )
        connection.execute(update(forgotten_people).where(is_it).values(released=True))
    return dismissed + len(found)


def _find_lingering(connection: Connection, campaign_id: int, *, settled_only: bool = False) -> set[str]:
    """Return the forgotten people who still have deliveries in the ledger."""
    is_same = and_(
        forgotten_people.c.campaign_id == deliveries.c.campaign_id,
        forgotten_people.c.fingerprint == deliveries.c.fingerprint,
    )
    query = (
        select(deliveries.c.fingerprint)
        .join(forgotten_people, is_same)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(deliveries.c.campaign_id == campaign_id, forgotten_people.c.released.is_(False))
        .distinct()
    )
    if settled_only:
        query = query.where(launches.c.state.not_in(OPEN))
    return set(connection.execute(query).scalars())


@dataclass(frozen=True, slots=True)
class ForgottenCampaign:
    """The numbers of rows removed from one campaign's record.

    `texts` went to the person alone; `shared_texts` stay, since others got the same words; rows of
    `unresolved` launches stay until their outcome is known.
    """

    target: str
    campaign: str
    deliveries: int
    results: int
    texts: int
    shared_texts: int
    unresolved: int


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The effects of forgetting a person, and the places out of reach; without their phone.

    `opt_outs` counts replaced rows of replies and lists. `unreadable` has campaigns whose key is missing, by
    target and name; `unreached`, unchanged targets with the missing secret. `log_keeps`: the database still
    has the old rows in its log or unused space.
    """

    targets: tuple[str, ...]
    opt_outs: int
    campaigns: tuple[ForgottenCampaign, ...]
    unreadable: tuple[tuple[str, str], ...]
    unreached: tuple[tuple[str, TargetSecret], ...]
    log_keeps: bool

    def list_unreached(self) -> list[str]:
        """Return sentences about places that may still have data of the person."""
        found = [
            (
                "lockfiles in git's history, in branches and clones hold their fingerprints: commit the ones "
                "that are written anew; the others change only if history is rewritten"
            ),
            "the service keeps its own records of whom it texted and what they answered: ask its operator",
            "reports, exports, audience files and backups of the ledger: they are yours to write anew",
            (
                "ledgers of other machines keep what they have of them, though nobody texts them from there "
                "once `runner record` has committed the file of suppressions: run `runner forget` there, too"
            ),
        ]
        if self.log_keeps:
            found.append("the database has the old rows in its log and its unused space until it reuses them")
        found += [
            f"the target {target}, where nothing was changed: {_explain(secret)}, and forget them again with "
            f"--target {target}"
            for target, secret in self.unreached
        ]
        found += [
            f"the record of {name} on {target} was written with a RUNNER_STATE_KEY that is not at hand: "
            "set it, and forget them again"
            for target, name in self.unreadable
        ]
        found += [
            f"{one.campaign} on {one.target} has launches to them of unknown outcome ({one.unresolved}): "
            "run `runner apply` or `runner resolve`, then forget them again"
            for one in self.campaigns
            if one.unresolved
        ]
        return found


def forget_person(
    ledger: Ledger,
    phone: str,
    *,
    targets: Collection[str],
    find_secret: Callable[[str], TargetSecret],
    new_salt: str,
    at: str,
) -> Forgotten:
    """Remove everything in the ledger that can be tied to a phone (E.164), and suppress the person.

    `targets` are suppressed even if the ledger does not know them, and their keys must be there; others whose
    keys are missing stay unchanged. `new_salt` (32 random hexadecimal digits) is for targets without a key.

    Raises:
        LedgerError: the ledger cannot be written, or the key of one of `targets` is missing: nothing was
            removed.
    """
    with ledger.writing() as connection:
        if ledger.file is not None:
            # Freed pages would keep their content (sqlite.org, PRAGMA secure_delete).
            connection.exec_driver_sql("PRAGMA secure_delete = ON")
        known = connection.execute(select(campaigns.c.target).distinct()).scalars().all()
        everywhere = sorted({*targets, *known, *list_keyed_targets(connection)})
        secrets = {target: find_secret(target) for target in everywhere}
        reached = _reach_keys(connection, targets, secrets, new_salt)
        replaced = sum(_suppress(connection, key, phone, at) for key in reached.values())
        found, unreadable = _forget_deliveries(connection, phone, {t: secrets[t].value for t in reached})
    return Forgotten(
        tuple(reached),
        replaced,
        found,
        unreadable,
        tuple((target, secret) for target, secret in secrets.items() if target not in reached),
        log_keeps=not _empty_log(ledger),
    )


def _reach_keys(
    connection: Connection, targets: Collection[str], secrets: Mapping[str, TargetSecret], new_salt: str
) -> dict[str, TargetKey]:
    """Return the keys that are set; those of `targets` must be."""
    keys = {
        target: enter_target_key(connection, target, secret.value, new_salt)
        if target in targets
        else reach_target_key(connection, target, secret, new_salt)
        for target, secret in secrets.items()
    }
    return {target: key for target, key in keys.items() if key is not None}


def _explain(secret: TargetSecret) -> str:
    """Return a hint for a target whose key is missing."""
    if secret.value is None:
        return f"its key is in {secret.variable}, which is not set: set it"
    return f"{secret.variable} holds another key than its records were written with: set it to that one"


def _empty_log(ledger: Ledger) -> bool:
    """Empty an SQLite log; return False if readers prevent that."""
    if ledger.file is None:
        return False
    with ledger.autocommit() as connection:
        is_busy, _, _ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
    return not is_busy


def _suppress(connection: Connection, key: TargetKey, phone: str, at: str) -> int:
    """Replace a person's entries by one suppression, and return their number."""
    is_theirs = and_(opt_outs.c.target == key.target, opt_outs.c.fingerprint == key.fingerprint(phone))
    at = find_next_moment(connection, is_theirs, at)
    replaced = connection.execute(delete(opt_outs).where(is_theirs)).rowcount
    asked = and_(opt_ins.c.target == key.target, opt_ins.c.fingerprint == key.fingerprint(phone))
    connection.execute(delete(opt_ins).where(asked))
    add_opt_outs(connection, key, [phone], "forgotten", at)
    return replaced


def _forget_deliveries(
    connection: Connection, phone: str, state_keys: Mapping[str, str | None]
) -> tuple[tuple[ForgottenCampaign, ...], tuple[tuple[str, str], ...]]:
    """Remove a person from the campaigns on some targets, each given with the user's secret."""
    found, unreadable = [], []
    for row in list_campaigns(connection, campaigns.c.target.in_(state_keys)):
        key = FingerprintKey.reopen(row.salt, state_keys[row.target], row.key_fingerprint)
        if key is None:
            unreadable.append((row.target, row.name))
            continue
        fingerprint = key.fingerprint(row.first_name, phone)
        removed = remove_person(connection, row.id, row.first_name, fingerprint)
        if any(removed.values()):
            mark_forgotten(connection, row.id, fingerprint)
            found.append(ForgottenCampaign(row.target, row.name, **removed))
    return tuple(found), tuple(unreadable)
