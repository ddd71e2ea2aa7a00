"""The errors that users can meet, each with its exit code; docs/reference/exit-codes.md lists the codes."""

from __future__ import annotations

import os
import re
from typing import ClassVar

_SYSTEM_FAULT = re.compile(r'"errno":"(\d+)"')


def write_install_hint(extra: str) -> str:
    """Return the remedy for a missing extra: the package is on no index, so it is installed from a clone."""
    return f"install the extra `{extra}`: in the clone, `pipx install --force '.[{extra}]'`"


LINE_BREAK_HINT = "set it again without: in a shell `printf %s` adds no line break, as `echo` does"
"""The hint for a secret that ends with a line break, as one copied from a file does."""


class RunnerError(Exception):
    """A failure that a user can understand and mend.

    Args:
        message: the fault and its place, as a sentence without a full stop at its end.
        hint: the remedy.

    Attributes:
        exit_code: the exit code of a command that fails with it.
        is_of_one_campaign: whether a command can go on with its other campaigns.
    """

    exit_code: ClassVar[int] = 1
    is_of_one_campaign: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(RunnerError):
    """A mistake on the command line."""

    exit_code = 64


class ConfigurationError(RunnerError):
    """The environment or `targets.yaml` doesn't say clearly where to send."""


class ServiceError(RunnerError):
    """A service that cannot be reached, refuses, or answers something unreadable."""


class UnusableListError(ServiceError):
    """A list of the service that cannot be read or proves nothing; other campaigns have their own."""

    is_of_one_campaign = True


class CampaignError(RunnerError):
    """A fault of one campaign: its file, its audience, or its record."""

    is_of_one_campaign = True


class SealedAudienceError(CampaignError):
    """An audience that cannot be read here: it is encrypted, and there is no key."""


class LockfileError(CampaignError):
    """A lockfile that cannot be read or written, or was written with another key."""


class MissingKeyError(LockfileError, ConfigurationError):
    """A missing key for recipients' fingerprints."""

    is_of_one_campaign = False


class SuppressionsError(RunnerError):
    """A file of suppressions that cannot be read or written, or proves nothing."""


class LedgerError(RunnerError):
    """A ledger that cannot be opened, read or written."""


class StorageError(RunnerError):
    """A file or folder of a cluster's work that cannot be read or written."""


class PlanChangedError(RunnerError):
    """A saved plan that no longer matches the texts to be sent."""


class LimitError(RunnerError):
    """A plan that breaks a safety limit or policy of the campaign or the target."""

    exit_code = 5
    is_of_one_campaign = True


class PausedError(RunnerError):
    """A campaign that a person has paused."""

    exit_code = 7
    is_of_one_campaign = True


class RunLockedError(RunnerError):
    """A campaign that another run is sending."""

    exit_code = 6
    is_of_one_campaign = True


class StateLockedError(RunLockedError):
    """A state remote, common to all campaigns, that another run holds."""

    is_of_one_campaign = False


class UnknownOutcomesError(RunnerError):
    """Launches whose outcome nobody knows, of a campaign that cannot be planned."""

    exit_code = 4


class UnclearNameError(RunnerError):
    """A campaign, message or target that looks new, and may have another name on record."""

    exit_code = 4
    is_of_one_campaign = True


class InterruptedRunError(RunnerError):
    """A run that the user stopped; everything that was sent is recorded."""

    exit_code = 130


def describe_fault(error: Exception) -> str:
    """Return the first line of DuckDB's error; if the system is at fault, the system's own words."""
    said = " ".join(str(error).partition("\n")[0].split())
    # As `{"exception_type":"IO", …, "errno":"28"}`.
    found = _SYSTEM_FAULT.search(said)
    return os.strerror(int(found[1])) if found else said
