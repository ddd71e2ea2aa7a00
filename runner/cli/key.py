"""`runner key`: makes state keys."""

from __future__ import annotations

import click

from runner.service.state_key import make_state_key


@click.group(epilog="\b\nExample:\n  runner key new | gh secret set RUNNER_STATE_KEY --env campaigns")
def command() -> None:
    """Make state keys, and move records to a new one.

    A state key (RUNNER_STATE_KEY) makes the fingerprints in lockfiles, which nobody can guess phones from
    without it, and signs their lines, which nobody can change without it.
    """


@command.command(epilog="\b\nExample:\n  runner key new")
def new() -> int:
    """Print a good state key: 32 random bytes.

    Keep it where secrets are kept, and a copy where it cannot be lost: without it nothing more can be sent
    of what was recorded with it.
    """
    click.echo(make_state_key())
    return 0
