"""Columns of the audience that somebody names: to break a report down by, or to put into files of answers."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.campaign.audience import known_names
from runner.campaign.recipients import FileRecipients
from runner.campaign.table import fold_name
from runner.errors import CampaignError
from runner.source.diagnostic import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.model import Campaign
    from runner.campaign.recipients import Variables


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column of the audience, or a variable of recipients in the campaign file.

    Attributes:
        name: as the first source that has it writes it.
        spellings: as any source writes it.
    """

    name: str
    spellings: tuple[str, ...]

    def read(self, variables: Variables) -> str:
        """Return a recipient's value; empty if there is none."""
        return next((str(variables[one]) for one in self.spellings if one in variables), "")


def find_named_column(campaign: Campaign, name: str) -> NamedColumn:
    """Return a column, found without regard to case, blanks, `_` and `-`, as columns are everywhere.

    Args:
        campaign: whose audience.
        name: as somebody writes it.

    Raises:
        CampaignError: no source of the audience has it, or it has phones.
    """
    names = [one for source in range(len(campaign.recipients)) for one in known_names(campaign, source)]
    phones = {fold_name(one.phone_column) for one in campaign.recipients if isinstance(one, FileRecipients)}
    wanted = fold_name(name)
    if wanted in phones:
        raise CampaignError("that column has phone numbers, which no report shows")
    spellings = tuple(dict.fromkeys(one for one in names if fold_name(one) == wanted))
    if spellings:
        return NamedColumn(spellings[0], spellings)
    shown = sorted({one for one in names if fold_name(one) not in phones})
    close = difflib.get_close_matches(name, shown, n=1)
    raise CampaignError(
        f"the audience of {campaign.name} has no such column",
        hint=f"did you mean {close[0]}?" if close else f"its columns: {', '.join(shown) or 'none'}",
    )


def find_export_problems(campaign: Campaign) -> Iterator[Diagnostic]:
    """Yield which of the campaign's `export_columns` its audience does not have.

    Args:
        campaign: its files can be read.
    """
    for name, place in campaign.export_columns:
        try:
            find_named_column(campaign, name)
        except CampaignError as error:
            words = f"`export_columns` names `{name}`: {error.message}"
            hint = error.hint or "files of answers have phones with --include-pii"
            yield Diagnostic(
                "error", "export-column-unknown", words, place.file, place.line, place.column, hint
            )
