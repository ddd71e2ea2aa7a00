"""The people of one partition, as they stand in the files: each once, by their first mention.

All rows of a phone are in one partition, so that the last one's consent is known there, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.campaign.audience import Recipient
from runner.campaign.audience_rows import leave_out_blank
from runner.campaign.consent_record import Consent, ConsentChanges
from runner.campaign.recipients import InlineRecipient
from runner.cluster.columns import read_consents, read_numbers, read_partition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date

    from runner.campaign.consent_record import ConsentChange
    from runner.campaign.model import Campaign
    from runner.campaign.recipients import Variables
    from runner.cluster.columns import RowColumns
    from runner.cluster.folder import SharedFolder
    from runner.source.diagnostic import Problems

_PLACE_BITS = 40
"""Of a place: more lines than a file has."""


class PartitionAudience:
    """The people of one partition.

    Args:
        folder: which has the scattered rows.
        campaign: whose audience.
        names: the variables of the rows, sorted.
        files: the scattered slices, in the order of the audience.
        partition: which.

    Attributes:
        duplicates: rows whose phone was mentioned before, as far as the people were yielded.
        slice_number: the place of the slice of who was yielded last.
    """

    def __init__(
        self,
        folder: SharedFolder,
        campaign: Campaign,
        names: Sequence[str],
        files: Sequence[str],
        partition: int,
    ) -> None:
        self._folder = folder
        self._campaign = campaign
        self._names = names
        self._files = files
        self._partition = partition
        self.duplicates = 0
        self.slice_number = 0

    def iterate_people(self, last_day: date | None, problems: Problems) -> Iterator[Recipient]:
        """Yield the people in the order of the audience.

        Args:
            last_day: the last day on which somebody can have agreed; None where any day will do.
            problems: receives notes of whose last row says something else of consent than their first.
        """
        changes = self._find_consent_changes(last_day)
        shared = leave_out_blank(self._campaign.vars)
        sources = self._campaign.recipients
        places = [
            source.position.file if isinstance(source, InlineRecipient) else source.path for source in sources
        ]
        seen: set[int] = set()
        for slice_number, name in enumerate(self._files):
            rows = self._read(name)
            self.slice_number = slice_number
            given = self._iterate_variables(rows)
            own = zip(*rows[:-1], given, strict=True)
            for number, line, source, zone, region, has_consent, day, variables in own:
                if number in seen:
                    self.duplicates += 1
                    continue
                seen.add(number)
                change = changes.get(number)
                if change is not None:
                    problems.add(change.note(sources, places[source], line))
                consent = (has_consent, day) if change is None else change.consent
                entire = {**shared, **variables} if shared else variables
                place = places[source]
                yield Recipient._make((f"+{number}", entire, source, place, line, zone, region, *consent))

    def find_place(self, last: Recipient) -> int:
        """Return the place in the audience of who was yielded last: of later people it is greater, anywhere.

        Args:
            last: who that was.
        """
        # Several recipients of the campaign file may stand in one line of it.
        is_inline = isinstance(self._campaign.recipients[last.source], InlineRecipient)
        return (self.slice_number << _PLACE_BITS) + (last.source if is_inline else last.line)

    def list_phones(self) -> list[str]:
        """Return the phones of all rows, in no order, each once."""
        numbers = {number for name in self._files for number in self._read_numbers(name)}
        return [f"+{number}" for number in numbers]

    def _find_consent_changes(self, last_day: date | None) -> Mapping[int, ConsentChange]:
        changes = ConsentChanges(last_day)
        for name in self._files if self._campaign.policy.consent == "required" else ():
            with self._folder.open(name) as file:
                for number, consent, day, source, line in read_consents(file, self._partition):
                    changes.add(number, Consent(consent, day), source, line)
        return changes.found

    def _read(self, name: str) -> RowColumns:
        with self._folder.open(name) as file:
            return read_partition(file, self._partition)

    def _read_numbers(self, name: str) -> list[int]:
        with self._folder.open(name) as file:
            return read_numbers(file, self._partition)

    def _iterate_variables(self, rows: RowColumns) -> Iterator[Variables]:
        names = self._names
        if not rows.texts:
            # Texts refer to none; or the rows are the campaign file's own, whose values may be any.
            own = [_own_variables(source) for source in self._campaign.recipients]
            return (own[source] for source in rows.sources)
        if any(None in column for column in rows.texts):
            return (
                {name: text for name, text in zip(names, texts, strict=True) if text is not None}
                for texts in zip(*rows.texts, strict=True)
            )
        return (dict(zip(names, texts, strict=True)) for texts in zip(*rows.texts, strict=True))


def _own_variables(source: object) -> Variables:
    return leave_out_blank(source.vars) if isinstance(source, InlineRecipient) else {}


def read_excluded_numbers(folder: SharedFolder, files: Sequence[str], partition: int) -> frozenset[str]:
    """Return the phones, in E.164 form, of one partition that are never texted.

    Args:
        folder: which has the scattered exclusion lists.
        files: their names.
        partition: which.
    """
    found: set[int] = set()
    for name in files:
        with folder.open(name) as file:
            found.update(read_numbers(file, partition))
    return frozenset(f"+{number}" for number in found)
