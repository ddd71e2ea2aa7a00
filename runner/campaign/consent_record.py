"""Consent on record, in a campaign or row after row: who agreed, and dates that say nothing reported."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, NamedTuple

from runner.campaign.phone import mask_written
from runner.campaign.position import Position
from runner.source.diagnostic import Diagnostic, Problems

if TYPE_CHECKING:
    from pathlib import Path

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


class Consent(NamedTuple):
    """What is on record of one person's consent. A tuple: there may be a million of them.

    Attributes:
        is_on_record: whether it is: a source and, where dates are kept, a date.
        day: when they agreed, where that was; None if no dates are kept. It may not have come yet: who
            knows what day it is has to look.
    """

    is_on_record: bool = False
    day: date | None = None


NO_CONSENT = Consent()


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
