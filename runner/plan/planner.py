"""The planner: counts and launches from a campaign, its audience and its recorded deliveries.

A plan is made over the partitions of an audience: one in this process, or many on a cluster.

In one process the audience is passed over twice: to count and to find every problem, then to send. The first
pass keeps a number per payload, so that the second yields each launch as soon as it is complete.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.audience.audience import (
    AudienceTally,
    find_consent_changes,
    iterate_audience,
    read_excluded,
)
from runner.campaign.model import DEFAULT_RECIPIENTS_PER_SEND, FileRecipients
from runner.campaign.variants import draw_shares
from runner.errors import PlanChangedError
from runner.execution import LocalExecutor
from runner.plan.decider import Decider
from runner.plan.decisions import Decision, mark_follow_ups
from runner.plan.digest import join_digests
from runner.plan.limits.audience_guard import PlannedAudience
from runner.plan.limits.cost import find_countries
from runner.plan.limits.plan_rules import list_refusals
from runner.plan.model import CampaignPlan, Offer, PlannedLaunch, PlannedWave, PlanOptions, Span
from runner.plan.plan_context import (
    PlanContext,
    TextedPeople,
    TextedTally,
    find_consent_days,
    find_overdue,
)
from runner.plan.plan_counts import LaunchSizes, PlanCounts, count_assignments, group_of
from runner.source.diagnostic import Diagnostic, Problems
from runner.source.storage import is_url, stamp_file
from runner.text.include import include_folder
from runner.text.payload import RowReporter, compile_messages
from runner.text.template import TextCompiler

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    from runner.audience.audience import Recipient
    from runner.audience.consent import ConsentChange
    from runner.campaign.model import Campaign
    from runner.execution import Executor
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.model import RecordedDeliveries
    from runner.plan.decisions import Assigned
    from runner.text.payload import CompiledMessage, Payload


class AudiencePass:
    """The settings of a pass, the same for a whole audience and for a part of it.

    Attributes:
        per_send: the most recipients of one launch.
        unread: unread replies that all texts wait for; None if there are none.
        consent: the days of consent that count; None if consent is not required.
        wave: the campaign's wave beside those on record; None without waves.
        names: the variables that the texts refer to.
        only: the one message to send; None for all.
        prices: of the target; None if it has none.
        senders: `policy.sender` by the places of the messages that may be somebody's first.
        included: the included texts, by name.
        context: of the plan.
    """

    def __init__(
        self,
        campaign: Campaign,
        compiled: list[CompiledMessage],
        options: PlanOptions,
        context: PlanContext,
        included: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        self.campaign = campaign
        self.compiled = compiled
        limits = campaign.limits.recipients_per_send, options.recipients_per_send
        self.per_send = min((limit for limit in limits if limit), default=DEFAULT_RECIPIENTS_PER_SEND)
        self.unread = find_overdue(campaign, context.unread, context.now)
        self.consent = find_consent_days(campaign, context.now)
        rollout, most, completed = campaign.rollout, campaign.limits.completes, context.completed
        self._find_draw = draw_shares(rollout.seed, "rollout") if rollout else None
        self._is_enough = most is not None and completed is not None and completed >= most
        self.wave = PlannedWave.of(campaign.wave, context.waves)
        self.names = campaign.date_columns.union(*(compiled_message.names for compiled_message in compiled))
        sender, messages = campaign.policy.sender, enumerate(one.message for one in compiled)
        self.senders = {index: sender for index, one in messages if sender and one.after is None}
        self.only, self.prices = options.only, options.prices
        self.included = included
        self.context = context

    @property
    def last_consent(self) -> date | None:
        """The latest valid day of consent; None if consent is not required."""
        return None if self.consent is None else self.consent.last

    @classmethod
    def compile(
        cls,
        campaign: Campaign,
        options: PlanOptions,
        context: PlanContext,
        problems: Problems,
        included: Mapping[str, str | None] | None = None,
    ) -> AudiencePass:
        """Return the settings with compiled texts; invalid ones are left out, and reported to `problems`.

        `included` are the texts of included files; None to read the files.
        """
        compiler = TextCompiler(include_folder(campaign), included)
        compiled = list(compile_messages(campaign, compiler, problems, options.only))
        return cls(campaign, compiled, options, context, compiler.included)

    def make_assigner(
        self, excluded: frozenset[str], known: RecordedDeliveries, key: TargetKey | None
    ) -> Decider:
        """Return the decider for a pass; `excluded` phones are E.164, `key` is of the known fingerprints."""
        return Decider(self.campaign, self.compiled, excluded, known, key, self.context)

    def iterate(
        self, people: Iterable[Recipient], decider: Decider, reporter: RowReporter, limit: int | None
    ) -> Iterator[Assigned]:
        """Yield `people` with the decisions on them; at most `limit` get something now (None: all)."""
        served, follows = 0, decider.follows
        outlook = None if self.context.pause is not None else decider.outlook
        for recipient in people:
            flaw = None if self.consent is None else self.consent.find_flaw(recipient)
            person = recipient if flaw is None else recipient._replace(has_consent=False)
            assignments = decider.assign(person, reporter)
            if flaw is not None:
                assignments = [
                    a._replace(reasons=(flaw,)) if a.disposition == "no_consent" else a for a in assignments
                ]
            assignments = self._hold_back(assignments, recipient.phone)
            if limit is not None and any(a.counts for a in assignments):
                if served == limit:
                    assignments = [assignment.hold("over_limit") for assignment in assignments]
                else:
                    served += 1
            if follows:
                find_opening = partial(decider.find_opening, recipient)
                assignments = mark_follow_ups(assignments, follows, self.context.now, find_opening)
            if outlook is not None and not decider.limits.list_caps(recipient):
                assignments = outlook.mark(assignments, recipient.phone)
            yield recipient, assignments

    def count(
        self, assigned: Iterable[Assigned], sizes: Sequence[LaunchSizes], decider: Decider
    ) -> PlanCounts:
        """Return the counts of what `iterate` yields; `sizes` receive launch sizes by message."""
        excluded, prices = len(decider.excluded), self.prices
        return count_assignments(assigned, sizes, self.per_send, excluded, prices, self.senders)

    def _hold_back(self, assignments: list[Decision], phone: str) -> list[Decision]:
        """Return the decisions on one person (E.164) with what the state of the campaign holds back."""
        if self._is_enough:
            assignments = [assignment.give_up("enough") for assignment in assignments]
        if self._find_draw is not None and self.context.step is not None:
            is_open = self.context.step.admits(self._find_draw(phone))
            assignments = assignments if is_open else [one.hold("later_step") for one in assignments]
        if self.context.pause is not None:
            return [assignment.hold("paused") for assignment in assignments]
        if self.unread is not None:
            reason = self.unread.reason
            return [assignment.hold("deferred", reason) for assignment in assignments]
        return assignments


SaidOnce = dict[Diagnostic, tuple[tuple[int, int], Diagnostic]]
"""Problems reported once for an audience, as in `RowReporter`."""


@dataclass(slots=True)
class PlannedPartition:
    """The plan of one partition. It can be pickled, and names nobody.

    Attributes:
        duplicates: repeated rows, where no other tally has them.
        part: the file of launches, if one was written.
    """

    counts: PlanCounts
    problems: Problems
    said: SaidOnce
    duplicates: int = 0
    part: str | None = None


class Division(NamedTuple):
    """An audience in partitions: the function that plans one, its arguments for each, and the rows."""

    plan_partition: Callable[..., PlannedPartition]
    arguments: Sequence[tuple[Any, ...]]
    audience: AudienceTally


def plan_partitions(
    executor: Executor,
    target: str,
    compile_texts: Callable[[Problems], AudiencePass],
    divide: Callable[[AudiencePass, Problems], Division],
    problems: Problems,
) -> CampaignPlan | None:
    """Plan a campaign; return None if there are errors, which `problems` receives."""
    before = problems.error_count
    # If some texts are not templates, the audience is still checked with the others.
    going = compile_texts(problems)
    plan_one, arguments, audience = divide(going, problems)
    made: dict[int, PlannedPartition] = dict(executor.run(plan_one, arguments))
    found = [made[place] for place in range(len(arguments))]
    problems.merge_mixed([one.problems for one in found])
    problems.extend(_merge_said([one.said for one in found]))
    if problems.error_count > before:
        return None
    counts = PlanCounts.start(len(going.compiled))
    for one in found:
        counts.merge(one.counts)
        audience.duplicates += one.duplicates
    parts = tuple(one.part for one in found if one.part is not None)
    return replace(_add_up(going, target, counts, audience, problems), parts=parts)


def _add_up(
    going: AudiencePass, target: str, counts: PlanCounts, audience: AudienceTally, problems: Problems
) -> CampaignPlan:
    """Return a campaign's plan; `problems` has those of its files, and receives those of its limits."""
    campaign, compiled, context = going.campaign, going.compiled, going.context
    lets_queue, is_paused = campaign.policy.open_session == "queue", context.pause is not None
    plans = [
        tally.add_up(one, audience, launches).replace(
            coming=tally.add_up_coming(one, going.per_send, lets_queue=lets_queue, is_paused=is_paused),
            unsaid=counts.unsaid[index],
        )
        for index, (one, tally, launches) in enumerate(
            zip(compiled, counts.messages, counts.launches, strict=True)
        )
    ]
    cost = None if counts.cost is None else counts.cost.add_up(compiled, lets_queue=lets_queue)
    people = PlannedAudience.of(counts.audience, campaign, going.names, context)
    problems.extend(people.find_needless(campaign))
    plan = CampaignPlan(
        campaign,
        target,
        tuple(plans),
        counts.people,
        join_digests([counts.digests]),
        (),
        pause=context.pause,
        unread=going.unread,
        wave=going.wave,
        rollout=context.step,
        completed=context.completed,
        cost=cost,
        recipients_later=Span(counts.sure, counts.later),
        audience=people,
    )
    return replace(plan, refusals=tuple(list_refusals(plan, going.only, context.pruned_at, problems)))


