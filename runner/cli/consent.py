"""Asks before anything is sent."""

from __future__ import annotations

import sys

import click

from runner.errors import RunnerError, UsageError


def require_consent(question: str, *, is_approved: bool) -> None:
    """Ask at the terminal, unless it was approved beforehand.

    Args:
        question: what is to be sent, and whether.
        is_approved: don't ask.

    Raises:
        UsageError: there is no terminal to ask at.
        RunnerError: the user declined.
    """
    if is_approved:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to ask at, and nothing was sent",
            hint="send without asking with --auto-approve, or a reviewed plan with --plan FILE",
        )
    if not click.confirm(question, err=True):
        raise RunnerError("not approved: nothing was sent")
