"""`runner who`, `runner optouts` and `runner forget`: what is known of people, and who is never texted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from runner.audience.phone import mask_phone
from runner.cli.command import Command, Group
from runner.cli.confirmation import APPROVAL, require_approval
from runner.cli.options import FILE, LOCK_TIMEOUT, format_option, ledger_scope, region_option, target_scope
from runner.cli.output.person import show_person
from runner.cli.output.screen import show
from runner.view.blocks import Items, Section, Sentence, TableBlock
from runner.wording import count_words, show_time
from runner.workflow.failures import Failures
from runner.workflow.records import forgetting
from runner.workflow.records.opt_outs import (
    SOURCES,
    decide_replies,
    enter_people,
    import_people,
    let_people_in,
    list_opt_outs,
)
from runner.workflow.records.phones import PHONE_FORMS, PhoneReading, read_phones
from runner.workflow.who import find_person

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runner.view.blocks import Block
    from runner.workflow.records.forgetting import ForgottenPerson
    from runner.workflow.records.opt_outs import OptOutsDocument
    from runner.workflow.scope import Scope


@click.command(cls=Command)
@click.argument("phone", metavar="PHONE")
@target_scope
@region_option
@format_option("human", "json")
def who(scope: Scope, phone: str, region: str | None, format_: str) -> int:
    """Show what a person got, what they answered, whether they opted out, and what they get next.

    Covers the ledger and record files of one target, and the campaigns at PATH. A campaign that sends them
    nothing says why. With --format json it is the answer to a request for access to one's data. Answers are
    as of the last `runner reconcile`. Reads only, and calls no service.

    Examples:
        runner who +14155550101
        runner who '(415) 555-0101' --region US --target live
        runner who +14155550101 --format json
    """
    failures = Failures(is_tolerant=True)
    found = find_person(scope, phone, region, failures)
    show(found, format_, show_person(found))
    return failures.find_exit_code(None if failures.is_total else 0)


_SCREEN = 20
"""Most people that are listed without -v."""
_PHONES = click.argument("phones", nargs=-1, required=True, metavar="PHONE...")
_REPLIES = click.argument("replies", nargs=-1, required=True, metavar="REPLY...")


@click.group(cls=Group, name="optouts")
def optouts() -> None:
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


@optouts.command("list", short_help="List opt-outs, and replies to decide.")
@ledger_scope
@format_option("human", "json")
@click.option("--show-replies", is_flag=True, help="Show the text of each reply, and of its question.")
def list_(scope: Scope, format_: str, show_replies: bool) -> int:
    """List people who opted out, by the fingerprints of their phones, and replies to decide.

    The ledger has no phones of theirs: `runner who PHONE` tells about one person.

    Examples:
        runner optouts list
        runner optouts list --show-replies --target live
    """
    view = list_opt_outs(scope, with_texts=show_replies)
    show(view, format_, _show_list(view, with_texts=show_replies, shows_all=scope.verbose))
    return 0


@optouts.command()
@_PHONES
@ledger_scope
@region_option
@format_option("human", "json")
def add(scope: Scope, phones: tuple[str, ...], region: str | None, format_: str) -> int:
    """Add people who opted out.

    Use it for people who opted out in another way than by a reply, such as by mail or on the phone. A phone
    in national form is read as one of the campaigns' country, if they name a single one, or of --region.

    Example:
        runner optouts add +14155550101 +14155550102 --target live
    """
    return _show_change(enter_people(scope, phones, region), format_)


@optouts.command()
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

    Example:
        runner optouts remove +14155550101 --target live
    """
    approve = partial(require_approval, is_approved=auto_approve)
    return _show_change(let_people_in(scope, phones, region, approve), format_)


@optouts.command()
@_REPLIES
@ledger_scope
@format_option("human", "json")
def confirm(scope: Scope, replies: tuple[str, ...], format_: str) -> int:
    """Confirm what replies seem to ask for.

    The author of a reply that opts out is not texted any more. The author of a reply that asks for texts
    again is let in: earlier opt-outs no longer count.

    Example:
        runner optouts list --show-replies
        runner optouts confirm 4ef8a3a0-4c5b-4bb6-a9f7-0e6ad0b3bd2b
    """
    return _show_change(decide_replies(scope, replies, "confirmed"), format_)


