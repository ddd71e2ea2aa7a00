"""Reconciled data: the service's counts, sessions and results, and the removal of unlisted results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, Insert, and_, case, delete, exists, func, or_, select, update

from runner.ledger.bulk import BulkStatement, divide, iterate_rows
from runner.ledger.database import insert_into, insert_or_update
from runner.ledger.model import write_moment
from runner.ledger.record.deliveries import count_states
from runner.ledger.record.unsettled import OPEN, UNEXPLAINED
from runner.ledger.report_model import LaunchCharges, MessageTotals, NamedCount
from runner.ledger.results.result_feed import begin_revision, renew_edition
from runner.ledger.results.sendings import BEGAN
from runner.ledger.tables import (
    are_of,
    campaigns,
    deliveries,
    label_message,
    launch_stats,
    launches,
    opt_outs,
    results,
    sessions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from runner.ledger.model import CampaignLaunches, StoredResult, StoredSession

_GROUP = 500
_BULK = 5_000
_SUMMED = {
    "num_queued_sessions": "queued",
    "num_active_sessions": "active",
    "num_complete_sessions": "complete",
    "num_renders": "renders",
    "num_results": "results",
}


def list_accepted(
    connection: Connection, campaign_id: int, launch_ids: Iterable[int] | None = None
) -> Sequence[Any]:
    """Return the accepted launches of a campaign, or some of them, by number.

    Rows have `id`, `project_launch_guid`, `tag`, `recipients`, `is_open` (a session may be open, as last
    read), and counts of results: `held` in the ledger, and `forgotten`: known and not kept.
    """
    held = select(func.count()).where(results.c.launch_id == launches.c.id).scalar_subquery().label("held")
    forgotten = func.coalesce(launch_stats.c.forgotten_results, 0).label("forgotten")
    columns = (launches.c[name] for name in ("id", "project_launch_guid", "tag", "recipients", "is_open"))
    query = (
        select(*columns, held, forgotten)
        .outerjoin(launch_stats, launch_stats.c.launch_id == launches.c.id)
        .where(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
        .order_by(launches.c.id)
    )
    if launch_ids is not None:
        query = query.where(launches.c.id.in_(launch_ids))
    return connection.execute(query).all()


def list_held(connection: Connection, launch_id: int) -> set[str]:
    """Return the guids of a launch's results in the ledger."""
    return set(
        connection.execute(select(results.c.result_guid).where(results.c.launch_id == launch_id)).scalars()
    )


def store_counts(connection: Connection, counts: Mapping[int, Mapping[str, int | None]], at: str) -> None:
    """Store the service's counts of launches, by their numbers, as reconciled at `at` (UTC, ISO 8601)."""
    for group in divide(counts.items()):
        rows = [{"launch_id": number, **one, "reconciled_at": at} for number, one in group]
        insert_or_update(connection, launch_stats, rows)


def store_results(connection: Connection, rows: Iterable[StoredResult]) -> int:
    """Store results, replacing those that have changed, and return the number of new or changed ones."""
    total, revision = 0, begin_revision(connection)
    for group in divide(rows, _BULK):
        total += _STORE_RESULTS.insert(connection, [(*row, revision) for row in group])
    return total


def store_sessions(connection: Connection, rows: Sequence[StoredSession]) -> None:
    """Store the states of sessions; unchanged rows stay untouched."""
    if rows:
        _STORE_SESSIONS.insert(connection, [(*row, row.progress) for row in rows])


def store_starts(connection: Connection, starts: Mapping[int, str]) -> None:
    """Store the service's start times of launches (UTC), by the ledger's number of the launch.

    They are known before a launch has results.
    """
    for group in map(dict, divide(((key, write_moment(start)) for key, start in starts.items()), _GROUP)):
        known_start = launch_stats.c.project_launch_start
        query = select(launch_stats.c.launch_id, known_start).where(launch_stats.c.launch_id.in_(group))
        known = {row.launch_id: row.project_launch_start for row in connection.execute(query)}
        changed = {number: start for number, start in group.items() if known.get(number) != start}
        rows = [{"launch_id": number, "project_launch_start": start} for number, start in changed.items()]
        insert_or_update(connection, launch_stats, rows)
        copied = exists().where(results.c.launch_id.in_(changed))
        if changed and connection.execute(select(copied)).scalar():
            renew_edition(connection)


class LaunchMeasure(NamedTuple):
    """The countries and sizes that the price of a launch depends on; the fields are columns of the ledger."""

    launch_id: int
    countries: str
    segments_least: int | None
    segments_most: int | None


def find_unmeasured(connection: Connection, launch_ids: Collection[int]) -> dict[int, str]:
    """Return those of some launches whose countries are not on record, with their payloads' digests."""
    query = (
        select(launches.c.id, launches.c.payload_digest)
        .outerjoin(launch_stats, launch_stats.c.launch_id == launches.c.id)
        .where(launch_stats.c.countries.is_(None))
    )
    return dict(map(tuple, iterate_rows(connection, query, launches.c.id, launch_ids)))


