"""Live updates: what an open page is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import requests

from runner.sandbox.clock import read_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.sandbox.model import ServiceAddress
    from runner.sandbox.service import Service
    from tests.sandbox.inbox.conftest import Page

PHONE = "+14155550101"


@pytest.fixture
def follow(address: ServiceAddress) -> Iterator[Callable[..., Iterator[str]]]:
    """Open a stream as the page's script does, and give its events' ids as they come."""
    with requests.Session() as session:

        def listen(seen: str, last_event_id: str | None = None) -> Iterator[str]:
            answer = session.get(
                f"{address.url}/_sandbox/inbox/events",
                params={"seen": seen},
                headers={"Last-Event-ID": last_event_id} if last_event_id else {},
                stream=True,
                timeout=60,
            )
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            assert answer.headers["Cache-Control"] == "no-store"
            lines = answer.iter_lines(chunk_size=1, decode_unicode=True)
            assert next(lines).startswith("retry: ")
            return (line.removeprefix("id: ") for line in lines if line.startswith("id: "))

        yield listen


@pytest.fixture
def mark(visit: Callable[..., Page]) -> Callable[[], str]:
    """Give the state that a page of now shows."""
    return lambda: visit("/").find('data-seen="([^"]+)"')[0]


def test_page_is_told_of_a_send(
    follow: Callable[..., Iterator[str]], mark: Callable[[], str], send: Callable[..., str]
) -> None:
    """A send wakes the pages that are open, and the event's id is what a page of then shows."""
    events = follow(mark())
    send(PHONE)
    assert next(events) == mark()


def test_page_is_told_of_what_other_processes_write(
    follow: Callable[..., Iterator[str]], mark: Callable[[], str], domain: Service
) -> None:
    """What another process writes to the same file wakes the pages too."""
    events = follow(mark())
    domain.receive(PHONE, "hello", read_clock())
    assert next(events) == mark()


@pytest.mark.parametrize("seen", ["", "0123abcd-0", "nonsense", "-", "0123abcd-" + "9" * 5000])
def test_page_of_another_run_is_told_at_once(seen: str, follow: Callable[..., Iterator[str]]) -> None:
    """A page that was made before the service restarted learns at once that it is out of date."""
    assert next(follow(seen))


def test_nothing_is_missed_between_page_and_stream(
    follow: Callable[..., Iterator[str]], mark: Callable[[], str], send: Callable[..., str]
) -> None:
    """A change after the page was made, or while its stream was away, is told when the stream opens."""
    before = mark()
    send(PHONE)
    event = next(follow(before))
    assert event == next(follow("", last_event_id=before)) == mark()
