"""Runs the command inside the process of the tests: all that a process of its own has, but the start.

The files, the sandbox and its socket, the current folder, the environment, the standard streams (down to
their descriptors, which processes that the command starts inherit) and the boundary at which errors become
exit codes are the real ones. What is about signals, terminals, locks between processes, or the start itself
needs `run_process`.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from contextlib import ExitStack, contextmanager
from subprocess import CompletedProcess
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

import pytest

from runner.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def run_inside(
    *arguments: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> CompletedProcess[str]:
    """Return what the command wrote, and its exit code, whatever that is.

    Args:
        arguments: after `runner`.
        cwd: the current folder of the command.
        env: variables beside those of the test's own environment.
        stdin: what it can read; None for nothing.
    """
    command = ["runner", *map(str, arguments)]
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write((stdin or "").encode())
        given.seek(0)
        with _standard_streams(given, out, err), _own_signals(), pytest.MonkeyPatch.context() as patch:
            patch.chdir(cwd)
            patch.setattr(sys, "argv", command)
            # As in all tests (`unhurried`), also for the fixtures of a module, which come before those of a test.
            patch.setattr("runner.cli.console._LINE_EVERY_S", math.inf)
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                main()
        code = ended.value.code
        assert isinstance(code, int)
        return CompletedProcess(command, code, _read(out), _read(err))


@contextmanager
def _standard_streams(*files: IO[bytes]) -> Iterator[None]:
    """Put files in the place of standard input, output and error, as a shell does."""
    kept = [os.dup(number) for number in range(3)]
    try:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        with ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            for number, name in enumerate(("stdin", "stdout", "stderr")):
                mode, errors = "w" if number else "r", "backslashreplace" if name == "stderr" else "strict"
                stream = open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115  the stack closes it
                patch.setattr(sys, name, stack.enter_context(stream))
            yield
    finally:
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Put the handlers back that were there before: a process that has ended has none."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
