"""The page of controls: clock, simulation, faults and snapshots, by forms."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import requests

from runner.sandbox.clock import Clock
from runner.sandbox.rehearsal.controls import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.sandbox.model import ServiceAddress
    from runner.sandbox.service import Service
    from tests.sandbox.inbox.conftest import Page

    Visit = Callable[..., Page]
    Send = Callable[..., str]
    Press = Callable[..., Page]

PHONE, OTHER = "+14155550101", "+14155550102"
CHOICE = {"text": "Tea or coffee?", "responses": ["Tea", "Coffee"]}


@pytest.fixture
def press(post: Callable[..., Page]) -> Press:
    """Send a form of the controls; two underscores stand for a dot in a field's name."""

    def send(form: str, /, **fields: str) -> Page:
        return post(
            f"/_sandbox/inbox/{form}", **{key.replace("__", "."): value for key, value in fields.items()}
        )

    return send


def test_forms_of_other_pages_do_nothing(post: Callable[..., Page]) -> None:
    """A form of the controls that another page sent is refused."""
    for name in (*ACTIONS, "seen"):
        assert post(f"/_sandbox/inbox/{name}", headers={"Sec-Fetch-Site": "cross-site"}).status == 403, name


def test_clock_is_moved(press: Press, visit: Visit, domain: Service) -> None:
    """Buttons move the clock by an hour, a day, or to the next morning; a field by any length."""
    clock = Clock(domain.store)
    assert press("clock", advance="1h").headers["Location"] == "/controls"
    assert clock.offset() == timedelta(hours=1)
    press("clock", advance="1d")
    press("clock", advance=" 2d ")
    assert clock.offset() == timedelta(days=3, hours=1)
    before = clock.now()
    press("clock", advance="09:00")
    now = clock.now()
    assert (now.hour, now.minute) == (9, 0)
    assert timedelta() < now - before <= timedelta(days=1, minutes=1)
    assert ", 09:00 UTC" in visit("/controls").text
    press("clock", reset="true")
    assert clock.offset() == timedelta()


def test_impossible_move_is_explained(press: Press, domain: Service) -> None:
    """A move that the clock cannot make is answered with a page that says why, and nothing moves."""
    for move in ("", "-1h", "soon", "200w400w", "9999999999d"):
        answer = press("clock", advance=move)
        assert (answer.status, "That was not done" in answer.text) == (400, True), move
        assert Clock(domain.store).offset() == timedelta()


def test_people_are_simulated(press: Press, visit: Visit, send: Send) -> None:
    """Simulated people answer what is open, and the page says what they did."""
    send(PHONE, OTHER, questions=[CHOICE])
    assert press("simulate", response_rate="1", quit_rate="", seed="3").status == 303
    assert "2 participants were being asked: 2 answered, 0 said nothing." in visit("/controls").text
    assert "2 of 2 complete" in visit("/").text


def test_faults_are_set_and_ended(press: Press, visit: Visit, address: ServiceAddress) -> None:
    """Faults hit requests until the form is sent without them."""
    credentials = {"username": address.username, "api_key": address.api_key}
    body = {"phone": [PHONE], "text": "Hello"}
    press("faults", rates__503="1", latency="1ms")
    page = visit("/controls")
    assert "Faults are on" in page.text
    assert page.find(r'name="rates.503"[^>]*value="([^"]+)"') == ["1"]
    sent = requests.post(f"{address.url}/api/send", params=credentials, json=body, timeout=60)
    assert sent.status_code == 503
    press("faults")
    assert "No faults are on; 1 fault so far." in visit("/controls").text
    assert requests.post(f"{address.url}/api/send", params=credentials, json=body, timeout=60).ok
    assert press("faults", rates__503="0.6", rates__drop="0.6").status == 400


def test_snapshot_is_restored(press: Press, visit: Visit, send: Send) -> None:
    """A snapshot is taken and offered by its name; going back to it, or to the start, needs a tick."""
    send(PHONE, tag="drinks", text="Hello")
    assert press("snapshot", name="before").status == 303
    send(OTHER, tag="later", text="Hello")
    assert press("reset", to="before").status == 400
    assert "later" in visit("/").text
    assert "<option>before</option>" in visit("/controls").html
    assert press("reset", to="before", sure="yes").status == 303
    assert "later" not in visit("/").text
    assert "drinks" in visit("/").text
    assert press("reset", to="", sure="yes").status == 303
    assert "Nothing has been sent yet" in visit("/").text


def test_snapshot_needs_a_plain_name(press: Press) -> None:
    """A snapshot's name is no path."""
    for name in ["../x", "", "a b", "x" * 65]:
        assert press("snapshot", name=name).status == 400, name


@pytest.fixture
def failed(domain: Service, send: Send) -> None:
    """A service with one webhook that has failed, and one whose address cannot be called."""
    addresses = ("http://hooks.example.com/taste?key=s3cret", "hooks.example.com")
    for phone, webhook in zip((PHONE, OTHER), addresses, strict=True):
        send(phone, tag="<b>drinks</b>", questions=[{**CHOICE, "tag": "taste", "webhook": webhook}])
        domain.receive(phone, "Tea", Clock(domain.store).now())
    with domain.store.write() as connection:
        # The service may be trying it: what it finds out then counts no more.
        problem = "UPDATE webhook SET state = 'FAILED', tries = 7, problem = 'answered with status 500'"
        connection.execute(f"{problem} WHERE receiver <> ''")


@pytest.mark.usefixtures("failed")
def test_webhooks_are_shown_and_sent_again(press: Press, visit: Visit) -> None:
    """The page of webhooks shows receiver, state and last problem of each, and sends one or all failed ones again."""
    assert "Webhooks : 1 failed, 1 undeliverable" in visit("/controls").text
    page = visit("/webhooks")
    assert (
        "taste in <b>drinks</b> failed hooks.example.com · 7 tries · answered with status 500 Send again"
        in page.text
    )
    assert "s3cret" not in page.html
    assert "undeliverable" in visit("/webhooks?state=UNDELIVERABLE").text
    assert "answered with" not in visit("/webhooks?state=UNDELIVERABLE").text
    assert (
        press("webhooks/resend", id=page.find(r'name="id" value="(\d+)"')[0]).headers["Location"]
        == "/webhooks"
    )
    assert "1 webhook will be sent again." in visit("/webhooks").text
    assert press("webhooks/resend", state="FAILED").headers["Location"] == "/webhooks"
    press("clock", advance="1h")
    assert "0 webhooks will be sent again." in visit("/webhooks").text
    assert press("webhooks/resend", id="99").status == 404


def test_without_webhooks_the_page_says_how_to_have_them(visit: Visit) -> None:
    """Without a webhook the page says what makes one."""
    assert "a question with webhook has each of its answers sent" in visit("/webhooks").text
