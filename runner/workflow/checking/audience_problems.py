"""Problems of a campaign that only its audience shows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runner.audience.audience import AudienceTally, find_export_problems, iterate_audience
from runner.audience.rows import find_missing_columns
from runner.audience.sealing import is_sealed, list_encrypted
from runner.campaign.text_checks import find_unknown_variables
from runner.ledger.model import RecordedDeliveries
from runner.plan.model import PlanOptions
from runner.plan.plan_context import PlanContext
from runner.plan.planner import AudiencePass, Planner
from runner.source.diagnostic import Problems
from runner.timing.legal_hours import load_law, locate
from runner.wording import count_people

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.model import Campaign
    from runner.plan.model import CampaignPlan
    from runner.source.diagnostic import Diagnostic


def find_audience_problems(campaign: Campaign, problems: Problems) -> CampaignPlan | None:
    """Render every text for every recipient as if nobody had been texted; return the plan.

    Returns None if there are errors, which go to `problems`. Without the key of an encrypted audience, texts
    are only compiled.
    """
    if any(map(is_sealed, list_encrypted(campaign))):
        AudiencePass.compile(campaign, PlanOptions(), PlanContext(), problems)
        return None
    known = problems.error_count
    nothing = RecordedDeliveries({}, {})
    plan = Planner(campaign, "", nothing, None, PlanOptions(), PlanContext()).make_plan(problems)
    if problems.error_count == known:
        problems.extend(find_export_problems(campaign))
        problems.extend(_find_places_left_out(campaign))
    elif any(find_missing_columns(source) for source in campaign.recipients):
        # Texts were not rendered for the rows of such a file.
        said = {problem.message for problem in problems}
        problems.extend(one for one in find_unknown_variables(campaign) if one.message not in said)
    return plan


def _find_places_left_out(campaign: Campaign) -> Iterator[Diagnostic]:
    """Warn of places whose people are left out by `quiet_hours: legal`, or get no reminder by their law."""
    policy, law = campaign.policy, load_law()
    if policy.quiet_hours != "legal":
        return
    methods = sorted({one.method for one in campaign.messages})
    reminders = ", ".join(f"`{one.id}`" for one in campaign.messages if one.to == "unanswered")
    for places, people in count_places(campaign).items():
        name = " or ".join(places) or "no country"
        unknown = [method for method in methods if not law.rules_of(places, method)]
        if unknown and policy.no_rule == "refuse":
            kind = "calls" if unknown == ["VOICE"] else "texts"
            words = f"no legal hours for {kind} are known in {name}: none go to {count_people(people)} there"
            hint = "`no_rule` in `policy` can have them reached by `schedule` alone"
            yield campaign.position.problem("legal-hours-unknown", words, hint, severity="warning")
        rules = [one for method in methods for one in law.rules_of(places, method, policy.purpose)]
        silence = next((one for one in rules if one.no_reply_opts_out), None)
        if silence is not None and reminders:
            words = f"{reminders} will not go to {count_people(people)} in {name}, where no reply counts as"
            hint = "ask them once, in words that need no reminder"
            reason = f"{words} opting out: {silence.citation}"
            yield campaign.position.problem("legal-silence", reason, hint, severity="warning")


def count_places(campaign: Campaign) -> Counter[tuple[str, ...]]:
    """Count people by the places whose laws hold for them: the same for all of an area code and region."""
    counts: Counter[tuple[str, str | None]] = Counter()
    phones: dict[tuple[str, str | None], str] = {}
    for one in iterate_audience(campaign, frozenset(), Problems(), AudienceTally()):
        key = one.phone[1:5], one.region
        counts[key] += 1
        phones.setdefault(key, one.phone)
    found: Counter[tuple[str, ...]] = Counter()
    for key, people in counts.items():
        found[locate(phones[key], None, key[1]).places] += people
    return found
