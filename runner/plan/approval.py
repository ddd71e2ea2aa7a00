"""Approvals of plans, which `campaigns/<target>.approvals.json` keeps.

An approval covers a plan's forecast, too: deferred people, reminders, follow-ups, held people. So a later
plan needs no new approval as long as its texts, files and destination are the same and no message reaches
more people. The latest approval of each message counts: a text that is edited and edited back needs a new
one. A denial is kept beside the approvals, and approves nothing: its plan is not asked about again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from runner.plan.limits.cost import compare_costs
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from runner.ledger.files.suppressions import Approval, ApprovalRequest
    from runner.ledger.fingerprint import TargetKey


_NOTHING = "nothing was approved yet"
_CHANGED = {
    # First: changed defaults change the campaign, too.
    "rules": "the rules in targets.yaml have changed since it was approved",
    "campaign": "the campaign file has changed since it was approved",
    "included": "a text that it includes has changed since it was approved",
    "audience": "its audience has changed since it was approved",
}
"""Messages about changed digests, by the digests' names."""


def find_gap(
    request: ApprovalRequest, approvals: Iterable[Approval], messages: Collection[str]
) -> str | None:
    """Return, in words, how a campaign's request for some messages exceeds its approvals; None if it doesn't.

    `approvals` are all valid ones, of any campaign and target.
    """
    latest = find_latest(request.campaign, request.target, approvals)
    if not latest.keys() & messages:
        return _NOTHING if messages else None
    gaps = [_compare(name, request, latest.get(name)) for name in request.messages if name in messages]
    given = max((one for name, one in latest.items() if name in messages), key=lambda one: one.at)
    gaps.append(compare_costs(request.cost, given.request.cost))
    # Several messages may have the same gap.
    return "; ".join(dict.fromkeys(gap for gap in gaps if gap is not None)) or None


def find_latest(campaign: str, target: str, approvals: Iterable[Approval]) -> dict[str, Approval]:
    """Return the latest approval of each message of a campaign, by message id."""
    about = (campaign, target)
    own = [one for one in approvals if (one.request.campaign, one.request.target) == about]
    # Approvals of the same second are sorted by content, so that every machine finds the same order.
    ordered = sorted((one for one in own if not one.denied_by), key=lambda one: one.identity)
    return {message: one for one in ordered for message in one.request.messages}


def _compare(message: str, request: ApprovalRequest, approval: Approval | None) -> str | None:
    if approval is None:
        return f"`{message}` was not approved yet"
    approved = approval.request
    moved = [name for name, value in request.destination.items() if approved.destination.get(name) != value]
    if moved:
        return f"it goes elsewhere than was approved: {', '.join(moved)} changed"
    for name, words in _CHANGED.items():
        if request.reviewed.get(name) != approved.reviewed.get(name):
            return words
    asked, given = request.messages[message], approved.messages[message]
    if asked.recipients > given.recipients:
        more = count_words(asked.recipients - given.recipients, "recipient")
        return f"`{message}`: {more} more than were approved"
    if asked.segments is not None and given.segments is not None and asked.segments > given.segments:
        return f"`{message}`: texts of {asked.segments} segments, and {given.segments} were approved"
    return None


def seal_plan(key: TargetKey, campaign: Mapping[str, Any], plan_digest: str) -> str:
    """Return the seal of a campaign's JSON in a plan, whose file people without the key may handle."""
    return key.seal("plan", write_canonical([plan_digest, campaign]).encode())


def write_canonical(value: Any) -> str:
    """Return the canonical JSON that seals are made of."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
