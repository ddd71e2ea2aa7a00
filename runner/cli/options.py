"""Options that several commands share, with one meaning everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])


def paths_argument(function: Function) -> Function:
    """Add PATH…: campaign files or folders of them."""
    return click.argument(
        "paths", nargs=-1, metavar="[PATH]...", type=click.Path(exists=True, path_type=Path)
    )(function)


def allow_path_option(function: Function) -> Function:
    """Add --allow-path."""
    return click.option(
        "--allow-path",
        "allowed",
        multiple=True,
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="A further folder that campaigns may read from; may be repeated.",
    )(function)


def target_options(function: Function) -> Function:
    """Add --target and --ledger."""
    function = click.option(
        "--ledger",
        metavar="URL",
        envvar="RUNNER_LEDGER",
        show_envvar=True,
        help="The ledger's database. Default: SQLite below .runner/.",
    )(function)
    return click.option(
        "--target",
        metavar="NAME",
        help="Where to send: a target of targets.yaml, live or sandbox.  [env var: RUNNER_TARGET]",
    )(function)


def format_option(*formats: str) -> Callable[[Function], Function]:
    """Return a decorator that adds --format with these choices; the first is the default."""
    return click.option(
        "--format",
        "format_",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to write what is found.",
    )


def output_options(function: Function) -> Function:
    """Add --quiet and --verbose."""
    function = click.option("-v", "--verbose", is_flag=True, help="Say more on standard error.")(function)
    return click.option("-q", "--quiet", is_flag=True, help="Say nothing on standard error but errors.")(
        function
    )


def concurrency_option(function: Function) -> Function:
    """Add --concurrency."""
    return click.option(
        "--concurrency",
        type=click.IntRange(1, 1024),
        metavar="N",
        help="Sends in flight at once. Default: the target's, else 16.",
    )(function)
