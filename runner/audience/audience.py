"""The audience: every source of a campaign's recipients as one stream, each phone once."""

from __future__ import annotations

import difflib
from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from runner.audience.consent import RowConsent, find_changes
from runner.audience.findings import Findings
from runner.audience.rows import PhoneColumn, RowReader, leave_out_blank, read_header
from runner.audience.sealing import check_rows, require_key
from runner.audience.table import normalize_name
from runner.campaign.model import FileRecipients, InlineRecipient, RecipientSource, Variables
from runner.errors import CampaignError
from runner.source.diagnostic import Diagnostic, Problems
from runner.timing.dates import CellTime, read_time
from runner.timing.legal_hours import locate
from runner.timing.zone import find_zones, load_zone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from runner.audience.consent import ConsentChange
    from runner.campaign.model import Campaign

Role = Literal["recipients", "exclude"]
"""The list of the campaign that a source stands in."""
_CODES: dict[Role, str] = {"recipients": "recipient-phone-invalid", "exclude": "exclude-phone-invalid"}
Row = tuple[int, str, Variables, str | None, str | None, str | None, RowConsent]
"""A row's line, phone in E.164 form, own variables, time zone, region, language, and consent."""
PlacedRow = tuple[int, Row]
"""A row with its source's index in the campaign."""
_LANGUAGE = "language"
_UNCHANGED: Mapping[int, ConsentChange] = MappingProxyType({})
_NO_DATES: Mapping[int, tuple[Recipient, ...]] = MappingProxyType({})


class Recipient(NamedTuple):
    """A person to text. A tuple, since there may be a million of them.

    Attributes:
        phone: E.164.
        vars: template variables by name, blank ones left out.
        source: the index of the campaign's first source that has the phone.
        line: the line in `file`, from 1.
        timezone: an IANA name; None to go by the region, or the number.
        region: the legal region from `check_region`; None to go by the number.
        has_consent: consent by the last row that states it; None if none does, or the policy does not require
            it.
        consent_day: the day of consent, perhaps in the future; None if no dates are kept.
        consent_until: the last day on which their consent counts; None if it does not age.
        language: of the texts to them, as in the campaign's `languages`; None if it has none.
        others: the rows of the same phone with other dates, where messages go by dates.
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
    consent_until: date | None = None
    language: str | None = None
    others: tuple[Recipient, ...] = ()


_EASTMOST = "Pacific/Kiritimati"
"""The easternmost time zone, where days begin first (IANA time zone database)."""
_DAYS_AT_ONCE = 2
"""The most days that it can be since yesterday anywhere."""


@dataclass(frozen=True, slots=True)
class ConsentDays:
    """The days of consent that count, as of a moment (`now`, aware).

    Attributes:
        last: the latest valid day of consent: today, where today is latest.
        zone: for people of unknown time zone, the campaign's, if it has one (IANA).
    """

    now: datetime
    last: date
    zone: str | None

    @classmethod
    def of(cls, now: datetime, zone: str | None) -> Self:
        """Return the days as of a moment."""
        try:
            return cls(now, now.astimezone(load_zone(_EASTMOST)).date(), zone)
        except OverflowError:  # in the last hours of the year 9999: no day is after that
            return cls(now, date.max, zone)

    def find_flaw(self, recipient: Recipient) -> str | None:
        """Return why a recipient's consent does not count today; None if it does, or if there is none."""
        day, until = recipient.consent_day, recipient.consent_until
        if day is None:
            return None
        if day > self.last:
            return f"their consent is dated in the future, after {self.last}"
        if until is not None and until < self.last and self._find_today(recipient, until) > until:
            return f"their consent is older than {(until - day).days:,} days"
        return None

    def _find_today(self, recipient: Recipient, until: date) -> date:
        """Return the day on a recipient's clocks, the later one of two; others will do if it is long over."""
        if (self.last - until).days > _DAYS_AT_ONCE:
            return self.last
        found = locate(recipient.phone, recipient.timezone, recipient.region)
        zones = found.zones or (self.zone or "UTC",)
        return max(self.now.astimezone(load_zone(zone)).date() for zone in zones)


