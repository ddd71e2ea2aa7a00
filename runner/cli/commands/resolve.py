"""`runner resolve`: launches that may have reached people, and a person's word on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runner.cli.command import Command
from runner.cli.confirmation import APPROVAL, require_approval
from runner.cli.console import print_prose, print_table, show
from runner.cli.encoding import print_text
from runner.cli.options import format_option, target_scope
from runner.wording import count_words, show_time
from runner.workflow.resolve import Word, resolve_launches

if TYPE_CHECKING:
    from runner.workflow.resolve import ListedGroup, UnknownLaunch, Unresolved
    from runner.workflow.scope import Scope

UNKNOWN_OUTCOMES = 4
_SHOWN = 5
"""Most launches of a group that are named."""


@click.command(
    cls=Command,
    epilog="\b\nExamples:\n  runner resolve\n  runner resolve campaigns/customer-pulse.yaml --adopt-all\n"
    "  runner resolve --message nudge --not-sent-all\n"
    "  runner resolve --launch 01c0330dfb2a63d67bfe --not-sent\n"
    "  runner resolve --adopt 60ee2192-c686-4f61-a592-957a04378b6f",
)
@target_scope
@format_option("human", "json")
@click.option("--message", metavar="ID", help="The message of the launches.")
@click.option("--launch", "key", metavar="KEY", help="The launch: its key, or the service's guid.")
@click.option("--adopt", "guid", metavar="GUID", help="It was sent, as the service's launch GUID.")
@click.option("--not-sent", is_flag=True, help="This campaign did not send it: its people can be texted.")
@click.option("--adopt-all", is_flag=True, help="The campaigns sent all launches that are shown.")
@click.option("--not-sent-all", is_flag=True, help="The campaigns sent none of the launches that are shown.")
@APPROVAL
def command(scope: Scope, format_: str, auto_approve: bool, **words: Any) -> int:
    """List launches that may have reached people, and record what happened to them.

    A launch has an unknown outcome if a run was about to send it: it is shown with the service's launches
    that it may be. An unexplained launch is listed by the service under the campaign's tags, but not on
    record: it is from a run whose record is lost, or from somebody else. The people of both kinds are held:
    they are not texted. Launches of campaigns whose files are gone are listed, too.

    --adopt and --not-sent settle one launch; --adopt-all and --not-sent-all settle all that are shown, after
    asking. Recipients that an adopted launch has not reached can be texted again. Exits with 4 while
    unresolved launches are left.
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
    show(left, format_, {"human": _write_human})
    return UNKNOWN_OUTCOMES if left else int(left.is_behind)


def _write_human(left: Unresolved) -> None:
    if not left:
        print_prose("Nothing is unresolved.")
    document = left.document
    for name in (case.campaign.name for case in left):
        for launch in document.launches:
            if launch.campaign == name:
                _write_launch(launch)
        for group in document.unexplained:
            if group.campaign == name:
                _write_group(group)


def _write_launch(launch: UnknownLaunch) -> None:
    people = count_words(launch.recipients, "recipient")
    print_text(f"{launch.campaign}/{launch.message}  launch {launch.key}, {people}", bold=True)
    print_prose(f"  about to be sent {show_time(launch.intent_at, to_second=True)}; {launch.detail}")
    if not launch.candidates:
        print_prose("  the service lists nothing that may be it; `runner apply` settles it")
        return
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
    print_table(("the service's launch", "started", "recipients", "of them ours", "text"), rows)


def _write_group(group: ListedGroup) -> None:
    names = f"{group.campaign}/{' or '.join(group.messages)}"
    launches = count_words(len(group.launches), "launch", "launches")
    people = count_words(group.recipients, "recipient")
    print_text(f"{names}  {launches} that no record explains, {people} held", bold=True)
    print_prose(
        f"  under the tag {group.tag!r}, with another text, or to other people, than this campaign plans"
    )
    rows = [
        (
            one.project_launch_guid,
            show_time(one.project_launch_start, to_second=True),
            "survey" if one.is_survey else "text",
            one.recipients,
        )
        for one in group.launches[:_SHOWN]
    ]
    print_table(("the service's launch", "started", "kind", "recipients held"), rows)
    if len(group.launches) > _SHOWN:
        print_prose(f"  and {len(group.launches) - _SHOWN:,} more (--format json lists all)")
    choice = " --message ID" if len(group.messages) > 1 else ""
    print_prose(
        f"  --adopt-all{choice}: a run whose record is lost sent them; these people are not texted again"
    )
    print_prose("  --not-sent-all: somebody else sent them; the next `runner apply` texts these people")
