"""`runner optouts`: who is not to be texted by any campaign on a target."""

from __future__ import annotations

import secrets
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.approval import APPROVAL, require_approval
from runner.cli.campaigns import load_campaigns
from runner.cli.console import count_words, note, warn
from runner.cli.opt_out_import import PhoneFile, enter_export, enter_phones, is_export
from runner.cli.opt_out_review import require_terminal, review_replies
from runner.cli.opt_out_view import (
    OptOutView,
    ask_to_let_in,
    count_forgotten,
    read_view,
    write_change,
    write_list,
)
from runner.cli.phone_list import parse_phones
from runner.cli.reply_issue import ReplyQueue, find_phones, keep_reply_issue
from runner.cli.scope import Scope, format_option, ledger_scope, recorded_scope
from runner.cli.workspace import Workspace
from runner.errors import RunnerError
from runner.ledger.draft import write_private
from runner.ledger.forgotten import let_in
from runner.ledger.opt_ins import decide_opt_in
from runner.ledger.opt_out_file import Imported, export_opt_outs
from runner.ledger.opt_outs import add_opt_outs, decide_reply
from runner.ledger.target_key import KeySource
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from runner.ledger.database import Ledger
    from runner.ledger.opt_outs import State
    from runner.ledger.target_key import LedgerConnection

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OUT = click.Path(dir_okay=False, path_type=Path)


@click.group(name="optouts")
def command() -> None:
    """Who has opted out, and is not texted by any campaign on the target.

    `runner reconcile` finds replies that opt out, in ten languages. Words such as STOP count at once, and so
    does a sentence that begins with STOP. A text that only sounds like it, as "please stop texting me", is
    listed here for a person to decide; until then its author is not texted either. A reply that asks for
    texts again, as START, is listed as well, and lets nobody in by itself.

    Services may obey STOP themselves and report no result for it. Where they say of a session that its
    participant opted out, as the sandbox does, that counts. What a service keeps to itself is not seen:
    add those people by hand, or import the service's list.

    Opt-outs are kept as keyed fingerprints: in the ledger, and in campaigns/<target>.suppressions.json, which
    `runner record` commits and every plan reads. So they hold on machines with another ledger, and when the
    campaign that somebody replied to is gone.
    """


@command.command(
    "list",
    short_help="Count who opted out; list replies to decide.",
    epilog="\b\nExamples:\n  runner optouts list\n  runner optouts list --show-replies --target live",
)
@ledger_scope
@format_option("human", "json")
@click.option("--show-replies", is_flag=True, help="Show what the replies say, and to what.")
def list_(scope: Scope, format_: str, show_replies: bool) -> int:
    """Count who has opted out, and list the replies that wait for a decision."""
    workspace = Workspace.open(scope)
    target = workspace.target.name
    with _open_filled(workspace) as ledger, _reading(ledger) as connection:
        found = read_view(connection, target, with_texts=show_replies) if connection else OptOutView(target)
    write_list(found, format_, with_texts=show_replies)
    return 0


@command.command(
    short_help="Enter people who opted out.",
    epilog="\b\nExample:\n  runner optouts add +14155550101 +14155550102 --target live",
)
@click.argument("phones", nargs=-1, required=True, metavar="PHONE...")
@ledger_scope
@format_option("human", "json")
def add(scope: Scope, phones: tuple[str, ...], format_: str) -> int:
    """Enter people who opted out by other ways than a reply: by mail, on the phone."""
    parsed = parse_phones(phones)
    workspace = Workspace.open(scope)

    def enter(connection: LedgerConnection, people: KeySource) -> int:
        return add_opt_outs(connection, people.enter(connection), parsed, "person", workspace.now_text())

    return _change(workspace, "add", enter, format_)


@command.command(
    short_help="Let people be texted again.",
    epilog="\b\nExample:\n  runner optouts remove +14155550101 --target live",
)
@click.argument("phones", nargs=-1, required=True, metavar="PHONE...")
@ledger_scope
@format_option("human", "json")
@APPROVAL
def remove(scope: Scope, phones: tuple[str, ...], format_: str, auto_approve: bool) -> int:
    """Let people be texted again, as after they have asked for it.

    What says that they opted out is kept, and counts no more; their next STOP counts again. Of somebody
    who was forgotten nobody knows any more what they got: they are texted like a newcomer. This ledger lets
    them in whatever old lockfiles say; other ledgers do when they are told so as well.
    """
    parsed = parse_phones(phones)
    workspace = Workspace.open(scope)
    require_approval(_ask_to_let_in(workspace, parsed), is_approved=auto_approve)

    def dismiss(connection: LedgerConnection, people: KeySource) -> int:
        return sum(let_in(connection, people, phone, workspace.now_text()) for phone in parsed)

    return _change(workspace, "remove", dismiss, format_)


