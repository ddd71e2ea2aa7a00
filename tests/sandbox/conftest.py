"""A real service on a real socket, and the domain on the same file for what has no endpoint."""

from __future__ import annotations

import socket
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import requests

from runner.sandbox.handle import MessagingService
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from runner.sandbox.web.server import running_service
from runner.sandbox.webhooks import sender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runner.sandbox.model import ServiceAddress


@pytest.fixture(scope="module")
def module_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ServiceAddress]]:
    """The service of a module's tests, and its database."""
    path = tmp_path_factory.mktemp("sandbox") / "service.sqlite"
    with running_service(path) as running:
        yield path, running


@pytest.fixture
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The database of `address`, which is emptied; of tests without a service, one that is not there yet."""
    if "address" not in request.fixturenames or "patient_webhooks" in request.fixturenames:
        return tmp_path / "sandbox" / "service.sqlite"
    path: Path
    path, running = request.getfixturevalue("module_service")
    MessagingService(running.url, running.username, running.api_key).reset()
    return path


@pytest.fixture
def address(request: pytest.FixtureRequest, db: Path) -> Iterator[ServiceAddress]:
    """The service of the module, or one of its own for a test that changes how it runs."""
    if "patient_webhooks" in request.fixturenames:
        request.getfixturevalue("patient_webhooks")
        with running_service(db) as running:
            yield running
    else:
        yield request.getfixturevalue("module_service")[1]


@pytest.fixture
def domain(db: Path) -> Iterator[Service]:
    """The service's domain on the database of `address`, as another process would have it."""
    with closing(open_store(db)) as store:
        yield Service(store)


@pytest.fixture
def reply(domain: Service) -> Callable[[str, str], None]:
    """Let a participant send a text, now."""

    def receive(phone: str, text: str) -> None:
        domain.receive(phone, text, datetime.now(UTC))

    return receive


@pytest.fixture
def call(address: ServiceAddress) -> Iterator[Callable[..., requests.Response]]:
    """Make a request with the right credentials: method, path, a JSON `body` if any, query parameters."""
    with requests.Session() as session:
        session.trust_env = False

        def request(method: str, path: str, body: object = None, **query: object) -> requests.Response:
            credentials: dict[str, Any] = {"username": address.username, "api_key": address.api_key}
            return session.request(
                method, address.url + path, params={**credentials, **query}, json=body, timeout=60
            )

        yield request


@pytest.fixture
def patient_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let services wait a minute for receivers: on a busy machine a try within 5 s may be lost, and made again."""
    monkeypatch.setattr(sender, "TIMEOUT_S", 60)


@pytest.fixture
def kept_port() -> Iterator[int]:
    """A port on which a service can come and go: nobody else is given it meanwhile."""
    with closing(socket.socket()) as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        yield int(holder.getsockname()[1])


@pytest.fixture
def own_address() -> str:
    """An address of this machine that is not on loopback; no packet is sent."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(probe.getsockname()[0])
