"""`runner reconcile`: brings counts and results into the ledger."""

from __future__ import annotations

import secrets
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from runner.cli.clustering import choose_cluster, open_chosen_cluster
from runner.cli.console import count_words, note, print_json, show_progress, warn
from runner.cli.failures import Failures
from runner.cli.gone import find_gone, say_gone
from runner.cli.scope import Scope, clustered_target_scope, format_option
from runner.cli.workspace import Workspace
from runner.errors import RunLockedError
from runner.ledger.opt_ins import list_opt_ins
from runner.ledger.report_model import ServicePlan, describe_difference, describe_parts
from runner.ledger.sendings import store_service_plan
from runner.ledger.target_key import KeySource
from runner.reconcile.campaign import reconcile_campaign
from runner.service.target import list_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.cli.clustering import ClusterSettings
    from runner.cluster.engine import Cluster
    from runner.ledger.database import Ledger
    from runner.ledger.recorded import RecordHead
    from runner.reconcile.summary import ReconcileSummary
    from runner.service.client import ServiceClient
    from runner.service.target import Target

_SHOWN = 5
_PARTLY = 3


@click.command(
    epilog="\b\nExamples:\n  runner reconcile\n  runner reconcile --full\n"
    "  runner reconcile campaigns/customer-pulse.yaml --target live"
)
@clustered_target_scope
@format_option("human", "json")
@click.option(
    "--full",
    is_flag=True,
    help="Read every result again: finds answers that were edited, which the service's counts don't tell.",
)
@click.option(
    "--accept-differences",
    "accept",
    is_flag=True,
    help="Where the service counts more than it lists, take what is listed for all there is: follow-ups no "
    "longer wait.",
)
@click.option(
    "--drop-unlisted",
    "drops",
    is_flag=True,
    help="Read every result again, and remove those from the ledger that the service no longer lists.",
)
def command(scope: Scope, format_: str, full: bool, accept: bool, drops: bool) -> int:
    """Bring stats and results of every launch into the ledger.

    Only what is new is read. What was stored is checked against the service's own counts. The exit code is 3
    if some launches could not be read, and 1 if none could. Each campaign stands for itself: one that is
    invalid, or whose lists cannot be read, is left out, with exit code 3. A campaign whose file is gone is
    named, and its launches are read like the others: their people may still opt out.

    Where the service counts more results than it lists, somebody may have answered who is not known to:
    follow-ups that go by answers wait. A difference that stays can be accepted as it is; another one that
    comes later holds again.

    Results that the service no longer lists stay in the ledger and in reports, and are named; people who gave
    them count as having answered. --drop-unlisted removes them. A result that the service lists under another
    guid now is the same one, if participant, question, time and words are the same: it counts once.

    With --cluster, workers read several lists at a time, with no more requests in flight together than the
    target's `limits.concurrency`.

    Replies that opt out are kept: their authors are not texted again by any campaign on the target. A reply
    that only sounds like it waits for your decision, and its author with it: see `runner optouts`.
    """
    workspace = Workspace.open(scope)
    settings = choose_cluster(scope, workspace)
    failures = Failures()
    campaigns = failures.load(scope)
    with workspace.open_ledger() as opened:
        gone = find_gone(workspace, scope, opened, failures.claimed)
        say_gone(workspace, gone, quiet=scope.quiet)
        failures.expect_more(len(gone))
        summaries = reconcile_campaigns(
            workspace,
            opened,
            [*campaigns, *gone],
            failures,
            quiet=scope.quiet,
            full=full or drops,
            accept=accept,
            drops=drops,
            settings=settings,
        )
    if format_ == "json":
        found = [_describe(name, summary) for name, summary in summaries.items()]
        names = [campaign.name for campaign in gone]
        print_json({"campaigns": found, "gone": names, **failures.as_json()})
    else:
        for name, summary in summaries.items():
            click.echo(_sentence(name, summary))
    return failures.find_exit_code(find_exit_code(summaries.values()) if summaries else None)


