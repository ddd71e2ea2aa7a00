"""The steps of a run: lock, settle, plan, check, send and settle in rounds, write lockfiles.

This process sends. Only planning may be done on a cluster.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from runner.delivery.delivery_summary import TRIED_AGAIN
from runner.delivery.eligibility import EligibilityCheck
from runner.delivery.run import Delivery
from runner.errors import PlanChangedError, RunnerError, ServiceError, UnknownOutcomesError
from runner.ledger.record.deliveries import note_tried_again
from runner.plan.plan_context import find_overdue
from runner.service.client import AccessRefusedError
from runner.source.diagnostic import Problems
from runner.telemetry import measure, span
from runner.wording import count_words
from runner.workflow.delivery.campaign_run import CampaignRun, note_audience
from runner.workflow.observer import hushing, note, show_progress, stop_on_interrupt, warn
from runner.workflow.plans.context_reader import PlanContextReader
from runner.workflow.plans.planning import plan_campaign, plan_campaigns
from runner.workflow.workspace.workspace import find_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from runner.campaign.model import Campaign
    from runner.delivery.pace import Pace
    from runner.ledger.model import LaunchState, Run
    from runner.ledger.record.campaign_record import Record
    from runner.plan.model import PlannedLaunch, PlanOptions
    from runner.service.client import ServiceClient
    from runner.workflow.delivery.apply_session import ApplySession
    from runner.workflow.failures import Failures
    from runner.workflow.plans.cluster_planning import ClusterPlanning
    from runner.workflow.plans.planning import NameCheck, PlanResult
    from runner.workflow.scope import Scope


_REFUSALS = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
_ROUNDS = 10
"""The most rounds of a run; the rest is left to the next run."""
_MOST_LISTED = 10_000
"""The most launches of a cluster's plan that a result lists."""
_AGAIN = "then run the same command again: whoever was texted is not texted again"


