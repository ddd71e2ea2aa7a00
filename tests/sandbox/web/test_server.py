"""The service as a process and inside another program: started, stopped, killed."""

from __future__ import annotations

import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import requests

from runner.sandbox import commits
from runner.sandbox.sandbox_errors import SandboxError
from runner.sandbox.store import Store, open_store
from runner.sandbox.web import server as server_module
from runner.sandbox.web.server import running_service
from tests.sandbox.serving import serving_process

if TYPE_CHECKING:
    from pathlib import Path

    from runner.sandbox.model import ServiceAddress


def try_send(address: ServiceAddress, phone: str = "+14155550101") -> requests.Response:
    query = {"username": address.username, "api_key": address.api_key}
    body = {"phone": [phone], "text": "Hello"}
    return requests.post(f"{address.url}/api/send", params=query, json=body, timeout=60)


def send(address: ServiceAddress, phone: str) -> str:
    response = try_send(address, phone)
    response.raise_for_status()
    return str(response.json()["project_launch_guid"])


def list_launches(address: ServiceAddress) -> list[str]:
    query = {"username": address.username, "api_key": address.api_key, "limit": "1000"}
    stats = requests.get(f"{address.url}/api/stats/", params=query, timeout=60).json()["objects"]
    return [stat["project_launch_guid"] for stat in stats]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_the_service_cleanly(db: Path, number: signal.Signals) -> None:
    """SIGINT and SIGTERM end the service with code 0, nothing on standard error, and the database at rest."""
    with serving_process(db) as (process, address), requests.Session() as session:
        session.get(f"{address.url}/api/stats/", timeout=60)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert [path.name for path in db.parent.iterdir()] == ["service.sqlite"]


def test_service_says_nothing(
    db: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A running service neither prints nor logs, whatever it is asked."""
    with running_service(db) as address:
        send(address, "+14155550101")
        requests.get(f"{address.url}/api/stats/?username=a&api_key=secret", timeout=60)
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if not record.name.startswith("urllib3")] == []


def test_fault_is_answered_and_not_explained(
    db: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of the service answers 500 without its cause, which may name people, and logs nothing."""
    with running_service(db) as address:
        with closing(open_store(db)) as store:
            store.connection.execute("DROP TABLE transcript")
        query = {"username": address.username, "api_key": address.api_key}
        body = {"phone": ["+14155550101"], "text": "Hello"}
        answer = requests.post(f"{address.url}/api/send", params=query, json=body, timeout=60)
        after = requests.get(f"{address.url}/api/stats/", params=query, timeout=60)
    assert answer.status_code == 500
    assert answer.json()["error"] == {
        "code": "internal_error",
        "message": "The service failed; this is a fault of the sandbox.",
        "problems": [],
    }
    assert after.json()["meta"]["total_count"] == 0
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if not record.name.startswith("urllib3")] == []


def test_port_in_use_is_named(db: Path) -> None:
    """A port that somebody listens on is refused by name, with a way on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SandboxError) as error, running_service(db, port=port):
            pass
    assert str(error.value) == (
        f"cannot listen on 127.0.0.1 port {port}: Address already in use; is a sandbox served there already? "
        "Port 0 takes any free one"
    )


def test_busy_database_is_a_temporary_refusal(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process holds the database too long, a send answers 503 with Retry-After and stores nothing."""
    monkeypatch.setattr(commits, "PATIENCE_S", 0.2)
    with running_service(db) as address, closing(open_store(db)) as other:
        other.connection.execute("BEGIN IMMEDIATE")
        answer = try_send(address)
        other.connection.rollback()
        assert list_launches(address) == []
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json()["error"]["code"] == "busy"


def test_busy_database_holds_up_sends_alone(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process holds the database, reads are answered, and sends when it is free again: each once."""
    # The looks may take longer than a send usually waits.
    monkeypatch.setattr(commits, "PATIENCE_S", 60)
    with (
        running_service(db) as address,
        closing(open_store(db)) as other,
        ThreadPoolExecutor() as pool,
    ):
        other.connection.execute("BEGIN IMMEDIATE")
        sending = [pool.submit(try_send, address, f"+1415555010{number}") for number in range(3)]
        # Three looks in a row, while each of the sends is being tried again.
        for _ in range(3):
            assert requests.get(f"{address.url}/livez", timeout=60).ok
            assert list_launches(address) == []
        assert not any(each.done() for each in sending)
        other.connection.rollback()
        assert [each.result().status_code for each in sending] == [200, 200, 200]
        assert len(list_launches(address)) == 3


def test_full_disk_is_said(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the database cannot grow, sends answer 503 and nothing is stored; what is there can be read."""

    def open_full(path: Path) -> Store:
        store = open_store(path)
        (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
        store.connection.execute(f"PRAGMA max_page_count = {pages + 4}")
        return store

    monkeypatch.setattr(server_module, "open_store", open_full)
    with running_service(db) as address:
        for number in range(10_000_000, 10_001_000):
            answer = try_send(address, f"+1415{number}")
            if not answer.ok:
                break
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert (
            answer.json()["error"]["message"]
            == "The database has no room to grow: the disk is full. Nothing was stored."
        )
        assert len(list_launches(address)) == number - 10_000_000
