"""Options that commands share: paths, target, formats; and the scope made of them."""

from __future__ import annotations

import os
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.command import DURATION, setting_option, special_option
from runner.cli.console import ConsoleObserver
from runner.errors import UsageError
from runner.settings import TARGET
from runner.telemetry import command_span, exporting
from runner.workflow.campaigns import find_project
from runner.workflow.observer import note, observe_everywhere
from runner.workflow.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from click import Context, Parameter


FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
"""The type of options and arguments that take a file that is there."""
FOLDER = click.Path(file_okay=False, path_type=Path)
FOLDER.name = "dir"
"""The type of those that take a folder, which may be new."""
_PATHS = click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(exists=True, path_type=Path))
_TARGET = setting_option(TARGET)


def _scoped(*options: Callable[[Any], Any]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that gives a command a `Scope` of some options and the common ones."""

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @wraps(function)
        def call(**values: Any) -> int:
            context = click.get_current_context()
            given = dict(context.find_root().ensure_object(dict))
            if not (values.get("paths") or "campaign_file" in values):
                _require_project()
            given |= {name: values.pop(name) for name in ("paths", "target") if name in values}
            if given.pop("quiet", False):
                observe_everywhere(ConsoleObserver(is_quiet=True))
            scope = Scope.read(given, os.environ)
            command = context.command_path.partition(" ")[2]
            with (
                exporting(os.environ, note),
                command_span(command, within=os.environ.get("TRACEPARENT")) as end,
            ):
                code = function(scope, **values)
                end(code or 0)
            return code

        for option in reversed(options):
            call = option(call)
        return call

    return decorate


def _require_project() -> None:
    """Refuse to work in a subfolder: the record and the opt-outs of its project are above it."""
    folder, current = find_project(Path.cwd()), Path.cwd()
    if folder is not None and folder != current:
        raise UsageError(
            f"the project is {folder}, above this folder",
            hint=f"run the command there, or as `runner -C {os.path.relpath(folder)} …`",
        )


target_scope = _scoped(_PATHS, _TARGET)
"""Campaign files on a target."""
path_scope = _scoped(_PATHS)
"""Campaign files."""
ledger_scope = _scoped(_TARGET)
"""A target, without campaigns."""
common_scope = _scoped()
"""The common options alone."""


def _check_region(_ctx: Context, _option: Parameter, value: str | None) -> str | None:
    # Imported here: the data of phones is slow to load.
    from runner.audience.phone import REGION_HINT, find_region_fault

    if value is not None and (fault := find_region_fault(value)):
        raise click.BadParameter(fault if fault.endswith("?") else f"{fault}: {REGION_HINT}")
    return value


region_option = click.option(
    "--region",
    metavar="CC",
    callback=_check_region,
    help="The country of national phone numbers, such as US.",
)


def format_option(*formats: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that adds --format with these choices; the first is the default."""
    return click.option(
        "--format",
        "format_",
        type=click.Choice(formats),
        default=formats[0],
        help="Output format.",
    )


LOCK_TIMEOUT = special_option(
    "--lock-timeout",
    "lock_timeout_s",
    type=DURATION,
    default="0s",
    metavar="TIME",
    help="Time to wait for runs that are sending.",
)
