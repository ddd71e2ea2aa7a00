"""`runner optouts`: the people that no campaign on a target may text."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.command import Group
from runner.cli.confirmation import APPROVAL, require_approval
from runner.cli.console import print_json, print_prose
from runner.cli.options import format_option, ledger_scope, region_option
from runner.cli.output.screen import print_blocks
from runner.view.blocks import Section, Sentence, TableBlock
from runner.wording import count_words, show_time
from runner.workflow.records.opt_outs import (
    SOURCES,
    decide_replies,
    enter_people,
    import_people,
    let_people_in,
    list_opt_outs,
)
from runner.workflow.records.phones import PHONE_FORMS, PhoneReading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.view.blocks import Block
    from runner.workflow.records.opt_outs import OptOutsDocument
    from runner.workflow.scope import Scope

_SCREEN = 20
"""Most people that are listed without -v."""
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_PHONES = click.argument("phones", nargs=-1, required=True, metavar="PHONE...")
_REPLIES = click.argument("replies", nargs=-1, required=True, metavar="REPLY...")


@click.group(cls=Group, name="optouts")
def command() -> None:
    """Show and change who has opted out on a target.

    No campaign on the target texts these people. `runner reconcile` recognises opt-outs in replies, in ten
    languages. A keyword such as STOP, or a sentence that begins with STOP, counts at once. A reply that only
    sounds like an opt-out, such as "please stop texting me", is listed for a person to decide; until then its
    author is not texted either. A reply that asks for texts again, such as START, is listed too: it does not
    let anybody in by itself.

    Some services handle STOP themselves and report no result for it. If the service says that a participant
    opted out, as the sandbox does, that counts. Opt-outs that the service does not report are not seen, such
    as replies to a plain text without `replies: recorded`, or after the end of a survey: add these people by
    hand, or import the service's list.

    Opt-outs are stored as keyed fingerprints: in the ledger, and in campaigns/<target>.suppressions.json,
    which `runner ci record` commits and every plan reads. So they hold on machines with another ledger, and
    when the campaign that somebody replied to is gone.
    """


@command.command(
    "list",
    short_help="List opt-outs, and replies to decide.",
    epilog="\b\nExamples:\n  runner optouts list\n  runner optouts list --show-replies --target live",
)
@ledger_scope
@format_option("human", "json")
@click.option("--show-replies", is_flag=True, help="Show the text of each reply, and of its question.")
def list_(scope: Scope, format_: str, show_replies: bool) -> int:
    """List people who opted out, by the fingerprints of their phones, and replies to decide.

    The ledger has no phones of theirs: `runner who PHONE` tells about one person.
    """
    view = list_opt_outs(scope, with_texts=show_replies)
    if format_ == "json":
        print_json(view)
    else:
        print_blocks(_show_list(view, with_texts=show_replies, shows_all=scope.verbose))
    return 0


@command.command(epilog="\b\nExample:\n  runner optouts add +14155550101 +14155550102 --target live")
@_PHONES
@ledger_scope
@region_option
@format_option("human", "json")
def add(scope: Scope, phones: tuple[str, ...], region: str | None, format_: str) -> int:
    """Add people who opted out.

    Use it for people who opted out in another way than by a reply, such as by mail or on the phone. A phone
    in national form is read as one of the campaigns' country, if they name a single one, or of --region.
    """
    return _show_change(enter_people(scope, phones, region), format_)


@command.command(epilog="\b\nExample:\n  runner optouts remove +14155550101 --target live")
@_PHONES
@ledger_scope
@region_option
@format_option("human", "json")
@APPROVAL
def remove(
    scope: Scope, phones: tuple[str, ...], region: str | None, format_: str, auto_approve: bool
) -> int:
    """Let people be texted again.

    Use it for people who have asked for texts again. Their earlier opt-outs stay on record but no longer
    count; their next STOP counts again. If they had asked to be forgotten, there is no record of what they
    got: they are texted like newcomers. Machines that share the record learn of it.
    """
    approve = partial(require_approval, is_approved=auto_approve)
    return _show_change(let_people_in(scope, phones, region, approve), format_)


@command.command(
    epilog="\b\nExample:\n  runner optouts list --show-replies\n"
    "  runner optouts confirm 4ef8a3a0-4c5b-4bb6-a9f7-0e6ad0b3bd2b",
)
@_REPLIES
@ledger_scope
@format_option("human", "json")
def confirm(scope: Scope, replies: tuple[str, ...], format_: str) -> int:
    """Confirm what replies seem to ask for.

    The author of a reply that opts out is not texted any more. The author of a reply that asks for texts
    again is let in: earlier opt-outs no longer count.
    """
    return _show_change(decide_replies(scope, replies, "confirmed"), format_)


@command.command(
    epilog="\b\nExample:\n  runner optouts list --show-replies\n"
    "  runner optouts dismiss 4ef8a3a0-4c5b-4bb6-a9f7-0e6ad0b3bd2b",
)
@_REPLIES
@ledger_scope
@format_option("human", "json")
def dismiss(scope: Scope, replies: tuple[str, ...], format_: str) -> int:
    """Dismiss what replies seem to ask for.

    The author of a reply that sounded like an opt-out is texted again, unless there is another opt-out. The
    author of a reply that asked for texts again stays out.
    """
    return _show_change(decide_replies(scope, replies, "dismissed"), format_)


@command.command(
    "import",
    epilog="\b\nExample:\n  runner optouts import stopped.csv --phone-column Mobile --region US",
)
@click.argument("file", type=_FILE)
@ledger_scope
@format_option("human", "json")
@click.option(
    "--phone-column",
    default="phone",
    show_default=True,
    metavar="NAME",
    help="The column that has the phones.",
)
@region_option
@click.option(
    "--phone-form",
    type=click.Choice(PHONE_FORMS),
    help="What phones without + or another prefix are.  [default: both; all readings are entered]",
)
def import_(
    scope: Scope,
    file: Path,
    format_: str,
    phone_column: str,
    region: str | None,
    phone_form: Any,
) -> int:
    """Import opt-outs from a CSV file.

    FILE has a column of phones. It is imported completely or not at all: if one row cannot be read, nothing
    changes. What another repository has on record needs no import: put its file of suppressions below
    `campaigns/`.
    """
    reading = PhoneReading(phone_column, region, phone_form)
    return _show_change(import_people(scope, file, reading), format_)


_DONE = {
    "add": "new",
    "import": "new",
    "remove": "dismissed",
    "confirm": "confirmed",
    "dismiss": "dismissed",
}


def _show_change(done: OptOutsDocument, format_: str) -> int:
    """Write the number of entries that a command has made or changed, and the record since."""
    if format_ == "json":
        print_json(done)
    else:
        changed = count_words(done.changed, "entry", "entries")
        print_prose(f"{changed} {_DONE[done.command]}. {_sentence(done)}")
    return 0


def _sentence(view: OptOutsDocument) -> str:
    people = count_words(view.opted_out, "person has", "people have")
    waiting = count_words(view.doubtful, "doubtful reply waits", "doubtful replies wait")
    asking = f"{count_words(view.opt_ins, 'reply asks', 'replies ask')} for texts again"
    more = f" {asking}: `runner optouts list`." if view.opt_ins else ""
    return f"{view.target}: {people} opted out; {waiting} for a decision.{more}"


def _show_list(view: OptOutsDocument, *, with_texts: bool, shows_all: bool) -> Iterator[Block]:
    yield Sentence(_sentence(view))
    people = view.people or ()
    listed = people if shows_all else people[:_SCREEN]
    rows = [(one.fingerprint, show_time(one.since), SOURCES[one.source]) for one in listed]
    yield TableBlock(("fingerprint", "since", "how it is known"), rows, figures=False)
    if len(listed) < len(people):
        yield Sentence(f"{len(people) - len(listed):,} earlier ones: `runner optouts list -v`.")
    for asks, (title, remedy) in _ASKED.items():
        table = _tabulate(view, asks, with_texts=with_texts)
        if table.rows:
            yield Section(title, [table, Sentence(remedy)])


_ASKED = {
    "opt_out": (
        "Doubtful replies",
        "Decide with `runner optouts confirm REPLY` or `runner optouts dismiss REPLY`.",
    ),
    "opt_in": (
        "Replies that ask for texts again",
        "Let the author in with `runner optouts confirm REPLY`, or not with `runner optouts dismiss REPLY`.",
    ),
}


def _tabulate(view: OptOutsDocument, asks: str, *, with_texts: bool) -> TableBlock:
    replies = [one for one in view.replies or () if one.asks == asks]
    if with_texts:
        texts = [
            (one.reply, f"{one.campaign or ''}/{one.message or ''}", one.question or "", one.text or "")
            for one in replies
        ]
        return TableBlock(("reply", "campaign", "question", "what it says"), texts, figures=False)
    rows = [
        (
            one.reply,
            show_time(one.found_at),
            "one person" if one.people == 1 else f"one of {one.people:,} people, all of them held",
        )
        for one in replies
    ]
    return TableBlock(("reply", "found", "from"), rows, figures=False)
