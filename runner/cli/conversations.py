"""Writes conversations for people and programs: every text, what it costs, and how it goes on."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from runner.campaign.audience_rows import leave_out_blank
from runner.campaign.conversation import Bubble, Turn, iterate_bubbles, iterate_turns
from runner.campaign.include import include_folder
from runner.campaign.phone import mask_phone
from runner.campaign.substitute import advise, find_substitute
from runner.campaign.template import MissingVariablesError, TemplateProblemError, TextCompiler
from runner.cli.campaigns import show_path
from runner.cli.console import count_words
from runner.cli.inert import inert, printable
from runner.cli.timing_words import describe_timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.campaign.audience import Recipient
    from runner.campaign.branch import Branch
    from runner.campaign.case import CaseFinder, Conversation, Reason
    from runner.campaign.model import Campaign, Message, TemplateText

_WIDTH = 60
_SHOWN_ANSWERS = 4
_SHOWN_CHARACTERS = 6


@dataclass(frozen=True, slots=True)
class Preview:
    """What is shown of a campaign.

    Attributes:
        campaign: the campaign.
        recipient: one of its recipients.
        conversations: what this one gets, message by message.
        cases: the worst conversations of each message and arm; none if one recipient was asked for.
        why_not: why this recipient gets nothing; None if they do.
    """

    campaign: Campaign
    recipient: Recipient
    conversations: tuple[Conversation, ...]
    cases: tuple[tuple[CaseFinder, tuple[Conversation, ...]], ...] = ()
    why_not: str | None = None


def write_preview(preview: Preview) -> None:
    """Write a preview for people to standard output."""
    campaign = preview.campaign
    if not preview.cases:
        click.secho(f"{campaign.name}, as {mask_phone(preview.recipient.phone)} will see it", bold=True)
        if preview.why_not:
            click.secho(f"({preview.why_not})", fg="yellow")
        for conversation in preview.conversations:
            click.echo(f"\n{_title(conversation.message, conversation.arm)}")
            _write_timing(preview, conversation)
            _write_conversation(conversation)
        return
    click.secho(f"{campaign.name}, worst cases first", bold=True)
    for finder, cases in preview.cases:
        click.echo(f"\n{_title(cases[0].message, cases[0].arm)}: {count_words(finder.people, 'recipient')}")
        _write_timing(preview, cases[0])
        for number, case in enumerate(cases, start=1):
            click.echo(f"\n  {click.style(f'case {number}', bold=True)}: {_who(case)}")
            for reason in case.reasons:
                click.echo(f"    {_reason_words(reason)}")
            _write_conversation(case)
        remarks = "".join(f"\n  {line}" for line in _remarks(finder))
        click.echo(remarks, nl=bool(remarks))


def _title(message: Message, arm: str | None) -> str:
    words = f", arm {arm}" if arm is not None else ""
    return f"{message.id} ({message.method}, tag {message.tag}{words})"


def _who(case: Conversation) -> str:
    recipient = case.recipient
    return f"{mask_phone(recipient.phone)}, line {recipient.line} of {show_path(recipient.file)}"


def _reason_words(reason: Reason) -> str:
    count = reason.count
    if reason.kind == "most_segments":
        return f"the most segments: {count:,}"
    if reason.kind == "longest_text":
        return f"the longest text: {count_words(count, 'character')}"
    people = count_words(count, "recipient")
    return f"{people} {'gets' if count == 1 else 'get'} this: {_branch_words(reason.branch)}"


def _branch_words(branch: Branch | None) -> str:
    return "" if branch is None else f"{branch.words} ({show_path(branch.file)}:{branch.line})"


def _remarks(finder: CaseFinder) -> Iterator[str]:
    for branch in finder.list_untaken():
        yield f"Nobody gets this: {_branch_words(branch)}"
    ranked = sorted(finder.costs.items(), key=lambda item: (-item[1].recipients, item[0]))
    for character, cost in ranked[:_SHOWN_CHARACTERS]:
        yield advise(character, cost.recipients, cost.segments, cost.segments_without)
    if len(ranked) > _SHOWN_CHARACTERS:
        yield f"and {count_words(len(ranked) - _SHOWN_CHARACTERS, 'more character')} outside GSM-7"


def _write_timing(preview: Preview, conversation: Conversation) -> None:
    for line in describe_timing(preview.campaign, conversation.message):
        click.echo(f"  {line}")


def _write_conversation(conversation: Conversation) -> None:
    is_text = conversation.message.method == "SMS"
    for place, bubble in enumerate(conversation.bubbles):
        title = click.style(_name(bubble), fg="cyan")
        click.echo(f"\n  {title}  [{_badge(bubble)}]" if is_text else f"\n  {title}")
        for line in bubble.text.split("\n"):
            for part in textwrap.wrap(printable(line), _WIDTH) or [""]:
                click.echo(f"  │ {part}")
        for turn in iterate_turns(conversation.bubbles, place):
            click.echo(f"    {_turn_words(turn, is_text=is_text)}")


def _name(bubble: Bubble) -> str:
    return f"{bubble.part} {bubble.question_tag}" if bubble.question_tag else bubble.part


def _badge(bubble: Bubble) -> str:
    count = bubble.segments
    badge = f"{count_words(count.segments, 'segment')}, {count.units} in {count.encoding}"
    return badge if count.costly is None else f"{badge} because of {count.costly!r}"


def _turn_words(turn: Turn, *, is_text: bool) -> str:
    if turn.kind == "invalid" and turn.then is not None:
        cost = f", {count_words(turn.then.segments.segments, 'segment')} more" if is_text else ""
        return f"anything else → asked again{cost}"
    then = "the end" if turn.then is None else _name(turn.then)
    skipped = f", {count_words(turn.skipped, 'question')} skipped" if turn.skipped else ""
    return f"{_answer_words(turn)} → {then}{skipped}"


def _answer_words(turn: Turn) -> str:
    quoted = [f'"{printable(answer)}"' for answer in turn.answers]
    if not quoted:
        return "any answer"
    if len(quoted) > _SHOWN_ANSWERS:
        return f"{quoted[0]}, {quoted[1]} … {quoted[-1]}"
    return " or ".join(quoted)


def preview_markdown(preview: Preview) -> str:
    """Return a preview as Markdown for a pull request."""
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
            for place, bubble in enumerate(conversation.bubbles):
                badge = f" ({_badge(bubble)})" if is_text else ""
                text += _markdown_bubble(conversation.bubbles, place, badge, is_text=is_text)
        text += "".join(f"\n- {line}\n" for line in (_remarks(finder) if finder else ()))
    return text


def example_markdown(campaign: Campaign) -> str:
    """Return a conversation of each message and arm in Markdown, for readers who must not see who gets it.

    The campaign's own variables have their values. For those of recipients their names stand, as in
    `‹first_name›`: who has which value is nobody's business in a comment. A text that chooses or computes
    by such a variable stands as its template: what an invented value leads to would mislead.
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
            bubbles = tuple(iterate_bubbles(_define(varied, show)))
            text += f"**{inert(_title(varied, arm))}**\n\n"
            text += "".join(f"- {inert(line)}\n" for line in describe_timing(campaign, varied))
            for place in range(len(bubbles)):
                text += _markdown_bubble(bubbles, place, "", is_text=False, write=inert)
            text += "\n"
    return text.strip()


def _define(message: Message, show: Callable[[TemplateText], str]) -> dict[str, Any]:
    """Return the definition of a message whose texts are shown in some way."""
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
    bubbles: Sequence[Bubble],
    place: int,
    badge: str,
    *,
    is_text: bool = True,
    write: Callable[[str], str] = str,
) -> str:
    bubble = bubbles[place]
    # Indented code: whatever a text says, it is shown and never read as Markdown.
    shown = "".join(f"    {printable(line)}\n" for line in bubble.text.split("\n"))
    turns = (_turn_words(turn, is_text=is_text) for turn in iterate_turns(bubbles, place))
    return f"\n**{write(_name(bubble))}**{badge}\n\n{shown}\n" + "".join(f"- {write(one)}\n" for one in turns)


def preview_json(preview: Preview) -> dict[str, Any]:
    """Return a preview as `schemas/preview.schema.json` describes it."""
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
                "part": turn.then.part if turn.then else None,
                "question_tag": turn.then.question_tag if turn.then else None,
            }
            for turn in iterate_turns(conversation.bubbles, place)
        ],
    }


def _reason_json(reason: Reason) -> dict[str, Any]:
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
