"""Approvals of plans: what people approved, and whether a plan stays within it.

An approval covers a plan's forecast: people who wait for their time, reminders and follow-ups to come, and
people who are held. So a later plan of the same words for the same people, at the same place, needs no
approval of its own as long as no message reaches more people than were approved. Of each message the latest
approval counts: a text that was edited and edited back is approved anew.

Pure: a plan's request and the approvals on record go in, and what lacks approval comes out.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from runner.ledger.fingerprint import FingerprintKey

_NOTHING = "nothing was approved yet"
_CHANGED = {
    "campaign": "the campaign file has changed since it was approved",
    "included": "a text that it includes has changed since it was approved",
    "audience": "its audience has changed since it was approved",
}
"""What is said of the digests of what was reviewed, by their names."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How far a message goes.

    Attributes:
        recipients: who may have it in the end: those who have it, get it now, and may get it later.
        segments: SMS segments of its largest text; None if no text of it is left to send.
    """

    recipients: int
    segments: int | None


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a plan of one campaign asks people to approve.

    Attributes:
        campaign: its name.
        target: the target's name.
        destination: where that leads, as the plan's digest has it.
        reviewed: digests of the campaign file (`campaign`), the texts that it includes (`included`), and the
            files that name its people (`audience`); made with the state key.
        messages: how far each message goes, by its id; those that nobody gets any more are left out.
    """

    campaign: str
    target: str
    destination: Mapping[str, Any]
    reviewed: Mapping[str, str]
    messages: Mapping[str, Amount]

    def as_json(self) -> dict[str, Any]:
        """Return it as files hold it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Approval:
    """What people approved of one campaign.

    Attributes:
        request: what they were asked.
        plan_digest: of the plan that they saw.
        approved_at: UTC, ISO 8601.
        approved_by: their names.
        run_url: of the CI job that recorded it.
        pull_request: the page of the one that brought what was approved.
        reviewed_by: who approved that one.
    """

    request: ApprovalRequest
    plan_digest: str
    approved_at: str
    approved_by: tuple[str, ...]
    run_url: str | None = None
    pull_request: str | None = None
    reviewed_by: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it as files hold it."""
        said = asdict(self)
        return {**said.pop("request"), **said}


def find_gap(
    request: ApprovalRequest, approvals: Iterable[Approval], messages: Collection[str]
) -> str | None:
    """Return in words what of a campaign goes beyond what was approved; None if nothing does.

    Args:
        request: what a plan asks for.
        approvals: all that are believed, of any campaign and target, in any order.
        messages: the ids of those that are looked at.
    """
    latest = find_latest(request.campaign, request.target, approvals)
    if not latest.keys() & messages:
        return _NOTHING if messages else None
    gaps = [_compare(name, request, latest.get(name)) for name in request.messages if name in messages]
    # What is the same of all messages is said once.
    return "; ".join(dict.fromkeys(gap for gap in gaps if gap is not None)) or None


def find_latest(campaign: str, target: str, approvals: Iterable[Approval]) -> dict[str, Approval]:
    """Return the approval that counts of each message of a campaign, by its id."""
    own = [one for one in approvals if (one.request.campaign, one.request.target) == (campaign, target)]
    # Two of one second are told apart by what they say: no machine may find another order.
    ordered = sorted(own, key=lambda one: (one.approved_at, write_canonical(one.as_json())))
    return {message: one for one in ordered for message in one.request.messages}


def _compare(message: str, request: ApprovalRequest, approval: Approval | None) -> str | None:
    if approval is None:
        return f"`{message}` was not approved yet"
    approved = approval.request
    moved = [name for name, value in request.destination.items() if approved.destination.get(name) != value]
    if moved:
        return f"it goes elsewhere than was approved: {', '.join(moved)} changed"
    for name, words in _CHANGED.items():
        if request.reviewed[name] != approved.reviewed.get(name):
            return words
    asked, given = request.messages[message], approved.messages[message]
    if asked.recipients > given.recipients:
        more = asked.recipients - given.recipients
        people = f"{more:,} recipient{'s' if more > 1 else ''} more than were approved"
        return f"`{message}`: {people}"
    if asked.segments is not None and given.segments is not None and asked.segments > given.segments:
        return f"`{message}`: texts of {asked.segments} segments, and {given.segments} were approved"
    return None


def seal_approval(key: FingerprintKey, approval: Approval) -> str:
    """Return what proves that an approval was recorded with the state key.

    Args:
        key: the user's, for every purpose.
        approval: what was approved.
    """
    return key.for_purpose("approval").seal(write_canonical(approval.as_json()).encode())


def seal_plan(key: FingerprintKey, campaign: Mapping[str, Any], plan_digest: str) -> str:
    """Return what proves what a plan says of a campaign: its file passes through hands without the key.

    Args:
        key: the user's, for every purpose.
        campaign: all that the plan says of it, as JSON.
        plan_digest: of the plan.
    """
    said = [plan_digest, campaign]
    return key.for_purpose("plan").seal(write_canonical(said).encode())


def write_canonical(value: Any) -> str:
    """Return a JSON value in the one way that seals are made of."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))


def read_request(data: Mapping[str, Any]) -> ApprovalRequest:
    """Return a request from JSON.

    Raises:
        ValueError, TypeError, LookupError: it is none.
    """
    return ApprovalRequest(
        _require(data["campaign"], str),
        _require(data["target"], str),
        _require(data["destination"], dict),
        {name: _require(digest, str) for name, digest in _require(data["reviewed"], dict).items()},
        {
            name: Amount(
                _require(one["recipients"], int),
                None if one["segments"] is None else _require(one["segments"], int),
            )
            for name, one in _require(data["messages"], dict).items()
        },
    )


def read_approval(data: Mapping[str, Any]) -> Approval:
    """Return an approval from JSON; its seal is not looked at.

    Raises:
        ValueError, TypeError, LookupError: it is none.
    """
    return Approval(
        read_request(data),
        _require(data["plan_digest"], str),
        _require(data["approved_at"], str),
        tuple(_require(name, str) for name in _require(data["approved_by"], list)),
        None if data["run_url"] is None else _require(data["run_url"], str),
        None if data["pull_request"] is None else _require(data["pull_request"], str),
        tuple(_require(name, str) for name in _require(data["reviewed_by"], list)),
    )


def _require(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(value)
    return value
