"""Who may look at the inbox from another machine: a server on this machine's own address."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
import requests

from runner.sandbox.clock import read_clock
from runner.sandbox.inbox import access
from runner.sandbox.inbox.access import WrongKeys
from runner.sandbox.model import Definition, ServiceAddress
from runner.sandbox.web.server import running_service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runner.sandbox.service import Service
    from tests.sandbox.inbox.conftest import Page

    Ask = Callable[..., requests.Response]

PHONE = "+14155550101"
LOGOUT = "/_sandbox/inbox/logout"
LOGIN = "/_sandbox/inbox/login"
EVENTS = "/_sandbox/inbox/events"
SEEN = "/_sandbox/inbox/seen"


@pytest.fixture
def outside(db: Path, own_address: str) -> Iterator[ServiceAddress]:
    """A service that other machines reach; this one reaches it as one of them."""
    with running_service(db, host=own_address) as running:
        yield running


@pytest.fixture
def ask(outside: ServiceAddress) -> Iterator[Ask]:
    """Make requests as one browser does, which follows no redirect."""
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Sec-Fetch-Site"] = "same-origin"

        def request(path: str, method: str = "GET", **options: object) -> requests.Response:
            return session.request(
                method,
                outside.url + path,
                allow_redirects=False,
                timeout=60,
                **options,  # type: ignore[arg-type]  # as given
            )

        yield request


@pytest.fixture
def log_in(ask: Ask) -> Ask:
    """Send the form of the login page; fields and headers may be told otherwise."""

    def submit(api_key: str, headers: dict[str, str] | None = None, **fields: str) -> requests.Response:
        token = ask(LOGIN).text.partition('name="token" value="')[2].partition('"')[0]
        form = {"token": token, "api_key": api_key, **fields}
        return ask(LOGIN, "POST", data=form, headers=headers)

    return submit


@pytest.mark.parametrize(
    "path", ["/", "/phones", "/phones/none", "/launches/none", "/search?q=a&before=3", "/search"]
)
def test_page_leads_to_the_login_and_back(
    path: str, ask: Ask, log_in: Ask, outside: ServiceAddress, domain: Service
) -> None:
    """From elsewhere a page shows nothing but the way to the login, which leads back to it."""
    domain.receive(PHONE, "Hello", read_clock())
    answer = ask(path)
    assert answer.status_code == 303
    assert answer.headers["Location"] == f"{LOGIN}?next={quote(path, safe='/')}"
    assert PHONE not in answer.text
    assert f'name="next" value="{path.replace("&", "&amp;")}"' in ask(answer.headers["Location"]).text
    assert log_in(outside.api_key, next=path).headers["Location"] == path
    assert ask(path).status_code in {200, 404}


def test_forms_and_events_need_the_login(ask: Ask, log_in: Ask, outside: ServiceAddress) -> None:
    """From elsewhere a form and the event stream answer 401 until somebody has logged in."""
    for path in ("/phones/none", SEEN):
        refused = ask(path, "POST", data={"token": ""})
        assert refused.status_code == 401
        assert "not logged in" in refused.text
    assert ask(EVENTS).status_code == 401
    log_in(outside.api_key)
    assert ask(SEEN, "POST", data={"token": ""}).status_code == 403
    with ask(EVENTS, stream=True) as stream:
        assert stream.status_code == 200


def test_session_is_no_secret_of_others(
    ask: Ask, log_in: Ask, outside: ServiceAddress, domain: Service
) -> None:
    """The cookie is bound to this site, hidden from scripts, and neither the api_key nor the forms' token."""
    domain.send(Definition("{}", text="Hello"), [PHONE], read_clock())
    cookie = log_in(outside.api_key).headers["Set-Cookie"]
    name_and_value, *attributes = cookie.split("; ")
    assert {each.lower() for each in attributes} == {"httponly", "samesite=strict", "path=/"}
    assert outside.api_key not in cookie
    token = ask("/").text.partition('name="token" value="')[2].partition('"')[0]
    assert token not in {"", name_and_value.partition("=")[2]}


@pytest.mark.parametrize("api_key", ["", "wrong", "ünwahr", "\x00"])
def test_wrong_key_opens_nothing(api_key: str, ask: Ask, log_in: Ask) -> None:
    """A wrong api_key gets no session, and the page says so."""
    answer = log_in(api_key)
    assert answer.status_code == 403
    assert "not the api_key" in answer.text
    assert "Set-Cookie" not in answer.headers
    assert ask("/").status_code == 303


