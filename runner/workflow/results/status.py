"""Status of campaigns, from the records alone, without asking a service."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runner.document import UNSET, Count, Described, Document, Part, UnsetType
from runner.errors import RunnerError
from runner.ledger.model import CampaignLaunches, count_on, format_moment
from runner.ledger.people.pruned import read_figures
from runner.ledger.people.replies import UnreadReplies
from runner.ledger.people.suppressions import Pause
from runner.ledger.report_model import MessageTotals, NamedCount, OpenDifferences
from runner.ledger.results.differences import read_differences
from runner.ledger.results.reconciled import read_totals
from runner.ledger.results.sendings import count_answered
from runner.plan.limits.cost import PlannedCost
from runner.plan.model import CampaignPlan, MessagePlan
from runner.plan.rollout import OpenStep
from runner.report.cost import PaidCost
from runner.report.gathering import read_cost, read_refusals
from runner.report.model import CampaignReport
from runner.view.blocks import Column, Sentence, TableBlock
from runner.view.html import Shown
from runner.wording import count_words, show_time
from runner.workflow.campaigns import show_path
from runner.workflow.failures import Failures
from runner.workflow.plans.names import plan_on_record
from runner.workflow.plans.planning import list_unread
from runner.workflow.workspace.workspace import Workspace, find_gone, say_gone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.model import RecordedDeliveries
    from runner.ledger.record.campaign_record import Record
    from runner.view.blocks import Block
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.scope import Scope

COUNTS = ("planned", "sent", "queued", "active", "complete", "answered", "unresolved", "rejected")
"""The counts of a message that are always shown."""
LEFT_OUT = ("deferred", "open_session", "no_rule")
"""Counts of people who are left out for now, shown only if there are any."""
_ESSENTIAL = {"planned", "sent", "answered"}
"""Counts that are shown even if all are zeros."""
_TOTALLED = {
    **{name: name for name in ("queued", "active", "complete", "rejected", "reconciled_at", "launches")},
    "reconciled_launches": "reconciled",
}
"""Fields of a message's status that are totals of the ledger, by their names there."""


class MessageStatus(Part, frozen=True, kw_only=True):
    """The status of a message; a count that is None is not known: of no launch, or not of every one.

    Attributes:
        id: the message's id.
        tag: its project tag; None of a message that is on record, and that the campaign no longer has.
        planned: recipients that `apply` would send to now; None, like the next four, if the campaign cannot
            be planned.
        deferred: recipients that wait for their time.
        open_session: recipients that wait until an open survey of theirs has ended.
        no_rule: recipients in places whose legal hours are not known, with `no_rule: refuse`.
        next_due: when the first of the deferred ones is due: UTC, ISO 8601, the full minute.
        sent: recipients of accepted launches.
        queued: sessions behind another one, as last reconciled.
        active: sessions in progress, as last reconciled.
        complete: sessions that ended, as last reconciled.
        answered: participants with at least one result, as last reconciled.
        unresolved: recipients that may have been texted: held.
        rejected: recipients whose last launch the service refused.
        reconciled_at: when that one of the reconciled launches was read that was read longest ago: UTC,
            ISO 8601; None when none was.
        launches: launches that the service accepted, as far as the ledger knows.
        reconciled_launches: of these, those whose counts and answers were read.
        partly_known: of the counts that are None, those that are known of some launches: a sum that leaves
            some out is no total.
        differing_launches: launches about whose answers the service contradicts itself: follow-ups that go by
            answers wait.
    """

    id: str
    tag: str | None
    planned: Count | None
    deferred: Count | None
    open_session: Count | None
    no_rule: Count | None
    next_due: str | None
    sent: Count | None
    queued: Count | None
    active: Count | None
    complete: Count | None
    answered: Count | None
    unresolved: Count | None
    rejected: Count | None
    reconciled_at: str | None
    launches: Count | None
    reconciled_launches: Count | None
    partly_known: tuple[NamedCount, ...]
    differing_launches: Count | None


class CampaignStatus(Part, frozen=True):
    """The status of a campaign.

    Attributes:
        name: the campaign's name.
        file: the campaign file, as it is named on the command line.
        target: the target's name.
        pause: since when, and why, a person has paused the campaign; None if nobody has, or if it cannot be
            planned.
        unread_replies: the replies on the target that its texts wait for until `runner reconcile` reads them;
            None if none wait.
        rollout: the open step of its rollout; None if it has none, or cannot be planned.
        messages: one entry a message, in the order of the file; former ones last.
        cost: what goes now and later costs, by the prices of the target; left out where that has none, if
            nothing is to go, and if the campaign cannot be planned.
        paid: what its texts have cost so far; left out where the target has no prices.
        refusals: limits and rules that its plan breaks, in words: nothing is sent.
    """

    name: str
    file: str
    target: str
    pause: Pause | None
    unread_replies: UnreadReplies | None
    rollout: OpenStep | None
    messages: tuple[MessageStatus, ...]
    cost: PlannedCost | UnsetType = UNSET
    paid: PaidCost | UnsetType = UNSET
    refusals: tuple[str, ...] = ()


