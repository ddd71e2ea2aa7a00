"""Status of campaigns, from the records alone, without asking a service."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from runner.document import Count, Described, Document, Part
from runner.errors import LedgerError, LockfileError, MissingKeyError, RunnerError
from runner.git.command import GitError
from runner.ledger.model import format_moment
from runner.ledger.people.replies import UnreadReplies
from runner.ledger.people.suppressions import Pause
from runner.ledger.record.campaign_record import find_campaign_id
from runner.ledger.report_model import (
    ListedDifference,
    MessageTotals,
    NamedCount,
    OpenDifferences,
    list_differences,
    name_parts,
)
from runner.ledger.results.differences import read_differences
from runner.ledger.results.reconciled import read_totals
from runner.ledger.results.sendings import count_answered
from runner.plan.model import MessagePlan, PlanOptions
from runner.plan.plan_context import TextedPeople, concerns
from runner.report.gathering import read_refusals
from runner.source.diagnostic import Problems
from runner.view.blocks import Column, Sentence, TableBlock
from runner.view.html import Shown
from runner.wording import count_words, show_time
from runner.workflow.campaigns import load_campaigns, refuse_errors, show_path
from runner.workflow.delivery.gone import find_gone, say_gone
from runner.workflow.observer import note, show_problems, warn
from runner.workflow.plans.context_reader import PlanContextReader
from runner.workflow.plans.planning import list_texted, list_unread, plan_campaign
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.record.campaign_record import Identity, Record
    from runner.plan.model import CampaignPlan
    from runner.view.blocks import Block
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
        accepted_launches: launches of which a person has accepted that.
        differences: the first of them.
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
    accepted_launches: Count | None
    differences: tuple[ListedDifference, ...]


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
        messages: one entry a message, in the order of the file; former ones last.
    """

    name: str
    file: str
    target: str
    pause: Pause | None
    unread_replies: UnreadReplies | None
    messages: tuple[MessageStatus, ...]


