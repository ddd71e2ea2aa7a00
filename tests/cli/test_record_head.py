"""Commands that need no more of a record than its head: a campaign of millions takes them no memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Engine, event

from runner.cli.main import run as run_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CAMPAIGN = """\
version: 1
name: pulse
tag: pulse-2026
recipients:
  - phone: "+14155550100"
  - phone: "+14155550101"
messages:
  - id: ask
    text: Hello?
"""


@contextmanager
def watch_statements(observe: Callable[[str], object]) -> Iterator[None]:
    """Tell of each statement before a ledger runs it, while the block lasts."""

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        observe(" ".join(statement.split()))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def reads_everybody(statement: str) -> bool:
    """Return whether a statement returns whom a campaign's messages went to."""
    columns = "message", "fingerprint", "occasion"
    listed = ", ".join(f"deliveries.{name}" for name in columns)
    return statement.startswith(f"SELECT {listed}, launches.state FROM")


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose campaign was sent to the embedded sandbox; returns its lockfile."""
    monkeypatch.chdir(tmp_path)
    campaign = tmp_path / "campaigns/pulse.yaml"
    campaign.parent.mkdir()
    campaign.write_text(CAMPAIGN, encoding="utf-8")
    assert run_command(["apply", "--auto-approve", "--quiet"]) == 0
    return campaign.with_name("pulse.sandbox.lock.json")


@pytest.mark.parametrize(
    ("command", "is_read"),
    [("plan", True), ("reconcile", False), ("report", False), ("report --reconcile", False)],
)
@pytest.mark.usefixtures("sent")
def test_only_who_plans_asks_who_was_texted(command: str, *, is_read: bool) -> None:
    """To reconcile and to report takes the campaign's number and its key."""
    statements: list[str] = []
    with watch_statements(statements.append):
        assert run_command([*command.split(), "--quiet"]) == 0
    assert any(map(reads_everybody, statements)) == is_read


def test_a_lockfile_that_changes_meanwhile_is_entered_without_that(sent: Path) -> None:
    """What git brings while the service is asked is in the ledger before the file is written anew."""
    text = sent.read_text(encoding="utf-8")
    statements: list[str] = []

    def replace_once(statement: str) -> None:
        if "INSERT INTO launch_stats" in statement:
            sent.unlink()
            sent.write_text(text, encoding="utf-8")
        statements.append(statement)

    with watch_statements(replace_once):
        assert run_command(["reconcile", "--quiet"]) == 0
    stored = next(number for number, one in enumerate(statements) if "INSERT INTO launch_stats" in one)
    assert any("FROM campaigns" in one for one in statements[stored:])
    assert not any(map(reads_everybody, statements))
    assert sent.read_text(encoding="utf-8") == text
