"""Output: tables and JSON on standard output; notes, warnings and progress on standard error."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import compress, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import click

from runner.cli.encoding import fit_json, print_text
from runner.cli.log import FORMATS, choose_format, is_json, log_record
from runner.cli.signals import stop_on_signals
from runner.telemetry import describe_current
from runner.wording import count_words, printable
from runner.workflow.observer import Observer, Progress, find_campaign, note, observe_everywhere

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

    from runner.document import Document
    from runner.errors import RunnerError
    from runner.source.diagnostic import Problems

_T = TypeVar("_T")
_WIDE = 120
"""Width of tables in a pipe or a file."""
_LINE_EVERY_S = 5.0
_NARROWEST = 20
"""Fewest characters that a line is folded to."""
_SHORT = 12
"""Length of cells with numbers that stay in one piece."""
_GAP = "  "
_COMMAND = re.compile("`[^`]*`")
_JOINT = "\ue000"
"""Stands for a space at which a line is not folded."""


def print_json(document: Document) -> None:
    """Write a JSON document to standard output."""
    click.echo(fit_json(document.write(), sys.stdout))


def show(result: Any, format_: str, writers: Mapping[str, Callable[[Any], None]]) -> None:
    """Write a use case's result in a format: `json` by its document, others by their writer."""
    if format_ == "json":
        print_json(getattr(result, "document", result))
    else:
        writers[format_](result)


def find_width(*, err: bool = False) -> int | None:
    """Return the width of the terminal that standard output (or `err`) is; None if it is none."""
    stream = sys.stderr if err else sys.stdout
    return shutil.get_terminal_size().columns if stream.isatty() else None


def print_prose(text: str, *, err: bool = False) -> None:
    """Write lines, at a terminal folded between words; commands in backticks stay in one piece.

    Elsewhere each line stays one, for `grep` and logs.
    """
    width = find_width(err=err)
    for line in text.split("\n"):
        print_text(line if width is None else "\n".join(_fold(line, width)), err=err)


def print_next(step: str | None) -> None:
    """Write what a person can do next, to a person only: at a terminal."""
    if step is not None and find_width(err=True) is not None and not is_json():
        print_prose(f"Next: {step}.", err=True)


def _fold(line: str, width: int) -> list[str]:
    kept = _COMMAND.sub(lambda found: found[0].replace(" ", _JOINT), line)
    indent = line[: len(line) - len(line.lstrip())]
    folded = textwrap.wrap(
        kept,
        max(width, _NARROWEST),
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return [part.replace(_JOINT, " ") for part in folded] or [""]


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str | int]],
    *,
    essential: Container[str] | None = None,
    is_grouped: bool = False,
    err: bool = False,
) -> None:
    """Write a table, numbers to the right, with thousands separators; cells fold between words.

    A terminal may be too narrow even for that. If the table `is_grouped`, the rows with the same first cell
    become a table of their own there, without zeros in columns that are not `essential`; None keeps all. What
    is still too wide is turned: its columns become lines. If that does not fit either, each row becomes a
    block of `name: value`, without these zeros.
    """
    width = find_width(err=err)
    table = _Table.of(header, rows)
    if width is None or table.narrowest <= width:
        _print_lines(table, width or _WIDE, err=err)
    elif is_grouped:
        for name, group in table.split():
            print_text(printable(name), bold=True, err=err)
            _print_narrow(group.without_zeros(essential), width, essential, err=err)
    else:
        _print_narrow(table, width, essential, err=err)


def _print_narrow(table: _Table, width: int, essential: Container[str] | None, *, err: bool) -> None:
    for form in (table, table.turn()):
        if form.narrowest <= width:
            _print_lines(form, width, err=err)
            return
    for cells in table.rows:
        pairs = [
            f"{name}: {cell}"
            for name, cell in zip(table.header, cells, strict=True)
            if cell and (essential is None or name in essential or cell != "0")
        ]
        print_text("\n".join(_write_block(pairs, width)), err=err)


def _print_lines(table: _Table, width: int, *, err: bool) -> None:
    for index, line in enumerate(table.write(width)):
        print_text(click.style(line, bold=True) if index < table.heading_lines else line, err=err)


