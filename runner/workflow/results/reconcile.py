"""Reconciliation: counts and results of launches, copied from the service to the ledger."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from runner.document import Count, Described, Document, FailedCampaign, Part, build
from runner.errors import RunLockedError, ServiceError
from runner.ledger.people.replies import list_opt_ins
from runner.ledger.record.campaign_record import enter_identity, rewrite_lockfile
from runner.ledger.report_model import ListedDifference, ServicePlan, list_differences
from runner.ledger.results.sendings import store_service_plan
from runner.reconcile.account import AccountReading
from runner.reconcile.campaign import ReconcileCounts, reconcile_campaign
from runner.reconcile.launches import ReconcileContext
from runner.telemetry import measure, span
from runner.wording import count_words
from runner.workflow.failures import PARTLY_DONE, Failures, HasFailures
from runner.workflow.observer import note, show_progress, warn
from runner.workflow.workspace.workspace import Workspace, find_gone, say_gone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.reconcile.campaign import ReconcileSummary
    from runner.service.client import ServiceClient
    from runner.workflow.scope import Scope


_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ReconcileOptions:
    """Options of reconciling.

    Attributes:
        full: read every result again.
        accept: accept the service's list as complete, whatever its counts.
        drops: remove results that the service no longer lists; this reads all.
    """

    full: bool = False
    accept: bool = False
    drops: bool = False


class AccountOutcome(Part, frozen=True):
    """The reading of an account's newest results, whatever launches they belong to.

    Attributes:
        elsewhere: results met of launches that no campaign of this run has on record; opt-outs among them
            hold.
        lacking: results that the list counts and does not show; None if it could not be read.
        problem: why it could not be read; None if it was.
    """

    elsewhere: Count
    lacking: Count | None
    problem: str | None = None


class CampaignReconciliation(ReconcileCounts, frozen=True):
    """The findings about one campaign.

    Attributes:
        name: the campaign's name.
        differences: launches about whose answers the service contradicts itself, or of which it says nothing.
    """

    name: str
    differences: tuple[ListedDifference, ...]


class Reconciliation(Document, frozen=True):
    """The document that `runner reconcile --format json` writes. What is not known is null, never 0.

    Attributes:
        campaigns: one entry a campaign.
        account: the reading of the account's newest results; None if there was no campaign to reconcile.
            Unless `lacking` is 0, the exit code is at least 3.
        gone: names of those of the campaigns whose files are gone.
        failures: campaigns that were left out, while the others were gone on with.
    """

    campaigns: tuple[CampaignReconciliation, ...]
    account: AccountOutcome | None
    gone: tuple[str, ...]
    failures: tuple[FailedCampaign, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileResult(Described, HasFailures):
    """The result of reconciling: summaries by campaign; iterates over the campaigns.

    `gone` names the campaigns whose files are gone, which are reconciled, too. There is no `account` without
    campaigns.
    """

    summaries: dict[str, ReconcileSummary]
    failures: Failures
    account: AccountOutcome | None = None
    gone: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[CampaignReconciliation]:
        for name, summary in self.summaries.items():
            differences = list_differences(summary.differences)
            yield build(CampaignReconciliation, summary, name=name, differences=differences)

    def __len__(self) -> int:
        return len(self.summaries)

    @property
    def exit_code(self) -> int:
        """The command's exit code: the gravest of the readings' and the failures'."""
        return self.failures.find_exit_code(self.reading_code if self.summaries else None)

    @property
    def reading_code(self) -> int:
        """3 if some launches or replies could not be read, 1 if no launch could, else 0."""
        recorded = unread = whole = 0
        for summary in self.summaries.values():
            waiting = [one for one in summary.differences if not one.accepted_at]
            recorded += summary.recorded_launches
            unread += len(summary.unread_launches) + sum(one.problem == "more_counted" for one in waiting)
            whole += summary.whole_launches
        if recorded and not whole:
            return 1
        is_read = self.account is None or self.account.lacking == 0
        return PARTLY_DONE if unread or not is_read else 0

    @property
    def next_step(self) -> str | None:
        """The next step for a person, if everything went well."""
        if self.exit_code or not self.summaries:
            return None
        if any(one.results for one in self.summaries.values()):
            return "`runner report` shows what people answered; `runner apply` sends follow-ups that are due"
        return "`runner reconcile` again, once people have answered"

    @property
    def document(self) -> Reconciliation:
        """The result as a document."""
        return Reconciliation(tuple(self), self.account, self.gone, self.failures.describe())


