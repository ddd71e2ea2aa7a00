"""Plans of several campaigns, made one after another.

Without the state key, as in jobs of pull requests, they are upper bounds: earlier recipients and opt-outs are
recorded as fingerprints, useless without their key, so everybody counts as new. A real plan reaches some of
these people, and nobody else.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from runner.audience.sealing import require_key
from runner.campaign.checks import find_late_follow_ups
from runner.campaign.lint import silence_warnings
from runner.errors import LimitError, MissingKeyError, PausedError, RunnerError, UsageError
from runner.ledger.files.lockfile import LOCKFILE_SUFFIX, parse_lockfile, read_campaign_name
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import RecordedDeliveries, find_wave, on_occasion
from runner.ledger.record.campaign_record import Record
from runner.ledger.record.deliveries import read_digests
from runner.plan.answer_rule import DIFFERS, UNREAD
from runner.plan.model import PlanOptions
from runner.plan.plan_context import concerns
from runner.plan.planner import Planner, iterate_offers
from runner.plan.survey import survey_audience
from runner.service.target import find_key_variable
from runner.source.diagnostic import Problems
from runner.wording import count_words
from runner.workflow.observer import show_problems
from runner.workflow.plans.context_reader import PlanContextReader

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord
    from runner.plan.model import CampaignPlan, PlannedLaunch
    from runner.plan.plan_context import PlanContext
    from runner.service.target import Target
    from runner.workflow.failures import Failures
    from runner.workflow.scope import Scope
    from runner.workflow.workspace.workspace import Workspace

    MakePlan = Callable[
        [Campaign, Record, PlanOptions, Sequence["PlanResult"], Problems], "PlanResult | None"
    ]
    """Plans one campaign, after plans before it in the same run; returns None if it reports errors."""
    BeginPlanning = Callable[[Sequence[Campaign]], MakePlan]
    """Prepares for all campaigns of a command, and returns what plans each."""


_COMPARED = 200
"""People of each message, at most, whose texts are compared with those that they got."""
_MOST_ROWS = 100_000
"""Rows of an audience, at most, that is read for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """A campaign with its record, plan and target, and its planner, unless it was planned on a cluster."""

    record: Record = field(repr=False)
    plan: CampaignPlan
    target: Target
    planner: Planner | None = None

    @property
    def campaign(self) -> Campaign:
        """The campaign."""
        return self.plan.campaign

    @property
    def key(self) -> TargetKey:
        """The target's key."""
        return TargetKey.of(self.target.name, self.target.state_key)

    def iterate_launches(self) -> Iterator[PlannedLaunch]:
        """Return an iterator over the plan's launches, of this process or from a cluster's files."""
        if self.planner is not None:
            return self.planner.iterate_launches()
        # Imported here: few plans come from a cluster.
        from runner.cluster.campaign_plan import read_launches

        return read_launches(self.plan.parts)


class NameCheck(Protocol):
    """The check that what looks new has no other name on record (`names`)."""

    def begin(self, campaigns: Collection[Campaign], claimed: Collection[str]) -> None:
        """Check the target; take the command's campaigns and all names that its files claim."""
        ...

    def require_clear(self, item: PlanResult) -> None:
        """Check one campaign's plan."""
        ...


