"""Jobs: files in the shared folder with all that a worker needs to plan a part of a campaign.

They hold phones, texts and who is on record, so they don't travel with tasks. Keys are stored without the
user's secret, which comes from the workers' environments.
"""

from __future__ import annotations

import io
import os
import pickle
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from runner.errors import ConfigurationError
from runner.ledger.fingerprint import FingerprintSet, TargetKey
from runner.ledger.model import RecordedDeliveries
from runner.plan.planner import AudiencePass
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.campaign.model import Campaign
    from runner.cluster.folder import SharedFolder
    from runner.plan.model import PlanOptions
    from runner.plan.plan_context import PlanContext

_KEPT = 2
"""Jobs that a worker keeps open: a command's campaigns are planned one after the other."""


@dataclass(frozen=True, slots=True)
class PlanJob:
    """A campaign to plan on a cluster.

    Attributes:
        options: the plan's options, without a limit.
        context: the context, without earlier plans of the same run.
        partitions: their number, a power of two, the same for all campaigns of a command.
        known: the recorded deliveries.
        key: the key of the recorded fingerprints; None if there are none.
        key_variable: the environment variable with the user's secret.
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
    known: RecordedDeliveries = field(default_factory=lambda: RecordedDeliveries({}, {}))
    key: TargetKey | None = None
    key_variable: str = ""
    before: tuple[tuple[str, tuple[str, ...]], ...] = ()
    keeps_launches: bool = False
    included: Mapping[str, str | None] = field(default_factory=dict)


class _JobPickler(pickle.Pickler):
    """A pickler that leaves out the user's secret, which `variable` has in the reader's environment."""

    def __init__(self, file: io.BytesIO, variable: str) -> None:
        super().__init__(file)
        self._variable = variable

    def reducer_override(self, value: object) -> Any:
        """Return the origin of a key; `NotImplemented` for everything else."""
        if isinstance(value, TargetKey):
            return open_key, (value.target, value.name, self._variable)
        return NotImplemented


def open_key(target: str, name: str, variable: str) -> TargetKey:
    """Return the key of a target that has a name: the public one, or made with this process's secret.

    Raises:
        ConfigurationError: the secret in `variable` makes another key.
    """
    for secret in (None, os.environ.get(variable)):
        key = TargetKey.of(target, secret)
        if key.name == name:
            return key
    raise ConfigurationError(
        f"{variable} is not set as for the command", hint=f"start workers with the {variable} of the command"
    )


def store_job(folder: SharedFolder, name: str, job: PlanJob) -> None:
    """Write a job to a new file of the shared folder: workers keep what they have read of one."""
    file = io.BytesIO()
    _JobPickler(file, job.key_variable).dump(replace(job, known=_shrink(job.known)))
    folder.write(name, file.getvalue())


def _shrink(known: RecordedDeliveries) -> RecordedDeliveries:
    """Return deliveries at 16 bytes each, to look people up only."""
    shelves = (known.sent, known.unresolved, known.unexplained)
    return RecordedDeliveries(
        *({message: FingerprintSet.of(people) for message, people in shelf.items()} for shelf in shelves)  # type: ignore[arg-type]  # a decider asks for single people
    )


@lru_cache(maxsize=_KEPT)
def open_job(folder: SharedFolder, name: str) -> tuple[PlanJob, AudiencePass]:
    """Return a job of the shared folder, and its pass with compiled texts, once for each worker."""
    # Write access to the folder equals access to the scheduler, which can call any function (Dask's trust
    # model).
    job: PlanJob = pickle.loads(folder.read(name))  # noqa: S301
    return job, AudiencePass.compile(job.campaign, job.options, job.context, Problems(), job.included)
