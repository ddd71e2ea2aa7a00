"""Failures of single campaigns, while the others of the same command go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from runner.document import FailedCampaign
from runner.errors import PausedError, RunnerError, SealedAudienceError
from runner.source.diagnostic import Problems
from runner.wording import write_table
from runner.workflow.campaigns import (
    InvalidCampaignError,
    describe_errors,
    load_campaigns,
    refuse_errors,
    show_path,
)
from runner.workflow.observer import show_problems, tell_left_out, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.source.diagnostic import Diagnostic
    from runner.workflow.campaigns import Loaded
    from runner.workflow.scope import Scope


_Result = TypeVar("_Result")
GRAVE = (4, 5, 7)
"""Exit codes that end up as the command's, the gravest first."""
PARTLY_DONE = 3
"""The exit code if some of it was done."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A campaign that was left out; `name` is None if it could not be read."""

    file: Path
    name: str | None
    error: RunnerError


class Failures:
    """Failures of single campaigns of a command.

    The error of an only campaign ends the command. Of several campaigns, the failed one is left out with its
    error shown. Errors that concern all campaigns always end the command. With `is_tolerant` an error of any
    campaign leaves it out, also the only one.

    `total` is the number of the command's campaigns; `problems` are those found and shown so far; `claimed`
    has the names, also former ones, of all campaigns that were loaded or left out; `campaigns` are the loaded
    ones. With `accepts_sealed` campaigns whose audience cannot be read here are no failures.
    """

    def __init__(self, *, is_tolerant: bool = False, accepts_sealed: bool = False) -> None:
        self.is_tolerant = is_tolerant
        self._found: dict[Path, Failure] = {}
        self._accepts_sealed = accepts_sealed
        self.total = 0
        self._is_known_pause: Callable[[Path], bool] = lambda _: False
        self.problems = Problems()
        self.claimed: frozenset[str] = frozenset()
        self.campaigns: tuple[Campaign, ...] = ()

    @property
    def is_total(self) -> bool:
        """True if no campaign is left."""
        return len(self._found) == self.total

    @property
    def errors(self) -> dict[Path, RunnerError]:
        """The errors of campaigns that were left out, by file."""
        return {failure.file: failure.error for failure in self._found.values()}

    @property
    def found(self) -> tuple[Failure, ...]:
        """The campaigns that were left out."""
        return tuple(self._found.values())

    @property
    def sealed(self) -> tuple[Campaign, ...]:
        """The campaigns that were left out since their audience cannot be read here."""
        errors = self.errors
        return tuple(one for one in self.campaigns if isinstance(errors.get(one.file), SealedAudienceError))

    def accept_pauses(self, is_known: Callable[[Path], bool]) -> None:
        """Accept pauses of campaigns that `is_known` names by file: they are no failures."""
        self._is_known_pause = is_known

    def load(
        self,
        scope: Scope,
        problems: Problems | None = None,
        *,
        needs_audience: bool = True,
        keeps_rules: bool = True,
    ) -> tuple[Campaign, ...]:
        """Load the campaigns of a scope, and return those without errors.

        Warnings go to `problems` if given; errors are shown at once, with all warnings. Unless
        `needs_audience`, a missing file of people is a warning; unless it `keeps_rules`, bounds of
        `targets.yaml` are left out.

        Raises:
            InvalidCampaignError: there are errors that end the command; they have been shown.
            RunnerError: there is no campaign.
        """
        found = Problems()
        loaded = load_campaigns(scope, found, needs_audience=needs_audience, keeps_rules=keeps_rules)
        loaded.say_if_none()
        self.claimed, self.campaigns = loaded.claimed, loaded.campaigns
        self.total = len(loaded.files)
        if loaded.faults.keys() - self._found.keys():
            self._leave_out_faulty(loaded, found)
        elif not loaded.faults and problems is not None:
            problems.merge(found)
        elif not loaded.faults:
            self._show(found)
        return tuple(campaign for campaign in loaded.campaigns if campaign.file not in self._found)

    def _leave_out_faulty(self, loaded: Loaded, found: Problems) -> None:
        # Imported here: the planner is slow to import, and most commands plan nothing.
        from runner.workflow.checking.validate import find_audience_problems

        is_apart = self._keeps_apart(InvalidCampaignError(found))
        for campaign in loaded.campaigns:
            # All problems are shown at once, so that a campaign can be repaired in one go.
            if not is_apart or campaign.file in loaded.faults:
                find_audience_problems(campaign, found)
        if not is_apart:
            refuse_errors(found)
        self._show(found)
        names = {campaign.file: campaign.name for campaign in loaded.campaigns}
        for file, error in loaded.faults.items():
            self.add(file, names.get(file), error)

    def conclude_check(self, problems: Problems, invalid: Iterable[tuple[Campaign, Problems]]) -> None:
        """Show problems found while planning, and leave out invalid campaigns.

        Raises:
            InvalidCampaignError: there are errors that end the command; they have been shown.
        """
        if not self._keeps_apart(InvalidCampaignError(problems)):
            self.problems.merge(problems)
            refuse_errors(problems)
            return
        self._show(problems)
        for campaign, own in invalid:
            self.add(campaign.file, campaign.name, describe_errors(campaign.file, own.error_count))

    def attempt(self, campaign: Campaign, work: Callable[[], _Result]) -> _Result | None:
        """Run `work` for one campaign; return None if the campaign is left out from now on."""
        return self.attempt_file(campaign.file, campaign.name, work)

    def attempt_file(self, file: Path, name: str | None, work: Callable[[], _Result]) -> _Result | None:
        """Run `work` for a campaign known only by its file or lockfile, like `attempt`."""
        try:
            return work()
        except RunnerError as error:
            self.add(file, name, error)
            return None

    def add(self, file: Path, name: str | None, error: RunnerError) -> None:
        """Leave a campaign out, and show its error."""
        if not self._keeps_apart(error) and not self._is_accepted(file, error):
            raise error
        if file in self._found:
            return
        self._found[file] = Failure(file, name, error)
        is_named = name is None or error.message.startswith((f"{name}:", f"{name} ", show_path(file)))
        words = error.message if is_named else f"{name}: {error.message}"
        tell_left_out(words, error)

    def end(self, error: RunnerError) -> None:
        """Leave all campaigns out for an error that concerns all of them; show it once."""
        warn(error.message, error.hint)
        for one in self.campaigns:
            self._found.setdefault(one.file, Failure(one.file, one.name, error))

    def _is_accepted(self, file: Path, error: RunnerError) -> bool:
        if self._accepts_sealed and isinstance(error, SealedAudienceError):
            return True
        return isinstance(error, PausedError) and self._is_known_pause(file)

    def _keeps_apart(self, error: RunnerError) -> bool:
        return self.is_tolerant or (self.total > 1 and error.is_of_one_campaign)

    def _show(self, problems: Problems) -> None:
        show_problems(problems)
        self.problems.merge(problems)

    def find_exit_code(self, code: int | None) -> int:
        """Return the command's gravest exit code, given that of the remaining campaigns (None for none).

        A command with nothing to do and no errors succeeds.
        """
        codes = {
            failure.error.exit_code
            for failure in self._found.values()
            if not self._is_accepted(failure.file, failure.error)
        }
        if code is not None:
            codes.add(code)
        if not codes:
            return 0
        for grave in GRAVE:
            if grave in codes:
                return grave
        if len(codes) == 1:
            return codes.pop()
        return 1 if codes.isdisjoint((0, PARTLY_DONE)) else PARTLY_DONE

    def describe(self) -> tuple[FailedCampaign, ...]:
        """Return the left-out campaigns for a document."""
        return tuple(
            FailedCampaign(
                one.name, show_path(one.file), one.error.exit_code, one.error.message, one.error.hint
            )
            for one in self._found.values()
        )

    def markdown(self) -> str:
        """Return a table of the campaigns that were left out; empty if none were."""
        rows = [
            (show_path(failure.file), failure.error.message, failure.error.hint or "")
            for failure in self._found.values()
        ]
        return write_table(("left out", "why", "what to do"), rows) if rows else ""


class HasFailures:
    """A result for several campaigns, some of which may have failed."""

    __slots__ = ()
    failures: Failures

    @property
    def left_out(self) -> tuple[Failure, ...]:
        """The campaigns that were left out, each with its error."""
        return self.failures.found


def write_problem_table(problems: Iterable[Diagnostic]) -> str:
    """Return a Markdown table of problems: place, fault, remedy."""
    rows = [
        (one.severity, f"{show_path(one.file)}:{one.line}:{one.column}", one.message, one.hint or "")
        for one in problems
    ]
    return write_table(("severity", "where", "what", "what to do"), rows)
