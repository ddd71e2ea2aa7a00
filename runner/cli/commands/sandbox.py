"""`runner sandbox`: the Messaging Survey Service on its own, with its clock, state and participants."""

from __future__ import annotations

import math
import re
import sys
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from runner.cli.console import print_json, print_prose, print_table
from runner.cli.encoding import print_text
from runner.cli.output.sandbox import (
    ListedNumber,
    ListedNumbers,
    Reset,
    SavedSnapshot,
    ShownClock,
    Simulation,
)
from runner.document import build
from runner.errors import RunnerError
from runner.sandbox.clock import BACKWARDS, Clock, format_duration, parse_duration
from runner.sandbox.rehearsal.faults import FAULTS, Faults, check_latency, parse_rates
from runner.sandbox.rehearsal.participants import PERSONAS, PersonaHabits, parse_shares
from runner.sandbox.sandbox_errors import SandboxError, explained_trouble
from runner.sandbox.sessions import check_lifetime
from runner.sandbox.webhooks.receiver import read_hosts
from runner.wording import count_words
from runner.workflow.workspace.folders import make_sandbox_database, sandbox_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.document import Document
    from runner.sandbox.model import ServiceAddress
    from runner.sandbox.rehearsal.simulate import SimulationSummary


Written = TypeVar("Written")
Read = TypeVar("Read")


class _Share(click.FloatRange):
    """A share from 0 to 1."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a share; click accepts NaN in every range."""
        share = float(super().convert(value, param, ctx))
        if math.isnan(share):
            self.fail(f"{value!r} is no number.", param, ctx)
        return share


SHARE = _Share()
DB_OPTION = click.option(
    "--db",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Database file.  [default: .runner/sandbox/service.sqlite]",
)
FORMAT_OPTION = click.option(
    "--format",
    "layout",
    type=click.Choice(["human", "json"]),
    default="human",
    show_default=True,
    help="Output format.",
)


def read_option(
    read: Callable[[Written], Read],
) -> Callable[[click.Context, click.Parameter, Written], Read]:
    """Make a callback of an option's reader, whose refusals are mistakes on the command line."""

    def call(_context: click.Context, _parameter: click.Parameter, value: Written) -> Read:
        try:
            return read(value)
        except (SandboxError, ValueError) as error:
            raise click.BadParameter(str(error)) from None

    return call


@contextmanager
def explained() -> Iterator[None]:
    """Turn the sandbox's errors about mistakes of its user, and those of the disk, into RunnerError."""
    try:
        with explained_trouble():
            yield
    except SandboxError as error:
        raise RunnerError(str(error)) from None


def find_db(db: Path | None) -> Path:
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


_PERSONA_LIST = "\n".join(f"  {name:<10} {kind.says}" for name, kind in PERSONAS.items())
_CROWD = PersonaHabits()
_RATES = {
    "response_rate": "Share of participants who reply at all.",
    "quit_rate": "Share of them who stop half-way.",
    "invalid_rate": "Share of choices that are answered wrongly at first.",
    "typo_rate": "Share of replies with a typing error.",
}


def _rate_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each rate of the participants' habits."""
    for name, words in reversed(_RATES.items()):
        default = getattr(_CROWD, name)
        option = click.option(
            f"--{name.replace('_', '-')}", type=SHARE, default=default, show_default=True, help=words
        )
        function = option(function)
    return function


