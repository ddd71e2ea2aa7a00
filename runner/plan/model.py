"""Plans as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from runner.campaign.model import Campaign, Message
    from runner.campaign.payload import Payload

Disposition = Literal["excluded", "already_sent", "unresolved", "over_limit", "to_send"]
"""Why a recipient gets a message now, or doesn't."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What the user asks of a plan.

    Attributes:
        only: the one message to send; None for all.
        limit: the most recipients to send to now; None for all.
        recipients_per_send: the target's limit; None if it has none.
    """

    only: str | None = None
    limit: int | None = None
    recipients_per_send: int | None = None


@dataclass(slots=True)
class MessagePlan:
    """One message's counts (contract, "JSON output"); every row of the audience is counted once.

    Attributes:
        rows: rows of the audience: `duplicates` + `recipients`.
        recipients: the sum of the dispositions.
        launches: sends that the recipients `to_send` take.
        segments: SMS segments to send now.
        renders_min: renders if nobody answers.
        renders_max: renders if everybody answers every question validly at once.
        costly_characters: of the texts that leave now, by character outside GSM-7: recipients whose
            text is UCS-2 because of it.
    """

    id: str
    tag: str
    rows: int = 0
    duplicates: int = 0
    recipients: int = 0
    excluded: int = 0
    opted_out: int = 0
    already_sent: int = 0
    unresolved: int = 0
    deferred: int = 0
    over_limit: int = 0
    to_send: int = 0
    launches: int = 0
    segments: int = 0
    renders_min: int = 0
    renders_max: int = 0
    costly_characters: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """One send: a payload and the phones that get exactly it.

    Attributes:
        message: the message.
        payload: the rendered message.
        phones: E.164, in the order of the audience.
    """

    message: Message
    payload: Payload
    phones: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """What `apply` would send of one campaign.

    Attributes:
        campaign: the campaign.
        target: the target's name.
        messages: the counts.
        recipients_to_send: people who get at least one message now.
        digest: of who gets what: 128 bits in hexadecimal. Two plans with one digest send the same.
        refusals: the safety limits that the plan breaks, in words.
    """

    campaign: Campaign
    target: str
    messages: tuple[MessagePlan, ...]
    recipients_to_send: int
    digest: str
    refusals: tuple[str, ...]