@pytest.mark.parametrize("value", ["", "0" * 64, "wrong"])
def test_made_up_session_opens_nothing(value: str, ask: Ask, log_in: Ask, outside: ServiceAddress) -> None:
    """A cookie with another value than the one that the login set counts for nothing."""
    name = log_in(outside.api_key).headers["Set-Cookie"].partition("=")[0]
    assert ask("/", headers={"Cookie": f"{name}={value}"}).status_code == 303


@pytest.mark.parametrize(
    ("headers", "fields"),
    [({"Sec-Fetch-Site": "cross-site"}, {}), ({}, {"token": ""}), ({}, {"token": "wrong"})],
)
def test_other_page_logs_nobody_in(
    headers: dict[str, str], fields: dict[str, str], log_in: Ask, outside: ServiceAddress
) -> None:
    """The login takes no form of another web page, and none without its token, even with the right key."""
    answer = log_in(outside.api_key, headers=headers, **fields)
    assert answer.status_code == 403
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    "wanted", ["//example.org/", "/\\example.org", "https://example.org/", "", "/\t/x", "x"]
)
def test_login_leads_nowhere_else(wanted: str, log_in: Ask, outside: ServiceAddress) -> None:
    """What is no page of this service is not where the login leads to."""
    assert log_in(outside.api_key, next=wanted).headers["Location"] == "/"


def test_another_key_ends_sessions(db: Path, outside: ServiceAddress, ask: Ask, log_in: Ask) -> None:
    """A session lasts over restarts, and as long as the api_key that began it."""
    cookie = log_in(outside.api_key).headers["Set-Cookie"].partition(";")[0]
    host = outside.url.removeprefix("http://").rpartition(":")[0]
    assert ask("/").status_code == 200
    for api_key, status in ((outside.api_key, 200), ("another", 303)):
        with running_service(db, host=host, api_key=api_key) as again:
            headers = {"Cookie": cookie}
            answer = requests.get(again.url, headers=headers, allow_redirects=False, timeout=60)
            assert answer.status_code == status


def test_this_machine_needs_no_login(db: Path, own_address: str) -> None:
    """Whoever comes from loopback looks at a service that listens everywhere without a login."""
    with running_service(db, host="0.0.0.0") as running:  # noqa: S104  what is tested
        port = running.url.rpartition(":")[2]
        assert requests.get(f"http://127.0.0.1:{port}/", timeout=60).url.endswith(f"{port}/")
        elsewhere = requests.get(f"http://{own_address}:{port}/", timeout=60)
        assert LOGIN in elsewhere.url


def test_log_out_ends_the_session(ask: Ask, log_in: Ask, outside: ServiceAddress) -> None:
    """The button logs the browser out; a form of another page cannot, and on this machine there is none."""
    log_in(outside.api_key)
    page = ask("/").text
    token = page.partition('name="token" value="')[2].partition('"')[0]
    assert f'action="{LOGOUT}"' in page
    assert ask(LOGOUT, "POST", data={"token": "wrong"}).status_code == 403
    assert ask("/").status_code == 200
    assert ask(LOGOUT, "POST", data={"token": token}).headers["Location"] == LOGIN
    assert ask("/").status_code == 303


def test_this_machine_has_no_log_out(visit: Callable[..., Page]) -> None:
    """A page without a login shows no button to log out."""
    assert "Log out" not in visit("/").html


@pytest.fixture
def standing_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no wait of a service end: the first is a second, which a busy machine needs for the next try."""
    monkeypatch.setattr(access, "WrongKeys", partial(WrongKeys, lambda: 0.0))


@pytest.mark.usefixtures("standing_delays")
def test_wrong_keys_delay_the_next_try(log_in: Ask, outside: ServiceAddress) -> None:
    """After five wrong keys even the right one has to wait, and the page says how long."""
    answers = [log_in("wrong") for _ in range(5)]
    assert {answer.status_code for answer in answers} == {403}
    answer = log_in(outside.api_key)
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1
    assert "Too many wrong keys" in answer.text
    assert "Set-Cookie" not in answer.headers


def test_delay_doubles_for_one_address() -> None:
    """Each further wrong key doubles the delay, up to five minutes; other addresses don't wait."""
    now = 0.0
    wrong = WrongKeys(lambda: now)
    waits = []
    for _ in range(16):
        wrong.note("2001:db8::1")
        waits.append(wrong.find_wait_s("2001:db8::2"))
    assert waits == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert wrong.find_wait_s("192.0.2.1") == 0
    now = 300.0
    assert wrong.find_wait_s("2001:db8::1") == 0
    wrong.forget("2001:db8::1")
    wrong.note("2001:db8::1")
    assert wrong.find_wait_s("2001:db8::1") == 0
