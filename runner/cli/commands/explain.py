"""`runner explain`: the codes of problems, each with a wrong line and the right one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from runner.cli.command import Command
from runner.cli.console import print_prose, print_table
from runner.cli.encoding import print_text
from runner.errors import UsageError
from runner.source.normalize import suggest

_FILE = Path(__file__).parents[1] / "explanations.json"
_COLOURS = {"-": "red", "+": "green"}


@click.command(cls=Command)
@click.argument("code", required=False)
def command(code: str | None) -> int:
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
