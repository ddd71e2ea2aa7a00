"""`runner who`: everything about one person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Command
from runner.cli.console import print_prose, show
from runner.cli.encoding import print_text
from runner.cli.options import format_option, region_option, target_scope
from runner.reasons import REASONS
from runner.wording import printable, show_time
from runner.workflow.records.opt_outs import SOURCES
from runner.workflow.who import find_person

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.workflow.scope import Scope
    from runner.workflow.who import NextText, PersonCampaign, PersonDocument, ReceivedText

_STATES = {
    "confirmed": "",
    "doubtful": "; a person must decide: `runner optouts list`",
    "dismissed": "; dismissed",
}


@click.command(
    cls=Command,
    epilog="\b\nExamples:\n  runner who +14155550101\n"
    "  runner who '(415) 555-0101' --region US --target live\n  runner who +14155550101 --format json",
)
@click.argument("phone", metavar="PHONE")
@target_scope
@region_option
@format_option("human", "json")
def command(scope: Scope, phone: str, region: str | None, format_: str) -> int:
    """Show what a person got, what they answered, whether they opted out, and what they get next.

    Covers the ledger and record files of one target, and the campaigns at PATH. A campaign that sends them
    nothing says why. With --format json it is the answer to a request for access to one's data. Answers are
    as of the last `runner reconcile`. Reads only, and calls no service.
    """
    found = find_person(scope, phone, region)
    show(found, format_, {"human": _write_human})
    return int(not found.is_complete)


def _write_human(found: PersonDocument) -> None:
    print_text(f"{found.phone} on {found.target}", bold=True)
    if not found.opt_outs:
        print_prose("Not opted out.")
    for one in found.opt_outs:
        print_prose(f"Opted out {SOURCES[one.source]}, {show_time(one.at)}{_STATES[one.state]}.")
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
        yield from (f"  “{printable(text)}”" for text in one.texts or ())
    for answer in campaign.answers:
        question = printable(answer.question_tag or answer.question_text)
        when = answer.created.partition(".")[0]
        yield f"{answer.message}: answered {question}: {printable(answer.answer)} ({when})"
    for following in campaign.next:
        yield _write_next(following)
    if campaign.file is None and is_complete:
        yield "the campaign's file is not here: what it sends next is not known"
    elif campaign.file is None:
        yield "what it sends next is not known: a campaign could not be planned"
    elif not campaign.is_recipient:
        yield "not in its audience: gets nothing more"


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