def store_measures(connection: Connection, rows: Iterable[LaunchMeasure]) -> None:
    """Store what the prices of launches depend on."""
    for group in divide(rows, _GROUP):
        insert_or_update(connection, launch_stats, [row._asdict() for row in group])


def read_charges(connection: Connection, asked: CampaignLaunches) -> list[LaunchCharges]:
    """Return the accepted launches that are asked about, by what they are paid by."""
    stats = launch_stats.c
    alike = label_message(asked), stats.countries, stats.segments_least, stats.segments_most
    counted = func.count(stats.num_renders), func.sum(stats.num_renders)
    query = (
        select(*alike, func.count(launches.c.id), *counted)
        .outerjoin(launch_stats, stats.launch_id == launches.c.id)
        .where(are_of(asked), launches.c.state == "sent")
        .group_by("current_id", *alike[1:])
        .order_by("current_id", *alike[1:])
    )
    return [
        LaunchCharges._make((*shared, count, int(renders) if known == count else None))
        for *shared, count, known, renders in connection.execute(query)
    ]


def find_texted(
    connection: Connection, campaign_id: int, fingerprints: Collection[str]
) -> set[tuple[int, str]]:
    """Return the launches of a campaign that went to some people, each with the person's fingerprint."""
    # By the primary key, which begins with campaign and message.
    messages = select(launches.c.message).where(launches.c.campaign_id == campaign_id).distinct()
    query = select(deliveries.c.launch_id, deliveries.c.fingerprint).where(
        deliveries.c.campaign_id == campaign_id,
        deliveries.c.message.in_(messages),
        deliveries.c.released.is_(False),
    )
    return set(map(tuple, iterate_rows(connection, query, deliveries.c.fingerprint, fingerprints)))


class Untexted(NamedTuple):
    """A result of somebody whom its launch is not known to have been sent to."""

    project_launch_guid: str
    launch_id: int
    result_guid: str
    participant: str


def list_untexted(connection: Connection, campaign_id: int, since: int) -> dict[str, list[Untexted]]:
    """Return such results of a campaign from after a revision on, by `project_launch_guid`."""
    is_theirs = and_(
        deliveries.c.campaign_id == launches.c.campaign_id,
        deliveries.c.message == launches.c.message,
        deliveries.c.fingerprint == results.c.participant,
        deliveries.c.launch_id == launches.c.id,
        deliveries.c.released.is_(False),
    )
    columns = launches.c.project_launch_guid, launches.c.id, results.c.result_guid, results.c.participant
    query = (
        select(*columns)
        .join(results, results.c.launch_id == launches.c.id)
        .where(launches.c.campaign_id == campaign_id, results.c.revision > since)
        .where(results.c.non_answer == "", ~exists().where(is_theirs))
    )
    found: dict[str, list[Untexted]] = {}
    for row in connection.execute(query):
        found.setdefault(row[0], []).append(Untexted._make(row))
    return found


def note_strangers(connection: Connection, strangers: Iterable[Untexted]) -> None:
    """Note results as no answers, since their launch was not sent to who gave them."""
    changed = {"non_answer": "stranger", "revision": begin_revision(connection)}
    for one in strangers:
        is_it = and_(results.c.launch_id == one.launch_id, results.c.result_guid == one.result_guid)
        connection.execute(update(results).where(is_it).values(changed))


def _compose_results(connection: Connection) -> Insert:
    """Return a statement that inserts results, or replaces them if more than their revision has changed."""
    statement, key = insert_into(connection, results), ["launch_id", "result_guid"]
    replaced = {
        column.name: statement.excluded[column.name] for column in results.c if column.name not in key
    }
    differs = or_(*(results.c[name] != new for name, new in replaced.items() if name != "revision"))
    return statement.on_conflict_do_update(index_elements=key, set_=replaced, where=differs)


def _compose_sessions(connection: Connection) -> Insert:
    """Return a statement that inserts sessions, or updates their states."""
    statement = insert_into(connection, sessions)
    new = {name: statement.excluded[name] for name in ("status", "stopped", "blocked", "replaced")}
    differs = or_(*(sessions.c[name] != value for name, value in new.items()))
    told, known = statement.excluded.progress, sessions.c.progress
    furthest = case((told > known, told), else_=known)
    return statement.on_conflict_do_update(
        index_elements=["launch_id", "participant"], set_={**new, "progress": furthest}, where=differs
    )


_STORE_SESSIONS = BulkStatement(_compose_sessions, [column.name for column in sessions.c])
_STORE_RESULTS = BulkStatement(_compose_results, [column.name for column in results.c])


