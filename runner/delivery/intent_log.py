"""A run's records in the ledger, and its last check for recipients who may no longer be texted.

Outcomes that came back and next intents are recorded in one transaction. During a run people opt out, and
other campaigns text them, and somebody may pause the campaign. So the check runs in that transaction, with
nothing in between.
A launch may then wait long: for the pace, a `Retry-After`, its next try, or a free thread. So the sender
asks again right before each request, for all launches recorded together, unless one has asked a moment ago.
The frequency cap is not counted again: the intent itself holds its place, and other runs count it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from runner.delivery.order import CheckedPeople, InFlightLaunch
from runner.ledger.bulk import divide
from runner.ledger.database import exclude_others
from runner.ledger.fingerprint import KnownPeople, OpenSession
from runner.ledger.model import Intent, Outcome, format_moment
from runner.ledger.people.history import read_open_sessions, read_recent
from runner.ledger.people.opt_outs import find_suppressed
from runner.ledger.people.suppressions import find_pause
from runner.ledger.record.deliveries import record_outcomes
from runner.ledger.record.entry import add_intents
from runner.ledger.record.unsettled import list_claimed
from runner.ledger.results.runs import enter_runs
from runner.service.model import SendReply
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from runner.campaign.model import Campaign, FrequencyCap
    from runner.delivery.campaign_ref import CampaignRef
    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.locks.campaign_lock import CampaignLock
    from runner.ledger.model import Run
    from runner.ledger.people.suppressions import Pause
    from runner.ledger.target_key import LedgerConnection
    from runner.plan.model import PlannedLaunch


_TOGETHER, _MOST_PEOPLE = 64, 500
"""The most launches, and people, that are looked at together before they leave."""


@dataclass(frozen=True, slots=True)
class EligibilityCheck:
    """A filter that removes recipients who may no longer be texted from launches.

    `campaign_id` is given only for a campaign that must not queue behind surveys sent by others since its
    plan; `names` are the campaign's, also former ones, under which it may be paused.
    """

    key: TargetKey
    cap: FrequencyCap | None
    campaign_id: int | None = None
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, campaign: Campaign, ref: CampaignRef) -> Self:
        """Return the check of a campaign."""
        lets_queue = campaign.policy.open_session == "queue"
        barred_by = None if lets_queue else ref.campaign_id
        names = (campaign.name, *campaign.renamed_from)
        return cls(ref.key, campaign.policy.frequency_cap, barred_by, names)

    def admit(
        self, connection: LedgerConnection, launches: Sequence[PlannedLaunch], now: datetime
    ) -> Admission:
        """Return the launches that may be sent, without recipients who may not.

        Their intents must be recorded in the same transaction; `now` is any aware time.
        """
        pause = self.find_pause(connection)
        if pause is not None:
            return Admission(pause=pause)
        phones = [phone for launch in launches for phone in launch.phones]
        barred = self.find_opted_out(connection, phones)
        admission = Admission(opted_out=sum(phone in barred for phone in phones))
        sessions = self._read_sessions(connection, launches)
        left = self._count_left(connection, phones, now)
        for launch in launches:
            kept = []
            for phone in launch.phones:
                if phone in barred:
                    continue
                if _may_queue(launch) and sessions.find(phone) is not None:
                    admission.open_session.append(phone)
                    continue
                if left is not None and left[phone] <= 0:
                    admission.capped += 1
                    continue
                if left is not None:
                    left[phone] -= 1
                kept.append(phone)
            if len(kept) == len(launch.phones):
                admission.launches.append(launch)
            elif kept:
                admission.launches.append(replace(launch, phones=tuple(kept)))
        return admission

    def _read_sessions(
        self, connection: LedgerConnection, launches: Sequence[PlannedLaunch]
    ) -> KnownPeople[OpenSession]:
        """Return the people with an open survey of another campaign; the plan knows those of this one."""
        phones = {phone for launch in launches if _may_queue(launch) for phone in launch.phones}
        if self.campaign_id is None or not phones:
            return KnownPeople(self.key)
        return read_open_sessions(connection, self.key, phones, other_than=self.campaign_id)

    def find_opted_out(self, connection: LedgerConnection, phones: Iterable[str]) -> set[str]:
        """Return the phones (E.164) of people who have opted out, or may have."""
        return find_suppressed(connection, self.key, phones)

    def find_pause(self, connection: LedgerConnection) -> Pause | None:
        """Return a person's decision to pause the campaign; None if there is none."""
        return find_pause(connection, self.key.target, self.names)

    def _count_left(
        self, connection: LedgerConnection, phones: Iterable[str], now: datetime
    ) -> Counter[str] | None:
        """Return the number of messages that people may still get; None without a cap."""
        if self.cap is None:
            return None
        # Another run may be counting now: one of the two has to be first.
        exclude_others(connection)
        wanted = set(phones)
        since = format_moment(now - self.cap.within)
        recent = read_recent(connection, self.key, since, wanted)
        return Counter({phone: self.cap.messages - recent.count(phone) for phone in wanted})


