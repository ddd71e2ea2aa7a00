"""Options that commands share: paths, target, formats; and the scope made of them."""

from __future__ import annotations

import difflib
import os
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.command import (
    DURATION,
    setting_option,
    special_option,
)
from runner.settings import TARGET
from runner.source.storage import is_url
from runner.telemetry import command_span, exporting
from runner.workflow.campaigns import DEFAULT_FOLDER, ENDINGS, find_project
from runner.workflow.observer import note
from runner.workflow.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from click import Context, Parameter


class CampaignPath(click.Path):
    """An existing campaign file, or a folder of them."""

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> Any:
        """Return the path; for a wrong one, name the file that was probably meant."""
        # Nothing is named where nothing can be read.
        with suppress(OSError):
            if not Path(value).exists() and (meant := _find_close_file(Path(value))):
                self.fail(f"there is no {value}: did you mean `{meant}`?", param, ctx)
        return super().convert(value, param, ctx)


def _find_close_file(path: Path) -> Path | None:
    """Return the file beside a missing one, or in `campaigns/`, whose name is closest, if any is close."""
    known: dict[str, Path] = {}
    for folder in (DEFAULT_FOLDER, path.parent):
        for file in sorted(folder.iterdir()) if folder.is_dir() else ():
            known[file.name] = file
            # The name of a campaign is often that of its file.
            if file.suffix.lower() in ENDINGS:
                known[file.stem] = file
    close = difflib.get_close_matches(path.name, known, n=1)
    return known[close[0]] if close else None


_PATHS = click.argument(
    "paths", nargs=-1, metavar="[PATH]...", type=CampaignPath(exists=True, path_type=Path)
)
_TARGET = setting_option(TARGET)


def _scoped(*options: Callable[[Any], Any]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that gives a command a `Scope` of some options and the common ones."""

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @wraps(function)
        def call(**values: Any) -> int:
            context = click.get_current_context()
            given = dict(context.find_root().ensure_object(dict))
            # A command that names its files works on their project.
            if not (values.get("paths") or "campaign_file" in values):
                values, given = _enter_project(values, given)
            given |= {name: values.pop(name) for name in ("paths", "target") if name in values}
            scope = Scope.read(given, os.environ)
            tell = _pass_over if scope.quiet else note
            command = context.command_path.partition(" ")[2]
            with (
                exporting(os.environ, tell),
                command_span(command, within=os.environ.get("TRACEPARENT")) as end,
            ):
                code = function(scope, **values)
                end(code or 0)
            return code

        for option in reversed(options):
            call = option(call)
        return call

    return decorate


def _pass_over(_text: str) -> None:
    """Tell nobody."""


_PLACES = ("out", "plan_file")
"""Options with paths or URLs, as text."""


def _enter_project(*values: dict[str, Any]) -> list[dict[str, Any]]:
    """Go up to the folder of the project, as -C does, and return options whose paths still lead there."""
    folder, current = find_project(Path.cwd()), Path.cwd()
    if folder is None or folder == current:
        return [*values]
    if not any(each.get("quiet") for each in values):
        note(f"Working in {folder}, the project above this folder.")
    os.chdir(folder)
    return [{name: _keep_place(name, value, current) for name, value in each.items()} for each in values]


def _keep_place(name: str, value: Any, current: Path) -> Any:
    if isinstance(value, tuple):
        return tuple(_keep_place(name, one, current) for one in value)
    if isinstance(value, Path):
        return current / value
    is_file = name == "campaigns" and Path(value).suffix.lower() in ENDINGS
    if (is_file or name in _PLACES) and isinstance(value, str) and not is_url(value):
        return str(current / value)
    return value


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
        show_default=True,
        help="Output format.",
    )


rejected_option = special_option(
    "--rejected",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all unreadable rows to a CSV file: file, line and problem.",
)
LOCK_TIMEOUT = special_option(
    "--lock-timeout",
    "lock_timeout_s",
    type=DURATION,
    default="0s",
    show_default=True,
    metavar="TIME",
    help="Time to wait for runs that are sending.",
)
