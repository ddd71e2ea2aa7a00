"""The way to a target's service: over the network, or the sandbox that is embedded here."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from runner.cli.folders import make_sandbox_database, sandbox_database
from runner.errors import RunnerError
from runner.service.target import Credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.service.client import ServiceClient
    from runner.service.target import Target


@contextmanager
def open_service(
    target: Target, concurrency: int | None, wait: Callable[[float], bool | None]
) -> Iterator[tuple[ServiceClient, Target]]:
    """Yield a client of a target's service, which is started first if it is the sandbox.

    Args:
        target: as it is configured.
        concurrency: `--concurrency`; None for the target's own.
        wait: waits for some seconds where the service asks for it; returns True if it was told to stop.

    Yields:
        The client, and the target with what the sandbox was started with.

    Raises:
        RunnerError: the sandbox cannot be started.
    """
    # Imported here: only those who ask the service pay for what speaks HTTP.
    from runner.service.client import ServiceClient
    from runner.service.connection import Connection

    with _reach_target(target) as reached:
        chosen = reached if concurrency is None else replace(reached, concurrency=concurrency)
        connection = Connection(chosen, verify=ca_bundle())
        try:
            yield ServiceClient(chosen, connection, wait=wait), chosen
        finally:
            connection.close()


def may_know_launches(target: Target) -> bool:
    """Return whether a target's service can have launches: a sandbox that never ran has none."""
    return target.base_url is not None or sandbox_database().exists()


def find_clock_lead(target: Target) -> timedelta:
    """Return how far a target's clock is ahead of this machine's: a sandbox has one of its own.

    Raises:
        RunnerError: the sandbox's database cannot be read.
    """
    if target.base_url is not None or not sandbox_database().exists():
        return timedelta()
    # Imported here: only the sandbox's users pay for it.
    from runner.sandbox.clock import read_offset
    from runner.sandbox.errors import SandboxError

    try:
        return read_offset(sandbox_database())
    except SandboxError as error:
        raise RunnerError(str(error)) from None


def ca_bundle() -> bool | str:
    """Return the CA bundle that the environment names, or True for the usual ones."""
    return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True


@contextmanager
def _reach_target(target: Target) -> Iterator[Target]:
    if target.base_url is not None:
        yield target
        return
    # Imported here: only the sandbox's users pay for a web server.
    from runner.sandbox.errors import SandboxError
    from runner.sandbox.web.server import running_service

    try:
        with running_service(make_sandbox_database()) as service:
            credentials = Credentials(service.username, service.api_key)
            yield replace(target, base_url=service.url, credentials=credentials)
    except SandboxError as error:
        raise RunnerError(str(error)) from None
