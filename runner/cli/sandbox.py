"""`runner sandbox`: the Messaging Survey Service on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.folders import make_sandbox_database
from runner.cli.sandbox_options import DB_OPTION, explained, read_option
from runner.cli.sandbox_people import numbers, simulate
from runner.cli.sandbox_state import clock, reset, snapshot
from runner.sandbox.durations import parse_duration
from runner.sandbox.errors import SandboxError
from runner.sandbox.expiry import check_lifetime
from runner.sandbox.rehearsal.faults import FAULTS, Faults, check_latency, parse_rates
from runner.sandbox.webhooks.allowance import read_hosts

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path

    from runner.sandbox.model import ServiceAddress


_FAULT_LIST = "\n".join(f"  {fault.name:<13} {fault.says}" for fault in FAULTS.values())


def _read_lifetime(written: str | None) -> timedelta | None:
    return None if written is None else check_lifetime(parse_duration(written))


def _read_latency(written: str) -> timedelta:
    return check_latency(parse_duration(written))


@click.group(name="sandbox")
def command() -> None:
    """The survey service itself, on this machine: nothing is texted to anyone."""


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
    "--port", type=click.IntRange(0, 65535), default=8025, show_default=True, help="0 takes a free one."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@DB_OPTION
@click.option("--username", help="Account name.  [default: sandbox]")
@click.option(
    "--api-key",
    envvar="RUNNER_SANDBOX_API_KEY",
    help="Account secret; better given in RUNNER_SANDBOX_API_KEY.  [default: one kept in the database]",
)
@click.option("--plan-renders", type=click.IntRange(0), help="Renders that the plan allows.")
@click.option(
    "--session-lifetime",
    metavar="DURATION",
    callback=read_option(_read_lifetime),
    help="Let sessions expire so long after their last turn; kept in the database.  [default: 7d]",
)
@click.option(
    "--fault",
    "rates",
    multiple=True,
    metavar="NAME=SHARE",
    callback=read_option(parse_rates),
    help="Let this share of the requests go wrong, from 0 to 1; may be repeated. The names are below.",
)
@click.option("--fault-seed", type=int, default=0, show_default=True, help="The same seed, the same faults.")
@click.option(
    "--latency",
    default="0s",
    show_default=True,
    metavar="DURATION",
    callback=read_option(_read_latency),
    help="Let every request wait, as in 50ms.",
)
@click.option(
    "--allow-webhooks",
    "webhook_hosts",
    multiple=True,
    metavar="HOST",
    callback=read_option(read_hosts),
    help="Call webhooks on this host too, beside this machine; may be repeated.",
)
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    callback=read_option(read_hosts),
    help="Be called by this name too, as of a container or a tunnel; may be repeated.",
)
def serve(
    port: int,
    host: str,
    db: Path | None,
    username: str | None,
    api_key: str | None,
    plan_renders: int | None,
    session_lifetime: timedelta | None,
    rates: dict[str, float],
    fault_seed: int,
    latency: timedelta,
    webhook_hosts: tuple[str, ...],
    allowed_hosts: tuple[str, ...],
) -> None:
    """Serve until interrupted, with a web inbox; says its URL, username and api_key at start."""
    # Late, as everything below: web server and database would slow the start of every other command.
    from runner.sandbox.web.server import serve as serve_sandbox

    try:
        faults = Faults(rates, latency=latency, seed=fault_seed)
    except SandboxError as error:
        raise click.BadParameter(str(error), param_hint="--fault") from None
    with explained():
        serve_sandbox(
            db or make_sandbox_database(),
            on_start=_show_address,
            host=host,
            port=port,
            username=username,
            api_key=api_key,
            plan_renders=plan_renders,
            session_lifetime=session_lifetime,
            faults=faults,
            webhook_hosts=webhook_hosts,
            allowed_hosts=allowed_hosts,
        )


for _other in (simulate, numbers, clock, snapshot, reset):
    command.add_command(_other)


def _show_address(address: ServiceAddress) -> None:
    # `echo` flushes: whoever started the service waits for these lines, often at the end of a pipe.
    click.echo(f"url: {address.url}\nusername: {address.username}\napi_key: {address.api_key}")
