"""Asks before anything is sent, or changed that cannot be taken back with a shrug."""

from __future__ import annotations

import sys

import click

from runner.errors import RunnerError, UsageError

APPROVAL = click.option("--auto-approve", is_flag=True, help="Don't ask.")


def require_approval(
    question: str,
    *,
    is_approved: bool,
    otherwise: str = "nothing was changed",
    hint: str = "go ahead without asking with --auto-approve",
) -> None:
    """Ask at the terminal, unless it was approved beforehand.

    Args:
        question: what is to be done, and whether.
        is_approved: don't ask.
        otherwise: what a refusal means, in words.
        hint: how to go about it without a terminal.

    Raises:
        UsageError: there is no terminal to ask at.
        RunnerError: the user declined.
    """
    if is_approved:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"there is no terminal to ask at, and {otherwise}", hint=hint)
    if not click.confirm(question, err=True):
        raise RunnerError(f"not approved: {otherwise}")


def approve_sending(question: str, *, is_approved: bool) -> None:
    """Ask before texts leave.

    Args:
        question: what is to be sent, and whether.
        is_approved: don't ask.

    Raises:
        UsageError: there is no terminal to ask at.
        RunnerError: the user declined.
    """
    require_approval(
        question,
        is_approved=is_approved,
        otherwise="nothing was sent",
        hint="send without asking with --auto-approve, or a reviewed plan with --plan FILE",
    )
