"""Previews of campaigns: whole conversations as recipients will see them, worst cases first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from runner.audience.audience import AudienceTally, Recipient, iterate_audience, read_excluded
from runner.audience.phone import mask_phone
from runner.audience.rows import leave_out_blank
from runner.campaign.timing_words import describe_timing
from runner.campaign.variants import Draw
from runner.document import UNSET, Count, Described, Document, Part, Positive, UnsetType
from runner.errors import RunnerError, UsageError
from runner.plan.dates import Dates
from runner.source.diagnostic import ProblemError, Problems
from runner.text.include import include_folder
from runner.text.payload import CompiledMessage, MessageRenderer, compile_messages
from runner.text.preview import (
    Branch,
    Bubble,
    CaseFinder,
    CaseReason,
    Conversation,
    Turn,
    UnplainCharacter,
    list_branches,
    list_bubbles,
)
from runner.text.segment import advise
from runner.text.template import MissingVariablesError, TextCompiler
from runner.view.blocks import Code, Items, Section, Sentence
from runner.view.html import Shown
from runner.wording import count_people, count_words, printable
from runner.workflow.campaigns import load_valid_campaigns, refuse_errors, show_path
from runner.workflow.checking.validate import find_audience_problems
from runner.workflow.records.phones import read_phones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from runner.campaign.message_model import Message, TemplateText
    from runner.campaign.model import Campaign
    from runner.text.preview import Conversation
    from runner.view.blocks import Block
    from runner.workflow.scope import Scope


_SHOWN_ANSWERS = 4
_SHOWN_CHARACTERS = 6


class PreviewedConversation(Part, frozen=True):
    """The texts of one message to one recipient.

    Attributes:
        message: the message's id.
        tag: the project tag.
        arm: of an experiment's message; None if it has no arms.
        phone: masked.
        file: where the recipient stands.
        line: the line in that file, from 1.
        timing: when it goes out, in words.
        segments: SMS segments of all its texts, if no question is skipped or asked again; 0 for a call.
        conversation: the texts, in the order in which they arrive.
        reasons: why this conversation is shown; none if it was asked for.
        language: of the texts, in a campaign with `languages`.
        branches: the follow-ups that go by its answers, if there are any.
    """

    message: str
    tag: str
    arm: str | None
    phone: str
    file: str
    line: Positive
    timing: tuple[str, ...]
    segments: Count
    conversation: tuple[Bubble, ...]
    reasons: tuple[CaseReason, ...]
    language: str | UnsetType = UNSET
    branches: tuple[Branch, ...] | UnsetType = UNSET


class PreviewRemark(Part, frozen=True):
    """Findings about all recipients of a message, arm and language.

    Attributes:
        message: the message's id.
        arm: of an experiment's message; None if it has no arms.
        recipients: how many recipients.
        characters: characters that make conversations UCS-2.
        language: of the texts, in a campaign with `languages`.
    """

    message: str
    arm: str | None
    recipients: Count
    characters: tuple[UnplainCharacter, ...]
    language: str | UnsetType = UNSET


class PreviewDocument(Document, frozen=True):
    """The document that `runner preview --format json` writes.

    Attributes:
        campaign: the campaign's name.
        phone: whose `messages` are: --phone, else the first recipient who gets any. Masked.
        why_not: why this recipient gets nothing; None if they do.
        messages: one entry a message, in the order of the file.
        cases: the worst conversations of each message, arm and language, over the whole audience; empty with
            --phone.
        remarks: what is true of all recipients of a message or arm; empty with --phone.
    """

    campaign: str
    phone: str
    why_not: str | None
    messages: tuple[PreviewedConversation, ...]
    cases: tuple[PreviewedConversation, ...]
    remarks: tuple[PreviewRemark, ...]


@dataclass(frozen=True, slots=True)
class Preview(Described, Shown):
    """A preview of a campaign, for one recipient or of the worst cases.

    `conversations` are those of the recipient, by message, and `why_not` is the reason if there are none;
    `cases` are the worst conversations of each message, arm and language.
    """

    campaign: Campaign
    recipient: Recipient = field(repr=False)
    conversations: tuple[Conversation, ...] = field(repr=False)
    cases: tuple[tuple[CaseFinder, tuple[Conversation, ...]], ...] = field(default=(), repr=False)
    why_not: str | None = None

    @property
    def document(self) -> PreviewDocument:
        """The preview as a document."""
        describe = partial(_describe_conversation, self)
        return PreviewDocument(
            self.campaign.name,
            mask_phone(self.recipient.phone),
            self.why_not,
            tuple(map(describe, self.conversations)),
            tuple(describe(one) for _, cases in self.cases for one in cases),
            tuple(_remark(finder) for finder, _ in self.cases),
        )

    def show(self) -> Iterator[Block]:
        """Yield the conversations of one person, or the worst cases of each message."""
        if self.cases:
            yield Sentence(f"{self.campaign.name}, worst cases first", "strong")
            yield from show_worst(self.campaign, self.cases)
            return
        yield Sentence(f"{self.campaign.name}, as {mask_phone(self.recipient.phone)} will see it", "strong")
        if self.why_not:
            yield Sentence(f"({self.why_not})")
        yield from show_one(self.campaign, self.conversations)


def preview_campaign(
    scope: Scope,
    file: Path,
    *,
    phone: str | None = None,
    region: str | None = None,
    message: str | None = None,
    language: str | None = None,
) -> Preview:
    """Return the worst conversations of a campaign, or those of one recipient.

    `region` is that of a phone in national form, as for `read_phones`; `message` restricts the preview to one
    message, `language` to people of one language, and shows one recipient the texts in it.

    Raises:
        InvalidCampaignError: the campaign has errors, which have been shown.
        UsageError: it has no such message or language, or `phone` is not a phone number.
        RunnerError: `phone` is not a recipient's, or nobody gets anything.
    """
    scope = replace(scope, paths=(file,))
    (campaign,) = load_valid_campaigns(scope)
    problems = Problems()
    find_audience_problems(campaign, problems)
    refuse_errors(problems)
    gallery = _Gallery.open(campaign, message, _find_language(campaign, language))
    if phone is None:
        return gallery.show_worst()
    (person,) = read_phones(scope, [phone], region)
    return gallery.show_one(person)


def _find_language(campaign: Campaign, wanted: str | None) -> str | None:
    if wanted is None:
        return None
    if campaign.languages is None:
        hint = "its texts are in one language: leave --language out"
        raise UsageError(f"{campaign.name} has no `languages`", hint=hint)
    found = campaign.languages.find(wanted)
    if found is None:
        hint = f"known: {', '.join(campaign.languages.known)}"
        raise UsageError(f"{campaign.name} has no language {wanted!r}", hint=hint)
    return found


@dataclass(frozen=True, slots=True)
class _Gallery:
    """The conversations of a campaign's whole audience."""

    campaign: Campaign
    compiled: list[CompiledMessage]
    finders: dict[MessageRenderer, CaseFinder]
    draw: Draw | None
    excluded: frozenset[str]
    language: str | None
    dates: Dates

    @classmethod
    def open(cls, campaign: Campaign, message: str | None, language: str | None) -> _Gallery:
        """Prepare the texts of a valid campaign, or of one message."""
        known = [one.id for one in campaign.messages]
        if message is not None and message not in known:
            raise UsageError(f"{campaign.name} has no message {message!r}", hint=f"known: {', '.join(known)}")
        compiler = TextCompiler(include_folder(campaign))
        compiled = list(compile_messages(campaign, compiler, Problems(), message))
        finders = {each: CaseFinder(each) for one in compiled for each in one.translated.values()}
        draw = None if campaign.variants is None else Draw(campaign.variants)
        dates = Dates(campaign, [one.message for one in compiled], None, None)
        return cls(campaign, compiled, finders, draw, read_excluded(campaign, Problems()), language, dates)

    def show_one(self, phone: str) -> Preview:
        """Return the conversations of one recipient."""
        for recipient in self._iterate_audience():
            if recipient.phone == phone:
                shown = recipient._replace(language=self.language or recipient.language)
                found = self._converse(shown)
                why_not = self._bar(phone) or (None if found else "no date in their row: gets nothing")
                return Preview(self.campaign, shown, found, why_not=why_not)
        raise RunnerError(
            f"{mask_phone(phone)} is no recipient of {self.campaign.name}",
            hint="--phone takes one of its recipients",
        )

    def show_worst(self) -> Preview:
        """Return the worst conversations."""
        first = None
        for recipient in self._iterate_audience():
            if self._bar(recipient.phone) is None and self.language in (None, recipient.language):
                for finder in self._choose_finders(recipient):
                    first = first or recipient
                    finder.take(recipient)
        if first is None:
            words = f" in the language {self.language}" if self.language else ""
            hint = "--phone shows one recipient the texts in it" if self.language else None
            raise RunnerError(f"nobody gets anything of {self.campaign.name}{words}", hint=hint)
        seen = [finder for finder in self.finders.values() if finder.people]
        found = tuple((finder, tuple(finder.list_cases())) for finder in seen)
        return Preview(self.campaign, first, self._converse(first), found)

    def _iterate_audience(self) -> Iterator[Recipient]:
        names = self.campaign.date_columns.union(*(one.names for one in self.compiled))
        return iterate_audience(self.campaign, names, Problems(), AudienceTally())

    def _bar(self, phone: str) -> str | None:
        if phone in self.excluded:
            return "excluded: gets nothing"
        if self.draw is not None and self.draw.is_in_control_group(phone):
            return "in the control group: gets nothing"
        return None

    def _converse(self, recipient: Recipient) -> tuple[Conversation, ...]:
        return tuple(finder.converse(recipient) for finder in self._choose_finders(recipient))

    def _choose_finders(self, recipient: Recipient) -> Iterator[CaseFinder]:
        arm = None if self.draw is None else self.draw.choose_arm(recipient.phone)
        for index, compiled_message in enumerate(self.compiled):
            if self.dates.columns[index] and self.dates.read(index, recipient) is None:
                continue
            yield self.finders[compiled_message.choose(arm, recipient.language)]