@dataclass(slots=True)
class AudienceTally:
    """The counts of a pass over the audience.

    Attributes:
        rows: `duplicates` + `invalid` + recipients, if there are no errors.
        duplicates: rows with a phone of an earlier row.
        invalid: rows that are left out because they cannot be read.
        landlines: rows with a number that surely gets no texts, where such are warned of.
        blanked: cells for texts that hold a program's word for nothing, read as blank.
    """

    rows: int = 0
    duplicates: int = 0
    invalid: int = 0
    landlines: int = 0
    blanked: int = 0

    def merge(self, other: AudienceTally) -> None:
        """Add the counts of other rows."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def find_consent_changes(
    campaign: Campaign, last_day: date | None, rows: Iterable[PlacedRow] | None = None
) -> Mapping[int, ConsentChange]:
    """Return the phones, as numbers, whose last row has another consent than their first.

    Nothing is read if the policy does not require consent. `last_day` is the latest valid day of consent;
    None if any day will do. `rows` are those of all recipients; None to read them.
    """
    if campaign.policy.consent != "required":
        return {}
    if rows is None:
        rows = read_recipient_rows(campaign, frozenset(), Problems(), AudienceTally())
    return find_changes(((int(row[1]), row[-1], index, row[0]) for index, row in rows), last_day)


def list_dates(recipient: Recipient, columns: Iterable[str]) -> tuple[str, ...]:
    """Return the dates of a row that messages go by, the same for each way to write them."""
    zones = (recipient.timezone,) if recipient.timezone else find_zones(recipient.phone)

    def write(cell: CellTime | object) -> str:
        if not isinstance(cell, CellTime):
            return ""
        # In one time zone a time with an offset may be the same as one without.
        return cell.canonical if len(zones) != 1 else str(cell.find_moments(zones[0])[0])

    return tuple(write(read_time(str(recipient.vars.get(name, "")))) for name in columns)


def find_other_dates(campaign: Campaign, people: Iterable[Recipient]) -> Mapping[int, tuple[Recipient, ...]]:
    """Return the rows with other dates than the first of their phones, by phone as a number.

    `people` are all rows in the order of the audience; they are not read if messages go by no dates.
    """
    columns, known = sorted(campaign.date_columns), defaultdict[int, set[tuple[str, ...]]](set)
    found: dict[int, tuple[Recipient, ...]] = {}
    for one in people if columns else ():
        number, dates = int(one.phone), list_dates(one, columns)
        if known[number] and dates not in known[number] and any(dates):
            found[number] = (*found.get(number, ()), one)
        known[number].add(dates)
    return found


def describe_dates(recipient: Recipient) -> Iterator[Diagnostic]:
    """Yield a warning for each row of a recipient's phone that has another date than its first."""
    place = f"line {recipient.line} of {recipient.file.name}"
    for one in recipient.others:
        words = f"{place} has another date for the same phone: each is texted, one a run"
        hint = "if one of them is out of date, remove its row"
        yield Diagnostic("warning", "recipient-several-dates", words, one.file, one.line, 1, hint)


def iterate_audience(
    campaign: Campaign,
    names: frozenset[str],
    problems: Problems,
    tally: AudienceTally,
    changes: Mapping[int, ConsentChange] = _UNCHANGED,
    *,
    keeps_repeats: bool = False,
) -> Iterator[Recipient]:
    """Return an iterator of the campaign's recipients in the order of its files; a phone's first row wins.

    Memory grows by some 70 bytes with each distinct phone, not with the rows. Rows are left out if they
    cannot be read or their phone is refused. A row with a wrong time zone, region or consent is yielded
    without it, so that gaps in its texts are found too, unless its source skips such rows.

    Args:
        campaign: the campaign.
        names: the variables that its texts refer to; other columns are not read.
        problems: receives the problems of rows and files.
        tally: receives the counts.
        changes: from `find_consent_changes`: overrides the first rows' consent, and is noted.
        keeps_repeats: yield every row of a phone, in constant memory; `tally.duplicates` stays 0.
    """
    others: Mapping[int, tuple[Recipient, ...]] = {}
    if campaign.date_columns & names and not keeps_repeats:
        people = iterate_audience(campaign, names, Problems(), AudienceTally(), keeps_repeats=True)
        others = find_other_dates(campaign, people)
    rows = read_recipient_rows(campaign, names, problems, tally)
    return unite_rows(campaign, rows, problems, tally, changes, others, keeps_repeats=keeps_repeats)


