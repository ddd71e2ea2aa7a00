"""Questions at a terminal: approvals, and waiting replies that are decided by one key each."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from runner.cli.encoding import print_text
from runner.errors import InterruptedRunError, RunnerError, UsageError
from runner.wording import printable, show_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.ledger.files.suppressions import State
    from runner.ledger.people.replies import WaitingReply
    from runner.workflow.records.opt_outs import OptOutView


APPROVAL = click.option("--auto-approve", is_flag=True, help="Don't ask for approval.")


def can_ask() -> bool:
    """Return whether somebody is there to answer a question."""
    return sys.stdin.isatty()


def require_approval(
    question: str,
    *,
    is_approved: bool,
    otherwise: str = "nothing was changed",
    hint: str = "continue without asking with --auto-approve",
) -> None:
    """Ask at the terminal, unless it was approved beforehand.

    Args:
        question: the question.
        is_approved: don't ask.
        otherwise: the effect of a refusal, in words.
        hint: the way without a terminal.

    Raises:
        UsageError: there is no terminal to ask at.
        RunnerError: the user declined.
        InterruptedRunError: the user interrupted the question.
    """
    if is_approved:
        return
    _require_terminal(otherwise, hint)
    try:
        is_approved = click.confirm(question, err=True)
    except click.Abort:
        # The terminal has shown ^C or ^D, and not ended its line.
        print_text(err=True)
        raise InterruptedRunError(f"interrupted: {otherwise}") from None
    if not is_approved:
        raise RunnerError(f"you answered no: {otherwise}")


_QUESTIONS = {
    "opt_out": "[o]pt out, [k]eep texting, [s]kip, [q]uit: ",
    "opt_in": "It asks for texts again. [l]et in, leave [o]ut, [s]kip, [q]uit: ",
}
# `o` excludes people at every question: a wrong key texts nobody.
_DECISIONS: dict[str, dict[str, tuple[str, State]]] = {
    "opt_out": {"o": ("opted out", "confirmed"), "k": ("kept", "dismissed")},
    "opt_in": {"l": ("let in", "confirmed"), "o": ("left out", "dismissed")},
}
_OTHERS = {"s": "skipped", "q": "quit"}


def _require_terminal(otherwise: str, hint: str) -> None:
    if not can_ask():
        raise UsageError(f"there is no terminal to ask, and {otherwise}", hint=hint)


def review_replies(view: OptOutView, decide: Callable[[str, State], None]) -> int:
    """Show each waiting reply, ask for one key, and return the number of decisions.

    `decide` gets the reply's `result_guid`, and enters that the reply means what it is listed for, or that it
    doesn't.

    Raises:
        UsageError: replies wait, and there is no terminal to press keys at.
    """
    queue = (*view.waiting, *view.returning)
    if queue:
        _require_terminal(
            "nothing was changed",
            "`runner optouts list --show-replies` shows the replies; decide each with "
            "`runner optouts confirm REPLY` or `runner optouts dismiss REPLY`",
        )
    decided = 0
    for number, reply in enumerate(queue, start=1):
        print_text(_describe(view, reply, f"{number} of {len(queue)}"))
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
        found = show_time(reply.at)
        return f"\n{place}: {reply.result_guid}, found {found}; the ledger doesn't have what it says"
    asked = f"\n  asked:   {printable(text.question)}" if text.question else ""
    where = printable(f"{text.campaign}/{text.message}")
    return f"\n{place}: {where}{asked}\n  replied: {printable(text.text)}"


def _ask(question: str, words: Mapping[str, str]) -> str:
    while True:
        print_text(question, nl=False)
        key = click.getchar().lower()
        print_text(words.get(key, "?"))
        if key in words:
            return key
