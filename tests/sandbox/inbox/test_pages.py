"""The pages of the inbox: what they show of the service's state."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import requests

from runner.sandbox.clock import Clock
from runner.sandbox.inbox import views
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


def test_launch_shows_its_request(visit: Visit, send: Send) -> None:
    """Behind a launch stands the body of its send, with the first of its phones, and its sessions."""
    numbers = [f"+1415555{each:04d}" for each in range(101, 161)]
    page = visit(f"/launches/{send(*numbers, tag='drinks', questions=[CHOICE], extra={'kept': True})}")
    (body,) = page.find(r"<pre.*?<code>(.*?)</code>")
    assert '"responses": [\n        "Tea"' in body
    assert '"kept": true' in body
    assert numbers[2] in body
    assert numbers[3] not in body
    assert "the first 3 of 60 phones" in page.text
    assert page.html.count("<tr") == 51
    (rest,) = page.find(r'href="([^"]+)">More sessions')
    assert visit(rest).html.count("<tr") == 11


def test_launch_shows_undeliverable_webhooks(visit: Visit, send: Send) -> None:
    """A launch whose webhooks have no scheme says so, in the list and with their addresses; others say nothing."""
    address = "my.webhook/listens/<here>"
    good = {**CHOICE, "webhook": "http://127.0.0.1:9/hook"}
    launch = send(PHONE, tag="odd", questions=[{**CHOICE, "webhook": address}] * 2 + [good])
    assert "undeliverable webhook" in visit("/").text
    page = visit(f"/launches/{launch}")
    assert page.find(r"<li><code>(.*?)</code></li>") == [address]
    assert (
        "Undeliverable webhooks Nothing is sent to an address without a scheme. Write http:// or https:// before it. "
        + address
    ) in page.text
    assert "ndeliverable" not in visit(f"/launches/{send(OTHER, questions=[good])}").text


def test_conversation_shows_bubbles_with_badges(
    send: Send, domain: Service, open_phone: Callable[[str], Page]
) -> None:
    """Each line shows what it is, its segments and its render; what the phone wrote costs nothing."""
    send(PHONE, introduction="Здравствуйте!" * 6, questions=[CHOICE], conclusion="Thanks!")
    now = Clock(domain.store).now()
    domain.receive(PHONE, "maybe", now)
    domain.receive(PHONE, "Tea", now)
    text = open_phone(PHONE).text
    assert "Introduction 2 segments UCS-2 1 render" in text
    assert "The service sent: Tea or coffee? 1. Tea 2. Coffee Question 1 segment 1 render" in text
    assert "Asked again 1 segment 1 render" in text
    assert "Conclusion 1 segment 1 render" in text
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


def test_unread_messages_are_marked_until_they_are_seen(
    visit: Visit, send: Send, open_phone: Callable[[str], Page]
) -> None:
    """A phone shows how many messages nobody has looked at; to open it is to look at them."""
    unread = r'class="unread">(\d+)'
    send(PHONE, introduction="Hi", questions=[CHOICE])
    assert visit("/").find(unread) == ["2"]
    assert open_phone(PHONE).find(unread) == []
    assert visit("/").find(unread) == []
    send(PHONE, text="More", complete_existing_sessions=True)
    assert visit("/").find(unread) == ["1"]


def test_all_phones_can_be_marked_as_read(visit: Visit, send: Send, post: Callable[..., Page]) -> None:
    """One button takes all unread marks away; what comes later is unread again."""
    send(PHONE, OTHER)
    assert post("/_sandbox/inbox/seen").status == 303
    assert 'class="unread"' not in visit("/").html
    send(PHONE)
    assert visit("/").find(r'class="unread">(\d+)') == ["1"]


def test_other_page_cannot_mark_as_read(visit: Visit, send: Send, path_of: Callable[[str], str]) -> None:
    """A conversation that another web page embeds or fetches stays unread."""
    send(PHONE)
    visit(path_of(PHONE), Sec_Fetch_Site="cross-site")
    assert 'class="unread"' in visit("/").html


def test_newest_phone_comes_first(visit: Visit, send: Send, domain: Service) -> None:
    """Phones are ordered by their last line, whoever wrote it."""
    send(PHONE)
    send(OTHER)
    numbers = r'class="number">(\+\d+)'
    assert visit("/phones").find(numbers) == [OTHER, PHONE]
    domain.receive(PHONE, "hello?", Clock(domain.store).now())
    assert visit("/phones").find(numbers) == [PHONE, OTHER]


@pytest.mark.parametrize("few", [4000, 10], ids=["few phones", "many phones"])
def test_lists_are_paged(
    few: int, visit: Visit, send_many: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page, every launch and every phone comes once, newest first."""
    monkeypatch.setattr(views, "_FEW", few)
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


def test_unknown_page_is_a_page_for_people_alone(visit: Visit, address: ServiceAddress) -> None:
    """A browser gets a page where there is none; programs, and paths of the API, get the error document."""
    page = visit("/nothing/here", Accept="text/html,*/*;q=0.8")
    assert page.status == 404
    assert "There is no such page" in page.text
    for path, accept in (
        ("/nothing", "*/*"),
        ("/api/nothing", "text/html"),
        ("/_sandbox/nothing", "text/html"),
    ):
        answer = requests.get(address.url + path, headers={"Accept": accept}, timeout=60)
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "not_found"
    assert (
        requests.get(f"{address.url}/api/send", headers={"Accept": "text/html"}, timeout=60).status_code
        == 405
    )


def test_launch_shows_definition_and_forecast(visit: Visit, send: Send, domain: Service) -> None:
    """The page of a launch has its texts as phones show them, and what it can still send until when."""
    send(OTHER, questions=[CHOICE])
    launch = send(
        PHONE, OTHER, "+14155550103", introduction="Hi", questions=[CHOICE, SCALE], conclusion="Bye"
    )
    domain.receive(PHONE, "1", Clock(domain.store).now())
    text = visit(f"/launches/{launch}").text
    assert "Introduction · 1 segment Hi Question · 1 segment Tea or coffee? 1. Tea 2. Coffee" in text
    assert "How likely? Reply 0-10 Conclusion · 1 segment Bye" in text
    # One is at the second question, one at the first, and one has not begun.
    assert "Up to 7 renders more" in text
    assert "4 renders and 4 segments for each phone" in text
    assert "Without an answer the last active session ends on" in text
    done = send("+14155550104", text="Hello")
    assert "Every session is complete: nothing more is sent." in visit(f"/launches/{done}").text
