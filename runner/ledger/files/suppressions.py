"""Files of decisions on a target, committed beside the campaigns: suppressions, and approvals of plans.

Suppressions are opt-outs, forgotten people, paused campaigns and people held by unexplained launches, as
keyed fingerprints. Of two decisions about one thing the later counts; of two of the same moment, the more
cautious. An export of opt-outs is such a file, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec

from runner.document import Part
from runner.errors import SuppressionsError
from runner.ledger.files.sealed import FileKind, check_document, dump_line, is_sealed, parse_text
from runner.ledger.model import Fingerprint, SealedLine
from runner.version import SUPPRESSIONS_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from runner.ledger.fingerprint import TargetKey

_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$"
Moment = Annotated[str, msgspec.Meta(pattern=_MOMENT)]
# The service's guids look like this; other characters could break databases and terminals.
Evidence = Annotated[str, msgspec.Meta(pattern="^[!-~]{1,200}$")]
Source = Literal["reply", "launch", "import", "person", "forgotten"]
"""`reply`: reconciling found it; `launch`: a reply to a launch, of whose people the author is one; `import`:
a list; `person`: by hand; `forgotten`: their data was removed."""
State = Literal["confirmed", "doubtful", "dismissed"]
_Kind = TypeVar("_Kind")
_RANKS = {"dismissed": 0, "doubtful": 1, "confirmed": 2, "resumed": 0, "paused": 1}
"""The ranks of decisions of the same moment: the most cautious one counts."""


class OptOut(SealedLine, frozen=True, tag_field="kind", tag="opt_out"):
    """One piece of evidence that a person opted out.

    `evidence` is the reply's `result_guid`, the `project_launch_guid` of a reply that the service kept to
    itself, or the source's own name. `doubtful` ones wait for a decision. `at` is when it was entered or
    decided (UTC, ISO 8601).
    """

    fingerprint: Fingerprint
    evidence: Evidence
    source: Source
    state: State
    at: Moment

    @property
    def identity(self) -> tuple[str, ...]:
        """The subject: lines with the same identity are decisions about the same thing."""
        return ("opt_out", self.fingerprint, self.evidence)


class PauseLine(SealedLine, frozen=True, tag_field="kind", tag="pause"):
    """A person's latest decision to pause or resume a campaign; the reason may be empty."""

    campaign: str
    reason: str
    state: Literal["paused", "resumed"]
    at: Moment

    @property
    def identity(self) -> tuple[str, ...]:
        """The subject of the line."""
        return ("pause", self.campaign)


class HoldLine(SealedLine, frozen=True, tag_field="kind", tag="hold"):
    """People who may have got a message by a launch that no record explains.

    `at` is the launch's start, as listed. Unless it is `whole`, recipients were missing from the list.
    """

    campaign: str
    launch: Evidence
    message: str
    tag: str
    fingerprints: tuple[Fingerprint, ...]
    whole: bool
    at: str
    occasion: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        """The subject of the line."""
        told = (self.campaign, self.launch, self.message, self.occasion, str(self.whole))
        return ("hold", *told, *self.fingerprints)


class Amount(Part, frozen=True):
    """The reach of a message.

    Attributes:
        recipients: people who have the message, get it now, or may get it later.
        segments: SMS segments of its largest text; None if no text is left to send.
    """

    recipients: int
    segments: int | None


class ApprovedCost(Part, frozen=True):
    """The most that a plan can cost, now and later together: exact decimal text, and its currency."""

    most: str
    currency: str


class ApprovalRequest(Part, frozen=True, omit_defaults=True):
    """A request to approve the plan of one campaign.

    Attributes:
        destination: the target's address, as in the plan's digest.
        reviewed: digests, made with the state key, of the campaign file (`campaign`), its included texts
            (`included`), its audience files (`audience`), and its defaults and bounds in targets.yaml
            (`rules`), where it has any.
        messages: the reach of each message, by id; without those that nobody gets any more.
        cost: None if it is not known, or the target has no prices.
    """

    campaign: str
    target: str
    destination: Mapping[str, Any]
    reviewed: Mapping[str, str]
    messages: Mapping[str, Amount]
    cost: ApprovedCost | None = None


