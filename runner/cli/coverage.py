"""Whether plans are covered by what people approved, and the file that says so."""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import click

from runner.campaign.include import include_folder
from runner.cli.campaigns import show_path
from runner.cli.console import count_words, warn
from runner.cli.inert import inert
from runner.cli.job_summary import append_outputs, append_summary
from runner.errors import LimitError, MissingKeyError, RunnerError
from runner.ledger.fingerprint import FingerprintKey
from runner.plan.approval import Amount, ApprovalRequest, find_gap, find_latest, read_request, seal_plan
from runner.plan.approval_book import ENDING, add_approvals, read_approvals
from runner.plan.reviewed import digest_reviewed
from runner.repository.clone import replace_text
from runner.service.destination import describe_destination

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.cli.failures import Failures
    from runner.cli.planning import PlannedHead
    from runner.cli.saved import SavedPlan
    from runner.plan.approval import Approval
    from runner.service.target import Target

Status = Literal["none", "covered", "needed"]
REQUIRE_VARIABLE = "RUNNER_REQUIRE_APPROVAL"
_KEYLESS = "without a RUNNER_STATE_KEY no approval is kept: each plan needs one of its own"
_PLAN_ANEW = "make a new plan with `runner plan --out`, with the key set, and have that approved"
_HOW = (
    "have the plan approved and record that with `runner approve --plan FILE`, then send it with "
    "`runner apply --plan FILE`"
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Whether one campaign's plan is covered.

    Attributes:
        planned: the plan.
        request: what it asks people to approve; None without a state key.
        gap: what of it goes beyond what was approved, in words; None if nothing does.
        approved_by: whose approvals cover what it sends.
    """

    planned: PlannedHead
    request: ApprovalRequest | None
    gap: str | None
    approved_by: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """`none` if it sends nothing, `covered`, or `needed`."""
        if not _list_sent(self.planned):
            return "none"
        return "covered" if self.gap is None else "needed"


@dataclass(slots=True)
class ApprovalShelf:
    """The approvals of one target, read from the folders of the campaigns that are asked about.

    Attributes:
        target: whose they are.
    """

    target: Target
    _read: dict[Path, tuple[Approval, ...]] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> FingerprintKey | None:
        """The key that seals them; None if there is none: then none are kept, or believed."""
        secret = self.target.state_key
        return FingerprintKey.from_secret(secret) if secret else None

    def is_used(self, campaigns: Iterable[Campaign]) -> bool:
        """Return whether some of these campaigns' plans are known to be approved, or have to be."""
        is_required = os.environ.get(REQUIRE_VARIABLE, "").lower() in ("1", "true", "yes", "on")
        return is_required or any(self.find_file(campaign).is_file() for campaign in campaigns)

    def find_file(self, campaign: Campaign) -> Path:
        """Return the file that has a campaign's approvals."""
        return include_folder(campaign) / f"{self.target.name}{ENDING}"

    def cover(self, planned: Sequence[PlannedHead]) -> list[Coverage]:
        """Return whether plans are covered, in their order.

        Raises:
            RunnerError: a file cannot be read.
        """
        key = self.key
        return [self._cover(item, key) for item in planned]

    def _cover(self, item: PlannedHead, key: FingerprintKey | None) -> Coverage:
        sent = _list_sent(item)
        if key is None:
            return Coverage(item, None, _KEYLESS if sent else None)
        request = make_request(item, key)
        approvals = self.list_approvals(self.find_file(item.campaign), key)
        latest = find_latest(item.campaign.name, self.target.name, approvals)
        names = {name for message in sent if message in latest for name in latest[message].approved_by}
        return Coverage(item, request, find_gap(request, approvals, sent), tuple(sorted(names)))

    def list_approvals(self, file: Path, key: FingerprintKey) -> tuple[Approval, ...]:
        """Return the approvals of a file that are believed, and say how many are not.

        Raises:
            RunnerError: it cannot be read.
        """
        if file not in self._read:
            found = read_approvals(_read_text(file), key)
            if found.doubtful:
                lines = count_words(found.doubtful, "approval is", "approvals are")
                warn(f"{show_path(file)}: {lines} not sealed with this RUNNER_STATE_KEY, and not believed")
            self._read[file] = found.approvals
        return self._read[file]

    def record(self, file: Path, approvals: Sequence[Approval], key: FingerprintKey) -> None:
        """Add approvals to a file.

        Raises:
            RunnerError: it cannot be read or written.
        """
        text = add_approvals(_read_text(file), self.target.name, key, approvals)
        try:
            replace_text(file, text)
        except OSError as error:
            raise RunnerError(f"{show_path(file)} cannot be written: {error.strerror}") from None
        self._read.pop(file, None)


def make_request(item: PlannedHead, key: FingerprintKey) -> ApprovalRequest:
    """Return what a plan asks people to approve.

    Raises:
        CampaignError: the campaign's files cannot be read any more.
    """
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
    )


