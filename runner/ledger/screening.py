"""Statements about what bringing in results looks at: people who were forgotten, replies that may opt out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sqlalchemy import Connection, and_, exists, func, inspect, select, union_all

from runner.ledger.database import insert_into
from runner.ledger.tables import campaigns, forgotten_results, info, launches, opt_ins, opt_outs, results

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

SCREENING = 2
"""Grows when the rules for opt-outs find more: what is in the ledger is then looked through once more."""
_GROUP = 500


@dataclass(frozen=True, slots=True)
class HeldAnswer:
    """An answer in the ledger, as far as it can opt out.

    Attributes:
        launch_id: the ledger's number of its launch.
        question_tag: the question's tag; empty when the service gave none.
        question_text: the question as it was asked.
        response: `result_response`: the answer as text.
    """

    launch_id: int
    question_tag: str
    question_text: str
    response: str


@dataclass(frozen=True, slots=True)
class WaitingReply:
    """A reply of which a person must say whether it opts out.

    Attributes:
        result_guid: names it.
        at: when it was found; UTC, ISO 8601.
        author: the fingerprint of who wrote it, on the target.
        asks: what it may ask for: to be left alone, or to be texted again.
    """

    result_guid: str
    at: str
    author: str
    asks: Literal["opt_out", "opt_in"] = "opt_out"


@dataclass(frozen=True, slots=True)
class ReplyText:
    """What somebody wrote, and to what.

    Attributes:
        campaign: the campaign's name.
        message: the message's id, as it was when it was sent.
        question: the question as it was asked.
        text: `result_response`: the reply.
    """

    campaign: str
    message: str
    question: str
    text: str


def is_screened(connection: Connection, campaign_id: int, words: tuple[str, ...] = ()) -> bool:
    """Return whether a campaign's results have been looked through by the rules and its words of today.

    Those of a ledger that was written before there were opt-outs have not.
    """
    query = select(info.c.value).where(info.c.name == _name_mark(campaign_id))
    return connection.execute(query).scalar() == _write_mark(words)


def mark_screened(connection: Connection, campaign_id: int, words: tuple[str, ...] = ()) -> None:
    """Remember that a campaign's results have been looked through.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        words: those that opt out besides, as the campaign has it.
    """
    mark = _write_mark(words)
    entered = insert_into(connection, info).values(name=_name_mark(campaign_id), value=mark)
    connection.execute(entered.on_conflict_do_update(index_elements=["name"], set_={"value": mark}))


def iterate_answers(connection: Connection, campaign_id: int) -> Iterator[HeldAnswer]:
    """Yield a campaign's answers, in no order."""
    query = (
        select(
            results.c.launch_id, results.c.question_tag, results.c.question_text, results.c.result_response
        )
        .join(launches, launches.c.id == results.c.launch_id)
        .where(launches.c.campaign_id == campaign_id)
        .execution_options(yield_per=_GROUP)
    )
    for row in connection.execute(query):
        yield HeldAnswer(*row)


def find_undefined(connection: Connection, launch_ids: Collection[int]) -> set[int]:
    """Return those of some launches of which the ledger does not have what they sent.

    Args:
        connection: reads the ledger.
        launch_ids: the ledger's numbers of the launches; some hundreds at most.
    """
    query = select(launches.c.id).where(launches.c.id.in_(launch_ids), launches.c.definition.is_(None))
    return set(connection.execute(query).scalars())


def count_replied(connection: Connection, target: str) -> int:
    """Return how many replies opt out for certain.

    Args:
        connection: reads the ledger.
        target: the target's name.
    """
    is_reply = and_(
        opt_outs.c.target == target, opt_outs.c.source == "reply", opt_outs.c.state == "confirmed"
    )
    return connection.execute(select(func.count()).select_from(opt_outs).where(is_reply)).scalar_one()


def read_definition(connection: Connection, launch_id: int) -> str | None:
    """Return what a launch sent, as JSON; None if the ledger doesn't have it."""
    return connection.execute(select(launches.c.definition).where(launches.c.id == launch_id)).scalar()


