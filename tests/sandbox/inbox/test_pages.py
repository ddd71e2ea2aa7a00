"""The pages of the inbox: what they show of the service's state."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import requests

from runner.sandbox.clock import Clock
from runner.sandbox.web.server import running_service

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.sandbox.model import ServiceAddress
    from runner.sandbox.service import Service
    from tests.sandbox.inbox.conftest import Page

    Visit = Callable[..., Page]
    Send = Callable[..., str]

PHONE, OTHER = "+14155550101", "+14155550102"
CHOICE = {"text": "Tea or coffee?", "responses": ["Tea", "Coffee"]}
SCALE = {"text": "How likely?", "responses": [str(step) for step in range(11)]}


def test_empty_inbox_says_what_to_do(visit: Visit, address: ServiceAddress) -> None:
    """An inbox with nothing in it shows how to send something, by campaign and by hand."""
    page = visit("/")
    assert "runner apply" in page.text
    assert f"curl '{address.url}/api/send?username=sandbox&api_key=API_KEY'" in page.text
    assert "each phone that is texted shows up here" in visit("/phones").text


def test_launch_shows_its_progress(visit: Visit, send: Send, domain: Service) -> None:
    """A launch shows how many sessions are complete, active and queued, its results and its renders."""
    first = send(PHONE, OTHER, tag="drinks", questions=[CHOICE])
    send(PHONE, tag="later", text="Later")
    domain.receive(OTHER, "1", Clock(domain.store).now())
    page = visit("/")
    assert "drinks" in page.text
    assert "2 phones 1 of 2 complete, 1 active 1 result" in page.text
    assert "later" in page.text
    assert f"{PHONE} 0 of 1 complete, 1 queued 0 results" in page.text
    assert "1 complete 1 active 0 queued 1 result · 2 renders" in visit(f"/launches/{first}").text


def test_session_that_is_due_is_shown_as_expired(
    send: Send, domain: Service, open_phone: Callable[[str], Page]
) -> None:
    """Whoever opens a page sees what has expired, and what began then, though nobody asked the API since."""
    send(PHONE, questions=[CHOICE])
    send(PHONE, text="Later")
    Clock(domain.store).advance(timedelta(days=8))
    page = open_phone(PHONE)
    assert "complete, expired" in page.text
    assert "Later" in page.text
    assert "nothing is asked" in page.text


def test_conversation_shows_bubbles_with_badges(
    send: Send, domain: Service, open_phone: Callable[[str], Page]
) -> None:
    """Each line shows what it is and its render; what the phone wrote costs nothing."""
    send(PHONE, introduction="Здравствуйте!" * 6, questions=[CHOICE], conclusion="Thanks!")
    now = Clock(domain.store).now()
    domain.receive(PHONE, "maybe", now)
    domain.receive(PHONE, "Tea", now)
    text = open_phone(PHONE).text
    assert "Introduction 1 render" in text
    assert "The service sent: Tea or coffee? 1. Tea 2. Coffee Question 1 render" in text
    assert "Asked again 1 render" in text
    assert "Conclusion 1 render" in text
    assert "The phone wrote: maybe" in text


def test_choices_can_be_tapped(send: Send, open_phone: Callable[[str], Page]) -> None:
    """A multiple-choice question offers a numbered button for each response; a scale, one for each number."""
    send(PHONE, questions=[CHOICE])
    send(OTHER, questions=[SCALE])
    taps = r'<button name="text" value="([^"]+)">[^<]*<(?:span class="digit"|bdi)'
    page = open_phone(PHONE)
    assert page.find(taps) == ["1", "2"]
    assert page.find(r"<bdi>(Tea|Coffee)</bdi>") == ["Tea", "Coffee"]
    assert page.find(r'class="digit">(\d+)<') == ["1", "2"]
    scale = open_phone(OTHER)
    assert scale.find(taps) == SCALE["responses"]
    assert scale.find(r'class="digit">(\d+)<') == []


def test_tapped_choice_is_no_command(
    visit: Visit, send: Send, post: Callable[..., Page], path_of: Callable[[str], str], domain: Service
) -> None:
    """A tap on a choice that is called as a command word answers, and opts nobody out."""
    send(PHONE, questions=[{"text": "And then?", "responses": ["Go on", "stop"]}])
    path = path_of(PHONE)
    (reply,) = visit(path).find(r'name="text" value="([^"]+)">[^<]*<span class="digit">2<')
    assert post(path, text=reply).status == 303
    query = "SELECT response, opted_out FROM result JOIN participant ON participant.id = participant_id"
    assert domain.store.connection.execute(query).fetchall() == [("stop", None)]


def test_newest_phone_comes_first(visit: Visit, send: Send, domain: Service) -> None:
    """Phones are ordered by their last line, whoever wrote it."""
    send(PHONE)
    send(OTHER)
    numbers = r'class="number">(\+\d+)'
    assert visit("/phones").find(numbers) == [OTHER, PHONE]
    domain.receive(PHONE, "hello?", Clock(domain.store).now())
    assert visit("/phones").find(numbers) == [PHONE, OTHER]


def test_lists_are_paged(visit: Visit, send_many: Callable[[int], None]) -> None:
    """Page by page, every launch and every phone comes once, newest first."""
    send_many(70)
    for start, pattern, link in (
        ("/phones", r'class="number">\+1415556(\d+)', r'href="([^"]+)">Older phones'),
        ("/?group=", r'<span dir="auto">Text (\d+)\.</span>', r'href="([^"]+)">Older launches'),
    ):
        found, path = [], start
        while path:
            page = visit(path)
            found += [int(number) for number in page.find(pattern)]
            path = next(iter(page.find(link)), "")
        assert found == list(range(70, 0, -1))


def test_long_conversation_is_paged(visit: Visit, domain: Service, path_of: Callable[[str], str]) -> None:
    """The newest hundred lines are shown first, and the earlier ones behind a link."""
    now = Clock(domain.store).now()
    for number in range(120):
        domain.receive(PHONE, f"Line {number}.", now)
    page = visit(path_of(PHONE))
    lines = r'class="text" dir="auto">Line (\d+)\.'
    assert page.find(lines) == [str(number) for number in range(20, 120)]
    (earlier,) = page.find(r'href="([^"]+)">Earlier messages')
    assert visit(earlier).find(lines) == [str(number) for number in range(20)]


def test_used_up_plan_and_moved_clock_are_shown(db: Path, domain: Service) -> None:
    """The top of a page shows what the plan has left and how far the service's clock is ahead."""
    Clock(domain.store).advance(timedelta(days=2))
    with running_service(db, plan_renders=0) as address:
        page = requests.get(address.url, timeout=60).text
    assert "Used up: 0 of 0" in page
    assert "2d ahead" in page


def test_unknown_page_is_not_found(address: ServiceAddress) -> None:
    """Whoever asks for a page that is not there gets the error document."""
    for path in ("/nothing", "/api/nothing", "/_sandbox/nothing"):
        answer = requests.get(address.url + path, headers={"Accept": "text/html"}, timeout=60)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
