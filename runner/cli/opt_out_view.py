"""Shows who has opted out, and which replies wait for a decision: for people and for programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from runner.campaign.phone import mask_phone
from runner.cli.console import count_words, print_json, print_table
from runner.cli.inert import printable
from runner.ledger.forgotten import find_as_forgotten
from runner.ledger.opt_ins import list_opt_ins
from runner.ledger.opt_outs import count_opt_outs
from runner.ledger.screening import (
    ReplyText,
    WaitingReply,
    count_people,
    find_forgotten,
    list_waiting,
    read_reply_texts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.ledger.target_key import KeySource, LedgerConnection

_UNKNOWN = ReplyText("", "", "", "")


@dataclass(frozen=True, slots=True)
class OptOutView:
    """What is on record on a target.

    Attributes:
        target: the target's name.
        people: those who opted out.
        dismissed: things that said so of somebody, and count no more.
        waiting: replies of which a person must decide.
        returning: replies that ask for texts again, of which a person must decide as well.
        texts: what these say, by `result_guid`, as far as it was asked for and the ledger knows.
    """

    target: str
    people: int = 0
    dismissed: int = 0
    waiting: tuple[WaitingReply, ...] = ()
    returning: tuple[WaitingReply, ...] = ()
    texts: Mapping[str, ReplyText] | None = None

    def describe_replies(self) -> list[dict[str, str]]:
        """Return the waiting replies as JSON has them."""
        texts = self.texts or {}
        return [
            {"reply": one.result_guid, "found_at": one.at, "asks": one.asks}
            | (asdict(texts[one.result_guid]) if one.result_guid in texts else {})
            for one in (*self.waiting, *self.returning)
        ]


def read_view(connection: LedgerConnection, target: str, *, with_texts: bool = False) -> OptOutView:
    """Return what is on record.

    Args:
        connection: reads the ledger, which may be of an older version.
        target: the target's name.
        with_texts: whether to look for what the waiting replies say, through all results.
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


def count_forgotten(connection: LedgerConnection, people: KeySource, phones: Iterable[str]) -> int:
    """Return how many people asked to be forgotten, as the ledger or a lockfile that it has read says.

    Args:
        connection: reads the ledger, which may be of an older version.
        people: makes the fingerprints of the target's people.
        phones: E.164.

    Raises:
        LedgerError: the target's key is not at hand.
    """
    key = people.read(connection)
    return sum(
        bool(key and find_forgotten(connection, people.target, [key.fingerprint(phone)]))
        or bool(find_as_forgotten(connection, people.target, phone, people.state_key))
        for phone in set(phones)
    )


def ask_to_let_in(target: str, phones: Iterable[str], forgotten: int) -> str:
    """Return the question before people are let in again.

    Args:
        target: the target's name.
        phones: E.164; shown masked.
        forgotten: how many of them asked to be forgotten.
    """
    masked = ", ".join(map(mask_phone, phones))
    warning = (
        f" {count_words(forgotten, 'person', 'people')} among them asked to be forgotten, and would get "
        "again what they got before."
        if forgotten
        else ""
    )
    return f"Every campaign on {target} may text {masked} again.{warning} Let them in?"


def write_list(view: OptOutView, format_: str, *, with_texts: bool) -> None:
    """Write counts and waiting replies to standard output.

    Args:
        view: what is on record.
        format_: `human` or `json`.
        with_texts: whether people are shown what the replies say.
    """
    if format_ == "json":
        print_json(_describe(view, "list", 0) | {"replies": view.describe_replies()})
        return
    click.echo(_sentence(view))
    if view.waiting:
        _print_replies(view, view.waiting, with_texts=with_texts)
        click.echo("Decide with `runner optouts confirm REPLY` or `runner optouts dismiss REPLY`.")
    if view.returning:
        click.echo(f"{count_words(len(view.returning), 'reply asks', 'replies ask')} for texts again:")
        _print_replies(view, view.returning, with_texts=with_texts)
        click.echo(
            "Let its author in with `runner optouts confirm REPLY`, or not with "
            "`runner optouts dismiss REPLY`."
        )


def _print_replies(view: OptOutView, replies: Iterable[WaitingReply], *, with_texts: bool) -> None:
    if not with_texts:
        print_table(("reply", "found"), [(one.result_guid, one.at) for one in replies])
        return
    texts = view.texts or {}
    shown = [(one, texts.get(one.result_guid, _UNKNOWN)) for one in replies]
    rows = [
        (
            one.result_guid,
            f"{text.campaign}/{text.message}".strip("/"),
            *map(printable, (text.question, text.text)),
        )
        for one, text in shown
    ]
    print_table(("reply", "campaign", "question", "what it says"), rows)


def write_change(view: OptOutView, command: str, changed: int, format_: str) -> None:
    """Write what a command has changed, and what is on record since.

    Args:
        view: what is on record now.
        command: the command's name.
        changed: how many entries it has made or changed.
        format_: `human` or `json`.
    """
    if format_ == "json":
        print_json(_describe(view, command, changed))
    else:
        click.echo(f"{count_words(changed, 'entry', 'entries')} {_DONE[command]}. {_sentence(view)}")


_DONE = {
    "add": "new",
    "import": "new",
    "remove": "dismissed",
    "confirm": "confirmed",
    "dismiss": "dismissed",
    "review": "decided",
}


def _sentence(view: OptOutView) -> str:
    people = "1 person has" if view.people == 1 else f"{view.people:,} people have"
    waiting = count_words(len(view.waiting), "doubtful reply waits", "doubtful replies wait")
    return f"{view.target}: {people} opted out; {waiting} for a decision."


def _describe(view: OptOutView, command: str, changed: int) -> dict[str, Any]:
    return {
        "target": view.target,
        "command": command,
        "changed": changed,
        "opted_out": view.people,
        "doubtful": len(view.waiting),
        "opt_ins": len(view.returning),
        "dismissed": view.dismissed,
    }
