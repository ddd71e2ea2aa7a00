"""Writing for people: tables, progress, notes. Data goes to standard output, the rest to standard error."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FORMAT_VERSION = "1.0"
_WIDE = 200
_LINE_EVERY_S = 5.0
_NARROWEST = 20
"""Characters that a column must keep to be read in one piece."""
_GAP = "  "
_UNBOUNDED = 10_000


class Progress(Protocol):
    """Long work that shows how far it is."""

    def advance(self, steps: int) -> None:
        """Take note of more work done."""


class _Lines:
    """Progress as plain lines, now and then: for logs."""

    def __init__(self, title: str, total: int | None) -> None:
        self._title, self._total = title, total
        self._done, self._said = 0, time.monotonic()

    def advance(self, steps: int) -> None:
        self._done += steps
        if time.monotonic() - self._said >= _LINE_EVERY_S:
            self._said = time.monotonic()
            note(f"{self._title}: {self._done:,}" + (f" of {self._total:,}" if self._total else ""))


class _Silence:
    """No progress is shown."""

    def advance(self, steps: int) -> None:
        """Show nothing."""


@contextmanager
def show_progress(title: str, total: int | None, *, quiet: bool) -> Iterator[Progress]:
    """Show progress on standard error: a bar on a terminal, plain lines elsewhere.

    Args:
        title: what is done.
        total: steps in all; None if that isn't known.
        quiet: show nothing.
    """
    if quiet:
        yield _Silence()
    elif not sys.stderr.isatty():
        yield _Lines(title, total)
    else:
        yield from _show_bar(title, total)


def _show_bar(title: str, total: int | None) -> Iterator[Progress]:
    # Imported here: only commands with progress on a terminal pay for it.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)

        class _Bar:
            def advance(self, steps: int) -> None:
                progress.advance(task, steps)

        yield _Bar()


def note(text: str) -> None:
    """Write one line to standard error."""
    click.echo(text, err=True)


def warn(text: str) -> None:
    """Write a warning to standard error."""
    click.echo(f"{click.style('Warning:', fg='yellow', bold=True)} {text}", err=True)


def print_json(document: dict[str, Any]) -> None:
    """Write a JSON document to standard output, its format's version first."""
    click.echo(json.dumps({"format_version": FORMAT_VERSION, **document}, ensure_ascii=False, indent=2))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str | int]]) -> None:
    """Write a table to standard output, numbers to the right, with thousands separators.

    On a terminal too narrow for it, each row is written as a block of `name: value`. A table of which one
    column alone is too wide stays one: that column folds.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    numeric = [all(isinstance(row[i], int) for row in rows) for i in range(len(header))]
    for name, is_number in zip(header, numeric, strict=True):
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    shown = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
    for cells in shown:
        table.add_row(*map(_plain, cells))
    excess = console.measure(table, options=console.options.update(width=_UNBOUNDED)).maximum - console.width
    widest = max((len(cell) for cells in (header, *shown) for cell in cells), default=0)
    if sys.stdout.isatty() and excess > 0 and widest - excess < _NARROWEST:
        for cells in shown:
            click.echo("\n".join(_write_block(header, cells, console.width)))
    else:
        console.print(table)


def _write_block(header: Sequence[str], cells: Sequence[str], width: int) -> Iterator[str]:
    """Yield a row as lines of `name: value`, as many in a line as it holds; all but the first indented."""
    line = ""
    for name, cell in zip(header, cells, strict=True):
        pair = f"{name}: {cell}"
        if line and len(line) + len(_GAP) + len(pair) > width:
            yield line
            line = _GAP + pair
        else:
            line += (_GAP if line else "") + pair
    yield line


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def count_words(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 launch`, `1,209 launches`.

    Args:
        count: how many.
        one: the noun for one.
        many: the noun for any other number. Default: `one` with an s.
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


class Markdown(str):
    """A cell of a table that is Markdown already."""

    __slots__ = ()


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str | int]]) -> str:
    """Return a Markdown table, its cells escaped, but for those that are Markdown."""
    lines = [f"| {' | '.join(header)} |", f"|{'|'.join(['---'] * len(header))}|"]
    lines += [f"| {' | '.join(_markdown_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _markdown_cell(cell: str | int) -> str:
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, Markdown):
        return cell
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