def _describe_conversation(preview: Preview, one: Conversation) -> PreviewedConversation:
    return PreviewedConversation(
        one.message.id,
        one.message.tag,
        one.arm,
        mask_phone(one.recipient.phone),
        show_path(one.recipient.file),
        one.recipient.line,
        tuple(describe_timing(preview.campaign, one.message)),
        one.segments,
        one.bubbles,
        one.reasons,
        one.language or UNSET,
        list_branches(preview.campaign, one.message) or UNSET,
    )


def _remark(finder: CaseFinder) -> PreviewRemark:
    characters = tuple(finder.list_characters())
    message, language = finder.renderer.message, finder.renderer.language or UNSET
    return PreviewRemark(message.id, finder.renderer.arm, finder.people, characters, language)


def show_one(campaign: Campaign, conversations: Iterable[Conversation]) -> Iterator[Block]:
    """Yield the conversations of one person."""
    for one in conversations:
        timing = Items(list(describe_timing(campaign, one.message)))
        title = _title(one.message, one.arm, one.language)
        yield Section(title, [timing, *_show_conversation(campaign, one)])


def show_worst(
    campaign: Campaign, found: Iterable[tuple[CaseFinder, Sequence[Conversation]]]
) -> Iterator[Block]:
    """Yield the worst cases of each message."""
    for finder, cases in found:
        people = count_people(finder.people)
        shown = [
            Section(
                f"case {number}: {_who(case)}",
                [Items(list(map(_reason_words, case.reasons))), *_show_conversation(campaign, case)],
            )
            for number, case in enumerate(cases, start=1)
        ]
        timing = Items(list(describe_timing(campaign, cases[0].message)))
        title = f"{_title(cases[0].message, cases[0].arm, cases[0].language)}: {people}"
        yield Section(title, [timing, *shown, Items(list(_remarks(finder)))])


