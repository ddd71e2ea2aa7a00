"""Plans several campaigns on a cluster: gathers what plans depend on, but for what workers ask themselves."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from runner.cli.console import show_progress
from runner.cli.planning import PlannedHead, find_records, require_message, warn_of_lost_ids
from runner.cluster.address import LEDGER
from runner.cluster.audience_scatter import choose_partitions, cut_audience
from runner.cluster.campaign_plan import CampaignPlanner, PlanRequest
from runner.cluster.plan_job import KeySource, RecordPlace, TargetSuppressions
from runner.ledger.lookup import find_depleted
from runner.ledger.moment import format_moment
from runner.ledger.open_sessions import has_open_launches
from runner.ledger.opt_outs import count_opt_outs
from runner.ledger.target_key import read_target_key
from runner.plan.texted import concerns
from runner.service.target import list_variables
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from runner.campaign.model import Campaign
    from runner.cli.circumstances import CircumstanceReader
    from runner.cli.console import Progress
    from runner.cli.failures import Failures
    from runner.cli.scope import Scope
    from runner.cli.workspace import Workspace
    from runner.cluster.engine import Cluster
    from runner.cluster.folder import SharedFolder
    from runner.cluster.plan_set import PartFile
    from runner.ledger.database import Ledger
    from runner.ledger.recorded import SummedRecord
    from runner.ledger.target_key import LedgerConnection
    from runner.plan.model import PlanOptions


@dataclass(frozen=True, slots=True)
class ClusterPlans:
    """What a cluster has planned.

    Attributes:
        planned: the campaigns with their plans.
        parts: by the campaign's name, the files of its launches, if they were written.
        terms: by the campaign's name, the digest of who gets it in which arm and until when.
        invalid: campaigns with errors, each with all that was found in it.
    """

    planned: list[PlannedHead] = field(default_factory=list)
    parts: dict[str, tuple[PartFile, ...]] = field(default_factory=dict)
    terms: dict[str, str] = field(default_factory=dict)
    invalid: list[tuple[Campaign, Problems]] = field(default_factory=list)

    def list_before(self, campaign: Campaign) -> list[tuple[str, tuple[PartFile, ...]]]:
        """Return the names and files of what will be sent before a campaign, and its plan goes by."""
        # What breaks a limit is not sent: it takes nobody's turn.
        sent = [item.campaign for item in self.planned if not item.plan.refusals]
        names = [each.name for each in sent if concerns(each, (campaign,))]
        return [(name, self.parts[name]) for name in names if name in self.parts]


class Stages:
    """Shows how far the stages of a plan are, one after the other.

    Args:
        quiet: show nothing.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._stack = ExitStack()
        self._title = ""
        self._done = 0
        self._progress: Progress | None = None

    def observe(self, title: str, done: int, total: int) -> None:
        """Take note of how much of a stage is done."""
        if self._progress is None or title != self._title or done < self._done:
            self._stack.close()
            self._title, self._done = title, 0
            self._progress = self._stack.enter_context(show_progress(title, total, quiet=self._quiet))
        self._progress.advance(done - self._done)
        self._done = done

    def close(self) -> None:
        """Take the last stage off the screen."""
        self._stack.close()
        self._progress = None


