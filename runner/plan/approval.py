"""Approvals of plans, and the file that keeps them: `campaigns/<target>.approvals.json`.

An approval covers a plan's forecast, too: deferred people, reminders, follow-ups, held people. So a later
plan needs no new approval as long as its texts, files and destination are the same and no message reaches
more people. The latest approval of each message counts: a text that is edited and edited back needs a new
one. A denial is kept beside the approvals, and approves nothing: its plan is not asked about again.

The file has one sealed approval a line, sorted, so that versions merge line by line. Lines that are damaged
or lack a seal of the state key are ignored: damage can only make approvals necessary again.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.document import Part
from runner.version import APPROVALS_VERSION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from runner.ledger.fingerprint import TargetKey


_NOTHING = "nothing was approved yet"
_CHANGED = {
    "campaign": "the campaign file has changed since it was approved",
    "included": "a text that it includes has changed since it was approved",
    "audience": "its audience has changed since it was approved",
}
"""Messages about changed digests, by the digests' names."""


class Amount(Part, frozen=True):
    """The reach of a message.

    Attributes:
        recipients: people who have the message, get it now, or may get it later.
        segments: SMS segments of its largest text; None if no text is left to send.
    """

    recipients: int
    segments: int | None


class ApprovalRequest(Part, frozen=True):
    """A request to approve the plan of one campaign.

    Attributes:
        destination: the target's address, as in the plan's digest.
        reviewed: digests, made with the state key, of the campaign file (`campaign`), its included texts
            (`included`), and its audience files (`audience`).
        messages: the reach of each message, by id; without those that nobody gets any more.
    """

    campaign: str
    target: str
    destination: Mapping[str, Any]
    reviewed: Mapping[str, str]
    messages: Mapping[str, Amount]


class Approval(Part, frozen=True):
    """An approval of one campaign's plan.

    Attributes:
        plan_digest: the digest of the plan that was shown.
        approved_at: UTC, ISO 8601.
        run_url: the CI job that recorded the approval.
        denied_by: the people who denied the plan; then `approved_by` is empty.
    """

    request: ApprovalRequest
    plan_digest: str
    approved_at: str
    approved_by: tuple[str, ...]
    run_url: str | None = None
    denied_by: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the approval as JSON, with the fields of its request beside its own."""
        said = self.to_dict()
        if not self.denied_by:
            del said["denied_by"]
        return {**said.pop("request"), **said}

    @classmethod
    def read_json(cls, data: Mapping[str, Any]) -> Approval:
        """Return an approval from JSON, without checking its seal.

        Raises:
            ValueError: the JSON is not an approval.
        """
        request = {name: data[name] for name in ApprovalRequest.__struct_fields__ if name in data}
        return cls.read({**{name: data[name] for name in data if name not in request}, "request": request})


def find_gap(
    request: ApprovalRequest, approvals: Iterable[Approval], messages: Collection[str]
) -> str | None:
    """Return, in words, how a request exceeds its approvals; None if it doesn't.

    Args:
        request: of one campaign.
        approvals: all valid ones, of any campaign and target, in any order.
        messages: the ids of the messages to check.
    """
    latest = find_latest(request.campaign, request.target, approvals)
    if not latest.keys() & messages:
        return _NOTHING if messages else None
    gaps = [_compare(name, request, latest.get(name)) for name in request.messages if name in messages]
    # Several messages may have the same gap.
    return "; ".join(dict.fromkeys(gap for gap in gaps if gap is not None)) or None


def find_latest(campaign: str, target: str, approvals: Iterable[Approval]) -> dict[str, Approval]:
    """Return the latest approval of each message of a campaign, by message id."""
    own = [
        one
        for one in approvals
        if (one.request.campaign, one.request.target) == (campaign, target) and not one.denied_by
    ]
    # Approvals of the same second are sorted by content, so that every machine finds the same order.
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


def seal_approval(key: TargetKey, approval: Approval) -> str:
    """Return the seal that proves that an approval was recorded with the state key."""
    return key.seal("approval", write_canonical(approval.as_json()).encode())


def seal_plan(key: TargetKey, campaign: Mapping[str, Any], plan_digest: str) -> str:
    """Return the seal of a campaign's JSON in a plan, whose file people without the key may handle."""
    said = [plan_digest, campaign]
    return key.seal("plan", write_canonical(said).encode())


def write_canonical(value: Any) -> str:
    """Return the canonical JSON that seals are made of."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))


ENDING = ".approvals.json"
_SEAL = "seal"


class BelievedApprovals(NamedTuple):
    """The approvals in a file.

    Attributes:
        approvals: those with a valid seal.
        doubtful: the number of approvals without one.
    """

    approvals: tuple[Approval, ...]
    doubtful: int


class _Entry(NamedTuple):
    """A line of a file: an approval and its seal."""

    approval: Approval
    seal: str

    def write(self) -> str:
        return write_canonical({**self.approval.as_json(), _SEAL: self.seal})


def read_approvals(text: str, key: TargetKey) -> BelievedApprovals:
    """Return the approvals of a file's text, which git may have merged."""
    entries = list(_iterate_entries(text))
    believed = tuple(entry.approval for entry in entries if _is_sealed(entry, key))
    return BelievedApprovals(believed, len(entries) - len(believed))


def _is_sealed(entry: _Entry, key: TargetKey) -> bool:
    seal = entry.seal.encode("utf-8", "backslashreplace")
    return hmac.compare_digest(seal_approval(key, entry.approval).encode(), seal)


def add_approvals(text: str, target: str, key: TargetKey, approvals: Iterable[Approval]) -> str:
    """Return a file's text with approvals added; an empty text stands for a missing file."""
    added = [_Entry(one, seal_approval(key, one)) for one in approvals]
    return _write(target, [*_iterate_entries(text), *added])


def unite_approvals(target: str, ours: str, theirs: str) -> str:
    """Return the text of a file with the approvals of two others; needs no key."""
    return _write(target, [*_iterate_entries(ours), *_iterate_entries(theirs)])


def lacks_approvals(before: str, after: str) -> bool:
    """Return whether the later version of a file lacks an approval of the earlier one."""
    told = {entry.write() for entry in _iterate_entries(after)}
    return any(entry.write() not in told for entry in _iterate_entries(before))


def _iterate_entries(text: str) -> Iterator[_Entry]:
    for line in text.splitlines():
        try:
            data = json.loads(line.strip().removesuffix(","))
            seal = data.pop(_SEAL)
            entry = _Entry(Approval.read_json(data), seal)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            continue
        if isinstance(seal, str):
            yield entry


def _write(target: str, entries: Iterable[_Entry]) -> str:
    lines = sorted({(entry.approval.approved_at, entry.write()) for entry in entries})
    body = ",\n".join(f"    {line}" for _, line in lines)
    return (
        f'{{\n  "approvals": [\n{body}\n  ],\n  "approvals_version": {APPROVALS_VERSION},\n'
        f'  "target": {json.dumps(target)}\n}}\n'
    )