@dataclass(slots=True)
class DeliveryRun:
    """One `apply` of the campaigns that a session holds; those that are left out go to `failures`.

    With `names`, campaigns that may have been renamed are refused. Plans are made in this process, or on the
    `cluster`. `pace` is one for all campaigns, since the service's requests to slow down hold for all.
    """

    session: ApplySession
    failures: Failures
    pace: Pace
    names: NameCheck | None = None
    cluster: ClusterPlanning | None = None

    def plan(self, scope: Scope, options: PlanOptions, reader: PlanContextReader) -> Sequence[PlanResult]:
        """Lock, settle and plan campaigns, and look for launches missing from the ledger."""
        with span("plan"):
            planned = self._plan_all(scope, options, reader, self.session.enter_settled)
        # Left-out campaigns no longer limit the others, and adopted launches change the plan.
        while self._are_overtaken(planned):
            reader = PlanContextReader(self.session.workspace, self.session.ledger, reader.now)
            with hushing():
                planned = self._plan_all(scope, options, reader, self.session.enter)
        return planned

    def _plan_all(
        self,
        scope: Scope,
        options: PlanOptions,
        reader: PlanContextReader,
        enter: Callable[..., Record],
    ) -> Sequence[PlanResult]:
        """Load and plan campaigns, and show problems found."""
        cluster, stack = self.cluster, self.session.stack
        return plan_campaigns(
            scope,
            options,
            enter,
            reader,
            self.failures,
            begin=partial(cluster.begin, stack, reader, keeps_launches=True) if cluster else None,
            names=self.names,
        )

    def _are_overtaken(self, planned: Sequence[PlanResult]) -> bool:
        """Look for launches missing from the ledger; return whether to plan again."""
        find_lost = self.session.find_lost
        found = [self.failures.attempt(item.campaign, partial(find_lost, item)) for item in planned]
        return any(is_overtaken is not False for is_overtaken in found)

    def bring_forward(self, planned: Sequence[PlanResult]) -> Sequence[PlanResult]:
        """Return saved plans as of now, without launches that may no longer be sent."""
        now = self.session.workspace.now()
        return [self._plan_again(item, now) for item in planned]

    def _plan_again(self, item: PlanResult, now: datetime) -> PlanResult:
        workspace, planner = self.session.workspace, item.planner
        if planner is None:
            # A cluster's launches wait in files, each with its deadline.
            unread = PlanContextReader(workspace, self.session.ledger, now).unread
            overdue = find_overdue(item.campaign, unread, now)
            return item if overdue is None else replace(item, plan=replace(item.plan, unread=overdue))
        then, record = planner.context, self.session.enter(item.campaign)
        known = replace(then, now=now, planned_at=then.now)
        options, stamps = planner.options, planner.stamps
        again = plan_campaign(workspace, item.campaign, record, options, known, Problems(), stamps)
        if again is None:
            planner.require_unchanged()
            raise PlanChangedError(
                f"{item.campaign.name} can no longer be planned", hint="`runner validate` says why"
            )
        return again

    def settle_gone(self, scope: Scope, *, may_be_unknown: bool) -> None:
        """Settle and record the launches of campaigns in the scope whose files are gone.

        Raises:
            UnknownOutcomesError: of the only campaign launches are unknown, unless that `may_be_unknown`.
            RunnerError: as for `plan`.
        """
        gone = find_gone(self.session.workspace, scope, self.session.ledger, self.failures.claimed)
        self.failures.total += len(gone)
        for campaign in gone:
            settle = partial(self._settle_gone, campaign, may_be_unknown=may_be_unknown)
            self.failures.attempt(campaign, settle)

    def _settle_gone(self, campaign: Campaign, *, may_be_unknown: bool) -> None:
        self.session.enter_settled(campaign)
        self.session.rewrite_lockfile(campaign)
        unknown = self.session.count_unsettled(campaign)
        if unknown and not may_be_unknown:
            people = count_words(unknown, "recipient")
            raise UnknownOutcomesError(
                f"{campaign.name}: its file is gone, and {people} of it may have been texted: the outcome is "
                "unknown",
                hint="`runner resolve` lists the launches, and records what a person says of them",
            )

    def deliver(self, planned: Sequence[PlanResult], provenance: Run | None) -> list[CampaignRun]:
        """Send the plans, settle unresolved launches, and write the lockfiles.

        An interrupt ends the run early, but after the lockfiles are written. `provenance` is None if nothing
        is sent.
        """
        runs = [CampaignRun(item, adopted=self.session.adopted[item.campaign.name]) for item in planned]
        with stop_on_interrupt(self.session.stop):
            for run in runs:
                has_ended = self._has_ended(runs)
                plan, sends = run.planned.plan, None
                if provenance is not None and plan.recipients_to_send and not has_ended:
                    sends = note_audience(provenance, plan.audience)
                self.failures.attempt(run.planned.campaign, partial(self._deliver, run, sends))
                run.ended_at = self.session.workspace.now()
                run.unresolved = self.session.count_unsettled(run.planned.campaign)
                name, target = run.planned.campaign.name, run.planned.plan.target
                measure("sms_campaign.recipient.unresolved", run.unresolved, campaign=name, target=target)
        return runs

    def _deliver(self, run: CampaignRun, provenance: Run | None) -> None:
        try:
            if provenance is not None:
                with span("deliver", campaign=run.planned.campaign.name, target=run.planned.plan.target):
                    self._send_and_settle(run, provenance)
        except BaseException:
            # The error that ended the run matters to the user, not its effect on the record.
            with suppress(RunnerError):
                self._record(run, provenance)
            raise
        self._record(run, provenance)
        final = run.summary.final_reply
        if final is not None and final.status in _REFUSALS:
            client, _ = self.session.service
            run.diagnosis = diagnose_refusal(client, final.status)

    def _record(self, run: CampaignRun, provenance: Run | None) -> None:
        """List the run's launches, and write the lockfile."""
        if provenance is not None:
            most = None if run.planned.planner is not None else _MOST_LISTED
            number = self.session.number(run.planned.campaign)
            run.summary.list_launches(self.session.ledger, number, provenance.id, most)
        self.session.rewrite_lockfile(run.planned.campaign)

    def _has_ended(self, runs: Sequence[CampaignRun]) -> bool:
        return self.session.stop.is_set() or any(run.summary.final_reply for run in runs)

    def _send_and_settle(self, run: CampaignRun, provenance: Run) -> None:
        """Send a campaign in rounds: first the plan's launches, then those that settling has released."""
        ledger, campaign_id = self.session.ledger, run.planned.record.require_entered()
        name, summary = run.planned.campaign.name, run.summary
        launches, left, accepted = run.planned.iterate_launches(), run.to_send, -1
        for number in range(1, _ROUNDS + 1):
            with span("send round", campaign=name, round=number, recipients=left):
                unclear = self._send_round(run, provenance, launches, left)
            summary.refresh(ledger, campaign_id, provenance.id)
            released = frozenset[int]()
            if summary.count("unknown"):
                with span("settle", campaign=name):
                    found = self.session.settle(run.planned.campaign)
                if found.failure is not None:
                    warn(f"{name}: what is unclear cannot be settled now: {found.failure.message}")
                released = found.released & unclear.keys()
                summary.refresh(ledger, campaign_id, provenance.id)
            count = summary.count("sent")
            # Stop asking a service that accepts nothing.
            is_over = summary.pause is not None or summary.has_enough
            is_over = is_over or self._has_ended([run]) or accepted == count
            if is_over or not released:
                return
            with ledger.writing() as connection:
                note_tried_again(connection, released, TRIED_AGAIN)
            again = [unclear[one] for one in sorted(released)]
            launches, left, accepted = iter(again), sum(len(one.phones) for one in again), count

    def _send_round(
        self, run: CampaignRun, provenance: Run, launches: Iterator[PlannedLaunch], left: int
    ) -> dict[int, PlannedLaunch]:
        """Send launches to at most `left` recipients; return those of unknown outcome."""
        session, campaign, remote = self.session, run.planned.campaign, self.session.remote_intents
        ref = session.describe(campaign)
        _, target = session.service
        self.pace.set_rate(min(filter(None, (target.rate, campaign.limits.rate)), default=None))
        with show_progress(f"Sending {campaign.name}", left) as progress:
            delivery = Delivery(
                campaign=ref,
                send=ref.client.send,
                pace=self.pace,
                stop=session.stop,
                concurrency=target.concurrency,
                now=session.workspace.now,
                observe=partial(self._observe, progress.advance),
                lock=remote.guard(ref.lock),
                report=run.summary,
                eligibility=EligibilityCheck.of(campaign, ref),
                settle_margin=campaign.limits.settle_margin,
                provenance=provenance,
            )
            delivery.run(remote.reserve(run.planned, launches, provenance))
        return delivery.unclear

    def _observe(
        self, advance: Callable[[int], None], outcome: LaunchState, recipients: int, detail: str | None
    ) -> None:
        advance(recipients)
        if self.session.scope.verbose:
            note(f"{outcome}: {count_words(recipients, 'recipient')}" + (f" ({detail})" if detail else ""))


def diagnose_refusal(client: ServiceClient, status: int) -> RunnerError:
    """Ask the service, with the same credentials, why it may have refused a send with status 401 or 403."""
    refusal = f"the service refuses to send (HTTP {status})"
    try:
        usage = client.read_plan_usage()
    except AccessRefusedError:
        why = ", and to be read with these credentials: they are wrong, or no longer valid"
        mend = "check the username, the API key and the base URL"
    except ServiceError as error:
        why = f", and the cause cannot be told: {error.message}"
        mend = "check the credentials and the plan with the service's provider"
    else:
        used = "" if usage is None else f": {usage.renders_used:,} of {usage.renders_max:,} renders are used"
        if usage is not None and usage.is_used_up:
            why, mend = f" because its plan is used up{used}", "get more renders from the service's provider"
        else:
            why = f" but takes these credentials{used}"
            mend = (
                "what is sent may need more renders than are left, or the account may not be set up to send: "
                "check both with the service's provider"
            )
    return ServiceError(refusal + why, hint=f"{mend}, {_AGAIN}")
