"""Decides waiting replies one after the other, each by one key at a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from runner.cli.inert import printable
from runner.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.cli.opt_out_view import OptOutView
    from runner.ledger.opt_outs import State
    from runner.ledger.screening import WaitingReply

_QUESTIONS = {
    "opt_out": "[o]pt out, [k]eep texting, [s]kip, [q]uit: ",
    "opt_in": "It asks for texts again. [l]et in, leave [o]ut, [s]kip, [q]uit: ",
}
# `o` leaves people out, whatever is asked: the wrong key at the wrong question texts nobody.
_DECISIONS: dict[str, dict[str, tuple[str, State]]] = {
    "opt_out": {"o": ("opted out", "confirmed"), "k": ("kept", "dismissed")},
    "opt_in": {"l": ("let in", "confirmed"), "o": ("left out", "dismissed")},
}
_OTHERS = {"s": "skipped", "q": "quit"}


def require_terminal() -> None:
    """Refuse to go on where there is nobody to press keys.

    Raises:
        UsageError: there is no terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to decide at, and nothing was changed",
            hint="`runner optouts list --show-replies` shows the replies; decide each with "
            "`runner optouts confirm REPLY` or `runner optouts dismiss REPLY`",
        )


def review_replies(view: OptOutView, decide: Callable[[str, State], None]) -> int:
    """Show each waiting reply and ask for one key.

    Args:
        view: what waits, with texts.
        decide: enters that the reply of this `result_guid` means what it is listed for, or that it doesn't.

    Returns:
        How many were decided.
    """
    queue = (*view.waiting, *view.returning)
    decided = 0
    for number, reply in enumerate(queue, start=1):
        click.echo(_describe(view, reply, f"{number} of {len(queue)}"))
        decisions = _DECISIONS[reply.asks]
        key = _ask(_QUESTIONS[reply.asks], {key: words for key, (words, _) in decisions.items()} | _OTHERS)
        if key == "q":
            break
        if key in decisions:
            decide(reply.result_guid, decisions[key][1])
            decided += 1
    return decided


def _describe(view: OptOutView, reply: WaitingReply, place: str) -> str:
    text = (view.texts or {}).get(reply.result_guid)
    if text is None:
        return f"\n{place}: {reply.result_guid}, found {reply.at}; the ledger doesn't have what it says"
    asked = f"\n  asked:   {printable(text.question)}" if text.question else ""
    where = printable(f"{text.campaign}/{text.message}")
    return f"\n{place}: {where}{asked}\n  replied: {printable(text.text)}"


def _ask(question: str, words: Mapping[str, str]) -> str:
    while True:
        click.echo(question, nl=False)
        key = click.getchar().lower()
        click.echo(words.get(key, "?"))
        if key in words:
            return key
