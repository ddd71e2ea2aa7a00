"""Statements about replies that ask for texts again: proposals, which let nobody in by themselves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, exists, inspect, select, update

from runner.ledger.database import insert_into
from runner.ledger.opt_outs import OptOut, dismiss_opt_outs, find_next_moment, keep_decision
from runner.ledger.screening import WaitingReply
from runner.ledger.tables import opt_ins, opt_outs, results

if TYPE_CHECKING:
    from collections.abc import Collection

    from runner.ledger.opt_outs import State


@dataclass(frozen=True, slots=True)
class OptIn:
    """A reply whose author asks to be texted again.

    Attributes:
        evidence: the reply's `result_guid`.
        fingerprint: the person's, on the target.
        created: when the service took the reply, as it says.
        at: when it was found; UTC, ISO 8601.
    """

    evidence: str
    fingerprint: str
    created: str
    at: str


def add_opt_ins(connection: Connection, target: str, replies: Collection[OptIn]) -> None:
    """Enter replies that ask for texts again; one that is on record stays as it is.

    Args:
        connection: commits after this, at best with the results themselves.
        target: the target's name; its key is on record.
        replies: with their evidence.
    """
    if replies:
        rows = [{"target": target, "state": "waiting", **asdict(reply)} for reply in replies]
        connection.execute(insert_into(connection, opt_ins).on_conflict_do_nothing(), rows)


def list_opt_ins(connection: Connection, target: str) -> list[WaitingReply]:
    """Return the proposals that wait for a decision, the oldest first.

    Somebody who has not opted out needs none, and one who opted out by a later reply has said so last. Those
    who asked to be forgotten are let in by their phones alone.

    Args:
        connection: reads the ledger, which may be of an older version.
        target: the target's name.
    """
    if not inspect(connection).has_table(opt_ins.name):
        return []
    says_so = and_(
        opt_outs.c.target == opt_ins.c.target,
        opt_outs.c.fingerprint == opt_ins.c.fingerprint,
        opt_outs.c.state != "dismissed",
    )
    # Also on another machine, which reads the reply anew.
    is_decided = exists().where(
        opt_outs.c.target == opt_ins.c.target,
        opt_outs.c.fingerprint == opt_ins.c.fingerprint,
        opt_outs.c.evidence == opt_ins.c.evidence,
        opt_outs.c.source == "person",
    )
    later = and_(results.c.result_guid == opt_outs.c.evidence, results.c.created > opt_ins.c.created)
    query = (
        select(opt_ins.c.evidence, opt_ins.c.at, opt_ins.c.fingerprint)
        .where(
            opt_ins.c.target == target,
            opt_ins.c.state == "waiting",
            exists().where(says_so),
            ~exists().where(says_so, opt_outs.c.source == "forgotten"),
            ~exists().where(says_so, later),
            ~is_decided,
        )
        .order_by(opt_ins.c.at, opt_ins.c.evidence)
    )
    return [WaitingReply(*row, "opt_in") for row in connection.execute(query)]


def decide_opt_in(connection: Connection, target: str, result_guid: str, at: str, *, let_in: bool) -> bool:
    """Enter what a person decided about a proposal: with the opt-outs, too, which other machines know of.

    Args:
        connection: commits after this.
        target: the target's name.
        result_guid: of the reply.
        at: UTC, ISO 8601.
        let_in: whether its author may be texted again: then everything that said otherwise is dismissed.

    Returns:
        Whether there is such a reply.
    """
    if not inspect(connection).has_table(opt_ins.name):
        return False
    is_it = and_(opt_ins.c.target == target, opt_ins.c.evidence == result_guid)
    author = connection.execute(select(opt_ins.c.fingerprint).where(is_it)).scalar()
    if author is None:
        return False
    connection.execute(
        update(opt_ins).where(is_it).values(state="accepted" if let_in else "dismissed", at=at)
    )
    is_theirs = and_(opt_outs.c.target == target, opt_outs.c.fingerprint == author)
    stays_out = and_(is_theirs, opt_outs.c.state != "dismissed")
    if let_in or connection.execute(select(exists().where(stays_out))).scalar_one():
        at = find_next_moment(connection, is_theirs, at)
        state: State = "dismissed" if let_in else "confirmed"
        keep_decision(connection, target, OptOut(author, result_guid, "person", state, at))
    if let_in:
        dismiss_opt_outs(connection, target, author, at)
    return True
