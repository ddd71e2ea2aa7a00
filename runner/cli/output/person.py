"""A person, for people: their texts, answers and opt-outs, and what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.cli.console import print_prose
from runner.cli.encoding import print_text
from runner.errors import RunnerError
from runner.reasons import REASONS
from runner.view.blocks import Sentence
from runner.wording import printable, show_time
from runner.workflow.records.opt_outs import SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.workflow.who import NextText, PersonCampaign, PersonDocument, ReceivedText

_STATES = {
    "confirmed": "",
    "doubtful": "; a person must decide: `runner optouts list`",
    "dismissed": "; dismissed",
}


def write_person(found: PersonDocument) -> None:
    """Write all that is known of a person to standard output."""
    print_text(f"{found.phone} on {found.target}", bold=True)
    if not found.opt_outs:
        print_prose("Not opted out.")
    for one in found.opt_outs:
        print_prose(f"Opted out: {SOURCES[one.source]}, {show_time(one.at)}{_STATES[one.state]}.")
    if not found.campaigns and found.is_complete:
        print_prose("No campaign has anything of them, nor has them in its audience.")
    elif not found.campaigns:
        print_prose("No campaign that could be planned has anything of them, nor has them in its audience.")
    for campaign in found.campaigns:
        print_text("")
        print_text(printable(campaign.name), bold=True)
        for line in _list_lines(campaign, is_complete=found.is_complete):
            print_prose(f"  {line}")


def _list_lines(campaign: PersonCampaign, *, is_complete: bool) -> Iterator[str]:
    for one in campaign.received:
        yield _write_received(one)
        yield from (f"  “{_write_lines(text)}”" for text in one.texts or ())
    for answer in campaign.answers:
        question = printable(answer.question_tag or answer.question_text)
        when = printable(show_time(answer.created))
        yield f"{answer.message}: answered {question}: {_write_lines(answer.answer)} ({when})"
    for following in campaign.next:
        yield _write_next(following)
    if campaign.file is None and is_complete:
        yield "the campaign's file is not here: what it sends next is not known"
    elif campaign.file is None:
        yield "what it sends next is not known: a campaign could not be planned"
    elif not campaign.is_recipient:
        yield "not in its audience: gets nothing more"


def _write_lines(text: str) -> str:
    """Return a text with its further lines below its first one."""
    return "\n     ".join(map(printable, text.splitlines()))


def _write_received(text: ReceivedText) -> str:
    arm = f" ({text.arm})" if text.arm else ""
    if not text.is_certain:
        return f"{text.message}{arm}: tried {show_time(text.at)}; whether it arrived is not known"
    session = f"; session {text.session.lower()}" if text.session else ""
    return f"{text.message}{arm}: sent {show_time(text.at)}{session}"


def _write_next(text: NextText) -> str:
    if text.disposition == "to_send":
        return f"{text.message}: sent by the next `runner apply`"
    due = f", not before {show_time(text.due)}" if text.due else ""
    reasons = f": {'; '.join(text.reasons)}" if text.reasons else ""
    return f"{text.message}: not now: {REASONS[text.disposition].label.lower()}{due}{reasons}"


def sum_up(find: Callable[[], PersonDocument]) -> Sentence:
    """Return what a person got of a single campaign, and gets next, in a line."""
    try:
        found = find()
    except RunnerError as error:
        # The conversation is shown without a target, too.
        return Sentence(f"What they got, and get next, is not known: {error.message}")
    lines = [line for one in found.campaigns for line in map(_write_received, one.received)]
    lines += [_write_next(following) for one in found.campaigns for following in one.next]
    return Sentence(f"On {found.target}: {'; '.join(lines)}.")
