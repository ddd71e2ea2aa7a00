"""`python -m runner`, and the entry point of the `runner` command."""

from __future__ import annotations

import gc
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # `python -m` looks in the working folder first, which is a checkout of anybody's.
    del sys.path[0]

from runner.cli.signals import end_on_signals, raise_on_signals, show_interrupt


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        with raise_on_signals():
            # Late: what it imports takes most of the start, which can be interrupted like the rest.
            from runner.cli.main import run  # noqa: PLC0415  see above

            code = run()
    except KeyboardInterrupt:
        code = show_interrupt()
    end_on_signals(code)
    # The system frees the memory: to look for cycles in it first takes a tenth of a short command's time.
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
