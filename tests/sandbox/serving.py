"""The service without a server, and as a process of its own, which can be stopped and killed."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runner.sandbox.clock import Clock
from runner.sandbox.commits import Writer
from runner.sandbox.model import ServiceAddress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runner.sandbox.service import Service

_SERVE = """
import sys
from pathlib import Path
from runner.sandbox.web.server import serve
show = lambda address: print(address.url, address.username, address.api_key, flush=True)
serve(Path(sys.argv[1]), port=0, on_start=show)
"""


def make_writer(service: Service) -> Writer:
    """Return the writes of a service without a server."""
    return Writer(service, Clock(service.store))


@contextmanager
def serving_process(db: Path) -> Iterator[tuple[subprocess.Popen[str], ServiceAddress]]:
    """Serve a database while the block lasts; what is left of the process in the end is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(db)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, ServiceAddress(*process.stdout.readline().split())
    finally:
        process.kill()
        process.communicate()
