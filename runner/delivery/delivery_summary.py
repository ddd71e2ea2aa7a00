"""The outcome of a run for a campaign: its launches in the ledger, and the recipients left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.ledger.results.runs import RunLaunch, TallyRow, iterate_run, tally_run

if TYPE_CHECKING:
    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchState
    from runner.ledger.people.suppressions import Pause
    from runner.service.model import SendReply


TOO_LATE = "the hours in which it may be sent were over before its turn"
"""The detail of a launch whose hours ended before it was sent."""
OPTED_OUT = "somebody of it opted out before its turn"
"""The detail of a launch with an opt-out before its turn; the other recipients are tried again."""
PAUSED = "the campaign was paused before its turn"
"""The detail of a launch that a pause kept back: a later run sends it."""
ENOUGH = "enough people had answered before its turn"
"""The detail of a launch that is not needed any more."""
TRIED_AGAIN = "it was not sent, and its recipients were tried again"
"""The detail of a launch whose recipients the run tried again, with the outcome in another launch."""
_IGNORED = (OPTED_OUT, PAUSED, ENOUGH, TRIED_AGAIN)


@dataclass(slots=True)
class DeliverySummary:
    """The outcome of a run for one campaign.

    Attributes:
        left: the planned recipients who got no launch, by reason (`runner.reasons.LEFT`).
        final_reply: the answer that ended the run, which every further send would get too.
        pause: a person's decision to pause the campaign, which ended its part of the run.
        has_enough: whether enough people have answered meanwhile, which ended its part of the run.
        tally: the run's launches, grouped by outcome.
        launches: the run's launches one by one; none if there are too many to be listed.
        is_listed: whether `launches` has all of them.
    """

    left: Counter[str] = field(default_factory=Counter)
    final_reply: SendReply | None = None
    pause: Pause | None = None
    has_enough: bool = False
    tally: list[TallyRow] = field(default_factory=list)
    launches: list[RunLaunch] = field(default_factory=list)
    is_listed: bool = True

    def refresh(self, ledger: Ledger, campaign_id: int, run: str | None) -> None:
        """Update the tally from the ledger."""
        with ledger.reading() as connection:
            self.tally = tally_run(connection, campaign_id, run, ignored=_IGNORED)

    def list_launches(
        self, ledger: Ledger, campaign_id: int, run: str | None, most: int | None = None
    ) -> None:
        """Update the tally, and read the launches one by one; none if there are more than `most`."""
        self.refresh(ledger, campaign_id, run)
        self.is_listed = most is None or sum(row.launches for row in self.tally) <= most
        if self.is_listed:
            with ledger.reading() as connection:
                self.launches = list(iterate_run(connection, campaign_id, run, ignored=_IGNORED))

    def count(self, outcome: LaunchState) -> int:
        """Return the number of launches with an outcome."""
        return sum(row.launches for row in self.tally if row.state == outcome)

    @property
    def recipients_tried(self) -> int:
        """The recipients of all launches that have an outcome."""
        return sum(row.recipients for row in self.tally)

    @property
    def recipients_sent(self) -> int:
        """The recipients of the launches that the service accepted."""
        return sum(row.recipients for row in self.tally if row.state == "sent")

    @property
    def recipients_too_late(self) -> int:
        """The recipients of launches whose hours ended after their intent was recorded."""
        return sum(row.recipients for row in self.tally if row.detail == TOO_LATE)

    @property
    def has_failures(self) -> bool:
        """True if launches were refused, or not sent for another reason than the hour."""
        return any(
            row.state == "rejected" or (row.state == "not_sent" and row.detail != TOO_LATE)
            for row in self.tally
        )
