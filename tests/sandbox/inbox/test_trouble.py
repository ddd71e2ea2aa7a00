"""What the inbox says when something is not there or goes wrong."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import requests

from runner.sandbox import commits
from runner.sandbox.clock import read_clock
from runner.sandbox.model import Definition, ServiceQuestion
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from runner.sandbox.web.server import running_service

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from tests.sandbox.inbox.conftest import Page

    Visit = Callable[..., Page]
    Send = Callable[..., str]

PHONE = "+14155550101"


def test_busy_database_is_a_page(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another process holds the database for too long, a page that has to write says to try again."""
    monkeypatch.setattr(commits, "PATIENCE_S", 0)
    with running_service(db) as address, closing(open_store(db)) as other:
        Service(other).send(
            Definition("{}", questions=(ServiceQuestion("Why?"),)), [PHONE], read_clock() - timedelta(days=30)
        )
        other.connection.execute("BEGIN IMMEDIATE")
        answer = requests.get(address.url, timeout=60)
        other.connection.rollback()
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "The database is locked by another process: try again once that is done" in answer.text


def test_failure_is_a_page_without_details(visit: Visit, send: Send, domain: Service) -> None:
    """A fault of the sandbox is a page too, and nothing of the exception stands there."""
    launch = send(PHONE)
    with domain.store.write() as connection:
        connection.execute("UPDATE launch SET definition = ?", ("{'+14155550199'",))
    for path in ("/", f"/launches/{launch}"):
        page = visit(path)
        assert page.status == 500
        assert "The sandbox failed" in page.text
        assert "0199" not in page.html
        assert page.headers["Content-Security-Policy"].startswith("default-src 'none';")


def test_what_is_not_there_is_said(visit: Visit) -> None:
    """A launch or phone that is not there, as after a reset, is a page with a way out."""
    for path in ("/launches/none", "/phones/none", "/phones/%00", "/launches/%F0%9F%92%A9"):
        page = visit(path)
        assert (page.status, "This is not here" in page.text) == (404, True), path
