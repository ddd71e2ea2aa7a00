"""Previews of campaigns: whole conversations as recipients will see them, worst cases first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from runner.audience.audience import AudienceTally, Recipient, iterate_audience, read_excluded
from runner.audience.phone import mask_phone
from runner.campaign.timing_words import describe_timing
from runner.campaign.variants import Draw
from runner.errors import RunnerError, UsageError
from runner.source.diagnostic import Problems
from runner.text.include import include_folder
from runner.text.payload import CompiledMessage, compile_messages
from runner.text.preview import BranchTracer, CaseFinder, Conversation, iterate_turns
from runner.text.segment import find_substitute
from runner.text.template import TextCompiler
from runner.version import add_version
from runner.workflow.campaigns import refuse_errors, show_path
from runner.workflow.failures import find_audience_problems
from runner.workflow.records.phones import parse_phones

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.text.preview import Branch, CaseReason
    from runner.workflow.scope import Scope

CASES = 3
"""Conversations shown of each message and arm by default."""


@dataclass(frozen=True, slots=True)
class Preview:
    """A preview of a campaign, for one recipient or of the worst cases.

    `conversations` are those of the recipient, by message, and `why_not` is the reason if there are none;
    `cases` are the worst conversations of each message and arm.
    """

    campaign: Campaign
    recipient: Recipient = field(repr=False)
    conversations: tuple[Conversation, ...] = field(repr=False)
    cases: tuple[tuple[CaseFinder, tuple[Conversation, ...]], ...] = field(default=(), repr=False)
    why_not: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the preview as in `schemas/preview.schema.json`."""
        return add_version(_describe(self))


def preview_campaign(
    scope: Scope, file: Path, *, phone: str | None = None, message: str | None = None, cases: int = CASES
) -> Preview:
    """Return the worst conversations of a campaign, or those of one recipient.

    `message` restricts the preview to one message; `cases` is the most to show of each message and arm.

    Raises:
        InvalidCampaignError: the campaign has errors, which have been shown.
        UsageError: it has no such message, or `phone` is not a phone number.
        RunnerError: `phone` is not a recipient's, or nobody gets anything.
    """
    (campaign,) = replace(scope, paths=(file,)).load_valid_campaigns()
    problems = Problems()
    find_audience_problems(campaign, problems)
    refuse_errors(problems, quiet=scope.quiet)
    gallery = _Gallery.open(campaign, message)
    if phone is None:
        return gallery.show_worst(cases)
    (person,) = parse_phones([phone])
    return gallery.show_one(person)


@dataclass(frozen=True, slots=True)
class _Gallery:
    """The conversations of a campaign's whole audience."""

    campaign: Campaign
    compiled: list[CompiledMessage]
    finders: dict[tuple[str, str | None], CaseFinder]
    draw: Draw | None
    excluded: frozenset[str]

    @classmethod
    def open(cls, campaign: Campaign, message: str | None) -> _Gallery:
        """Prepare the texts of a valid campaign, or of one message."""
        known = [one.id for one in campaign.messages]
        if message is not None and message not in known:
            raise UsageError(f"{campaign.name} has no message {message!r}", hint=f"known: {', '.join(known)}")
        folder = include_folder(campaign)
        compiled = [
            compiled_message
            for compiled_message in compile_messages(campaign, TextCompiler(folder), Problems())
            if message in (None, compiled_message.message.id)
        ]
        finders = {
            (compiled_message.message.id, arm): CaseFinder(
                renderer, BranchTracer(renderer.message, folder), arm
            )
            for compiled_message in compiled
            for arm, renderer in compiled_message.renderers.items()
        }
        draw = None if campaign.variants is None else Draw(campaign.variants)
        return cls(campaign, compiled, finders, draw, read_excluded(campaign, Problems()))

    def show_one(self, phone: str) -> Preview:
        """Return the conversations of one recipient.

        Raises:
            RunnerError: `phone` is not a recipient's.
        """
        for recipient in self._iterate_audience():
            if recipient.phone == phone:
                return Preview(self.campaign, recipient, self._converse(recipient), why_not=self._bar(phone))
        raise RunnerError(
            f"{mask_phone(phone)} is no recipient of {self.campaign.name}",
            hint="--phone takes one of its recipients",
        )

    def show_worst(self, cases: int) -> Preview:
        """Return the worst conversations.

        Raises:
            RunnerError: nobody gets anything.
        """
        first = None
        for recipient in self._iterate_audience():
            if self._bar(recipient.phone) is None:
                first = first or recipient
                for finder in self._choose_finders(recipient.phone):
                    finder.take(recipient)
        if first is None:
            raise RunnerError(f"nobody gets anything of {self.campaign.name}")
        seen = [finder for finder in self.finders.values() if finder.people]
        found = tuple((finder, tuple(finder.list_cases(cases))) for finder in seen)
        return Preview(self.campaign, first, self._converse(first), found)

    def _iterate_audience(self) -> Iterator[Recipient]:
        names = frozenset[str]().union(*(compiled_message.names for compiled_message in self.compiled))
        return iterate_audience(self.campaign, names, Problems(), AudienceTally())

    def _bar(self, phone: str) -> str | None:
        if phone in self.excluded:
            return "excluded: gets nothing"
        if self.draw is not None and self.draw.is_held_out(phone):
            return "held out for comparison: gets nothing"
        return None

    def _converse(self, recipient: Recipient) -> tuple[Conversation, ...]:
        return tuple(finder.converse(recipient) for finder in self._choose_finders(recipient.phone))

    def _choose_finders(self, phone: str) -> Iterator[CaseFinder]:
        arm = None if self.draw is None else self.draw.choose_arm(phone)
        for compiled_message in self.compiled:
            yield self.finders[
                compiled_message.message.id, arm.id if arm and compiled_message.has_arms else None
            ]


