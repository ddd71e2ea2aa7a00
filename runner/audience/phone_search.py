"""Phone numbers in texts of any kind, by the library's search."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import phonenumbers

from runner.campaign.model import FileRecipients

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.campaign.model import RecipientSource

_USUAL_REGION = "US"
"""Whose national numbers are looked for where an audience names no region."""

_MAY_HOLD = re.compile(r"(?:\d[^\d\w]{0,3}){6}\d")
_NO_PHONE = re.compile(
    r"\b(?:\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?"  # dates and times (ISO 8601)
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # guids (RFC 9562)
    r"|\d*[a-f][0-9a-f]{11,})\b",  # digests
    re.IGNORECASE,
)
_BLANK = re.compile(r"[^\S ]")
_CALLED_ABROAD = re.compile(r"(?<![\d+])00(?=[1-9])")
"""The prefix that most countries dial for `+` (ITU-T E.123)."""
_PLAIN = re.compile(r"(?<![\w+])[1-9]\d{9,14}(?!\w)")
_FICTION = re.compile(r"\+1\d{3}55501\d\d|\+447700900\d{3}|\+3363998\d{4}")
"""Numbers for films and examples: of NANPA (555-0100 to 0199), Ofcom, and ARCEP (decision 2012-0855)."""


def list_regions(sources: Iterable[RecipientSource]) -> list[str]:
    """Return the regions whose national numbers are looked for beside some audiences."""
    named = (one.region if isinstance(one, FileRecipients) else one.country for one in sources)
    return sorted({region or _USUAL_REGION for region in named}) or [_USUAL_REGION]


def find_phones(text: str, regions: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the phone numbers in a line: start, end, and E.164 form; not those reserved for fiction.

    They are international (`+`, `00`), national in one of the regions (ISO 3166-1), or, in one of these,
    international without `+`.
    """
    if _MAY_HOLD.search(text) is None:
        return
    text = _NO_PHONE.sub(lambda one: "x" * len(one[0]), text)
    text = _CALLED_ABROAD.sub(" +", _BLANK.sub(" ", text))
    found: dict[int, tuple[int, phonenumbers.PhoneNumber]] = {}
    for region in regions:
        for match in phonenumbers.PhoneNumberMatcher(text, region, phonenumbers.Leniency.VALID):
            found.setdefault(match.start, (match.end, match.number))
        for plain in _PLAIN.finditer(text):
            try:
                number = phonenumbers.parse(f"+{plain[0]}")
            except phonenumbers.NumberParseException:
                continue
            if phonenumbers.is_valid_number_for_region(number, region):
                found.setdefault(plain.start(), (plain.end(), number))
    for start, (end, number) in sorted(found.items(), key=lambda one: one[0]):
        phone = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
        if _FICTION.fullmatch(phone) is None:
            yield start, end, phone
