"""Consent on record, in a campaign or row after row: who agreed, by the last row that says anything of it."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, NamedTuple

from runner.campaign.phone import mask_written
from runner.campaign.position import Position
from runner.campaign.recipients import FileRecipients
from runner.source.diagnostic import Diagnostic, Problems

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runner.campaign.recipients import RecipientSource

_FIRST_SMS = date(1992, 12, 3)
"""Nobody agreed to texts before there was one: Neil Papworth's to Richard Jarvis, over the Vodafone network.
What spreadsheets and databases write for no date at all is older: 1970-01-01, 1900-01-01, 0001-01-01."""
_REFUSALS = frozenset(
    {
        *("no", "n", "none", "nothing", "never", "not", "false", "f", "0", "null", "nil", "nan"),
        *("n/a", "na", "n.a.", "#n/a", "not applicable", "-", "--", "–", "—", "?", "x", "unknown", "tbd"),
        *("not given", "no consent", "not consented", "without consent", "missing", "pending", "declined"),
        *("denied", "refused", "rejected", "revoked", "withdrawn", "withdrew", "cancelled", "canceled"),
        *("expired", "opted out", "opt out", "optout", "opt-out", "opted-out", "unsubscribed", "stop"),
        *("nein", "keine", "widerrufen", "non", "aucun", "retiré", "nessuno", "revocado", "ninguno"),
        *("não", "nao", "nee", "nej", "nie", "hayır"),
    }
)
"""Words that stand in columns of consent for there being none."""
_DATE_LIKE = re.compile(r"\d{1,4}[./ -]\d{1,2}[./ -]\d{1,4}")
_ISO_LIKE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:\d{2})?)?")
_HINT = "write year, month and day, as in 2026-03-01: elsewhere 3/1/2026 is the third of January"
_MISSING_HINT = "look up when the person agreed, and write year, month and day, as in 2026-03-01"
_ORDER_HINT = "write newer rows below older ones, and newer sources below older ones"
_NO, _YES, _LATER = "no consent", "consent", "consent from a day to come"


class Consent(NamedTuple):
    """What one row says of a person's consent. A tuple: there may be a million of them.

    Attributes:
        is_on_record: whether it is: a source and, where dates are kept, a date. None where the row's source
            says nothing of it, neither yes nor no.
        day: when they agreed, where that was; None if no dates are kept. It may not have come yet: who
            knows what day it is has to look.
    """

    is_on_record: bool | None
    day: date | None = None


NO_CONSENT = Consent(is_on_record=False)
UNSAID = Consent(is_on_record=None)


def read_consent(source: str, written: str | None) -> Consent:
    """Return what is on record of somebody's consent.

    Args:
        source: where they agreed; blank, or a word for no, if they did not.
        written: when; blank if it is not known, None where no dates are kept.
    """
    if is_refusal(source):
        return NO_CONSENT
    if written is None:
        return Consent(is_on_record=True)
    day = _read_day(written.strip())
    return NO_CONSENT if day is None or day < _FIRST_SMS else Consent(is_on_record=True, day=day)


def is_refusal(source: str) -> bool:
    """Return whether what stands for a source of consent says that there is none: nothing, or a word for no.

    Args:
        source: as it is written.
    """
    words = " ".join(unicodedata.normalize("NFKC", source).casefold().split()).rstrip(".!")
    return not words or words in _REFUSALS or f"{words}." in _REFUSALS


def find_date_problem(written: str, place: Position) -> Diagnostic | None:
    """Return what is wrong with a date of consent, or None.

    Args:
        written: a date, or a date and time, ISO 8601.
        place: where it stands.
    """
    day = _read_day(written)
    if day is not None and day >= _FIRST_SMS:
        return None
    if day is not None:
        words = f"the date of consent {written!r} is before the first SMS was sent, on {_FIRST_SMS}"
        hint = _MISSING_HINT
    elif _ISO_LIKE.fullmatch(written):
        words, hint = f"the date of consent {written!r} does not exist", _MISSING_HINT
    else:
        shown = written if _DATE_LIKE.fullmatch(written) else mask_written(written)
        words, hint = f"the date of consent {shown!r} is not an ISO 8601 date", _HINT
    return Diagnostic("error", "recipient-consent-date", words, place.file, place.line, place.column, hint)


def _read_day(written: str) -> date | None:
    try:
        return datetime.fromisoformat(written).date()
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class ConsentRecord:
    """Reads the consent columns of an audience file.

    Attributes:
        file: where they stand.
        source: the index of the column that says where a recipient agreed.
        date: the index of the column that says when; None if the file does not say.
        problems: receives dates that cannot be read.
    """

    file: Path
    source: int
    date: int | None
    problems: Problems

    def read(self, cells: list[str], line: int) -> Consent:
        """Return the consent on record of one row; what is wrong with its date is reported."""
        written = None if self.date is None else cells[self.date].strip()
        consent = read_consent(cells[self.source], written)
        if written and consent.day is None:
            problem = find_date_problem(written, Position(self.file, line, 1))
            if problem is not None:
                self.problems.add(problem)
        return consent


class ConsentChange(NamedTuple):
    """The last word on the consent of a phone, where it is another than that of its first row.

    Attributes:
        consent: it.
        says: the same in words.
        source: the place of the row's source in the campaign's list.
        line: the row's line there.
    """

    consent: Consent
    says: str
    source: int
    line: int

    def note(self, sources: Sequence[RecipientSource], file: Path, line: int) -> Diagnostic:
        """Return the note of it, which stands at the phone's first row.

        Args:
            sources: the campaign's.
            file: where the first row stands.
            line: its line there.
        """
        source = sources[self.source]
        if isinstance(source, FileRecipients):
            place = f"{source.unit} {self.line} of {source.path.name}"
        else:
            place = f"line {self.line} of {source.position.file.name}"
        words = f"{place} says {self.says} of the same phone: the last row decides"
        return Diagnostic("note", "recipient-consent-changed", words, file, line, 1, _ORDER_HINT, self.says)


class ConsentChanges:
    """Finds the phones whose last row says something else of their consent than their first.

    Memory grows with the distinct phones as much as it does for leaving out duplicates; of what rows say,
    only the differences are kept.

    Args:
        last_day: the last day on which somebody can have agreed; None where any day will do.

    Attributes:
        found: the changes, by phone as a number.
    """

    def __init__(self, last_day: date | None) -> None:
        self._last_day = last_day
        self._first: dict[str, set[int]] = {_YES: set(), _NO: set(), _LATER: set()}
        self.found: dict[int, ConsentChange] = {}

    def add(self, number: int, consent: Consent, source: int, line: int) -> None:
        """Add a row; they come in the order of the audience.

        Args:
            number: its phone, E.164 as a number.
            consent: what it says.
            source: the place of its source in the campaign's list.
            line: where it stands there.
        """
        says = self._describe(consent)
        first = next((known for known, phones in self._first.items() if number in phones), None)
        if first is None:
            self._first[says].add(number)
        elif consent.is_on_record is None:
            return
        elif says == first:
            self.found.pop(number, None)
        else:
            self.found[number] = ConsentChange(consent, says, source, line)

    def _describe(self, consent: Consent) -> str:
        if not consent.is_on_record:
            return _NO
        is_due = consent.day is None or self._last_day is None or consent.day <= self._last_day
        return _YES if is_due else _LATER
