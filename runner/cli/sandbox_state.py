"""`runner sandbox clock`, `snapshot` and `reset`: the sandbox's time and state, also while it is served."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.console import print_json
from runner.cli.sandbox_options import DB_OPTION, FORMAT_OPTION, explained, find_db
from runner.sandbox.clock import BACKWARDS, Clock
from runner.sandbox.durations import format_duration, parse_duration

if TYPE_CHECKING:
    from datetime import timedelta

_BACKWARDS = re.compile(r"-\d.*", re.ASCII)
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    # So that `-1d` is no unknown option, but refused with its reason.
    context_settings={"ignore_unknown_options": True},
    epilog="""\b
Examples:
  runner sandbox clock
  runner sandbox clock +2d
  runner sandbox clock +1h30m
  runner sandbox clock reset
""",
)
@click.argument("change", required=False, metavar="[+DURATION|reset]")
@DB_OPTION
@FORMAT_OPTION
def clock(change: str | None, db: Path | None, layout: str) -> None:
    """Show the service's time, move it forward, or set it to this machine's.

    On the way the owners of magic numbers do what falls due, and sessions expire; a running service follows
    at once. The time cannot be moved back otherwise than by `reset`, and that only while no records are
    later than this machine's time: they are listed in the order of their creation.
    """
    advance = _read_advance(change)
    from runner.sandbox.changes import Changes
    from runner.sandbox.rehearsal.cast import Cast
    from runner.sandbox.service import Service
    from runner.sandbox.store import open_store

    with explained(), closing(open_store(find_db(db))) as store:
        service_clock = Clock(store)
        if change == "reset":
            service_clock.reset()
        elif advance is not None:
            Cast(Service(store), clock=service_clock, changes=Changes(store)).advance(advance)
        _show_clock(service_clock, layout)


@click.command(
    epilog="""\b
Examples:
  runner sandbox snapshot before-reminder.sqlite
  runner sandbox snapshot --overwrite before-reminder.sqlite
"""
)
@click.argument("file", type=_FILE)
@DB_OPTION
@click.option("--overwrite", is_flag=True, help="Replace the file if there is one.")
@FORMAT_OPTION
def snapshot(file: Path, db: Path | None, overwrite: bool, layout: str) -> None:
    """Copy the sandbox's whole state to FILE, as it is at this moment.

    The file holds phones, texts and the api_key: keep it as private as the database.
    """
    from runner.sandbox.rehearsal.snapshot import take_snapshot

    if file.exists() and not overwrite:
        raise click.BadParameter(f"there is a {file} already; --overwrite replaces it", param_hint="FILE")
    with explained():
        size = take_snapshot(find_db(db), file)
    if layout == "json":
        print_json({"file": str(file), "bytes": size})
    else:
        click.echo(f"Wrote {file} ({size:,} bytes). `runner sandbox reset --to {file}` goes back to it.")


@click.command(
    epilog="""\b
Examples:
  runner sandbox reset
  runner sandbox reset --to before-reminder.sqlite
"""
)
@DB_OPTION
@click.option("--to", "file", type=_FILE, help="Go back to this snapshot.")
@FORMAT_OPTION
def reset(db: Path | None, file: Path | None, layout: str) -> None:
    """Forget everything that was sent and answered, or go back to a snapshot.

    The credentials stay, and a running service goes on with the new state.
    """
    from runner.sandbox.rehearsal.snapshot import restore_snapshot

    with explained():
        restore_snapshot(find_db(db), file)
    if layout == "json":
        print_json({"reset_to": None if file is None else str(file)})
    else:
        click.echo("The sandbox is empty." if file is None else f"The sandbox is as it was in {file}.")


def _read_advance(change: str | None) -> timedelta | None:
    """Read how far the clock is moved, if it is."""
    if change is None or change == "reset":
        return None
    if _BACKWARDS.fullmatch(change):
        reason = BACKWARDS
    elif change.startswith("-"):
        raise click.NoSuchOption(change)
    elif not change.startswith("+"):
        reason = "write `reset`, or a length of time after a plus, as in +2d"
    else:
        try:
            return parse_duration(change[1:])
        except ValueError as error:
            reason = str(error)
    raise click.BadParameter(reason, param_hint="clock")


def _show_clock(service_clock: Clock, layout: str) -> None:
    now, offset = service_clock.now(), service_clock.offset()
    if layout == "json":
        print_json({"time": now.isoformat(), "clock_offset_s": offset.total_seconds()})
        return
    ahead = f"{format_duration(offset)} ahead of" if offset else "that of"
    click.echo(f"{now:%Y-%m-%d %H:%M:%S} UTC, {ahead} this machine")
