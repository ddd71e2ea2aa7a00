"""Opt-outs of a target: who is on record, what is entered and removed, and replies to decide."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from runner.audience.phone import mask_phone
from runner.document import UNSET, Count, Document, Part, UnsetType
from runner.errors import RunnerError
from runner.ledger.files.suppressions import Source
from runner.ledger.model import SUPPRESSIONS_SUFFIX
from runner.ledger.people.opt_outs import (
    NOBODY,
    add_opt_outs,
    count_opt_outs,
    decide_reply,
    dismiss_opt_outs,
    find_suppressed,
    iterate_opt_outs,
)
from runner.ledger.people.replies import (
    ListedReply,
    count_people,
    decide_opt_in,
    list_opt_ins,
    list_waiting,
    read_reply_texts,
)
from runner.ledger.target_key import enter_key
from runner.source.diagnostic import Problems
from runner.wording import count_words
from runner.workflow.observer import show_problems
from runner.workflow.records.phones import PhoneReading, iterate_phones, read_phones
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from runner.ledger.files.suppressions import State
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.target_key import LedgerConnection
    from runner.workflow.scope import Scope


SOURCES: dict[Source, str] = {
    "reply": "by a reply",
    "launch": "perhaps: a reply to a launch of which they are one recipient",
    "import": "on an imported list",
    "person": "entered by hand",
    "forgotten": "their data was removed",
}
"""How an opt-out is known, in words."""
OptOutCommand = Literal["list", "add", "remove", "confirm", "dismiss", "import"]


class ListedOptOut(Part, frozen=True):
    """One person who has opted out. The ledger has no phone of theirs here, only its fingerprint.

    Attributes:
        fingerprint: of their phone, under the target's key.
        since: when they opted out first, UTC, ISO 8601.
        source: how it is known: by a reply, a launch whose recipients are one of several, an import, a person
            who entered it, or because they were forgotten.
    """

    fingerprint: str
    since: str
    source: Source


class OptOutsDocument(Document, frozen=True):
    """The document that the commands of `runner optouts` write with `--format json`.

    Attributes:
        target: the target's name.
        command: what was asked for.
        changed: entries that the command has made or changed.
        opted_out: people on record as opted out.
        doubtful: replies that wait for a decision.
        opt_ins: replies of people who have opted out that ask for texts again, and wait for a decision too.
        dismissed: entries that said that somebody opted out, and count no more.
        people: of `list`: one entry for each person who has opted out, the latest first.
        replies: of `list`: the replies that wait for a decision, the oldest first.
    """

    target: str
    command: OptOutCommand
    changed: Count
    opted_out: Count
    doubtful: Count
    opt_ins: Count
    dismissed: Count
    people: tuple[ListedOptOut, ...] | UnsetType = UNSET
    replies: tuple[ListedReply, ...] | UnsetType = UNSET


def list_replies(
    connection: LedgerConnection, target: str, *, with_texts: bool = False
) -> tuple[ListedReply, ...]:
    """Return the replies that wait for a decision; `with_texts` searches all results for what they say."""
    found = [*list_waiting(connection, target), *list_opt_ins(connection, target)]
    texts = read_reply_texts(connection, target) if with_texts and found else {}
    return tuple(one.replace(**texts.get(one.reply, {})) for one in found)


def _list_people(connection: LedgerConnection, target: str) -> tuple[ListedOptOut, ...]:
    first: dict[str, ListedOptOut] = {}
    for one in iterate_opt_outs(connection, target, "confirmed"):
        before = first.get(one.fingerprint)
        if one.fingerprint != NOBODY and (before is None or one.at < before.since):
            first[one.fingerprint] = ListedOptOut(one.fingerprint, one.at, one.source)
    return tuple(sorted(first.values(), key=lambda one: one.since, reverse=True))


@contextmanager
def reading_filled(workspace: Workspace) -> Iterator[LedgerConnection]:
    """Read the ledger, filled from all record files."""
    with workspace.open_ledger_for_reading() as ledger, ledger.reading() as connection:
        yield connection


def list_opt_outs(scope: Scope, *, with_texts: bool) -> OptOutsDocument:
    """Return the opt-outs and replies of a target, with the texts of waiting replies if requested."""
    workspace = Workspace.open_known(scope)
    target = workspace.target.name
    with reading_filled(workspace) as connection:
        replies = list_replies(connection, target, with_texts=with_texts)
        found = _sum_up(connection, target, "list")
        return found.replace(people=_list_people(connection, target), replies=replies)


def _sum_up(
    connection: LedgerConnection, target: str, command: OptOutCommand, changed: int = 0
) -> OptOutsDocument:
    return OptOutsDocument(
        target,
        command,
        changed,
        count_people(connection, target),
        len(list_waiting(connection, target)),
        len(list_opt_ins(connection, target)),
        count_opt_outs(connection, target).get("dismissed", 0),
    )


def enter_people(scope: Scope, written: Sequence[str], region: str | None) -> OptOutsDocument:
    """Enter people, by their phones, who opted out.

    `region` is that of phones in national form, as for `read_phones`.
    """
    phones = read_phones(scope, written, region)

    def enter(connection: LedgerConnection, key: TargetKey, at: str) -> int:
        return add_opt_outs(connection, key, phones, "person", at)

    return _change(Workspace.open_known(scope), "add", enter)


def let_people_in(
    scope: Scope, written: Sequence[str], region: str | None, approve: Callable[[str], None]
) -> OptOutsDocument:
    """Let people, by their phones, be texted again.

    `region` is that of phones in national form, as for `read_phones`; `approve` is asked before the change,
    and raises to refuse.
    """
    phones = read_phones(scope, written, region)
    workspace = Workspace.open_known(scope)
    with reading_filled(workspace) as connection:
        forgotten = len(find_suppressed(connection, workspace.key, phones, "forgotten"))
    masked = ", ".join(map(mask_phone, phones))
    warning = (
        f" {count_words(forgotten, 'person', 'people')} among them asked to be forgotten, and would get "
        "again what they got before."
        if forgotten
        else ""
    )
    approve(f"Every campaign on {workspace.target.name} may text {masked} again.{warning} Let them in?")

    def dismiss(connection: LedgerConnection, key: TargetKey, at: str) -> int:
        people = map(key.fingerprint, phones)
        return sum(dismiss_opt_outs(connection, key.target, person, at) for person in people)

    return _change(workspace, "remove", dismiss)


def decide_replies(scope: Scope, replies: Sequence[str], state: State) -> OptOutsDocument:
    """Record a decision on replies."""

    def decide(connection: LedgerConnection, key: TargetKey, at: str) -> int:
        unknown = [
            guid
            for guid in replies
            if not decide_opt_in(connection, key.target, guid, at, let_in=state == "confirmed")
            and not decide_reply(connection, key.target, guid, state, at)
        ]
        if unknown:
            raise RunnerError(
                f"there is no such reply on {key.target}: {', '.join(unknown)}; nothing was changed",
                hint="`runner optouts list` names those that wait for a decision",
            )
        return len(set(replies))

    command: OptOutCommand = "confirm" if state == "confirmed" else "dismiss"
    return _change(Workspace.open_known(scope), command, decide)


def import_people(scope: Scope, file: Path, reading: PhoneReading) -> OptOutsDocument:
    """Enter the people of a CSV file, all or nothing; `reading` says how its phones are read."""
    if file.name.endswith(SUPPRESSIONS_SUFFIX):
        raise RunnerError(
            f"{file} is no list of phones", hint="put it below campaigns: every command reads it"
        )

    def enter(connection: LedgerConnection, key: TargetKey, at: str) -> int:
        problems = Problems()
        entered = add_opt_outs(connection, key, iterate_phones(file, reading, problems), "import", at)
        show_problems(problems)
        if problems.error_count:
            raise RunnerError(f"{count_words(problems.error_count, 'error')}: nothing was entered")
        return entered

    return _change(Workspace.open_known(scope), "import", enter)


def _change(
    workspace: Workspace,
    command: OptOutCommand,
    change: Callable[[LedgerConnection, TargetKey, str], int],
) -> OptOutsDocument:
    """Change a target's opt-outs now, all or nothing; `change` returns how many entries changed."""
    key = workspace.key
    with workspace.open_ledger(needs_shared=False) as ledger:
        with ledger.writing() as connection:
            enter_key(connection, key)
            changed = change(connection, key, workspace.now_text())
            done = _sum_up(connection, key.target, command, changed)
        workspace.files.share(ledger, is_told=bool(changed))
    return done
