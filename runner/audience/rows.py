"""Rows of one source of recipients, in any format, and their columns of phones, time zones and regions."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import phonenumbers

from runner.audience.consent import DATE_LIKE, UNSAID, ConsentRecord, RowConsent, fold_word, read_consent
from runner.audience.findings import read_cell
from runner.audience.phone import (
    Readings,
    doubt_readings,
    expand_national,
    is_mobile,
    is_written_whole,
    mask_phone,
    mask_written,
    mend,
    read_mended,
)
from runner.audience.sealing import describe_sealed, is_sealed
from runner.audience.table import name_columns, open_table
from runner.campaign.model import ColumnKey, FileRecipients, InlineRecipient, Variables
from runner.errors import SealedAudienceError
from runner.source.diagnostic import CellProblem, Diagnostic, ProblemError, Problems
from runner.source.encrypted import quote_cell
from runner.source.normalize import suggest
from runner.timing.dates import read_time
from runner.timing.legal_hours import check_region
from runner.timing.zone import check_zone, find_country_code, keeps_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from contextlib import AbstractContextManager
    from re import Pattern

    from runner.audience.findings import Findings
    from runner.audience.table import Table
    from runner.campaign.message_model import Languages
    from runner.campaign.model import Campaign, Landlines, PhoneForm, RecipientSource


Value = TypeVar("Value")
_MOST_KEPT = 10_000
"""The most names to keep; there are 600 zones, and a wrong column may have a million values."""
_MOST_DIGITS = 4
"""The most digits of a zone's name (`Etc/GMT+12`); a text with more may be somebody's phone."""
FoundColumns = dict[ColumnKey, int]
"""The indexes of the columns that a source names."""
_MEANINGS: dict[ColumnKey | Literal["when"], tuple[str, str]] = {
    "phone_column": ("csv-phone-column", "holds the phone"),
    "timezone_column": ("csv-timezone-column", "holds the time zone"),
    "region_column": ("csv-region-column", "holds the country or state"),
    "language_column": ("csv-language-column", "holds the language"),
    "consent.source_column": ("csv-consent-column", "says where people agreed"),
    "consent.date_column": ("csv-consent-column", "says when people agreed"),
    "when": ("csv-date-column", "holds the dates"),
}
"""Code and words of a missing column."""
Entry = tuple[str, int, Variables, str | None, str | None, str | None, RowConsent]
"""A phone as written, its line, variables, time zone, region, language, and consent."""


_NO_MOBILES = frozenset(
    (
        phonenumbers.PhoneNumberType.TOLL_FREE,
        phonenumbers.PhoneNumberType.FIXED_LINE,
        phonenumbers.PhoneNumberType.PAGER,
        phonenumbers.PhoneNumberType.PERSONAL_NUMBER,
        phonenumbers.PhoneNumberType.UAN,
    )
)
"""Kinds of numbers that surely are no person's mobile."""
_PREMIUM_PROBLEM = CellProblem(
    "a premium number is a service that costs its callers, not a person's phone", "remove the row"
)
_LANDLINE_PROBLEM = CellProblem(
    "a landline, or a number of such a kind, gets no texts, and `landlines: refuse` keeps it out",
    "write their mobile number, or remove the row",
)


