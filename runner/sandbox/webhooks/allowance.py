"""Which hosts webhooks may lead to beyond this machine, known to all services on one file.

Only who starts a service by hand is asked. The services that other programs run beside it may not call
those hosts, and must not give up what it may send.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from runner.sandbox.errors import SandboxError
from runner.sandbox.webhooks.receiver import read_host

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from runner.sandbox.store import Store

_SETTING = "webhook_hosts"


def read_hosts(written: Iterable[str]) -> tuple[str, ...]:
    """Read names and addresses of hosts as receivers' hosts are read, and without a dot at the end.

    Args:
        written: as people write them, an IPv6 address with or without brackets.

    Raises:
        SandboxError: one is no host, as with a scheme or a port.
    """
    return tuple(_read_host(host) for host in written)


def keep_hosts(store: Store, hosts: Collection[str]) -> None:
    """Write down which hosts the service that was told last may call, as `read_hosts` gives them."""
    with store.write() as connection:
        connection.execute(
            "INSERT INTO setting (name, value) VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (_SETTING, json.dumps([*hosts])),
        )


def is_kept(store: Store, host: str) -> bool:
    """Tell whether the service that was told last may call a receiver's host."""
    query = (
        "SELECT EXISTS (SELECT 1 FROM setting JOIN json_each(setting.value) AS host "
        "WHERE name = ? AND host.value = ?)"
    )
    return bool(store.connection.execute(query, (_SETTING, host.rstrip("."))).fetchone()[0])


def _read_host(written: str) -> str:
    is_bracketed = written.startswith("[") and written.endswith("]")
    host = read_host(written[1:-1] if is_bracketed else written)
    if host is None or (is_bracketed and ":" not in host):
        raise SandboxError(
            f"{written!r} is no host: give a name or an address alone, as in hooks.example or 10.0.0.5"
        )
    return host.rstrip(".")
