"""Results that the service does not list any more: those that have another guid now, and the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection, delete, select, update

from runner.ledger.result_feed import renew_edition
from runner.ledger.tables import campaigns, launches, opt_outs, results

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_GROUP = 500


class Removed(NamedTuple):
    """How many results were removed.

    Attributes:
        renamed: the service lists the same answers under other guids now.
        dropped: it does not list them at all.
    """

    renamed: int = 0
    dropped: int = 0


def remove_unlisted(
    connection: Connection, launch_id: int, is_listed: Callable[[str], bool], *, drops: bool
) -> Removed:
    """Remove results of a launch that stand twice, under the guid of before and the one of now.

    An answer is the same if it is of the same participant, to the same question, at the same time and in the
    same words. What a person decided about such a reply holds for it under its new guid.

    Args:
        connection: commits after this.
        launch_id: the ledger's number of the launch, all results of which were read.
        is_listed: returns whether the service lists a result, by `result_guid`.
        drops: remove the others that are not listed, too.
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
    """Have replies stay decided under their new guids, and wait for a decision under these alone.

    The old evidence is dismissed as of now, not deleted: files of opt-outs would bring it back.
    """
    of_launch = select(campaigns.c.target).join(launches, launches.c.campaign_id == campaigns.c.id)
    target = of_launch.where(launches.c.id == launch_id).scalar_subquery()
    is_reply = (opt_outs.c.target == target) & (opt_outs.c.source == "reply")
    guids = sorted(renamed)
    for start in range(0, len(guids), _GROUP):
        is_old = is_reply & opt_outs.c.evidence.in_(guids[start : start + _GROUP])
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
    waiting = list(guids)
    for start in range(0, len(waiting), _GROUP):
        is_it = results.c.result_guid.in_(waiting[start : start + _GROUP])
        connection.execute(delete(results).where(results.c.launch_id == launch_id, is_it))
    if waiting:
        renew_edition(connection)
