"""Plans several campaigns at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from runner.cli.console import count_words, warn
from runner.cli.diagnostics import show_problems
from runner.cli.failures import Failures
from runner.errors import LimitError, OnHoldError, RunnerError, UsageError
from runner.plan.planner import Planner
from runner.plan.texted import concerns
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
    from runner.plan.texted import TextedPeople
    from runner.service.target import Target

_Found = TypeVar("_Found", "Record", "SummedRecord")


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
    failures: Failures | None = None,
    check: Callable[[Planned], Planned] = lambda item: item,
) -> list[Planned]:
    """Load and plan campaigns; show what is wrong with them.

    Args:
        workspace: names the target.
        scope: says which campaigns.
        options: what the user asks of the plan.
        find_record: returns what is on record of a campaign.
        reader: returns what else there is to know.
        failures: takes campaigns that cannot be planned, and the others are; None to plan all or none.
        check: looks at each plan before the next one is made, and returns it, or one that was made anew.

    Raises:
        InvalidCampaignError: there are errors that end the command, which have been shown.
        UsageError: no campaign has the message that was asked for.
    """
    failures = Failures(is_apart=False) if failures is None else failures
    problems = Problems()
    campaigns = failures.load(scope, problems)
    require_message(campaigns, options.only)
    turn = _Turn(workspace, options, reader, failures, check, problems)
    try:
        found = turn.plan(campaigns, find_record)
    except RunnerError:
        show_problems(problems, quiet=scope.quiet)
        raise
    failures.conclude_check(problems, turn.invalid, quiet=scope.quiet)
    for item in found:
        warn_of_lost_ids(item)
    return found


@dataclass(slots=True)
class _Turn:
    """Campaigns that are planned one after the other.

    Attributes:
        workspace: names the target.
        options: what the user asks of the plan.
        reader: returns what else there is to know.
        failures: takes campaigns that cannot be planned.
        check: looks at each plan before the next one is made.
        problems: receives everything that is wrong.
        invalid: campaigns with errors, each with all that was found in it.
    """

    workspace: Workspace
    options: PlanOptions
    reader: CircumstanceReader
    failures: Failures
    check: Callable[[Planned], Planned]
    problems: Problems
    invalid: list[tuple[Campaign, Problems]] = field(default_factory=list)

    def plan(self, campaigns: Sequence[Campaign], find_record: Callable[[Campaign], Record]) -> list[Planned]:
        """Plan campaigns; each reckons with what the ones before it are about to send."""
        found: list[Planned] = []
        texted: list[TextedPeople] = []
        # All before the first plan: a frequency cap counts what the other campaigns' lockfiles tell of, too.
        recorded = find_records(campaigns, find_record, self.failures)
        self.reader.note_records(recorded)
        for index, (campaign, record) in enumerate(recorded):
            keeps_people = concerns(campaign, (later for later, _ in recorded[index + 1 :]))
            own = replace(self.options, keeps_people=keeps_people)
            item = self.failures.attempt(
                campaign, partial(self._plan_one, campaign, record, own, tuple(texted))
            )
            if item is None:
                continue
            found.append(item)
            texted += list_texted(item)
        return found

    def _plan_one(
        self, campaign: Campaign, record: Record, options: PlanOptions, texted: Sequence[TextedPeople]
    ) -> Planned | None:
        circumstances = self.reader.read(campaign, texted)
        problems = Problems()
        item = plan_campaign(self.workspace, campaign, record, options, circumstances, problems)
        self.problems.merge(problems)
        if item is None:
            self.invalid.append((campaign, problems))
            return None
        return self.check(item)


def find_records(
    campaigns: Iterable[Campaign], find_record: Callable[[Campaign], _Found], failures: Failures
) -> list[tuple[Campaign, _Found]]:
    """Return campaigns with what is on record of them, but for those whose record cannot be had.

    Args:
        campaigns: the campaigns.
        find_record: returns what is on record of one.
        failures: takes those without.
    """
    found = []
    for campaign in campaigns:
        record = failures.attempt(campaign, partial(find_record, campaign))
        if record is not None:
            found.append((campaign, record))
    return found


def list_texted(item: Planned) -> list[TextedPeople]:
    """Return whom a plan texts now, as far as campaigns after it have to know.

    Args:
        item: planned with `keeps_people` if they have to.
    """
    # What breaks a limit is not sent: it takes nobody's turn.
    texted = item.planner.texted
    return [] if texted is None or item.plan.refusals else [texted]


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


def require_message(campaigns: Iterable[Campaign], only: str | None) -> None:
    """Refuse to plan a message alone that no campaign has.

    Raises:
        UsageError: says which there are.
    """
    known = sorted({message.id for campaign in campaigns for message in campaign.messages})
    if only is not None and known and only not in known:
        raise UsageError(f"no campaign has a message {only!r}", hint=f"known: {', '.join(known)}")


def leave_out_refused(
    planned: Sequence[PlannedHead], failures: Failures, otherwise: str = ""
) -> Sequence[PlannedHead]:
    """Return the plans that keep the limits of their campaigns, and are not held back by a pause.

    Args:
        planned: the plans.
        failures: takes the others.
        otherwise: what follows if one that breaks a limit is all there is to send; ends the message.

    Raises:
        LimitError: that is so.
        OnHoldError: the only campaign is paused, and would be sent otherwise.
    """
    kept = []
    for item in leave_out_paused(planned, failures):
        if item.plan.refusals:
            words = "; ".join(f"{item.campaign.name}: {text}" for text in item.plan.refusals)
            words += otherwise if failures.total == 1 else ""
            hint = "check the audience; raise the limit if it is right"
            failures.add(item.campaign.file, item.campaign.name, LimitError(words, hint=hint))
        else:
            kept.append(item)
    return kept


def leave_out_paused(planned: Sequence[PlannedHead], failures: Failures) -> Sequence[PlannedHead]:
    """Return the plans of which nothing is held back by a pause.

    Args:
        planned: the plans.
        failures: takes the others.

    Raises:
        OnHoldError: the only campaign is paused, and would be sent otherwise.
    """
    kept = []
    for item in planned:
        if item.plan.pause is None or not item.plan.on_hold:
            kept.append(item)
            continue
        name, people = item.campaign.name, count_words(item.plan.on_hold, "text waits", "texts wait")
        error = OnHoldError(
            f"{name} is {item.plan.pause.describe()}; {people}", hint=f"`runner resume {name}` lets it go on"
        )
        failures.add(item.campaign.file, name, error)
    return kept


def leave_out_waiting(planned: Sequence[PlannedHead], failures: Failures) -> Sequence[PlannedHead]:
    """Return the plans of which nothing waits until replies are read.

    Args:
        planned: the plans.
        failures: takes the others.

    Raises:
        LimitError: the only campaign waits.
    """
    kept = []
    for item in planned:
        waiting, unread = item.plan.waiting_for_replies, item.plan.unread
        if unread is None or not waiting:
            kept.append(item)
            continue
        texts = count_words(waiting, "text waits", "texts wait")
        error = LimitError(
            f"{item.campaign.name}: {texts}: {unread.describe()}",
            hint="somebody may have opted out: run `runner reconcile`, then this again",
        )
        failures.add(item.campaign.file, item.campaign.name, error)
    return kept


def count_to_send(planned: Iterable[PlannedHead]) -> int:
    """Return the deliveries that plans would make now."""
    return sum(message.to_send for item in planned for message in item.plan.messages)


def summary_line(planned: Sequence[PlannedHead]) -> str:
    """Return in one sentence what plans would do; those that break a limit don't hold up others."""
    planned = [item for item in planned if not item.plan.refusals] or planned
    messages = [message for item in planned for message in item.plan.messages]
    people = sum(item.plan.recipients_to_send for item in planned)
    if not people:
        waiting = sum(message.deferred for message in messages)
        held = sum(message.open_session for message in messages)
        behind = (
            f" Behind an open survey: {held:,}; `runner reconcile` reads which have ended." if held else ""
        )
        due = min((d for item in planned if (d := item.plan.next_due) is not None), default=None)
        if not waiting:
            return f"Nothing to send now.{behind}" if held else "Nothing to send."
        first = "" if due is None else f", the first due at {due:%Y-%m-%d %H:%M} UTC"
        return f"Nothing to send now. Deferred: {waiting:,}{first}.{behind}"
    launches = sum(message.launches for message in messages)
    segments = sum(message.segments for message in messages)
    target = planned[0].plan.target
    return (
        f"To send to {target}: {count_words(people, 'recipient')} "
        f"in {count_words(launches, 'launch', 'launches')}, "
        f"{count_words(segments, 'SMS segment')}."
    )
