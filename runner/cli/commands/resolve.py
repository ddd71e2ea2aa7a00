"""`runner resolve`: texts that may have reached people, and a person's word on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runner.cli.command import Command
from runner.cli.confirmation import APPROVAL, require_approval
from runner.cli.options import format_option, target_scope
from runner.cli.output.screen import show
from runner.view.blocks import Column, Items, Section, Sentence, TableBlock
from runner.wording import count_people, count_words, show_time
from runner.workflow.resolve import Word, resolve_launches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.view.blocks import Block
    from runner.workflow.resolve import ListedGroup, UnknownLaunch, Unresolved
    from runner.workflow.scope import Scope

_COLUMNS = ("the service's launch", Column("started", "text"))
_SHOWN = 5
"""Most launches of a group that are named."""


@click.command(cls=Command)
@target_scope
@format_option("human", "json")
@click.option("--message", metavar="ID", help="The message of the texts.")
@click.option("--launch", "key", metavar="KEY", help="The text: its key, or the service's guid.")
@click.option("--adopt", "guid", metavar="GUID", help="It was sent, as the service's launch GUID.")
@click.option("--not-sent", is_flag=True, help="This campaign did not send it: its people can be texted.")
@click.option("--adopt-all", is_flag=True, help="The campaigns sent all texts that are shown.")
@click.option("--not-sent-all", is_flag=True, help="The campaigns sent none of the texts that are shown.")
@APPROVAL
def resolve(scope: Scope, format_: str, auto_approve: bool, **words: Any) -> int:
    """List texts that may have reached people, and record what happened to them.

    A text has an unknown outcome if a run was about to send it: it is shown with the service's launches that
    it may be. An unexplained text is listed by the service under the campaign's tags, but not on record: it
    is from a run whose record is lost, or from somebody else. The people of both kinds are held: they are not
    texted. Texts of campaigns whose files are gone are listed, too.

    --adopt and --not-sent settle one text; --adopt-all and --not-sent-all settle all that are shown, after
    asking. Everybody of an adopted text counts as texted, in the campaign's present wave if it has waves, and
    even where the service lists fewer people. Exits with 4 while anything is unresolved. A campaign that is
    invalid, or held by another run, is left out, with exit code 3.

    Examples:
        runner resolve
        runner resolve campaigns/customer-pulse.yaml --adopt-all
        runner resolve --message nudge --not-sent-all
        runner resolve --launch 01c0330dfb2a63d67bfe --not-sent
        runner resolve --adopt 60ee2192-c686-4f61-a592-957a04378b6f
    """
    word = Word(**words)

    def approve(what: str) -> None:
        question = (
            f"Record {what} as sent? They are not texted again."
            if word.adopt_all
            else f"Record that {what} were not sent by these campaigns? The next `runner apply` texts them."
        )
        require_approval(question, is_approved=auto_approve)

    left = resolve_launches(scope, word, approve)
    show(left, format_, _show(left))
    return left.exit_code


def _show(left: Unresolved) -> Iterator[Block]:
    if not left:
        yield Sentence("Nothing is unresolved.")
    document = left.document
    names = [one.campaign for one in document.launches] + [one.campaign for one in document.unexplained]
    for name in dict.fromkeys(names):
        yield from (_show_launch(one) for one in document.launches if one.campaign == name)
        yield from (_show_group(one) for one in document.unexplained if one.campaign == name)


def _show_launch(launch: UnknownLaunch) -> Section:
    people = count_people(launch.recipients)
    when = show_time(launch.intent_at, to_second=True)
    rows = [
        (
            one.project_launch_guid,
            show_time(one.project_launch_start, to_second=True),
            one.recipients,
            one.recipients_in_common,
            "the same" if one.same_definition else "another",
        )
        for one in launch.candidates
    ]
    facts = [f"about to be sent {when}; {launch.detail}"]
    if not rows:
        facts.append("the service lists nothing that may be it; `runner apply` settles it")
    columns = (*_COLUMNS, "people", "of them ours", Column("text", "text"))
    wave = f" ({launch.wave})" if launch.wave else ""
    title = f"{launch.campaign}/{launch.message}{wave}: text {launch.key}, to {people}"
    return Section(title, [Items(facts), TableBlock(columns, rows)])


def _show_group(group: ListedGroup) -> Section:
    texts = count_words(len(group.launches), "text")
    people = count_people(group.recipients)
    rows = [
        (
            one.project_launch_guid,
            show_time(one.project_launch_start, to_second=True),
            "survey" if one.is_survey else "text",
            one.recipients,
        )
        for one in group.launches[:_SHOWN]
    ]
    table = TableBlock((*_COLUMNS, Column("kind", "text"), "people held"), rows)
    choice = " --message ID" if len(group.messages) > 1 else ""
    ways = [
        f"--adopt-all{choice}: a run whose record is lost sent them; these people are not texted again",
        "--not-sent-all: somebody else sent them; the next `runner apply` texts these people",
    ]
    if len(group.launches) > _SHOWN:
        ways.insert(0, f"and {len(group.launches) - _SHOWN:,} more (--format json lists all)")
    about = f"under the tag {group.tag!r}, with another text, or to other people, than this campaign plans"
    title = f"{group.campaign}/{' or '.join(group.messages)}: {texts} that no record explains, {people} held"
    return Section(title, [Items([about]), table, Items(ways)])
