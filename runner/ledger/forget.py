"""Removes a person from the ledger (GDPR, article 17; CCPA, section 1798.105), but for what keeps them safe.

What stays is one keyed suppression entry on each target, and one in each campaign that had something of
theirs, for its lockfile: without them the next `apply` of a file that still lists the phone would take them
for a newcomer. Keeping these is the least that can carry out their wish (GDPR, article 17(3)(b) and (e)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, delete, select

from runner.ledger.forgotten import mark_forgotten
from runner.ledger.frequency import open_campaign_key
from runner.ledger.opt_outs import add_opt_outs, find_next_moment
from runner.ledger.removal import remove_person
from runner.ledger.renaming import find_first_name
from runner.ledger.tables import campaigns, opt_ins, opt_outs
from runner.ledger.target_key import enter_target_key, list_keyed_targets, reach_target_key

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from runner.ledger.database import Ledger
    from runner.ledger.target_key import TargetKey, TargetSecret


@dataclass(frozen=True, slots=True)
class ForgottenCampaign:
    """What was removed of one campaign's record.

    Attributes:
        target: the target's name.
        campaign: the campaign's name.
        deliveries: rows that said that the person was texted.
        results: answers of theirs.
        texts: rendered texts that went to them alone.
        shared_texts: texts that others got word by word, and that stay: they name everyone of them or nobody.
        unresolved: launches to them of unknown outcome: their rows stay, or nobody could find out about the
            others.
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
    """What forgetting a person has done, and what it could not reach. No phone in it.

    Attributes:
        targets: those on which they will not be texted again.
        opt_outs: rows about replies and lists that gave way to that one entry.
        campaigns: those that had something of theirs.
        unreadable: target and name of campaigns that were written with a key that is not at hand.
        unreached: targets whose keys are not at hand, each with the secret that was tried: nothing was
            changed there.
        log_keeps: whether the database still has the old rows in its log or its unused space.
    """

    targets: tuple[str, ...]
    opt_outs: int
    campaigns: tuple[ForgottenCampaign, ...]
    unreadable: tuple[tuple[str, str], ...]
    unreached: tuple[tuple[str, TargetSecret], ...]
    log_keeps: bool

    def list_unreached(self) -> list[str]:
        """Return, in sentences, what may still hold something of the person."""
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
    """Remove everything in the ledger that can be tied to a phone, and see that they are never texted again.

    Args:
        ledger: open, with its tables.
        phone: E.164.
        targets: names of targets to suppress them on beside those that the ledger knows. Without their keys
            nothing is done at all; others whose keys are not at hand are left as they are.
        find_secret: returns the user's secret of a target.
        new_salt: 32 hexadecimal digits, random; for targets that have no key yet.
        at: UTC, ISO 8601.

    Raises:
        LedgerError: the ledger cannot be written, or the key of one of `targets` is not at hand: nothing was
            removed.
    """
    with ledger.writing() as connection:
        if ledger.file is not None:
            # Freed pages keep what was in them otherwise (sqlite.org, PRAGMA secure_delete).
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
    """Return the keys that are at hand; those of `targets` have to be."""
    keys = {
        target: enter_target_key(connection, target, secret.value, new_salt)
        if target in targets
        else reach_target_key(connection, target, secret, new_salt)
        for target, secret in secrets.items()
    }
    return {target: key for target, key in keys.items() if key is not None}


def _explain(secret: TargetSecret) -> str:
    """Return what to do about a target whose key is not at hand."""
    if secret.value is None:
        return f"its key is in {secret.variable}, which is not set: set it"
    return f"{secret.variable} holds another key than its records were written with: set it to that one"


def _empty_log(ledger: Ledger) -> bool:
    """Return whether the log is empty now: only a file's can be emptied, and only if nobody is reading."""
    if ledger.file is None:
        return False
    with ledger.standing() as connection:
        is_busy, _, _ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
    return not is_busy


def _suppress(connection: Connection, key: TargetKey, phone: str, at: str) -> int:
    """Leave the one entry that keeps a person from being texted, and return how many it has replaced."""
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
    """Remove a person from the campaigns on some targets, each of which comes with the user's secret."""
    found, unreadable = [], []
    query = select(campaigns).where(campaigns.c.target.in_(state_keys))
    for row in connection.execute(query.order_by(campaigns.c.target, campaigns.c.name)).all():
        key = open_campaign_key(row.salt, row.key_fingerprint, state_keys[row.target])
        if key is None:
            unreadable.append((row.target, row.name))
            continue
        name = find_first_name(connection, row.id) or row.name
        fingerprint = key.fingerprint(name, phone)
        removed = remove_person(connection, row.id, name, fingerprint)
        if any(removed.values()):
            mark_forgotten(connection, row.id, fingerprint)
            found.append(ForgottenCampaign(row.target, row.name, **removed))
    return tuple(found), tuple(unreadable)
