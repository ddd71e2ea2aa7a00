"""Problems of a campaign that only its audience shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.audience.audience import find_export_problems
from runner.audience.rows import find_missing_columns
from runner.audience.sealing import is_sealed, list_encrypted
from runner.campaign.text_checks import find_unknown_variables
from runner.ledger.model import RecordedDeliveries
from runner.plan.model import PlanOptions
from runner.plan.planner import AudiencePass, Planner

if TYPE_CHECKING:
    from runner.campaign.model import Campaign
    from runner.plan.model import CampaignPlan
    from runner.source.diagnostic import Problems


def find_audience_problems(campaign: Campaign, problems: Problems) -> CampaignPlan | None:
    """Render every text for every recipient as if nobody had been texted; return the plan.

    Returns None if there are errors, which go to `problems`. Without the key of an encrypted audience, texts
    are only compiled.
    """
    if any(map(is_sealed, list_encrypted(campaign))):
        AudiencePass.compile(campaign, PlanOptions(), None, problems)
        return None
    known = problems.error_count
    plan = Planner(campaign, "", RecordedDeliveries({}, {}), None, PlanOptions()).make_plan(problems)
    if problems.error_count == known:
        problems.extend(find_export_problems(campaign))
    elif any(find_missing_columns(source) for source in campaign.recipients):
        # Texts were not rendered for the rows of such a file.
        said = {problem.message for problem in problems}
        problems.extend(one for one in find_unknown_variables(campaign) if one.message not in said)
    return plan
