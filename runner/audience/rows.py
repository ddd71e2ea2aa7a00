"""Rows of one source of recipients, in any format, and their columns of phones, time zones and regions."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import phonenumbers

from runner.audience.consent import DATE_LIKE, UNSAID, ConsentRecord, RowConsent, fold_word, read_consent
from runner.audience.findings import Findings, read_cell
from runner.audience.phone import (
    PhoneProblem,
    Readings,
    doubt_readings,
    expand_national,
    is_mobile,
    is_written_whole,
    mask_phone,
    mask_written,
    mend,
    read_country_code,
    read_mended,
)
from runner.audience.sealing import describe_sealed, is_sealed
from runner.audience.table import TableProblemError, name_columns, open_table
from runner.campaign.model import ColumnKey, FileRecipients, InlineRecipient, Variables
from runner.errors import SealedAudienceError
from runner.source.diagnostic import Diagnostic, Problems
from runner.source.encrypted import quote_cell
from runner.source.normalize import suggest
from runner.timing.dates import CellTime, read_time
from runner.timing.legal_hours import check_region
from runner.timing.zone import NameProblem, check_zone, keeps_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from re import Pattern

    from runner.audience.table import Table
    from runner.campaign.message_model import Languages
    from runner.campaign.model import Landlines, PhoneForm, RecipientSource


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
_PREMIUM_PROBLEM = PhoneProblem(
    "a premium number is a service that costs its callers, not a person's phone", "remove the row"
)
_LANDLINE_PROBLEM = PhoneProblem(
    "a landline, or a number of such a kind, gets no texts, and `landlines: refuse` keeps it out",
    "write their mobile number, or remove the row",
)


@dataclass(frozen=True, slots=True)
class PhoneColumn:
    """A reader of the phones of one source.

    Attributes:
        column: their column, from 1; 1 in a CSV file.
        region: ISO 3166-1 alpha-2 code for numbers in national form.
        code: of the problems.
        landlines: the rule for numbers that surely get no texts; None for a list of people not to text. Where
            phones are texted premium numbers are refused.
        form: the form of digits without a prefix, where a person has said so.
    """

    file: Path
    column: int
    region: str | None
    code: str
    problems: Problems
    findings: Findings = field(default_factory=Findings)
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
                zone is None or place is not None or keeps_clock(zone, read_country_code(national))
            ):
                return (national,)
        places = () if place is None else tuple(dict.fromkeys(code[:2] for code in place.split()))
        return self._read_slowly(written, line, places or (region,), zone, is_known=place is not None)

    def _read_slowly(
        self, written: str, line: int, regions: tuple[str | None, ...], zone: str | None, *, is_known: bool
    ) -> tuple[str, ...]:
        mended = mend(written)
        read = self._read_by(regions, mended.text, is_known=is_known)
        if isinstance(read, Readings):
            read = self._object(read, None if is_known else zone) or read
        if isinstance(read, PhoneProblem):
            self.problems.add(self._refuse(written, line, read))
            return ()
        for damage in mended.damage:
            self.findings.add(damage, line)
        if self.landlines is None:
            return (read.phone, *read.others)
        if self.landlines == "warn" and _find_kind(read.phone) in _NO_MOBILES:
            self.findings.add("landline", line)
        return (read.phone,)

    def _read_by(
        self, regions: Sequence[str | None], text: str, *, is_known: bool
    ) -> Readings | PhoneProblem:
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

    def _object(self, read: Readings, zone: str | None) -> PhoneProblem | None:
        """Return what speaks against a reading: the row's time zone, or the kind of the number."""
        if zone is not None and not read.is_certain and not keeps_clock(zone, read_country_code(read.phone)):
            words = f"its digits are {mask_phone(read.phone)}, and the row's time zone is elsewhere: {zone}"
            return PhoneProblem(words, "write it with + if it is right, or correct the time zone")
        kind = None if self.landlines is None else _find_kind(read.phone)
        if kind == phonenumbers.PhoneNumberType.PREMIUM_RATE:
            return _PREMIUM_PROBLEM
        return _LANDLINE_PROBLEM if kind in _NO_MOBILES and self.landlines == "refuse" else None

    def _refuse(self, written: str, line: int, problem: PhoneProblem) -> Diagnostic:
        is_blank = not mend(written).text
        shown = quote_cell(self.file, mask_written(written.strip()))
        words = f"the phone {shown!r} is refused: {problem.reason}"
        message = "the phone is blank" if is_blank else words
        reason, hint = problem.reason, problem.hint
        return Diagnostic("error", self.code, message, self.file, line, self.column, hint, reason)


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
        column: their column, from 1; 1 in a CSV file.
        shown: the form of names that messages show whole, beside those of few digits.
    """

    kind: str
    code: str
    check: Callable[[str], Value | NameProblem]
    file: Path
    column: int
    problems: Problems
    shown: Pattern[str] | None = None
    _checked: dict[str, Value | NameProblem | None] = field(default_factory=dict)

    def read(self, written: str, line: int) -> Value | None:
        """Return a name's value; None if it is blank, or refused and reported."""
        try:
            found = self._checked[written]
        except KeyError:
            found = self.check(written) if written.strip() else None
            if len(self._checked) < _MOST_KEPT:
                self._checked[written] = found
        if isinstance(found, NameProblem):
            self.problems.add(self._refuse(written, line, found))
            return None
        return found

    def _refuse(self, written: str, line: int, problem: NameProblem) -> Diagnostic:
        name = written.strip()
        is_shown = sum(map(str.isdigit, name)) <= _MOST_DIGITS or (self.shown and self.shown.fullmatch(name))
        shown = quote_cell(self.file, name if is_shown else mask_written(name))
        return Diagnostic(
            "error",
            self.code,
            f"the {self.kind} {shown!r} is refused: {problem.reason}",
            self.file,
            line,
            self.column,
            problem.hint,
            problem.reason,
        )


