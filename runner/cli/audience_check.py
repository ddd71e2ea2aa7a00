"""Checks the audience of a campaign without asking the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.campaign.named_columns import find_export_problems
from runner.ledger.model import Known
from runner.plan.model import PlanOptions
from runner.plan.planner import Planner

if TYPE_CHECKING:
    from runner.campaign.model import Campaign
    from runner.plan.model import CampaignPlan
    from runner.source.diagnostic import Problems


def find_audience_problems(campaign: Campaign, problems: Problems) -> CampaignPlan | None:
    """Render every text for every recipient, as if nobody had been texted yet, and note what fails.

    Returns:
        The plan that this is; None if there are errors.
    """
    known = problems.error_count
    plan = Planner(campaign, "", Known({}, {}), None, PlanOptions()).make_plan(problems)
    if problems.error_count == known:
        problems.extend(find_export_problems(campaign))
    return plan
