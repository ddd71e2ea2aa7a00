"""`python -m tests.reference_service`: the service of the reference, for use by hand.

It listens on a free loopback port until it is interrupted. With `--control` it takes orders (see `control.py`)
and ends when its standard input does.
"""

from __future__ import annotations

import argparse
import sys
import threading
from contextlib import suppress

from tests.reference_service.control import obey
from tests.reference_service.service import ReferenceService
from tests.reference_service.switches import AMOUNTS, FAULTS, VALUES, Switches


def main() -> int:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.reference_service",
        description=__doc__,
        epilog=_explain(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--switch", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    parser.add_argument("--fault", action="append", default=[], metavar="FAULT", help="of the next send")
    parser.add_argument("--control", action="store_true", help="take orders from standard input")
    options = parser.parse_args()
    try:
        service = ReferenceService(Switches.parse(options.switch))
        service.plan_faults(options.fault)
    except ValueError as error:
        parser.error(str(error))
    said = {"url": service.url, **service.credentials}
    sys.stdout.write("".join(f"{name}: {value}\n" for name, value in said.items()))
    sys.stdout.flush()
    with suppress(KeyboardInterrupt):
        if options.control:
            obey(service, sys.stdin, sys.stdout)
        else:
            threading.Event().wait()
    return 0


def _explain() -> str:
    lines = ["switches (the first value is the default):"]
    for name, values in VALUES.items():
        lines.append(f"  {name}")
        lines += [f"    {value:14} {meaning}" for value, meaning in values.items()]
    lines += [f"  {name:16} {meaning}" for name, meaning in AMOUNTS.items()]
    lines += ["", "faults:", *(f"  {name:18} {meaning}" for name, meaning in FAULTS.items())]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
