"""Consent on record: each person's, by the last row that states it."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from runner.audience.phone import mask_written
from runner.campaign.model import FileRecipients
from runner.source.diagnostic import Diagnostic, Position
from runner.source.encrypted import quote_cell

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from runner.audience.findings import Findings
    from runner.campaign.model import RecipientSource

_FIRST_SMS = date(1992, 12, 3)
"""The day of the first SMS (Neil Papworth to Richard Jarvis, over the Vodafone network). No consent is older,
but dates that stand for no date are: 1970-01-01, 1900-01-01, 0001-01-01.
"""
_REFUSALS = frozenset(
    {
        *("no", "n", "none", "nothing", "never", "not", "false", "f", "0", "null", "nil", "nan"),
        *("n/a", "na", "n.a.", "#n/a", "not applicable", "-", "--", "–", "—", "?", "x", "unknown", "tbd"),
        *("not given", "no consent", "not consented", "without consent", "missing", "pending", "declined"),
        *("denied", "refused", "rejected", "revoked", "withdrawn", "withdrew", "cancelled", "canceled"),
        *("expired", "opted out", "opt out", "optout", "opt-out", "opted-out", "unsubscribed", "stop"),
        *("nein", "keine", "widerrufen", "non", "aucun", "retiré", "nessuno", "revocado", "ninguno"),
        *("não", "nao", "nee", "geen", "nej", "nei", "ei", "ingen", "nie", "ne", "brak", "hayır", "yok"),
        *("abgemeldet", "refus", "refusé", "désabonné", "baja", "sin consentimiento", "όχι", "لا"),
        *("off", "deceased", "не согласен", "不同意", "いいえ", "否", "✗", "✘", "❌"),
    }
)
"""Words for no consent in columns of consent."""
_WITHDRAWN = re.compile(
    r"^(?:non|none)\b|\bno\b(?![.°]? ?\d)|\b(?:not|never|false|nein|nicht|kein\w*|нет|não|nao|nie|nej|nee"
    r"|geen|hayır)\b|[:=] ?(?:n|f|0|off)\b"
    r"|\b(?:do not|don['’]t|dnc|bounced?|blocked|suppressed|complain\w*|inactive|deleted|cancell?ed|expired"
    r"|pending|unconfirmed|rejected|object(?:ed|ion)|scraped|unknown|stop(?:ped)?|opt(?:ed)?[ -]?out|unsub\w*"
    r"|revoked|withdrawn|withdrew|declined|refused|denied|widerrufen"
    r"|(?:no|not|without|never|didn['’]t) (?:given |valid |express |written )?(?:agreed?|consent\w*))\b"
)
"""Words for no consent beside others, as in `unsubscribed 2026-03-01` and `double opt-in: revoked`."""
_LIMITED = re.compile(
    r"[?？]|\b(?:only|but|except|until|was|were|had|ex|former\w*|previous\w*|y/n|j/n|s/n|o/n"
    r"|nur|aber|außer|bis|war|sauf|seulement|uniquement|mais|jusqu\w*|sólo|solo|pero|hasta|salvo|soltanto)\b"
)
"""What leaves open whether a yes beside it is one to texts today: `yes?`, `e-mail only`, `was subscribed`."""
_SAYS_YES = re.compile(
    r"\b(?:yes|y|true|t|ok|agreed?|consent(?:ed)?|granted|given|accepted|confirmed|approved|subscribed|active"
    r"|opt(?:ed)?[ -]?in|double[ -]opt[ -]?in|ja|j|oui|sí|si|sim|sì|da|да|tak|evet|ano|kyllä|igen"
    r"|web|website|webshop|site|online|internet|page|landing|portal|account|profile|app|chat|whatsapp|facebook"
    r"|instagram|social|form|forms|formular|formulaire|formulario|modulo|paper|papier|card|contract|letter|mail"
    r"|email|e-mail|newsletter|sms|text|keyword|call|called|phone|telephone|telefon|hotline|verbal|oral|written"
    r"|sign\w*|regist\w*|enrol\w*|member\w*|checkout|till|kasse|counter|desk|reception|shop|store|in-store"
    r"|laden|boutique|tienda|branch|clinic|office|in person|visit|appointment|booking|reservation|order"
    r"|purchase|pos|kiosk|event|fair|booth|stand|qr|survey|raffle|loyalty|club|course|school|donation|petition)\b"
    r"|^(?:[✓✔☑✅是]|はい|1(?:[.,]0+)?)$"
)
"""Words for yes, and for places and ways in which people agree."""
_ZERO = re.compile(r"[+-]?0+(?:[.,]0+)?")
"""Zero, also as `0.0`: data frames with an empty cell write columns of 0 and 1 so."""
DATE_LIKE = re.compile(
    r"\d{1,4}[./ -]\d{1,2}[./ -]\d{1,4}(?:[T ]\d{1,2}:\d\d[\d:.]{0,10}(?: ?[AaPp][Mm]|Z|[+-]\d\d:\d\d)?)?"
)
_ORDER_HINT = "write newer rows below older ones, and newer sources below older ones"
_NO, _YES, _LATER, _OLD = "no consent", "consent", "consent from a day to come", "consent of too long ago"


class RowConsent(NamedTuple):
    """A person's consent by one row. A tuple, since there may be a million of them.

    Attributes:
        is_on_record: whether there is a source and, where dates are kept, a date; None if the row says
            neither.
        day: the day of consent; None if no dates are kept.
        until: the last day on which it counts; None if it does not age. `ConsentDays` judges both.
    """

    is_on_record: bool | None
    day: date | None = None
    until: date | None = None


Reading = Literal["consent", "no consent", "unknown"]
"""How a word in a column of consent was read; what is unknown is no consent."""
NO_CONSENT = RowConsent(is_on_record=False)
UNSAID = RowConsent(is_on_record=None)


def read_word(written: str, yes: Collection[str] = ()) -> Reading:
    """Return how a cell of a column of consent is read: where or how people agreed, or whether they did.

    `yes` are further words for consent, from `fold_word`.
    """
    words = fold_word(written)
    if words in yes:
        return "consent"
    if is_refusal(written):
        return "no consent"
    if _SAYS_YES.search(words):
        return "unknown" if _LIMITED.search(words) else "consent"
    day = _read_day(written.strip())
    return "unknown" if day is None or day < _FIRST_SMS else "consent"


def read_consent(source: str, written: str | None, not_older_than: timedelta | None) -> RowConsent:
    """Return the consent of a person of the campaign file, by its source (a word for no: none) and its date.

    The date is blank if it is unknown, and None where no dates are kept.
    """
    return NO_CONSENT if is_refusal(source) else _date_consent(written, not_older_than)


def _date_consent(written: str | None, not_older_than: timedelta | None) -> RowConsent:
    if written is None:
        return RowConsent(is_on_record=True)
    day = _read_day(written.strip())
    if day is None or day < _FIRST_SMS:
        return NO_CONSENT
    until = None if not_older_than is None else day + min(not_older_than, date.max - day)
    return RowConsent(is_on_record=True, day=day, until=until)


def fold_word(written: str) -> str:
    """Return a word of consent for comparison: without regard to case, blanks, and a point behind it."""
    return " ".join(unicodedata.normalize("NFKC", written).casefold().split()).rstrip(".!")


def is_refusal(source: str) -> bool:
    """Return whether a written source of consent means none: blank, or a word for no."""
    words = fold_word(source.replace("_", " "))
    if not words or words in _REFUSALS or f"{words}." in _REFUSALS:
        return True
    return _ZERO.fullmatch(words) is not None or _WITHDRAWN.search(words) is not None


def find_date_problem(written: str, place: Position) -> Diagnostic | None:
    """Return the problem of a consent date (ISO 8601, with or without a time), or None."""
    day = _read_day(written)
    if day is not None and day >= _FIRST_SMS:
        return None
    shown = written if DATE_LIKE.fullmatch(written) or day is not None else mask_written(written)
    shown = quote_cell(place.file, shown)
    words = f"the date of consent {shown!r} is no ISO 8601 date since the first SMS, {_FIRST_SMS}"
    hint = "look up when the person agreed, and write year, month and day, as in 2026-03-01"
    return place.problem("recipient-consent-date", words, hint)


def _read_day(written: str) -> date | None:
    try:
        return datetime.fromisoformat(written).date()
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class ConsentRecord:
    """The consent columns of an audience file.

    Attributes:
        source: the index of the column with the source of consent.
        date: the index of the column with the date; None if the file has none.
        yes: further words for consent, from `fold_word`.
        not_older_than: the age in whole days up to which consent counts; None if it does not age.
    """

    findings: Findings
    source: int
    date: int | None
    yes: frozenset[str] = frozenset()
    not_older_than: timedelta | None = None

    def read(self, cells: list[str], line: int) -> RowConsent:
        """Return the consent of one row; report a wrong date."""
        written = None if self.date is None else cells[self.date].strip()
        word = cells[self.source]
        reading = read_word(word, self.yes)
        self.findings.add_word(word.strip(), reading)
        consent = _date_consent(written, self.not_older_than) if reading == "consent" else NO_CONSENT
        if written and consent.day is None:
            problem = find_date_problem(written, Position(self.findings.file, line, 1))
            if problem is not None:
                self.findings.report(problem)
        return consent


class ConsentChange(NamedTuple):
    """A phone's last consent, where it differs from that of its first row.

    Attributes:
        consent: the last consent.
        says: the same in words.
        source: the index of the row's source in the campaign.
        line: the row's line there.
    """

    consent: RowConsent
    says: str
    source: int
    line: int

    def note(self, sources: Sequence[RecipientSource], file: Path, line: int) -> Diagnostic:
        """Return the note of it, at the phone's first row in `file` and `line`."""
        source = sources[self.source]
        if isinstance(source, FileRecipients):
            place = f"line {self.line} of {source.path.name}"
        else:
            place = f"line {self.line} of {source.position.file.name}"
        words = f"{place} says {self.says} of the same phone: the last row decides"
        return Diagnostic("note", "recipient-consent-changed", words, file, line, 1, _ORDER_HINT, self.says)


def find_changes(
    consents: Iterable[tuple[int, RowConsent, int, int]], last_day: date | None
) -> dict[int, ConsentChange]:
    """Return the phones, as numbers, whose last row has another consent than their first.

    Memory grows with the distinct phones; only differences are kept.

    Args:
        consents: of each row, in the order of the audience: phone as a number, consent, source and line.
        last_day: the latest valid day of consent; None if any day will do.
    """
    firsts: dict[str, set[int]] = {_YES: set(), _NO: set(), _LATER: set(), _OLD: set()}
    found: dict[int, ConsentChange] = {}
    for number, consent, source, line in consents:
        says = _describe(consent, last_day)
        first = next((known for known, phones in firsts.items() if number in phones), None)
        if first is None:
            firsts[says].add(number)
        elif says == first and consent.is_on_record is not None:
            found.pop(number, None)
        elif consent.is_on_record is not None:
            found[number] = ConsentChange(consent, says, source, line)
    return found


def _describe(consent: RowConsent, today: date | None) -> str:
    if not consent.is_on_record:
        return _NO
    if today is not None and consent.until is not None and consent.until < today:
        return _OLD
    return _YES if consent.day is None or today is None or consent.day <= today else _LATER
