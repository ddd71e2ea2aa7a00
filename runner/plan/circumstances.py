"""What a plan depends on besides the campaign's files and its own record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.ledger.open_sessions import OpenSession, OpenSessions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from runner.ledger.earlier import EarlierMessage
    from runner.ledger.frequency import RecentDeliveries
    from runner.ledger.opt_outs import Suppressions
    from runner.ledger.suppressions import Pause
    from runner.ledger.unread_replies import UnreadReplies
    from runner.plan.texted import TextedPeople
    from runner.timing.law import LawBook


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What else is known at the moment of planning.

    Attributes:
        now: the moment; any aware time.
        suppressions: who has opted out of everything on the target; None if nobody has.
        earlier: by message id, who got the messages that others come after.
        sessions: who has an open survey on the target, as last read; None if nobody is to be asked for it.
        recent: what was sent on the target in the time of the frequency cap; None without a cap.
        planned: the people whom campaigns before it, in the same run, will text.
        planned_at: of a saved plan, the moment for which it was made: who was not to be texted then is
            not texted now.
        law: the legal sending hours; None if the campaign does not ask for them.
        pause: a person's word that the campaign is to wait; None if there is none.
        unread: replies on the target that were not read yet; None if there can be none.
    """

    now: datetime
    suppressions: Suppressions | None = None
    earlier: Mapping[str, EarlierMessage] = field(default_factory=dict)
    sessions: OpenSessions | None = None
    recent: RecentDeliveries | None = None
    planned: Sequence[TextedPeople] = ()
    planned_at: datetime | None = None
    law: LawBook | None = None
    pause: Pause | None = None
    unread: UnreadReplies | None = None

    @property
    def has_sessions(self) -> bool:
        """Whether somebody has an open survey, or will have one before the campaign is sent."""
        return self.sessions is not None or any(one.asks_anybody for one in self.planned)

    def find_session(self, phone: str) -> OpenSession | None:
        """Return what holds a person, or will before the campaign is sent; None if nothing does.

        Args:
            phone: E.164.
        """
        found = self.sessions.find(phone) if self.sessions is not None else None
        if found is not None:
            return found
        number = int(phone[1:])
        asking = next((one.campaign for one in self.planned if one.asks(number)), None)
        return None if asking is None else OpenSession(asking, "planned")

    def count_recent(self, phone: str) -> int:
        """Return how many messages count for a person's frequency cap.

        Args:
            phone: E.164.
        """
        number = int(phone[1:])
        sent = self.recent.count(phone) if self.recent is not None else 0
        return sent + sum(one.count(number) for one in self.planned)
