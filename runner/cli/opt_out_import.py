"""Enters the opt-outs of a file: a list of phones, or what another ledger has exported."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from runner.cli.console import count_words
from runner.cli.diagnostics import show_problems
from runner.cli.phone_list import iterate_phones
from runner.errors import RunnerError
from runner.ledger.opt_out_file import MAX_LINE, Imported, import_opt_outs
from runner.ledger.opt_outs import add_opt_outs
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from pathlib import Path

    from runner.ledger.target_key import KeySource, LedgerConnection


@dataclass(frozen=True, slots=True)
class PhoneFile:
    """A CSV file of phones.

    Attributes:
        file: where it is.
        column: the phones' column.
        region: the country of numbers in national form; None if there is none.
        quiet: show errors alone.
    """

    file: Path
    column: str
    region: str | None
    quiet: bool


def is_export(file: Path) -> bool:
    """Return whether a file is one that `runner optouts export` has written, rather than a list of phones.

    Raises:
        RunnerError: it cannot be read.
    """
    try:
        with file.open("rb") as stream:
            return stream.read(1) == b"{"
    except OSError as error:
        raise RunnerError(f"{file} cannot be read: {error.strerror}") from None


def enter_phones(connection: LedgerConnection, people: KeySource, phones: PhoneFile, at: str) -> Imported:
    """Enter the people of a list of phones.

    Args:
        connection: writes the ledger; it must not commit if this fails.
        people: makes the fingerprints of the target's people.
        phones: the list.
        at: UTC, ISO 8601.

    Raises:
        RunnerError: a row cannot be read; what is wrong has been shown.
    """
    problems = Problems()
    listed = iterate_phones(phones.file, phones.column, phones.region, problems)
    entered = add_opt_outs(connection, people.enter(connection), listed, "import", at)
    show_problems(problems, quiet=phones.quiet)
    if problems.error_count:
        raise RunnerError(f"{count_words(problems.error_count, 'error')}: nothing was entered")
    return Imported(entered)


def enter_export(connection: LedgerConnection, people: KeySource, file: Path) -> Imported:
    """Enter what another ledger has exported.

    Args:
        connection: writes the ledger; it must not commit if this fails.
        people: makes the fingerprints of the target's people.
        file: as `runner optouts export` writes it.

    Raises:
        RunnerError: it cannot be read as that, is of another target, or was written with another key.
    """
    try:
        with file.open(encoding="utf-8") as stream:
            # A file without ends of lines must not be taken into memory whole.
            lines = iter(partial(stream.readline, MAX_LINE), "")
            return import_opt_outs(connection, lines, people.target, people.state_key)
    except OSError as error:
        raise RunnerError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RunnerError(
            f"{file} is not UTF-8: nothing was entered",
            hint="give a file as `runner optouts export` has written it",
        ) from None
