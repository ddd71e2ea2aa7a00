"""A campaign's results, and whom it reached, for copies that several processes make at once.

All of them see the ledger as it was at one moment: PostgreSQL lets transactions share a snapshot (its manual,
"Snapshot Synchronization Functions"). Rows leave the server as CSV, and no process looks at them one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, String, func, select

from runner.ledger.result_feed import select_feed
from runner.ledger.sendings import select_reached
from runner.ledger.tables import launch_stats, launches, results

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from sqlalchemy import Select

_GROUP = 5000
_OF_THE_SERVICE = {column.name for column in results.c if isinstance(column.type, String)}


class Span(NamedTuple):
    """Launches with numbers in a row.

    Attributes:
        first: the ledger's number of the first of them.
        last: and of the last.
    """

    first: int
    last: int


def share_snapshot(connection: Connection) -> str:
    """Return the name of what a transaction sees; others can see the same as long as it lasts.

    Args:
        connection: reads a ledger on PostgreSQL.
    """
    name: str = connection.execute(select(func.pg_export_snapshot())).scalar_one()
    return name


def iterate_spans(connection: Connection, campaign_id: int, most: int) -> Iterator[tuple[Span, int]]:
    """Yield a campaign's launches in spans, each with about how many results it has.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        most: about how many a span is to have; a launch is never parted.
    """
    # As many as the service counts; of launches that were never reconciled, one a recipient.
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
            yield Span(first, last), count
            first, count = None, 0
        first, last = number if first is None else first, number
        count += more
    if first is not None and last is not None:
        yield Span(first, last), count


def copy_feed(connection: Connection, campaign_id: int, span: Span, longest: int, stream: BinaryIO) -> None:
    """Write the results of some launches, with the columns of `FeedRow`, as CSV with every value quoted.

    Args:
        connection: reads a ledger on PostgreSQL.
        campaign_id: the ledger's number of the campaign.
        span: the launches.
        longest: characters of a text that are wanted.
        stream: takes UTF-8.
    """
    query = select_feed(campaign_id).where(launches.c.id.between(*span))
    # What the service says can be of any length.
    cells = [
        func.left(one, longest) if one.name in _OF_THE_SERVICE else one for one in query.selected_columns
    ]
    _copy(connection, query.with_only_columns(*cells, maintain_column_froms=True), stream)


def copy_reached(connection: Connection, campaign_id: int, span: Span, stream: BinaryIO) -> None:
    """Write who was reached by some launches: the message's id as it was, and the fingerprint, likewise.

    Args:
        connection: reads a ledger on PostgreSQL.
        campaign_id: the ledger's number of the campaign.
        span: the launches.
        stream: takes UTF-8.
    """
    _copy(connection, select_reached(campaign_id).where(launches.c.id.between(*span)), stream)


def _copy(connection: Connection, query: Select[Any], stream: BinaryIO) -> None:
    # Numbers alone are written into the statement: COPY takes no values.
    written = query.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
    driver: Any = connection.connection.driver_connection
    with (
        driver.cursor() as cursor,
        cursor.copy(f"COPY ({written}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)") as rows,
    ):
        stream.writelines(rows)
