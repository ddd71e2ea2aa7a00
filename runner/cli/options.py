"""Options that commands share."""

from __future__ import annotations

import difflib
import os
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.console import log_as
from runner.cli.log import FORMAT_VARIABLE, FORMATS
from runner.git.lease import LEASE_S
from runner.source.quantity import parse_duration
from runner.source.storage import is_url
from runner.telemetry.export import exporting
from runner.telemetry.recording import command_span
from runner.workflow.campaigns import DEFAULT_FOLDER, ENDINGS, find_project
from runner.workflow.observer import note
from runner.workflow.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from click import Context, Parameter


class Command(click.Command):
    """A command whose help shows options for special settings last, under a heading of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the help page."""
        usual: list[tuple[str, str]] = []
        advanced: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                (advanced if isinstance(parameter, _AdvancedOption) else usual).append(record)
        for heading, records in (("Options", usual), ("Advanced options", advanced)):
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


class Group(click.Group):
    """A group of commands."""

    command_class = Command


class _AdvancedOption(click.Option):
    """An option that most users never need."""


def _advanced(name: str, metavar: str, variable: str, words: str) -> Callable[[Any], Any]:
    """Return an advanced option with a value that a variable can give, too."""
    return click.option(
        name, cls=_AdvancedOption, metavar=metavar, envvar=variable, show_envvar=True, help=words
    )


class _AllowedPlace(click.Path):
    """An existing folder, or a URL, which is taken as written."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if isinstance(value, str) and is_url(value) else super().convert(value, param, ctx)


class CampaignPath(click.Path):
    """An existing campaign file, or a folder of them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; for a wrong one, name the file that was probably meant."""
        # Nothing is named where nothing can be read.
        with suppress(OSError):
            if not Path(value).exists() and (meant := _find_meant(Path(value))):
                self.fail(f"there is no {value}: did you mean `{meant}`?", param, ctx)
        return super().convert(value, param, ctx)


def _find_meant(path: Path) -> Path | None:
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
_ALLOWED = click.option(
    "--allow-path",
    "allowed",
    cls=_AdvancedOption,
    multiple=True,
    metavar="DIR|URL",
    type=_AllowedPlace(exists=True, file_okay=False, path_type=Path),
    help="Another folder, or a prefix of URLs, that campaigns may read from; may be repeated.",
)
_TARGET = click.option(
    "--target",
    metavar="NAME",
    help="The target: one from targets.yaml, live or sandbox.  [env var: RUNNER_TARGET]",
)
_LEDGER = _advanced(
    "--ledger",
    "URL",
    "RUNNER_LEDGER",
    "The ledger's database. Default: SQLite below .runner/.",
)
_STATE_REMOTE = _advanced(
    "--state-remote",
    "NAME",
    "RUNNER_STATE_REMOTE",
    "A git remote, such as `origin`, through which machines with separate ledgers lock campaigns and "
    "reserve what they are about to send. Default: none.",
)
_STATE_LEASE = click.option(
    "--state-lease", "state_lease_s", type=click.FloatRange(0.5, 3600), default=LEASE_S, hidden=True
)
_CLUSTER = _advanced(
    "--cluster",
    "ADDRESS",
    "RUNNER_CLUSTER",
    "Plan on a Dask cluster: the address of its scheduler, or local:N for N processes on this machine. "
    "Default: one process.",
)
_INSECURE_CLUSTER = click.option(
    "--insecure-cluster",
    cls=_AdvancedOption,
    is_flag=True,
    envvar="RUNNER_INSECURE_CLUSTER",
    show_envvar=True,
    help="Allow tcp:// to another machine, although anybody who reaches the scheduler's port can run code on "
    "its workers and read their secrets.",
)
_CLUSTER_CA = _advanced(
    "--cluster-ca",
    "FILE",
    "RUNNER_CLUSTER_CA",
    "With tls://: the CA of the cluster's certificates, in PEM. Default: Dask's own setting, as for the "
    "next two.",
)
_CLUSTER_CERT = _advanced(
    "--cluster-cert",
    "FILE",
    "RUNNER_CLUSTER_CERT",
    "With tls://: this machine's certificate.",
)
_CLUSTER_KEY = _advanced(
    "--cluster-key",
    "FILE",
    "RUNNER_CLUSTER_KEY",
    "With tls://: its key, readable by the owner alone. Default: in the certificate's file.",
)
_PROFILE = _advanced(
    "--profile",
    "NAME",
    "RUNNER_PROFILE",
    "With a scheduler: the profile in which its workers find the ledger's URL and the state key, as "
    "RUNNER_PROFILE_<NAME>_LEDGER and so on. Default: RUNNER_LEDGER and so on.",
)
_SCRATCH = _advanced(
    "--scratch",
    "URL",
    "RUNNER_SCRATCH",
    "With --cluster: a folder for intermediate files that all workers can reach, as a path or an fsspec "
    "URL. Default: below .runner/.",
)
_QUIET = click.option("-q", "--quiet", is_flag=True, help="Print only errors on standard error.")
_VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Print more on standard error.")


def _choose_log_format(ctx: Context, _param: Parameter, value: str | None) -> None:
    if value is not None and not ctx.resilient_parsing:
        log_as(value)


_LOG_FORMAT = click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    envvar=FORMAT_VARIABLE,
    show_envvar=True,
    is_eager=True,
    expose_value=False,
    callback=_choose_log_format,
    help="Format of standard error: json is one object a line. Default: text.",
)


def _pass_over(_text: str) -> None:
    """Tell nobody."""


def _scope_of(*options: Callable[[Any], Any]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that gives a command a `Scope` of some options, with --quiet and --verbose."""
    names = Scope.__dataclass_fields__.keys()

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @wraps(function)
        def call(**values: Any) -> int:
            # A command that names its files works on their project.
            if not (values.get("paths") or "campaign_file" in values):
                values = _enter_project(values)
            given = {name: values.pop(name) for name in names if name in values}
            scope = Scope(**given, environ=os.environ)
            tell = _pass_over if scope.quiet else note
            command = click.get_current_context().command_path.partition(" ")[2]
            with (
                exporting(os.environ, tell),
                command_span(command, within=os.environ.get("TRACEPARENT")) as end,
            ):
                code = function(scope, **values)
                end(code or 0)
            return code

        for option in reversed((*options, _QUIET, _VERBOSE, _LOG_FORMAT)):
            call = option(call)
        return call

    return decorate