def open_dates(file: Path, column: int, problems: Problems) -> PlaceColumn[CellTime]:
    """Return the reader of a source's dates that messages go by."""
    return PlaceColumn("date", "recipient-date-invalid", read_time, file, column, problems, DATE_LIKE)


def open_zones(file: Path, column: int, problems: Problems) -> PlaceColumn[str]:
    """Return the reader of a source's time zones: IANA names."""
    return PlaceColumn("time zone", "recipient-timezone-unknown", check_zone, file, column, problems)


def open_regions(file: Path, column: int, problems: Problems, country: str | None) -> PlaceColumn[str]:
    """Return the reader of a source's regions: codes of ISO 3166, as `check_region` returns them.

    `country` is the country of the source's people; None if unknown.
    """
    check = partial(check_region, country=country)
    return PlaceColumn("region", "recipient-region-unknown", check, file, column, problems)


def _open_languages(
    file: Path, column: int, problems: Problems, languages: Languages | None
) -> Callable[[str | None, int], str] | None:
    """Return the reader of a source's languages, which gives the default for a blank or refused one.

    It is None in a campaign without `languages`.
    """
    if languages is None:
        return None
    default, known = languages.default, ", ".join(languages.known)
    problem = NameProblem(
        f"the campaign's languages are {known}",
        "write one of them, or add it to `known` in `languages`, with all texts",
    )

    def check(written: str) -> str | NameProblem:
        return languages.find(written) or problem

    names = PlaceColumn("language", "recipient-language-unknown", check, file, column, problems)
    return lambda written, line: (names.read(written, line) if written else None) or default


def _open_consent(
    source: FileRecipients, file: Path, columns: FoundColumns, problems: Problems, findings: Findings
) -> ConsentRecord | None:
    """Return the reader of a source's consent; None if it has no column of it."""
    place = columns.get("consent.source_column")
    if place is None or source.consent is None:
        return None
    words = frozenset(map(fold_word, source.consent.yes))
    date, age = columns.get("consent.date_column"), source.consent.not_older_than
    return ConsentRecord(file, place, date, problems, findings, words, age)


