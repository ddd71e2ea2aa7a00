"""Changes of a campaign's results since they were copied.

Every transaction that inserts or changes results has a revision, one higher than the last. Removed or moved
rows leave no trace, so the ledger's edition changes then, and invalidates copies. A ledger restored from a
backup repeats revisions: each has a random mark, which shows a copy whether the ledger ever had its revision.

Several processes can copy one state: PostgreSQL lets transactions share a snapshot (its manual, "Snapshot
Synchronization Functions"). The server exports rows as CSV, without work for each row here.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, String, func, insert, select

from runner.ledger.database import has_table, read_info, write_info
from runner.ledger.report_model import FeedRow, ResultVersion
from runner.ledger.results.sendings import select_reached
from runner.ledger.tables import (
    info,
    launch_arms,
    launch_starts,
    launch_stats,
    launches,
    result_revisions,
    results,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from sqlalchemy import Select


_REVISION = "results_revision"
_EDITION = "results_edition"
_GROUP = 5000
_OF_THE_SERVICE = {column.name for column in results.c if isinstance(column.type, String)}


def read_version(connection: Connection) -> ResultVersion:
    """Return the version of the ledger's results.

    Without results, and in a ledger of an older version, each call returns a different one.
    """
    edition = read_info(connection, _EDITION) or secrets.token_hex(8)
    return ResultVersion(edition, int(read_info(connection, _REVISION) or "0"))


def begin_revision(connection: Connection) -> int:
    """Begin a revision for this transaction's results; other transactions wait for its end."""
    query = select(info.c.value).where(info.c.name == _REVISION).with_for_update()
    revision = int(connection.execute(query).scalar() or "0") + 1
    write_info(connection, _REVISION, str(revision))
    connection.execute(insert(result_revisions).values(revision=revision, mark=secrets.token_hex(8)))
    if read_info(connection, _EDITION) is None:
        renew_edition(connection)
    return revision


def find_mark(connection: Connection, revision: int) -> str:
    """Return the mark of a revision; empty if the ledger never had it, or had it in an older version."""
    if not has_table(connection, result_revisions):
        return ""
    query = select(result_revisions.c.mark).where(result_revisions.c.revision == revision)
    return connection.execute(query).scalar() or ""


def renew_edition(connection: Connection) -> None:
    """Invalidate every copy of the results after some were removed or moved."""
    write_info(connection, _EDITION, secrets.token_hex(8))


def iterate_feed(connection: Connection, campaign_id: int, since: int) -> Iterator[FeedRow]:
    """Yield the results of a campaign newer than a revision (-1 for all), unordered."""
    query = select_feed(campaign_id).where(results.c.revision > since)
    for row in connection.execute(query.execution_options(yield_per=_GROUP)):
        yield FeedRow._make(row)


def select_feed(campaign_id: int) -> Select[Any]:
    """Return the query for a campaign's results with the columns of `FeedRow`."""
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


class FeedSpan(NamedTuple):
    """Consecutive launches: the numbers of the first and the last."""

    first: int
    last: int


def share_snapshot(connection: Connection) -> str:
    """Return the name of a transaction's snapshot, which others can share until it ends."""
    name: str = connection.execute(select(func.pg_export_snapshot())).scalar_one()
    return name


def iterate_spans(connection: Connection, campaign_id: int, most: int) -> Iterator[tuple[FeedSpan, int]]:
    """Yield spans of a campaign's launches, each with the approximate number of its results.

    A span has about `most` results; launches are not divided.
    """
    # The service's count; for launches that were never reconciled, one result a recipient.
    expected = func.coalesce(launch_stats.c.num_results, launches.c.recipients)
    query = (
        select(launches.c.id, expected)
        .outerjoin(launch_stats, launch_stats.c.launch_id == launches.c.id)
        .where(launches.c.campaign_id == campaign_id)
        .order_by(launches.c.id)
        .execution_options(yield_per=_GROUP)
    )
    first = last = None
    count = 0
    for number, more in connection.execute(query):
        if first is not None and last is not None and count + more > most:
            yield FeedSpan(first, last), count
            first, count = None, 0
        first, last = number if first is None else first, number
        count += more
    if first is not None and last is not None:
        yield FeedSpan(first, last), count


def copy_feed(
    connection: Connection, campaign_id: int, span: FeedSpan, longest: int, stream: BinaryIO
) -> None:
    """Write the results of some launches from PostgreSQL as UTF-8 CSV with all values quoted.

    The columns are those of `FeedRow`; texts are cut to `longest` characters.
    """
    query = select_feed(campaign_id).where(launches.c.id.between(*span))
    # Texts of the service can have any length.
    cells = [
        func.left(one, longest) if one.name in _OF_THE_SERVICE else one for one in query.selected_columns
    ]
    _copy(connection, query.with_only_columns(*cells, maintain_column_froms=True), stream)


def copy_reached(connection: Connection, campaign_id: int, span: FeedSpan, stream: BinaryIO) -> None:
    """Write the recipients of some launches as CSV: the recorded message id, and the fingerprint."""
    _copy(connection, select_reached(campaign_id).where(launches.c.id.between(*span)), stream)


def _copy(connection: Connection, query: Select[Any], stream: BinaryIO) -> None:
    # COPY takes no parameters; only numbers are written into the statement.
    written = query.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
    driver: Any = connection.connection.driver_connection
    with (
        driver.cursor() as cursor,
        cursor.copy(f"COPY ({written}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)") as rows,
    ):
        stream.writelines(rows)
