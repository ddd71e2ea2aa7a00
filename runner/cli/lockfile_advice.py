"""What to do about a lockfile that grows too large for the repository that it is kept in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.ledger.deliveries import count_accepted

if TYPE_CHECKING:
    from runner.ledger.database import Ledger
    from runner.ledger.recorded import RecordHead

MANY_LAUNCHES = 100_000


def advise_summary(ledger: Ledger, campaign: str, record: RecordHead) -> str | None:
    """Return what to say of a lockfile that holds very many launches; None of others.

    Args:
        ledger: open.
        campaign: the campaign's name.
        record: as it was entered.
    """
    campaign_id, _ = record.require_entered()
    with ledger.reading() as connection:
        launches = count_accepted(connection, campaign_id)
    if launches <= MANY_LAUNCHES:
        return None
    return (
        f"{campaign}: its lockfile holds {launches:,} launches. With `lockfile: summary` in the campaign it "
        "holds counts and digests instead, and the ledger the rest."
    )