@command.command(
    short_help="Decide that replies mean it.",
    epilog="\b\nExample:\n  runner optouts list --show-replies\n"
    "  runner optouts confirm 4ef8a3a0-4c5b-4bb6-a9f7-0e6ad0b3bd2b",
)
@click.argument("replies", nargs=-1, required=True, metavar="REPLY...")
@ledger_scope
@format_option("human", "json")
def confirm(scope: Scope, replies: tuple[str, ...], format_: str) -> int:
    """Decide that replies mean what they are listed for.

    The author of one that opts out is not texted any more. The author of one that asks for texts again is let
    in: whatever said that they opted out counts no more.
    """
    return _decide(scope, "confirm", replies, "confirmed", format_)


@command.command(
    short_help="Decide that replies don't opt out.",
    epilog="\b\nExample:\n  runner optouts list --show-replies\n"
    "  runner optouts dismiss 4ef8a3a0-4c5b-4bb6-a9f7-0e6ad0b3bd2b",
)
@click.argument("replies", nargs=-1, required=True, metavar="REPLY...")
@ledger_scope
@format_option("human", "json")
def dismiss(scope: Scope, replies: tuple[str, ...], format_: str) -> int:
    """Decide that replies don't mean what they are listed for.

    The author of a doubtful reply is texted again, if nothing else speaks against it. The author of one that
    asks for texts again stays out.
    """
    return _decide(scope, "dismiss", replies, "dismissed", format_)


@command.command(
    short_help="Decide waiting replies, one key each.",
    epilog="\b\nExample:\n  runner optouts review --target live",
)
@ledger_scope
def review(scope: Scope) -> int:
    """Show the replies that wait for a decision one after the other, and decide each with one key.

    Each decision is kept at once. Without a terminal, use `list --show-replies`, `confirm` and `dismiss`.
    """
    require_terminal()
    workspace = Workspace.open(scope)
    target = workspace.target.name
    with workspace.open_ledger() as ledger:

        def decide(guid: str, state: State) -> None:
            with ledger.writing() as connection:
                _decide_one(connection, target, guid, state, workspace.now_text())

        with ledger.reading() as connection:
            view = read_view(connection, target, with_texts=True)
        decided = review_replies(view, decide)
        with ledger.reading() as connection:
            after = read_view(connection, target)
    write_change(after, "review", decided, "human")
    return 0


@command.command(
    short_help="Keep an issue of the replies to decide.",
    epilog="\b\nExamples:\n  runner reconcile && runner optouts issue\n"
    "  runner optouts issue --show-replies --target live",
)
@recorded_scope
@click.option(
    "--show-replies", is_flag=True, help="Show what they say, cut short, without digits and addresses."
)
def issue(scope: Scope, show_replies: bool) -> int:
    """Keep one issue on the forge that lists the replies that wait for a decision, with masked phones.

    To be run in a job on GitHub, once `runner reconcile` has read everything, with GITHUB_TOKEN in the
    step's environment and the permission `issues: write`. The issue says how to decide: by the workflow's
    *Run workflow*, or in a clone. It is edited in place, gets a comment when there are more, and is closed
    when none waits. Without rights the job's summary has everything; outside of a job it is printed.
    """
    workspace = Workspace.open(scope, needs_credentials=False)
    target = workspace.target
    with _open_filled(workspace) as ledger, _reading(ledger) as connection:
        if connection is None:
            note(f"There is no ledger for {target.name} on this machine: no issue was looked for.")
            return 0
        view = read_view(connection, target.name, with_texts=True)
        key = KeySource(target.name, target.state_key, "").read(connection)
    campaigns = load_campaigns(scope.paths, scope.allowed, Problems()).campaigns if view.texts else ()
    queue = ReplyQueue(view, find_phones(view, key, campaigns), shows_words=show_replies)
    keep_reply_issue(queue, quiet=scope.quiet)
    return 0


