"""Which hosts webhooks may lead to, when several services share a file and not all were told."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from runner.cli.commands.sandbox import command
from runner.sandbox.rehearsal.snapshot import restore_snapshot
from runner.sandbox.sandbox_errors import SandboxError
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from runner.sandbox.web.server import running_service
from runner.sandbox.webhooks import sender
from runner.sandbox.webhooks.queue import RetrySchedule, count_webhooks
from runner.sandbox.webhooks.receiver import is_kept, keep_hosts, read_hosts
from runner.sandbox.webhooks.sender import WebhookSender

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


FOREIGN = "192.0.2.1"  # nobody's (RFC 5737)
OUTCOME = re.compile("UPDATE webhook SET (?:state =|tries = tries - 1)")
NO_HOSTS = [
    "",
    " ",
    "http://x",
    "10.0.0.1:9000",
    "h/",
    "a b",
    "[10.0.0.1]",
    "[h]",
    "[::1",
    "u@h",
    "-h",
    "*.h",
]


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("hooks.example", "hooks.example"),
        ("Hooks.Example.", "hooks.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("[fd00::2]", "fd00::2"),
        ("FD00:0::2", "fd00::2"),
        ("10.0.0.1", "10.0.0.1"),
    ],
)
def test_hosts_are_read_as_receivers_are(written: str, host: str) -> None:
    """Every spelling of a host that a webhook's URL may have can be allowed."""
    assert read_hosts([written]) == (host,)


@pytest.mark.parametrize("written", NO_HOSTS)
def test_what_is_no_host_cannot_be_allowed(written: str) -> None:
    """A URL, a port or a pattern would never match, and is refused with what to write instead."""
    with pytest.raises(SandboxError, match="is no host: give a name or an address alone"):
        read_hosts(["hooks.example", written])


def test_no_host_is_a_wrong_command_line(db: Path) -> None:
    """`serve` says which option is wrong and what it takes, and does not start."""
    arguments = ["serve", "--db", str(db), "--allow-webhooks", "10.0.0.1:9000"]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert "Invalid value for '--allow-webhooks': '10.0.0.1:9000' is no host" in result.stderr
    assert not db.exists()


def look_once(service: Service, *allowed: str, said: list[str] | None = None) -> list[tuple[str, int]]:
    """Let a sender settle or leave a webhook, and look again; give state and tries of the webhooks.

    What it tells the store is added to `said`.
    """
    said = [] if said is None else said

    async def run() -> None:
        stop = asyncio.Event()
        patience = RetrySchedule(timeout=timedelta(minutes=1))
        own = WebhookSender(service.store, allowed_hosts=allowed, patience=patience)
        sending = asyncio.create_task(own.run(stop))
        ends = time.monotonic() + 60
        while not any(OUTCOME.match(each) for each in said) and time.monotonic() < ends:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)
        # Another look at what is due.
        await asyncio.sleep(0.3)
        stop.set()
        await sending

    service.store.connection.set_trace_callback(said.append)
    asyncio.run(run())
    service.store.connection.set_trace_callback(None)
    return list(service.store.connection.execute("SELECT state, tries FROM webhook"))


def test_allowed_elsewhere_is_left(
    domain: Service,
    record: Callable[..., None],
    own_address: str,
    receive: Any,
) -> None:
    """A webhook that another service may send is put back untried, and that one sends it."""
    with receive(own_address) as hook:
        record(domain, f"{own_address}:{hook.port}", "+14155550101")
        keep_hosts(domain.store, [own_address])
        assert look_once(domain) == [("WAITING", 0)]
        assert look_once(domain, own_address) == [("DELIVERED", 1)]
        assert len(hook.requests) == 1


def test_left_webhook_is_left_for_a_while(
    domain: Service, record: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a service leaves to another one it doesn't take again before some seconds are over."""
    monkeypatch.setattr(sender, "_LEFT_FOR", timedelta(minutes=1))
    record(domain, FOREIGN, "+14155550101")
    keep_hosts(domain.store, [FOREIGN])
    said: list[str] = []
    look_once(domain, said=said)
    assert len([statement for statement in said if "tries = tries + 1" in statement]) == 1


@pytest.mark.parametrize("hosts", [None, [], ["192.0.2.2"]])
def test_allowed_nowhere_is_final(
    domain: Service, record: Callable[..., None], hosts: list[str] | None
) -> None:
    """A webhook that no service on the file may send is given up at once."""
    record(domain, FOREIGN, "+14155550101")
    if hosts is not None:
        keep_hosts(domain.store, hosts)
    assert look_once(domain) == [("FAILED", 1)]


def test_dot_at_the_end_is_the_same_host(domain: Service) -> None:
    """A name that is allowed is allowed with a dot at its end."""
    keep_hosts(domain.store, read_hosts(["hooks.example."]))
    assert is_kept(domain.store, "hooks.example.")
    assert not is_kept(domain.store, "hooks")


def test_allowance_of_a_service_is_for_all_to_see(db: Path, domain: Service) -> None:
    """Who was told, be it nothing, writes that down; who wasn't leaves it alone, and so does a reset."""
    with running_service(db, webhook_hosts=["Hooks.Example"]):
        assert is_kept(domain.store, "hooks.example")
    with running_service(db):
        assert is_kept(domain.store, "hooks.example")
    restore_snapshot(db)
    assert is_kept(domain.store, "hooks.example")
    with running_service(db, webhook_hosts=()):
        assert not is_kept(domain.store, "hooks.example")


@pytest.mark.slow
def test_services_with_and_without_allowance_share_a_file(
    db: Path, record: Callable[..., None], own_address: str, receive: Any
) -> None:
    """Beside a service that was told nothing, the one that may send everything does, and nothing is given up."""
    phones = [f"+1415556{number:04d}" for number in range(20)]
    with receive(own_address) as hook, closing(open_store(db)) as store:
        with running_service(db, webhook_hosts=[own_address]), running_service(db):
            record(Service(store), f"{own_address}:{hook.port}", *phones)
            ends = time.monotonic() + 90
            while count_webhooks(store.connection) != {"DELIVERED": 20} and time.monotonic() < ends:
                time.sleep(0.05)
        assert count_webhooks(store.connection) == {"DELIVERED": 20}
        assert len({body["result_guid"] for _, _, body in hook.requests}) == 20
