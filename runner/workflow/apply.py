"""`runner apply`: sends plans exactly once, and records that."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, get_args

from runner.delivery.delivery_summary import TOO_LATE
from runner.delivery.pace import Pace
from runner.delivery.run import ENDED
from runner.document import (
    UNSET,
    Count,
    Described,
    Document,
    FailedCampaign,
    Part,
    Positive,
    UnsetType,
    build,
)
from runner.errors import LimitError, PausedError, PlanChangedError, UnknownOutcomesError, UsageError
from runner.plan.digest import plan_digest
from runner.plan.model import PlanOptions
from runner.service.target import SANDBOX
from runner.source.quantity import write_duration
from runner.workflow.approval_coverage import ApprovalStore, leave_out_unapproved
from runner.workflow.delivery.apply_session import ApplySession
from runner.workflow.delivery.campaign_run import RunOptions, keep_audiences, trace_run
from runner.workflow.delivery.delivery import DeliveryRun
from runner.workflow.failures import PARTLY_DONE, Failures, HasFailures
from runner.workflow.observer import warn
from runner.workflow.plans.cluster_planning import choose_cluster
from runner.workflow.plans.context_reader import PlanContextReader
from runner.workflow.plans.names import RecordNames
from runner.workflow.plans.planning import (
    count_to_send,
    describe_unread,
    leave_out,
    leave_out_paused,
    leave_out_refused,
    leave_out_waiting,
)
from runner.workflow.plans.saved import RENEWAL, describe_campaign
from runner.workflow.records.pausing import pause_broken
from runner.workflow.workspace.record_files import RecordRemote
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.ledger.model import Run
    from runner.workflow.delivery.campaign_run import CampaignRun
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.plans.saved import SavedPlan
    from runner.workflow.scope import Scope


MOST_CONCURRENT = 1024
"""Most sends in flight at once, also in `targets.schema.json`."""
_SHOWN_DETAILS = 5
MOST_APART_S = 300.0
"""Seconds by which the service's clock may differ where hours or dates matter, as in Kerberos (RFC 4120)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions(RunOptions):
    """The limits of a run; None is no restriction.

    Attributes:
        saved: the saved plan to send; None to plan now.
        expect_digest: the digest of the approved plan.
        only: the only message to send.
        limit: the most recipients to send to now.
        require_approval: send nothing of campaigns without an approval.
        settle_only: settle launches of earlier runs, and send nothing.
    """

    saved: SavedPlan | None = None
    expect_digest: str | None = None
    only: str | None = None
    limit: int | None = None
    require_approval: bool = False
    settle_only: bool = False


Outcome = Literal["sent", "rejected", "unknown", "not_sent"]


class AppliedLaunch(Part, frozen=True):
    """A launch of a run.

    Attributes:
        key: as in the lockfile.
        message: the message's id.
        project_launch_guid: the identifier that the service has given the launch.
        outcome: what has come of it.
        recipients: how many.
    """

    key: str
    message: str
    project_launch_guid: str | None
    outcome: Outcome
    recipients: Positive


class AppliedCampaign(Part, frozen=True, kw_only=True):
    """One campaign's part in a run. What counts recipients counts them for each message.

    Attributes:
        name: the campaign's name.
        sent: launches that the service accepted.
        rejected: launches that it refused.
        unknown: launches that it may have accepted: held.
        not_sent: launches that were not sent: they never left this machine, or the service does not list
            them.
        adopted: launches of earlier runs that turned out to be sent.
        unresolved: recipients whose outcome is not known after the run: held.
        not_tried: recipients whose turn did not come before the run ended.
        deferred: recipients who wait for their time: by the plan, or because their hours ended during the
            run; nobody once the campaign has expired.
        expired: recipients for whom it is too late: `expires` comes before their next moment.
        opted_out: recipients who opted out, or may have, after the plan was made.
        opt_out_doubtful: recipients who may have opted out: a person must decide.
        open_session: recipients who have an open survey and wait until it has ended: by the plan, or because
            another campaign sent it meanwhile.
        no_rule: recipients in places whose legal hours are not known, with `no_rule: refuse`.
        waiting: recipients whose earlier message of the campaign was not sent in this run, or may have been:
            a later run sends.
        capped: recipients who reached the frequency cap after the plan was made.
        enough: recipients who are not needed: as many people as `limits.completes` says have answered.
        recipients_sent: recipients of the accepted launches.
        launches: one entry a launch; left out if there are too many to list.
    """

    name: str
    sent: Count
    rejected: Count
    unknown: Count
    not_sent: Count
    adopted: Count
    unresolved: Count
    not_tried: Count
    deferred: Count
    expired: Count
    opted_out: Count
    capped: Count
    enough: Count
    open_session: Count
    opt_out_doubtful: Count
    no_rule: Count
    waiting: Count
    recipients_sent: Count
    launches: tuple[AppliedLaunch, ...] | UnsetType = UNSET

    @classmethod
    def of(cls, run: CampaignRun) -> AppliedCampaign:
        """Return the result of one campaign of a run."""
        summary = run.summary
        return build(
            cls,
            run,
            name=run.planned.campaign.name,
            **{state: summary.count(state) for state in get_args(Outcome)},
            **run.count_left(),
            recipients_sent=summary.recipients_sent,
            launches=tuple(build(AppliedLaunch, one) for one in summary.launches)
            if summary.is_listed
            else UNSET,
        )