def require_sealed(
    entry: Mapping[str, Any], saved: SavedPlan, shelf: ApprovalShelf
) -> ApprovalRequest | None:
    """Return what a saved plan asks people to approve of a campaign; None without a state key.

    Args:
        entry: what the plan says of the campaign.
        saved: the plan.
        shelf: the approvals of the plan's target.

    Raises:
        RunnerError: the plan was made with another key or none, by an older version, or was edited.
    """
    asked, key = entry.get("approval"), shelf.key
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
    return read_request(asked["request"])


def find_status(coverages: Iterable[Coverage]) -> Status:
    """Return whether the plan of several campaigns needs an approval."""
    found = {coverage.status for coverage in coverages}
    return "needed" if "needed" in found else "covered" if "covered" in found else "none"


def add_coverage(document: dict[str, Any], coverages: Sequence[Coverage]) -> None:
    """Add what people are asked to approve, and whether they have, to a plan as JSON.

    Args:
        document: as `plan_json` gives it.
        coverages: of its campaigns, in their order.
    """
    document["approval"] = find_status(coverages)
    for campaign, coverage in zip(document["campaigns"], coverages, strict=True):
        request, secret = coverage.request, coverage.planned.target.state_key
        campaign["approval"] = {
            "status": coverage.status,
            "reason": coverage.gap,
            "request": None if request is None else request.as_json(),
        }
        key = FingerprintKey.from_secret(secret) if secret else None
        # Last, of all the rest.
        seal = None if key is None else seal_plan(key, campaign, document["plan_digest"])
        campaign["approval"]["seal"] = seal


def write_coverage(coverages: Iterable[Coverage], format_: str) -> None:
    """Write a line for each campaign that sends something: that it is approved, or why not.

    Args:
        coverages: of the plans.
        format_: how the plan is written.
    """
    lines = [line for coverage in coverages for line in _describe(coverage)]
    markdown = "".join(f"- {inert(line)}\n" for line in lines)
    if not lines or format_ == "json":
        return
    if format_ == "markdown":
        click.echo(f"\n### Approval\n\n{markdown}", nl=False)
        return
    for line in lines:
        click.echo(line)
    if format_ == "github":
        append_summary(f"\n### Approval\n\n{markdown}")


def _describe(coverage: Coverage) -> Iterator[str]:
    name = coverage.planned.campaign.name
    if coverage.status == "covered":
        yield f"{name}: approved by {', '.join(coverage.approved_by)}"
    elif coverage.status == "needed":
        yield f"{name}: needs approval: {coverage.gap}"


def set_plan_outputs(
    planned: Sequence[PlannedHead], digest: str, coverages: Sequence[Coverage], format_: str
) -> None:
    """Tell the later steps of a job how many people the plan sends to, and whether all were approved.

    Args:
        planned: the plans.
        digest: of them all; empty if there are none.
        coverages: of the plans; those that are covered may be sent while the others wait.
        format_: how the plan is written.
    """
    if format_ == "github":
        sent = [item for item in planned if _list_sent(item)]
        covered = [one.planned for one in coverages if one.status == "covered"]
        values = {
            "to-send": f"{sum(item.plan.recipients_to_send for item in sent)}",
            "covered": f"{sum(item.plan.recipients_to_send for item in covered)}",
            "approval": find_status(coverages),
            "plan-digest": digest if planned else "",
        }
        append_outputs(values)


def leave_out_unapproved(
    planned: Sequence[PlannedHead], failures: Failures, *, is_given: bool
) -> Sequence[PlannedHead]:
    """Return the plans that send nothing, or what was approved.

    Args:
        planned: the plans.
        failures: takes the others.
        is_given: whether exactly this plan was named to this run: without a state key that is its approval.

    Raises:
        LimitError: one that is not approved is all that there is to send.
        RunnerError: approvals cannot be read.
    """
    kept = []
    shelf = ApprovalShelf(planned[0].target) if planned else None
    for coverage in shelf.cover(planned) if shelf else ():
        item = coverage.planned
        if coverage.status != "needed" or (coverage.request is None and is_given):
            kept.append(item)
            continue
        error = LimitError(f"{item.campaign.name} is not approved: {coverage.gap}", hint=_HOW)
        failures.add(item.campaign.file, item.campaign.name, error)
    return kept


def _list_sent(item: PlannedHead) -> list[str]:
    """Return the ids of the messages that a plan sends now; none of one that breaks a limit."""
    return [] if item.plan.refusals else [one.id for one in item.plan.messages if one.to_send]


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise RunnerError(f"{show_path(file)} cannot be read: {error.strerror}") from None