@command.command(
    "import",
    short_help="Enter the people of a file.",
    epilog="\b\nExamples:\n  runner optouts import stopped.csv --phone-column Mobile --region US\n"
    "  runner optouts import optouts.jsonl --target live",
)
@click.argument("file", type=_FILE)
@ledger_scope
@format_option("human", "json")
@click.option(
    "--phone-column", default="phone", show_default=True, metavar="NAME", help="Of a CSV: the phones' column."
)
@click.option("--region", metavar="CC", help="Of a CSV: the country of numbers in national form, as in US.")
def import_(scope: Scope, file: Path, format_: str, phone_column: str, region: str | None) -> int:
    """Enter the people of a CSV file, or everything of a file of `runner optouts export`.

    All or nothing: with a single row that cannot be read, nothing is entered. An exported file lets nobody
    in. Who was let in here and has opted out elsewhere since has opted out; what it says besides of people
    who were let in, or of replies that were dismissed, is left out and counted.
    """
    workspace = Workspace.open(scope)
    imported = Imported()

    def enter(connection: LedgerConnection, people: KeySource) -> int:
        nonlocal imported
        if is_export(file):
            imported = enter_export(connection, people, file)
        else:
            phones = PhoneFile(file, phone_column, region, quiet=scope.quiet)
            imported = enter_phones(connection, people, phones, workspace.now_text())
        return imported.entered

    code = _change(workspace, "import", enter, format_)
    if imported.left_out:
        left_out = count_words(imported.left_out, "entry", "entries")
        warn(f"{left_out} left out: dismissed here, and the file says nothing newer")
    return code


@command.command(
    short_help="Write everything on record to a file.",
    epilog="\b\nExample:\n  runner optouts export --target live --out optouts.jsonl",
)
@ledger_scope
@click.option("--out", type=_OUT, metavar="FILE", help="Write to this file.  [default: standard output]")
def export(scope: Scope, out: Path | None) -> int:
    """Write everything on record as JSON Lines: to be kept, or imported into another ledger.

    There are no phones in it. Without a RUNNER_STATE_KEY it holds the salt of the fingerprints: then
    phones can be found out by trying, so keep the file as safe as a list of phones.
    """
    workspace = Workspace.open(scope)
    target = workspace.target
    with _open_filled(workspace) as ledger, _reading(ledger) as connection:
        people = KeySource(target.name, target.state_key, "")
        key = people.read(connection) if connection else None
        if connection is None or key is None:
            note(f"Nobody is on record on {target.name}{f': {out} was not written' if out else ''}.")
            return 0
        _write_lines(export_opt_outs(connection, key), out)
    if out is not None and not scope.quiet:
        note(f"Wrote {out}.")
    return 0


def _write_lines(lines: Iterable[str], out: Path | None) -> None:
    if out is None:
        for line in lines:
            click.echo(line, nl=False)
        return
    try:
        write_private(out, lines)
    except OSError as error:
        raise RunnerError(f"{out} cannot be written: {error.strerror}") from None


@contextmanager
def _open_filled(workspace: Workspace) -> Iterator[Ledger | None]:
    """Open the ledger, with what the file of suppressions tells in it; None if there is neither."""
    with workspace.open_ledger_if_present() as present:
        if workspace.suppressions.are_absorbed(present):
            yield present
            return
    with workspace.open_ledger() as filled:
        yield filled


def _reading(ledger: Ledger | None) -> AbstractContextManager[LedgerConnection | None]:
    return nullcontext() if ledger is None else ledger.reading()


def _change(
    workspace: Workspace, name: str, change: Callable[[LedgerConnection, KeySource], int], format_: str
) -> int:
    people = KeySource(workspace.target.name, workspace.target.state_key, secrets.token_hex(16))
    with workspace.open_ledger() as ledger, ledger.writing() as connection:
        changed = change(connection, people)
        view = read_view(connection, people.target)
    write_change(view, name, changed, format_)
    return 0


def _decide(scope: Scope, name: str, replies: Sequence[str], state: State, format_: str) -> int:
    workspace = Workspace.open(scope)

    def decide(connection: LedgerConnection, people: KeySource) -> int:
        at = workspace.now_text()
        known = [_decide_one(connection, people.target, guid, state, at) for guid in replies]
        unknown = [guid for guid, is_known in zip(replies, known, strict=True) if not is_known]
        if unknown:
            raise RunnerError(
                f"there is no such reply on {people.target}: {', '.join(unknown)}; nothing was changed",
                hint="`runner optouts list` names those that wait for a decision",
            )
        return len(set(replies))

    return _change(workspace, name, decide, format_)


def _decide_one(connection: LedgerConnection, target: str, guid: str, state: State, at: str) -> bool:
    is_proposal = decide_opt_in(connection, target, guid, at, let_in=state == "confirmed")
    return is_proposal or decide_reply(connection, target, guid, state, at)


def _ask_to_let_in(workspace: Workspace, phones: Sequence[str]) -> str:
    people = KeySource(workspace.target.name, workspace.target.state_key, "")
    with _open_filled(workspace) as ledger, _reading(ledger) as connection:
        forgotten = count_forgotten(connection, people, phones) if connection else 0
    return ask_to_let_in(people.target, phones, forgotten)
