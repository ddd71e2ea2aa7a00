"""Who may still be texted, asked in the very transaction that records the intents: others write meanwhile."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from runner.ledger.tables import opt_outs
from runner.ledger.target_key import read_target_key

if TYPE_CHECKING:
    from collections.abc import Iterable

_GROUP = 500


def find_suppressed(
    connection: Connection, target: str, state_key: str | None, phones: Iterable[str]
) -> set[str]:
    """Return those who have opted out of a target, or of whom a person must say whether they did.

    Args:
        connection: writes a ledger with all its tables.
        target: the target's name.
        state_key: the user's secret; None if there is none.
        phones: E.164.

    Raises:
        LedgerError: the target's key is not at hand.
    """
    # Most ledgers know of nobody, and this is asked for every group of launches.
    anyone = select(opt_outs.c.target).where(opt_outs.c.target == target).limit(1)
    if connection.execute(anyone).first() is None:
        return set()
    key = read_target_key(connection, target, state_key)
    if key is None:
        return set()
    found: set[str] = set()
    waiting = iter(phones)
    while group := {key.fingerprint(phone): phone for phone in islice(waiting, _GROUP)}:
        query = select(opt_outs.c.fingerprint).where(
            opt_outs.c.target == target,
            opt_outs.c.fingerprint.in_(group),
            opt_outs.c.state != "dismissed",
        )
        found |= {group[fingerprint] for fingerprint in connection.execute(query).scalars()}
    return found
