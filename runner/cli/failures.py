"""Campaigns that fail on their own, while the others of the same command go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from runner.cli.campaigns import describe_errors, load_campaigns, show_path
from runner.cli.console import Markdown, markdown_table
from runner.cli.diagnostics import InvalidCampaignError, refuse_errors, show_problems
from runner.cli.inert import inert
from runner.cli.job_summary import append_summary
from runner.errors import OnHoldError, RunnerError
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.cli.campaigns import Loaded
    from runner.cli.scope import Scope

_Result = TypeVar("_Result")
_GRAVE = (4, 5, 7)
"""Exit codes that are those of the whole command, the gravest first, however many others went well."""
_PARTLY_DONE = 3


@dataclass(frozen=True, slots=True)
class Failure:
    """A campaign that was left out.

    Attributes:
        file: the campaign's.
        name: the campaign's; None if it could not be read.
        error: why.
    """

    file: Path
    name: str | None
    error: RunnerError


class Failures:
    """What went wrong with single campaigns of a command.

    If the command is about one campaign alone, its error ends the command. Of several, the error is shown,
    the campaign is left out of the rest, and the others go on. Errors that concern all campaigns end the
    command in any case.

    Args:
        is_apart: false for a command that is about all campaigns or none.

    Attributes:
        problems: what was found in campaign files and has been shown.
        claimed: the names of all campaigns that were loaded or left out, with those that they had before.
    """

    def __init__(self, *, is_apart: bool = True) -> None:
        self._is_apart = is_apart
        self._found: dict[Path, Failure] = {}
        self._total = 0
        self._is_known_pause: Callable[[Path], bool] = lambda _: False
        self.problems = Problems()
        self.claimed: frozenset[str] = frozenset()

    @property
    def is_total(self) -> bool:
        """Whether no campaign is left."""
        return len(self._found) == self._total

    @property
    def total(self) -> int:
        """How many campaigns the command is about."""
        return self._total

    @property
    def errors(self) -> dict[Path, RunnerError]:
        """Why campaigns were left out, by their files."""
        return {failure.file: failure.error for failure in self._found.values()}

    def expect(self, total: int) -> None:
        """Say how many campaigns the command is about."""
        self._total = total

    def expect_more(self, number: int) -> None:
        """Say that the command is about further campaigns."""
        self._total += number

    def accept_pauses(self, is_known: Callable[[Path], bool]) -> None:
        """Say which campaigns, by their files, are known to be paused: that is no failure then."""
        self._is_known_pause = is_known

    def load(self, scope: Scope, problems: Problems | None = None) -> tuple[Campaign, ...]:
        """Load campaigns, and return those to go on with.

        Args:
            scope: says which.
            problems: receives warnings that are not shown yet; None to show them now. If there are errors,
                all is shown at once.

        Raises:
            InvalidCampaignError: there are errors that end the command; they have been shown.
            RunnerError: there is no campaign.
        """
        found = Problems()
        loaded = load_campaigns(scope.paths, scope.allowed, found)
        loaded.say_if_none(quiet=scope.quiet)
        self.claimed = loaded.claimed
        self.expect(len(loaded.files))
        if loaded.faults.keys() - self._found.keys():
            self._leave_out_faulty(loaded, found, quiet=scope.quiet)
        elif not loaded.faults and problems is not None:
            problems.merge(found)
        elif not loaded.faults:
            self._show(found, quiet=scope.quiet)
        return tuple(campaign for campaign in loaded.campaigns if campaign.file not in self._found)

    def _leave_out_faulty(self, loaded: Loaded, found: Problems, *, quiet: bool) -> None:
        # Imported here: most commands that meet no errors plan nothing.
        from runner.cli.audience_check import find_audience_problems

        is_apart = self._keeps_apart(InvalidCampaignError(found))
        for campaign in loaded.campaigns:
            # Who has to mend one campaign hears of all that is wrong; the others are looked at anyway.
            if not is_apart or campaign.file in loaded.faults:
                find_audience_problems(campaign, found)
        if not is_apart:
            refuse_errors(found, quiet=quiet)
        self._show(found, quiet=quiet)
        names = {campaign.file: campaign.name for campaign in loaded.campaigns}
        for file, error in loaded.faults.items():
            self.add(file, names.get(file), error)

    def conclude_check(
        self, problems: Problems, invalid: Iterable[tuple[Campaign, Problems]], *, quiet: bool
    ) -> None:
        """Show what was found while campaigns were planned, and leave out those that are invalid.

        Args:
            problems: everything.
            invalid: campaigns, each with what was found in it.
            quiet: show nothing but errors.

        Raises:
            InvalidCampaignError: there are errors that end the command; they have been shown.
        """
        if not self._keeps_apart(InvalidCampaignError(problems)):
            self.problems.merge(problems)
            refuse_errors(problems, quiet=quiet)
            return
        self._show(problems, quiet=quiet)
        for campaign, own in invalid:
            self.add(campaign.file, campaign.name, describe_errors(campaign.file, own.error_count))

    def attempt(self, campaign: Campaign, work: Callable[[], _Result]) -> _Result | None:
        """Do something for one campaign; None if it is left out from now on.

        Raises:
            RunnerError: it concerns the others as well, or there are none.
        """
        return self.attempt_file(campaign.file, campaign.name, work)

    def attempt_file(self, file: Path, name: str | None, work: Callable[[], _Result]) -> _Result | None:
        """Do the same for a campaign of which only the file is known, or the lockfile."""
        try:
            return work()
        except RunnerError as error:
            self.add(file, name, error)
            return None

    def add(self, file: Path, name: str | None, error: RunnerError) -> None:
        """Leave a campaign out, and show why.

        Raises:
            RunnerError: the error ends the command.
        """
        if not self._keeps_apart(error) and not self._is_accepted(file, error):
            raise error
        if file in self._found:
            return
        self._found[file] = Failure(file, name, error)
        is_named = name is None or error.message.startswith((f"{name}:", f"{name} ", show_path(file)))
        words = error.message if is_named else f"{name}: {error.message}"
        click.echo(f"{click.style('Left out:', fg='red', bold=True)} {words}", err=True)
        if error.hint:
            click.echo(f"  {error.hint}", err=True)

    def _is_accepted(self, file: Path, error: RunnerError) -> bool:
        return isinstance(error, OnHoldError) and self._is_known_pause(file)

    def _keeps_apart(self, error: RunnerError) -> bool:
        return self._is_apart and self._total > 1 and error.is_of_one_campaign

    def _show(self, problems: Problems, *, quiet: bool) -> None:
        show_problems(problems, quiet=quiet)
        self.problems.merge(problems)

    def find_exit_code(self, code: int | None) -> int:
        """Return the command's exit code: the gravest.

        Args:
            code: of the campaigns that were not left out; None if there are none. To do nothing where
                nothing is wrong is to do it well.
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
        for grave in _GRAVE:
            if grave in codes:
                return grave
        if len(codes) == 1:
            return codes.pop()
        return 1 if codes.isdisjoint((0, _PARTLY_DONE)) else _PARTLY_DONE

    def as_json(self) -> dict[str, Any]:
        """Return what a JSON document says of campaigns that were left out."""
        return {
            "failures": [
                {
                    "campaign": failure.name,
                    "file": show_path(failure.file),
                    "exit_code": failure.error.exit_code,
                    "message": failure.error.message,
                    "hint": failure.error.hint,
                }
                for failure in self._found.values()
            ]
        }

    def markdown(self) -> str:
        """Return a table of the campaigns that were left out; empty if none were."""
        rows = [
            [
                Markdown(inert(cell))
                for cell in (show_path(failure.file), failure.error.message, failure.error.hint or "")
            ]
            for failure in self._found.values()
        ]
        return markdown_table(("left out", "why", "what to do"), rows) if rows else ""

    def write(self, format_: str) -> None:
        """Write that table where a format has its Markdown."""
        text = self.markdown()
        if text and format_ == "markdown":
            click.echo(f"\n{text}", nl=False)
        elif text and format_ == "github":
            append_summary(f"\n{text}")
