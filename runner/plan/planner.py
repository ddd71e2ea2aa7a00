"""Makes plans.

Pure: a campaign, its audience and what is known of its deliveries go in; counts and launches come
out. The audience is passed over twice: once to count (and to find every problem), once to send.
The first pass keeps a number per payload, so that the second can let a launch go as soon as all
its recipients are there: personal texts never wait for the end of the file.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.campaign.audience import AudienceTally, Recipient, iterate_audience, read_excluded
from runner.campaign.include import include_folder
from runner.campaign.model import DEFAULT_RECIPIENTS_PER_SEND, Campaign, CsvRecipients
from runner.campaign.payload import MessageRenderer, Payload
from runner.campaign.row_problems import RowReporter
from runner.campaign.template import MissingVariablesError, TemplateProblemError, TextCompiler
from runner.errors import PlanChangedError
from runner.plan.model import CampaignPlan, Disposition, MessagePlan, PlannedLaunch, PlanOptions
from runner.source.diagnostic import Diagnostic, Problems

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runner.campaign.model import Message
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.model import Known


@dataclass(frozen=True, slots=True)
class _Assignment:
    """What a recipient gets of one message: `payload` is there if it is to be sent now."""

    message: int
    disposition: Disposition
    payload: Payload | None = None


class Planner:
    """Plans one campaign.

    Args:
        campaign: the campaign.
        target: the target's name.
        known: what is known of its deliveries.
        key: the key of the known fingerprints; None when nothing is known.
        options: what the user asks for.
    """

    def __init__(
        self, campaign: Campaign, target: str, known: Known, key: FingerprintKey | None, options: PlanOptions
    ) -> None:
        self._campaign = campaign
        self._target = target
        self._known = known
        self._key = None if known.is_empty() else key
        self._options = options
        self._renderers: list[MessageRenderer] = []
        self._sizes: Counter[tuple[int, int]] = Counter()
        self._excluded: frozenset[str] = frozenset()
        self._stamps = _stamp_files(campaign)
        limits = (campaign.limits.recipients_per_send, options.recipients_per_send)
        self._per_send = min((limit for limit in limits if limit), default=DEFAULT_RECIPIENTS_PER_SEND)

    def make_plan(self, problems: Problems) -> CampaignPlan | None:
        """Pass over the audience and count.

        Args:
            problems: receives everything that is wrong with texts and audience.

        Returns:
            The plan; None if there are errors.
        """
        before = problems.error_count
        # If some texts are no templates, the audience is checked with the others all the same.
        self._renderers = list(self._compile(problems))
        self._excluded = read_excluded(self._campaign, problems)
        counts = [MessagePlan(renderer.message.id, renderer.message.tag) for renderer in self._renderers]
        digest = hashlib.blake2b(digest_size=16)
        tally = AudienceTally()
        people = 0
        for recipient, assignments in self._iterate_assignments(problems, tally):
            people += any(assignment.payload for assignment in assignments)
            for assignment in assignments:
                _count(counts[assignment.message], assignment)
                if assignment.payload is not None:
                    digest.update(
                        f"{assignment.message} {assignment.payload.digest} {recipient.phone}\n".encode()
                    )
                    self._sizes[_group_of(assignment.message, assignment.payload)] += 1
        if problems.error_count > before:
            return None
        self._add_up(counts, tally)
        if not tally.rows:
            problems.add(_empty_audience(self._campaign))
        return CampaignPlan(
            self._campaign,
            self._target,
            tuple(counts),
            people,
            digest.hexdigest(),
            tuple(self._find_refusals(counts, people)),
        )

    def iterate_launches(self) -> Iterator[PlannedLaunch]:
        """Pass over the audience again and yield the launches of the plan that `make_plan` made.

        The second pass trusts nothing that the first has not counted: a file that is edited while it
        is being sent adds nobody to the plan, and nobody's text is one that was not checked.

        Raises:
            PlanChangedError: a file of the campaign has changed since; also half-way.
        """
        if _stamp_files(self._campaign) != self._stamps:
            raise PlanChangedError(
                f"the files of {self._campaign.name} have changed while it was planned",
                hint="run the same command again",
            )
        waiting: dict[tuple[int, str], tuple[Payload, list[str]]] = {}
        left = self._sizes.copy()
        problems = Problems()
        for recipient, assignments in self._iterate_assignments(problems, AudienceTally()):
            for assignment in assignments:
                payload = assignment.payload
                if payload is None:
                    continue
                group = _group_of(assignment.message, payload)
                if problems.error_count or not left[group]:
                    raise self._changed_under_way()
                left[group] -= 1
                phones = waiting.setdefault((assignment.message, payload.digest), (payload, []))[1]
                phones.append(recipient.phone)
                if len(phones) == self._per_send or not left[group]:
                    del waiting[assignment.message, payload.digest]
                    yield self._launch(assignment.message, payload, phones)
        if problems.error_count or +left:
            raise self._changed_under_way()

    def _changed_under_way(self) -> PlanChangedError:
        return PlanChangedError(
            f"the files of {self._campaign.name} have changed while it was sent",
            hint="what was sent is recorded; run the same command again to send the rest",
        )

    def find_payloads(self, phones: set[str]) -> dict[str, list[tuple[Message, Payload]]]:
        """Pass over the audience and return what some recipients lack, by phone.

        `--limit` and `--only` are no matter here: they say what is sent now, not what is sent at all.

        Args:
            phones: E.164; those that lack nothing are left out.
        """
        whole = Planner(self._campaign, self._target, self._known, self._key, PlanOptions())
        return whole._collect_payloads(phones)

    def _collect_payloads(self, phones: set[str]) -> dict[str, list[tuple[Message, Payload]]]:
        self._renderers = list(self._compile(Problems()))
        self._excluded = read_excluded(self._campaign, Problems())
        found: dict[str, list[tuple[Message, Payload]]] = {}
        for recipient, assignments in self._iterate_assignments(Problems(), AudienceTally()):
            if recipient.phone in phones:
                found[recipient.phone] = [
                    (self._renderers[assignment.message].message, assignment.payload)
                    for assignment in assignments
                    if assignment.payload is not None
                ]
        return found

    def _launch(self, message: int, payload: Payload, phones: list[str]) -> PlannedLaunch:
        return PlannedLaunch(self._renderers[message].message, payload, tuple(phones))

    def _compile(self, problems: Problems) -> Iterator[MessageRenderer]:
        compiler = TextCompiler(include_folder(self._campaign))
        for message in self._campaign.messages:
            try:
                renderer = MessageRenderer(message, compiler)
            except TemplateProblemError as error:
                problems.extend(error.diagnostics)
            else:
                if self._options.only in (None, message.id):
                    yield renderer

    def _iterate_assignments(
        self, problems: Problems, tally: AudienceTally
    ) -> Iterator[tuple[Recipient, list[_Assignment]]]:
        names = frozenset[str]().union(*(renderer.names for renderer in self._renderers))
        reporter = RowReporter(self._campaign, problems)
        people = 0
        for recipient in iterate_audience(self._campaign, names, problems, tally):
            if recipient.phone in self._excluded:
                yield recipient, [_Assignment(index, "excluded") for index in range(len(self._renderers))]
                continue
            assignments = [self._assign(index, recipient, reporter) for index in range(len(self._renderers))]
            if any(assignment.payload for assignment in assignments):
                if people == self._options.limit:
                    assignments = [_hold_back(assignment) for assignment in assignments]
                else:
                    people += 1
            yield recipient, assignments

    def _assign(self, index: int, recipient: Recipient, reporter: RowReporter) -> _Assignment:
        renderer = self._renderers[index]
        if self._key is not None:
            fingerprint = self._key.fingerprint(self._campaign.name, recipient.phone)
            if fingerprint in self._known.sent.get(renderer.message.id, ()):
                return _Assignment(index, "already_sent")
            if fingerprint in self._known.unresolved.get(renderer.message.id, ()):
                return _Assignment(index, "unresolved")
        try:
            return _Assignment(index, "to_send", renderer.render(recipient.vars))
        except MissingVariablesError as error:
            reporter.report_missing(recipient, renderer.message, error)
        except TemplateProblemError as error:
            reporter.report_failure(error, recipient if renderer.names else None)
        return _Assignment(index, "to_send")

    def _add_up(self, counts: list[MessagePlan], tally: AudienceTally) -> None:
        for index, (plan, renderer) in enumerate(zip(counts, self._renderers, strict=True)):
            plan.rows, plan.duplicates = tally.rows, tally.duplicates
            plan.launches = sum(
                -(-size // self._per_send) for group, size in self._sizes.items() if group[0] == index
            )
            plan.renders_min = plan.to_send * renderer.renders_min
            plan.renders_max = plan.to_send * renderer.renders_max

    def _find_refusals(self, counts: list[MessagePlan], people: int) -> Iterator[str]:
        limits = self._campaign.limits
        if limits.recipients is not None and people > limits.recipients:
            yield f"it would text {people:,} recipients, and limits.recipients is {limits.recipients:,}"
        renders = sum(plan.renders_max for plan in counts)
        if limits.renders is not None and renders > limits.renders:
            yield f"it could cost {renders:,} renders, and limits.renders is {limits.renders:,}"


def _count(plan: MessagePlan, assignment: _Assignment) -> None:
    plan.recipients += 1
    setattr(plan, assignment.disposition, getattr(plan, assignment.disposition) + 1)
    payload = assignment.payload
    if payload is not None:
        plan.segments += payload.segments
        if payload.costly is not None:
            plan.costly_characters[payload.costly] = plan.costly_characters.get(payload.costly, 0) + 1


def _empty_audience(campaign: Campaign) -> Diagnostic:
    place = campaign.recipients[0].position
    words = "this campaign has no recipients: no row holds a phone"
    return Diagnostic("warning", "audience-empty", words, place.file, place.line, place.column)


def _hold_back(assignment: _Assignment) -> _Assignment:
    return _Assignment(assignment.message, "over_limit") if assignment.payload else assignment


def _group_of(message: int, payload: Payload) -> tuple[int, int]:
    # 64 bits of the digest: a collision would only let two launches wait for each other.
    return message, int(payload.digest[:16], 16)


def _stamp_files(campaign: Campaign) -> tuple[tuple[int, int] | None, ...]:
    sources = [s.path for s in (*campaign.recipients, *campaign.exclude) if isinstance(s, CsvRecipients)]
    return tuple(_stamp(file) for file in (campaign.file, *sources))


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
