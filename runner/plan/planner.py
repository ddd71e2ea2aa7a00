"""Makes plans.

Pure: a campaign, its audience and what is known of its deliveries go in; counts and launches come
out. The audience is passed over twice: once to count (and to find every problem), once to send.
The first pass keeps a number per payload, so that the second can let a launch go as soon as all
its recipients are there: personal texts never wait for the end of the file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runner.campaign.audience import AudienceTally, find_consent_changes, iterate_audience, read_excluded
from runner.campaign.include import include_folder
from runner.campaign.recipients import FileRecipients
from runner.campaign.row_problems import RowReporter
from runner.campaign.template import TextCompiler
from runner.errors import PlanChangedError
from runner.plan.assigner import Assigner
from runner.plan.counting import add_up_plan, count_assignments, describe_empty
from runner.plan.grouping import LaunchSizes, group_of
from runner.plan.model import CampaignPlan, Offer, PlannedLaunch, PlanOptions
from runner.plan.passage import find_last_day, find_overdue, find_per_send, iterate_assignments
from runner.plan.texted import TextedPeople, TextedTally
from runner.plan.track import Track, compile_tracks
from runner.source.diagnostic import Problems
from runner.source.storage import stamp_file

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from runner.campaign.consent_record import ConsentChange
    from runner.campaign.draft import Draft
    from runner.campaign.model import Campaign
    from runner.campaign.payload import Payload
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.model import Known
    from runner.plan.assignment import Assignment
    from runner.plan.circumstances import Circumstances
    from runner.plan.grouping import Remaining
    from runner.plan.passage import Assigned


class Planner:
    """Plans one campaign.

    Args:
        campaign: the campaign.
        target: the target's name.
        known: what is known of its deliveries.
        key: the key of the known fingerprints; None when nothing is known.
        options: what the user asks for.
        circumstances: what else there is to know; None to go by the files and the record alone.

    Attributes:
        texted: the people whom the plan texts now; None unless it was to keep them.
    """

    def __init__(
        self,
        campaign: Campaign,
        target: str,
        known: Known,
        key: FingerprintKey | None,
        options: PlanOptions,
        circumstances: Circumstances | None = None,
    ) -> None:
        self._campaign = campaign
        self._target = target
        self._known = known
        self._key = None if known.is_empty() else key
        self._options = options
        self._circumstances = circumstances
        self._pause = None if circumstances is None or options.ignore_time else circumstances.pause
        self._unread = (
            None
            if circumstances is None
            else find_overdue(campaign, circumstances.unread, circumstances.now, options)
        )
        self._tracks: list[Track] = []
        self._sizes: list[LaunchSizes] = []
        self._stamps = _stamp_files(campaign)
        self._per_send = find_per_send(campaign, options)
        self._last_day = find_last_day(campaign, circumstances)
        self._consent_changes: Mapping[int, ConsentChange] = {}
        self._sends_several = False
        self.texted: TextedPeople | None = None

    def make_plan(self, problems: Problems) -> CampaignPlan | None:
        """Pass over the audience and count.

        Args:
            problems: receives everything that is wrong with texts and audience.

        Returns:
            The plan; None if there are errors.
        """
        before = problems.error_count
        # If some texts are no templates, the audience is checked with the others all the same.
        self._tracks = self._compile(problems)
        self._sizes = [LaunchSizes() for _ in self._tracks]
        self.texted = None
        tally = TextedTally(self._tracks) if self._options.keeps_people else None
        self._consent_changes = find_consent_changes(self._campaign, self._last_day)
        audience = AudienceTally()
        assigned = self._pass_over(self._make_assigner(problems), problems, audience)
        assigned = assigned if tally is None else tally.watch(assigned)
        counts = count_assignments(assigned, self._sizes, self._per_send)
        if problems.error_count > before:
            return None
        self.texted = None if tally is None else tally.finish(self._campaign.name)
        if not audience.rows:
            problems.add(describe_empty(self._campaign))
        now = None if self._circumstances is None else self._circumstances.now
        plan = add_up_plan(self._campaign, self._target, self._tracks, counts, audience, self._per_send, now)
        self._sends_several = sum(message.to_send for message in plan.messages) > plan.recipients_to_send
        return replace(plan, pause=self._pause, unread=self._unread)

    def iterate_launches(self) -> Iterator[PlannedLaunch]:
        """Pass over the audience again and yield the launches of the plan that `make_plan` made.

        Where somebody gets several messages they come message by message, with a pass for each.

        The second pass trusts nothing that the first has not counted: a file that is edited while it
        is being sent adds nobody to the plan, and nobody's text is one that was not checked.

        Raises:
            PlanChangedError: a file of the campaign has changed since; also half-way.
        """
        remaining = [sizes.start_taking() for sizes in self._sizes]
        if not self._sends_several:
            yield from self._pass_again(range(len(self._tracks)), remaining)
            return
        for index in range(len(self._tracks)):
            if not remaining[index].is_empty():
                yield from self._pass_again((index,), remaining)

    def _pass_again(self, wanted: Container[int], remaining: Sequence[Remaining]) -> Iterator[PlannedLaunch]:
        """Yield the launches of some messages, by their places."""
        if _stamp_files(self._campaign) != self._stamps:
            raise PlanChangedError(
                f"the files of {self._campaign.name} have changed while it was planned",
                hint="run the same command again",
            )
        waiting: dict[tuple[int, int, str], tuple[Assignment, Payload, list[str]]] = {}
        problems = Problems()
        assigner = self._make_assigner(Problems())
        for recipient, assignments in self._pass_over(assigner, problems, AudienceTally()):
            for assignment in assignments:
                payload = assignment.payload
                if payload is None or assignment.message not in wanted:
                    continue
                index, group = assignment.message, group_of(payload, assignment.arm, assignment.until)
                left = remaining[index].take(group)
                if problems.error_count or left is None:
                    raise self._changed_under_way()
                alike = (index, group, payload.digest)
                phones = waiting.setdefault(alike, (assignment, payload, []))[2]
                phones.append(recipient.phone)
                if len(phones) == self._per_send or not left:
                    del waiting[alike]
                    yield self._launch(assignment, payload, phones)
        if problems.error_count or not all(one.is_empty() for i, one in enumerate(remaining) if i in wanted):
            raise self._changed_under_way()

    def list_drafts(self) -> dict[tuple[str, str | None], Draft]:
        """Return what the texts of the plan that `make_plan` made belong into, by message and arm."""
        return {
            (track.message.id, arm): renderer.draft
            for track in self._tracks
            for arm, renderer in track.renderers.items()
        }

    def _changed_under_way(self) -> PlanChangedError:
        return PlanChangedError(
            f"the files of {self._campaign.name} have changed while it was sent",
            hint="what was sent is recorded; run the same command again to send the rest",
        )

    def find_payloads(self, phones: set[str] | None) -> dict[str, list[Offer]]:
        """Pass over the audience and return what some recipients lack, by phone.

        What is not sent now, for whatever reason, makes no difference: this says what may have been sent.

        Args:
            phones: E.164; those that lack nothing are left out. None for everybody.
        """
        whole = Planner(self._campaign, self._target, self._known, self._key, PlanOptions())
        return whole._collect_offers(phones)

    def _collect_offers(self, phones: set[str] | None) -> dict[str, list[Offer]]:
        self._tracks = self._compile(Problems())
        assigner = self._make_assigner(Problems())
        names = self._names()
        return {
            recipient.phone: [Offer(*offer) for offer in assigner.offer(recipient)]
            for recipient in iterate_audience(self._campaign, names, Problems(), AudienceTally())
            if phones is None or recipient.phone in phones
        }

    def _launch(self, assignment: Assignment, payload: Payload, phones: list[str]) -> PlannedLaunch:
        renderer = self._tracks[assignment.message].renderers[assignment.arm]
        return PlannedLaunch(renderer.message, payload, tuple(phones), assignment.arm, assignment.until)

    def _compile(self, problems: Problems) -> list[Track]:
        compiler = TextCompiler(include_folder(self._campaign))
        tracks = compile_tracks(self._campaign, compiler, problems)
        return [track for track in tracks if self._options.only in (None, track.message.id)]

    def _make_assigner(self, problems: Problems) -> Assigner:
        return Assigner(
            self._campaign,
            self._tracks,
            read_excluded(self._campaign, problems),
            self._known,
            self._key,
            self._circumstances,
            ignore_time=self._options.ignore_time,
        )

    def _names(self) -> frozenset[str]:
        return frozenset[str]().union(*(track.names for track in self._tracks))

    def _pass_over(self, assigner: Assigner, problems: Problems, tally: AudienceTally) -> Iterator[Assigned]:
        return iterate_assignments(
            iterate_audience(self._campaign, self._names(), problems, tally, self._consent_changes),
            assigner,
            RowReporter(self._campaign, problems),
            limit=self._options.limit,
            last_day=self._last_day,
            is_paused=self._pause is not None,
            unread=self._unread,
        )


def _stamp_files(campaign: Campaign) -> tuple[object, ...]:
    sources = (*campaign.recipients, *campaign.exclude)
    files = [source.location for source in sources if isinstance(source, FileRecipients)]
    return tuple(stamp_file(location) for location in (str(campaign.file), *files))