class StatusDocument(Document, frozen=True):
    """The document that `runner status --format json` writes. A count that is null is not known.

    Attributes:
        campaigns: one entry a campaign.
        gone: names of campaigns that something was sent of, and whose files are gone.
    """

    campaigns: tuple[CampaignStatus, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusResult(Described, Shown):
    """The status of campaigns; iterates over them.

    Attributes:
        document: the status as a document.
        unread: messages with a due follow-up whose answers were not read since it became due.
        exit_code: of the command: not 0 if something could not be read or planned.
    """

    document: StatusDocument
    unread: list[str]
    exit_code: int

    def __iter__(self) -> Iterator[CampaignStatus]:
        return iter(self.document.campaigns)

    def __len__(self) -> int:
        return len(self.document.campaigns)

    def show(self) -> Iterator[Block]:
        """Yield the counts of each message, and what is only partly known or does not add up."""
        if not len(self):
            return
        columns = [name for name in (COUNTS[0], *LEFT_OUT, *COUNTS[1:]) if self._is_worth_showing(name)]
        rows = [
            [status.name, message.id, *(getattr(message, column) for column in columns)]
            for status in self
            for message in status.messages
        ]
        names = ["to send" if name == "planned" else name.replace("_", " ") for name in columns]
        essential = frozenset({"campaign", "message", "to send", *_ESSENTIAL})
        yield Sentence(f"Target: {self.document.campaigns[0].target}", "strong")
        yield TableBlock(("campaign", Column("message", "text"), *names), rows, essential=essential)
        yield from map(Sentence, _list_remarks(self.document.campaigns))

    def _is_worth_showing(self, column: str) -> bool:
        counts = [getattr(message, column) for status in self for message in status.messages]
        # What is not known is no zero.
        return column in _ESSENTIAL or any(counts) or (column in COUNTS and None in counts)


def _list_remarks(statuses: Sequence[CampaignStatus]) -> Iterator[str]:
    """Yield lines about partly known launches and about counts that don't add up."""
    stale = []
    for status in statuses:
        yield from _list_waits(status)
        for message in status.messages:
            name = f"{status.name}/{message.id}"
            if message.next_due:
                yield f"{name}: the first of those deferred is due at {show_time(message.next_due)}."
            if message.launches and not message.reconciled_launches:
                stale.append(name)
            elif message.launches != message.reconciled_launches or message.partly_known:
                yield f"{name}: {_describe_part(message)}"
            if message.differing_launches:
                launches = count_words(message.differing_launches, "launch", "launches")
                yield (
                    f"{name}: the service contradicts itself about the answers to {launches}; follow-ups "
                    "that go by answers wait. `runner reconcile` says more."
                )
    if stale:
        yield f"Not reconciled since the send: {', '.join(stale)}. `runner reconcile` reads what came in."


def _list_waits(status: CampaignStatus) -> Iterator[str]:
    """Yield what a whole campaign waits for."""
    if status.pause is not None:
        yield f"{status.name} is {status.pause.describe()}."
    if status.rollout is not None:
        yield f"{status.name}: {status.rollout.describe(status.name)}."
    if status.unread_replies is not None:
        yield f"{status.name} waits: {status.unread_replies.reason}."
    yield from (f"{status.name}: nothing is sent: {one}." for one in status.refusals)
    costs = [one.describe() for one in (status.cost, status.paid) if one]
    if costs:
        yield f"{status.name}: {' '.join(costs)}"


def _describe_part(message: MessageStatus) -> str:
    """Describe the part of a message's launches that is known: `reconciled at …, 60 of 61 launches`."""
    launches = f"{message.launches:,} launches"
    when = "not known" if message.reconciled_at is None else show_time(message.reconciled_at)
    text = f"reconciled at {when}, {message.reconciled_launches:,} of {launches}"
    parts = [
        f"{part.name} {part.count:,} in {part.launches:,} of {launches}" for part in message.partly_known
    ]
    return f"{text}; {', '.join(parts)}." if parts else f"{text}."


def find_project_status(scope: Scope) -> StatusResult:
    """Return the status of a project's campaigns, without asking a service.

    Campaigns that cannot be planned, and those whose record cannot be read, are shown with what is known.
    """
    workspace, failures = Workspace.open(scope), Failures(is_tolerant=True)
    with workspace.open_ledger_for_reading() as ledger:
        planned = {item.campaign.name: item for item in plan_on_record(workspace, scope, ledger, failures)}
        statuses = tuple(
            _find_status(workspace, ledger, campaign, planned.get(campaign.name))
            for campaign in failures.campaigns
        )
        gone = find_gone(workspace, scope, ledger, failures.claimed)
        say_gone(workspace, gone)
    unread = [name for item in planned.values() for name in list_unread(item)]
    code = failures.find_exit_code(None if failures.is_total else 0)
    document = StatusDocument(statuses, tuple(one.name for one in gone))
    return StatusResult(document=document, unread=unread, exit_code=code)


def _find_status(
    workspace: Workspace, ledger: Ledger, campaign: Campaign, item: PlanResult | None
) -> CampaignStatus:
    plan, record = (None, None) if item is None else (item.plan, item.record)
    if record is None:
        # Its error has been shown: without the record nothing is known, whatever the ledger counts.
        with suppress(RunnerError):
            record = workspace.read_record(ledger, campaign)
    counts = None if record is None else _read_counts(workspace, ledger, campaign, record)
    planned = {} if plan is None else {message.id: message for message in plan.messages}
    tags: dict[str, str | None] = {message.id: message.tag for message in campaign.messages}
    tags |= dict.fromkeys([] if counts is None else counts.list_lost(campaign))
    return CampaignStatus(
        campaign.name,
        show_path(campaign.file),
        workspace.target.name,
        None if plan is None else plan.pause,
        plan.unread if plan is not None and plan.waiting_for_replies else None,
        None if plan is None else plan.rollout,
        tuple(
            MessageStatus(
                id=message,
                tag=tag,
                **_count_planned(planned.get(message, None if plan is None else MessagePlan(message, ""))),
                **(_UNKNOWN if counts is None else counts.describe(message)),
            )
            for message, tag in tags.items()
        ),
        _describe_cost(plan),
        UNSET if counts is None or counts.paid is None else counts.paid,
        () if plan is None else plan.refusals,
    )


def _describe_cost(plan: CampaignPlan | None) -> PlannedCost | UnsetType:
    if plan is None or plan.cost is None or not (plan.recipients_to_send or plan.recipients_later.most):
        return UNSET
    return plan.cost.document()


def _count_planned(plan: MessagePlan | None) -> dict[str, Any]:
    return {
        "planned": plan and plan.to_send,
        **{name: plan and getattr(plan, name) for name in LEFT_OUT},
        "next_due": format_moment(plan.next_due) if plan is not None and plan.next_due else None,
    }


@dataclass(frozen=True, slots=True)
class _Counts:
    """The counts of one campaign on record, by message id."""

    known: RecordedDeliveries
    wave: str
    totals: dict[str, MessageTotals] = field(default_factory=dict)
    answered: Mapping[str, int] = field(default_factory=dict)
    differences: dict[str, OpenDifferences] = field(default_factory=dict)
    paid: PaidCost | None = None

    def list_lost(self, campaign: Campaign) -> list[str]:
        """Return the campaign's former messages that reached somebody, or may have."""
        reached = {message for message, totals in self.totals.items() if totals.sent or totals.unresolved}
        return sorted((self.known.messages | reached) - {message.id for message in campaign.messages})

    def describe(self, message: str) -> dict[str, Any]:
        """Return the fields of a message's status."""
        totals = self.totals.get(message, MessageTotals(message))
        differences = self.differences.get(message, OpenDifferences(0, 0, ()))
        read, parts = self.answered.get(message, 0), list(totals.partly_known)
        if not differences.hidden:
            parts += totals.know_in_part("answered", read)
        return {
            **{name: getattr(totals, source) for name, source in _TOTALLED.items()},
            # What other machines have reserved is unresolved, and no count of the ledger.
            "sent": count_on(self.known.sent.get(message, ()), self.wave),
            "unresolved": count_on(self.known.unresolved.get(message, ()), self.wave),
            "answered": None if totals.unread or differences.hidden else read,
            "partly_known": tuple(
                sorted((part for part in parts if part.name in COUNTS), key=lambda part: part.name)
            ),
            "differing_launches": differences.waiting,
        }


_UNKNOWN: dict[str, Any] = {
    **dict.fromkeys((*_TOTALLED, "sent", "unresolved", "answered", "differing_launches")),
    "partly_known": (),
}


def _read_counts(workspace: Workspace, ledger: Ledger, campaign: Campaign, record: Record) -> _Counts:
    if record.campaign_id is None:
        return _Counts(record.known, campaign.wave)
    asked = CampaignLaunches(record.campaign_id, campaign.message_ids, campaign.wave)
    with ledger.reading() as connection:
        refusals = read_refusals(connection, asked.campaign_id)
        let_in = {guid for (_, guid), is_on_record in refusals.items() if not is_on_record}
        kept = read_figures(connection, asked.campaign_id, asked.wave)
        answered = (
            # An opt-out is not an answer, as in reports.
            count_answered(connection, asked, let_in)
            if kept is None
            else {
                one.id: one.participants_answered or 0 for one in CampaignReport.restore(kept.report).messages
            }
        )
        return _Counts(
            record.known,
            asked.wave,
            read_totals(connection, asked),
            answered,
            read_differences(connection, asked),
            read_cost(connection, asked, workspace.target.prices),
        )
