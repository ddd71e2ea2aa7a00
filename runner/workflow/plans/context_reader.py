"""Context of plans beyond campaigns and their own records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.errors import LockfileError
from runner.ledger.model import format_moment
from runner.ledger.people.opt_outs import read_suppressions
from runner.ledger.people.recent import read_open_sessions, read_recent
from runner.ledger.people.replies import find_unread_replies
from runner.ledger.people.suppressions import find_pause
from runner.ledger.record.campaign_record import read_earlier_messages
from runner.plan.plan_context import PlanContext
from runner.timing.legal_hours import load_law

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.people.open_sessions import OpenSessions
    from runner.ledger.people.opt_outs import Suppressions
    from runner.ledger.people.recent import RecentDeliveries
    from runner.ledger.people.replies import UnreadReplies
    from runner.plan.plan_context import TextedPeople
    from runner.workflow.workspace.workspace import Workspace


class PlanContextReader:
    """Reads plan contexts for the campaigns of one command; `now` is the (aware) time planned for."""

    def __init__(self, workspace: Workspace, ledger: Ledger, now: datetime) -> None:
        self._workspace = workspace
        self._ledger = ledger
        self.now = now
        self._sessions: OpenSessions | None = None
        self._suppressions: Suppressions | None = None
        self._unread: list[UnreadReplies | None] = []

    def forget_findings(self) -> None:
        """Read everything anew: the ledger has changed."""
        self._sessions = self._suppressions = None
        self._unread = []

    def read(
        self, campaign: Campaign, planned: Sequence[TextedPeople] = (), *, leaves_people: bool = False
    ) -> PlanContext:
        """Return the context of one campaign, after earlier campaigns of the run (`planned`).

        `leaves_people`: without the ledger's people, whom workers look up there.

        Raises:
            LedgerError: the ledger cannot be read.
            LockfileError: a lockfile cannot be read, and the campaign has a frequency cap.
        """
        after = () if leaves_people else campaign.list_earlier()
        identity = self._workspace.identify(campaign)
        with self._ledger.reading() as connection:
            pause = find_pause(connection, identity.target, identity.names)
        return PlanContext(
            now=self.now,
            suppressions=None if leaves_people else self._read_suppressions(),
            earlier=read_earlier_messages(self._ledger, identity, after) if after else {},
            sessions=None if leaves_people else self._read_sessions(),
            recent=self._read_recent(campaign, leaves_people=leaves_people),
            planned=planned,
            law=load_law() if campaign.policy.quiet_hours == "legal" else None,
            pause=pause,
            unread=self.find_unread(),
        )

    def find_unread(self) -> UnreadReplies | None:
        """Return the target's longest unread replies; None if there can be none.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        if not self._unread:
            with self._ledger.reading() as connection:
                self._unread = [find_unread_replies(connection, self._workspace.target.name)]
        return self._unread[0]

    def _read_sessions(self) -> OpenSessions | None:
        """Return the people with an open survey on the target, or None; read once."""
        if self._sessions is None:
            with self._ledger.reading() as connection:
                self._sessions = read_open_sessions(connection, self._workspace.key)
        return self._sessions if self._sessions.shelves else None

    def _read_suppressions(self) -> Suppressions | None:
        """Return the suppressed recipients, or None; read once."""
        if self._suppressions is None:
            with self._ledger.reading() as connection:
                self._suppressions = read_suppressions(connection, self._workspace.key)
        found = self._suppressions
        return found if found.confirmed or found.doubtful else None

    def _read_recent(self, campaign: Campaign, *, leaves_people: bool) -> RecentDeliveries | None:
        cap = campaign.policy.frequency_cap
        if cap is None:
            return None
        for _, error in self._workspace.files.unread.values():
            message = f"the frequency cap cannot be counted: {error.message}"
            raise LockfileError(message, hint=error.hint) from None
        if leaves_people:
            return None
        with self._ledger.reading() as connection:
            return read_recent(connection, self._workspace.key, format_moment(self.now - cap.within))