@dataclass(frozen=True, slots=True)
class PhoneColumn:
    """A reader of the phones of one source.

    Attributes:
        findings: receives what is wrong with them.
        region: ISO 3166-1 alpha-2 code for numbers in national form.
        code: of the problems.
        landlines: the rule for numbers that surely get no texts; None for a list of people not to text. Where
            phones are texted premium numbers are refused.
        form: the form of digits without a prefix, where a person has said so.
    """

    findings: Findings
    region: str | None
    code: str
    landlines: Landlines | None = None
    form: PhoneForm | None = None

    def read(
        self, written: str, line: int, place: str | None = None, zone: str | None = None
    ) -> tuple[str, ...]:
        """Return what a phone means, in E.164 form; report a refused one and return nothing.

        From a list of people not to text come all valid readings.

        Args:
            written: the phone.
            line: its line.
            place: the row's region from `check_region`, whose country reads national numbers; None to go by
                the file's.
            zone: the row's time zone, which speaks against a national number of elsewhere if the row names no
                place.
        """
        if is_mobile(written):
            return (written,)
        region = self.region
        is_own = place is None or (region is not None and place.startswith(region))
        if is_own and region is not None and (national := expand_national(written, region)):
            is_one = self.landlines is not None or not is_mobile(f"+{written}")
            if is_one and (
                zone is None or place is not None or keeps_clock(zone, find_country_code(national))
            ):
                return (national,)
        places = () if place is None else tuple(dict.fromkeys(code[:2] for code in place.split()))
        return self._read_slowly(written, line, places or (region,), zone, is_known=place is not None)

    def _read_slowly(
        self, written: str, line: int, regions: tuple[str | None, ...], zone: str | None, *, is_known: bool
    ) -> tuple[str, ...]:
        mended = mend(written)
        read = self._read_by(regions, mended, is_known=is_known)
        if isinstance(read, Readings):
            read = self._object(read, None if is_known else zone) or read
        if isinstance(read, CellProblem):
            self.findings.refuse(self.code, "phone", mask_written(written.strip()), line, read)
            return ()
        if mended != written:
            self.findings.add("phone-repaired", line)
        if self.landlines is None:
            return (read.phone, *read.others)
        if self.landlines == "warn" and _find_kind(read.phone) in _NO_MOBILES:
            self.findings.add("phone-landline", line)
        return (read.phone,)

    def _read_by(self, regions: Sequence[str | None], text: str, *, is_known: bool) -> Readings | CellProblem:
        """Return the reading by one of some countries, or the problem.

        There are two where a row's place is a name of both a state and a country, as `DE` is.
        """
        found = [read_mended(text, region, self.form, within=is_known) for region in regions]
        if self.landlines is not None:
            found = [one.doubt or one if isinstance(one, Readings) else one for one in found]
        valid = {one.phone: one for one in found if isinstance(one, Readings)}
        first = regions[0]
        is_usual = first == self.region and first is not None and is_written_whole(text, first)
        if len(valid) > 1 and not (is_usual and isinstance(found[0], Readings)):
            why = f"the row's place is in {' or '.join(map(str, regions))}"
            return doubt_readings(valid, why, "write it with +, or the country's whole name")
        return next(iter(valid.values()), found[0])

    def _object(self, read: Readings, zone: str | None) -> CellProblem | None:
        """Return what speaks against a reading: the row's time zone, or the kind of the number."""
        if zone is not None and not read.is_certain and not keeps_clock(zone, find_country_code(read.phone)):
            words = f"its digits are {mask_phone(read.phone)}, and the row's time zone is elsewhere: {zone}"
            return CellProblem(words, "write it with + if it is right, or correct the time zone")
        kind = None if self.landlines is None else _find_kind(read.phone)
        if kind == phonenumbers.PhoneNumberType.PREMIUM_RATE:
            return _PREMIUM_PROBLEM
        return _LANDLINE_PROBLEM if kind in _NO_MOBILES and self.landlines == "refuse" else None


def _find_kind(phone: str) -> int | None:
    """Return the library's kind of an E.164 number; None for one that may be a person's mobile."""
    return None if is_mobile(phone) else phonenumbers.number_type(phonenumbers.parse(phone, None))