class _Table:
    """The cells of a table, and the widths that its columns can have."""

    def __init__(
        self, header: Sequence[str], rows: Sequence[Sequence[str]], is_numeric: Sequence[bool]
    ) -> None:
        self.header, self.rows, self._is_numeric = header, rows, is_numeric
        columns = list(zip(header, *rows, strict=True))
        self._natural = [max(map(_measure, column)) for column in columns]
        self._least = [max(map(_find_least, column)) for column in columns]
        self.heading_lines = 1

    @classmethod
    def of(cls, header: Sequence[str], rows: Sequence[Sequence[str | int]]) -> _Table:
        is_numeric = [all(isinstance(row[i], int) for row in rows) for i in range(len(header))]
        shown = [[f"{cell:,}" if isinstance(cell, int) else printable(cell) for cell in row] for row in rows]
        return cls(header, shown, is_numeric)

    def split(self) -> Iterator[tuple[str, _Table]]:
        """Yield tables of consecutive rows with the same first cell: that cell, and the others."""
        for name, rows in groupby(self.rows, key=itemgetter(0)):
            yield name, _Table(self.header[1:], [row[1:] for row in rows], self._is_numeric[1:])

    def without_zeros(self, essential: Container[str] | None) -> _Table:
        """Return the table without columns of zeros that are not `essential`; None keeps all."""
        kept = [
            essential is None or name in essential or any(row[i] != "0" for row in self.rows)
            for i, name in enumerate(self.header)
        ]

        def keep(cells: Sequence[_T]) -> list[_T]:
            return list(compress(cells, kept))

        return _Table(keep(self.header), [keep(row) for row in self.rows], keep(self._is_numeric))

    def turn(self) -> _Table:
        """Return the table with its columns as rows: the first names them, the others end at the right."""
        header, *rows = zip(self.header, *self.rows, strict=True)
        return _Table(header, rows, [False, *[True] * len(self.rows)])

    @property
    def narrowest(self) -> int:
        """The fewest columns of a terminal that it takes."""
        return sum(self._least) + len(_GAP) * (len(self.header) - 1)

    def write(self, width: int) -> Iterator[str]:
        """Yield its lines; they are longer than `width` only if no column can become narrower."""
        widths = self._fit(width)
        heading = list(self._write_row(self.header, widths, is_low=True))
        self.heading_lines = len(heading)
        yield from heading
        yield "─" * (sum(widths) + len(_GAP) * (len(widths) - 1))
        for row in self.rows:
            yield from self._write_row(row, widths)

    def _fit(self, width: int) -> list[int]:
        widths = list(self._natural)
        excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
        while excess > 0 and widths != self._least:
            # The widest has most to fold.
            index = max(
                (i for i, own in enumerate(widths) if own > self._least[i]), key=lambda i: (widths[i], -i)
            )
            widths[index] -= 1
            excess -= 1
        return widths

    def _write_row(
        self, cells: Sequence[str], widths: Sequence[int], *, is_low: bool = False
    ) -> Iterator[str]:
        """Yield the lines of a row; those of headings stand as low as they can."""
        folded = [
            [cell] if _measure(cell) <= width else _fold_cell(cell, width)
            for cell, width in zip(cells, widths, strict=True)
        ]
        height = max(map(len, folded))
        for index in range(height):
            parts = []
            for lines, width, is_number in zip(folded, widths, self._is_numeric, strict=True):
                at = index - (height - len(lines) if is_low else 0)
                part = lines[at] if 0 <= at < len(lines) else ""
                blank = " " * (width - _measure(part))
                parts.append(blank + part if is_number else part + blank)
            yield _GAP.join(parts).rstrip()


def _measure(text: str) -> int:
    """Return the columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    # Imported here: few tables need it.
    from rich.cells import cell_len

    return cell_len(text)


def _find_least(cell: str) -> int:
    """Return the width of the longest part at which a cell is not folded."""
    # Numbers stay in one piece, as `2 to 4`.
    parts = [cell] if len(cell) <= _SHORT and cell[:1].isdigit() else _fold_cell(cell, 1)
    return max(map(_measure, parts), default=0)


def _fold_cell(cell: str, width: int) -> list[str]:
    return textwrap.wrap(cell, width, break_long_words=False)


def _write_block(pairs: Sequence[str], width: int) -> Iterator[str]:
    """Yield a row's pairs of `name: value` as filled lines, all but the first indented."""
    line = ""
    for pair in pairs:
        if line and len(line) + len(_GAP) + len(pair) > width:
            yield line
            line = _GAP + pair
        else:
            line += (_GAP if line else "") + pair
    yield line


