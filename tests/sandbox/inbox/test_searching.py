"""The search of the inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.sandbox.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.sandbox.service import Service
    from tests.sandbox.inbox.conftest import Page

    Visit = Callable[..., Page]
    Send = Callable[..., str]

PHONE, OTHER = "+14155550101", "+14155550102"


def test_search_finds_phones_by_digits(visit: Visit, send: Send) -> None:
    """Digits in a row find phones, however they are written."""
    send(PHONE, OTHER)
    found = r'class="number">(\+\d+)'
    main = "".join(visit("/search?q=(415) 555-01").find(r"<main(.*)</main>"))
    assert PHONE in main
    assert OTHER in main
    assert visit("/search?q=0102").find(rf"<main.*?{found}") == [OTHER]
    assert "Nothing found" in visit("/search?q=99999").text


def test_search_finds_texts(visit: Visit, send: Send, domain: Service) -> None:
    """Parts of a text find the line, sent or replied; what SQL would take as a pattern is taken as it is."""
    send(PHONE, text="100% Wolle")
    send(OTHER, text="100 Wolle_")
    domain.receive(OTHER, "Back\\slash", Clock(domain.store).now())
    number = r'class="hit".*?class="number">(\+\d+)'
    assert visit("/search?q=wolle").find(number) == [OTHER, PHONE]
    assert visit("/search?q=100%25 w").find(number) == [PHONE]
    assert visit("/search?q=wolle_").find(number) == [OTHER]
    assert visit("/search?q=k%5Cs").find(number) == [OTHER]


def test_search_finds_launches(visit: Visit, send: Send) -> None:
    """A part of a launch's tag finds it, and so does its whole guid; patterns are taken as they are."""
    drinks, sums = send(PHONE, tag="Hot drinks 2026", text="Hello"), send(PHONE, tag="100%", text="Hello")
    found = r'class="hit" href="/launches/([^"]+)"'
    assert visit("/search?q=DRINKS").find(found) == [drinks]
    assert visit("/search?q=0%25").find(found) == [sums]
    assert visit(f"/search?q={drinks.upper()}").find(found) == [drinks]
    assert visit("/search?q=_").find(found) == []


def test_search_marks_what_it_found(visit: Visit, send: Send) -> None:
    """Each place that matches is marked, in the tag and in the text, of which the part around it is shown."""
    send(PHONE, tag="Tea <time>", text="x" * 500 + " tea & TEA <b>")
    page = visit("/search?q=tea")
    assert page.find(r"<mark>(.*?)</mark>") == ["Tea", "tea", "TEA"]
    assert "<mark>Tea</mark> &lt;time&gt;" in page.html
    assert "…xxx" in page.text
    assert "<mark>TEA</mark> &lt;b&gt;" in page.html
    assert visit("/search?q=%26").find(r"<mark>(.*?)</mark>") == ["&"]


def test_search_folds_the_same_text(visit: Visit, send: Send, domain: Service) -> None:
    """What many phones were sent is one hit that counts them; what one of them wrote is another."""
    third = "+14155550103"
    send(PHONE, OTHER, third, text="Tea time")
    domain.receive(PHONE, "Tea time", Clock(domain.store).now())
    page = visit("/search?q=tea")
    assert page.find(r'class="hit".*?class="number">(\+\d+)') == [PHONE, third]
    assert page.text.count("and 2 more phones") == 1


def test_search_shows_the_newest(visit: Visit, send_many: Callable[[int], None]) -> None:
    """Of many hits the newest 25 are shown, and the page says how to find older ones."""
    send_many(30)
    page = visit("/search?q=Text")
    found = page.find(r'class="hit".*?Text</mark> (\d+)\.')
    assert [int(number) for number in found] == list(range(30, 5, -1))
    assert "These are the newest" in page.text