@click.command(
    epilog=f"""\b
Personas:
{_PERSONA_LIST}

\b
Examples:
  runner sandbox simulate
  runner sandbox simulate --seed 7 --response-rate 0.3 --format json
  runner sandbox simulate --persona promoter=0.3 --persona leaver=0.02 --typo-rate 0.1
"""
)
@click.option("--seed", type=int, default=1, show_default=True, help="Equal seeds give equal participants.")
@DB_OPTION
@_rate_options
@click.option(
    "--persona",
    "personas",
    multiple=True,
    metavar="NAME=SHARE",
    callback=read_option(parse_shares),
    help="Give this share of participants a persona; may be repeated. The rates are for all others.",
)
@FORMAT_OPTION
def simulate(seed: int, db: Path | None, personas: dict[str, float], layout: str, **rates: Any) -> None:
    """Let participants answer all open sessions.

    They are simulated, in virtual time from now on, and the sandbox's clock follows them. The owners of magic
    numbers do what they always do, at their time.
    """
    from runner.sandbox.rehearsal.simulate import simulate as simulate_sandbox

    if db is None and not sandbox_database().exists():
        raise RunnerError(
            f"there is no sandbox database {sandbox_database()}: nobody is being asked anything",
            hint="`runner apply` makes one in its project; --db names another",
        )
    with explained():
        summary = simulate_sandbox(find_db(db), seed=seed, personas=personas, **rates)
    _show(layout, build(Simulation, summary), _describe(summary))


@click.command(epilog="\b\nExamples:\n  runner sandbox numbers\n  runner sandbox numbers --format json")
@FORMAT_OPTION
def numbers(layout: str) -> None:
    """List the magic numbers.

    These phones have a fixed behaviour on every sandbox.
    """
    from runner.sandbox.rehearsal.magic import MAGIC_NUMBERS

    if layout == "json":
        shown = (build(ListedNumber, each) for each in MAGIC_NUMBERS.values())
        print_json(ListedNumbers(tuple(shown)))
    else:
        rows = [(each.phone, each.name, each.does) for each in MAGIC_NUMBERS.values()]
        print_table(("phone", "name", "what it does"), rows)


def _describe(summary: SimulationSummary) -> str:
    if not summary.participants:
        return "Nobody is being asked anything."
    asked = "participant was" if summary.participants == 1 else "participants were"
    said = (
        f"{summary.participants:,} {asked} being asked: {summary.answered:,} answered, "
        f"{summary.silent:,} said nothing.\n"
        f"{count_words(summary.results, 'result')} recorded, "
        f"{count_words(summary.invalid_answers, 'invalid answer')}, "
        f"{count_words(summary.sessions_completed, 'session')} completed."
    )
    if summary.opted_out:
        said += f"\n{count_words(summary.opted_out, 'participant')} opted out."
    if summary.ended > summary.started:
        took = timedelta(seconds=math.ceil((summary.ended - summary.started).total_seconds()))
        said += f"\nThat took them {format_duration(took)}: the sandbox's clock has moved on to then."
    return said


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
    """Show, advance or reset the service's time.

    When the time moves forward, the owners of magic numbers do what falls due, and sessions expire; a running
    service follows at once. Only `reset`, which sets the time to this machine's, moves it back, and only
    while no record is later than that, because records are listed in the order of their creation.
    """
    advance = _read_advance(change)
    from runner.sandbox.commits import Changes
    from runner.sandbox.rehearsal.magic import AutoResponders
    from runner.sandbox.service import Service
    from runner.sandbox.store import open_store

    with explained(), closing(open_store(find_db(db))) as store:
        service_clock = Clock(store)
        if change == "reset":
            service_clock.reset()
        elif advance is not None:
            AutoResponders(Service(store), clock=service_clock, changes=Changes(store)).advance(advance)
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
    """Copy the sandbox's whole state to FILE.

    The file has phones, texts and the api_key: keep it as private as the database.
    """
    from runner.sandbox.rehearsal.snapshot import take_snapshot

    if file.exists() and not overwrite:
        raise click.BadParameter(f"there is a {file} already; --overwrite replaces it", param_hint="FILE")
    with explained():
        size = take_snapshot(find_db(db), file)
    text = f"Wrote {file} ({size:,} bytes). `runner sandbox reset --to {file}` goes back to it."
    _show(layout, SavedSnapshot(str(file), size), text)


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
    """Delete all state, or go back to a snapshot.

    Without --to everything that was sent and answered is deleted. The credentials stay, and a running service
    continues with the new state.
    """
    from runner.sandbox.rehearsal.snapshot import restore_snapshot

    with explained():
        restore_snapshot(find_db(db), file)
    text = "The sandbox is empty." if file is None else f"The sandbox is as it was in {file}."
    _show(layout, Reset(None if file is None else str(file)), text)