def plan_campaigns(
    scope: Scope,
    options: PlanOptions,
    find_record: Callable[[Campaign], Record],
    reader: PlanContextReader,
    failures: Failures,
    begin: BeginPlanning | None = None,
    names: NameCheck | None = None,
) -> list[PlanResult]:
    """Load and plan campaigns, by the limits and prices of the reader's target; show the problems found.

    Those that fail go to `failures`; without `begin`, plans are made in this process. With `names`, what may
    have been renamed is refused.

    Raises:
        InvalidCampaignError: there are errors that end the command; they have been shown.
        UsageError: no campaign has the requested message.
        UnclearNameError: the target, or the only campaign, may have another name on record.
    """
    problems, workspace, target = Problems(), reader.workspace, reader.workspace.target
    options = replace(options, recipients_per_send=target.recipients_per_send, prices=target.prices)
    campaigns = failures.load(scope, problems)
    require_message(campaigns, options.only)
    if names is not None:
        names.begin(campaigns, failures.claimed)
    now = None if reader.ledger is None else reader.now
    begin = begin or (lambda _: partial(_plan_here, reader))
    turn = _Turn(begin, options, failures, problems, now, names)
    try:
        if reader.ledger is not None:
            require_state_key(workspace, campaigns)
        recorded = [(one, failures.attempt(one, partial(find_record, one))) for one in campaigns]
        found = turn.plan([(one, record) for one, record in recorded if record is not None])
    except RunnerError:
        show_problems(problems)
        raise
    for campaign in campaigns:
        list(silence_warnings(campaign, problems))
    failures.conclude_check(problems, turn.invalid)
    return found


def _plan_here(
    reader: PlanContextReader,
    campaign: Campaign,
    record: Record,
    options: PlanOptions,
    before: Sequence[PlanResult],
    problems: Problems,
) -> PlanResult | None:
    texted = [item.planner.texted for item in before if item.planner and item.planner.texted]
    context = reader.read(campaign, texted)
    return plan_campaign(reader.workspace, campaign, record, options, context, problems)


@dataclass(slots=True)
class _Turn:
    """Campaigns planned one after the other; `invalid` has those with errors, and their problems.

    `now` is None if nothing is known of what has been sent.
    """

    begin: BeginPlanning
    options: PlanOptions
    failures: Failures
    problems: Problems
    now: datetime | None
    names: NameCheck | None = None
    invalid: list[tuple[Campaign, Problems]] = field(default_factory=list)

    def plan(self, recorded: Sequence[tuple[Campaign, Record]]) -> list[PlanResult]:
        """Plan campaigns; each takes into account what the ones before it will send."""
        found: list[PlanResult] = []
        make_plan = self.begin([campaign for campaign, _ in recorded])
        for index, (campaign, record) in enumerate(recorded):
            keeps_people = concerns(campaign, (later for later, _ in recorded[index + 1 :]))
            own = replace(self.options, keeps_people=keeps_people)
            # Plans over a limit send nothing, so later campaigns need not count them.
            before = [
                item for item in found if not item.plan.refusals and concerns(item.campaign, (campaign,))
            ]
            item = self.failures.attempt(
                campaign, partial(self._plan_one, make_plan, campaign, record, own, before)
            )
            if item is not None:
                found.append(item)
        return found

    def _plan_one(
        self,
        make_plan: MakePlan,
        campaign: Campaign,
        record: Record,
        options: PlanOptions,
        before: Sequence[PlanResult],
    ) -> PlanResult | None:
        require_key(campaign)
        problems = Problems()
        item = make_plan(campaign, record, options, before, problems)
        if self.now is not None and record.known.is_empty():
            problems.extend(find_late_follow_ups(campaign, self.now))
        self.problems.merge(problems)
        if item is None:
            self.invalid.append((campaign, problems))
        elif self.names is not None:
            self.names.require_clear(item)
        return item


def plan_campaign(
    workspace: Workspace,
    campaign: Campaign,
    record: Record,
    options: PlanOptions,
    context: PlanContext,
    problems: Problems,
    stamps: Mapping[str, object] | None = None,
) -> PlanResult | None:
    """Plan one campaign; return None if there are errors.

    `stamps` are of an earlier plan, whose files must be the same when this one is sent.
    """
    context = survey_audience(campaign, record.known, workspace.key, context)
    planner = Planner(
        campaign,
        workspace.target.name,
        record.known,
        workspace.key,
        options,
        context,
        workspace.stamps if stamps is None else stamps,
    )
    plan = planner.make_plan(problems)
    if plan is None:
        return None
    return PlanResult(record=record, plan=plan, target=workspace.target, planner=planner)