def _title(message: Message, arm: str | None, language: str | None = None) -> str:
    words = f", arm {arm}" if arm is not None else ""
    words += f", language {language}" if language is not None else ""
    return f"{message.id} ({message.method}, tag {message.tag}{words})"


def _who(case: Conversation) -> str:
    recipient = case.recipient
    return f"{mask_phone(recipient.phone)}, line {recipient.line} of {show_path(recipient.file)}"


def _reason_words(reason: CaseReason) -> str:
    count = reason.count
    if reason.kind == "most_segments":
        return f"the most segments: {count:,}"
    return f"the longest text: {count_words(count, 'character')}"


def _remarks(finder: CaseFinder) -> Iterator[str]:
    ranked = sorted(finder.list_characters(), key=lambda one: (-one.recipients, one.character))
    for cost in ranked[:_SHOWN_CHARACTERS]:
        yield advise(cost.character, cost.recipients, cost.segments, cost.segments_without)
    if len(ranked) > _SHOWN_CHARACTERS:
        yield f"and {count_words(len(ranked) - _SHOWN_CHARACTERS, 'more character')} outside GSM-7"


def _show_conversation(campaign: Campaign, conversation: Conversation) -> Iterator[Block]:
    message = conversation.message
    branches = list_branches(campaign, message)
    yield from _show_bubbles(conversation.bubbles, branches, is_text=message.method == "SMS")