def read_recipient_rows(
    campaign: Campaign, names: frozenset[str], problems: Problems, tally: AudienceTally
) -> Iterator[PlacedRow]:
    """Yield the rows of all recipients' sources; the parameters are those of `iterate_audience`."""
    for index in range(len(campaign.recipients)):
        for row in iterate_source(campaign, "recipients", index, names, problems, tally):
            yield index, row


def unite_rows(
    campaign: Campaign,
    rows: Iterable[PlacedRow],
    problems: Problems,
    tally: AudienceTally,
    changes: Mapping[int, ConsentChange] = _UNCHANGED,
    others: Mapping[int, tuple[Recipient, ...]] = _NO_DATES,
    *,
    keeps_repeats: bool = False,
) -> Iterator[Recipient]:
    """Yield the recipients that rows are of, each by the first row of its phone (see `iterate_audience`)."""
    seen: set[int] = set()
    shared = leave_out_blank(campaign.vars)
    files = [
        one.path if isinstance(one, FileRecipients) else one.position.file for one in campaign.recipients
    ]
    for index, (line, phone, given, timezone, region, language, own) in rows:
        number = int(phone)
        if number in seen:
            tally.duplicates += 1
            continue
        if not keeps_repeats:
            seen.add(number)
        variables = {**shared, **given} if shared else given
        if (change := changes.get(number)) is not None:
            problems.add(change.note(campaign.recipients, files[index], line))
        consent = own if change is None else change.consent
        places = index, files[index], line, timezone, region
        found = (phone, variables, *places, *consent, language, others.get(number, ()))
        recipient = tuple.__new__(Recipient, found)
        if recipient.others:
            problems.extend(describe_dates(recipient))
        yield recipient


def read_excluded(campaign: Campaign, problems: Problems) -> frozenset[str]:
    """Return the phones, in E.164 form, that the campaign never texts.

    A phone that cannot be read is an error, since a lost exclusion means an unwanted text.
    """
    tally = AudienceTally()
    return frozenset(
        phone
        for index in range(len(campaign.exclude))
        for _, phone, *_ in iterate_source(campaign, "exclude", index, frozenset(), problems, tally)
    )


def known_names(campaign: Campaign, source: int) -> list[str]:
    """Return the variables of a source's recipients, for messages about unknown ones."""
    entry = campaign.recipients[source]
    names = list(campaign.vars)
    if isinstance(entry, InlineRecipient):
        return names + list(entry.vars)
    return names + read_header(entry)


def list_sources(campaign: Campaign, role: Role) -> tuple[RecipientSource, ...]:
    """Return one of a campaign's lists of sources."""
    return campaign.recipients if role == "recipients" else campaign.exclude


def _open_findings(source: RecipientSource, problems: Problems) -> Findings:
    if isinstance(source, FileRecipients):
        return Findings(source.path, 1, problems, skips_invalid=source.skips_invalid)
    return Findings(source.position.file, source.position.column, problems)


