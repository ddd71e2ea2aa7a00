"""The environment variables that a task may read on its worker: the worker's own, or a profile's.

A profile is one team's secrets on a cluster of several, by a name that an order carries. A worker has it in
variables, `RUNNER_PROFILE_ACME_LEDGER` for RUNNER_LEDGER of `acme`, or in files, `acme/RUNNER_LEDGER` in the
folder that RUNNER_PROFILE_DIR names. That is how Kubernetes, Docker and systemd mount secrets: one file a
value, without quoting, and replaced while the worker runs.
"""

from __future__ import annotations

import os
import re
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from runner.cluster.address import LEDGER
from runner.errors import ConfigurationError, UsageError
from runner.source.storage import find_readers

if TYPE_CHECKING:
    from collections.abc import Iterator


_FOLDER = "RUNNER_PROFILE_DIR"
_BEGIN = "RUNNER_PROFILE_"
_NAME = re.compile(r"[A-Za-z0-9_]{1,50}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_MACHINE = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables without secrets that a profile need not repeat."""
_MOST_BYTES = 1 << 16


class Variables(Protocol):
    """Environment variables, by name."""

    def get(self, name: str, /) -> str | None:
        """Return the value of a variable, if it is set."""
        ...


def parse_profile(text: str) -> str:
    """Return the name of a profile in lower case: case makes no difference.

    Raises:
        UsageError: it is not a name.
    """
    if _NAME.fullmatch(text):
        return text.lower()
    raise UsageError(
        f"{text!r} is no name of a profile",
        hint="letters, digits and `_`, at most 50; check --profile and RUNNER_PROFILE",
    )


@dataclass(frozen=True, slots=True)
class WorkerEnvironment:
    """The variables of the worker that reads them, by their ordinary names. A value that orders can carry.

    A profile takes nothing from the worker's own variables, and these show nothing of profiles.

    Attributes:
        profile: a name from `parse_profile`; None for the worker's own variables.
    """

    profile: str | None = None

    def get(self, name: str, /) -> str | None:
        """Return the value of a variable, if it is set.

        Raises:
            ConfigurationError: the profile is ambiguous, or its file cannot be read or has other readers.
        """
        if self.profile is None:
            return None if name.startswith(_BEGIN) else os.environ.get(name)
        found = self._find(self.profile, name)
        return os.environ.get(name) if found is None and name in _OF_MACHINE else found

    def say_where(self) -> str:
        """Return a phrase for messages, as in `has no RUNNER_LEDGER in its profile acme`."""
        return "" if self.profile is None else f" in its profile {self.profile}"

    def say_remedy(self, name: str, *, is_needed: bool) -> str:
        """Return a hint about a worker that differs in a variable; `is_needed` if this process has it."""
        if self.profile is None:
            return f"start it with the {name} of this process" if is_needed else f"start it without {name}"
        place = f"{name_variable(self.profile, name)}, or the file {self.profile}/{name} in its {_FOLDER}"
        remedy = f"give it the {name} of this process as {place}" if is_needed else f"remove {place}"
        return f"check --profile and RUNNER_PROFILE; if the name is right, {remedy}"

    @staticmethod
    def _find(profile: str, name: str) -> str | None:
        folder = os.environ.get(_FOLDER)
        own = Path(folder, profile) if folder else None
        if own is not None and _is_folder(own):
            # A campaign's repository names variables: they must not lead to other files.
            return _read_secret(own / name) if _VARIABLE.fullmatch(name) else None
        for other in _list_overlapping(profile):
            raise ConfigurationError(
                f"a worker on {socket.gethostname()} has variables of the profiles {profile} and {other}: "
                "which of them are whose cannot be told",
                hint=f"rename one of them, or keep them in files, in a folder that {_FOLDER} names",
            )
        return os.environ.get(name_variable(profile, name))


OWN = WorkerEnvironment()
"""A worker's own variables."""


def name_variable(profile: str, name: str) -> str:
    """Return the variable of a profile that stands for another one."""
    return f"{_BEGIN}{profile.upper()}_{name.removeprefix('RUNNER_')}"


def _list_overlapping(profile: str) -> Iterator[str]:
    """Yield the profiles in variables of which one name begins with the other, as `a` and `a_b` do.

    RUNNER_PROFILE_A_B_API_KEY could be the API_KEY of `a_b`, or of a target of `a` with variables of its own.
    """
    begin, end = _BEGIN, LEDGER.removeprefix("RUNNER")
    own = f"{profile.upper()}_"
    for variable, value in os.environ.items():
        if value and variable.startswith(begin) and variable.endswith(end):
            other = f"{variable[len(begin) : -len(end)]}_"
            if other != own and (other.startswith(own) or own.startswith(other)):
                yield other[:-1].lower()


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # no access to the folder above
        return False


def _read_secret(file: Path) -> str | None:
    """Return the content of a file without the line's end; None if there is no such file.

    Raises:
        ConfigurationError: it cannot be read, or others can read it.
    """
    host = socket.gethostname()
    try:
        # Without waiting, should it be a pipe.
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            status = os.fstat(stream.fileno())
            content = stream.read(_MOST_BYTES) if stat.S_ISREG(status.st_mode) else b""
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"a worker on {host} cannot read {file}: {error.strerror}") from None
    if readers := find_readers(status):
        raise ConfigurationError(
            f"the file {file} on {host} has a secret that {readers} can read",
            hint="make it one for its owner alone (chmod 400): defaultMode: 0400 of a volume in Kubernetes",
        )
    return content.decode(errors="surrogateescape").rstrip("\r\n") or None