@optouts.command()
@_REPLIES
@ledger_scope
@format_option("human", "json")
def dismiss(scope: Scope, replies: tuple[str, ...], format_: str) -> int:
    """Dismiss what replies seem to ask for.

    The author of a reply that sounded like an opt-out is texted again, unless there is another opt-out. The
    author of a reply that asked for texts again stays out.

    Example:
        runner optouts list --show-replies
        runner optouts dismiss 4ef8a3a0-4c5b-4bb6-a9f7-0e6ad0b3bd2b
    """
    return _show_change(decide_replies(scope, replies, "dismissed"), format_)


@optouts.command("import")
@click.argument("file", type=FILE)
@ledger_scope
@format_option("human", "json")
@click.option("--phone-column", "column", default="phone", metavar="NAME", help="The column of the phones.")
@region_option
@click.option(
    "--phone-form",
    "form",
    type=click.Choice(PHONE_FORMS),
    help="What phones without + or another prefix are.  [default: both; all readings are entered]",
)
def import_(scope: Scope, file: Path, format_: str, **reading: Any) -> int:
    """Import opt-outs from a CSV file.

    FILE has a column of phones. It is imported completely or not at all: if one row cannot be read, nothing
    changes. What another repository has on record needs no import: put its file of suppressions below
    `campaigns/`.

    Example:
        runner optouts import stopped.csv --phone-column Mobile --region US
    """
    return _show_change(import_people(scope, file, PhoneReading(**reading)), format_)


_DONE = {"add": "new", "import": "new", "confirm": "confirmed"}


def _show_change(done: OptOutsDocument, format_: str) -> int:
    """Write the number of entries that a command has made or changed, and the record since."""
    changed = f"{count_words(done.changed, 'entry', 'entries')} {_DONE.get(done.command, 'dismissed')}"
    show(done, format_, [Sentence(f"{changed}. {_sentence(done)}")])
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


@click.command(cls=Command)
@click.argument("phone", metavar="PHONE")
@target_scope
@region_option
@format_option("human", "json")
@LOCK_TIMEOUT
@APPROVAL
def forget(
    scope: Scope, phone: str, region: str | None, format_: str, lock_timeout_s: float, auto_approve: bool
) -> int:
    """Delete a person's data from the ledger and the lockfiles, and never text them again.

    Deletes their deliveries, their answers, and texts that went to them alone, of all campaigns and targets
    in the ledger. The lockfiles of the campaigns at PATH, and their copies on a state remote, are rewritten
    without them. One keyed entry per target stays, in the ledger and in campaigns/<target>.suppressions.json,
    and one in each of these lockfiles: so no campaign on any machine texts them again, even if a file still
    lists them.

    Finished reports, git's history and the service are out of reach: the output ends with what to do about
    them. `runner optouts remove` lets the person in again, as a newcomer.

    Examples:
        runner forget +14155550101
        runner forget +14155550101 campaigns/customer-pulse.yaml --target live
    """
    (person,) = read_phones(scope, [phone], region)
    done = forgetting.forget(
        scope,
        person,
        lock_timeout_s,
        lambda: require_approval(
            f"Remove everything on record of {mask_phone(person)}, for good, and never text them again?",
            is_approved=auto_approve,
        ),
    )
    show(done, format_, _describe_forgotten(done))
    return int(done.is_behind)


def _describe_forgotten(done: ForgottenPerson) -> Iterator[Block]:
    if not done.campaigns:
        yield Sentence(f"Nothing was on record of {done.phone} except perhaps opt-outs.")
    for one in done.campaigns:
        removed = (
            count_words(one.deliveries, "delivery", "deliveries"),
            count_words(one.results, "answer"),
        )
        yield Sentence(f"{one.campaign} on {one.target}: {' and '.join(removed)} removed.")
    yield from (Sentence(f"{file}: rewritten; commit it.") for file in done.lockfiles)
    yield Sentence(f"{done.phone} is never texted again on {', '.join(done.targets)}.")
    yield Sentence("Out of reach:")
    yield Items(done.unreached)
