"""What the `runner sandbox` commands have in common: where the database is, and what becomes of mistakes."""

from __future__ import annotations

import math
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from runner.cli.folders import make_sandbox_database
from runner.errors import RunnerError
from runner.sandbox.errors import SandboxError
from runner.sandbox.trouble import explained_trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Written = TypeVar("Written")
Read = TypeVar("Read")


class _Share(click.FloatRange):
    """A share of something, from 0 to 1."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a share; NaN is in every range for click."""
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
    help="Output.",
)


def read_option(
    read: Callable[[Written], Read],
) -> Callable[[click.Context, click.Parameter, Written], Read]:
    """Make a callback of an option's reader: what it refuses is a wrong command line."""

    def call(_context: click.Context, _parameter: click.Parameter, value: Written) -> Read:
        try:
            return read(value)
        except (SandboxError, ValueError) as error:
            raise click.BadParameter(str(error)) from None

    return call


@contextmanager
def explained() -> Iterator[None]:
    """Turn what the sandbox says about its user's mistakes, and the disk, into the runner's own error."""
    try:
        with explained_trouble():
            yield
    except SandboxError as error:
        raise RunnerError(str(error)) from None


def find_db(db: Path | None) -> Path:
    """Give the database that was named, which must be there, or the default one, its folder made.

    Raises:
        RunnerError: there is none of that name.
    """
    if db is not None and not db.exists():
        raise RunnerError(
            f"there is no sandbox database {db}",
            hint=f"`runner sandbox serve --db {db}` makes one; without --db the default one is taken",
        )
    return db or make_sandbox_database()