class _Lines:
    """Progress as lines, now and then: `write` gets what is done so far."""

    def __init__(self, write: Callable[[int], None]) -> None:
        self._write = write
        self._done, self._said = 0, time.monotonic()

    def advance(self, steps: int) -> None:
        self._done += steps
        if time.monotonic() - self._said >= _LINE_EVERY_S:
            self._said = time.monotonic()
            self._write(self._done)


def _note_progress(title: str, total: int | None, done: int) -> None:
    note(f"{title}: {done:,}" + (f" of {total:,}" if total else ""))


@contextmanager
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


class ConsoleObserver(Observer):
    """An observer of use cases that writes to standard error."""

    def note(self, text: str) -> None:
        """Write one line."""
        print_prose(text, err=True)

    def warn(self, text: str) -> None:
        """Write a warning."""
        print_prose(f"{click.style('Warning:', fg='yellow', bold=True)} {text}", err=True)

    def hand_over(self, text: str) -> None:
        """Write Markdown to standard output."""
        print_text(text, nl=False)

    def show_problems(self, problems: Problems) -> None:
        """Write problems, each with its place and remedy; notes, which `validate` shows, are counted."""
        # Imported here, so that commands without problems don't pay for it.
        from runner.cli.output.problems import human_lines

        for line in human_lines(problems, with_notes=False, width=find_width(err=True)):
            print_prose(line, err=True)
        if problems.note_count:
            notes = count_words(problems.note_count, "note")
            them = "it" if problems.note_count == 1 else "them"
            print_prose(f"{notes} on campaign files: `runner validate` shows {them}.", err=True)

    def leave_out(self, words: str, error: RunnerError) -> None:
        """Write the reason for leaving out a campaign, and the remedy."""
        print_prose(f"{click.style('Left out:', fg='red', bold=True)} {words}", err=True)
        if error.hint:
            print_prose(f"  {error.hint}", err=True)

    def show_progress(self, title: str, total: int | None) -> AbstractContextManager[Progress]:
        """Show a bar on a terminal, plain lines elsewhere."""
        if sys.stderr.isatty():
            return _show_bar(title, total)
        return nullcontext(_Lines(partial(_note_progress, title, total)))

    def watch_for_stop(self, stop: threading.Event) -> AbstractContextManager[None]:
        """Let the first SIGINT or SIGTERM end the work in order, and a second one at once."""
        return stop_on_signals(stop)


class JsonObserver(ConsoleObserver):
    """An observer of use cases that writes records to standard error."""

    def note(self, text: str) -> None:
        """Write a record."""
        log_record("info", text)

    def warn(self, text: str) -> None:
        """Write a record of a warning."""
        log_record("warning", text)

    def show_problems(self, problems: Problems) -> None:
        """Write a record of each problem but notes, which `validate` shows."""
        for one in problems:
            if one.severity != "note":
                log_record(
                    one.severity,
                    one.message,
                    code=one.code,
                    file=str(one.file),
                    line=one.line,
                    column=one.column,
                    hint=one.hint,
                )
        for code, file, count in problems.omitted():
            log_record("info", "more of the same problem", code=code, file=str(file), count=count)

    def leave_out(self, words: str, error: RunnerError) -> None:
        """Write a record of the reason for leaving out a campaign."""
        log_record("error", words, hint=error.hint, exit_code=error.exit_code, left_out=True)

    def show_progress(self, title: str, total: int | None) -> AbstractContextManager[Progress]:
        """Write records now and then."""
        return nullcontext(_Lines(lambda done: log_record("info", title, done=done, total=total)))


def log_as(name: str) -> None:
    """Use one of the `FORMATS` for all that is written to standard error from now on."""
    choose_format(name, _describe_moment)
    observe_everywhere(ConsoleObserver() if name == FORMATS[0] else JsonObserver())


def _describe_moment() -> dict[str, str]:
    campaign = find_campaign()
    return describe_current() | ({} if campaign is None else {"campaign": campaign})
