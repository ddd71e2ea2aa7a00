"""Commands that need no campaign: `explain`, `law`, `schema`, `completion`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from runner.cli.command import Command
from runner.cli.console import find_width, print_prose, print_table
from runner.cli.encoding import fit_json, print_text
from runner.cli.output.screen import show_blocks
from runner.errors import UsageError
from runner.source.json_schema import schema_names, schema_text
from runner.source.normalize import suggest
from runner.source.quantity import write_duration
from runner.timing.legal_hours import load_law
from runner.view.blocks import Items, ListItem, Section, Sentence, TableBlock
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.timing.legal_hours import LawBook, LegalRule
    from runner.view.blocks import Block

_FILE = Path(__file__).parents[1] / "explanations.json"
_COLOURS = {"-": "red", "+": "green"}


@click.command(cls=Command)
@click.argument("code", required=False)
def explain(code: str | None) -> int:
    """Explain the code of a problem by an example.

    It shows what was wrong (-) and the right (+), or the line at fault (>). Without CODE all codes are
    listed. `runner validate` and others print the code at the end of a problem's line, in brackets.

    Examples:
        runner explain
        runner explain yaml-duplicate-key
    """
    known: dict[str, dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))
    if code is None:
        print_table(
            ("code", "severity", "example"), [[k, v["severity"], v["message"]] for k, v in known.items()]
        )
        return 0
    code = code.strip("[]")
    if code not in known:
        raise UsageError(f"there is no code {code}{suggest(code, known)}", hint="`runner explain` lists all")
    example = known[code]
    print_text(f"{code} ({example['severity']})", bold=True)
    print_prose(f"  {example['message']}")
    if example["hint"]:
        print_prose(f"  {example['hint']}")
    if example["change"]:
        print_text(f"\n{example['file']}:")
    for line in example["change"]:
        print_text(f"  {line}", fg=_COLOURS.get(line[0]))
    return 0


@click.command(cls=Command)
def law() -> int:
    """Print the legal sending hours that `quiet_hours: legal` applies.

    Each comes with its law, its source, and the date of the last check: as tables at a terminal, as Markdown
    elsewhere. An aid, not legal advice.

    Example:
        runner law
    """
    show_blocks(_show_law(load_law()), "markdown" if find_width() is None else "human")
    return 0


_LAW_COLUMNS = ("place", "hours", "holidays", "texts", "calls", "holds for", "from", "until", "as of")


def _show_law(book: LawBook) -> Iterator[Block]:
    """Yield a table of each part of the world, and the source of each law."""
    yield Sentence(f"Looked through on {book.checked}. An aid, not legal advice.")
    states = [rule for rule in book.rules if rule.places[0].startswith("US")]
    others = [rule for rule in book.rules if rule not in states]
    for title, rules in {"United States": states, "Other countries": others}.items():
        rows = [
            (
                ", ".join(rule.places),
                rule.window.describe(),
                "closed" if rule.holidays is not None else "",
                rule.texts,
                f"{rule.calls}, automatic" if rule.automatic_only else rule.calls,
                ", ".join(rule.purposes),
                f"{rule.since or 'not known'}",
                f"{rule.until or ''}",
                f"{rule.as_of}",
            )
            for rule in rules
        ]
        table = TableBlock(_LAW_COLUMNS, rows, figures=False)
        yield Section(title, [table, Items(list(map(_describe_law, rules)))])


def _describe_law(rule: LegalRule) -> ListItem:
    return ListItem(
        f"{rule.citation}: {rule.covers}", tuple(_list_parts(rule)), ", ".join(rule.places), rule.url or ""
    )


def _list_parts(rule: LegalRule) -> Iterator[str]:
    if rule.quote:
        yield f"In its words: “{rule.quote}”"
    yield f"Source: {rule.source}."
    if rule.zone is not None:
        yield f"Clocks: those of {rule.zone}, wherever people are."
    if rule.caps is not None:
        most = count_words(rule.caps.messages, "message")
        yield f"At most {most} to a person within {write_duration(rule.caps.within)}."
    if rule.asks:
        yield f"A text must say: {', '.join(one.replace('_', ' ') for one in rule.asks)}."
    if rule.no_reply_opts_out:
        yield "No reply counts as opting out: no reminder `to: unanswered` goes there."
    if rule.holidays is not None:
        state = f", {rule.holidays.state}" if rule.holidays.state else ""
        days = " and ".join(rule.holidays.categories)
        yield f"Holidays: {days} ones of {rule.holidays.country}{state}."
    if rule.not_enforced:
        yield f"Not kept: {rule.not_enforced}."


_OF_FILES = ("campaign", "targets", "tests", "lockfile", "suppressions", "approvals")
_HELP = f"""Print one of the program's JSON Schemas.

NAME is {", ".join(_OF_FILES)} for files; and, for the output of commands with --format json,
{", ".join(name for name in schema_names() if name not in _OF_FILES)}.

Example:
    runner schema campaign > campaign.schema.json
"""


@click.command(cls=Command, help=_HELP)
@click.argument("name", type=click.Choice(schema_names()), metavar="NAME")
def schema(name: str) -> int:
    """Print a schema."""
    click.echo(fit_json(schema_text(name), sys.stdout), nl=False)
    return 0


_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(cls=Command)
@click.argument("shell", type=click.Choice([*_SHELLS]), metavar="bash|zsh|fish")
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print a script with which the shell completes commands and options.

    Write it where the shell looks for such scripts, and open a new shell.

    Examples:
        mkdir -p ~/.local/share/bash-completion/completions
        runner completion bash > ~/.local/share/bash-completion/completions/runner

        mkdir -p ~/.zfunc    # in fpath, before compinit
        runner completion zsh > ~/.zfunc/_runner

        mkdir -p ~/.config/fish/completions
        runner completion fish > ~/.config/fish/completions/runner.fish
    """
    complete = _SHELLS[shell](ctx.find_root().command, {}, "runner", "_RUNNER_COMPLETE")
    click.echo(complete.source(), nl=False)
    return 0
