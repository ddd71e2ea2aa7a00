"""Conversations for people and programs: every text, its cost, and its continuations."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click

from runner.audience.phone import mask_phone
from runner.audience.rows import leave_out_blank
from runner.campaign.timing_words import describe_timing
from runner.cli.console import print_prose
from runner.cli.encoding import print_text
from runner.text.include import include_folder
from runner.text.preview import Bubble, Turn, list_bubbles
from runner.text.segment import advise
from runner.text.template import MissingVariablesError, TemplateProblemError, TextCompiler
from runner.wording import count_words, escape_markdown, printable
from runner.workflow.campaigns import show_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.campaign.model import Campaign, Message, TemplateText
    from runner.text.preview import Branch, CaseFinder, CaseReason, Conversation
    from runner.workflow.preview import Preview

_WIDTH = 60
_SHOWN_ANSWERS = 4
_SHOWN_CHARACTERS = 6


def write_preview(preview: Preview) -> None:
    """Write a preview for people to standard output."""
    campaign = preview.campaign
    if not preview.cases:
        who = mask_phone(preview.recipient.phone)
        print_prose(click.style(f"{campaign.name}, as {who} will see it", bold=True))
        if preview.why_not:
            print_prose(click.style(f"({preview.why_not})", fg="yellow"))
        for conversation in preview.conversations:
            print_prose(f"\n{_title(conversation.message, conversation.arm)}")
            _write_timing(preview, conversation)
            _write_conversation(conversation)
        return
    print_prose(click.style(f"{campaign.name}, worst cases first", bold=True))
    for finder, cases in preview.cases:
        print_prose(f"\n{_title(cases[0].message, cases[0].arm)}: {count_words(finder.people, 'recipient')}")
        _write_timing(preview, cases[0])
        for number, case in enumerate(cases, start=1):
            print_prose(f"\n  {click.style(f'case {number}', bold=True)}: {_who(case)}")
            for reason in case.reasons:
                print_prose(f"    {_reason_words(reason)}")
            _write_conversation(case)
        for place, line in enumerate(_remarks(finder)):
            print_prose(f"  {line}" if place else f"\n  {line}")


def _title(message: Message, arm: str | None) -> str:
    words = f", arm {arm}" if arm is not None else ""
    return f"{message.id} ({message.method}, tag {message.tag}{words})"


def _who(case: Conversation) -> str:
    recipient = case.recipient
    return f"{mask_phone(recipient.phone)}, line {recipient.line} of {show_path(recipient.file)}"


def _reason_words(reason: CaseReason) -> str:
    count = reason.count
    if reason.kind == "most_segments":
        return f"the most segments: {count:,}"
    if reason.kind == "longest_text":
        return f"the longest text: {count_words(count, 'character')}"
    people = count_words(count, "recipient")
    return f"{people} {'gets' if count == 1 else 'get'} this: {_branch_words(reason.branch)}"


def _branch_words(branch: Branch | None) -> str:
    return "" if branch is None else f"{branch.words} ({branch.file}:{branch.line})"


def _remarks(finder: CaseFinder) -> Iterator[str]:
    for branch in finder.list_untaken():
        yield f"Nobody gets this: {_branch_words(branch)}"
    ranked = sorted(finder.list_characters(), key=lambda one: (-one.recipients, one.character))
    for cost in ranked[:_SHOWN_CHARACTERS]:
        yield advise(cost.character, cost.recipients, cost.segments, cost.segments_without)
    if len(ranked) > _SHOWN_CHARACTERS:
        yield f"and {count_words(len(ranked) - _SHOWN_CHARACTERS, 'more character')} outside GSM-7"


def _write_timing(preview: Preview, conversation: Conversation) -> None:
    for line in describe_timing(preview.campaign, conversation.message):
        print_prose(f"  {line}")


def _write_conversation(conversation: Conversation) -> None:
    is_text = conversation.message.method == "SMS"
    for bubble in conversation.bubbles:
        title = click.style(_name(bubble), fg="cyan")
        print_prose(f"\n  {title}  [{_badge(bubble)}]" if is_text else f"\n  {title}")
        for line in bubble.text.split("\n"):
            for part in textwrap.wrap(printable(line), _WIDTH) or [""]:
                print_text(f"  │ {part}")
        for turn in bubble.turns:
            print_prose(f"    {_turn_words(turn, bubble, is_text=is_text)}")


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


def _answer_words(turn: Turn) -> str:
    quoted = [f'"{printable(answer)}"' for answer in turn.answers]
    if not quoted:
        return "any answer"
    if len(quoted) > _SHOWN_ANSWERS:
        return f"{quoted[0]}, {quoted[1]} … {quoted[-1]}"
    return " or ".join(quoted)


def write_markdown(preview: Preview) -> None:
    """Write a preview as Markdown for a pull request to standard output."""
    groups = preview.cases or ((None, preview.conversations),)
    text = f"## Preview of {preview.campaign.name}\n"
    if preview.why_not:
        text += f"\n{mask_phone(preview.recipient.phone)} is {preview.why_not}.\n"
    for finder, conversations in groups:
        for conversation in conversations:
            reasons = "; ".join(_reason_words(reason) for reason in conversation.reasons)
            title = _title(conversation.message, conversation.arm)
            text += f"\n### {title}, {mask_phone(conversation.recipient.phone)}\n\n"
            text += "".join(f"- {line}\n" for line in describe_timing(preview.campaign, conversation.message))
            text += f"- {reasons}\n" if reasons else ""
            is_text = conversation.message.method == "SMS"
            for bubble in conversation.bubbles:
                badge = f" ({_badge(bubble)})" if is_text else ""
                text += _markdown_bubble(bubble, badge, is_text=is_text)
        text += "".join(f"\n- {line}\n" for line in (_remarks(finder) if finder else ()))
    print_text(text, nl=False)


def example_markdown(campaign: Campaign) -> str:
    """Return a conversation of each message and arm in Markdown, for readers who must not see the recipients.

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
        except (MissingVariablesError, TemplateProblemError):
            return text.source
        return shown if all(f"‹{name}›" in shown for name in compiled.names - own.keys()) else text.source

    text = ""
    for message in campaign.messages:
        for arm, varied in campaign.list_arms(message.id).items() or ((None, message),):
            text += f"**{escape_markdown(_title(varied, arm))}**\n\n"
            text += "".join(f"- {escape_markdown(line)}\n" for line in describe_timing(campaign, varied))
            for bubble in list_bubbles(_define(varied, show)):
                text += _markdown_bubble(bubble, "", is_text=False, write=escape_markdown)
            text += "\n"
    return text.strip()


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


def _markdown_bubble(
    bubble: Bubble,
    badge: str,
    *,
    is_text: bool = True,
    write: Callable[[str], str] = str,
) -> str:
    # Indented code: no text in it is read as Markdown.
    shown = "".join(f"    {printable(line)}\n" for line in bubble.text.split("\n"))
    turns = (_turn_words(turn, bubble, is_text=is_text) for turn in bubble.turns)
    return f"\n**{write(_name(bubble))}**{badge}\n\n{shown}\n" + "".join(f"- {write(one)}\n" for one in turns)
