"""Jobs: files in the shared folder with all that a worker needs to plan a part of a campaign.

They hold phones and texts, so they don't travel with tasks. The ledger's URL and the user's secret come from
the workers' environments: keys are stored without the secret. A worker looks up its own people in the ledger.
"""

from __future__ import annotations

import io
import pickle
import socket
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from runner.cluster.address import LEDGER
from runner.cluster.worker_environment import OWN, WorkerEnvironment
from runner.errors import ConfigurationError
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.model import RecordedDeliveries
from runner.ledger.people.earlier import read_earlier
from runner.ledger.people.open_sessions import OpenSessions
from runner.ledger.people.opt_outs import read_suppressions
from runner.ledger.people.recent import RecentDeliveries, read_open_sessions, read_recent
from runner.ledger.record.deliveries import read_known
from runner.ledger.target_key import LedgerConnection, TargetKey, read_target_key
from runner.plan.planner import AudiencePass
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runner.campaign.model import Campaign
    from runner.cluster.folder import SharedFolder
    from runner.plan.model import PlanOptions
    from runner.plan.plan_context import PlanContext

_KEPT = 4
"""Jobs that a worker keeps open: a command's campaigns are planned one after the other."""


@contextmanager
def open_worker_ledger(environment: WorkerEnvironment) -> Iterator[Ledger]:
    """Open the ledger that a worker's environment names.

    Raises:
        ConfigurationError: it names none.
        LedgerError: it cannot be used.
    """
    url = environment.get(LEDGER)
    if not url:
        where = environment.say_where() or " in its environment"
        raise ConfigurationError(
            f"a worker on {socket.gethostname()} has no {LEDGER}{where}",
            hint="start all workers with the variables that the client has",
        )
    with Ledger(url) as ledger:
        yield ledger


@dataclass(frozen=True, slots=True)
class LedgerLookup:
    """The ledger of a campaign's people, and the questions to it.

    Attributes:
        has_ledger: whether there is a ledger yet.
        key_variable: the environment variable with the user's secret.
        campaign_id: the campaign's number in the ledger; None if it is not there.
        key: of the campaign's fingerprints; None if nobody was texted or forgotten.
        forgotten: the fingerprints of forgotten people.
        has_opt_outs: whether the target has suppressions that are not in the job.
        has_open_launches: whether somebody may have an open survey on the target.
        recent_since: the start of the frequency cap's time, UTC, ISO 8601; None without a cap.
        depleted: launches of messages with follow-ups, some of whose recipients are entered under another
            one.
        environment: the worker's variables.
    """

    has_ledger: bool
    key_variable: str
    campaign_id: int | None = None
    key: FingerprintKey | None = None
    forgotten: frozenset[str] = frozenset()
    has_opt_outs: bool = False
    has_open_launches: bool = False
    recent_since: str | None = None
    depleted: tuple[int, ...] = ()
    environment: WorkerEnvironment = OWN

    @property
    def asks_something(self) -> bool:
        """True if any person has to be looked up."""
        return (
            self.key is not None
            or self.has_opt_outs
            or self.has_open_launches
            or self.recent_since is not None
        )


@dataclass(frozen=True, slots=True)
class PlanJob:
    """A campaign to plan.

    Attributes:
        options: the plan's options, without `limit`.
        context: the context, without what is to be looked up; None to go by the campaign's files alone.
        included: the included texts, by name.
        partitions: their number, a power of two.
        lookup: the ledger of its people; None to look nothing up.
    """

    campaign: Campaign
    target: str
    options: PlanOptions
    context: PlanContext | None
    included: Mapping[str, str | None]
    partitions: int
    lookup: LedgerLookup | None = None


class _JobPickler(pickle.Pickler):
    """A pickler that leaves out the user's secret, which `variable` has in the reader's `environment`."""

    def __init__(self, file: io.BytesIO, variable: str, environment: WorkerEnvironment) -> None:
        super().__init__(file)
        self._variable = variable
        self._environment = environment

    def reducer_override(self, value: object) -> Any:
        """Return the origin of a key; `NotImplemented` for everything else."""
        if isinstance(value, FingerprintKey):
            return _open_campaign_key, (value.salt, value.first_name, self._variable, self._environment)
        if isinstance(value, TargetKey):
            return _open_target_key, (value.target, value.salt, self._variable, self._environment)
        return NotImplemented


