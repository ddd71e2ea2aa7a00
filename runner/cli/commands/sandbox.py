"""`runner sandbox`: the Messaging Survey Service on its own, with its clock, state and participants."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.command import Group, special_option
from runner.cli.console import print_prose
from runner.cli.encoding import print_text
from runner.cli.options import format_option
from runner.cli.output.screen import show
from runner.document import Count, Document, Moment
from runner.errors import RunnerError
from runner.sandbox.clock import parse_duration, read_clock, read_move
from runner.sandbox.rehearsal.faults import FAULTS, Faults, parse_rates
from runner.sandbox.rehearsal.participants import describe_habits
from runner.sandbox.sandbox_errors import RefusalError, SandboxError, explained_trouble
from runner.sandbox.webhooks.receiver import read_hosts
from runner.view.blocks import Sentence
from runner.workflow.workspace.folders import make_sandbox_database, sandbox_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from runner.sandbox.model import ServiceAddress
    from runner.sandbox.rehearsal.controls import ControlOutcome


class SandboxDocument(Document, frozen=True):
    """The document that the commands of `runner sandbox` write with `--format json`."""


class Simulation(SandboxDocument, frozen=True):
    """The document that `runner sandbox simulate` writes.

    Attributes:
        participants: those who were being asked something at its start.
        answered: of them, those who gave at least one valid answer now.
        silent: of them, those who wrote nothing now.
        invalid_answers: texts that were no valid answer.
        results: answers that were recorded.
        sessions_completed: sessions that came to their end.
        opted_out: participants who wrote STOP or its kin.
        started: the service's time at the start.
        ended: virtual time of the last text, or the start where nobody wrote.
    """

    participants: Count
    answered: Count
    silent: Count
    invalid_answers: Count
    results: Count
    sessions_completed: Count
    opted_out: Count
    started: Moment
    ended: Moment


class ShownClock(SandboxDocument, frozen=True):
    """The document that `runner sandbox clock` writes.

    Attributes:
        time: the service's time.
        clock_offset_s: seconds that it is ahead of this machine.
    """

    time: Moment
    clock_offset_s: float


_DB = click.option(
    "--db",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Database file.  [default: .runner/sandbox/service.sqlite]",
)
_FORMAT = format_option("human", "json")


def _read_option(read: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Make a callback of an option's reader, whose refusals are mistakes on the command line."""

    def call(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        try:
            return read(value)
        except (SandboxError, ValueError) as error:
            raise click.BadParameter(str(error)) from None

    return call


@contextmanager
def _explained() -> Iterator[None]:
    """Turn the sandbox's errors about mistakes of its user, and those of the disk, into RunnerError."""
    try:
        with explained_trouble():
            yield
    except SandboxError as error:
        raise RunnerError(str(error)) from None
    except RefusalError as refusal:
        raise RunnerError(" ".join((refusal.message, *refusal.problems))) from None


def _find_db(db: Path | None) -> Path:
    """Return the given database, which must exist, or the default one in a folder that is created if missing.

    Raises:
        RunnerError: the given database does not exist.
    """
    if db is not None and not db.exists():
        raise RunnerError(
            f"there is no sandbox database {db}",
            hint=f"`runner sandbox serve --db {db}` makes one; without --db the default one is taken",
        )
    return db or make_sandbox_database()


def _rate_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add an option for each of the participants' habits."""
    for name, (words, default) in reversed(describe_habits().items()):
        option = f"--{name.replace('_', '-')}"
        function = click.option(option, type=click.FloatRange(0, 1), default=default, help=words)(function)
    return function


@click.group(cls=Group, name="sandbox")
def sandbox() -> None:
    """Run the survey service on this machine: nobody is texted."""


@sandbox.command()
@click.option("--seed", type=click.IntRange(0), default=1, help="Equal seeds give equal participants.")
@_DB
@_rate_options
@_FORMAT
def simulate(seed: int, db: Path | None, format_: str, **rates: float) -> int:
    """Let participants answer all open sessions.

    They are simulated, in virtual time from now on, and the sandbox's clock follows them.

    Examples:
        runner sandbox simulate
        runner sandbox simulate --seed 7 --response-rate 0.3 --format json
    """
    if db is None and not sandbox_database().exists():
        raise RunnerError(
            "nothing was sent to this project's sandbox yet: nobody is being asked anything",
            hint=f"{_advise_next(read_clock())}; --db names another sandbox",
        )
    document, words = _act(db, "simulate", seed=seed, **rates)
    if not document["participants"] and db is None:
        words += f"\nNext: {_advise_next(datetime.fromisoformat(document['started']))}."
    if document["results"] and db is None:
        words += "\nNext: `runner reconcile` reads the answers."
    show(Simulation(**document), format_, map(Sentence, words.split("\n")))
    return 0


def _advise_next(now: datetime) -> str:
    """Return what has somebody asked, in this project."""
    from runner.workflow.plan import find_due_message

    due = None
    with suppress(RunnerError):  # `apply` tells what is wrong with the campaigns
        due = find_due_message(now, os.environ)
    advice = "`runner apply` sends what is due"
    if due is None:
        return advice
    where = f"{due.campaign}/{due.message}, {due.at:%Y-%m-%d %H:%M} UTC"
    return f"{advice}, and `runner sandbox clock next` goes to what waits ({where})"


def _check_move(move: str | None) -> str | None:
    if move not in {None, "next", "reset"}:
        read_move(move, read_clock())
    return move


@sandbox.command()
@click.argument(
    "move", required=False, metavar="[+DURATION|DATE|TIME|next|reset]", callback=_read_option(_check_move)
)
@_DB
@_FORMAT
def clock(move: str | None, db: Path | None, format_: str) -> int:
    """Show, advance or reset the service's time.

    It advances by a duration, to a date or a time of day (UTC), or to what is due `next`: the next message or
    reminder of `campaigns/`; without one, the end of a session. A running service follows at once.
    Only `reset`, which sets the time to this machine's, moves it back, and only while no record is later than
    that, because records are listed in the order of their creation.

    Examples:
        runner sandbox clock
        runner sandbox clock +2d
        runner sandbox clock 2030-12-01T09:00
        runner sandbox clock 09:00
        runner sandbox clock next
        runner sandbox clock reset
    """
    from runner.sandbox.rehearsal.controls import ControlledSandbox

    with _explained():
        document, words = ControlledSandbox(_find_db(db)).show_clock()
    due = None
    if move == "next" and db is None:
        # The plans of this project go by its own sandbox.
        from runner.workflow.plan import find_due_message

        due = find_due_message(datetime.fromisoformat(document["time"]), os.environ)
    if due is not None:
        document, words = _act(db, "clock", advance=due.at.isoformat())
    elif move is not None:
        document, words = _act(db, "clock", advance=move)
    if move == "next":
        own = "Due now: a session has ended."
        words += f"\n{own if due is None else due.describe()}"
    show(ShownClock(**document), format_, map(Sentence, words.split("\n")))
    return 0


@sandbox.command()
@_DB
def reset(db: Path | None) -> None:
    """Delete all that was sent and answered, and set the clock to this machine's time.

    The credentials stay, and a running service continues, empty.

    Examples:
        runner sandbox reset
    """
    _document, words = _act(db, "reset")
    print_prose(words)


def _act(db: Path | None, name: str, /, **values: object) -> ControlOutcome:
    # Late: the database would slow the start of every other command.
    from runner.sandbox.rehearsal.controls import ACTIONS, ControlledSandbox, read_values

    with _explained():
        return read_values(values, ACTIONS[name]).act(ControlledSandbox(_find_db(db)))


_FAULT_LIST = "\n".join(f"  {fault.name:<13} {fault.says}" for fault in FAULTS.values())


@sandbox.command(epilog=f"\b\nFaults:\n{_FAULT_LIST}")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8025, help="Port to listen on; 0 for any free port."
)
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@_DB
@click.option("--username", help="Account name.  [default: sandbox]")
@click.option(
    "--api-key",
    envvar="RUNNER_SANDBOX_API_KEY",
    help="Account secret; better set RUNNER_SANDBOX_API_KEY.  [default: one kept in the database]",
)
@special_option("--plan-renders", type=click.IntRange(0), help="Renders that the account's plan allows.")
@click.option(
    "--fault",
    "rates",
    multiple=True,
    metavar="NAME=SHARE",
    callback=_read_option(parse_rates),
    help="Let this share of requests fail, from 0 to 1; may be repeated. The names are below.",
)
@special_option("--fault-seed", type=int, default=0, help="Equal seeds give equal faults.")
@special_option(
    "--latency",
    default="0s",
    metavar="DURATION",
    callback=_read_option(parse_duration),
    help="Delay every request, for example by 50ms.",
)
@special_option(
    "--allow-webhooks",
    "webhook_hosts",
    multiple=True,
    metavar="HOST",
    callback=_read_option(read_hosts),
    help="Also call webhooks on this host, not only on this machine; may be repeated.",
)
@special_option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    callback=_read_option(read_hosts),
    help="Also answer to this host name, such as that of a container or a tunnel; may be repeated.",
)
def serve(
    db: Path | None, rates: dict[str, float], fault_seed: int, latency: timedelta, **options: Any
) -> None:
    """Serve until interrupted, with a web inbox.

    Prints its URL, username and api_key at the start.

    Examples:
        runner sandbox serve
        runner sandbox serve --port 9000 --db service.sqlite
        runner sandbox serve --fault drop=0.05 --fault 500=0.01 --latency 50ms
    """
    # Late, as everything below: web server and database would slow the start of every other command.
    from runner.sandbox.web.server import serve as serve_sandbox

    try:
        faults = Faults(rates, latency=latency, seed=fault_seed)
    except SandboxError as error:
        raise click.BadParameter(str(error), param_hint="--fault, --latency") from None
    with _explained():
        database = db or make_sandbox_database()
        serve_sandbox(database, on_start=_show_address, faults=faults, **options)


def _show_address(address: ServiceAddress) -> None:
    # `echo` flushes: the starter of the service waits for these lines, often at the end of a pipe.
    print_text(f"url: {address.url}\nusername: {address.username}\napi_key: {address.api_key}")
    if sys.stderr.isatty():
        how = "Open the URL in a browser to see all texts, and answer them. Ctrl-C stops the service."
        print_prose(how, err=True)