def find_exit_code(summaries: Iterable[ReconcileSummary]) -> int:
    """Return 3 if some launches could not be read, 1 if none could, else 0."""
    recorded = unread = whole = 0
    for summary in summaries:
        recorded += summary.recorded_launches
        unread += len(summary.unread_launches)
        whole += summary.whole_launches
    if recorded and not whole:
        return 1
    return _PARTLY if unread else 0


def reconcile_campaigns(
    workspace: Workspace,
    ledger: Ledger,
    campaigns: Sequence[Campaign],
    failures: Failures,
    *,
    quiet: bool,
    full: bool = False,
    accept: bool = False,
    drops: bool = False,
    settings: ClusterSettings | None = None,
) -> dict[str, ReconcileSummary]:
    """Reconcile campaigns one after the other, and warn of what does not add up.

    Args:
        workspace: names the service.
        ledger: open for writing.
        campaigns: those to bring up to date.
        failures: takes those that cannot be.
        quiet: show no progress.
        full: read every result again.
        accept: take what the service lists for all there is, whatever it counts.
        drops: remove the results that the service does not list any more.
        settings: the cluster that reads; None to read here.

    Returns:
        What was found, by campaign name.
    """
    summaries: dict[str, ReconcileSummary] = {}
    target = workspace.target
    if not campaigns:
        return summaries
    with workspace.open_service() as (client, reached), ExitStack() as stack:
        cluster = stack.enter_context(_open_cluster(settings, workspace, reached)) if settings else None
        _store_plan(workspace, ledger, client)

        def reconcile(campaign: Campaign) -> ReconcileSummary:
            record = workspace.enter_head(ledger, campaign)
            with show_progress(f"Reconciling {campaign.name}", None, quiet=quiet) as progress:
                order = _Reconciling(
                    workspace, ledger, client, campaign, record, progress.advance, full, accept, drops
                )
                summary = order.reconcile() if cluster is None else order.reconcile_on(cluster, reached)
            _rewrite_lockfile(workspace, ledger, campaign, record, quiet=quiet)
            return summary

        for campaign in campaigns:
            summary = failures.attempt(campaign, partial(reconcile, campaign))
            if summary is not None:
                summaries[campaign.name] = summary
                _warn_of_differences(campaign.name, summary)
    _warn_of_doubtful(summaries, target.name)
    _tell_of_returning(ledger, target.name)
    return summaries


@dataclass(frozen=True, slots=True)
class _Reconciling:
    """One campaign that is about to be reconciled."""

    workspace: Workspace
    ledger: Ledger
    client: ServiceClient
    campaign: Campaign
    record: RecordHead
    observe_progress: Callable[[int], None]
    full: bool
    accept: bool
    drops: bool

    @property
    def people(self) -> KeySource:
        """Where the key of the target's people comes from."""
        target = self.workspace.target
        return KeySource(target.name, target.state_key, secrets.token_hex(16))

    def reconcile(self) -> ReconcileSummary:
        """Read all there is here."""
        campaign_id, key = self.record.require_entered()
        return reconcile_campaign(
            self.ledger,
            self.client,
            campaign_id=campaign_id,
            campaign=self.campaign.name,
            key=key,
            people=self.people,
            now=self.workspace.now_text,
            observe_progress=self.observe_progress,
            full=self.full,
            accept=self.accept,
            drops=self.drops,
            opt_out_words=self.campaign.policy.opt_out_words,
        )

    def reconcile_on(self, cluster: Cluster, target: Target) -> ReconcileSummary:
        """Have it read by the workers of a cluster, from a target that was reached."""
        # Imported here: only those who have a cluster pay for it.
        from runner.cluster.reading_order import ReadingOrder
        from runner.cluster.reconcile import ClusterReconciliation, share_requests
        from runner.cluster.worker_access import WorkerTarget

        campaign_id, key = self.record.require_entered()
        variables = list_variables(target.name, self.workspace.targets)
        order = ReadingOrder(
            campaign_id,
            self.campaign.name,
            WorkerTarget.strip(target, variables),
            share_requests(cluster.slots, target.concurrency),
            self.workspace.now_text(),
            self.full,
            self.drops,
            self.campaign.policy.opt_out_words,
        )
        return ClusterReconciliation(
            cluster,
            order,
            self.ledger,
            self.client,
            key,
            self.people,
            self.observe_progress,
            accept=self.accept,
        ).run()


