"""Every error that a user can meet, each with its exit code.

The codes are those of the command-line contract; the README lists them.
"""

from __future__ import annotations

from typing import ClassVar


class RunnerError(Exception):
    """Something went wrong that a user can understand and mend.

    Args:
        message: what is wrong and where, as a sentence without a full stop at its end.
        hint: what to do about it.

    Attributes:
        exit_code: how a command ends that meets it.
        is_of_one_campaign: whether only one campaign is concerned: a command goes on with its others.
    """

    exit_code: ClassVar[int] = 1
    is_of_one_campaign: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(RunnerError):
    """The command line itself is wrong."""

    exit_code = 64


class ConfigurationError(RunnerError):
    """The environment or `targets.yaml` doesn't say clearly where to send."""


class ServiceError(RunnerError):
    """The service cannot be reached, refuses, or answers something that cannot be read."""


class UnusableListError(ServiceError):
    """A list of the service's cannot be read, or proves nothing; other campaigns have lists of their own."""

    is_of_one_campaign = True


class CampaignError(RunnerError):
    """Something is wrong with one campaign: its file, its audience, or its record."""

    is_of_one_campaign = True


class LockfileError(CampaignError):
    """A lockfile cannot be read, was written with another key, or cannot be written."""


class MissingKeyError(LockfileError, ConfigurationError):
    """The key that recipients' fingerprints are made with is not set."""

    is_of_one_campaign = False


class SuppressionsError(RunnerError):
    """The file that keeps who is not to be texted cannot be read, proves nothing, or cannot be written."""


class LedgerError(RunnerError):
    """The ledger cannot be opened, read or written."""


class PlanChangedError(RunnerError):
    """A saved plan no longer describes what would be sent."""


class LimitError(RunnerError):
    """A safety limit or policy of the campaign or the target stops the plan."""

    exit_code = 5
    is_of_one_campaign = True


class OnHoldError(RunnerError):
    """A person has paused the campaign."""

    exit_code = 7
    is_of_one_campaign = True


class RunLockedError(RunnerError):
    """Another run is sending the same campaign."""

    exit_code = 6
    is_of_one_campaign = True


class StateLockedError(RunLockedError):
    """Another run holds the state remote, which all campaigns share."""

    is_of_one_campaign = False


class InterruptedRunError(RunnerError):
    """The user stopped the run; everything that was sent is recorded."""

    exit_code = 130