@dataclass(slots=True)
class Admission:
    """The launches that may be sent, and the recipients removed.

    Attributes:
        opted_out: recipients who have opted out, or may have, since the plan was made.
        capped: recipients who have reached the frequency cap since.
        open_session: phones of recipients to whom another campaign has sent a survey since.
        pause: a person's decision to pause the campaign: nothing of it may be sent.
    """

    launches: list[PlannedLaunch] = field(default_factory=list)
    opted_out: int = 0
    capped: int = 0
    open_session: list[str] = field(default_factory=list)
    pause: Pause | None = None

    def find_left_out(self, launches: Sequence[PlannedLaunch]) -> Iterator[str]:
        """Yield the phones of the checked launches that may not be sent."""
        if any((self.opted_out, self.capped, self.open_session, self.pause)):
            kept = {phone for launch in self.launches for phone in launch.phones}
            yield from (phone for launch in launches for phone in launch.phones if phone not in kept)


def _may_queue(launch: PlannedLaunch) -> bool:
    return not launch.message.complete_existing_sessions


@dataclass(slots=True)
class IntentLog:
    """The records of one campaign's launches, under its lock, after the check for eligibility.

    The run is entered with its first intents.
    """

    campaign: CampaignRef
    lock: CampaignLock
    eligibility: EligibilityCheck | None
    run: Run | None = None
    _is_run_entered: bool = field(default=False, init=False)

    def commit(
        self,
        replies: Sequence[tuple[InFlightLaunch, SendReply]],
        due: Sequence[PlannedLaunch],
        now: datetime,
        asked_at: float,
    ) -> tuple[list[InFlightLaunch], Admission]:
        """Make outcomes and intents durable, together; return the launches that may leave, and the admission.

        `now` is any aware time, `asked_at` the same on the run's clock.
        """
        at, admission, ids = format_moment(now), Admission(list(due)), list[int]()
        campaign_id = self.campaign.campaign_id
        with self.campaign.ledger.writing() as connection:
            record_outcomes(connection, [_outcome(in_flight, reply, at) for in_flight, reply in replies])
            if due:
                self.lock.require_held(connection)
                admission = self.eligibility.admit(connection, due, now) if self.eligibility else admission
            run = None if self.run is None else self.run.id
            intents = [make_intent(self.campaign, launch, run) for launch in admission.launches]
            if intents:
                if self.run is not None and not self._is_run_entered:
                    enter_runs(connection, [self.run])
                ids = add_intents(connection, campaign_id, intents, at)
        # Only once it is durable.
        self._is_run_entered = self._is_run_entered or bool(intents)
        departing: list[InFlightLaunch] = []
        for portion in divide(zip(ids, intents, admission.launches, strict=True), _TOGETHER):
            phones = [phone for _, _, launch in portion for phone in launch.phones]
            # Many people are looked at launch by launch, so that no sender waits long for its answer.
            people = CheckedPeople(phones, asked_at) if len(phones) <= _MOST_PEOPLE else None
            departing += [
                InFlightLaunch(*one, people or CheckedPeople(one[2].phones, asked_at)) for one in portion
            ]
        return departing, admission


REPEATED_GUID = "the service named an earlier launch"


class Guids:
    """The service's names of a target's launches: each is of one launch, the first that it was given to.

    `named` are those on record, as `normalize_guid` writes them.
    """

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._named = set(named)

    @classmethod
    def read(cls, ledger: Ledger, target: str) -> Self:
        """Return all guids of a target that are on record."""
        with ledger.reading() as connection:
            return cls(list_claimed(connection, target, explained_only=False))

    def judge(self, reply: SendReply) -> SendReply:
        """Return a reply; as of unknown outcome if its guid is another launch's."""
        if reply.project_launch_guid is None:
            return reply
        guid = normalize_guid(reply.project_launch_guid)
        if guid in self._named:
            return SendReply("unknown", detail=REPEATED_GUID, status=reply.status)
        self._named.add(guid)
        return reply


def make_intent(campaign: CampaignRef, launch: PlannedLaunch, run: str | None = None) -> Intent:
    """Return the intent of a planned launch, sent by `run`."""
    fingerprints = sorted(map(campaign.fingerprint, launch.phones))
    message, payload = launch.message, launch.payload
    return Intent(
        message=message.id,
        key=campaign.name_launch(message.id, payload.digest, fingerprints),
        tag=message.tag,
        payload_digest=payload.digest,
        definition=json.dumps(payload.definition, ensure_ascii=False),
        recipients=tuple(fingerprints),
        arm=launch.arm,
        run=run,
    )


def _outcome(in_flight: InFlightLaunch, reply: SendReply, at: str) -> Outcome:
    return Outcome(in_flight.launch_id, reply.outcome, at, reply.project_launch_guid, reply.detail)
