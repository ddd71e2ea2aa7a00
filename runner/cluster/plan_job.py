"""Jobs: files in the shared folder with all that a worker needs to plan a part of a campaign.

They hold phones and texts, so they don't travel with tasks. The ledger's URL and the user's secret come from
the workers' environments: keys are stored without the secret. A worker looks up its own people in the ledger.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from runner.cluster.address import LEDGER
from runner.errors import ConfigurationError
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import RecordedDeliveries
from runner.ledger.people.history import read_earlier, read_open_sessions, read_recent
from runner.ledger.people.opt_outs import read_suppressions
from runner.ledger.record.deliveries import read_known
from runner.plan.planner import AudiencePass
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from runner.campaign.model import Campaign
    from runner.cluster.folder import SharedFolder
    from runner.plan.model import PlanOptions
    from runner.plan.plan_context import PlanContext

_KEPT = 4
"""Jobs that a worker keeps open: a command's campaigns are planned one after the other."""


@contextmanager
def open_worker_ledger() -> Iterator[Ledger]:
    """Open the ledger that a worker's environment names."""
    url = os.environ.get(LEDGER)
    if not url:
        raise ConfigurationError(
            f"a worker on {socket.gethostname()} has no {LEDGER} in its environment",
            hint="start all workers with the variables that the client has",
        )
    with Ledger(url) as ledger:
        yield ledger


@dataclass(frozen=True, slots=True)
class LedgerLookup:
    """The questions to the ledger about a campaign's people.

    Attributes:
        key_variable: the environment variable with the user's secret.
        key: of the target's fingerprints.
        campaign_id: the campaign's number in the ledger; None if nobody was texted by it.
        recent_since: the start of the frequency cap's time, UTC, ISO 8601; None without a cap.
        depleted: launches of messages with follow-ups, some of whose recipients are entered under another
            one.
    """

    key_variable: str
    key: TargetKey
    campaign_id: int | None = None
    recent_since: str | None = None
    depleted: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanJob:
    """A campaign to plan on a cluster.

    Attributes:
        options: the plan's options, without a limit.
        context: the context, without what is to be looked up.
        partitions: their number, a power of two, the same for all campaigns of a command.
        lookup: the questions to the ledger; None to look nothing up.
        before: earlier plans of the same run that text some of the same people: name, and the files of their
            launches by partition.
        keeps_launches: write the launches to files.
        included: the included texts, by name.
    """

    campaign: Campaign
    target: str
    options: PlanOptions
    context: PlanContext
    partitions: int
    lookup: LedgerLookup | None = None
    before: tuple[tuple[str, tuple[str, ...]], ...] = ()
    keeps_launches: bool = False
    included: Mapping[str, str | None] = field(default_factory=dict)

    def look_up(self, phones: Collection[str]) -> tuple[RecordedDeliveries, PlanContext]:
        """Return the deliveries and the context of some people (E.164)."""
        lookup, context, known = self.lookup, self.context, RecordedDeliveries({}, {})
        if lookup is None:
            return known, context
        key, campaign_id = lookup.key, lookup.campaign_id
        with open_worker_ledger() as ledger, ledger.reading() as connection:
            if campaign_id is not None:
                people = [key.fingerprint(phone) for phone in phones]
                ids, after = self.campaign.message_ids, self.campaign.list_earlier()
                known = read_known(connection, campaign_id, ids, people)
                earlier = read_earlier(connection, campaign_id, ids, after, people, lookup.depleted)
                context = replace(context, earlier=earlier)
            suppressions = read_suppressions(connection, key, phones)
            if suppressions:
                context = replace(context, suppressions=suppressions)
            sessions = read_open_sessions(connection, key, phones)
            if sessions.shelves:
                context = replace(context, sessions=sessions)
            if lookup.recent_since is not None:
                context = replace(context, recent=read_recent(connection, key, lookup.recent_since, phones))
        return known, context


class _JobPickler(pickle.Pickler):
    """A pickler that leaves out the user's secret, which `variable` has in the reader's environment."""

    def __init__(self, file: io.BytesIO, variable: str) -> None:
        super().__init__(file)
        self._variable = variable

    def reducer_override(self, value: object) -> Any:
        """Return the origin of a key; `NotImplemented` for everything else."""
        if isinstance(value, TargetKey):
            return _open_key, (value.target, value.is_secret, self._variable)
        return NotImplemented


def _open_key(target: str, is_secret: bool, variable: str) -> TargetKey:  # noqa: FBT001  pickled
    return TargetKey.of(target, os.environ.get(variable) if is_secret else None)


def store_job(folder: SharedFolder, name: str, job: PlanJob) -> None:
    """Write a job to a new file of the shared folder: workers keep what they have read of one."""
    file = io.BytesIO()
    _JobPickler(file, job.lookup.key_variable if job.lookup is not None else "").dump(job)
    folder.write(name, file.getvalue())


@lru_cache(maxsize=_KEPT)
def open_job(folder: SharedFolder, name: str) -> tuple[PlanJob, AudiencePass]:
    """Return a job of the shared folder, and its pass with compiled texts, once for each worker."""
    # Write access to the folder equals access to the scheduler, which can call any function (Dask's trust
    # model).
    job: PlanJob = pickle.loads(folder.read(name))  # noqa: S301
    return job, AudiencePass.compile(job.campaign, job.options, job.context, Problems(), job.included)