@contextmanager
def _open_cluster(settings: ClusterSettings, workspace: Workspace, target: Target) -> Iterator[Cluster]:
    username, api_key, _ = list_variables(target.name, workspace.targets)
    is_embedded = workspace.target.base_url is None
    # Those of the embedded sandbox are made when it starts.
    made = (
        {username: target.credentials.username, api_key: target.credentials.api_key}
        if is_embedded and target.credentials is not None
        else {}
    )
    with open_chosen_cluster(settings, workspace, made) as (cluster, _):
        yield cluster


def _store_plan(workspace: Workspace, ledger: Ledger, client: ServiceClient) -> None:
    """Keep what the service's plan allows and costs, for reports, if the service says it."""
    usage = client.read_plan_usage()
    if usage is not None:
        plan = ServicePlan(usage.name, usage.price_usd, usage.renders_max, usage.renders_used)
        with ledger.writing() as connection:
            store_service_plan(connection, workspace.target.name, plan, workspace.now_text())


def _rewrite_lockfile(
    workspace: Workspace, ledger: Ledger, campaign: Campaign, record: RecordHead, *, quiet: bool
) -> None:
    """Write a lockfile, unless a run that may put more into it is at work: that one writes it."""
    try:
        with workspace.hold_lock(ledger, campaign):
            workspace.rewrite_lockfile(ledger, campaign, record)
    except RunLockedError as error:
        if not quiet:
            note(f"{error.message}; the lockfile is left to that run.")


def _warn_of_differences(name: str, summary: ReconcileSummary) -> None:
    missing = summary.missing_launches
    if missing:
        launches = count_words(len(missing), "recorded launch is", "recorded launches are")
        warn(f"{name}: {launches} not listed by the service, first: {', '.join(missing[:3])}")
    for unreadable in summary.unreadable[:_SHOWN]:
        which = (
            f"result {unreadable.guid}"
            if unreadable.guid
            else f"number {unreadable.position + 1} of its list"
        )
        warn(f"{name}: {unreadable.problem} ({which}, launch {unreadable.project_launch_guid or 'unknown'})")
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
    # That the others are not listed, or cannot be read, has been said.
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
    """Warn of results that the ledger has and the service does not list, and the other way round."""
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


def _describe(name: str, summary: ReconcileSummary) -> dict[str, Any]:
    return {
        "name": name,
        **asdict(summary),
        "partly_known": describe_parts(summary.partly_known),
        "differences": [describe_difference(difference) for difference in summary.differences],
    }


def _write_unknown(count: str, summary: ReconcileSummary) -> str:
    part = summary.partly_known.get(count)
    if part is None:
        return "not known"
    return f"not known ({part.count:,} in {part.launches:,} of {summary.recorded_launches:,} launches)"


def _tell_of_returning(ledger: Ledger, target: str) -> None:
    with ledger.reading() as connection:
        asking = len(list_opt_ins(connection, target))
    if asking:
        replies = count_words(asking, "reply asks", "replies ask")
        note(
            f"{replies} for texts again on {target}; nobody is let in until you decide: `runner optouts list`"
        )


def _warn_of_doubtful(summaries: dict[str, ReconcileSummary], target: str) -> None:
    # Counted on the target, so the last campaign's count has them all.
    waiting = max((summary.doubtful for summary in summaries.values()), default=0)
    if waiting:
        replies = count_words(waiting, "reply sounds", "replies sound")
        warn(
            f"{replies} like an opt-out on {target}, and nobody who wrote so is texted until you decide: "
            "run `runner optouts list --show-replies`"
        )


def _sentence(name: str, summary: ReconcileSummary) -> str:
    sessions = ", ".join(
        f"{count:,} {state}" if count is not None else f"{state} {_write_unknown(state, summary)}"
        for state, count in summary.sessions.items()
    )
    return (
        f"{name}: {count_words(summary.launches, 'launch', 'launches')}; sessions: {sessions}; "
        f"{count_words(summary.results, 'result')}, {summary.new_results:,} of them new"
        + (f"; {count_words(summary.opted_out, 'opt-out')} found." if summary.opted_out else ".")
    )
