"""What a plan depends on besides the campaign's files and its own record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from runner.ledger.earlier import EarlierMessage
    from runner.ledger.frequency import RecentDeliveries
    from runner.ledger.open_sessions import OpenSessions
    from runner.ledger.opt_outs import Suppressions
    from runner.ledger.suppressions import Pause
    from runner.ledger.unread_replies import UnreadReplies
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
        planned: how many messages other campaigns of the same run will send, by phone as a number.
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
    planned: Mapping[int, int] = field(default_factory=dict)
    planned_at: datetime | None = None
    law: LawBook | None = None
    pause: Pause | None = None
    unread: UnreadReplies | None = None
