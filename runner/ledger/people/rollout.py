"""The record that the steps of a rollout are judged by: texts, opt-outs since, and refused texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, func, select

from runner.ledger.model import on_occasion
from runner.ledger.people.suppressions import ROLLOUT, read_accepted, read_pauses
from runner.ledger.record.campaign_record import read_earlier_messages
from runner.ledger.record.deliveries import find_record
from runner.ledger.tables import ANSWER, campaigns, deliveries, launches, of_target, opt_outs, results

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from runner.ledger.people.history import EarlierMessage
    from runner.ledger.record.campaign_record import Identity


_SHOWN = 20
"""Replies of people who opted out that are shown."""


@dataclass(frozen=True, slots=True)
class StoppedCampaign:
    """A campaign that a broken guard has paused: why, and what those who opted out have replied to."""

    name: str
    reason: str
    replies: tuple[tuple[str, str], ...] = ()


def list_stopped(connection: Connection, target: str) -> tuple[StoppedCampaign, ...]:
    """Return the campaigns of a target that broken guards have paused."""
    return tuple(
        StoppedCampaign(name, pause.reason, tuple(read_opt_out_replies(connection, target, name)))
        for name, pause in sorted(read_pauses(connection, target).items())
        if pause.reason.startswith(ROLLOUT)
    )


@dataclass(frozen=True, slots=True)
class RolloutRecord:
    """The record of the messages that a rollout's steps are about.

    Attributes:
        messages: their launches, by message id.
        opted_out: when each person opted out, or may have, by fingerprint: UTC, ISO 8601.
        perhaps: the evidence against people of a launch of whom one, not known which, has replied so, by
            fingerprint: it counts once.
        refused: the deliveries (`on_occasion`) whose last text the service has refused.
        accepted: the figures of a broken guard that a person has accepted; empty if there are none.
    """

    messages: Mapping[str, EarlierMessage] = field(default_factory=dict)
    opted_out: Mapping[str, str] = field(default_factory=dict)
    perhaps: Mapping[str, str] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()
    accepted: str = ""


def read_rollout_record(
    connection: Connection, identity: Identity, messages: Collection[str], is_refusal: Callable[[str], bool]
) -> RolloutRecord:
    """Return the record of some messages of a campaign; `is_refusal` judges the detail of an outcome."""
    row = find_record(connection, identity.target, identity.names)
    accepted = read_accepted(connection, identity.target, identity.names)
    if row is None:
        return RolloutRecord(accepted=accepted)
    person, source = opt_outs.c.fingerprint, opt_outs.c.source
    holds = and_(opt_outs.c.target == identity.target, opt_outs.c.state != "dismissed")
    # Who was forgotten has asked for more than no texts, and may have been texted by others.
    known = select(person, func.max(opt_outs.c.at)).where(holds, source.not_in(("forgotten", "launch")))
    opted_out: dict[str, str] = dict(map(tuple, connection.execute(known.group_by(person))))
    of_launch = select(person, opt_outs.c.evidence).where(holds, source == "launch")
    perhaps: dict[str, str] = dict(map(tuple, connection.execute(of_launch)))
    names = [name for name, current in identity.message_ids.items() if current in messages]
    # Each delivery's last launch, be it proven unsent since.
    tried = (
        select(deliveries.c.fingerprint, deliveries.c.occasion, launches.c.detail)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(deliveries.c.campaign_id == row.id, deliveries.c.message.in_(names))
        .where(deliveries.c.released.is_(True), launches.c.state.in_(("rejected", "not_sent")))
    )
    refused = frozenset(
        on_occasion(fingerprint, occasion)
        for fingerprint, occasion, detail in connection.execute(tried)
        if is_refusal(detail or "")
    )
    earlier = read_earlier_messages(connection, identity, messages)
    return RolloutRecord(earlier, opted_out, perhaps, refused, accepted)


def read_opt_out_replies(connection: Connection, target: str, campaign: str) -> list[tuple[str, str]]:
    """Return question and reply of those who opted out of a campaign, or may have, the latest first."""
    evidence = select(opt_outs.c.evidence).where(
        opt_outs.c.target == target, opt_outs.c.source == "reply", opt_outs.c.state != "dismissed"
    )
    said = select(results.c.question_text, ANSWER)
    query = of_target(said.join(launches, launches.c.id == results.c.launch_id), target)
    own = query.where(campaigns.c.name == campaign, results.c.result_guid.in_(evidence))
    ordered = own.order_by(results.c.created.desc(), results.c.result_guid)
    return [(question, reply) for question, reply in connection.execute(ordered.limit(_SHOWN))]
