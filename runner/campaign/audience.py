"""The audience: every source of a campaign's recipients as one stream, each phone once."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from runner.campaign.audience_columns import find_columns
from runner.campaign.audience_rows import iterate_rows, leave_out_blank, read_inline
from runner.campaign.consent_record import ConsentChanges
from runner.campaign.invalid_rows import RowProblems
from runner.campaign.phone_column import PhoneColumn
from runner.campaign.recipients import FileRecipients, InlineRecipient, RecipientSource, Variables
from runner.campaign.source_table import open_source, read_header
from runner.campaign.table import TableProblemError
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date
    from pathlib import Path

    from runner.campaign.audience_rows import Entry
    from runner.campaign.consent_record import ConsentChange
    from runner.campaign.model import Campaign
    from runner.source.diagnostic import Diagnostic


RECIPIENT_PHONE = "recipient-phone-invalid"
EXCLUDED_PHONE = "exclude-phone-invalid"
_ROW_CODES = frozenset(
    {
        *(RECIPIENT_PHONE, "csv-row-width", "recipient-timezone-unknown"),
        *("recipient-region-unknown", "recipient-consent-date"),
    }
)
_UNCHANGED: Mapping[int, ConsentChange] = MappingProxyType({})


class Recipient(NamedTuple):
    """A person to text. A tuple: there may be a million of them.

    Attributes:
        phone: E.164.
        vars: template variables by name, blank ones left out.
        source: which of the campaign's sources named the phone first, counted from 0.
        file: where that is.
        line: the line in `file`, from 1.
        timezone: an IANA name; None to go by the region, or the number.
        region: where they are by law, as `check_region` returned it; None to go by the number.
        has_consent: whether it is on record by the last row that says anything of it; None if none does. Only
            read where the campaign's policy requires it.
        consent_day: when they agreed; None if no dates are kept. It may not have come yet.
    """

    phone: str
    vars: Variables
    source: int
    file: Path
    line: int
    timezone: str | None = None
    region: str | None = None
    has_consent: bool | None = None
    consent_day: date | None = None


@dataclass(slots=True)
class AudienceTally:
    """What a pass over the audience has counted.

    Attributes:
        rows: `duplicates` + `invalid` + recipients, where there are no errors.
        duplicates: rows whose phone was mentioned before.
        invalid: rows that are left out because they cannot be read.
    """

    rows: int = 0
    duplicates: int = 0
    invalid: int = 0


def find_consent_changes(campaign: Campaign, last_day: date | None) -> Mapping[int, ConsentChange]:
    """Pass over an audience and return whose last row says something else of consent than their first.

    Args:
        campaign: whose audience; nothing is read where its policy does not ask for consent.
        last_day: the last day on which somebody can have agreed; None where any day will do.

    Returns:
        The changes, by phone as a number.
    """
    changes = ConsentChanges(last_day)
    if campaign.policy.consent != "required":
        return changes.found
    unseen = Problems()
    for index, source in enumerate(campaign.recipients):
        rows = RowProblems(source, unseen)
        phones = open_phone_column(source, RECIPIENT_PHONE, rows)
        entries = _iterate_entries(source, frozenset(), rows, unseen, reads_consent=True)
        for written, line, *_, consent in entries:
            phone = phones.read(written, line)
            if phone is not None and not rows.is_left_out(line):
                changes.add(int(phone), consent, index, line)
    return changes.found


def iterate_audience(
    campaign: Campaign,
    names: frozenset[str],
    problems: Problems,
    tally: AudienceTally,
    changes: Mapping[int, ConsentChange] = _UNCHANGED,
) -> Iterator[Recipient]:
    """Yield the campaign's recipients in the order of its files; the first mention of a phone wins.

    Memory grows with the distinct phones, by some 70 bytes each, not with the rows.

    Args:
        campaign: whose audience.
        names: the variables that its texts refer to; other columns are not looked at.
        problems: receives what is wrong with rows and files. A row that cannot be read, or whose phone is
            refused, is left out. One whose time zone, region or consent is wrong is yielded without it, so
            that what its texts lack is found too, unless its source skips such rows.
        tally: counts along.
        changes: whose last row says something else of consent, as `find_consent_changes` returns it: that
            counts, and is noted. Without it, what first rows say.
    """
    seen: set[int] = set()
    shared = leave_out_blank(campaign.vars)
    for index, source in enumerate(campaign.recipients):
        rows = RowProblems(source, problems)
        phones = open_phone_column(source, RECIPIENT_PHONE, rows)
        read_phone, file = phones.read, phones.file
        entries = _iterate_entries(
            source, names, rows, problems, reads_consent=campaign.policy.consent == "required"
        )
        for written, line, given, timezone, region, own in rows.iterate(entries):
            phone = read_phone(written, line)
            if phone is None or rows.is_left_out(line):
                continue
            number = int(phone)
            if number not in seen:
                seen.add(number)
                variables = {**shared, **given} if shared else given
                change = changes.get(number)
                if change is not None:
                    problems.add(change.note(campaign.recipients, file, line))
                consent = own if change is None else change.consent
                yield Recipient._make((phone, variables, index, file, line, timezone, region, *consent))
            else:
                tally.duplicates += 1
        tally.rows += rows.rows
        tally.invalid += rows.invalid
        phones.note_repairs()


def list_invalid(campaign: Campaign) -> Iterator[Diagnostic]:
    """Yield what is wrong with each row that cannot be read, be it refused or left out; not the first alone.

    Args:
        campaign: whose recipients are read.
    """
    found = _Found()
    for _ in iterate_audience(campaign, frozenset(), found, AudienceTally()):
        yield from found.take()
    yield from found.take()


class _Found(Problems):
    """Keeps what is wrong with rows until it is taken, however much it is."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[Diagnostic] = []

    def add(self, diagnostic: Diagnostic) -> None:
        if diagnostic.code in _ROW_CODES:
            self._waiting.append(diagnostic)

    def take(self) -> list[Diagnostic]:
        taken, self._waiting = self._waiting, []
        return taken