def iterate_source(
    campaign: Campaign,
    role: Role,
    index: int,
    names: frozenset[str],
    problems: Problems,
    tally: AudienceTally,
) -> Iterator[Row]:
    """Yield the rows of one source whose phones can be read, with duplicates, in order.

    Args:
        campaign: the campaign.
        role: the list of the source.
        index: its index in that list.
        names: the variables to read.
        problems: receives the problems of rows and files.
        tally: receives the rows and those that are left out.
    """
    source = list_sources(campaign, role)[index]
    findings, is_texted = _open_findings(source, problems), role == "recipients"
    form = source.phone_form if isinstance(source, FileRecipients) else None
    landlines = campaign.policy.landlines if is_texted else None
    read_phone = PhoneColumn(findings, source.country, _CODES[role], landlines, form).read
    before, rows, found, is_left_out = problems.error_count, 0, 0, findings.is_left_out
    reads_consent = is_texted and campaign.policy.consent == "required"
    reader = RowReader(campaign, source, names, findings, reads_consent=reads_consent)
    for written, line, given, timezone, region, language, consent in reader.iterate():
        numbers = read_phone(written, line, region, timezone)
        if is_left_out(line):
            continue
        rows += 1
        found += len(numbers)
        for phone in numbers:
            yield line, phone, given, timezone, region, language, consent
    rows += findings.invalid
    if problems.error_count == before:
        problems.extend(check_rows(source, rows))
        if not found:
            words = f"{findings.file.name} has no phone: it {'adds' if is_texted else 'excludes'} nobody"
            hint = "export the list again, or take its entry out if that is meant"
            problems.add(source.position.problem("audience-empty", words, hint, "warning"))
    tally.rows += rows
    tally.invalid += findings.invalid
    tally.landlines += findings.counts["phone-landline"]
    tally.blanked += findings.counts["cell-blank"]
    findings.sum_up()


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column of the audience, or a variable of inline recipients.

    Attributes:
        name: the first source's spelling.
        spellings: of all sources.
        is_language: whether it is the language of the texts to them, as the campaign knows it.
    """

    name: str
    spellings: tuple[str, ...]
    is_language: bool = False

    def read(self, recipient: Recipient) -> str:
        """Return a recipient's value; empty if there is none."""
        if self.is_language:
            return recipient.language or ""
        variables = recipient.vars
        return next((str(variables[one]) for one in self.spellings if one in variables), "")


def find_named_column(campaign: Campaign, name: str) -> NamedColumn:
    """Return a column, found without regard to case, blanks, `_` and `-`.

    `language` is also what recipients have without such a column, in a campaign with `languages`.

    Raises:
        CampaignError: no source of the audience has it, or it has phones.
    """
    names = [one for source in range(len(campaign.recipients)) for one in known_names(campaign, source)]
    files = [one.columns for one in campaign.recipients if isinstance(one, FileRecipients)]
    phones = {normalize_name(one["phone_column"]) for one in files}
    spoken = {normalize_name(one["language_column"]) for one in files if "language_column" in one}
    wanted = normalize_name(name)
    if wanted in phones:
        raise CampaignError("that column has phone numbers, which no report shows")
    spellings = tuple(dict.fromkeys(one for one in names if normalize_name(one) == wanted))
    is_language = wanted in spoken or (wanted == _LANGUAGE and not spellings)
    is_language = is_language and campaign.languages is not None
    if spellings or is_language:
        return NamedColumn(next(iter(spellings), name), spellings, is_language=is_language)
    shown = sorted({one for one in names if normalize_name(one) not in phones})
    require_key(campaign)
    close = difflib.get_close_matches(name, shown, n=1)
    raise CampaignError(
        f"the audience of {campaign.name} has no such column",
        hint=f"did you mean {close[0]}?" if close else f"its columns: {', '.join(shown) or 'none'}",
    )


def find_export_problems(campaign: Campaign) -> Iterator[Diagnostic]:
    """Yield problems of `export_columns` that the audience lacks; its files must be readable."""
    for name, place in campaign.export_columns:
        try:
            find_named_column(campaign, name)
        except CampaignError as error:
            words = f"`export_columns` names `{name}`: {error.message}"
            hint = error.hint or "files of answers have phones with --include-pii"
            yield place.problem("export-column-unknown", words, hint)