@dataclass(frozen=True, slots=True)
class PlaceColumn(Generic[Value]):
    """A reader of names of one kind in one source; each name is checked once.

    Attributes:
        kind: the noun for a name.
        code: of the problems.
        check: returns a name's value, or the reason why it is refused.
        findings: receives refused names.
        shown: the form of names that messages show whole, beside those of few digits.
    """

    kind: str
    code: str
    check: Callable[[str], Value | CellProblem]
    findings: Findings
    shown: Pattern[str] | None = None
    _checked: dict[str, Value | CellProblem | None] = field(default_factory=dict)

    def read(self, written: str, line: int) -> Value | None:
        """Return a name's value; None if it is blank, or refused and reported."""
        try:
            found = self._checked[written]
        except KeyError:
            found = self.check(written) if written.strip() else None
            if len(self._checked) < _MOST_KEPT:
                self._checked[written] = found
        if isinstance(found, CellProblem):
            name = written.strip()
            is_short = sum(map(str.isdigit, name)) <= _MOST_DIGITS
            is_shown = is_short or (self.shown is not None and self.shown.fullmatch(name))
            shown = name if is_shown else mask_written(name)
            self.findings.refuse(self.code, self.kind, shown, line, found)
            return None
        return found


def _check_language(languages: Languages, written: str) -> str | CellProblem:
    """Return the campaign's language that a cell means, or the reason why it is refused."""
    return languages.find(written) or CellProblem(
        f"the campaign's languages are {', '.join(languages.known)}",
        "write one of them, or add it to `known` in `languages`, with all texts",
    )


class RowReader:
    """A reader of the entries of one source.

    Args:
        names: the variables to read.
        findings: receives the problems, also of the whole file, and what is wrong in cells for texts.
        reads_consent: False to leave consent unsaid.
    """

    def __init__(
        self,
        campaign: Campaign,
        source: RecipientSource,
        names: frozenset[str],
        findings: Findings,
        *,
        reads_consent: bool,
    ) -> None:
        self._source = source
        self._vars = campaign.vars
        self._names = names
        self._findings = findings
        self._reads_consent = reads_consent
        country = source.country if isinstance(source, FileRecipients) else None
        check = partial(check_region, country=country)
        self._zones = PlaceColumn("time zone", "recipient-timezone-unknown", check_zone, findings)
        self._regions = PlaceColumn("region", "recipient-region-unknown", check, findings)
        self._dates = sorted(campaign.date_columns & names)
        self._times = PlaceColumn("date", "recipient-date-invalid", read_time, findings, DATE_LIKE)
        self._default = None if campaign.languages is None else campaign.languages.default
        if campaign.languages is not None:
            known = partial(_check_language, campaign.languages)
            self._languages = PlaceColumn("language", "recipient-language-unknown", known, findings)

    def iterate(self) -> Iterator[Entry]:
        """Yield the entries in order; of a file that cannot be read, those before the problem."""
        source = self._source
        if isinstance(source, InlineRecipient):
            yield self._read_inline(source)
            return
        # A file may lack the column if `vars` has everybody's date.
        needed = [name for name in self._dates if name not in self._vars]
        try:
            with open_source(source) as table:
                columns = find_columns(source, table, self._findings.problems, needed)
                if columns is not None:
                    yield from self._iterate_rows(source, table, columns)
        except ProblemError as error:
            self._findings.problems.extend(error.diagnostics)

    def _read_language(self, written: str | None, line: int) -> str | None:
        """Return a person's language, the default for a blank or refused one; None without `languages`."""
        if self._default is None:
            return None
        return (self._languages.read(written, line) if written else None) or self._default

    def _read_inline(self, source: InlineRecipient) -> Entry:
        line, given = source.position.line, leave_out_blank(source.vars)
        timezone = None if source.timezone is None else self._zones.read(source.timezone, line)
        region = None if source.region is None else self._regions.read(source.region, line)
        language = self._read_language(source.language, line)
        agreed = source.consent if self._reads_consent else None
        consent = UNSAID if agreed is None else read_consent(*agreed)
        for name in self._dates:
            if name in given:
                self._times.read(str(given[name]), line)
        return source.phone, line, given, timezone, region, language, consent

    def _iterate_rows(self, source: FileRecipients, table: Table, columns: FoundColumns) -> Iterator[Entry]:
        """Yield the entries of a table; rows of another width than the header are reported and left out."""
        found = ((name, table.find_column(name)) for name in sorted(self._names))
        variables = [(name, index) for name, index in found if index is not None]
        findings, dates, width = self._findings, self._dates, len(table.header)
        phone, find = columns["phone_column"], columns.get
        zone, place, spoken = find("timezone_column"), find("region_column"), find("language_column")
        record = self._open_consent(source, columns)
        for line, cells in table.rows:
            if len(cells) != width:
                findings.report(table.width_problem(line, cells))
                continue
            given = {
                name: text for name, index in variables if (text := read_cell(cells[index], line, findings))
            }
            timezone = None if zone is None else self._zones.read(cells[zone], line)
            region = None if place is None else self._regions.read(cells[place], line)
            language = self._default
            if spoken is not None:
                language = self._read_language(cells[spoken], line)
            consent = UNSAID if record is None else record.read(cells, line)
            for name in dates:
                if name in given:
                    self._times.read(given[name], line)
            yield cells[phone], line, given, timezone, region, language, consent

    def _open_consent(self, source: FileRecipients, columns: FoundColumns) -> ConsentRecord | None:
        """Return the reader of consent; None if it is not read, or the file has no column of it."""
        place, said = columns.get("consent.source_column"), source.consent
        if place is None or said is None or not self._reads_consent:
            return None
        words, date = frozenset(map(fold_word, said.yes)), columns.get("consent.date_column")
        return ConsentRecord(self._findings, place, date, words, said.not_older_than)