def require_state_key(workspace: Workspace, campaigns: Iterable[Campaign]) -> None:
    """Refuse a target without a state key if a rule of targets.yaml requires one; the sandbox needs none.

    Raises:
        MissingKeyError: names the rule's place.
    """
    rules = filter(None, (campaign.rules.find("state_key") for campaign in campaigns))
    rule = next(rules, None)
    if rule is not None and not workspace.key.is_secret and workspace.target.base_url is not None:
        name = workspace.target.name
        raise MissingKeyError(
            f"the target {name!r} has no state key, and {rule.place} requires one",
            hint=f"set {find_key_variable(name, workspace.targets)}; `runner key new` makes a key",
        )


def require_message(campaigns: Iterable[Campaign], only: str | None) -> None:
    """Refuse to plan a single message that no campaign has."""
    known = sorted({message.id for campaign in campaigns for message in campaign.messages})
    if only is not None and known and only not in known:
        raise UsageError(f"no campaign has a message {only!r}", hint=f"known: {', '.join(known)}")


def leave_out_refused(
    planned: Sequence[PlanResult], failures: Failures, otherwise: str = ""
) -> Sequence[PlanResult]:
    """Return the plans that are within their campaigns' limits and not paused; others go to `failures`."""

    def find_error(item: PlanResult) -> RunnerError | None:
        if not item.plan.refusals:
            return None
        words = "; ".join(f"{item.campaign.name}: {text}" for text in item.plan.refusals)
        words += otherwise if failures.total == 1 else ""
        hint = "check audience and campaign: limits are in the campaign, rules in targets.yaml"
        return LimitError(words, hint=hint)

    return leave_out(leave_out_paused(planned, failures), failures, find_error)


def leave_out_paused(planned: Sequence[PlanResult], failures: Failures) -> Sequence[PlanResult]:
    """Return the plans that are not paused; others go to `failures`."""

    def find_error(item: PlanResult) -> RunnerError | None:
        if item.plan.pause is None or not (item.plan.paused or item.plan.is_stopped):
            return None
        name, people = item.campaign.name, count_words(item.plan.paused, "text waits", "texts wait")
        words = f"{name} is {item.plan.pause.describe()}; {people if item.plan.paused else 'no step opens'}"
        hint = f"`runner resume {name}` lets it go on"
        if item.plan.is_stopped:
            hint += ", and accepts these figures"
            is_recorded = item.plan.rollout is not None and item.plan.rollout.state == "paused"
            hint = hint if is_recorded else f"`runner apply` pauses it; then {hint}"
        return PausedError(words, hint=hint)

    return leave_out(planned, failures, find_error)


def leave_out_waiting(planned: Sequence[PlanResult], failures: Failures) -> Sequence[PlanResult]:
    """Return the plans that do not wait for replies to be read; others go to `failures`."""

    def find_error(item: PlanResult) -> RunnerError | None:
        waiting, unread = item.plan.waiting_for_replies, item.plan.unread
        if unread is None or not waiting:
            return None
        texts = count_words(waiting, "text waits", "texts wait")
        return LimitError(
            f"{item.campaign.name}: {texts}: {unread.describe()}",
            hint=f"somebody may have opted out: {unread.remedy}, then this again",
        )

    return leave_out(planned, failures, find_error)


def leave_out(
    planned: Sequence[PlanResult], failures: Failures, find_error: Callable[[PlanResult], RunnerError | None]
) -> Sequence[PlanResult]:
    """Return the plans without an error; others go to `failures`."""
    kept = []
    for item in planned:
        error = find_error(item)
        if error is None:
            kept.append(item)
        else:
            failures.add(item.campaign.file, item.campaign.name, error)
    return kept


def count_to_send(planned: Iterable[PlanResult]) -> int:
    """Return the number of deliveries that plans would make now."""
    return sum(message.to_send for item in planned for message in item.plan.messages)