def read_inline(
    source: InlineRecipient,
    problems: Problems,
    languages: Languages | None,
    dates: Collection[str] = (),
    *,
    reads_consent: bool,
) -> Entry:
    """Return the entry of a recipient in the campaign file; `dates` are the variables with dates."""
    place = source.position
    zones = open_zones(place.file, place.column, problems)
    regions = open_regions(place.file, place.column, problems, None)
    timezone = None if source.timezone is None else zones.read(source.timezone, place.line)
    region = None if source.region is None else regions.read(source.region, place.line)
    read_language = _open_languages(place.file, place.column, problems, languages)
    language = None if read_language is None else read_language(source.language, place.line)
    agreed = source.consent if reads_consent else None
    consent = UNSAID if agreed is None else read_consent(*agreed)
    given = leave_out_blank(source.vars)
    times = open_dates(place.file, place.column, problems)
    for name in dates:
        if name in given:
            times.read(str(given[name]), place.line)
    return source.phone, place.line, given, timezone, region, language, consent


def iterate_rows(
    source: FileRecipients,
    names: frozenset[str],
    problems: Problems,
    findings: Findings,
    languages: Languages | None,
    table: Table,
    columns: FoundColumns,
    dates: Collection[str] = (),
    *,
    reads_consent: bool,
) -> Iterator[Entry]:
    """Yield the entries of a table's rows; columns that are neither in `columns` nor in `names` are not read.

    `dates` are those of `names` with dates. Rows of another width than the header are reported and left out.
    `findings` receives what is wrong in cells for texts.

    Raises:
        TableProblemError: the table cannot be read beyond some line.
    """
    found = ((name, table.find_column(name)) for name in sorted(names))
    variables = [(name, index) for name, index in found if index is not None]
    zones = open_zones(table.file, 1, problems)
    regions = open_regions(table.file, 1, problems, source.region)
    read_language = _open_languages(table.file, 1, problems, languages)
    phone, zone, place = columns["phone_column"], columns.get("timezone_column"), columns.get("region_column")
    language_column = columns.get("language_column")
    record = _open_consent(source, table.file, columns, problems, findings) if reads_consent else None
    times = open_dates(table.file, 1, problems)
    width = len(table.header)
    for line, cells in table.rows:
        if len(cells) != width:
            problems.add(table.width_problem(line, cells))
            continue
        given = {name: text for name, index in variables if (text := read_cell(cells[index], line, findings))}
        timezone = None if zone is None else zones.read(cells[zone], line)
        region = None if place is None else regions.read(cells[place], line)
        written = None if language_column is None else cells[language_column]
        language = None if read_language is None else read_language(written, line)
        consent = UNSAID if record is None else record.read(cells, line)
        for name in dates:
            if name in given:
                times.read(given[name], line)
        yield cells[phone], line, given, timezone, region, language, consent


def leave_out_blank(variables: Variables) -> Variables:
    """Return variables without blank ones."""
    return {
        name: value
        for name, value in variables.items()
        if value is not None and not (isinstance(value, str) and not value.strip())
    }


def open_source(source: FileRecipients) -> AbstractContextManager[Table]:
    """Open an audience file; raises TableProblemError, SealedAudienceError."""
    if is_sealed(source):
        raise SealedAudienceError(describe_sealed(source.path.name, source.rows))
    return open_table(source.path, source.location, source.encoding, source.identity)


def read_header(source: FileRecipients) -> list[str]:
    """Return the columns of an audience file by the names that templates use; none if it is wrong."""
    try:
        with open_source(source) as table:
            return list(filter(None, name_columns(table.header)))
    except (OSError, TableProblemError, SealedAudienceError):
        return []


def find_columns(
    source: FileRecipients, table: Table, problems: Problems, dates: Collection[str] = ()
) -> FoundColumns | None:
    """Return the indexes of the columns that a source names; report missing ones and return None.

    Columns of `dates` that messages go by must be there, too.
    """
    found: FoundColumns = {}
    is_complete = True
    for key, name in source.columns.items():
        index = table.find_column(name)
        if index is None:
            is_complete = False
            problems.add(_missing(key, name, table))
        else:
            found[key] = index
    for name in dates:
        if table.find_column(name) is None:
            is_complete = False
            problems.add(_missing("when", name, table))
    return found if is_complete else None


def find_missing_columns(source: RecipientSource) -> list[Diagnostic]:
    """Return the columns that a source names and its file lacks; none if the file cannot be read."""
    problems = Problems()
    if isinstance(source, FileRecipients):
        with (
            contextlib.suppress(OSError, TableProblemError, SealedAudienceError),
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
