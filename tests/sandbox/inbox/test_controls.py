"""The page of controls: clock, simulation and reset, by forms."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from runner.sandbox.clock import Clock
from runner.sandbox.rehearsal.controls import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

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
    for name in ACTIONS:
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
    press("clock", advance="reset")
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


def test_reset_needs_a_tick(press: Press, visit: Visit, send: Send) -> None:
    """All is deleted by a form whose box is ticked, and by no other."""
    send(PHONE, tag="drinks", text="Hello")
    assert press("reset").status == 400
    assert "drinks" in visit("/").text
    assert press("reset", sure="yes").status == 303
    assert "Nothing has been sent yet" in visit("/").text
