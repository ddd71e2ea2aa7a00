"""`runner sandbox simulate` and `runner sandbox numbers`: the people whom nobody texts."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from runner.cli.console import count_words, print_json, print_table
from runner.cli.sandbox_options import DB_OPTION, FORMAT_OPTION, SHARE, explained, find_db, read_option
from runner.sandbox.durations import format_duration
from runner.sandbox.rehearsal.personas import PERSONAS, Habits, parse_shares

if TYPE_CHECKING:
    from pathlib import Path

    from runner.sandbox.rehearsal.simulate import SimulationSummary

_PERSONA_LIST = "\n".join(f"  {name:<10} {kind.says}" for name, kind in PERSONAS.items())
_CROWD = Habits()


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
@click.option(
    "--seed", type=int, default=1, show_default=True, help="The same seed gives the same participants."
)
@DB_OPTION
@click.option(
    "--response-rate",
    type=SHARE,
    default=_CROWD.response_rate,
    show_default=True,
    help="Share of the participants who reply at all.",
)
@click.option(
    "--quit-rate",
    type=SHARE,
    default=_CROWD.quit_rate,
    show_default=True,
    help="Share of those who stop half-way.",
)
@click.option(
    "--invalid-rate",
    type=SHARE,
    default=_CROWD.invalid_rate,
    show_default=True,
    help="Share of the choices that are answered wrongly first.",
)
@click.option(
    "--typo-rate",
    type=SHARE,
    default=_CROWD.typo_rate,
    show_default=True,
    help="Share of the replies with a slip of the finger.",
)
@click.option(
    "--persona",
    "personas",
    multiple=True,
    metavar="NAME=SHARE",
    callback=read_option(parse_shares),
    help="Make this share of the participants so; may be repeated. The rates are for all others.",
)
@FORMAT_OPTION
def simulate(
    seed: int,
    db: Path | None,
    response_rate: float,
    quit_rate: float,
    invalid_rate: float,
    typo_rate: float,
    personas: dict[str, float],
    layout: str,
) -> None:
    """Let simulated participants answer every open session, in virtual time from now on.

    The sandbox's clock follows them. The owners of magic numbers do what they always do, at their time.
    """
    from runner.sandbox.rehearsal.simulate import simulate as simulate_sandbox

    with explained():
        summary = simulate_sandbox(
            find_db(db),
            seed=seed,
            response_rate=response_rate,
            quit_rate=quit_rate,
            invalid_rate=invalid_rate,
            typo_rate=typo_rate,
            personas=personas,
        )
    if layout == "json":
        times = {"started": summary.started.isoformat(), "ended": summary.ended.isoformat()}
        print_json({**asdict(summary), **times})
    else:
        click.echo(_describe(summary))


@click.command(epilog="\b\nExamples:\n  runner sandbox numbers\n  runner sandbox numbers --format json")
@FORMAT_OPTION
def numbers(layout: str) -> None:
    """List the magic numbers: phones that do what the table says, on every sandbox."""
    from runner.sandbox.rehearsal.magic import MAGIC_NUMBERS

    if layout == "json":
        shown = [
            {"phone": each.phone, "name": each.name, "does": each.does} for each in MAGIC_NUMBERS.values()
        ]
        print_json({"numbers": shown})
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
