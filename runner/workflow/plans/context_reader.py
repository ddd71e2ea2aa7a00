"""Context of plans beyond campaigns and their own records."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from runner.campaign.conditions import build_answer_reader
from runner.campaign.message_model import AnswerCondition
from runner.delivery.eligibility import CompletesCheck
from runner.errors import LockfileError
from runner.ledger.model import format_moment
from runner.ledger.people.history import read_open_sessions, read_recent, read_waves
from runner.ledger.people.opt_outs import read_suppressions
from runner.ledger.people.pruned import read_figures
from runner.ledger.people.replies import find_unread_replies
from runner.ledger.people.rollout import read_rollout_record
from runner.ledger.people.suppressions import find_pause
from runner.ledger.record.campaign_record import read_earlier_messages
from runner.ledger.record.deliveries import find_record
from runner.ledger.results.runs import find_last_audience, was_sent
from runner.plan.plan_context import PlanContext
from runner.text.include import include_folder
from runner.text.template import TextCompiler
from runner.timing.legal_hours import load_law

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import KnownPeople, OpenSession
    from runner.ledger.people.history import EarlierMessage
    from runner.ledger.people.opt_outs import Barred
    from runner.ledger.people.replies import UnreadReplies
    from runner.ledger.people.rollout import RolloutRecord
    from runner.ledger.record.campaign_record import Identity
    from runner.ledger.target_key import LedgerConnection
    from runner.plan.plan_context import TextedPeople
    from runner.timing.legal_hours import LawBook
    from runner.workflow.workspace.workspace import Workspace


@dataclass
class PlanContextReader:
    """Reads plan contexts for the campaigns of one plan, once all of them are entered.

    `now` is the (aware) time planned for. Without a `ledger` nothing is on record, as where the state key is
    missing: contexts have time and law only. With `is_for_any_time`, nothing waits for its time.
    """

    workspace: Workspace
    ledger: Ledger | None
    now: datetime
    is_for_any_time: bool = False
    _sessions: KnownPeople[OpenSession] | None = field(default=None, init=False)
    _suppressions: KnownPeople[Barred] | None = field(default=None, init=False)

    def read(self, campaign: Campaign, planned: Sequence[TextedPeople] = ()) -> PlanContext:
        """Return the context of one campaign, after earlier campaigns of the run (`planned`)."""
        law = load_law() if campaign.policy.quiet_hours == "legal" else None
        if self.ledger is None:
            # New recipients of earlier campaigns may be old ones, so they do not hold anybody back.
            return PlanContext(now=self.now, law=law)
        spans = self._list_spans(campaign, law)
        identity, key = self.workspace.identify(campaign), self.workspace.key
        with self.ledger.reading() as connection:
            if self._suppressions is None or self._sessions is None:
                self._suppressions = read_suppressions(connection, key)
                self._sessions = read_open_sessions(connection, key)
            row = find_record(connection, identity.target, identity.names)
            ids, has_wave = campaign.message_ids, bool(campaign.wave)
            completes = None if row is None else CompletesCheck.of(campaign, row.id)
            kept = None if row is None else read_figures(connection, row.id, campaign.wave)
            context = PlanContext(
                now=self.now,
                planned=planned,
                law=law,
                pause=find_pause(connection, identity.target, identity.names),
                unread=self.unread,
                suppressions=self._suppressions or None,
                sessions=self._sessions or None,
                waves={} if row is None else read_waves(connection, row.id, ids, has_wave=has_wave),
                completed=None if completes is None else completes.count(connection),
                earlier=_read_earlier(connection, identity, campaign),
                rollout=_read_rollout(connection, identity, campaign),
                opted_out=len(self._suppressions.shelves.get("confirmed", ())),
                last_run=None if row is None else find_last_audience(connection, row.id),
                pruned_at=None if kept is None else kept.at,
                was_sent=row is not None and was_sent(connection, row.id),
                recent={one: read_recent(connection, key, format_moment(self.now - one)) for one in spans},
            )
        return context.leave_out_time() if self.is_for_any_time else context

    @cached_property
    def unread(self) -> UnreadReplies | None:
        """The target's longest unread replies; None if there can be none."""
        if self.ledger is None:
            return None
        with self.ledger.reading() as connection:
            return find_unread_replies(connection, self.workspace.target.name)

    def _list_spans(self, campaign: Campaign, law: LawBook | None) -> set[timedelta]:
        """Return the times within which messages count, for the campaign's cap and those of laws."""
        cap, legal = campaign.policy.frequency_cap, law.list_caps() if law is not None else ()
        spans = {one.within for one in (cap, *legal) if one is not None}
        for _, error in self.workspace.files.unread.values() if spans else ():
            name = "frequency cap" if cap is not None else "legal limit on messages"
            raise LockfileError(f"the {name} cannot be counted: {error.message}", hint=error.hint) from None
        return spans


def _read_rollout(
    connection: LedgerConnection, identity: Identity, campaign: Campaign
) -> RolloutRecord | None:
    """Return the record that a campaign's open step is found by; None if it has no steps."""
    if campaign.rollout is None:
        return None
    # Imported here: the client is slow to import, and most plans need none.
    from runner.service.client import is_refusal

    firsts = {message.id for message in campaign.messages if message.after is None}
    return read_rollout_record(connection, identity, firsts, is_refusal)


def _read_earlier(
    connection: LedgerConnection, identity: Identity, campaign: Campaign
) -> Mapping[str, EarlierMessage]:
    """Return the messages whose recipients or answers follow-ups go by."""
    questions = {one.to.question for one in campaign.messages if isinstance(one.to, AnswerCondition)}
    read = build_answer_reader(campaign, TextCompiler(include_folder(campaign))) if questions else None
    return read_earlier_messages(connection, identity, campaign.list_earlier(), questions, read)
