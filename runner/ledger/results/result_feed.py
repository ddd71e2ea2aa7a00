"""Changes of a campaign's results since they were copied.

Every transaction that inserts or changes results has a revision, one higher than the last. Removed or moved
rows leave no trace, so the ledger's edition changes then, and invalidates copies. A ledger restored from a
backup repeats revisions: each has a random mark, which shows a copy whether the ledger ever had its revision.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from sqlalchemy import Connection, String, bindparam, func, insert, select

from runner.ledger.database import exclude_others, read_info, write_info
from runner.ledger.report_model import FeedRow, ResultVersion
from runner.ledger.tables import launch_stats, launches, result_revisions, results

if TYPE_CHECKING:
    from collections.abc import Iterator


RESULTS_EDITION = "results_edition"
_GROUP = 5000
LONGEST_TEXT = 40_000
"""Characters of a text in a feed: more than one message can have in its 255 segments (3GPP TS 23.040)."""
_LAST_REVISION = select(func.coalesce(func.max(result_revisions.c.revision), 0))
_BEGIN_REVISION = (
    insert(result_revisions)
    .from_select(
        ["revision", "mark"], select(_LAST_REVISION.scalar_subquery() + 1, bindparam("b_mark", type_=String))
    )
    .returning(result_revisions.c.revision)
)


def read_version(connection: Connection) -> ResultVersion:
    """Return the version of the ledger's results.

    Without results, each call returns a different one.
    """
    edition = read_info(connection, RESULTS_EDITION) or secrets.token_hex(8)
    return ResultVersion(edition, connection.execute(_LAST_REVISION).scalar_one())


def begin_revision(connection: Connection) -> int:
    """Begin a revision for this transaction's results; other transactions wait for its end."""
    exclude_others(connection)
    revision: int = connection.execute(_BEGIN_REVISION, {"b_mark": secrets.token_hex(8)}).scalar_one()
    if revision == 1 and read_info(connection, RESULTS_EDITION) is None:
        renew_edition(connection)
    return revision


def find_mark(connection: Connection, revision: int) -> str:
    """Return the mark of a revision; empty if the ledger never had it."""
    query = select(result_revisions.c.mark).where(result_revisions.c.revision == revision)
    return connection.execute(query).scalar() or ""


def renew_edition(connection: Connection) -> None:
    """Invalidate every copy of the results after some were removed or moved."""
    write_info(connection, RESULTS_EDITION, secrets.token_hex(8))


def iterate_feed(connection: Connection, campaign_id: int, since: int) -> Iterator[FeedRow]:
    """Yield the results of a campaign newer than a revision (-1 for all), unordered."""
    query = (
        select(
            launches.c.message,
            func.coalesce(launches.c.arm, "").label("arm"),
            func.coalesce(launch_stats.c.project_launch_start, "").label("started"),
            results.c.launch_id,
            results.c.result_guid,
            results.c.participant,
            results.c.question_tag,
            func.substr(results.c.question_text, 1, LONGEST_TEXT),
            results.c.question_display_order,
            func.substr(results.c.result_answer, 1, LONGEST_TEXT),
            func.substr(results.c.result_response, 1, LONGEST_TEXT),
            results.c.created,
            results.c.non_answer,
            launches.c.occasion,
        )
        .join(launches, launches.c.id == results.c.launch_id)
        .outerjoin(launch_stats, launch_stats.c.launch_id == results.c.launch_id)
        .where(launches.c.campaign_id == campaign_id, results.c.revision > since)
    )
    for row in connection.execute(query.execution_options(yield_per=_GROUP)):
        yield FeedRow._make(row)