def _merge_said(parts: Sequence[SaidOnce]) -> list[Diagnostic]:
    said: SaidOnce = {}
    for part in parts:
        for key, words in part.items():
            said[key] = min(said.get(key, words), words, key=lambda each: each[0])
    return [words for _, words in sorted(said.values(), key=lambda each: each[0])]


class Planner:
    """The planner of one campaign in this process.

    Args:
        known: the recorded deliveries.
        key: the key of the recorded fingerprints; None if there are none.
        context: the plan's context.
        stamps: of further files that must not change (`stamp_file`), or of all when they were read before.

    Attributes:
        options: of the plan.
        stamps: of all files that the plan is made from, by path.
        texted: the people texted now; None unless `keeps_people` is set.
        watched: the decisions on the first of the `watched` people in the audience, by message; empty if it
            has none of them.
    """

    def __init__(
        self,
        campaign: Campaign,
        target: str,
        known: RecordedDeliveries,
        key: TargetKey | None,
        options: PlanOptions,
        context: PlanContext,
        stamps: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self._campaign = campaign
        self._target = target
        self._known = known
        self._key = None if known.is_empty() else key
        self.options = options
        self.context = context
        self._going = AudiencePass(campaign, [], options, context)
        self._sizes: list[LaunchSizes] = []
        sources = (*campaign.recipients, *campaign.exclude)
        self._audience = [one.location for one in sources if isinstance(one, FileRecipients)]
        file = str(campaign.file)
        read = {**campaign.rules.stamps, file: campaign.stamp or stamp_file(file)}
        self.stamps = {**read, **_stamp_files(self._audience), **stamps}
        self._consent_changes: Mapping[int, ConsentChange] = {}
        self._sends_several = False
        self.texted: TextedPeople | None = None
        self.watched: dict[str, Decision] = {}

    def make_plan(self, problems: Problems) -> CampaignPlan | None:
        """Pass over the audience and count; return None if there are errors, which `problems` receives."""
        self.texted = None
        plan = plan_partitions(LocalExecutor(), self._target, self._compile, self._take_whole, problems)
        if plan is not None:
            self._sends_several = sum(message.to_send for message in plan.messages) > plan.recipients_to_send
        return plan

    def _take_whole(self, going: AudiencePass, problems: Problems) -> Division:
        self._going = going
        self._sizes = [LaunchSizes() for _ in going.compiled]
        self._consent_changes = find_consent_changes(self._campaign, going.last_consent)
        audience = AudienceTally()
        return Division(self._plan_whole, [(self._make_assigner(problems), audience)], audience)

    def _plan_whole(self, decider: Decider, audience: AudienceTally) -> PlannedPartition:
        problems = Problems()
        reporter = RowReporter(self._campaign, problems, Problems())
        assigned = self._pass_over(decider, reporter, problems, audience)
        tally = TextedTally(self._going.compiled) if self.options.keeps_people else None
        assigned = assigned if tally is None else tally.watch(assigned)
        assigned = self._watch(assigned) if self.options.watched else assigned
        counts = self._going.count(assigned, self._sizes, decider)
        self.texted = None if tally is None else tally.finish(self._campaign.name)
        return PlannedPartition(counts, problems, reporter.said)

    def _watch(self, assigned: Iterable[Assigned]) -> Iterator[Assigned]:
        for recipient, decisions in assigned:
            if recipient.phone in self.options.watched and not self.watched:
                ids = [one.message.id for one in self._going.compiled]
                self.watched = {ids[one.message]: one for one in decisions}
            yield recipient, decisions

    def require_unchanged(self) -> None:
        """Refuse to send the plan if a file that it was made from is another by now.

        Raises:
            PlanChangedError: names the file.
        """
        changed = self._find_changed(self.stamps)
        if changed is not None:
            raise PlanChangedError(
                f"{self._campaign.name}: {changed} has changed since it was planned",
                hint="nothing more is sent; run the same command again, and review what it would send",
            )

    def _find_changed(self, locations: Iterable[str]) -> str | None:
        """Return the first changed file of some, relative to the campaign's root."""
        for location in locations:
            if stamp_file(location) != self.stamps[location]:
                root = self._campaign.root.absolute()
                return location.removeprefix(f"{root}{os.sep}")
        return None

    def iterate_launches(self) -> Iterator[PlannedLaunch]:
        """Pass over the audience again and yield the launches of the plan from `make_plan`.

        Where somebody gets several messages, launches come message by message, with a pass for each. A file
        that is edited meanwhile adds nobody to the plan, and no text that was not checked.

        Raises:
            PlanChangedError: a file of the campaign has changed; perhaps half-way.
        """
        remaining = [sizes.count_groups() for sizes in self._sizes]
        if not self._sends_several:
            yield from self._pass_again(range(len(self._going.compiled)), remaining)
            return
        for index in range(len(self._going.compiled)):
            if remaining[index]:
                yield from self._pass_again((index,), remaining)

    def _pass_again(
        self, wanted: Container[int], remaining: Sequence[Counter[int]]
    ) -> Iterator[PlannedLaunch]:
        """Yield the launches of some messages, by their places.

        `remaining` has the recipients by message and group that were counted and not met again yet.
        """
        self.require_unchanged()
        # A stamp that is still the same proves that all rows read before it are those of the plan.
        streamed = [location for location in self._audience if not is_url(location)]
        waiting: dict[tuple[int, int, str], tuple[Decision, Payload, list[str]]] = {}
        problems = Problems()
        decider = self._make_assigner(Problems())
        reporter = RowReporter(self._campaign, problems)
        for recipient, assignments in self._pass_over(decider, reporter, problems, AudienceTally()):
            countries = find_countries(recipient.phone) if self._going.prices else ()
            for assignment in assignments:
                payload = assignment.payload
                if payload is None or assignment.message not in wanted:
                    continue
                index, group = assignment.message, group_of(assignment, payload, countries)
                left = remaining[index].pop(group, 0) - 1
                if problems.error_count or left < 0:
                    raise self._changed_under_way()
                if left:
                    remaining[index][group] = left
                alike = (index, group, payload.digest)
                phones = waiting.setdefault(alike, (assignment, payload, []))[2]
                phones.append(recipient.phone)
                if len(phones) == self._going.per_send or not left:
                    del waiting[alike]
                    if self._find_changed(streamed) is not None:
                        raise self._changed_under_way()
                    yield self._launch(assignment, payload, phones)
        if problems.error_count or any(one for index, one in enumerate(remaining) if index in wanted):
            raise self._changed_under_way()

    def _changed_under_way(self) -> PlanChangedError:
        return PlanChangedError(
            f"the files of {self._campaign.name} have changed while it was sent",
            hint="what was sent is recorded; run the same command again to send the rest",
        )

    def _launch(self, assignment: Decision, payload: Payload, phones: list[str]) -> PlannedLaunch:
        renderer = self._going.compiled[assignment.message].renderers[assignment.arm]
        kind = assignment.arm, assignment.until, assignment.occasion, assignment.caps
        return PlannedLaunch(renderer.message, payload, tuple(phones), *kind)

    def _compile(self, problems: Problems) -> AudiencePass:
        going = AudiencePass.compile(self._campaign, self.options, self.context, problems)
        folder = include_folder(self._campaign)
        included = (str(folder / name) for name in map(str, going.included) if name.isprintable())
        self.stamps = {**_stamp_files(included), **self.stamps}
        return going

    def _make_assigner(self, problems: Problems) -> Decider:
        return self._going.make_assigner(read_excluded(self._campaign, problems), self._known, self._key)

    def _pass_over(
        self, decider: Decider, reporter: RowReporter, problems: Problems, tally: AudienceTally
    ) -> Iterator[Assigned]:
        people = iterate_audience(self._campaign, self._going.names, problems, tally, self._consent_changes)
        return self._going.iterate(people, decider, reporter, self.options.limit)


def iterate_offers(
    campaign: Campaign, known: RecordedDeliveries, key: TargetKey | None
) -> Iterator[tuple[str, list[Offer]]]:
    """Yield each recipient's phone (E.164) with the messages that they lack, sent now or not."""
    going = AudiencePass.compile(campaign, PlanOptions(), PlanContext(), Problems())
    decider = going.make_assigner(
        read_excluded(campaign, Problems()), known, None if known.is_empty() else key
    )
    for recipient in iterate_audience(campaign, going.names, Problems(), AudienceTally()):
        yield recipient.phone, list(decider.offer(recipient))


def find_payloads(
    campaign: Campaign, known: RecordedDeliveries, key: TargetKey | None, phones: Container[str] | None
) -> dict[str, list[Offer]]:
    """Return the messages that recipients lack, by phone (E.164); `phones` is None for everybody."""
    offered = iterate_offers(campaign, known, key)
    return {phone: offers for phone, offers in offered if phones is None or phone in phones}


def _stamp_files(locations: Iterable[str]) -> dict[str, object]:
    return {location: stamp_file(location) for location in locations}