def reconcile_project(scope: Scope, options: ReconcileOptions) -> ReconcileResult:
    """Copy counts and results of launches to the ledger, and warn of inconsistencies."""
    workspace = Workspace.open(scope, asks_service=True)
    failures = Failures()
    campaigns = failures.load(scope, keeps_rules=False)
    with workspace.open_ledger() as opened:
        gone = find_gone(workspace, scope, opened, failures.claimed)
        say_gone(workspace, gone)
        failures.total += len(gone)
        found = reconcile_and_warn(workspace, opened, [*campaigns, *gone], failures, options)
        workspace.files.share(opened)
    return replace(found, gone=tuple(campaign.name for campaign in gone))


def reconcile_and_warn(
    workspace: Workspace,
    ledger: Ledger,
    campaigns: Sequence[Campaign],
    failures: Failures,
    options: ReconcileOptions,
) -> ReconcileResult:
    """Reconcile campaigns, read the account's other replies, and warn of inconsistencies.

    Campaigns with errors go to `failures`.
    """
    result = ReconcileResult(summaries={}, failures=failures)
    if not campaigns:
        return result
    with workspace.open_service() as (client, _):
        _store_plan(workspace, ledger, client)
        run = _Run(workspace, ledger, client, options)
        for campaign in campaigns:
            summary = failures.attempt(campaign, partial(run.reconcile, campaign))
            if summary is not None:
                result.summaries[campaign.name] = summary
                _warn_of_differences(campaign.name, summary)
        account = run.read_account(sum(one.new_results for one in result.summaries.values()))
    _warn_of_account(account, workspace.target.name)
    _warn_of_replies(ledger, workspace.target.name, result.summaries)
    return replace(result, account=account)


@dataclass(frozen=True, slots=True)
class _Run:
    """The tools for reconciling one campaign after the other."""

    workspace: Workspace
    ledger: Ledger
    client: ServiceClient
    options: ReconcileOptions
    _contexts: dict[int, ReconcileContext] = field(default_factory=dict, init=False)

    def read_account(self, just_read: int) -> AccountOutcome:
        """Read the account's newest results, whatever launches they belong to."""
        workspace = self.workspace
        reading = AccountReading(
            self.ledger, self.client, workspace.key, workspace.now_text(), self._contexts
        )
        try:
            with span("reconcile account", target=workspace.target.name):
                reading.read(just_read, accept=self.options.accept)
        except ServiceError as error:
            return AccountOutcome(reading.elsewhere, None, error.message)
        return AccountOutcome(reading.elsewhere, reading.lacking)

    def reconcile(self, campaign: Campaign) -> ReconcileSummary:
        """Reconcile one campaign, and write its lockfile."""
        workspace, options = self.workspace, self.options
        campaign_id = enter_identity(self.ledger, workspace.identify_safely(campaign))
        names = {"campaign": campaign.name, "target": workspace.target.name}
        context = ReconcileContext(
            self.ledger,
            self.client,
            workspace.key,
            campaign_id,
            workspace.now_text(),
            full=options.full or options.drops,
            drops=options.drops,
            opt_out_words=campaign.policy.opt_out_words,
            has_prices=workspace.target.prices is not None,
        )
        self._contexts[campaign_id] = context
        with (
            show_progress(f"Reconciling {campaign.name}", None) as progress,
            span("reconcile", **names),
        ):
            shown = replace(context, observe_progress=progress.advance)
            summary = reconcile_campaign(shown, accept=options.accept)
        measure("sms_campaign.result.read", summary.new_results, **names)
        try:
            with workspace.hold_lock(self.ledger, campaign):
                rewrite_lockfile(self.ledger, workspace.identify(campaign), campaign_id)
        except RunLockedError as error:
            note(f"{error.message}; the lockfile is left to that run.")
        return summary