def _show_bubbles(bubbles: Sequence[Bubble], branches: Sequence[Branch], *, is_text: bool) -> Iterator[Block]:
    """Yield each text with what follows it, and for texts with their segments."""
    for bubble in bubbles:
        badge = f" [{_badge(bubble)}]" if is_text else ""
        turns = [_turn_words(turn, bubble, is_text=is_text) for turn in bubble.turns]
        own = [one for one in branches if bubble.question_tag == one.question_tag]
        turns += [_branch_words(one) for one in own]
        yield Section(f"{_name(bubble)}{badge}", [Code(bubble.text), Items(turns)])


def _name(bubble: Bubble | Turn) -> str:
    return f"{bubble.part} {bubble.question_tag}" if bubble.question_tag else bubble.part or "the end"


def _badge(bubble: Bubble) -> str:
    badge = f"{count_words(bubble.segments, 'segment')}, {bubble.units} in {bubble.encoding}"
    return badge if bubble.costly is None else f"{badge} because of {bubble.costly!r}"


def _turn_words(turn: Turn, bubble: Bubble, *, is_text: bool) -> str:
    if turn.on == "invalid":
        cost = f", {count_words(bubble.segments, 'segment')} more" if is_text else ""
        return f"anything else → asked again{cost}"
    skipped = f", {count_words(turn.skipped, 'question')} skipped" if turn.skipped else ""
    taken = "" if turn.taken is None else f', taken for "{printable(turn.taken)}" by its line,'
    return f"{_answer_words(turn)}{taken} → {_name(turn)}{skipped}"


def _branch_words(branch: Branch) -> str:
    later = f" after {branch.wait}" if branch.wait else ""
    return f"{' or '.join(map(printable, branch.values))} → message {branch.message}{later}"


def _answer_words(turn: Turn) -> str:
    quoted = [f'"{printable(answer)}"' for answer in turn.answers]
    if not quoted:
        return "any answer"
    if len(quoted) > _SHOWN_ANSWERS:
        return f"{quoted[0]}, {quoted[1]} … {quoted[-1]}"
    return " or ".join(quoted)


def show_example(campaign: Campaign) -> Iterator[Block]:
    """Yield a conversation of each message, arm and language, for readers who must not see the recipients.

    Only the campaign's own variables have values. Recipients' variables are shown by name, as in
    `‹first_name›`, since the values are private. A text that chooses or computes by such a variable is shown
    as its template: an invented value would mislead.
    """
    compiler, own = TextCompiler(include_folder(campaign)), leave_out_blank(campaign.vars)

    def show(text: TemplateText) -> str:
        compiled = compiler.compile(text)
        sample = {name: own.get(name, f"‹{name}›") for name in compiled.names}
        try:
            shown = compiled.render(sample)
        except (MissingVariablesError, ProblemError):
            return text.source
        return shown if all(f"‹{name}›" in shown for name in compiled.names - own.keys()) else text.source

    for message in campaign.messages:
        for arm, varied in campaign.list_arms(message.id).items() or ((None, message),):
            timing = Items(list(describe_timing(campaign, varied)))
            branches = list_branches(campaign, message)
            codes = (None,) if campaign.languages is None else campaign.languages.known
            for code in codes:
                bubbles = list_bubbles(_define(varied.in_language(code) if code else varied, show))
                shown = _show_bubbles(bubbles, branches, is_text=False)
                yield Section(_title(varied, arm, code), [timing, *shown])


def _define(message: Message, show: Callable[[TemplateText], str]) -> dict[str, Any]:
    """Return the definition of a message with its texts shown by a function."""
    names = ("text", "introduction", "conclusion")
    found: dict[str, Any] = {name: show(text) for name in names if (text := getattr(message, name))}
    found["questions"] = [
        {
            "text": show(one.text),
            "tag": one.tag,
            "responses": [show(each) for each in one.responses],
            **({"conclude_on": show(one.conclude_on)} if one.conclude_on else {}),
        }
        for one in message.questions
    ]
    return found
