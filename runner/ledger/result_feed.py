"""What has changed in a campaign's results since a copy of them was made.

Every transaction that enters or changes results has a revision, one higher than the last. Rows that are
removed, or come to belong to something else, leave no trace of that, so then the ledger's edition changes:
a copy of another edition is worth nothing. A ledger that is restored from a backup counts on from an earlier
revision: each has a random mark, by which a copy knows whether the ledger has ever had what it has copied.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, insert, inspect, select, update

from runner.ledger.report_model import FeedRow, ResultVersion
from runner.ledger.tables import info, launch_arms, launch_starts, launches, result_revisions, results

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Select

_REVISION = "results_revision"
_EDITION = "results_edition"
_GROUP = 5000


def read_version(connection: Connection) -> ResultVersion:
    """Return which results the ledger has.

    Before the first of them, and in a ledger of an older version, no two readings are alike.
    """
    query = select(info.c.name, info.c.value).where(info.c.name.in_((_EDITION, _REVISION)))
    found = {row.name: row.value for row in connection.execute(query)}
    return ResultVersion(found.get(_EDITION) or secrets.token_hex(8), int(found.get(_REVISION, "0")))


def begin_revision(connection: Connection) -> int:
    """Return the revision of what this transaction enters or changes; others wait for its end.

    Args:
        connection: commits after this.
    """
    query = select(info.c.value).where(info.c.name == _REVISION).with_for_update()
    revision = int(connection.execute(query).scalar() or "0") + 1
    _put(connection, _REVISION, str(revision))
    connection.execute(insert(result_revisions).values(revision=revision, mark=secrets.token_hex(8)))
    if connection.execute(select(info.c.value).where(info.c.name == _EDITION)).scalar() is None:
        renew_edition(connection)
    return revision


def find_mark(connection: Connection, revision: int) -> str:
    """Return the mark of a revision; empty for one that the ledger has not had, or had in an older version.

    Args:
        connection: reads the ledger.
        revision: its number.
    """
    if not inspect(connection).has_table(result_revisions.name):
        return ""
    query = select(result_revisions.c.mark).where(result_revisions.c.revision == revision)
    return connection.execute(query).scalar() or ""


def renew_edition(connection: Connection) -> None:
    """Make every copy of the results worthless: some were removed, or belong to something else now.

    Args:
        connection: commits after this.
    """
    _put(connection, _EDITION, secrets.token_hex(8))


def iterate_feed(connection: Connection, campaign_id: int, since: int) -> Iterator[FeedRow]:
    """Yield the results of a campaign that were entered or changed after a revision, in no order.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        since: the revision; -1 for all.
    """
    query = select_feed(campaign_id).where(results.c.revision > since)
    for row in connection.execute(query.execution_options(yield_per=_GROUP)):
        yield FeedRow._make(row)


def select_feed(campaign_id: int) -> Select[Any]:
    """Return the query for a campaign's results, with the columns of `FeedRow`.

    Args:
        campaign_id: the ledger's number of the campaign.
    """
    return (
        select(
            launches.c.message,
            func.coalesce(launch_arms.c.arm, "").label("arm"),
            func.coalesce(launch_starts.c.project_launch_start, "").label("started"),
            results.c.launch_id,
            results.c.result_guid,
            results.c.participant,
            results.c.question_tag,
            results.c.question_text,
            results.c.question_display_order,
            results.c.result_answer,
            results.c.result_response,
            results.c.created,
        )
        .join(launches, launches.c.id == results.c.launch_id)
        .outerjoin(launch_starts, launch_starts.c.launch_id == results.c.launch_id)
        .outerjoin(launch_arms, launch_arms.c.launch_id == results.c.launch_id)
        .where(launches.c.campaign_id == campaign_id)
    )


def _put(connection: Connection, name: str, value: str) -> None:
    changed = connection.execute(update(info).where(info.c.name == name).values(value=value))
    if not changed.rowcount:
        connection.execute(insert(info).values(name=name, value=value))