def _store_plan(workspace: Workspace, ledger: Ledger, client: ServiceClient) -> None:
    """Store the limits and prices of the service's plan for reports, if the service tells them."""
    usage = client.read_plan_usage()
    if usage is not None:
        plan = ServicePlan(usage.name, usage.price_usd, usage.renders_max, usage.renders_used)
        with ledger.writing() as connection:
            store_service_plan(connection, workspace.target.name, plan)


def _warn_of_differences(name: str, summary: ReconcileSummary) -> None:
    missing = summary.missing_launches
    if missing:
        launches = count_words(len(missing), "recorded launch is", "recorded launches are")
        warn(f"{name}: {launches} not listed by the service, first: {', '.join(missing[:3])}")
    for lost in summary.unreadable[:_SHOWN]:
        which = f"result {lost.guid}" if lost.guid else f"number {lost.position + 1} of its list"
        warn(f"{name}: {lost.problem} ({which}, launch {lost.project_launch_guid or 'unknown'})")
    if summary.unreadable_results:
        count = count_words(summary.unreadable_results, "result is", "results are")
        warn(f"{name}: {count} left out: the service's records of them cannot be read")
    if summary.unread_launches:
        launches = count_words(len(summary.unread_launches), "launch", "launches")
        warn(
            f"{name}: {launches} of {summary.recorded_launches:,} could not be read as a whole, first: "
            f"{', '.join(summary.unread_launches[:3])}; what they would add to is shown as not known"
        )
    _warn_of_results(name, summary)
    waiting = [one for one in summary.differences if one.accepted_at is None]
    # Errors of the other campaigns have been shown already.
    for difference in [one for one in waiting if one.listed is not None][:_SHOWN]:
        warn(f"{name}: launch {difference}")
    if waiting:
        launches = count_words(len(waiting), "launch", "launches")
        warn(
            f"{name}: somebody may have answered {launches} who is not known to, so follow-ups that go by "
            "answers wait; run `runner reconcile` again later, and if that stays, "
            "`runner reconcile --accept-differences`"
        )


def _warn_of_results(name: str, summary: ReconcileSummary) -> None:
    """Warn of results that only the ledger, or only the service, has."""
    read = summary.results + summary.forgotten_results
    if summary.renamed_results:
        same = count_words(summary.renamed_results, "result")
        note(f"{name}: the service lists {same} under other guids now; each counts once")
    if summary.dropped_results:
        note(
            f"{name}: {count_words(summary.dropped_results, 'result')} removed that the service does not list"
        )
    if summary.unlisted_results:
        gone = count_words(summary.unlisted_results, "result")
        warn(
            f"{name}: the service does not list {gone} any more that the ledger has, first of launch "
            f"{summary.unlisted_launches[0]}; they go on counting until `runner reconcile --drop-unlisted` "
            "removes them"
        )
    elif summary.expected_results is not None and read != summary.expected_results:
        warn(
            f"{name}: the ledger holds {count_words(read, 'result')}, "
            f"the service counts {summary.expected_results:,}; "
            "run `runner reconcile` again, results may have come in meanwhile"
        )


def _warn_of_account(account: AccountOutcome, target: str) -> None:
    if account.problem is not None:
        warn(f"replies on {target} were not read: {account.problem}; until they are, texts will have to wait")
    elif account.lacking:
        results = count_words(account.lacking, "result")
        warn(
            f"{target}: the service counts {results} more than it lists, and somebody may have opted out "
            "there; run `runner reconcile` again, and if that stays, `runner reconcile --accept-differences`"
        )


def _warn_of_replies(ledger: Ledger, target: str, summaries: dict[str, ReconcileSummary]) -> None:
    """Name replies that wait for a decision."""
    # This counts the whole target, so the last campaign's count includes all.
    waiting = max((summary.doubtful for summary in summaries.values()), default=0)
    if waiting:
        replies = count_words(waiting, "reply sounds", "replies sound")
        warn(
            f"{replies} like an opt-out on {target}, and nobody who wrote so is texted until you decide: "
            "run `runner optouts list --show-replies`"
        )
    with ledger.reading() as connection:
        asking = len(list_opt_ins(connection, target))
    if asking:
        replies = count_words(asking, "reply asks", "replies ask")
        note(
            f"{replies} for texts again on {target}; nobody is let in until you decide: `runner optouts list`"
        )