class Approval(SealedLine, frozen=True, tag_field="kind", tag="approval"):
    """An approval of one campaign's plan, or a denial: then `approved_by` is empty.

    `plan_digest` is that of the plan that was shown, `at` is when the CI job of `run_url` recorded it.
    """

    request: ApprovalRequest
    plan_digest: str
    at: str
    approved_by: tuple[str, ...]
    run_url: str | None = None
    denied_by: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, ...]:
        """The subject of the line: each approval stays."""
        return ("approval", self.at, dump_line(msgspec.structs.replace(self, seal="")))


Entry = OptOut | PauseLine | HoldLine | Approval
"""A line of a file of decisions."""


class Book(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The contents of a file of decisions; when it was parsed, each entry once, sorted."""

    key_fingerprint: str
    suppressions_version: Literal[2]
    target: str
    entries: tuple[Entry, ...]

    def pick(self, kind: type[_Kind]) -> list[_Kind]:
        """Return the entries of a kind."""
        return [one for one in self.entries if isinstance(one, kind)]


def _describe(_block: str, line: Any) -> str:
    kind = msgspec.structs.asdict(line).get("campaign") or getattr(line, "source", "")
    return f"the entry of {line.at} ({kind})"


BOOK = FileKind(
    "",
    Book,
    ("suppressions_version", SUPPRESSIONS_VERSION),
    SuppressionsError,
    "restore it with git",
    "nobody would have opted out",
    "targets' names are for good: put it back",
    {"entries": "entry"},
    _describe,
)


def parse_book(file: Path, text: str, key: TargetKey | None = None) -> Book:
    """Parse the text of a file of decisions, also one that git has merged.

    Without `key`, seals are not checked, and target and key may be any.
    """
    found: Book = parse_text(BOOK, file, text)[0]
    if key is not None:
        check_document(BOOK, file, text, found, key)
    return msgspec.structs.replace(found, entries=tuple(settle(found.entries)))


def read_approvals(file: Path, text: str, key: TargetKey) -> tuple[tuple[Approval, ...], int]:
    """Return a file's approvals with a seal of the key, and the number of others, which count for nothing."""
    lines = parse_book(file, text).pick(Approval) if text else []
    believed = tuple(line for line in lines if is_sealed(key, "entry", [""], line))
    return believed, len(lines) - len(believed)


def seal_book(key: TargetKey, entries: Iterable[Entry]) -> Iterable[str]:
    """Yield the text of a file of decisions in pieces.

    The entries are streamed: without seals, sorted by their identities.
    """
    return BOOK.dump_sealed(key, "", {"entries": entries})


def settle(entries: Iterable[Entry]) -> list[Entry]:
    """Return the last decision about each thing, sorted, without entries replaced by forgetting."""
    found: dict[tuple[str, ...], Entry] = {}
    for entry in entries:
        known = found.setdefault(entry.identity, entry)
        if known is not entry and weigh(known) < weigh(entry):
            found[entry.identity] = entry
    forgotten = {
        one.fingerprint: one.at
        for one in found.values()
        if isinstance(one, OptOut) and one.source == "forgotten"
    }
    return [
        entry
        for _, entry in sorted(found.items())
        if not (
            isinstance(entry, OptOut)
            and entry.source != "forgotten"
            and entry.at <= forgotten.get(entry.fingerprint, "")
        )
    ]


def weigh(entry: Entry) -> tuple[str, int, str]:
    """Return the sort key among entries of one identity: time, then caution, then text."""
    said = msgspec.structs.replace(entry, seal="")
    return entry.at, _RANKS.get(getattr(entry, "state", ""), 0), dump_line(said)
