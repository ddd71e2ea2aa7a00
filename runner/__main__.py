"""`python -m runner`, and the entry point of the `runner` command."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress

if __name__ == "__main__" and not sys.flags.safe_path:
    # `python -m` looks in the working folder first, which is a checkout of anybody's.
    del sys.path[0]

from runner.cli.signals import end_on_signals, raise_on_signals, show_interrupt
from runner.errors import InterruptedRunError


def main() -> None:
    """Run the command line and exit with its code."""
    interrupted: list[int] = []
    # The first to be registered is the last to be called.
    atexit.register(_keep_code, interrupted)
    try:
        with raise_on_signals():
            # Late: what it imports takes most of the start, which can be interrupted like the rest.
            from runner.cli.main import run  # noqa: PLC0415  see above

            code = run()
    except KeyboardInterrupt:
        code = show_interrupt()
    if code == InterruptedRunError.exit_code:
        interrupted.append(code)
    end_on_signals(code)
    sys.exit(code)


def _keep_code(interrupted: list[int]) -> None:
    """End an interrupted process with its code.

    Python would end it as if by SIGINT if the interrupt came amid an `exec`, as of a dataclass that is
    imported, although it was caught (CPython, `unhandled_keyboard_interrupt`).
    """
    for code in interrupted:
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
