"""Writes a run into the ledger: what has come back and what goes next, in one transaction."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.deliver.crew import Flight
from runner.deliver.gate import Admission, Gate
from runner.ledger.deliveries import record_outcomes
from runner.ledger.entry import add_intents
from runner.ledger.fingerprint import FingerprintKey, launch_key
from runner.ledger.model import Intent, Outcome
from runner.ledger.moment import format_moment
from runner.ledger.runs import enter_runs
from runner.ledger.unsettled import dispute_launches

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from runner.ledger.database import Ledger
    from runner.ledger.model import Run
    from runner.ledger.run_lock import RunLock
    from runner.plan.model import PlannedLaunch
    from runner.service.model import SendReply


@dataclass(frozen=True, slots=True)
class Journal:
    """Records the launches of one campaign.

    Attributes:
        ledger: where intents and outcomes go.
        campaign_id: the ledger's number of the campaign.
        campaign: its name.
        key: the key of its fingerprints.
        lock: is looked at in each transaction that records intents.
        gate: takes out, at the last moment, whoever may no longer be texted; None to let everybody pass.
        run: that sends them; it is entered with its first intents. None if nobody is to know.
    """

    ledger: Ledger
    campaign_id: int
    campaign: str
    key: FingerprintKey
    lock: RunLock
    gate: Gate | None
    run: Run | None = None

    def commit(
        self,
        replies: Sequence[tuple[Flight, SendReply]],
        due: Sequence[PlannedLaunch],
        disputed: Collection[str],
        now: datetime,
    ) -> tuple[list[Flight], Admission]:
        """Make outcomes and intents durable, together.

        Args:
            replies: what has come back.
            due: what goes next.
            disputed: guids that the service has given twice.
            now: any aware time.

        Returns:
            What may leave now, and what the gate has said of it.

        Raises:
            RunnerError: nothing of it is recorded.
        """
        at, admission, ids = format_moment(now), Admission(list(due)), list[int]()
        with self.ledger.writing() as connection:
            record_outcomes(connection, [_outcome(flight, reply, at) for flight, reply in replies])
            dispute_launches(connection, self.campaign_id, disputed)
            if due:
                self.lock.require_held(connection)
                admission = self.gate.admit(connection, due, now) if self.gate else admission
            run = None if self.run is None else self.run.id
            intents = [make_intent(self.key, self.campaign, launch, run) for launch in admission.launches]
            if intents:
                enter_runs(connection, [self.run] if self.run is not None else [])
                ids = add_intents(connection, self.campaign_id, intents, at)
        return [Flight(*each) for each in zip(ids, intents, admission.launches, strict=True)], admission


def make_intent(key: FingerprintKey, campaign: str, launch: PlannedLaunch, run: str | None = None) -> Intent:
    """Return a planned launch as records know it.

    Args:
        key: the key of the campaign's fingerprints.
        campaign: the campaign's name.
        launch: what is to be sent.
        run: the id of the run that sends it.
    """
    fingerprints = sorted(key.fingerprint(campaign, phone) for phone in launch.phones)
    message, payload = launch.message, launch.payload
    return Intent(
        message=message.id,
        key=launch_key(key.lasting_name(campaign), message.id, payload.digest, fingerprints),
        tag=message.tag,
        payload_digest=payload.digest,
        definition=json.dumps(payload.definition, ensure_ascii=False),
        recipients=tuple(fingerprints),
        arm=launch.arm,
        run=run,
    )


def _outcome(flight: Flight, reply: SendReply, at: str) -> Outcome:
    return Outcome(flight.launch_id, reply.outcome, at, reply.project_launch_guid, reply.detail)