def find_forgotten(connection: Connection, target: str, fingerprints: Collection[str]) -> frozenset[str]:
    """Return those whose people were forgotten, and have not been let in again since.

    Args:
        connection: reads the ledger.
        target: the target's name.
        fingerprints: of its people; some thousands at most.
    """
    query = select(opt_outs.c.fingerprint).where(
        opt_outs.c.target == target,
        opt_outs.c.fingerprint.in_(fingerprints),
        opt_outs.c.source == "forgotten",
        opt_outs.c.state == "confirmed",
    )
    return frozenset(connection.execute(query).scalars())


def count_forgotten_results(connection: Connection, campaign_id: int) -> dict[int, int]:
    """Return how many results the service counts and the ledger doesn't keep, by number of the launch."""
    query = (
        select(forgotten_results)
        .join(launches, launches.c.id == forgotten_results.c.launch_id)
        .where(launches.c.campaign_id == campaign_id)
    )
    return {row.launch_id: row.results for row in connection.execute(query)}


def list_waiting(connection: Connection, target: str) -> list[WaitingReply]:
    """Return the doubtful replies, the oldest first, of people who have not opted out in another way.

    Args:
        connection: reads the ledger, which may be of an older version.
        target: the target's name.
    """
    if not inspect(connection).has_table(opt_outs.name):
        return []
    other = opt_outs.alias()
    has_opted_out = exists().where(
        other.c.target == opt_outs.c.target,
        other.c.fingerprint == opt_outs.c.fingerprint,
        other.c.state == "confirmed",
    )
    query = (
        select(opt_outs.c.evidence, opt_outs.c.at, opt_outs.c.fingerprint)
        .where(opt_outs.c.target == target, opt_outs.c.state == "doubtful", ~has_opted_out)
        .order_by(opt_outs.c.at, opt_outs.c.evidence)
    )
    return [WaitingReply(*row) for row in connection.execute(query)]


def count_people(connection: Connection, target: str) -> int:
    """Return how many people have opted out, for whatever reasons each.

    Args:
        connection: reads the ledger, which may be of an older version.
        target: the target's name.
    """
    if not inspect(connection).has_table(opt_outs.name):
        return 0
    people = func.count(opt_outs.c.fingerprint.distinct())
    query = select(people).where(opt_outs.c.target == target, opt_outs.c.state == "confirmed")
    return connection.execute(query).scalar_one()


def read_reply_texts(connection: Connection, target: str) -> dict[str, ReplyText]:
    """Return what the waiting replies say, by `result_guid`: looks through all results once.

    Replies that only an import told of are not among them.
    """
    waiting = [select(opt_outs.c.evidence).where(opt_outs.c.target == target, opt_outs.c.state == "doubtful")]
    if inspect(connection).has_table(opt_ins.name):
        is_proposal = and_(opt_ins.c.target == target, opt_ins.c.state == "waiting")
        waiting.append(select(opt_ins.c.evidence).where(is_proposal))
    query = (
        select(
            results.c.result_guid,
            campaigns.c.name,
            launches.c.message,
            results.c.question_text,
            results.c.result_response,
        )
        .join(launches, launches.c.id == results.c.launch_id)
        .join(campaigns, campaigns.c.id == launches.c.campaign_id)
        .where(campaigns.c.target == target, results.c.result_guid.in_(union_all(*waiting)))
    )
    return {guid: ReplyText(*rest) for guid, *rest in connection.execute(query)}


def list_recorded_campaigns(connection: Connection) -> list[tuple[str, str]]:
    """Return target and name of every campaign on record, in order."""
    query = select(campaigns.c.target, campaigns.c.name).order_by(campaigns.c.target, campaigns.c.name)
    return [(row.target, row.name) for row in connection.execute(query)]


def _write_mark(words: tuple[str, ...]) -> str:
    return f"{SCREENING} {json.dumps(sorted(set(words)))}" if words else str(SCREENING)


def _name_mark(campaign_id: int) -> str:
    return f"opt_outs_screened_{campaign_id}"