def describe_unread(planned: Sequence[PlanResult]) -> Iterator[str]:
    """Yield a sentence for each follow-up, with the number of people waiting."""
    for item in planned:
        for message in item.plan.messages:
            for reason, count in message.reasons.items():
                if reason == UNREAD or reason.startswith(DIFFERS):
                    people = count_words(count, "recipient waits", "recipients wait")
                    yield f"{item.campaign.name}: {people} for `{message.id}`: {reason}"


def list_unread(item: PlanResult) -> list[str]:
    """Return messages with a due follow-up whose answers were not read since, by full name."""
    waiting = {message.id for message in item.plan.messages if UNREAD in message.reasons}
    after = [one.after.message for one in item.campaign.messages if one.after and one.id in waiting]
    return [f"{item.campaign.name}/{message}" for message in dict.fromkeys(after)]


def plan_without_key(workspace: Workspace, scope: Scope, failures: Failures) -> list[PlanResult]:
    """Plan campaigns as if nothing was on record; failed ones go to `failures`.

    Raises:
        InvalidCampaignError: there are errors that end the command, which have been shown.
    """
    record = Record(None, RecordedDeliveries({}, {}))
    reader = PlanContextReader(workspace, None, workspace.now())
    return plan_campaigns(scope, PlanOptions(), lambda _: record, reader, failures)


def list_texted(workspace: Workspace, campaign: Campaign) -> dict[str, dict[str, set[str]]] | None:
    """Return the people who got each message, by wave and message, by all lockfiles; the earliest wave first.

    None if those only have totals. No key is needed.
    """
    launches: list[LaunchRecord] = []
    for file, text in workspace.files.read_texts(needs_shared=False).items():
        is_lockfile = file.name.endswith(LOCKFILE_SUFFIX)
        if not is_lockfile or read_campaign_name(text) not in (campaign.name, *campaign.renamed_from):
            continue
        lockfile = parse_lockfile(file, text).lockfile
        if lockfile.counts:
            return None
        launches += lockfile.launches
    found: dict[str, dict[str, set[str]]] = {}
    for launch in sorted(launches, key=attrgetter("sent_at")):
        message = campaign.message_ids.get(launch.message, launch.message)
        wave = found.setdefault(find_wave(launch.occasion), {})
        wave.setdefault(message, set()).update(launch.recipients)
    return found


def list_changed(ledger: Ledger, key: TargetKey, planned: Iterable[PlanResult]) -> tuple[str, ...]:
    """Return the full names of sent messages whose texts are others now.

    Of each, the first people in the audience who got it are compared; large audiences are not read for it.
    """
    return tuple(
        f"{item.campaign.name}/{message}"
        for item in planned
        if any(one.already_sent and one.rows <= _MOST_ROWS for one in item.plan.messages)
        for message in _compare_campaign(ledger, key, item)
    )


def _compare_campaign(ledger: Ledger, key: TargetKey, item: PlanResult) -> list[str]:
    """Return the ids of a campaign's changed messages."""
    campaign, record = item.campaign, item.record
    if record.campaign_id is None:
        return []
    wanted = {one.id: min(_COMPARED, one.already_sent) for one in item.plan.messages}
    current: dict[str, dict[str, str]] = defaultdict(dict)
    people = set[str]()
    for phone, offers in iterate_offers(campaign, RecordedDeliveries({}, {}), None):
        fingerprint = key.fingerprint(phone)
        for offer in offers:
            delivery = on_occasion(fingerprint, key.name_occasion(offer.occasion))
            if delivery in record.known.sent.get(offer.message.id, ()):
                current[offer.message.id][delivery] = offer.payload.digest
                people.add(fingerprint)
        if all(len(current[message]) >= count for message, count in wanted.items()):
            break
    with ledger.reading() as connection:
        changed = {
            message
            for name, person, occasion, digest, state in read_digests(connection, record.campaign_id, people)
            for message in (campaign.message_ids.get(name, name),)
            for planned in (current[message].get(on_occasion(person, occasion)),)
            if state == "sent" and planned is not None and not key.matches_payload(digest, planned)
        }
    return [message.id for message in campaign.messages if message.id in changed]
