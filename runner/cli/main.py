"""The `runner` command: the subcommands, and the one boundary at which errors become exit codes."""

from __future__ import annotations

import importlib
import io
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import shell_complete

from runner.cli.command import Group, write_options
from runner.cli.console import ConsoleObserver, say
from runner.cli.encoding import open_closed_streams, print_text, replace_unencodable
from runner.cli.signals import raise_on_signals, show_interrupt
from runner.errors import RunnerError, UsageError
from runner.version import describe_version
from runner.workflow.observer import observe_everywhere

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUPS = {
    "Write": {
        "init": "Create a campaign repository that CI checks and sends.",
        "validate": "Find all problems of all campaigns.",
        "test": "Run the tests of campaigns.",
        "preview": "Show conversations as recipients will see them.",
    },
    "Send": {
        "plan": "Show what apply would send and to whom.",
        "apply": "Send the planned texts, each exactly once.",
        "status": "Show what is sent, answered and unresolved.",
        "resolve": "List launches of unknown outcome, and settle them.",
        "pause": "Pause campaigns: nothing is sent.",
        "resume": "Resume paused campaigns.",
    },
    "Read": {
        "reconcile": "Read counts and results into the ledger.",
        "report": "Write a report for each campaign from the ledger.",
        "who": "Show everything about one person.",
        "optouts": "Show and change who has opted out.",
        "forget": "Delete a person's data, and never text them again.",
        "prune": "Delete texts and answers past their retention.",
    },
    "Sandbox": {
        "demo": "Try all steps, with simulated participants.",
        "sandbox": "Run the sandbox service, or let participants answer.",
    },
    "CI": {
        "ci": "Run the jobs of CI, and their parts.",
    },
    "Admin": {
        "doctor": "Check settings, service, ledger and clock.",
        "key": "Create state keys, and move records to a new key.",
        "ledger": "Copy the ledger to another database.",
        "explain": "Explain the code of a problem by an example.",
        "law": "Print the known legal sending hours with their sources.",
        "schema": "Print one of the program's JSON Schemas.",
        "completion": "Print a script that completes commands in a shell.",
    },
}
"""Commands with their help, in groups: here, so that `--help` imports none of them."""
COMMANDS = {name: words for commands in GROUPS.values() for name, words in commands.items()}
_MODULES = {
    **dict.fromkeys(("pause", "resume"), "pausing"),
    **dict.fromkeys(("who", "optouts", "forget"), "people"),
    **dict.fromkeys(("doctor", "key", "ledger"), "admin"),
    **dict.fromkeys(("explain", "law", "schema", "completion"), "manual"),
}
"""Modules of the commands that do not have one of their own name."""


class LazyGroup(Group):
    """A group whose commands are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Return the commands' names in the order of the help page."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command; None if there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"runner.cli.commands.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands without importing them, and the options."""
        width = max(map(len, GROUPS)) + 2
        rows = [
            (f"{'' if index else group:{width}}{name}", words)
            for group, commands in GROUPS.items()
            for index, (name, words) in enumerate(commands.items())
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
        write_options(ctx, formatter, [one for one in self.get_params(ctx) if isinstance(one, click.Option)])


def _show_version(ctx: click.Context, _option: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        print_text(describe_version())
        ctx.exit()


def _enter_folder(ctx: click.Context, _option: click.Parameter, value: str | None) -> None:
    if value is not None and not ctx.resilient_parsing:
        os.chdir(value)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "-C",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    is_eager=True,
    expose_value=False,
    callback=_enter_folder,
    help="Work as if started in DIR.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, and those of what it runs on.",
)
def cli() -> None:
    """Run SMS survey campaigns as code: nobody is texted twice, nobody is skipped.

    Without an account all runs on the sandbox: try `runner demo`. To send for real, set
    RUNNER_BASE_URL, RUNNER_USERNAME and RUNNER_API_KEY.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, in the main thread, and return its exit code (docs/reference/exit-codes.md).

    SIGINT and SIGTERM end it in order. With NO_COLOR it writes no colours. Without arguments, which exclude
    the program's name, it takes those of the process.
    """
    open_closed_streams()
    observe_everywhere(ConsoleObserver())
    replace_unencodable()
    if asked := os.environ.get("_RUNNER_COMPLETE"):
        return shell_complete(cli, {}, "runner", "_RUNNER_COMPLETE", asked)
    # Click does not know it (no-color.org). Errors are shown when the command's own context is gone.
    color = False if os.environ.get("NO_COLOR") else None
    with click.Context(cli, color=color).scope(cleanup=False):
        try:
            with raise_on_signals():
                # Not `main`, which has its own way with interrupts and closed pipes.
                words = list(sys.argv[1:] if arguments is None else arguments)
                with cli.make_context("runner", words, color=color) as context:
                    result: Any = cli.invoke(context)
                sys.stdout.flush()
        except click.exceptions.Exit as error:
            return error.exit_code
        except BrokenPipeError:
            return _leave_pipe()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the boundary at which errors end
            return show_failure(error)
        return result if isinstance(result, int) else 0


def _leave_pipe() -> int:
    """End without a word, as the reader of the output has gone (`| head`)."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    return 0


def show_failure(error: BaseException) -> int:
    """Write the reason for a failure to standard error, and return its exit code."""
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        return show_interrupt()
    if isinstance(error, click.ClickException):
        code = UsageError.exit_code if isinstance(error, click.UsageError) else RunnerError.exit_code
        text = io.StringIO()
        error.show(file=text)
        print_text(text.getvalue(), nl=False, err=True)
        return code
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else "writing the output: "
        error = RunnerError(f"{place}{error.strerror or error}; what was sent is recorded")
    if isinstance(error, RunnerError):
        show_error(error)
        return error.exit_code
    # A fault of the program, without values that could reveal anything.
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{frame.filename.rpartition('/')[2]}:{frame.lineno} in {frame.name}"
    fault = f"{type(error).__name__} at {place}"
    advice = "This is a bug of runner; what was sent is recorded. Please report it with this line."
    say(fault, hint=advice, label="Internal error:")
    return RunnerError.exit_code


def show_error(error: RunnerError) -> None:
    """Write an error and its remedy to standard error."""
    say(error.message, hint=error.hint, label="Error:")
