"""Folders of runs for intermediate files, which all processes of a cluster reach by the same path.

A task goes on when its run has ended, and nobody would look for what it writes then. So a run's folder is
renamed before it is removed: whatever writes by its path fails.

Jobs are files there with all that a worker needs to plan a part of a campaign. They hold phones, texts and
who is on record, so they don't travel with tasks. Keys are stored without the user's secret, which comes from
the workers' environments.
"""

from __future__ import annotations

import fcntl
import io
import os
import pickle
import re
import secrets
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.errors import ConfigurationError, RunnerError, StorageError, UsageError
from runner.ledger.fingerprint import FingerprintSet, TargetKey
from runner.ledger.model import RecordedDeliveries
from runner.plan.planner import AudiencePass
from runner.source.diagnostic import Problems
from runner.source.storage import is_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

    from runner.campaign.model import Campaign
    from runner.plan.model import PlanOptions
    from runner.plan.plan_context import PlanContext


_LOCK = "run.lock"
_ENDED = ".ended"


_KEPT = 2
"""Jobs that a worker keeps open: a command's campaigns are planned one after the other."""


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """A run's folder, by its path. A value that can be sent to tasks."""

    path: str

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: it cannot be read.
        """
        with _reporting(f"{self.path}/{name} cannot be read"):
            return Path(self.path, name).read_bytes()

    def open(self, name: str) -> BinaryIO:
        """Open a file to read a part of it; raises as `read`."""
        with _reporting(f"{self.path}/{name} cannot be read"):
            return Path(self.path, name).open("rb")

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file, whole or not at all, for this user alone, since there are phones in it.

        Raises:
            StorageError: it cannot be written.
            FileNotFoundError: the folder's run has ended.
        """
        # A task that runs twice at once writes two files.
        waiting = Path(self.path, f"{name}.{secrets.token_hex(4)}")
        with _reporting(f"{self.path}/{name} cannot be written"):
            try:
                with os.fdopen(os.open(waiting, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as stream:
                    stream.write(content)
                waiting.replace(Path(self.path, name))
            except OSError:
                # A full disk leaves half a file.
                waiting.unlink(missing_ok=True)
                raise


@contextmanager
def _reporting(failure: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"{failure}: {error.strerror or error}") from None


@contextmanager
def open_scratch(place: Path | str) -> Iterator[SharedFolder]:
    """Yield a new folder below a path; it is removed at the end, like those of killed runs."""
    if is_url(str(place)):
        raise UsageError(
            f"{place} is no folder: workers and this process share intermediate files by a path",
            hint="name a folder that all of them reach, with --scratch or RUNNER_SCRATCH",
        )
    above = Path(place).absolute()
    # Of this machine alone: some network file systems keep locks from other machines.
    prefix = f"run-{re.sub(r'[^A-Za-z0-9.-]', '-', os.uname().nodename)}"
    own = above / f"{prefix}-{secrets.token_hex(8)}"
    with _hold_folder(own):
        for folder in above.glob(f"{prefix}-*"):
            if folder != own and (folder.suffix == _ENDED or _is_left(folder)):
                shutil.rmtree(folder, ignore_errors=True)
        try:
            yield SharedFolder(str(own))
        finally:
            ended = own.with_name(f"{own.name}{_ENDED}")
            with suppress(OSError):
                own.rename(ended)
            shutil.rmtree(ended, ignore_errors=True)


@contextmanager
def _hold_folder(own: Path) -> Iterator[None]:
    """Make a folder for this user alone, and hold its lock, which the kernel frees when the process ends."""
    try:
        own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        own.mkdir(mode=0o700)
        lock = os.open(own / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RunnerError(
            f"the folder {own.parent} for intermediate files cannot be used: {error.strerror}",
            hint="name another one with --scratch or RUNNER_SCRATCH",
        ) from None
    try:
        # A network's file system may have no locks: then the folder counts as in use.
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


def _is_left(folder: Path) -> bool:
    """Return whether nobody holds a run's folder. One without a lock may be about to be held."""
    with suppress(OSError), (folder / _LOCK).open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


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
