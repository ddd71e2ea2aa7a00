"""What most commands are given: which campaigns, which target, which ledger, how much to say."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.campaigns import load_campaigns
from runner.cli.diagnostics import refuse_errors
from runner.repository.lease import LEASE_S
from runner.source.diagnostic import Problems
from runner.source.storage import is_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.campaign.model import Campaign


@dataclass(frozen=True, slots=True)
class Scope:
    """The options that commands share, with one meaning everywhere.

    Attributes:
        paths: campaign files and folders of them; empty for `campaigns/`.
        allowed: further folders, and URLs, that campaigns may read from.
        target: `--target`, if given.
        ledger: `--ledger` or RUNNER_LEDGER, if given.
        state_remote: `--state-remote` or RUNNER_STATE_REMOTE, if given.
        state_lease_s: how long this run's hold on the state remote lasts unless it is renewed, in seconds.
        cluster: `--cluster` or RUNNER_CLUSTER, if given.
        insecure_cluster: whether a scheduler on another machine may do without TLS.
        scratch: `--scratch` or RUNNER_SCRATCH, if given.
        quiet: say nothing on standard error but errors.
        verbose: say more on standard error.
    """

    paths: tuple[Path, ...] = ()
    allowed: tuple[Path | str, ...] = ()
    target: str | None = None
    ledger: str | None = None
    state_remote: str | None = None
    state_lease_s: float = LEASE_S
    cluster: str | None = None
    insecure_cluster: bool = False
    scratch: str | None = None
    quiet: bool = False
    verbose: bool = False

    def load_valid_campaigns(self) -> tuple[Campaign, ...]:
        """Load the campaigns; show what is wrong with their files.

        Raises:
            InvalidCampaignError: there are errors, which have been shown.
            RunnerError: there is no campaign, and nothing says that campaigns belong there.
        """
        problems = Problems()
        loaded = load_campaigns(self.paths, self.allowed, problems)
        loaded.say_if_none(quiet=self.quiet)
        refuse_errors(problems, quiet=self.quiet)
        return loaded.campaigns


class _AllowedPlace(click.Path):
    """A folder that is there, or a URL, which is taken as it is written."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if isinstance(value, str) and is_url(value) else super().convert(value, param, ctx)


_PATHS = click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(exists=True, path_type=Path))
_ALLOWED = click.option(
    "--allow-path",
    "allowed",
    multiple=True,
    metavar="DIR|URL",
    type=_AllowedPlace(exists=True, file_okay=False, path_type=Path),
    help="A further folder, or the beginning of URLs, that campaigns may read from; may be repeated.",
)
_TARGET = click.option(
    "--target",
    metavar="NAME",
    help="Where to send: a target of targets.yaml, live or sandbox.  [env var: RUNNER_TARGET]",
)
_LEDGER = click.option(
    "--ledger",
    metavar="URL",
    envvar="RUNNER_LEDGER",
    show_envvar=True,
    help="The ledger's database. Default: SQLite below .runner/.",
)
_STATE_REMOTE = click.option(
    "--state-remote",
    metavar="NAME",
    envvar="RUNNER_STATE_REMOTE",
    show_envvar=True,
    help="A git remote, as `origin`: machines with ledgers of their own exclude each other there, and "
    "reserve there what they are about to send. Default: none.",
)
_STATE_LEASE = click.option(
    "--state-lease", "state_lease_s", type=click.FloatRange(0.5, 3600), default=LEASE_S, hidden=True
)
_CLUSTER = click.option(
    "--cluster",
    metavar="ADDRESS",
    envvar="RUNNER_CLUSTER",
    show_envvar=True,
    help="Work on a Dask cluster: its scheduler's address, or local:N for N processes on this machine. "
    "Default: one process.",
)
_INSECURE_CLUSTER = click.option(
    "--insecure-cluster",
    is_flag=True,
    envvar="RUNNER_INSECURE_CLUSTER",
    show_envvar=True,
    help="Let tcp:// lead to another machine, where anybody who reaches the scheduler's port can run code on "
    "its workers, and read their secrets.",
)
_SCRATCH = click.option(
    "--scratch",
    metavar="URL",
    envvar="RUNNER_SCRATCH",
    show_envvar=True,
    help="With --cluster: a folder for intermediate files that all workers reach, a path or an fsspec URL. "
    "Default: below .runner/.",
)
_QUIET = click.option("-q", "--quiet", is_flag=True, help="Say nothing on standard error but errors.")
_VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Say more on standard error.")

_TARGETED = (_PATHS, _ALLOWED, _TARGET, _LEDGER, _STATE_REMOTE, _STATE_LEASE)


def file_scope(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command a `Scope` of campaign files: PATH…, --allow-path, --quiet, --verbose."""
    return _give_scope(function, _PATHS, _ALLOWED, _QUIET, _VERBOSE)


def clustered_file_scope(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command a `Scope` of campaign files that a cluster can work on: with --cluster and its like."""
    return _give_scope(function, _PATHS, _ALLOWED, _CLUSTER, _INSECURE_CLUSTER, _SCRATCH, _QUIET, _VERBOSE)


def path_scope(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command that reads no campaign a `Scope` of where they are: PATH…, --quiet, --verbose."""
    return _give_scope(function, _PATHS, _QUIET, _VERBOSE)


def single_scope(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command that names its one campaign a `Scope` of the rest: --allow-path, --quiet, --verbose."""
    return _give_scope(function, _ALLOWED, _QUIET, _VERBOSE)


def target_scope(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command a `Scope` of campaign files on a target: that, --target, --ledger, --state-remote."""
    return _give_scope(function, *_TARGETED, _QUIET, _VERBOSE)


def clustered_target_scope(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command what `target_scope` gives, and --cluster and its like."""
    return _give_scope(function, *_TARGETED, _CLUSTER, _INSECURE_CLUSTER, _SCRATCH, _QUIET, _VERBOSE)


def plan_scope(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command about a saved plan a `Scope` of the rest: --allow-path, --target, --quiet, --verbose."""
    return _give_scope(function, _ALLOWED, _TARGET, _QUIET, _VERBOSE)


def ledger_scope(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command about no campaign a `Scope` of the rest: --target, --ledger, --quiet, --verbose."""
    return _give_scope(function, _TARGET, _LEDGER, _QUIET, _VERBOSE)


def recorded_scope(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command a `Scope` of what a ledger has of campaign files: PATH…, --target, --ledger."""
    return _give_scope(function, _PATHS, _ALLOWED, _TARGET, _LEDGER, _QUIET, _VERBOSE)


def _give_scope(function: Callable[..., int], *options: Callable[[Any], Any]) -> Callable[..., int]:
    names = Scope.__dataclass_fields__.keys()

    @wraps(function)
    def call(**values: Any) -> int:
        scope = Scope(**{name: values.pop(name) for name in names if name in values})
        return function(scope, **values)

    for option in reversed(options):
        call = option(call)
    return call


def format_option(*formats: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that adds --format with these choices; the first is the default."""
    return click.option(
        "--format",
        "format_",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to write what is found.",
    )
