"""Checks the audiences of campaigns on a cluster, as `runner validate` does in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.campaign.named_columns import find_export_problems
from runner.cli.cluster_planning import Stages
from runner.cluster.audience_scatter import choose_partitions, cut_audience
from runner.cluster.campaign_plan import CampaignPlanner, PlanRequest
from runner.plan.model import PlanOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.campaign.model import Campaign
    from runner.cluster.folder import SharedFolder
    from runner.cluster.task import Workers
    from runner.plan.model import CampaignPlan
    from runner.source.diagnostic import Problems


def find_problems_on_cluster(
    cluster: Workers, folder: SharedFolder, campaigns: Sequence[Campaign], problems: Problems, *, quiet: bool
) -> list[CampaignPlan]:
    """Render every text for every recipient, as if nobody had been texted yet, and note what fails.

    Args:
        cluster: does the work.
        folder: which all workers reach.
        campaigns: whose files are right so far.
        problems: receives what one process would find.
        quiet: show no progress.

    Returns:
        The plans that these are, of campaigns without errors.

    Raises:
        RunnerError: the cluster or the folder cannot be used.
    """
    stages = Stages(quiet=quiet)
    plans: list[CampaignPlan] = []
    try:
        planner = CampaignPlanner(cluster, folder, stages.observe)
        for campaign in campaigns:
            audience = cut_audience(cluster, campaign, stages.observe)
            partitions = choose_partitions([audience], cluster.slots)
            request = PlanRequest(campaign, "", PlanOptions(), None, audience, partitions)
            known = problems.error_count
            found = planner.make_plan(request, problems)
            if problems.error_count == known:
                problems.extend(find_export_problems(campaign))
            plans += [found.plan] if found is not None else []
    finally:
        stages.close()
    return plans
