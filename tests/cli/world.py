"""Repositories, and the sandbox of their commands, for tests of what campaigns do over time."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from runner.cli.main import run as run_command
from runner.sandbox.service import Service
from runner.sandbox.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    CheckJson = Callable[[str, str], dict[str, Any]]

ADA, BOB, CY = "+14155550101", "+14155550102", "+14155550103"
SCALE = ", ".join(f'"{point}"' for point in range(11))
NPS = f'{{tag: nps, text: "0 to 10?", responses: [{SCALE}], scale: nps}}'
ASK = f"{{id: ask, questions: [{NPS}]}}"


class Project:
    """A repository, and the sandbox of its commands, which run inside this process.

    Attributes:
        errors: what the last command wrote to standard error.
    """

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str], check: CheckJson) -> None:
        self.folder = folder
        self.check = check
        self.errors = ""
        self._capture = capture
        (folder / "campaigns").mkdir()

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command; return what it wrote to standard output."""
        found = run_command(arguments)
        out, self.errors = self._capture.readouterr()
        assert found == code, self.errors
        return out

    def reply(self, phone: str, *texts: str) -> None:
        """Have a person text the service."""
        moment = datetime.fromisoformat(json.loads(self.run("sandbox", "clock", "--format", "json"))["time"])
        with closing(open_store(self.folder / ".runner/sandbox/service.sqlite")) as store:
            for text in texts:
                Service(store).receive(phone, text, moment)

    def select(self, statement: str, *values: str) -> list[Any]:
        """Return the rows that a query finds in the service's records."""
        with closing(sqlite3.connect(self.folder / ".runner/sandbox/service.sqlite")) as connection:
            return connection.execute(statement, values).fetchall()

    def lose_ledger(self) -> None:
        """Remove the ledger, as on a new machine."""
        for file in (self.folder / ".runner").glob("ledger*"):
            file.unlink()


Kind = TypeVar("Kind", bound=Project)


class Enter(Protocol):
    """A function that makes a project of some kind, and has commands run in it."""

    def __call__(self, kind: type[Kind], /) -> Kind: ...


class World(Project):
    """A repository with one campaign."""

    def write(self, *messages: str, phones: tuple[str, ...] = (ADA,), rules: str = "") -> None:
        """Write the campaign."""
        people = ", ".join(f'{{phone: "{phone}"}}' for phone in phones)
        content = f"version: 1\nrecipients: [{people}]\nmessages:\n" + "".join(f"  - {m}\n" for m in messages)
        (self.folder / "campaigns/pulse.yaml").write_text(content + rules, encoding="utf-8")

    def apply(self) -> int:
        """Send; return how many people were texted."""
        done = self.check(self.run("apply", "--auto-approve", "--format", "json"), "apply")
        count: int = done["campaigns"][0]["recipients_sent"]
        return count

    def ask(self, *replies: tuple[str, str]) -> None:
        """Send what is due, have people reply, and read that."""
        self.apply()
        for phone, text in replies:
            self.reply(phone, text)
        self.run("reconcile")

    def plan(self, message: str = "why") -> dict[str, Any]:
        """Return the counts of a message."""
        document = self.check(self.run("plan", "--format", "json"), "plan")
        found: dict[str, Any] = next(
            one for one in document["campaigns"][0]["messages"] if one["id"] == message
        )
        return found

    def forecast(self, message: str = "why") -> tuple[int, int]:
        """Return how many people get a message later: at least, and at most."""
        coming = [one["recipients"] for one in self.plan(message)["coming"]]
        return sum(one["least"] for one in coming), sum(one["most"] for one in coming)

    def explain(self, message: str = "why") -> tuple[dict[str, int], list[str]]:
        """Return how many people have which decision on a message, and the reasons."""
        found = self.plan(message)
        names = ("already_sent", "awaiting", "not_qualified", "deferred", "open_session", "to_send")
        return {name: found[name] for name in names if found[name]}, [
            one["reason"] for one in found["reasons"]
        ]

    def pass_time(self, length: str) -> None:
        """Move the sandbox's clock."""
        self.run("sandbox", "clock", f"+{length}")

    def edit(self, statement: str, *values: str) -> None:
        """Change the service's records."""
        with closing(sqlite3.connect(self.folder / ".runner/sandbox/service.sqlite")) as connection:
            connection.execute(statement, values)
            connection.commit()

    def count_texts(self, phone: str, text: str = "Why?") -> int:
        """Return how often a person got a text."""
        query = (
            "SELECT count(*) FROM session JOIN participant ON participant.id = participant_id "
            "JOIN launch ON launch.id = launch_id WHERE phone = ? AND json_extract(definition, '$.text') = ?"
        )
        (count,) = self.query(query, phone, text)
        return int(count)

    def query(self, statement: str, *values: str) -> list[Any]:
        """Return the first column of what a query finds in the service's records."""
        return [row[0] for row in self.select(statement, *values)]