def leave_out_blank(variables: Variables) -> Variables:
    """Return variables without blank ones."""
    return {
        name: value
        for name, value in variables.items()
        if value is not None and not (isinstance(value, str) and not value.strip())
    }


def open_source(source: FileRecipients) -> AbstractContextManager[Table]:
    """Open an audience file; raises ProblemError, SealedAudienceError."""
    if is_sealed(source):
        raise SealedAudienceError(describe_sealed(source.path.name, source.rows))
    return open_table(source.path, source.location, source.encoding, source.identity)


def read_header(source: FileRecipients) -> list[str]:
    """Return the columns of an audience file by the names that templates use; none if it is wrong."""
    try:
        with open_source(source) as table:
            return list(filter(None, name_columns(table.header)))
    except (OSError, ProblemError, SealedAudienceError):
        return []


def find_columns(
    source: FileRecipients, table: Table, problems: Problems, dates: Collection[str] = ()
) -> FoundColumns | None:
    """Return the indexes of the columns that a source names; report missing ones and return None.

    Columns of `dates` that messages go by must be there, too.
    """
    found: FoundColumns = {}
    missing: list[tuple[ColumnKey | Literal["when"], str]] = []
    for key, name in source.columns.items():
        if (index := table.find_column(name)) is None:
            missing.append((key, name))
        else:
            found[key] = index
    missing += [("when", name) for name in dates if table.find_column(name) is None]
    problems.extend(_missing(key, name, table) for key, name in missing)
    return None if missing else found


def find_missing_columns(source: RecipientSource) -> list[Diagnostic]:
    """Return the columns that a source names and its file lacks; none if the file cannot be read."""
    problems = Problems()
    if isinstance(source, FileRecipients):
        with (
            contextlib.suppress(OSError, ProblemError, SealedAudienceError),
            open_source(source) as table,
        ):
            find_columns(source, table, problems)
    return list(problems)


def _missing(key: ColumnKey | Literal["when"], name: str, table: Table) -> Diagnostic:
    message = f"there is no column `{name}`{suggest(name, table.header)}"
    code, held = _MEANINGS[key]
    columns = quote_cell(table.file, ", ".join(table.header))
    hint = f"name the column that {held} with `{key}`; the file has: {columns}"
    return Diagnostic("error", code, message, table.file, table.line, 1, hint)
