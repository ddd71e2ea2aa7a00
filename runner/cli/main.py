"""The `runner` command: finds the subcommand, and is the one boundary at which errors become exit codes."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from runner import __version__
from runner.cli.command_guard import guard_output
from runner.cli.signals import raise_on_signals, show_interrupt
from runner.errors import RunnerError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COMMANDS = {
    "demo": "Run the whole loop on the sandbox, with simulated participants.",
    "init": "Write a campaign repository that CI checks and sends.",
    "validate": "Find every problem of every campaign, before it reaches a phone.",
    "plan": "Show what apply would send, to whom, and why not to the others.",
    "comment": "Keep the plan as one comment on a pull request.",
    "approve": "Record who approved a plan.",
    "apply": "Send what is planned, exactly once, and write the lockfile.",
    "record": "Commit the lockfiles, opt-outs and approvals, and push them.",
    "alert": "Keep one issue on the forge as long as something is wrong.",
    "resolve": "List launches of unknown outcome, and say what became of them.",
    "pause": "Put campaigns on hold: nothing of them is sent.",
    "resume": "Let campaigns go on that are on hold.",
    "status": "Show what is sent, in progress, answered and unresolved.",
    "reconcile": "Bring counts and results of every launch into the ledger.",
    "ledger": "Write the ledger to Parquet files, or fill one from them.",
    "optouts": "Show and change who is not to be texted by any campaign.",
    "report": "Write a report per campaign from the ledger.",
    "key": "Make state keys, and move records to a new one.",
    "forget": "Remove a person's data, and never text them again.",
    "preview": "Show the conversation as a recipient will see it.",
    "sandbox": "Run the sandbox service, or have participants answer.",
    "law": "Print the legal sending hours that are known, with sources.",
    "schema": "Print a JSON Schema that the program uses.",
}
"""Commands with their help, one line of a terminal each: here, so that `--help` imports none of them."""

BUG = 1
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for: each file is one command."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Return the commands' names in the order of a campaign's way."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command; None if there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        with _without_collecting():
            command: click.Command = importlib.import_module(f"runner.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for.

        Raises:
            Abort: it was interrupted. Click itself would write an empty line first.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.Abort from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Look for no garbage among what is imported: there is hardly any, and it takes a tenth of the start."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExamples:\n  runner demo\n  runner plan campaigns/customer-pulse.yaml\n"
    "  runner apply --auto-approve",
)
@click.version_option(__version__, prog_name="runner")
def cli() -> None:
    """SMS survey campaigns as code: nobody is texted twice and nobody is skipped.

    Without an account everything runs on the built-in sandbox service. Set RUNNER_BASE_URL,
    RUNNER_USERNAME and RUNNER_API_KEY to send for real.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; SIGINT and SIGTERM end it in order. To be called in the main thread.

    In a CI job nothing that it prints can become a command to the platform, but for its own annotations.

    Args:
        arguments: without the program's name; None takes the process's.

    Returns:
        The exit code (contract, "Exit codes").
    """
    with guard_output(os.environ):
        return _run_guarded(arguments)


def _run_guarded(arguments: Sequence[str] | None) -> int:
    try:
        with raise_on_signals():
            result: Any = cli.main(args=arguments, prog_name="runner", standalone_mode=False)
    except click.exceptions.Exit as error:
        return error.exit_code
    except BrokenPipeError:
        # The reader of the output has gone (`| head`): nothing is left to say, and nowhere to say it.
        sys.stderr.close()
        return 0
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the boundary at which errors end
        return show_failure(error)
    return result if isinstance(result, int) else 0


def show_failure(error: BaseException) -> int:
    """Write why a command failed to standard error, and return its exit code."""
    if isinstance(error, RunnerError):
        show_error(error)
        return error.exit_code
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        return show_interrupt()
    if isinstance(error, click.ClickException):
        error.show()
        return UsageError.exit_code if isinstance(error, click.UsageError) else RunnerError.exit_code
    # Whoever writes a file says which one it is: without a name, it is standard output.
    if isinstance(error, OSError) and error.filename is None and error.errno in _UNWRITABLE:
        return show_failure(
            RunnerError(f"the output cannot be written: {error.strerror}; what was sent is recorded")
        )
    return show_bug(error)


def show_error(error: RunnerError) -> None:
    """Write an error and what to do about it to standard error."""
    click.echo(f"{click.style('Error:', fg='red', bold=True)} {error.message}", err=True)
    if error.hint:
        click.echo(f"  {error.hint}", err=True)


def show_bug(error: BaseException) -> int:
    """Say that the program is at fault, without anything that its values could give away."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{frame.filename.rpartition('/')[2]}:{frame.lineno} in {frame.name}"
    click.echo(f"Internal error: {type(error).__name__} at {place}.", err=True)
    click.echo(
        "  This is a bug of runner; what was sent is recorded. Please report it with this line.", err=True
    )
    return BUG
