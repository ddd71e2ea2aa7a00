"""A person as blocks: their texts, answers and opt-outs, and what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.errors import RunnerError
from runner.reasons import REASONS
from runner.view.blocks import Items, ListItem, Section, Sentence
from runner.wording import show_time
from runner.workflow.records.opt_outs import SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.view.blocks import Block
    from runner.workflow.who import GivenAnswer, NextText, PersonCampaign, PersonDocument, ReceivedText


def show_person(found: PersonDocument) -> Iterator[Block]:
    """Yield all that is known of a person."""
    yield Sentence(f"{found.phone} on {found.target}", "strong")
    if not found.opt_outs:
        yield Sentence("Not opted out.")
    for one in found.opt_outs:
        doubt = "; a person must decide: `runner optouts list`" if one.state == "doubtful" else ""
        head = "Opted out once, and let in again" if one.state == "dismissed" else "Opted out"
        yield Sentence(f"{head}: {SOURCES[one.source]}, {show_time(one.at)}{doubt}.")
    if not found.campaigns:
        which = "campaign" if found.is_complete else "campaign that could be planned"
        yield Sentence(f"No {which} has anything of them, nor has them in its audience.")
    for campaign in found.campaigns:
        yield Section(campaign.name, [Items(list(_list_items(campaign, is_complete=found.is_complete)))])


def _list_items(campaign: PersonCampaign, *, is_complete: bool) -> Iterator[ListItem]:
    for text in campaign.received:
        said = [line for one in text.texts or () for line in f"“{one}”".splitlines()]
        yield ListItem(_describe_received(text), said)
    for answer in campaign.answers:
        question = answer.question_tag or answer.question_text
        words, *more = answer.answer.splitlines() or [""]
        when = show_time(answer.created)
        yield ListItem(f"{_name_text(answer)}: answered {question}, {when}: {words}", more)
    yield from (ListItem(_describe_next(one)) for one in campaign.next)
    if campaign.file is None and is_complete:
        yield ListItem("the campaign's file is not here: what it sends next is not known")
    elif campaign.file is None:
        yield ListItem("what it sends next is not known: a campaign could not be planned")
    elif not campaign.is_recipient:
        yield ListItem("not in its audience: gets nothing more")


def _name_text(text: ReceivedText | GivenAnswer) -> str:
    """Return the message's id, with its wave."""
    return f"{text.message}, {text.wave}" if text.wave else text.message


def _describe_received(text: ReceivedText) -> str:
    name = f"{_name_text(text)} ({text.arm})" if text.arm else _name_text(text)
    if not text.is_certain:
        return f"{name}: tried {show_time(text.at)}; whether it arrived is not known"
    session = f"; session {text.session.lower()}" if text.session else ""
    return f"{name}: sent {show_time(text.at)}{session}"


def _describe_next(text: NextText) -> str:
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
    lines = [line for one in found.campaigns for line in map(_describe_received, one.received)]
    lines += [_describe_next(following) for one in found.campaigns for following in one.next]
    return Sentence(f"On {found.target}: {'; '.join(lines)}.")
