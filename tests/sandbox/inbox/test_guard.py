"""What keeps other web pages, hostile texts and the api_key out of the inbox."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.sandbox.model import ServiceAddress
    from runner.sandbox.service import Service
    from tests.sandbox.inbox.conftest import Page

    Visit = Callable[..., Page]
    Send = Callable[..., str]
    Post = Callable[..., Page]

PHONE = "+14155550101"
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "</code></pre><h1>Hi",
    "javascript:alert(1)//&lt;b&gt;",
]


def count_inbound(domain: Service) -> int:
    query = "SELECT count(*) FROM transcript WHERE kind = 'inbound'"
    return int(domain.store.connection.execute(query).fetchone()[0])


@pytest.fixture
def pages(send: Send, path_of: Callable[[str], str]) -> list[str]:
    """Addresses of every kind of page, with something on it."""
    launch = send(PHONE, tag="drinks", questions=[{"text": "Tea?", "responses": ["Yes", "No"]}])
    return ["/", "/phones", f"/launches/{launch}", path_of(PHONE), "/phones/none"]


def test_every_answer_is_bound_to_this_service(visit: Visit, pages: list[str]) -> None:
    """Every page forbids what comes from elsewhere, guessed types and frames, and is not cached."""
    for path in pages:
        headers = visit(path).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'none';")
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        # What a phone was sent stays in no browser's cache.
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "same-origin"
        assert not [name for name in headers if name.lower().startswith("access-control")]


def test_files_of_pages_are_there(visit: Visit) -> None:
    """The files that a page names are given with their types."""
    files = visit("/").find(r'(?:href|src)="(/_sandbox/inbox/static/[^"]+)"')
    types = [visit(path).headers["Content-Type"].partition(";")[0] for path in files]
    assert types == ["image/svg+xml", "text/css", "text/javascript"]


def test_nothing_is_fetched_from_elsewhere(visit: Visit, pages: list[str]) -> None:
    """No page names an address outside of the service, and none holds a script or a style of its own."""
    for path in pages:
        page = visit(path)
        assert all(
            link.startswith(("/", "#")) or not link for link in page.find(r'(?:href|src|action)="([^"]*)"')
        )
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?! src)", page.html)


def test_api_key_is_nowhere(visit: Visit, address: ServiceAddress, pages: list[str]) -> None:
    """The api_key stands on no page, so that whoever looks over a shoulder can send nothing."""
    for path in pages:
        assert address.api_key not in visit(path).html
        assert address.api_key not in str(visit(path).headers)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_shown_as_they_are(
    text: str, visit: Visit, send: Send, domain: Service, post: Post, path_of: Callable[[str], str]
) -> None:
    """What stands in a definition, a reply or a search is text on every page, never markup."""
    question = {"text": f"{text} question", "responses": [text, "other"], "tag": text}
    launch = send(PHONE, tag=text, introduction=text, questions=[question])
    conversation = path_of(PHONE)
    assert post(conversation, text=text + " ?").status == 303
    assert count_inbound(domain) == 1
    for path in ("/", "/phones", f"/launches/{launch}", conversation):
        page = visit(path)
        assert not re.search(r"<script(?! src=\"/_)|<img|onload=alert\(1\)>(?!<)|<svg/|<h1>Hi", page.html)
        assert text in page.find(r"<main(.*)</main>")[0] or path == "/phones"


def test_form_of_another_page_is_refused(
    address: ServiceAddress, send: Send, post: Post, path_of: Callable[[str], str], domain: Service
) -> None:
    """A form that another web page sent does nothing."""
    send(PHONE)
    cases: list[tuple[dict[str, str | None], bool]] = [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, True),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "{url}"}, False),
        ({"Sec-Fetch-Site": "", "Origin": "{url}"}, False),
        ({"Sec-Fetch-Site": None, "Origin": "{url}"}, True),
        ({"Sec-Fetch-Site": None}, True),
        ({"Sec-Fetch-Site": None, "Origin": "http://127.0.0.1:1"}, False),
        ({"Sec-Fetch-Site": None, "Origin": "https://example.org"}, False),
        ({"Sec-Fetch-Site": None, "Origin": "null"}, False),
    ]
    for headers, is_taken in cases:
        before = count_inbound(domain)
        told = {name: value and value.replace("{url}", address.url) for name, value in headers.items()}
        answer = post(path_of(PHONE), headers=told, text="hello")
        assert answer.status == (303 if is_taken else 403), headers
        assert count_inbound(domain) - before == is_taken


def test_reply_is_what_the_phone_wrote(
    send: Send, post: Post, path_of: Callable[[str], str], domain: Service
) -> None:
    """A reply goes the way of every text: line breaks as phones send them, command words obeyed."""
    send(PHONE, questions=[{"text": "Why?"}])
    path = path_of(PHONE)
    assert post(path, text="one\r\ntwo").headers["Location"] == path
    post(path, text="  ")
    post(path, text="stop")
    lines = domain.store.connection.execute("SELECT text FROM transcript WHERE kind = 'inbound'").fetchall()
    assert lines == [("one\ntwo",), ("stop",)]
    (answer, opted_out) = domain.store.connection.execute(
        "SELECT answer, opted_out IS NOT NULL FROM result JOIN participant ON participant.id = participant_id"
    ).fetchone()
    assert (answer, opted_out) == ("one\ntwo", 1)
