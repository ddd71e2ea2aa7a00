"""Checks the audiences of campaigns on a cluster, as `runner validate` does in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.cli.cluster_planning import Stages
from runner.cluster.audience_scatter import choose_partitions, cut_audience
from runner.cluster.campaign_plan import CampaignPlanner, PlanRequest
from runner.plan.model import PlanOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.campaign.model import Campaign
    from runner.cluster.folder import SharedFolder
    from runner.cluster.task import Workers
    from runner.source.diagnostic import Problems


def find_problems_on_cluster(
    cluster: Workers, folder: SharedFolder, campaigns: Sequence[Campaign], problems: Problems, *, quiet: bool
) -> None:
    """Render every text for every recipient, as if nobody had been texted yet, and note what fails.

    Args:
        cluster: does the work.
        folder: which all workers reach.
        campaigns: whose files are right so far.
        problems: receives what one process would find.
        quiet: show no progress.

    Raises:
        RunnerError: the cluster or the folder cannot be used.
    """
    stages = Stages(quiet=quiet)
    try:
        planner = CampaignPlanner(cluster, folder, stages.observe)
        for campaign in campaigns:
            audience = cut_audience(cluster, campaign, stages.observe)
            partitions = choose_partitions([audience], cluster.slots)
            planner.make_plan(PlanRequest(campaign, "", PlanOptions(), None, audience, partitions), problems)
    finally:
        stages.close()