def _read_advance(change: str | None) -> timedelta | None:
    """Read the distance of the clock's move, if there is one."""
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
    rounded = timedelta(seconds=round(offset.total_seconds()))
    ahead = f"{format_duration(rounded)} ahead of" if rounded else "that of"
    document = ShownClock(now, offset.total_seconds())
    _show(layout, document, f"{now:%Y-%m-%d %H:%M:%S} UTC, {ahead} this machine")


def _show(layout: str, document: Document, text: str) -> None:
    if layout == "json":
        print_json(document)
    else:
        print_prose(text)


_FAULT_LIST = "\n".join(f"  {fault.name:<13} {fault.says}" for fault in FAULTS.values())


def _read_lifetime(written: str | None) -> timedelta | None:
    return None if written is None else check_lifetime(parse_duration(written))


def _read_latency(written: str) -> timedelta:
    return check_latency(parse_duration(written))


@click.group(name="sandbox")
def command() -> None:
    """Run the survey service on this machine: nobody is texted."""


@command.command(
    epilog=f"""\b
Faults:
{_FAULT_LIST}

\b
Examples:
  runner sandbox serve
  runner sandbox serve --port 9000 --db service.sqlite
  runner sandbox serve --fault drop=0.05 --fault 500=0.01 --latency 50ms
"""
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8025,
    show_default=True,
    help="Port to listen on; 0 for any free port.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@DB_OPTION
@click.option("--username", help="Account name.  [default: sandbox]")
@click.option(
    "--api-key",
    envvar="RUNNER_SANDBOX_API_KEY",
    help="Account secret; better set RUNNER_SANDBOX_API_KEY.  [default: one kept in the database]",
)
@click.option("--plan-renders", type=click.IntRange(0), help="Renders that the account's plan allows.")
@click.option(
    "--session-lifetime",
    metavar="DURATION",
    callback=read_option(_read_lifetime),
    help="Time after their last turn until sessions expire; kept in the database.  [default: 7d]",
)
@click.option(
    "--fault",
    "rates",
    multiple=True,
    metavar="NAME=SHARE",
    callback=read_option(parse_rates),
    help="Let this share of requests fail, from 0 to 1; may be repeated. The names are below.",
)
@click.option("--fault-seed", type=int, default=0, show_default=True, help="Equal seeds give equal faults.")
@click.option(
    "--latency",
    default="0s",
    show_default=True,
    metavar="DURATION",
    callback=read_option(_read_latency),
    help="Delay every request, for example by 50ms.",
)
@click.option(
    "--allow-webhooks",
    "webhook_hosts",
    multiple=True,
    metavar="HOST",
    callback=read_option(read_hosts),
    help="Also call webhooks on this host, not only on this machine; may be repeated.",
)
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    callback=read_option(read_hosts),
    help="Also answer to this host name, such as that of a container or a tunnel; may be repeated.",
)
def serve(
    db: Path | None, rates: dict[str, float], fault_seed: int, latency: timedelta, **options: Any
) -> None:
    """Serve until interrupted, with a web inbox.

    Prints its URL, username and api_key at the start.
    """
    # Late, as everything below: web server and database would slow the start of every other command.
    from runner.sandbox.web.server import serve as serve_sandbox

    try:
        faults = Faults(rates, latency=latency, seed=fault_seed)
    except SandboxError as error:
        raise click.BadParameter(str(error), param_hint="--fault") from None
    with explained():
        database = db or make_sandbox_database()
        serve_sandbox(database, on_start=_show_address, faults=faults, **options)


for _other in (simulate, numbers, clock, snapshot, reset):
    command.add_command(_other)


def _show_address(address: ServiceAddress) -> None:
    # `echo` flushes: the starter of the service waits for these lines, often at the end of a pipe.
    said = f"url: {address.url}\nusername: {address.username}\napi_key: {address.api_key}"
    print_text(said if address.network_url is None else f"{said}\nnetwork_url: {address.network_url}")
    if sys.stderr.isatty():
        how = "Open the URL in a browser to see all texts, and answer them. Ctrl-C stops the service."
        print_prose(how, err=True)