class AppliedDocument(Document, frozen=True):
    """The document that `runner apply --format json` writes.

    Attributes:
        campaigns: one entry a campaign.
        failures: campaigns that were left out, while the others were gone on with.
    """

    campaigns: tuple[AppliedCampaign, ...]
    failures: tuple[FailedCampaign, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult(Described, HasFailures):
    """The result of a run; iterates over its campaigns.

    `runs` has the campaigns with their plans. After an interrupt everything sent is recorded; `is_behind` is
    True if the state remote could not be updated completely.
    """

    failures: Failures
    exit_code: int
    campaigns: tuple[AppliedCampaign, ...] = ()
    runs: tuple[CampaignRun, ...] = field(default=(), repr=False)
    is_interrupted: bool = False
    is_behind: bool = False

    def __iter__(self) -> Iterator[AppliedCampaign]:
        return iter(self.campaigns)

    def __len__(self) -> int:
        return len(self.campaigns)

    @property
    def next_step(self) -> str | None:
        """The next step for a person, if everything went well."""
        if self.exit_code or self.is_interrupted:
            return None
        if any(one.sent or one.adopted for one in self.campaigns):
            return "`runner reconcile` reads counts and answers, once people have answered"
        if any(one.deferred for one in self.campaigns):
            return "`runner apply` again, once their hours have begun"
        return None

    @property
    def document(self) -> AppliedDocument:
        """The result as a document."""
        return AppliedDocument(self.campaigns, self.failures.describe())


def apply_campaigns(
    scope: Scope, options: ApplyOptions, approve: Callable[[Sequence[PlanResult]], None]
) -> ApplyResult:
    """Send plans, and write the lockfiles.

    Without a saved plan, `approve` gets the plans that would be sent, and raises to refuse.
    """
    saved = options.saved
    scope, workspace, plan_options = prepare_run(scope, options)
    cluster = choose_cluster(scope, workspace, plan_options.limit)
    with (
        workspace.open_ledger() as opened,
        ApplySession(workspace, opened, scope, options) as session,
    ):
        remote = RecordRemote(workspace.files, scope.record_remote, workspace.environ)
        remote.absorb(opened)
        sends = not options.settle_only and (saved is None or saved.sends)
        session.is_idle = not sends and session.remote_intents.is_idle()
        # What is settled is not sent, so campaigns and messages may have any name.
        names = RecordNames(workspace, opened, is_target_only=options.settle_only)
        workspace.say_risks(opened)
        failures, pace = Failures(), Pace(None, time.monotonic, session.stop)
        run = DeliveryRun(session, failures, pace, names, cluster)
        reader = PlanContextReader(workspace, opened, saved.now if saved else workspace.now())
        planned = run.plan(scope, plan_options, reader)
        # Unknown outcomes are an error of sending, not of settling.
        run.settle_gone(scope, may_be_unknown=options.settle_only)
        if options.settle_only:
            runs = run.deliver(planned, None)
        else:
            planned = _choose_sound(planned, run, options)
            if saved is None and count_to_send(planned):
                approve(planned)
            _require_unchanged(planned, saved)
            keep_audiences(opened, planned, workspace.now_text())
            provenance = _trace(planned, workspace, saved)
            with remote.watching(opened) if provenance else nullcontext():
                runs = run.deliver(planned, provenance)
    return _conclude(runs, run, is_settled=options.settle_only)


def prepare_run(scope: Scope, options: ApplyOptions) -> tuple[Scope, Workspace, PlanOptions]:
    """Return the scope, workspace and plan options of a run."""
    saved, only, limit = options.saved, options.only, options.limit
    _refuse_nonsense(scope, options)
    if saved is not None:
        if options.expect_digest is not None:
            saved.require_digest(options.expect_digest)
        scope, only, limit = replace(scope, paths=tuple(saved.paths())), saved.only, saved.limit
    workspace = Workspace.open(scope, asks_service=True)
    if saved is not None:
        saved.require_target(workspace.target)
    return scope, workspace, PlanOptions(only, limit)


def _refuse_nonsense(scope: Scope, options: ApplyOptions) -> None:
    """Refuse options that contradict each other."""
    if options.saved is None:
        if options.expect_digest is not None:
            raise UsageError("--expect-digest is about a saved plan", hint="name it with --plan")
        return
    if scope.paths or options.only is not None or options.limit is not None:
        raise UsageError("--plan says what to send: PATH, --only and --limit don't go with it")


def _choose_sound(
    planned: Sequence[PlanResult], run: DeliveryRun, options: ApplyOptions
) -> Sequence[PlanResult]:
    """Return the plans that can be sent: unchanged if saved, not paused, within limits, replies read.

    Raises:
        PlanChangedError: a saved plan is out of date.
        LimitError: the only plans to send are over a limit, wait for replies, or are not approved.
        PausedError: the only plans to send are paused.
    """
    saved = options.saved
    planned = pause_broken(run.session.workspace, run.session.ledger, planned)
    if saved:
        run.failures.accept_pauses(saved.knows_pause)
        planned = leave_out_paused(planned, run.failures)
        saved.require_unchanged(planned, run.failures.errors)
        planned = run.bring_forward(planned)
    for line in describe_unread(planned):
        warn(line)
    planned = leave_out_refused(planned, run.failures, ". Nothing was sent")
    planned = leave_out_waiting(planned, run.failures)
    if options.require_approval:
        is_given = options.expect_digest is not None
        workspace = run.session.workspace
        store = ApprovalStore(workspace.target, workspace.state)
        planned = leave_out_unapproved(planned, run.failures, store, is_given=is_given)
    return _leave_out_misdated(planned, run)


def _leave_out_misdated(planned: Sequence[PlanResult], run: DeliveryRun) -> Sequence[PlanResult]:
    """Return the plans that can be sent by this machine's clock; others go to the run's failures.

    The sandbox's clock is moved on purpose.
    """
    timed = [item for item in planned if item.campaign.goes_by_clock and item.plan.recipients_to_send]
    if not timed or run.session.workspace.target.name == SANDBOX:
        return planned
    client, _ = run.session.service
    apart_s = client.measure_clock()
    if apart_s is None or apart_s <= MOST_APART_S:
        return planned
    apart = write_duration(timedelta(seconds=round(apart_s)))

    def find_error(item: PlanResult) -> LimitError | None:
        if item not in timed:
            return None
        return LimitError(
            f"{item.campaign.name}: its texts go by hours or dates, and this machine's clock is {apart} from "
            "the service's. Nothing of it was sent",
            hint="set this machine's clock (`runner doctor` compares them), then run the same command again",
        )

    return leave_out(planned, run.failures, find_error)


def _require_unchanged(planned: Sequence[PlanResult], saved: SavedPlan | None) -> None:
    """Refuse to send if files have changed since they were read, be it in a wait or at the question.

    Each campaign looks once more before its first launch.

    Raises:
        PlanChangedError: names the file; nothing of any campaign was sent.
    """
    for item in planned:
        if item.planner is not None and item.plan.recipients_to_send:
            try:
                item.planner.require_unchanged()
            except PlanChangedError as error:
                again = "nothing was sent; run the same command again"
                hint = RENEWAL if saved else again
                raise PlanChangedError(error.message, hint=hint) from None


def _trace(planned: Sequence[PlanResult], workspace: Workspace, saved: SavedPlan | None) -> Run | None:
    """Return the run to record launches with; None without launches, so that git is not asked."""
    if not count_to_send(planned):
        return None
    digest = saved.digest if saved else plan_digest(map(describe_campaign, planned))
    campaigns = [item.campaign for item in planned]
    return trace_run(campaigns, digest, workspace.now_text(), workspace.environ)


def _conclude(runs: Sequence[CampaignRun], run: DeliveryRun, *, is_settled: bool) -> ApplyResult:
    """Return the result of a run."""
    code = (0 if is_settled else _find_exit_code(runs)) if runs else None
    for one in () if is_settled else runs:
        _warn_of_failures(one)
    return ApplyResult(
        campaigns=tuple(map(AppliedCampaign.of, runs)),
        runs=tuple(runs),
        failures=run.failures,
        is_interrupted=not is_settled and run.session.stop.is_set(),
        is_behind=run.session.remote_intents.is_behind,
        exit_code=run.failures.find_exit_code(code) or int(run.session.remote_intents.is_behind),
    )


def _warn_of_failures(run: CampaignRun) -> None:
    name, summary = run.planned.campaign.name, run.summary
    final = summary.final_reply
    if run.diagnosis is not None:
        warn(f"{name}: {run.diagnosis.message}")
        warn(f"{name}: to mend it, {run.diagnosis.hint}")
    elif final is not None:
        warn(f"{name}: the run was ended, every further send would fail too: {final.detail}")
    if summary.pause is not None:
        warn(f"{name} is {summary.pause.describe()}; `runner resume {name}` lets it go on")
    said = {None, ENDED, TOO_LATE, final and final.detail}
    failed = {row.detail for row in summary.tally if row.state != "sent"}
    for detail in sorted(filter(None, failed - said))[:_SHOWN_DETAILS]:
        warn(f"{name}: {detail}")


def _find_exit_code(runs: Sequence[CampaignRun]) -> int:
    if any(run.unresolved for run in runs):
        return UnknownOutcomesError.exit_code
    if any(run.summary.pause for run in runs):
        return PausedError.exit_code
    if any(run.summary.final_reply for run in runs):
        return 1
    if any(run.summary.has_failures for run in runs):
        return PARTLY_DONE if any(run.summary.count("sent") for run in runs) else 1
    return 0
