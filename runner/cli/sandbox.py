"""`runner sandbox`: the Messaging Survey Service on its own, and participants who answer it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.folders import make_sandbox_database
from runner.errors import RunnerError
from runner.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.sandbox.server import ServiceAddress
    from runner.sandbox.simulate import SimulationSummary

_DB_OPTION = click.option(
    "--db",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Database file.  [default: .runner/sandbox/service.sqlite]",
)


@click.group(name="sandbox")
def command() -> None:
    """The survey service itself, on this machine: nothing is texted to anyone."""


@command.command(
    epilog="""\b
Examples:
  runner sandbox serve
  runner sandbox serve --port 9000 --db service.sqlite
"""
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8025, show_default=True, help="0 takes a free one."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@_DB_OPTION
@click.option("--username", help="Account name.  [default: sandbox]")
@click.option(
    "--api-key",
    envvar="RUNNER_SANDBOX_API_KEY",
    help="Account secret; better given in RUNNER_SANDBOX_API_KEY.  [default: one kept in the database]",
)
def serve(port: int, host: str, db: Path | None, username: str | None, api_key: str | None) -> None:
    """Serve until interrupted; says its URL, username and api_key at start."""
    # Late, as everything below: web server and database would slow the start of every other command.
    from runner.sandbox.server import serve as serve_sandbox

    with _explained():
        serve_sandbox(
            _choose_db(db),
            host=host,
            port=port,
            username=username,
            api_key=api_key,
            on_start=_show_address,
        )


@command.command(
    epilog="""\b
Examples:
  runner sandbox simulate
  runner sandbox simulate --seed 7 --response-rate 0.3 --format json
"""
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="The same seed gives the same participants."
)
@_DB_OPTION
@click.option(
    "--response-rate",
    type=click.FloatRange(0, 1),
    help="Share of the participants who reply at all.  [default: 0.6]",
)
@click.option(
    "--format",
    "layout",
    type=click.Choice(["human", "json"]),
    default="human",
    show_default=True,
    help="Output.",
)
def simulate(seed: int, db: Path | None, response_rate: float | None, layout: str) -> None:
    """Let simulated participants answer every open session, in virtual time from now on."""
    from runner.sandbox.simulate import simulate as simulate_sandbox

    chosen: dict[str, Any] = {} if response_rate is None else {"response_rate": response_rate}
    with _explained():
        summary = simulate_sandbox(_choose_db(db), seed=seed, now=datetime.now(UTC), **chosen)
    click.echo(_write_json(summary) if layout == "json" else _describe(summary))


@contextmanager
def _explained() -> Iterator[None]:
    """Turn what the sandbox says about its user's mistakes into the runner's own error."""
    try:
        yield
    except SandboxError as error:
        raise RunnerError(str(error)) from None


def _choose_db(db: Path | None) -> Path:
    return db or make_sandbox_database()


def _show_address(address: ServiceAddress) -> None:
    # `echo` flushes: whoever started the service waits for these lines, often at the end of a pipe.
    click.echo(f"url: {address.url}\nusername: {address.username}\napi_key: {address.api_key}")


def _write_json(summary: SimulationSummary) -> str:
    document = {"format_version": "1.0", **asdict(summary), "ended": summary.ended.isoformat()}
    return json.dumps(document, indent=2)


def _describe(summary: SimulationSummary) -> str:
    if not summary.participants:
        return "Nobody is being asked anything."
    return (
        f"{summary.participants:,} participants were being asked: {summary.answered:,} answered, "
        f"{summary.silent:,} said nothing.\n"
        f"{summary.results:,} results recorded, {summary.invalid_answers:,} invalid answers, "
        f"{summary.sessions_completed:,} sessions completed."
    )
