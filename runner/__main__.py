"""`python -m runner`, and the entry point of the `runner` command."""

from __future__ import annotations

import sys

from runner.cli.main import run


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(run())


if __name__ == "__main__":
    main()