_PLACES = ("out", "plan_file", "cluster_ca", "cluster_cert", "cluster_key")
"""Options with paths or URLs, as text."""


def _enter_project(values: dict[str, Any]) -> dict[str, Any]:
    """Go up to the folder of the project, as -C does, and return options whose paths still lead there."""
    folder, current = find_project(Path.cwd()), Path.cwd()
    if folder is None or folder == current:
        return values
    if not values.get("quiet"):
        note(f"Working in {folder}, the project above this folder.")
    os.chdir(folder)
    return {name: _keep_place(name, value, current) for name, value in values.items()}


def _keep_place(name: str, value: Any, current: Path) -> Any:
    if isinstance(value, tuple):
        return tuple(_keep_place(name, one, current) for one in value)
    if isinstance(value, Path):
        return current / value
    is_file = name == "campaigns" and Path(value).suffix.lower() in ENDINGS
    if (is_file or name in _PLACES) and isinstance(value, str) and not is_url(value):
        return str(current / value)
    return value


_CLUSTERED = (
    _CLUSTER,
    _CLUSTER_CA,
    _CLUSTER_CERT,
    _CLUSTER_KEY,
    _INSECURE_CLUSTER,
    _PROFILE,
    _SCRATCH,
)
_TARGETED = (_PATHS, _ALLOWED, _TARGET, _LEDGER, _STATE_REMOTE, _STATE_LEASE)
clustered_file_scope = _scope_of(_PATHS, _ALLOWED, *_CLUSTERED)
"""Campaign files, in one process or on a cluster."""
path_scope = _scope_of(_PATHS)
"""Places of campaigns that are not read."""
single_scope = _scope_of(_ALLOWED)
"""For a command that names its one campaign."""
target_scope = _scope_of(*_TARGETED)
"""Campaign files on a target."""
clustered_target_scope = _scope_of(*_TARGETED, *_CLUSTERED)
"""Campaign files on a target, in one process or on a cluster."""
job_scope = _scope_of(_ALLOWED, _TARGET, _LEDGER, _STATE_REMOTE, _STATE_LEASE)
"""All campaigns, for CI's jobs."""
plan_scope = _scope_of(_ALLOWED, _TARGET)
"""For a command about a saved plan."""
database_scope = _scope_of(_LEDGER)
"""A ledger, of whatever targets."""
ledger_scope = _scope_of(_TARGET, _LEDGER)
"""A target's ledger, without campaigns."""
recorded_scope = _scope_of(_PATHS, _ALLOWED, _TARGET, _LEDGER)
"""A target's ledger, and campaign files."""


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


rejected_option = click.option(
    "--rejected",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all unreadable rows to a CSV file: file, line and problem.",
)


class Duration(click.ParamType[float]):
    """A duration, read as seconds."""

    name = "duration"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> float:
        """Return a duration in seconds; a wrong one is a mistake on the command line."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value)).total_seconds()
        except ValueError:
            self.fail(f"{value!r} is not a duration: write for example 500ms, 10s or 2m", param, ctx)


DURATION = Duration()

SETTLE_WINDOW = click.option(
    "--settle-window",
    "settle_window_s",
    type=DURATION,
    envvar="RUNNER_SETTLE_WINDOW",
    show_envvar=True,
    metavar="TIME",
    help="Time that the service may take to list a launch; a launch missing after that was not sent. "
    "Default: the target's, else 60s.",
)

LOCK_TIMEOUT = click.option(
    "--lock-timeout",
    type=DURATION,
    default="0s",
    show_default=True,
    metavar="TIME",
    help="Time to wait for runs that are sending.",
)
