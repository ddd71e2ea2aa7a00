"""The page of launches: groups by tag, and filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.sandbox.clock import Clock
from runner.sandbox.inbox import views

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from runner.sandbox.service import Service
    from tests.sandbox.inbox.conftest import Page

    Visit = Callable[..., Page]
    Send = Callable[..., str]

PHONE, OTHER, THIRD = "+14155550101", "+14155550102", "+14155550103"
CHOICE = {"text": "Tea or coffee?", "responses": ["Tea", "Coffee"]}
HEADINGS = r'<h2 class=""><a href="[^"]*">(?:<bdi>|<span[^>]*>)([^<]+)'
LAUNCHES = r'<h[23] class="[a-z]*"><a href="/launches/([^"]+)"'


def test_launches_of_a_tag_are_one_group(visit: Visit, send: Send, domain: Service) -> None:
    """A tag is one group with the sums of its launches and its newest ones; the rest is behind a link."""
    sent = [send(f"+1415555{number:04d}", tag="drinks", text=f"Hi {number}") for number in range(101, 106)]
    send(PHONE, tag="food", text="Hello")
    domain.receive(PHONE, "1", Clock(domain.store).now())
    page = visit("/")
    assert page.find(HEADINGS) == ["food", "drinks"]
    assert "drinks 5 phones 5 of 5 complete" in page.text
    assert page.find(LAUNCHES)[1:] == sent[:1:-1]
    (rest,) = page.find(r'href="([^"]+)">All 5 launches')
    group = visit(rest)
    assert group.find(LAUNCHES) == sent[::-1]
    assert group.find(r"<title>([^<]+)") == ["drinks · Sandbox inbox"]
    assert group.find(HEADINGS.replace('""', '"message"'))[0] == "Hi 105"


def test_groups_are_paged(visit: Visit, send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page by page, each tag comes once, the newest first, also without a tag."""
    monkeypatch.setattr(views, "GROUPS_A_PAGE", 2)
    for tag in ("one", "two", "three", "one", ""):
        send(PHONE, tag=tag, text="Hello")
    found, path = [], "/"
    while path:
        page = visit(path)
        found += page.find(HEADINGS)
        path = next(iter(page.find(r'href="([^"]+)">Older launches')), "")
    assert found == ["No tag", "one", "three", "two"]
