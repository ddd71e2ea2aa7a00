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


def test_how_a_launch_reaches_people_stands_at_its_message_alone(visit: Visit, send: Send) -> None:
    """A tag's messages may go by voice and as texts, so the tag itself says neither."""
    send(PHONE, tag="drinks", text="Tea?")
    send(OTHER, tag="drinks", text="Coffee?", method="VOICE")
    (row,) = visit("/").find(r'(?s)<h2 class="">(.*?)<h3')
    assert "VOICE" not in row
    assert visit("/").text.count("VOICE") == 1


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


def test_filters_leave_what_fits(visit: Visit, send: Send, domain: Service) -> None:
    """Tag, state, answers and opt-outs limit the launches, and a launch's sessions, alone and together."""
    done = send(PHONE, tag="Size", questions=[CHOICE])
    domain.receive(PHONE, "1", Clock(domain.store).now())
    left = send(OTHER, THIRD, tag="drinks", questions=[CHOICE])
    domain.receive(OTHER, "STOP", Clock(domain.store).now())
    later = send(THIRD, tag="drinks", text="later")
    for query, expected in {
        "tag=SIZ": [done],
        "tag=rink": [later, left],
        "group=drinks": [later, left],
        "group=drink": [],
        "group=": [],
        "state=complete": [done],
        "state=active": [left],
        "state=queued": [later],
        "answered=yes": [done],
        "answered=no": [later, left],
        "opted_out=yes": [left],
        "opted_out=no": [later, done],
        "answered=no&opted_out=no": [later],
        "tag=none": [],
    }.items():
        assert visit(f"/?{query}").find(LAUNCHES) == expected, query
    assert visit("/?state=nonsense").find(HEADINGS) == ["drinks", "Size"]
    assert "No launch fits this filter." in visit("/?tag=none").text
    sessions = r'<td><a href="[^"]+">([^<]+)'
    for query, numbers in {
        "state=active": [THIRD],
        "state=complete": [OTHER],
        "opted_out=yes": [OTHER],
        "opted_out=no": [THIRD],
        "answered=yes": [],
    }.items():
        assert visit(f"/launches/{left}?{query}").find(sessions) == numbers, query
    assert visit(f"/launches/{done}?answered=yes").find(sessions) == [PHONE]


def test_filter_stays_on_the_next_page(visit: Visit, send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link to older launches keeps the filter, whatever the tag is made of."""
    monkeypatch.setattr("runner.sandbox.inbox.views.list_launches.__defaults__", ("TRUE", (), None, 1))
    sent = [send(PHONE, tag="a&b=c <d>", text="Hello") for _ in range(2)]
    send(PHONE, tag="other", text="Hello")
    page = visit("/?group=a%26b%3Dc%20%3Cd%3E")
    (rest,) = page.find(r'href="([^"]+)">Older launches')
    assert [*page.find(LAUNCHES), *visit(rest).find(LAUNCHES)] == sent[::-1]


def test_whole_list_stays_in_its_group(visit: Visit, send: Send) -> None:
    """A filter within a tag is lifted without leaving that tag, which alone is no filter."""
    send(PHONE, tag="a&b", text="Hello")
    assert visit("/?group=a%26b&state=complete").find(r'href="([^"]+)">Show all<') == ["/?group=a%26b"]
    assert visit("/?group=a%26b").find(r">(Show all)<") == []
    assert visit("/?tag=a").find(r'href="([^"]+)">Show all<') == ["/"]
