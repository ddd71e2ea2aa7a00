"""Coverage of plans by approvals, and the file that records it."""

from __future__ import annotations

import hmac
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.atomic_write import save_text
from runner.errors import LimitError, MissingKeyError, RunnerError, SuppressionsError
from runner.git.command import GitError
from runner.ledger.files.suppressions import BOOK, Amount, ApprovalRequest, read_approvals, seal_book, settle
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import APPROVALS_SUFFIX
from runner.plan.approval import find_gap, find_latest, seal_plan
from runner.plan.digest import digest_reviewed
from runner.plan.documents import AskedApproval
from runner.service.target import describe_destination
from runner.settings import REQUIRE_APPROVAL
from runner.text.include import include_folder
from runner.wording import count_words
from runner.workflow.campaigns import show_path
from runner.workflow.observer import warn
from runner.workflow.plans.planning import leave_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runner.campaign.model import Campaign
    from runner.ledger.files.suppressions import Approval
    from runner.plan.documents import ApprovalStatus, PlanDocument, PlannedCampaign
    from runner.service.target import Target
    from runner.workflow.failures import Failures
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.plans.saved import SavedPlan
    from runner.workflow.workspace.state_remote import StateRemote

_KEYLESS = "without a RUNNER_STATE_KEY no approval is kept: each plan needs one of its own"
_PLAN_ANEW = "make a new plan with `runner plan --out`, with the key set, and have that approved"
_HOW = (
    "have the plan approved and record that with `runner ci approve --plan FILE`, then send it with "
    "`runner apply --plan FILE`"
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """The coverage of one campaign's plan, and the people whose approvals cover it.

    `request` is the plan's request for approval, None without a state key; `gap` is the part of it beyond its
    approvals, in words, or None.
    """

    planned: PlanResult
    request: ApprovalRequest | None
    gap: str | None
    approved_by: tuple[str, ...] = ()

    @property
    def status(self) -> ApprovalStatus:
        """`none` if the plan sends nothing, `covered`, or `needed`."""
        if not list_sent(self.planned):
            return "none"
        return "covered" if self.gap is None else "needed"


@dataclass(slots=True)
class ApprovalStore:
    """The approvals of one target, from the folders of the command's campaigns and its state remote.

    Where it `is_tolerant`, approvals that cannot be read count for nothing, and are named.
    """

    target: Target
    state: StateRemote | None = None
    is_tolerant: bool = False
    _read: dict[Path, tuple[Approval, ...]] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> TargetKey | None:
        """The key that seals approvals; without it none are kept or accepted."""
        secret = self.target.state_key
        return TargetKey.of(self.target.name, secret) if secret else None

    def is_used(self, campaigns: Iterable[Campaign], environment: Mapping[str, str]) -> bool:
        """Return whether plans of these campaigns have approvals, or need them."""
        has_some = any(self.find_file(campaign).is_file() for campaign in campaigns)
        return has_some or bool(REQUIRE_APPROVAL.read(environment))

    def find_file(self, campaign: Campaign) -> Path:
        """Return the file with a campaign's approvals."""
        return include_folder(campaign) / f"{self.target.name}{APPROVALS_SUFFIX}"

    def cover(self, item: PlanResult) -> Coverage:
        """Return the coverage of a plan."""
        sent, key = list_sent(item), self.key
        if key is None:
            return Coverage(item, None, _KEYLESS if sent else None)
        request = make_request(item, key)
        approvals = self.list_approvals(self.find_file(item.campaign), key)
        latest = find_latest(item.campaign.name, self.target.name, approvals)
        names = {name for message in sent if message in latest for name in latest[message].approved_by}
        return Coverage(item, request, find_gap(request, approvals, sent), tuple(sorted(names)))

    def find_denial(self, planned: Iterable[PlanResult], digest: str) -> tuple[str, ...]:
        """Return the people who denied a plan; none without a state key, which keeps no denials."""
        key = self.key
        if key is None:
            return ()
        files = {self.find_file(item.campaign) for item in planned}
        approvals = (one for file in files for one in self.list_approvals(file, key))
        denials = [one for one in approvals if one.plan_digest == digest]
        return tuple(sorted({name for one in denials for name in one.denied_by}))

    def list_approvals(self, file: Path, key: TargetKey) -> tuple[Approval, ...]:
        """Return the approvals with a valid seal in a file and its version on the state remote.

        Of the number of others it is warned.
        """
        if file not in self._read:
            try:
                self._read[file] = self._read_approvals(file, key)
            except SuppressionsError as error:
                if not self.is_tolerant:
                    raise
                warn(f"no approval counts: {error.message}; to mend it, {error.hint}")
                self._read[file] = ()
        return self._read[file]

    def _read_approvals(self, file: Path, key: TargetKey) -> tuple[Approval, ...]:
        shared = ""
        # Who sends has read the remote; without it, plans are covered by what is known here.
        with suppress(GitError):
            shared = "" if self.state is None else self.state.texts.get(file.name, "")
        shown = Path(show_path(file))
        there, _ = read_approvals(shown, shared, key)
        here, doubtful = read_approvals(shown, BOOK.read(shown) or "", key)
        if doubtful:
            lines = count_words(doubtful, "approval is", "approvals are")
            warn(f"{shown}: {lines} not sealed with this RUNNER_STATE_KEY, and not believed")
        return tuple({one.identity: one for one in (*there, *here)}.values())

    def record(self, file: Path, approvals: Sequence[Approval], key: TargetKey) -> None:
        """Add approvals to a file."""
        known, _ = read_approvals(file, BOOK.read(Path(show_path(file))) or "", key)
        pieces = seal_book(key, settle([*known, *approvals]))
        try:
            save_text(file, "".join(pieces))
        except OSError as error:
            raise RunnerError(f"{show_path(file)} cannot be written: {error.strerror}") from None
        self._read.pop(file, None)


def make_request(item: PlanResult, key: TargetKey) -> ApprovalRequest:
    """Return a plan's request for approval."""
    return ApprovalRequest(
        item.campaign.name,
        item.plan.target,
        describe_destination(item.target),
        digest_reviewed(item.campaign, key),
        {
            message.id: Amount(message.reach, message.most_segments)
            for message in item.plan.messages
            if message.pending
        },
        None if item.plan.cost is None else item.plan.cost.ask(),
    )


def require_sealed(
    entry: Mapping[str, Any], saved: SavedPlan, store: ApprovalStore
) -> ApprovalRequest | None:
    """Return a saved plan's request for approval of a campaign; None without a state key."""
    asked, key = entry.get("approval"), store.key
    if asked is None:
        raise RunnerError(f"the plan {saved.file} was saved by an older version of runner", hint=_PLAN_ANEW)
    if key is None and asked["request"] is None:
        return None
    if key is None:
        raise MissingKeyError(
            f"the plan {saved.file} was made with a RUNNER_STATE_KEY, and none is set",
            hint="set the same one",
        )
    if asked["request"] is None:
        raise RunnerError(f"the plan {saved.file} was made without the RUNNER_STATE_KEY", hint=_PLAN_ANEW)
    said = {**entry, "approval": {name: value for name, value in asked.items() if name != "seal"}}
    if not hmac.compare_digest(seal_plan(key, said, saved.digest), asked["seal"] or ""):
        raise RunnerError(
            f"the plan {saved.file} was edited, or made with another RUNNER_STATE_KEY: its seal doesn't fit",
            hint=_PLAN_ANEW,
        )
    return ApprovalRequest.read(asked["request"])


def find_status(coverages: Iterable[Coverage]) -> ApprovalStatus:
    """Return the approval state of several campaigns' plan."""
    found = {coverage.status for coverage in coverages}
    return "needed" if "needed" in found else "covered" if "covered" in found else "none"


def add_coverage(document: PlanDocument, coverages: Sequence[Coverage]) -> PlanDocument:
    """Return a plan's document with requests for approval, and how far they are covered, in order."""
    covered = zip(document.campaigns, coverages, strict=True)
    campaigns = tuple(_add_approval(campaign, one, document.plan_digest) for campaign, one in covered)
    return document.replace(approval=find_status(coverages), campaigns=campaigns)


def _add_approval(campaign: PlannedCampaign, coverage: Coverage, digest: str) -> PlannedCampaign:
    request = coverage.request
    asked = AskedApproval(coverage.status, coverage.gap, None if request is None else request.to_dict())
    # Last, since it covers all the rest.
    said = campaign.replace(approval=asked).to_dict()
    seal = None if request is None else seal_plan(coverage.planned.key, said, digest)
    return campaign.replace(approval=asked.replace(seal=seal))


def leave_out_unapproved(
    planned: Sequence[PlanResult], failures: Failures, store: ApprovalStore, *, is_given: bool
) -> Sequence[PlanResult]:
    """Return the plans that are approved or send nothing; others go to `failures`.

    `is_given` is True if the run names exactly this plan, which approves it without a state key.

    Raises:
        LimitError: the only plan to send is not approved.
        RunnerError: approvals cannot be read.
    """

    def find_error(item: PlanResult) -> LimitError | None:
        coverage = store.cover(item)
        if coverage.status != "needed" or (coverage.request is None and is_given):
            return None
        return LimitError(f"{item.campaign.name} is not approved: {coverage.gap}", hint=_HOW)

    return leave_out(planned, failures, find_error)


def list_sent(item: PlanResult) -> list[str]:
    """Return the ids of messages that a plan sends now; none if it breaks a limit."""
    return [] if item.plan.refusals else [one.id for one in item.plan.messages if one.to_send]
