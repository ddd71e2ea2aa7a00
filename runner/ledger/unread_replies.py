"""Replies that nobody has read yet: somebody may have opted out in one of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import and_, func, or_, select

from runner.ledger.differences import read_answers
from runner.ledger.moment import format_moment
from runner.ledger.tables import campaigns, launch_stats, launches

if TYPE_CHECKING:
    from datetime import timedelta

    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class UnreadReplies:
    """Replies on a target that may have come since they were last read.

    Attributes:
        campaign: the name of the campaign that has waited longest.
        since: when its replies were last read, or when it was sent if they never were.
    """

    campaign: str
    since: datetime

    @classmethod
    def from_json(cls, data: dict[str, str]) -> UnreadReplies:
        """Return what `as_json` gives."""
        return cls(data["campaign"], datetime.fromisoformat(data["since"]))

    def as_json(self) -> dict[str, str]:
        """Return it as documents have it."""
        return {"campaign": self.campaign, "since": format_moment(self.since)}

    @property
    def reason(self) -> str:
        """The reason for which people wait."""
        return f"{self.describe()}: run `runner reconcile` first"

    def describe(self) -> str:
        """Return in words which replies these are."""
        since = f"{self.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        return f"replies to {self.campaign} are unread since {since}"

    def is_overdue(self, now: datetime, within: timedelta) -> bool:
        """Return whether texts have to wait.

        Args:
            now: any aware time.
            within: how long replies may be unread.
        """
        return now - self.since > within


def find_unread_replies(connection: Connection, target: str) -> UnreadReplies | None:
    """Return the replies that are unread for longest; None if there can be none.

    A plain text gets no replies that could be read, and neither does a survey that has ended for everybody. A
    launch that the service does not list was looked for in vain: it has nothing to read, either.

    Args:
        connection: reads the ledger, which may be of an older version.
        target: the target's name.
    """
    stats, read = launch_stats.c, read_answers(connection)
    differs = read.differs.element
    # Of launches that other machines have sent it is not known here what they asked.
    may_ask = or_(launches.c.definition.is_(None), launches.c.definition.contains('"questions":'))
    has_ended = and_(stats.num_active_sessions == 0, stats.num_queued_sessions == 0, ~differs)
    is_unread = or_(
        and_(stats.launch_id.is_(None), ~differs),
        and_(stats.launch_id.is_not(None), func.coalesce(has_ended, False).is_(False)),
    )
    since = func.coalesce(stats.reconciled_at, launches.c.outcome_at, launches.c.intent_at)
    query = (
        select(campaigns.c.name, since.label("since"))
        .select_from(read.join(launches).join(campaigns, campaigns.c.id == launches.c.campaign_id))
        .where(campaigns.c.target == target, launches.c.state == "sent", may_ask, is_unread)
        .order_by(since)
        .limit(1)
    )
    row = connection.execute(query).first()
    return None if row is None else UnreadReplies(row.name, datetime.fromisoformat(row.since))