def read_excluded(campaign: Campaign, problems: Problems) -> frozenset[str]:
    """Return the phones, in E.164 form, that the campaign never texts.

    Args:
        campaign: whose `exclude` is read.
        problems: receives phones that cannot be read: an exclusion that is silently lost is a text too many.
    """
    excluded = set()
    for source in campaign.exclude:
        phones = open_phone_column(source, EXCLUDED_PHONE, problems)
        for written, line, *_ in _iterate_entries(
            source, frozenset(), problems, problems, reads_consent=False
        ):
            phone = phones.read(written, line)
            if phone is not None:
                excluded.add(phone)
        phones.note_repairs()
    return frozenset(excluded)


def known_names(campaign: Campaign, source: int) -> list[str]:
    """Return the variables that recipients of a source can have, for messages about unknown ones."""
    entry = campaign.recipients[source]
    names = list(campaign.vars)
    if isinstance(entry, InlineRecipient):
        return names + list(entry.vars)
    return names + read_header(entry)


def open_phone_column(source: RecipientSource, code: str, problems: Problems) -> PhoneColumn:
    """Return what reads the phones of one source.

    Args:
        source: where they stand.
        code: of the problems that are found.
        problems: receives them.
    """
    is_texted = code == RECIPIENT_PHONE
    if isinstance(source, FileRecipients):
        return PhoneColumn(
            source.path, 1, source.region, code, problems, unit=source.unit, is_texted=is_texted
        )
    place = source.position
    return PhoneColumn(place.file, place.column, source.country, code, problems, is_texted=is_texted)


def _iterate_entries(
    source: RecipientSource, names: frozenset[str], rows: Problems, files: Problems, *, reads_consent: bool
) -> Iterator[Entry]:
    if isinstance(source, FileRecipients):
        return _iterate_rows(source, names, rows, files, reads_consent=reads_consent)
    return iter([read_inline(source, rows, reads_consent=reads_consent)])


def _iterate_rows(
    source: FileRecipients, names: frozenset[str], rows: Problems, files: Problems, *, reads_consent: bool
) -> Iterator[Entry]:
    try:
        with open_source(source, names) as table:
            files.extend(table.iterate_notes())
            columns = find_columns(source, table, files)
            if columns is not None:
                yield from iterate_rows(
                    table, columns, names, rows, country=source.region, reads_consent=reads_consent
                )
    except TableProblemError as error:
        files.add(error.diagnostic)
