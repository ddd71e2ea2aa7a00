"""Plans several campaigns at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.cli.campaigns import load_campaigns
from runner.cli.console import count_words, warn
from runner.cli.diagnostics import refuse_errors
from runner.errors import UsageError
from runner.plan.planner import Planner
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from runner.campaign.model import Campaign
    from runner.cli.circumstances import CircumstanceReader
    from runner.cli.scope import Scope
    from runner.cli.workspace import Workspace
    from runner.ledger.recorded import Record, SummedRecord
    from runner.plan.circumstances import Circumstances
    from runner.plan.model import CampaignPlan, PlanOptions
    from runner.service.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedHead:
    """A campaign with its record and its plan, whoever has made it.

    Attributes:
        campaign: the campaign.
        record: what is on record of it.
        plan: what is to be sent.
        target: where it is to be sent.
    """

    campaign: Campaign
    record: Record | SummedRecord
    plan: CampaignPlan
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(PlannedHead):
    """A campaign with its record, its circumstances and its plan, made in this process.

    Attributes:
        record: what is on record of it, every delivery.
        circumstances: what else was known.
        planner: that has made the plan, and gives its launches.
    """

    record: Record
    circumstances: Circumstances
    planner: Planner


def plan_campaigns(
    workspace: Workspace,
    scope: Scope,
    options: PlanOptions,
    find_record: Callable[[Campaign], Record],
    reader: CircumstanceReader,
    problems: Problems | None = None,
) -> list[Planned]:
    """Load and plan campaigns; show what is wrong with them.

    Args:
        workspace: names the target.
        scope: says which campaigns.
        options: what the user asks of the plan.
        find_record: returns what is on record of a campaign.
        reader: returns what else there is to know.
        problems: receives what is wrong, for who has more to do with it.

    Raises:
        InvalidCampaignError: there are errors, which have been shown.
        UsageError: no campaign has the message that was asked for.
    """
    problems = Problems() if problems is None else problems
    loaded = load_campaigns(scope.paths, scope.allowed, problems)
    if problems.error_count:
        check_audiences(loaded.campaigns, problems)
        refuse_errors(problems, quiet=scope.quiet)
    require_message(loaded.campaigns, options.only)
    found = _plan_in_turn(workspace, loaded.campaigns, options, find_record, reader, problems)
    refuse_errors(problems, quiet=scope.quiet)
    for item in found:
        warn_of_lost_ids(item)
    return found


def _plan_in_turn(
    workspace: Workspace,
    campaigns: Sequence[Campaign],
    options: PlanOptions,
    find_record: Callable[[Campaign], Record],
    reader: CircumstanceReader,
    problems: Problems,
) -> list[Planned]:
    """Plan campaigns; those with a frequency cap count what the ones before them are about to send."""
    found: list[Planned] = []
    texted: dict[int, int] = {}
    # All before the first plan: a frequency cap counts what the other campaigns' lockfiles tell of, too.
    records = [find_record(campaign) for campaign in campaigns]
    reader.note_records(list(zip(campaigns, records, strict=True)))
    for index, (campaign, record) in enumerate(zip(campaigns, records, strict=True)):
        counts_people = any(later.policy.frequency_cap for later in campaigns[index + 1 :])
        circumstances = reader.read(campaign, texted)
        own = replace(options, counts_people=counts_people)
        item = plan_campaign(workspace, campaign, record, own, circumstances, problems)
        if item is None:
            continue
        found.append(item)
        texted = add_planned(texted, item)
    return found


def add_planned(texted: dict[int, int], item: Planned) -> dict[int, int]:
    """Return what a run sends, with one more campaign's plan in it.

    Args:
        texted: how many messages the campaigns before send, by phone as a number; it stays as it is, since
            their plans go by what was known when they were made.
        item: planned with `counts_people`.
    """
    if not item.planner.planned:
        return texted
    added = dict(texted)
    for number, count in item.planner.planned.items():
        added[number] = added.get(number, 0) + count
    return added


def warn_of_lost_ids(item: PlannedHead) -> None:
    """Warn of people that are on record for messages that the campaign no longer has."""
    texted = item.record.count_texted()
    for message in sorted(texted.keys() - {message.id for message in item.campaign.messages}):
        sent, unresolved = texted[message]
        people = count_words(sent + unresolved, "recipient is", "recipients are")
        how = " or ".join(["texted"] * bool(sent) + ["perhaps texted"] * bool(unresolved))
        warn(
            f"{item.campaign.name}: {people} on record as {how} by the message `{message}`, which "
            "the campaign no longer has: was it renamed? With a new id everyone would be texted again: "
            f"put the old id back, or add `renamed_from: [{message}]` to the new one"
        )


def plan_campaign(
    workspace: Workspace,
    campaign: Campaign,
    record: Record,
    options: PlanOptions,
    circumstances: Circumstances,
    problems: Problems,
) -> Planned | None:
    """Plan one campaign; None if there are errors.

    Args:
        workspace: names the target.
        campaign: what to plan.
        record: what is on record of it.
        options: what the user asks of the plan.
        circumstances: what else there is to know.
        problems: receives what is wrong.
    """
    planner = Planner(campaign, workspace.target.name, record.known, record.key, options, circumstances)
    plan = planner.make_plan(problems)
    if plan is None:
        return None
    return Planned(
        campaign=campaign,
        record=record,
        plan=plan,
        target=workspace.target,
        circumstances=circumstances,
        planner=planner,
    )


def check_audiences(campaigns: Iterable[Campaign], problems: Problems) -> None:
    """Find what is wrong with the audiences of the campaigns that can be loaded, where others cannot."""
    # Some campaigns cannot be loaded: the others are checked all the same, so that all is said at once.
    from runner.cli.audience_check import find_audience_problems

    for campaign in campaigns:
        find_audience_problems(campaign, problems)


def require_message(campaigns: Iterable[Campaign], only: str | None) -> None:
    """Refuse to plan a message alone that no campaign has.

    Raises:
        UsageError: says which there are.
    """
    known = sorted({message.id for campaign in campaigns for message in campaign.messages})
    if only is not None and only not in known:
        raise UsageError(f"no campaign has a message {only!r}", hint=f"known: {', '.join(known)}")


def count_to_send(planned: Iterable[PlannedHead]) -> int:
    """Return the deliveries that plans would make now."""
    return sum(message.to_send for item in planned for message in item.plan.messages)


def summary_line(planned: Sequence[PlannedHead]) -> str:
    """Return in one sentence what plans would do."""
    messages = [message for item in planned for message in item.plan.messages]
    people = sum(item.plan.recipients_to_send for item in planned)
    if not people:
        waiting = sum(message.deferred for message in messages)
        due = min((d for item in planned if (d := item.plan.next_due) is not None), default=None)
        if due is None:
            return "Nothing to send."
        return f"Nothing to send now. Deferred: {waiting:,}, the first due at {due:%Y-%m-%d %H:%M} UTC."
    launches = sum(message.launches for message in messages)
    segments = sum(message.segments for message in messages)
    target = planned[0].plan.target
    return (
        f"To send to {target}: {count_words(people, 'recipient')} "
        f"in {count_words(launches, 'launch', 'launches')}, "
        f"{count_words(segments, 'SMS segment')}."
    )
