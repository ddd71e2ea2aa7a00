"""Conversations as blocks: every text, its cost, and its continuations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runner.audience.phone import mask_phone
from runner.audience.rows import leave_out_blank
from runner.campaign.timing_words import describe_timing
from runner.source.diagnostic import ProblemError
from runner.text.include import include_folder
from runner.text.preview import Branch, Bubble, Turn, list_branches, list_bubbles
from runner.text.segment import advise
from runner.text.template import MissingVariablesError, TextCompiler
from runner.view.blocks import Code, Items, Section
from runner.wording import count_words, printable
from runner.workflow.campaigns import show_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from runner.campaign.message_model import Message, TemplateText
    from runner.campaign.model import Campaign
    from runner.text.preview import CaseFinder, CaseReason, Conversation
    from runner.view.blocks import Block

_SHOWN_ANSWERS = 4
_SHOWN_CHARACTERS = 6


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
        people = count_words(finder.people, "person", "people")
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
