"""Opt-outs of a target: who is on record, what is entered and removed, and replies to decide."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Literal

from runner.atomic_write import write_private
from runner.audience.phone import mask_phone
from runner.document import UNSET, Count, Document, Part, Positive, UnsetType, build
from runner.errors import RunnerError, SuppressionsError
from runner.ledger.files.suppressions import OptOut, Source, parse_book, seal_book
from runner.ledger.people.opt_outs import (
    NOBODY,
    add_opt_outs,
    count_opt_outs,
    decide_reply,
    dismiss_opt_outs,
    enter_later,
    find_suppressed,
    iterate_opt_outs,
)
from runner.ledger.people.replies import (
    ReplyText,
    WaitingReply,
    count_people,
    decide_opt_in,
    list_opt_ins,
    list_waiting,
    read_reply_texts,
)
from runner.ledger.target_key import enter_key
from runner.source.diagnostic import Problems
from runner.wording import count_words
from runner.workflow.observer import note, show_problems, warn
from runner.workflow.records.phones import PhoneReading, iterate_phones, read_phones
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.ledger.files.suppressions import Book, State
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


class ListedReply(Part, frozen=True):
    """A reply that waits for a person's decision.

    Attributes:
        reply: its result_guid, which names it to `confirm` and `dismiss`.
        found_at: UTC, ISO 8601.
        asks: what it may ask for: `confirm` says that it does. To confirm an `opt_in` lets its author in.
        people: of how many people its author is one: more than 1 if nobody knows who of a launch wrote it,
            and all of them are held.
        campaign: with `--show-replies`, as far as the ledger has the reply.
        message: the message that was replied to.
        question: what was asked.
        text: what was replied.
    """

    reply: str
    found_at: str
    asks: Literal["opt_out", "opt_in"]
    people: Positive
    campaign: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    question: str | UnsetType = UNSET
    text: str | UnsetType = UNSET


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


_EXPORT_AGAIN = (
    "give a file as `runner optouts export` has written it for this target, with the same key; or the phones "
    "themselves, as a CSV"
)


@dataclass(frozen=True, slots=True)
class OptOutView:
    """The opt-outs and replies of a target.

    Attributes:
        target: the target's name.
        people: people who opted out.
        dismissed: evidence of opt-outs that was decided not to count.
        waiting: possible opt-outs that wait for a decision.
        returning: requests for texts again that wait for a decision.
        texts: texts of waiting replies by `result_guid`, if requested and in the ledger.
        listed: the people, the latest first, if requested.
    """

    target: str
    people: int = 0
    dismissed: int = 0
    waiting: tuple[WaitingReply, ...] = ()
    returning: tuple[WaitingReply, ...] = ()
    texts: Mapping[str, ReplyText] | None = None
    listed: tuple[ListedOptOut, ...] = ()

    def describe(
        self, command: OptOutCommand = "list", changed: int = 0, *, with_replies: bool = True
    ) -> OptOutsDocument:
        """Return the document of a command that has made or changed so many entries."""
        texts = self.texts or {}
        replies = tuple(
            ListedReply(one.result_guid, one.at, one.asks, one.people, *(astuple(text) if text else ()))
            for one in (*self.waiting, *self.returning)
            for text in (texts.get(one.result_guid),)
        )
        return build(
            OptOutsDocument,
            self,
            command=command,
            changed=changed,
            opted_out=self.people,
            people=self.listed if with_replies else UNSET,
            doubtful=len(self.waiting),
            opt_ins=len(self.returning),
            replies=replies if with_replies else UNSET,
        )


def read_view(connection: LedgerConnection, target: str, *, with_texts: bool = False) -> OptOutView:
    """Return the opt-outs and replies of a target.

    `with_texts` searches all results for the texts of waiting replies.
    """
    waiting = tuple(list_waiting(connection, target))
    returning = tuple(list_opt_ins(connection, target))
    return OptOutView(
        target,
        count_people(connection, target),
        count_opt_outs(connection, target).get("dismissed", 0),
        waiting,
        returning,
        read_reply_texts(connection, target) if with_texts and (waiting or returning) else None,
    )


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


def list_opt_outs(scope: Scope, *, with_texts: bool) -> OptOutView:
    """Return the opt-outs and replies of a target, with the texts of waiting replies if requested.

    Raises:
        RunnerError: there are neither campaigns nor a ledger here.
    """
    workspace = Workspace.open_known(scope)
    target = workspace.target.name
    with reading_filled(workspace) as connection:
        view = read_view(connection, target, with_texts=with_texts)
        return replace(view, listed=_list_people(connection, target))


def enter_people(scope: Scope, written: Sequence[str], region: str | None) -> tuple[int, OptOutView]:
    """Enter people, by their phones, who opted out; return the number of new entries, and the new state.

    `region` is that of phones in national form, as for `read_phones`.

    Raises:
        UsageError: a phone is invalid.
    """
    phones = read_phones(scope, written, region)

    def enter(connection: LedgerConnection, key: TargetKey, at: str) -> int:
        return add_opt_outs(connection, key, phones, "person", at)

    return _change(Workspace.open_known(scope), enter, quiet=scope.quiet)


def let_people_in(
    scope: Scope, written: Sequence[str], region: str | None, approve: Callable[[str], None]
) -> tuple[int, OptOutView]:
    """Let people, by their phones, be texted again; return the number of removed entries, and the new state.

    `region` is that of phones in national form, as for `read_phones`; `approve` is asked before the change,
    and raises to refuse.

    Raises:
        UsageError: a phone is invalid.
    """
    phones = read_phones(scope, written, region)
    workspace = Workspace.open_known(scope)
    masked, forgotten = ", ".join(map(mask_phone, phones)), _count_forgotten(workspace, phones)
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

    return _change(workspace, dismiss, quiet=scope.quiet)


def _count_forgotten(workspace: Workspace, phones: Sequence[str]) -> int:
    """Return the number of people who asked to be forgotten."""
    with reading_filled(workspace) as connection:
        return len(find_suppressed(connection, workspace.key, phones, "forgotten"))


def decide_replies(scope: Scope, replies: Sequence[str], state: State) -> tuple[int, OptOutView]:
    """Record a decision on replies; return the number decided, and the new state.

    Raises:
        RunnerError: a reply does not exist; nothing is changed.
    """

    def decide(connection: LedgerConnection, key: TargetKey, at: str) -> int:
        unknown = [guid for guid in replies if not _decide(connection, key.target, guid, state, at)]
        if unknown:
            raise RunnerError(
                f"there is no such reply on {key.target}: {', '.join(unknown)}; nothing was changed",
                hint="`runner optouts list` names those that wait for a decision",
            )
        return len(set(replies))

    return _change(Workspace.open_known(scope), decide, quiet=scope.quiet)


def _decide(connection: LedgerConnection, target: str, guid: str, state: State, at: str) -> bool:
    """Record a decision on a reply; return whether the reply exists."""
    is_proposal = decide_opt_in(connection, target, guid, at, let_in=state == "confirmed")
    return is_proposal or decide_reply(connection, target, guid, state, at)


def import_people(scope: Scope, file: Path, reading: PhoneReading) -> tuple[int, OptOutView]:
    """Enter the people of a CSV file, or the content of an export, all or nothing.

    `reading` says how the phones of a CSV file are read. Returns the number of new entries, and the new
    state.

    Raises:
        RunnerError: the file cannot be read, has invalid rows, or is an export of another target or key.
    """
    workspace = Workspace.open_known(scope)
    left_out = 0

    def enter(connection: LedgerConnection, key: TargetKey, at: str) -> int:
        nonlocal left_out
        if _is_export(file):
            said = _read_export(key, file).pick(OptOut)
            entered, left_out = enter_later(connection, key.target, said, lets_in=False)
            return entered
        problems = Problems()
        entered = add_opt_outs(connection, key, iterate_phones(file, reading, problems), "import", at)
        show_problems(problems, quiet=scope.quiet)
        if problems.error_count:
            raise RunnerError(f"{count_words(problems.error_count, 'error')}: nothing was entered")
        return entered

    changed = _change(workspace, enter, quiet=scope.quiet)
    if left_out:
        words = count_words(left_out, "entry", "entries")
        warn(f"{words} left out: dismissed here, and the file says nothing newer")
    return changed


def _is_export(file: Path) -> bool:
    """Return whether a file is from `runner optouts export`, rather than a list of phones."""
    try:
        with file.open("rb") as stream:
            return stream.read(1) == b"{"
    except OSError as error:
        raise RunnerError(f"{file} cannot be read: {error.strerror}") from None


def _read_export(key: TargetKey, file: Path) -> Book:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise RunnerError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RunnerError(
            f"{file} is not UTF-8: nothing was entered",
            hint=_EXPORT_AGAIN,
        ) from None
    try:
        return parse_book(file, text, key)
    except SuppressionsError as error:
        # It is nobody's record, so git has no other version of it.
        raise RunnerError(f"{error.message}: nothing was entered", hint=_EXPORT_AGAIN) from None


def export_people(scope: Scope, out: Path | None, write: Callable[[str], None]) -> None:
    """Write everything on record to a file that only this user can read, or pass each line to `write`.

    Raises:
        RunnerError: the file cannot be written, or there are neither campaigns nor a ledger here.
    """
    workspace = Workspace.open_known(scope)
    key = workspace.key
    with reading_filled(workspace) as connection:
        lines = list(iterate_opt_outs(connection, key.target))
        if not lines:
            note(f"Nobody is on record on {key.target}{f': {out} was not written' if out else ''}.")
            return
        pieces = seal_book(key, lines)
        if out is None:
            for piece in pieces:
                write(piece)
            return
        try:
            write_private(out, pieces)
        except OSError as error:
            raise RunnerError(f"{out} cannot be written: {error.strerror}") from None
    if not scope.quiet:
        note(f"Wrote {out}.")


def _change(
    workspace: Workspace, change: Callable[[LedgerConnection, TargetKey, str], int], *, quiet: bool
) -> tuple[int, OptOutView]:
    """Change a target's opt-outs at the present time, all or nothing.

    `change` makes the changes and returns their number, which is returned with the new state.
    """
    key = workspace.key
    with workspace.open_ledger(needs_shared=False) as ledger:
        with ledger.writing() as connection:
            enter_key(connection, key)
            changed = change(connection, key, workspace.now_text())
            view = read_view(connection, key.target)
        workspace.files.share(ledger, is_quiet=quiet or not changed)
    return changed, view