class ClusterPlanning:
    """Plans campaigns on a cluster.

    Args:
        workspace: names the target.
        ledger: open; None if there is none yet.
        reader: reads what lockfiles of other campaigns tell.
        moment: for which is planned.
        cluster: does the work.
        folder: which all workers reach.
        failures: takes campaigns that cannot be planned.
        find_record: returns what is on record of a campaign; None to read it, and write nothing.
    """

    def __init__(
        self,
        workspace: Workspace,
        ledger: Ledger | None,
        reader: CircumstanceReader,
        moment: datetime,
        cluster: Cluster,
        folder: SharedFolder,
        failures: Failures,
        find_record: Callable[[Campaign], SummedRecord] | None = None,
    ) -> None:
        self._workspace = workspace
        self._ledger = ledger
        self._reader = reader
        self._moment = moment
        self._cluster = cluster
        self._folder = folder
        self._failures = failures
        self._find_record = find_record or (lambda each: workspace.read_summed_record(ledger, each))

    def plan(self, scope: Scope, options: PlanOptions, out: str | None) -> ClusterPlans:
        """Load and plan campaigns; show what is wrong with them.

        Args:
            scope: says which campaigns.
            options: what the user asks of the plan.
            out: the URL of the folder to write the launches to; None to keep none.

        Raises:
            InvalidCampaignError: there are errors that end the command, which have been shown.
            UsageError: no campaign has the message that was asked for.
        """
        problems = Problems()
        campaigns = self._failures.load(scope, problems)
        require_message(campaigns, options.only)
        stages = Stages(quiet=scope.quiet)
        try:
            plans = self._plan_in_turn(campaigns, options, out, problems, stages)
        finally:
            stages.close()
        self._failures.conclude_check(problems, plans.invalid, quiet=scope.quiet)
        for item in plans.planned:
            warn_of_lost_ids(item)
        return plans

    def _plan_in_turn(
        self,
        campaigns: Sequence[Campaign],
        options: PlanOptions,
        out: str | None,
        problems: Problems,
        stages: Stages,
    ) -> ClusterPlans:
        """Plan campaigns; each reckons with what the ones before it are about to send."""
        # All before the first plan: a frequency cap counts what the other campaigns' lockfiles tell of, too.
        recorded = find_records(campaigns, self._find_record, self._failures)
        self._reader.note_records(recorded)
        audiences = [cut_audience(self._cluster, campaign, stages.observe) for campaign, _ in recorded]
        partitions = choose_partitions(audiences, self._cluster.slots)
        planner = CampaignPlanner(self._cluster, self._folder, stages.observe)
        plans = ClusterPlans()
        own = f"{self._folder.url}/plans"
        for index, ((campaign, record), audience) in enumerate(zip(recorded, audiences, strict=True)):
            is_kept = concerns(campaign, (later for later, _ in recorded[index + 1 :]))
            before = tuple((name, out or own, parts) for name, parts in plans.list_before(campaign))
            place = self._failures.attempt(campaign, partial(self._place, campaign, record))
            if place is None:
                continue
            request = PlanRequest(
                campaign,
                self._workspace.target.name,
                options,
                self._moment,
                audience,
                partitions,
                place,
                before,
                out or (own if is_kept else None),
            )
            found = Problems()
            made = planner.make_plan(request, found)
            problems.merge(found)
            if made is None:
                plans.invalid.append((campaign, found))
                continue
            target = self._workspace.target
            plans.planned.append(PlannedHead(campaign=campaign, record=record, plan=made.plan, target=target))
            plans.terms[campaign.name] = made.terms
            if made.parts:
                plans.parts[campaign.name] = made.parts
        return plans

    def _place(self, campaign: Campaign, record: SummedRecord) -> RecordPlace:
        target = self._workspace.target
        key_variable = list_variables(target.name, self._workspace.targets)[-1]
        place = RecordPlace(
            LEDGER if self._ledger is not None else None,
            key_variable,
            record.campaign_id,
            None if record.is_empty() or record.key is None else KeySource.of(record.key),
            record.forgotten,
        )
        if self._ledger is not None:
            with self._ledger.reading() as connection:
                read_target_key(connection, target.name, target.state_key)
                counts = count_opt_outs(connection, target.name)
                has_open = has_open_launches(connection, target.name)
                depleted = self._find_depleted(connection, campaign, record.campaign_id)
            has_opt_outs = any(counts.get(state) for state in ("confirmed", "doubtful"))
            place = replace(place, has_opt_outs=has_opt_outs, has_open_launches=has_open, depleted=depleted)
        place = replace(
            place,
            pause=self._reader.find_pause(campaign),
            unread=self._reader.find_unread(),
            suppressed=self._find_suppressed(),
            told_sessions=tuple(
                (shelf.campaign, KeySource.of(shelf.key), shelf.unread)
                for shelf in self._reader.list_told_sessions()
            ),
        )
        cap = campaign.policy.frequency_cap
        if cap is None:
            return place
        told = self._reader.list_told_elsewhere(campaign)
        return replace(
            place,
            recent_since=format_moment(self._moment - cap.within),
            told_elsewhere=tuple((name, KeySource.of(key), people) for name, key, people in told),
        )

    def _find_suppressed(self) -> TargetSuppressions | None:
        """Return who is not to be texted, if the ledger alone would not tell it."""
        if self._workspace.suppressions.are_absorbed(self._ledger):
            return None
        told = self._reader.read_told().suppressions
        salt = told.key.salt if told.key is not None else None
        return TargetSuppressions(salt, told.confirmed, told.doubtful)

    @staticmethod
    def _find_depleted(
        connection: LedgerConnection, campaign: Campaign, campaign_id: int | None
    ) -> tuple[int, ...]:
        after = campaign.list_earlier()
        if campaign_id is None or not after:
            return ()
        return find_depleted(connection, campaign_id, campaign.message_ids, after)
