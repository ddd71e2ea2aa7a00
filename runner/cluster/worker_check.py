"""Sees that the workers are of this program's version, have its secrets, and reach its folder.

Secrets stay where they are: each worker digests its own with a key that it reads from the folder for
intermediate files, so that what goes through the scheduler tells it nothing.
"""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from runner import __version__
from runner.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.cluster.engine import Cluster
    from runner.cluster.folder import SharedFolder

_KEY_FILE = "workers.key"
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Likeness:
    """What has to be the same in every process.

    Attributes:
        version: of this program.
        python: major and minor version of Python.
        digests: of the values of variables, by name; None for one that is not set.
    """

    version: str
    python: str
    digests: Mapping[str, str | None]


def check_workers(
    cluster: Cluster, folder: SharedFolder, names: Sequence[str], environment: Mapping[str, str]
) -> None:
    """Refuse a cluster with a worker that would not do as this process does.

    Args:
        cluster: connected.
        folder: for intermediate files.
        names: of the environment variables that workers read.
        environment: what they have to have in them; one that is missing here has to be missing there.

    Raises:
        ConfigurationError: a worker differs: it is named, and what differs.
        RunnerError: the folder cannot be written, or a worker cannot be asked.
    """
    key = secrets.token_bytes(_KEY_BYTES)
    folder.write(_KEY_FILE, key)
    own = _describe(key, names, environment)
    for worker, likeness in sorted(cluster.ask_workers(_describe_worker, folder, tuple(names)).items()):
        refuse_difference(worker, likeness, own, folder)


def _describe_worker(folder: SharedFolder, names: Sequence[str]) -> Likeness | None:
    try:
        key = folder.read(_KEY_FILE)
    except FileNotFoundError:
        return None
    return _describe(key, names, os.environ)


def _describe(key: bytes, names: Sequence[str], environment: Mapping[str, str]) -> Likeness:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Likeness(__version__, python, {name: _digest(key, environment.get(name)) for name in names})


def _digest(key: bytes, value: str | None) -> str | None:
    # An empty variable is as good as none, as everywhere.
    return blake2b(value.encode(errors="surrogateescape"), key=key).hexdigest() if value else None


def refuse_difference(worker: str, found: Likeness | None, own: Likeness, folder: SharedFolder) -> None:
    """Refuse a worker that differs.

    Args:
        worker: its address.
        found: what it has; None if it does not see the folder.
        own: what it has to have.
        folder: for intermediate files.

    Raises:
        ConfigurationError: it differs.
    """
    if found is None:
        raise ConfigurationError(
            f"the worker {worker} does not see what is put into {folder.url}",
            hint="name a folder that all workers reach, with --scratch or RUNNER_SCRATCH",
        )
    for what, theirs, ours in (
        ("sms-campaign-runner", found.version, own.version),
        ("Python", found.python, own.python),
    ):
        if theirs != ours:
            raise ConfigurationError(
                f"the worker {worker} has {what} {theirs}, and this is {ours}",
                hint="workers need the same versions as who calls them",
            )
    for name, digest in own.digests.items():
        said = found.digests[name]
        if said != digest:
            state = f"no {name}" if said is None else f"another {name} than this process"
            hint = f"start it with the {name} of this process" if digest else f"start it without {name}"
            raise ConfigurationError(f"the worker {worker} has {state}", hint=hint)