class StatusDocument(Document, frozen=True):
    """The document that `runner status --format json` writes. A count that is null is not known.

    Attributes:
        campaigns: one entry a campaign.
        gone: names of campaigns that something was sent of, and whose files are gone.
    """

    campaigns: tuple[CampaignStatus, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatusResult(Described, Shown):
    """The status of campaigns; iterates over them.

    Attributes:
        statuses: one for each campaign.
        gone: the names of campaigns whose files are gone.
        unread: messages with a due follow-up whose answers were not read since it became due.
        unfilled: messages with launches in a lockfile that the ledger lacks.
        has_failed: True if something could not be read or planned.
    """

    statuses: list[CampaignStatus]
    gone: list[str]
    unread: list[str]
    unfilled: list[str]
    has_failed: bool

    def __iter__(self) -> Iterator[CampaignStatus]:
        return iter(self.statuses)

    def __len__(self) -> int:
        return len(self.statuses)

    @property
    def document(self) -> StatusDocument:
        """The status as a document."""
        return StatusDocument(tuple(self.statuses), tuple(self.gone))

    def show(self) -> Iterator[Block]:
        """Yield the counts of each message, and what is only partly known or does not add up."""
        if not self.statuses:
            return
        columns = [name for name in (COUNTS[0], *LEFT_OUT, *COUNTS[1:]) if self._is_worth_showing(name)]
        rows = [
            [status.name, message.id, *(getattr(message, column) for column in columns)]
            for status in self.statuses
            for message in status.messages
        ]
        names = ["to send" if name == "planned" else name.replace("_", " ") for name in columns]
        essential = frozenset({"campaign", "message", "to send", *_ESSENTIAL})
        yield Sentence(f"Target: {self.statuses[0].target}", "strong")
        yield TableBlock(("campaign", Column("message", "text"), *names), rows, essential=essential)
        yield from map(Sentence, _list_remarks(self.statuses))

    def _is_worth_showing(self, column: str) -> bool:
        counts = [getattr(message, column) for status in self.statuses for message in status.messages]
        # What is not known is no zero.
        return column in _ESSENTIAL or any(counts) or (column in COUNTS and None in counts)


def _list_remarks(statuses: Sequence[CampaignStatus]) -> Iterator[str]:
    """Yield lines about partly known launches and about counts that don't add up."""
    stale = []
    for status in statuses:
        if status.pause is not None:
            yield f"{status.name} is {status.pause.describe()}."
        if status.unread_replies is not None:
            yield f"{status.name} waits: {status.unread_replies.reason}."
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

    Raises:
        InvalidCampaignError: no campaign can be read.
        RunnerError: the target is missing or ambiguous.
    """
    workspace = Workspace.open(scope)
    problems = Problems()
    loaded = load_campaigns(scope.paths, scope.allowed, problems)
    loaded.say_if_none(quiet=scope.quiet)
    if not loaded.campaigns:
        refuse_errors(problems, quiet=scope.quiet)
    show_problems(problems, quiet=scope.quiet)
    found = find_status(workspace, scope, loaded.campaigns, loaded.claimed)
    return replace(found, has_failed=found.has_failed or bool(problems.error_count))


def find_status(
    workspace: Workspace, scope: Scope, campaigns: Sequence[Campaign], claimed: Collection[str]
) -> StatusResult:
    """Return the status of campaigns; warn of what could not be read.

    Campaigns whose files are gone are searched for in the scope; `claimed` has all names, also former ones,
    of existing campaigns.
    """
    with ExitStack() as stack:
        reader = _Reader(workspace, verbose=scope.verbose)
        reader.open_ledger(stack)
        statuses = reader.find_statuses(campaigns)
        gone = [campaign.name for campaign in reader.find_gone(scope, claimed)]
    return StatusResult(statuses, gone, reader.unread, reader.unfilled, reader.has_failed)


class _Reader:
    """Reads the status of campaigns, and continues after errors.

    With `verbose`, errors of planning are explained. The other attributes are as in `StatusResult`.
    """

    def __init__(self, workspace: Workspace, *, verbose: bool) -> None:
        self._workspace = workspace
        self._verbose = verbose
        self._stack = ExitStack()
        self._ledger: Ledger
        self._is_ledger_readable = True
        self._texted: tuple[TextedPeople, ...] = ()
        self._left: list[Campaign] = []
        self._reader: PlanContextReader | None = None
        self.has_failed = False
        self.unread: list[str] = []
        self.unfilled: list[str] = []

    def open_ledger(self, stack: ExitStack) -> None:
        """Open the ledger until the stack is closed."""
        self._stack = stack
        try:
            self._ledger = stack.enter_context(self._workspace.open_ledger_for_reading())
        except (LedgerError, MissingKeyError) as error:
            self._give_up_ledger(error)

    def find_statuses(self, campaigns: Sequence[Campaign]) -> list[CampaignStatus]:
        """Return the status of campaigns, with None for unknown values."""
        found = [(campaign, *self._read_safely(campaign)) for campaign in campaigns]
        self._left = [campaign for campaign, record, _ in found if record is not None]
        if self._left and not self._is_ledger_readable:
            note("What the lockfiles say is shown; what only the ledger knows is shown as not known.")
        return [self._find_status(*item) for item in found]

    def find_gone(self, scope: Scope, claimed: Collection[str]) -> list[Campaign]:
        """Return the campaigns whose files are gone, and name them."""
        # The error of an unreadable state remote has been shown already.
        with suppress(GitError):
            gone = find_gone(self._workspace, scope, self._ledger, claimed)
            say_gone(self._workspace, gone, quiet=scope.quiet)
            return gone
        return []

    def _read_safely(self, campaign: Campaign) -> tuple[Record | None, _Counts | None]:
        try:
            return self._read(campaign)
        except LedgerError as error:
            self._give_up_ledger(error)
            return self._read(campaign)

    def _find_status(
        self, campaign: Campaign, record: Record | None, counts: _Counts | None
    ) -> CampaignStatus:
        plan = planned = None
        if record is not None and counts is not None:
            plan = self._plan(campaign, record)
            planned = None if plan is None else {message.id: message for message in plan.messages}
            self.unread += list_unread(campaign, planned or {})
        tags: dict[str, str | None] = {message.id: message.tag for message in campaign.messages}
        tags |= dict.fromkeys(_find_lost(campaign, record, counts))
        messages = tuple(_find_message_status(*each, planned, record, counts) for each in tags.items())
        if counts is not None:
            self.unfilled += [f"{campaign.name}/{one.id}" for one in messages if one.launches is None]
        return CampaignStatus(
            campaign.name,
            show_path(campaign.file),
            self._workspace.target.name,
            None if plan is None else plan.pause,
            plan.unread if plan is not None and plan.waiting_for_replies else None,
            messages,
        )

    def _read(self, campaign: Campaign) -> tuple[Record | None, _Counts | None]:
        """Return a campaign's record and the ledger's counts; None where they are unclear."""
        record = counts = None
        try:
            record = self._workspace.read_record(self._ledger, campaign)
        except (LockfileError, GitError) as error:
            self._complain(error)
        if self._is_ledger_readable:
            # The error of an unclear record has been shown already.
            with suppress(LockfileError, GitError):
                counts = _read_counts(self._ledger, self._workspace.identify(campaign))
        return record, counts

    def _plan(self, campaign: Campaign, record: Record) -> CampaignPlan | None:
        problems = Problems()
        per_send = self._workspace.target.recipients_per_send
        self._left = [each for each in self._left if each is not campaign]
        keeps_people = concerns(campaign, self._left)
        options = PlanOptions(recipients_per_send=per_send, keeps_people=keeps_people)
        try:
            if self._reader is None:
                self._reader = PlanContextReader(self._workspace, self._ledger, self._workspace.now())
            context = self._reader.read(campaign, self._texted)
        except RunnerError as error:
            self._complain(error)
            return None
        item = plan_campaign(self._workspace, campaign, record, options, context, problems)
        if item is not None:
            self._texted += tuple(list_texted(item))
            return item.plan
        self.has_failed = True
        errors = count_words(problems.error_count, "error")
        warn(f"{campaign.name} cannot be planned: {errors}, see `runner validate`")
        if self._verbose:
            show_problems(problems, quiet=False)
        return None

    def _give_up_ledger(self, error: RunnerError) -> None:
        self._complain(error)
        self._ledger = self._stack.enter_context(self._workspace.open_temporary_ledger())
        self._is_ledger_readable, self._reader = False, None

    def _complain(self, error: RunnerError) -> None:
        self.has_failed = True
        warn(error.message)
        if error.hint:
            note(f"  {error.hint}")


@dataclass(frozen=True, slots=True)
class _Counts:
    """The ledger's counts of one campaign, by message id."""

    totals: dict[str, MessageTotals] = field(default_factory=dict)
    answered: dict[str, int] = field(default_factory=dict)
    differences: dict[str, OpenDifferences] = field(default_factory=dict)


def _read_counts(ledger: Ledger, identity: Identity) -> _Counts:
    campaign_id = find_campaign_id(ledger, identity)
    if campaign_id is None:
        return _Counts()
    with ledger.reading() as connection:
        return _Counts(
            read_totals(connection, campaign_id, identity.message_ids),
            count_answered(connection, campaign_id, identity.message_ids)
            # An opt-out is not an answer, as in reports.
            - read_refusals(connection, campaign_id, identity.message_ids).refusing,
            read_differences(connection, campaign_id, identity.message_ids),
        )


def _find_lost(campaign: Campaign, record: Record | None, counts: _Counts | None) -> list[str]:
    """Return the campaign's former messages that reached somebody, or may have."""
    known = record.known.messages if record is not None else set[str]()
    if counts is not None:
        known |= {message for message, totals in counts.totals.items() if totals.sent or totals.unresolved}
    return sorted(known - {message.id for message in campaign.messages})


def _find_message_status(
    message: str,
    tag: str | None,
    planned: dict[str, MessagePlan] | None,
    record: Record | None,
    counts: _Counts | None,
) -> MessageStatus:
    totals = None if counts is None else counts.totals.get(message, MessageTotals(message))
    if record is not None and totals is not None and len(record.known.sent.get(message, ())) > totals.sent:
        # The lockfile has launches that the ledger lacks, so the ledger's counts are not totals.
        totals = None
    sent = None if totals is None else totals.sent
    unresolved = None if totals is None else totals.unresolved
    if record is not None:
        # One transaction, so that runs cannot come between; only the ledger has unresolved launches.
        sent = len(record.known.sent.get(message, ()))
        unresolved = None if totals is None else len(record.known.unresolved.get(message, ()))
    return MessageStatus(
        id=message,
        tag=tag,
        **_count_planned(None if planned is None else planned.get(message, MessagePlan(message, ""))),
        sent=sent,
        unresolved=unresolved,
        **_list_totals(totals),
        **_count_answers(message, totals, counts),
    )


def _list_totals(totals: MessageTotals | None) -> dict[str, Any]:
    return {name: totals and getattr(totals, source) for name, source in _TOTALLED.items()}


def _count_answers(message: str, totals: MessageTotals | None, counts: _Counts | None) -> dict[str, Any]:
    answered = differences = None
    parts = {} if totals is None else dict(totals.partly_known)
    if counts is not None and totals is not None:
        read = counts.answered.get(message, 0)
        differences = counts.differences.get(message, OpenDifferences(0, 0, ()))
        answered = None if totals.unread or differences.hidden else read
        if not differences.hidden and (part := totals.know_in_part(read)):
            parts["answered"] = part
    return {
        "answered": answered,
        "partly_known": name_parts({name: part for name, part in parts.items() if name in COUNTS}),
        "differing_launches": differences and differences.waiting,
        "accepted_launches": differences and differences.accepted,
        "differences": list_differences(differences.first if differences else ()),
    }


def _count_planned(plan: MessagePlan | None) -> dict[str, Any]:
    return {
        "planned": plan and plan.to_send,
        **{name: plan and getattr(plan, name) for name in LEFT_OUT},
        "next_due": format_moment(plan.next_due) if plan is not None and plan.next_due else None,
    }