def read_totals(connection: Connection, asked: CampaignLaunches) -> dict[str, MessageTotals]:
    """Return the counts of each message that has launches, by message id."""
    totals, people = {}, count_states(connection, asked)
    stats = launch_stats.c
    query = (
        select(
            label_message(asked),
            func.count(launches.c.id),
            func.min(BEGAN),
            func.max(BEGAN),
            func.count(stats.reconciled_at),
            func.min(stats.reconciled_at),
            *(sum_up(stats[name]) for name in _SUMMED for sum_up in (func.count, func.sum)),
        )
        .outerjoin(launch_stats, stats.launch_id == launches.c.id)
        .where(are_of(asked), launches.c.state == "sent")
        .group_by("current_id")
    )
    for message, count, first, last, reconciled, reconciled_at, *sums in connection.execute(query):
        known = dict(zip(_SUMMED.values(), zip(sums[::2], sums[1::2], strict=True), strict=True))
        whole: dict[str, Any] = {
            name: int(total) if of == count else None for name, (of, total) in known.items()
        }
        totals[message] = MessageTotals(
            message,
            launches=count,
            **_count_people(people, message),
            **whole,
            first_sent_at=first,
            last_sent_at=last,
            reconciled_at=reconciled_at,
            unread=count - reconciled,
            partly_known=tuple(
                NamedCount(name, int(total), of) for name, (of, total) in known.items() if 0 < of < count
            ),
        )
    for message in {message for message, _ in people} - totals.keys():
        totals[message] = MessageTotals(message, **_count_people(people, message))
    return totals


def _count_people(people: dict[tuple[str, str], int], message: str) -> dict[str, Any]:
    return {
        "sent": people.get((message, "sent"), 0),
        "unresolved": sum(people.get((message, state), 0) for state in (*OPEN, UNEXPLAINED)),
        "rejected": people.get((message, "rejected"), 0),
    }


class Removed(NamedTuple):
    """The numbers of removed results: listed under other guids now, and not listed at all."""

    renamed: int = 0
    dropped: int = 0

    def add(self, other: Removed) -> Removed:
        """Return the sums of these and others."""
        return Removed(self.renamed + other.renamed, self.dropped + other.dropped)


def remove_unlisted(
    connection: Connection, launch_id: int, is_listed: Callable[[str], bool], *, drops: bool
) -> Removed:
    """Remove results of a fully read launch that are stored under an old and a new guid.

    Two answers are the same if participant, question, time and words agree. A person's decision about such a
    reply is kept under its new guid. With `drops`, other unlisted results are removed, too.
    """
    query = select(
        results.c.result_guid,
        results.c.participant,
        results.c.question_tag,
        results.c.created,
        results.c.result_answer,
        results.c.result_response,
    ).where(results.c.launch_id == launch_id)
    listed: dict[tuple[str, ...], str] = {}
    gone: dict[str, tuple[str, ...]] = {}
    for guid, *answer in connection.execute(query):
        if is_listed(guid):
            listed[tuple(answer)] = guid
        else:
            gone[guid] = tuple(answer)
    renamed = {guid: listed[answer] for guid, answer in gone.items() if answer in listed}
    dropped = gone.keys() - renamed.keys() if drops else set()
    _move_decisions(connection, launch_id, renamed)
    _remove(connection, launch_id, sorted({*renamed, *dropped}))
    return Removed(len(renamed), len(dropped))


def _move_decisions(connection: Connection, launch_id: int, renamed: dict[str, str]) -> None:
    """Move decisions about replies to their new guids.

    The old evidence is dismissed, not deleted: files of suppressions would bring it back.
    """
    of_launch = select(campaigns.c.target).join(launches, launches.c.campaign_id == campaigns.c.id)
    target = of_launch.where(launches.c.id == launch_id).scalar_subquery()
    is_reply = (opt_outs.c.target == target) & (opt_outs.c.source == "reply")
    for group in divide(sorted(renamed), _GROUP):
        is_old = is_reply & opt_outs.c.evidence.in_(group)
        old = select(opt_outs.c.evidence, opt_outs.c.state, opt_outs.c.at).where(is_old)
        for guid, state, at in connection.execute(old).all():
            is_new = is_reply & (opt_outs.c.evidence == renamed[guid])
            if state != "doubtful":
                connection.execute(update(opt_outs).where(is_new).values(state=state, at=at))
                continue
            entered = connection.execute(select(opt_outs.c.at).where(is_new)).scalar()
            if entered is not None:
                is_this = is_reply & (opt_outs.c.evidence == guid)
                connection.execute(update(opt_outs).where(is_this).values(state="dismissed", at=entered))


def _remove(connection: Connection, launch_id: int, guids: Collection[str]) -> None:
    for group in divide(guids, _GROUP):
        is_it = results.c.result_guid.in_(group)
        connection.execute(delete(results).where(results.c.launch_id == launch_id, is_it))
    if guids:
        renew_edition(connection)
