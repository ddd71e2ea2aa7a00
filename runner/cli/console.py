"""Output: tables and JSON on standard output; notes, warnings and progress on standard error."""

from __future__ import annotations

import io
import re
import shutil
import sys
import textwrap
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import click

from runner.cli.encoding import fit_json, print_text
from runner.cli.signals import stop_on_signals
from runner.wording import count_words, printable
from runner.workflow.observer import Observer, Progress, is_quiet

if TYPE_CHECKING:
    import threading
    from collections.abc import Container, Sequence

    from runner.document import Document
    from runner.errors import RunnerError
    from runner.source.diagnostic import Problems

_WIDE = 120
"""Width of tables in a pipe or a file."""
_NARROWEST = 20
"""Fewest characters that a line is folded to."""
_LINE_EVERY_S = 5.0
_STYLED = re.compile(r"((?:\x1b\[\d+m)+([^\x1b]+)\x1b\[0m)")


def print_json(document: Document) -> None:
    """Write a JSON document to standard output."""
    click.echo(fit_json(document.write(), sys.stdout))


def find_width(*, err: bool = False) -> int | None:
    """Return the width of the terminal that standard output (or `err`) is; None if it is none."""
    stream = sys.stderr if err else sys.stdout
    return shutil.get_terminal_size().columns if stream.isatty() else None


def print_prose(text: str, *, err: bool = False) -> None:
    """Write lines, at a terminal folded between words; elsewhere each stays one, for `grep` and logs."""
    width = find_width(err=err)
    for line in text.split("\n"):
        print_text(line if width is None else _fold(line, width), err=err)


def print_next(step: str | None) -> None:
    """Write what a person can do next, to a person only: at a terminal."""
    if step is not None and not is_quiet() and find_width(err=True) is not None:
        print_prose(f"Next: {step}.", err=True)


def _fold(line: str, width: int) -> str:
    folded = textwrap.fill(
        click.unstyle(line),
        max(width, _NARROWEST),
        subsequent_indent=f"{line[: len(line) - len(line.lstrip())]}  ",
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    # Colours take no room: they come after the folding.
    for styled, words in _STYLED.findall(line):
        folded = folded.replace(words, styled, 1)
    return folded


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str | int]],
    *,
    essential: Container[str] = (),
    err: bool = False,
) -> None:
    """Write a table, numbers to the right, with thousands separators; cells fold between words.

    At a terminal that is too narrow even for that, each row becomes a line of `name: value`, without zeros
    in columns that are not `essential`.
    """
    # Imported here: only commands with tables pay for it.
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    width = find_width(err=err)
    rule_only = box.Box("    \n    \n ── \n" + "    \n" * 5)
    table = Table(box=rule_only, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for place, name in enumerate(header):
        is_number = all(isinstance(row[place], int) for row in rows)
        table.add_column(Text(name), justify="right" if is_number else "left", no_wrap=is_number)
    shown = [[f"{cell:,}" if isinstance(cell, int) else printable(cell) for cell in row] for row in rows]
    for cells in shown:
        table.add_row(*map(Text, cells))
    console = Console(file=io.StringIO(), width=width or _WIDE)
    # Measured without bounds: a narrower table would cut words.
    needed = Measurement.get(console, console.options.update(max_width=sys.maxsize), table).minimum
    if width is None or needed <= width:
        console.width = max(console.width, needed)
        with console.capture() as captured:
            console.print(table)
        head, rule, body = captured.get().partition("─")
        lines = [click.style(line.rstrip(), bold=True) for line in head.splitlines() if line]
        lines += [line.rstrip() for line in (rule + body).splitlines()]
        print_text("\n".join(lines), err=err)
        return
    for cells in shown:
        pairs = zip(header, cells, strict=True)
        kept = (f"{name}: {cell}" for name, cell in pairs if cell not in {"", "0"} or name in essential)
        print_prose("  ".join(kept), err=err)


def say(message: str, *, hint: str | None = None, label: str = "", colour: str = "red") -> None:
    """Write a message to standard error, after a label, with the remedy below it."""
    start = f"{click.style(label, fg=colour, bold=True)} " if label else ""
    print_prose(f"{start}{message}", err=True)
    if hint:
        print_prose(f"  {hint}", err=True)


class _Lines:
    """Progress as lines, now and then."""

    def __init__(self, title: str, total: int | None) -> None:
        self._title, self._total = title, total
        self._done, self._said = 0, time.monotonic()

    def advance(self, steps: int) -> None:
        self._done += steps
        if time.monotonic() - self._said >= _LINE_EVERY_S:
            self._said = time.monotonic()
            of = f" of {self._total:,}" if self._total else ""
            say(f"{self._title}: {self._done:,}{of}")


class ConsoleObserver(Observer):
    """An observer of use cases that writes to standard error."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        self.is_quiet = is_quiet

    def note(self, text: str) -> None:
        """Write one line."""
        say(text)

    def warn(self, text: str) -> None:
        """Write a warning."""
        say(text, label="Warning:", colour="yellow")

    def hand_over(self, text: str) -> None:
        """Write Markdown to standard output."""
        print_text(text, nl=False)

    def show_problems(self, problems: Problems) -> None:
        """Write problems, each with its place and remedy; notes, which `validate` shows, are counted."""
        # Imported here, so that commands without problems don't pay for it.
        from runner.cli.output.problems import human_lines

        for line in human_lines(problems, with_notes=False):
            print_prose(line, err=True)
        if problems.note_count:
            notes = count_words(problems.note_count, "note")
            print_prose(f"{notes} on campaign files: see `runner validate`.", err=True)

    def leave_out(self, words: str, error: RunnerError) -> None:
        """Write the reason for leaving out a campaign, and the remedy."""
        say(words, hint=error.hint, label="Left out:")

    def show_progress(self, title: str, total: int | None) -> AbstractContextManager[Progress]:
        """Write a line now and then."""
        return nullcontext(_Lines(title, total))

    def watch_for_stop(self, stop: threading.Event) -> AbstractContextManager[None]:
        """Let the first SIGINT or SIGTERM end the work in order, and a second one at once."""
        return stop_on_signals(stop)
