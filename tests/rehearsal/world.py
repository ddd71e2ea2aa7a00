"""A campaign repository with the sandbox of its commands, and what that has really sent."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from runner.cli.main import run as run_command
from runner.sandbox.clock import Clock
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from runner.source.json_schema import load_validator
from runner.text.segment import count_segments

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SENT = ("introduction", "text", "question", "repeat", "conclusion")


@dataclass(frozen=True)
class Line:
    """A text that a person got."""

    kind: str
    text: str


@dataclass(frozen=True)
class Session:
    """What became of one message to one person."""

    message: str
    launch: int
    phone: str
    at: datetime
    lines: tuple[Line, ...]

    def count_renders(self, *, repeats: bool) -> int:
        """Return the renders that it has cost, with or without those of questions that were asked again."""
        return sum(repeats or line.kind != "repeat" for line in self.lines)

    def count_segments(self, *, repeats: bool) -> int:
        """Return the SMS segments that it has taken."""
        lines = [line for line in self.lines if repeats or line.kind != "repeat"]
        return sum(count_segments(line.text).segments for line in lines)


class World:
    """A repository with one campaign, whose commands run inside this process."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.db = folder / ".runner/sandbox/service.sqlite"
        self._capture = capture
        (folder / "campaigns").mkdir()
        self.campaign = folder / "campaigns/pulse.yaml"

    def run(self, *arguments: str) -> str:
        """Run a command; return what it wrote."""
        code = run_command(arguments)
        out, err = self._capture.readouterr()
        assert code == 0, (arguments, err)
        return out

    def plan(self) -> dict[str, Any]:
        """Return the campaign's plan."""
        document = json.loads(self.run("plan", "--format", "json"))
        load_validator("plan").validate(document)
        campaign: dict[str, Any] = document["campaigns"][0]
        return campaign

    def pass_the_half_hour(self) -> None:
        """Move the clock to the next half hour if that is near: there the hours of sending begin and end.

        So however long a plan takes, what it says of now is so when it is applied.
        """
        with closing(open_store(self.db)) as store:
            clock = Clock(store)
            left = 30 - clock.now().minute % 30
            if left <= 10:
                clock.advance(timedelta(minutes=left))

    def reply_all(self, replies: dict[str, list[str]]) -> None:
        """Have people text the service, as long as it asks them something; what they have said is taken out.

        Args:
            replies: by phone, what each is going to say.
        """
        with closing(open_store(self.db)) as store:
            service, clock = Service(store), Clock(store)
            for phone, texts in replies.items():
                while texts and self._is_asked(phone):
                    service.receive(phone, texts.pop(0), clock.now())

    def _is_asked(self, phone: str) -> bool:
        with closing(sqlite3.connect(self.db)) as connection:
            query = (
                "SELECT count(*) FROM session JOIN participant ON participant.id = participant_id "
                "WHERE phone = ? AND status = 'ACTIVE'"
            )
            return bool(connection.execute(query, (phone,)).fetchone()[0])

    def read_sessions(self) -> list[Session]:
        """Return what was sent, in the order in which the service took it."""
        if not self.db.exists():
            return []
        with closing(sqlite3.connect(self.db)) as connection:
            lines: dict[int, list[Line]] = {}
            query = "SELECT session_id, kind, text FROM transcript WHERE session_id IS NOT NULL ORDER BY id"
            for session, kind, text in connection.execute(query):
                if kind in SENT:
                    lines.setdefault(session, []).append(Line(kind, text))
            rows = connection.execute(
                "SELECT session.id, launch.project_tag, launch.id, phone, launch.started FROM session "
                "JOIN launch ON launch.id = launch_id JOIN participant ON participant.id = participant_id "
                "ORDER BY session.id"
            ).fetchall()
        return [
            Session(tag.replace("tag-", "m"), launch, phone, _read_moment(at), tuple(lines.get(session, ())))
            for session, tag, launch, phone, at in rows
        ]

    def read_transcript(self, phone: str) -> list[Line]:
        """Return all that a person got, in the order in which it came."""
        with closing(sqlite3.connect(self.db)) as connection:
            rows = connection.execute(
                "SELECT kind, text FROM transcript JOIN participant ON participant.id = participant_id "
                "WHERE phone = ? ORDER BY transcript.id",
                (phone,),
            ).fetchall()
        return [Line(kind, text) for kind, text in rows if kind in SENT]


def _read_moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