def _open_campaign_key(
    salt: str | None, first_name: str | None, variable: str, environment: WorkerEnvironment
) -> FingerprintKey:
    key = (
        FingerprintKey.from_secret(environment.get(variable) or "")
        if salt is None
        else FingerprintKey.from_salt(salt)
    )
    return replace(key, first_name=first_name)


def _open_target_key(
    target: str, salt: str | None, variable: str, environment: WorkerEnvironment
) -> TargetKey:
    if salt is None:
        return TargetKey.from_secret(target, environment.get(variable) or "")
    return TargetKey.from_salt(target, salt)


def store_job(folder: SharedFolder, name: str, job: PlanJob) -> None:
    """Write a job to a file of the shared folder."""
    file = io.BytesIO()
    lookup = job.lookup or LedgerLookup(has_ledger=False, key_variable="")
    _JobPickler(file, lookup.key_variable, lookup.environment).dump(job)
    folder.write(name, file.getvalue())


@lru_cache(maxsize=_KEPT)
def open_job(folder: SharedFolder, name: str) -> tuple[PlanJob, AudiencePass]:
    """Return a job of the shared folder, and its pass with compiled texts, once for each worker."""
    # Write access to the folder equals access to the scheduler, which can call any function (Dask's trust
    # model).
    job: PlanJob = pickle.loads(folder.read(name))  # noqa: S301
    return job, AudiencePass.compile(job.campaign, job.options, job.context, Problems(), job.included)


def look_up(
    job: PlanJob, list_phones: Callable[[], Sequence[str]]
) -> tuple[RecordedDeliveries, PlanContext | None]:
    """Return the deliveries and the context of some people of a campaign.

    `list_phones` returns E.164, and is only called if there is something to look up.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    lookup, context = job.lookup, job.context
    known = RecordedDeliveries({}, {})
    if context is None or lookup is None:
        return known, context
    if lookup.has_ledger and lookup.asks_something:
        with open_worker_ledger(lookup.environment) as ledger, ledger.reading() as connection:
            known, context = _read_people(connection, job, lookup, context, list_phones())
    known.forgotten.update(lookup.forgotten)
    return known, context


def _read_people(
    connection: LedgerConnection,
    job: PlanJob,
    lookup: LedgerLookup,
    context: PlanContext,
    phones: Sequence[str],
) -> tuple[RecordedDeliveries, PlanContext]:
    campaign, target, known = job.campaign, job.target, RecordedDeliveries({}, {})
    state_key = lookup.environment.get(lookup.key_variable) or None
    if lookup.key is not None and lookup.campaign_id is not None:
        people = [lookup.key.fingerprint(campaign.name, phone) for phone in phones]
        ids, after = campaign.message_ids, campaign.list_earlier()
        known = read_known(connection, lookup.campaign_id, ids, people)
        if after:
            earlier = read_earlier(connection, lookup.campaign_id, ids, after, people, lookup.depleted)
            context = replace(context, earlier=earlier)
    if lookup.has_opt_outs:
        suppressions = read_suppressions(connection, read_target_key(connection, target, state_key), phones)
        if suppressions.confirmed or suppressions.doubtful:
            context = replace(context, suppressions=suppressions)
    if lookup.has_open_launches:
        entered = read_open_sessions(connection, target, state_key, phones).shelves
        told = () if context.sessions is None else context.sessions.shelves
        context = replace(context, sessions=OpenSessions((*entered, *told)))
    if lookup.recent_since is not None:
        sent = read_recent(connection, target, state_key, lookup.recent_since, phones).shelves
        elsewhere = () if context.recent is None else context.recent.shelves
        context = replace(context, recent=RecentDeliveries((*sent, *elsewhere)))
    return known, context
