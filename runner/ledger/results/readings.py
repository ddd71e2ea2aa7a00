"""Readings: what the service says of a campaign's launches, page by page, beside what the ledger holds.

The launches of a reading are those that were accepted when it began. What is missing, the totals and the
contradictions are queries; the counts become the campaign's when the reading ends.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    Connection,
    Integer,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    not_,
    or_,
    select,
    true,
    update,
)

from runner.ledger.bulk import divide
from runner.ledger.database import insert_into
from runner.ledger.model import COUNTS, AcceptedLaunch, format_moment
from runner.ledger.tables import launch_readings, launch_stats, launches, results

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from sqlalchemy import ColumnElement

    from runner.ledger.model import LaunchStats

_GROUP = 500
_KEPT = timedelta(days=1)
"""How long the pages of a reading that was killed are kept."""

_row = launch_readings.c
_HELD = (
    select(func.count()).where(results.c.launch_id == _row.launch_id).correlate(launch_readings)
).scalar_subquery()
_FORGOTTEN = func.coalesce(
    select(launch_stats.c.forgotten_results)
    .where(launch_stats.c.launch_id == _row.launch_id)
    .correlate(launch_readings)
    .scalar_subquery(),
    0,
)
_ACCOUNTED = _HELD + _FORGOTTEN
_LACKS_COUNT = or_(*(_row[name].is_(None) for name in COUNTS))
_LISTED = func.coalesce(_row.shown, _ACCOUNTED)
_COUNTED = func.coalesce(_row.num_results, _LISTED + _row.lost)
_MOST = case((_row.claimed > _COUNTED, _row.claimed), else_=_COUNTED)
_SURPLUS = case((and_(_row.shown.is_not(None), not_(_row.is_short)), _ACCOUNTED - _row.shown), else_=0)


@dataclass(slots=True)
class DueLaunch:
    """A launch whose results are to be read; whole, or only those that the ledger lacks.

    Attributes:
        launch_id: its number in the ledger.
        num_results: results by the service's count; None if it gives none.
        held: results in the ledger.
        forgotten: results that are known and not kept.
        is_whole: only results that are met in this reading count.
    """

    launch_id: int
    project_launch_guid: str
    num_results: int | None = None
    held: int = 0
    forgotten: int = 0
    is_whole: bool = True


class DueResults(NamedTuple):
    """Results to read under a tag.

    Attributes:
        launches: launches with a count.
        listed: results of all launches, by the service's counts.
        lacking: of these, those that the ledger lacks.
    """

    launches: int
    listed: int
    lacking: int


class ReadOutcome(NamedTuple):
    """The outcome of reading a launch's results.

    Attributes:
        is_short: fewer results are listed than the service counts, or than the list claims.
        shown: readable listed results; None if the launch was not read whole.
        claimed: the length that its list claims, if that has shown fewer.
        lost: unreadable listed results.
    """

    launch_id: int
    is_short: bool
    shown: int | None
    claimed: int | None
    lost: int


class UnevenLaunch(NamedTuple):
    """A launch that is not listed, or whose counts or results are not all known.

    Attributes:
        is_short: as in `ReadOutcome`; None if its results were not read.
        num_results: results by the service's count; None if it gives none.
        most: the most results by that count and the length of the launch's own list.
        listed: valid listed results.
        surplus: results in the ledger that are not listed any more.
    """

    launch_id: int
    project_launch_guid: str
    is_listed: bool
    is_unreadable: bool
    is_short: bool | None
    num_results: int | None
    lost: int
    lacks_count: bool
    most: int
    listed: int
    surplus: int


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of a campaign's launches, by its name in the ledger."""

    campaign_id: int
    name: str

    @classmethod
    def begin(cls, connection: Connection, campaign_id: int, at: str) -> Reading:
        """Begin a reading of the launches that are accepted now (`at`: UTC, ISO 8601)."""
        old = format_moment(datetime.fromisoformat(at) - _KEPT)
        connection.execute(delete(launch_readings).where(_row.reading < old))
        reading = cls(campaign_id, f"{at} {secrets.token_hex(8)}")
        held = select(func.count()).where(results.c.launch_id == launches.c.id).scalar_subquery()
        ours = select(
            literal(reading.name), launches.c.id, launches.c.tag, launches.c.project_launch_guid, held
        ).where(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
        names = ["reading", "launch_id", "tag", "project_launch_guid", "held"]
        connection.execute(insert(launch_readings).from_select(names, ours))
        return reading

    def end(self, connection: Connection) -> None:
        """Remove the reading's pages."""
        connection.execute(delete(launch_readings).where(self._is_own))

    @property
    def _is_own(self) -> ColumnElement[bool]:
        return _row.reading == self.name

    def list_tags(self, connection: Connection) -> list[str]:
        """Return the tags of the launches."""
        query = select(_row.tag).where(self._is_own).distinct().order_by(_row.tag)
        return list(connection.execute(query).scalars())

    def list_sought(self, connection: Connection, tag: str) -> set[str]:
        """Return the `project_launch_guid`s under a tag that were not listed yet."""
        is_sought = and_(self._is_own, _row.tag == tag, not_(_row.is_listed), not_(_row.is_unreadable))
        return set(connection.execute(select(_row.project_launch_guid).where(is_sought)).scalars())

    def find_launches(self, connection: Connection, guids: Iterable[str]) -> dict[str, AcceptedLaunch]:
        """Return those of some launches that are the reading's, by `project_launch_guid`."""
        found = {}
        for group in divide(guids, _GROUP):
            is_it = and_(self._is_own, _row.project_launch_guid.in_(group))
            query = (
                select(_row.launch_id, _row.project_launch_guid, launches.c.recipients, launches.c.is_open)
                .join(launches, launches.c.id == _row.launch_id)
                .where(is_it)
            )
            found.update({row.project_launch_guid: AcceptedLaunch(*row) for row in connection.execute(query)})
        return found

    def store(
        self, connection: Connection, stats: Iterable[LaunchStats], definitions: Mapping[int, dict[str, Any]]
    ) -> None:
        """Store what the service says of launches; `definitions` are by the ledger's number of the launch."""
        for group in divide(stats, _GROUP):
            are_these = launches.c.id.in_([one.launch_id for one in group])
            undefined = select(launches.c.id).where(are_these, launches.c.definition.is_(None))
            lacking = set(connection.execute(undefined).scalars())
            rows = [
                {
                    **{name: getattr(one, name) for name in COUNTS},
                    "b_id": one.launch_id,
                    "is_listed": True,
                    "definition": json.dumps(definitions[one.launch_id])
                    if one.launch_id in lacking
                    else None,
                }
                for one in group
            ]
            is_row = and_(self._is_own, _row.launch_id == bindparam("b_id", type_=Integer))
            connection.execute(update(launch_readings).where(is_row), rows)

    def note_unreadable(self, connection: Connection, guids: Collection[str]) -> None:
        """Note launches whose records cannot be read."""
        for group in divide(guids, _GROUP):
            is_it = and_(self._is_own, _row.project_launch_guid.in_(group))
            connection.execute(update(launch_readings).where(is_it).values(is_unreadable=True))

    def has_results(self, connection: Connection) -> bool:
        """Return whether the ledger held results when the reading began."""
        is_held = and_(self._is_own, _row.held > 0)
        return connection.execute(select(_row.launch_id).where(is_held).limit(1)).first() is not None

    def is_read_whole(self, connection: Connection) -> bool:
        """Return whether all launches with such results were read in full."""
        is_left = and_(self._is_own, _row.held > 0, or_(_row.is_short.is_(None), _row.is_short))
        return connection.execute(select(_row.launch_id).where(is_left).limit(1)).first() is None

    def count_due(self, connection: Connection, *, full: bool) -> dict[str, DueResults]:
        """Return what is to be read, by tag."""
        is_due = self._is_due(full=full)
        is_lacking = _row.num_results > _ACCOUNTED
        query = (
            select(
                _row.tag,
                func.count(case((is_due, 1))),
                func.count(case((and_(is_due, _row.num_results.is_not(None)), 1))),
                func.coalesce(func.sum(_row.num_results), 0),
                func.coalesce(func.sum(case((is_lacking, _row.num_results - _ACCOUNTED), else_=0)), 0),
            )
            .where(self._is_own, _row.is_listed)
            .group_by(_row.tag)
            .order_by(_row.tag)
        )
        found = connection.execute(query)
        return {tag: DueResults(*map(int, counts)) for tag, due, *counts in found if due}

    def list_uncertain(self, connection: Connection, tag: str) -> set[str]:
        """Return the launches under a tag whose results differ from their count, by guid."""
        is_uneven = and_(self._is_own, _row.is_listed, _row.tag == tag, _row.num_results != _ACCOUNTED)
        return set(connection.execute(select(_row.project_launch_guid).where(is_uneven)).scalars())

    def list_due(
        self, connection: Connection, tag: str, after: int, count: int, *, full: bool
    ) -> list[DueLaunch]:
        """Return the first launches under a tag to be read, numbered higher than `after`.

        A launch is read whole if some of its results are not kept, as these look new; if the ledger has more
        than the service counts, as only the list tells which; and if the ledger has none yet.
        """
        query = (
            select(
                _row.launch_id,
                _row.project_launch_guid,
                _row.num_results,
                _HELD.label("holds"),
                _FORGOTTEN.label("forgotten"),
            )
            .where(self._is_own, _row.is_listed, _row.tag == tag, _row.launch_id > after)
            .where(self._is_due(full=full))
            .order_by(_row.launch_id)
            .limit(count)
        )
        return [
            DueLaunch(
                *(launch_id, guid, counted, held, forgotten),
                full or not 0 < held < (counted or 0) or forgotten > 0,
            )
            for launch_id, guid, counted, held, forgotten in connection.execute(query)
        ]

    def _is_due(self, *, full: bool) -> ColumnElement[bool]:
        if full:
            return true()
        return or_(_row.num_results.is_(None), _row.num_results != _ACCOUNTED)

    def read_definition(self, connection: Connection, launch_id: int) -> dict[str, Any] | None:
        """Return the text of a launch, as the service lists it, if the ledger has none."""
        is_it = and_(self._is_own, _row.launch_id == launch_id)
        written = connection.execute(select(_row.definition).where(is_it)).scalar()
        return None if written is None else json.loads(written)

    def note_outcomes(self, connection: Connection, outcomes: Iterable[ReadOutcome]) -> None:
        """Record the outcomes of reading launches' results."""
        names = ReadOutcome._fields[1:]
        is_row = and_(self._is_own, _row.launch_id == bindparam("b_id", type_=Integer))
        rows = [{"b_id": number, **dict(zip(names, found, strict=True))} for number, *found in outcomes]
        connection.execute(update(launch_readings).where(is_row), rows)

    def find_surplus(self, connection: Connection, launch_ids: Collection[int]) -> set[int]:
        """Return those of some launches of which the ledger has results that are not listed."""
        is_it = and_(self._is_own, _row.launch_id.in_(launch_ids), _SURPLUS > 0)
        return set(connection.execute(select(_row.launch_id).where(is_it)).scalars())

    def list_uneven(self, connection: Connection) -> list[UnevenLaunch]:
        """Return the uneven launches, by guid."""
        columns: dict[str, ColumnElement[Any]] = dict(_row.items())
        columns |= {"lacks_count": _LACKS_COUNT, "most": _MOST, "listed": _LISTED, "surplus": _SURPLUS}
        is_uneven = or_(
            *(not_(_row.is_listed), _row.is_unreadable, _row.is_short, _LACKS_COUNT),
            *(_row.lost > 0, _MOST > _LISTED, _SURPLUS > 0),
        )
        query = select(*(columns[name] for name in UnevenLaunch._fields)).where(self._is_own, is_uneven)
        found = connection.execute(query.order_by(_row.project_launch_guid))
        return [UnevenLaunch(*row) for row in found]

    def sum_up(self, connection: Connection) -> dict[str, int]:
        """Return the sums over all launches; of each count, also the number of launches with it (`of_`)."""
        is_counted = and_(_row.is_listed, not_(_LACKS_COUNT))
        sums = {
            "recorded_launches": func.count(),
            "launches": func.count(case((_row.is_listed, 1))),
            "whole_launches": func.count(case((is_counted, 1))),
            "before": func.sum(_row.held),
            "results": func.sum(_HELD),
            "forgotten_results": func.sum(_FORGOTTEN),
            **{name: func.sum(_row[name]) for name in COUNTS},
            **{f"of_{name}": func.count(_row[name]) for name in COUNTS},
        }
        row = connection.execute(select(*sums.values()).where(self._is_own)).one()
        return {name: int(value or 0) for name, value in zip(sums, row, strict=True)}

    def keep_counts(self, connection: Connection, at: str) -> None:
        """Make what the service counts the campaign's, as reconciled at `at` (UTC, ISO 8601)."""
        names = ["launch_id", *COUNTS, "reconciled_at"]
        columns = [literal(at) if name == "reconciled_at" else _row[name] for name in names]
        found = select(*columns).where(self._is_own, _row.is_listed)
        statement = insert_into(connection, launch_stats).from_select(names, found)
        new = {name: statement.excluded[name] for name in names[1:]}
        connection.execute(statement.on_conflict_do_update(index_elements=["launch_id"], set_=new))
