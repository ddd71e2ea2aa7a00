"""`runner demo`: the whole loop on the sandbox, each step a command as a user would type it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.command import Command
from runner.cli.encoding import print_text
from runner.cli.options import FOLDER
from runner.errors import InterruptedRunError, RunnerError
from runner.source.storage import shipped_folder
from runner.workflow.observer import note

if TYPE_CHECKING:
    from collections.abc import Sequence

FEATURED = "customer-pulse"
_FILE = f"campaigns/{FEATURED}.yaml"
_STEPS = (
    (f"validate {_FILE}", "Is the campaign's file in order? Each problem is shown with its place."),
    (f"preview {_FILE} --phone +12085550124", "What does one person get? Their phone shows this."),
    (f"plan {_FILE}", "Who would be texted, and who not? Nothing is sent yet."),
    (f"apply --auto-approve {_FILE}", "Send what was planned: once, however often this is run."),
    ("sandbox simulate --seed {seed}", "Made-up people answer; hours pass in a second."),
    (f"reconcile {_FILE}", "Read from the service what came of it."),
    (f"status {_FILE}", "How far is it?"),
    (
        f"report {_FILE} --out reports --format html --format md --format json --format csv",
        "What did they say?",
    ),
)
_INBOX = "http://127.0.0.1:8025"


@click.command(cls=Command)
@click.option(
    "--dir",
    "folder",
    type=FOLDER,
    help="The folder to run in. Default: a new temporary folder, which is kept.",
)
@click.option("--seed", type=int, default=1, help="Equal seeds give equal participants.")
def demo(folder: Path | None, seed: int) -> int:
    """Run a campaign on the sandbox: validate, preview, plan, apply, answers, reconcile, report.

    The example campaigns are copied to a new folder. One of them is sent to the built-in service, answered by
    simulated participants, and reported. Nobody is texted.

    Examples:
        runner demo
        runner demo --dir /tmp/look-around --seed 7
    """
    scratch, code = _prepare(folder), 1
    try:
        code = _run_steps(scratch, seed)
    finally:
        if code:
            note(f"What it has done is in {scratch.resolve()}")
    if not code:
        _show_end(scratch.resolve())
    return code


def _show_end(scratch: Path) -> None:
    reports = scratch / "reports"
    # What stands above the first heading of a part: how many answered, and the score.
    head = (reports / f"{FEATURED}.md").read_text(encoding="utf-8").partition("\n## ")[0]
    said = [line.replace("**", "") for line in head.splitlines()[1:] if line and not line.startswith(">")]
    database = scratch / ".runner/sandbox/service.sqlite"
    print_text("\n".join(("", *said)))
    print_text(f"\nThe report to show around: {reports / f'{FEATURED}.html'}")
    print_text(f"Everything else: {scratch} (`runner plan` there shows the other campaigns, too)")
    print_text(f"The inbox, to read and answer as the people texted: {_INBOX} once this runs:")
    print_text(f"  runner sandbox serve --db {database}")


def _run_steps(scratch: Path, seed: int) -> int:
    for step, words in _STEPS:
        arguments = step.format(seed=seed).split()
        print_text(f"\n# {words}", err=True)
        print_text(f"$ runner {' '.join(arguments)}", fg="green", bold=True, err=True)
        code = _run_step(arguments, scratch)
        if code == InterruptedRunError.exit_code:
            # The step has reported it.
            return code
        if code:
            raise RunnerError(f"the step `runner {step}` ended with exit code {code}")
    return 0


def _run_step(arguments: Sequence[str], scratch: Path) -> int:
    # A demonstration never reaches a real service, whatever the environment.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RUNNER_")}
    command = [sys.executable, "-P", "-m", "runner", *arguments]
    with subprocess.Popen(command, cwd=scratch, env=environment) as process:  # noqa: S603  our own command
        try:
            return process.wait()
        except KeyboardInterrupt:
            # At a terminal the step is interrupted, too, and `wait` has given it a moment.
            process.terminate()
            if process.wait() == InterruptedRunError.exit_code:
                return InterruptedRunError.exit_code
            raise


def _prepare(folder: Path | None) -> Path:
    scratch = folder or Path(tempfile.mkdtemp(prefix="runner-demo-"))
    campaigns = scratch / "campaigns"
    if campaigns.exists():
        raise RunnerError(f"there is a {campaigns} already", hint="name an empty folder with --dir")
    try:
        shutil.copytree(
            shipped_folder("campaigns"), campaigns, ignore=shutil.ignore_patterns("*.lock.json", ".*")
        )
    except OSError as error:
        raise RunnerError(f"the example campaigns cannot be copied to {scratch}: {error}") from None
    return scratch
