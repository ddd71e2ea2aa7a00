"""Who may look at the inbox from another machine: a server on this machine's own address."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
import requests

from runner.sandbox.clock import read_clock
from runner.sandbox.web.server import running_service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runner.sandbox.model import ServiceAddress
    from runner.sandbox.service import Service

    Ask = Callable[..., requests.Response]

PHONE = "+14155550101"
EVENTS = "/_sandbox/inbox/events"
FORM = "/_sandbox/inbox/clock"


@pytest.fixture
def outside(db: Path, own_address: str) -> Iterator[ServiceAddress]:
    """A service that other machines reach; this one reaches it as one of them."""
    with running_service(db, host=own_address) as running:
        yield running


def ask(
    address: ServiceAddress, path: str, method: str = "GET", auth: tuple[str, str] | None = None
) -> requests.Response:
    """Make a request, with HTTP Basic credentials if any; of a stream no more than its head is read."""
    with requests.request(
        method, address.url + path, auth=auth, stream=True, allow_redirects=False, timeout=60
    ) as answer:
        if path != EVENTS:
            assert answer.content is not None
        return answer


def test_everything_asks_for_the_api_key(outside: ServiceAddress, domain: Service) -> None:
    """From elsewhere pages, forms and events are there with the account's credentials alone."""
    domain.receive(PHONE, "Hello", read_clock())
    right = (outside.username, outside.api_key)
    for path, method, status in (
        ("/phones", "GET", 200),
        ("/phones/none", "GET", 404),
        (FORM, "POST", 400),
        (EVENTS, "GET", 200),
    ):
        refused = ask(outside, path, method)
        assert (refused.status_code, refused.headers["WWW-Authenticate"][:6]) == (401, "Basic ")
        assert ask(outside, path, method, right).status_code == status
    assert PHONE not in ask(outside, "/phones").text


def test_wrong_credentials_open_nothing(outside: ServiceAddress) -> None:
    """Wrong credentials, and what is no HTTP Basic, are as good as none."""
    for auth in (("sandbox", ""), ("sandbox", "wrong"), ("", ""), ("sandbox", "ünwahr")):
        assert ask(outside, "/phones", auth=auth).status_code == 401, auth
    right = base64.b64encode(f"{outside.username}:{outside.api_key}".encode()).decode()
    for header in ("Basic", "Basic !", "Basic AAAA", f"Bearer {right}", right):
        sent = {"Authorization": header}
        assert requests.get(f"{outside.url}/phones", headers=sent, timeout=60).status_code == 401, header


def test_another_page_cannot_use_them(outside: ServiceAddress) -> None:
    """A browser that has the credentials sends them for other pages too, whose forms are refused all the same."""
    right = (outside.username, outside.api_key)
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = requests.post(outside.url + FORM, headers=headers, auth=right, timeout=60)
        assert answer.status_code == 403


def test_this_machine_needs_no_key(db: Path, own_address: str) -> None:
    """Whoever comes from loopback looks at a service that listens everywhere without credentials."""
    with running_service(db, host="0.0.0.0") as running:  # noqa: S104  what is tested
        port = running.url.rpartition(":")[2]
        assert requests.get(f"http://127.0.0.1:{port}/", timeout=60).status_code == 200
        assert requests.get(f"http://{own_address}:{port}/", timeout=60).status_code == 401