def _describe(preview: Preview) -> dict[str, Any]:
    return {
        "campaign": preview.campaign.name,
        "phone": mask_phone(preview.recipient.phone),
        "why_not": preview.why_not,
        "messages": [
            {
                "id": conversation.message.id,
                "tag": conversation.message.tag,
                **_conversation_json(preview, conversation),
            }
            for conversation in preview.conversations
        ],
        "cases": [
            {
                "message": case.message.id,
                "phone": mask_phone(case.recipient.phone),
                "file": show_path(case.recipient.file),
                "line": case.recipient.line,
                "reasons": [_reason_json(reason) for reason in case.reasons],
                **_conversation_json(preview, case),
            }
            for _, cases in preview.cases
            for case in cases
        ],
        "remarks": [_remarks_json(finder) for finder, _ in preview.cases],
    }


def _conversation_json(preview: Preview, conversation: Conversation) -> dict[str, Any]:
    bubbles = conversation.bubbles
    return {
        "arm": conversation.arm,
        "timing": describe_timing(preview.campaign, conversation.message),
        "segments": conversation.segments,
        "conversation": [_bubble_json(conversation, place) for place in range(len(bubbles))],
    }


def _bubble_json(conversation: Conversation, place: int) -> dict[str, Any]:
    bubble = conversation.bubbles[place]
    return {
        "part": bubble.part,
        "question_tag": bubble.question_tag,
        "text": bubble.text,
        "encoding": bubble.segments.encoding,
        "units": bubble.segments.units,
        "segments": bubble.segments.segments,
        "responses": list(bubble.responses),
        "conclude_on": bubble.conclude_on,
        "turns": [
            {
                "on": turn.kind,
                "answers": list(turn.answers),
                "taken": turn.taken,
                "part": turn.then.part if turn.then else None,
                "question_tag": turn.then.question_tag if turn.then else None,
            }
            for turn in iterate_turns(conversation.bubbles, place)
        ],
    }


def _reason_json(reason: CaseReason) -> dict[str, Any]:
    branch = None if reason.branch is None else _branch_json(reason.branch)
    return {"kind": reason.kind, "count": reason.count, "branch": branch}


def _branch_json(branch: Branch) -> dict[str, Any]:
    return {"words": branch.words, "file": show_path(branch.file), "line": branch.line}


def _remarks_json(finder: CaseFinder) -> dict[str, Any]:
    return {
        "message": finder.renderer.message.id,
        "arm": finder.arm,
        "recipients": finder.people,
        "untaken": [_branch_json(branch) for branch in finder.list_untaken()],
        "characters": [
            {
                "character": character,
                "recipients": cost.recipients,
                "segments": cost.segments,
                "segments_without": cost.segments_without,
                "instead": find_substitute(character),
            }
            for character, cost in sorted(finder.costs.items())
        ],
    }
