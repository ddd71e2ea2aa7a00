"""Questions at a terminal."""

from __future__ import annotations

import sys

import click

from runner.cli.encoding import print_text
from runner.errors import InterruptedRunError, RunnerError, UsageError

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

    `otherwise` says what a refusal leaves, `hint` the way without a terminal.

    Raises:
        UsageError: there is no terminal to ask at.
        RunnerError: the user declined.
        InterruptedRunError: the user interrupted the question.
    """
    if is_approved:
        return
    if not can_ask():
        raise UsageError(f"there is no terminal to ask, and {otherwise}", hint=hint)
    try:
        is_approved = click.confirm(question, err=True)
    except click.Abort:
        # The terminal has shown ^C or ^D, and not ended its line.
        print_text(err=True)
        raise InterruptedRunError(f"interrupted: {otherwise}") from None
    if not is_approved:
        raise RunnerError(f"you answered no: {otherwise}")
