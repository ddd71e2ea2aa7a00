"""The messages of one phone: what it received and what it sent, in order."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from runner.sandbox.clock import parse_time
from runner.sandbox.model import Kind

if TYPE_CHECKING:
    import sqlite3

_SELECT = """
SELECT transcript.id, at, kind, text, launch.guid, project_tag
FROM transcript
LEFT JOIN session ON session.id = session_id
LEFT JOIN launch ON launch.id = launch_id
WHERE transcript.participant_id = (SELECT id FROM participant WHERE phone = :phone) AND transcript.id > :after
ORDER BY transcript.id LIMIT :limit
"""


@dataclass(frozen=True, slots=True)
class PhoneMessage:
    """A text between the service and a phone.

    Attributes:
        id: its number; later messages have higher ones.
        at: the service's time, ISO 8601 with a zone.
        direction: `to_phone` or `from_phone`.
        kind: `introduction`, `text`, `question`, `repeat` (of a question, after an invalid answer),
            `conclusion`, `notice` (the answer to a command such as STOP), or `inbound`, from the phone.
        text: its words.
        project_launch_guid: the launch that it belongs to; None outside of a conversation.
        project_tag: the tag of that launch.
    """

    id: int
    at: str
    direction: str
    kind: str
    text: str = field(repr=False)
    project_launch_guid: str | None
    project_tag: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the values as JSON has them."""
        return asdict(self)


def read_messages(
    connection: sqlite3.Connection, phone: str, *, after: int, limit: int
) -> list[PhoneMessage]:
    """Return at most `limit` messages of a phone (E.164) after the one with the id `after`, in order."""
    rows = connection.execute(_SELECT, {"phone": phone, "after": after, "limit": limit})
    return [
        PhoneMessage(
            number,
            parse_time(at).isoformat(),
            "from_phone" if kind == Kind.INBOUND else "to_phone",
            kind,
            text,
            guid,
            tag,
        )
        for number, at, kind, text, guid, tag in rows
    ]
