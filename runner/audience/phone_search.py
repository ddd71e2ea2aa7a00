"""Phone numbers of people in texts of any kind, by the library's search."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import phonenumbers
from phonenumbers import PhoneNumberType as Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from runner.campaign.model import RecipientSource

_USUAL_REGION = "US"
"""Whose national numbers are looked for where an audience names no region."""
PHONE_COMMITTED = "phone-committed"
"""The problem of a phone outside of audiences, which is searched for on request alone."""
_MAY_HOLD = re.compile(r"(?:\d(?:[\W_]{0,3}|&nbsp;)){6}\d")
_NO_PHONE = re.compile(
    r"""\b(?:(?!tel|sms)\w+://|www\.)(?:(?!\+|wa\.me/|(?:phone|mobile|tel)=)[^\s"'<>])+  # links, to a phone
    |(?<!\d)(?:(?:19|20)\d\d([-/.])\d\d?\1\d\d?  # dates
        |\d\d?([-/.])\d\d?\2(?:(?:19|20)\d\d|\d\d(?=[ ]\d\d:))|20[2-4]\d(?:0\d|1[0-2])[0-3]\d)
        (?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?|T?\d{4}(?:\d\d)?)?(?!\d)
    |(?<![\w.+])(?:0|-?[1-9]\d?|-1\d\d)\.\d{5,}\b  # decimals, such as of a place on a map
    |\b(?:[a-z]+-)?20\d\d-\d{5,}\b  # numbers of invoices
    |\b1(\W{1,4})2\3[3]\3[4]\3[5](?:\3\d\d?\b)*  # scales
    |\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b  # guids (RFC 9562)
    |\b\d*[a-f][0-9a-f]{11,}\b  # digests""",
    re.IGNORECASE | re.VERBOSE,
)
_PLUS = re.compile(r"%2b|\\u002b|&#43;", re.IGNORECASE)
_HARD_BLANKS = re.compile(r"[+\d][-+().\d ]{0,9}(?:&nbsp;[-+().\d ]{0,9})+")
_BLANK = re.compile(r"[^\S ]|(?<=\d{7})[A-Z](?=[a-z])")
"""Blanks, and a name's capital right after a phone."""
_UNDERSCORE = re.compile(r"(?<=\d)_(?=\d)")
_CALLED_ABROAD = re.compile(r"(?<![\d+])00(?=[1-9])")
"""The prefix that most countries dial for `+` (ITU-T E.123)."""
_PLAIN = re.compile(r"(?<![^\W_])(?<!\+)[1-9]\d{9,14}(?![^\W_])")
_RARE = 12
"""Digits from which few numbers of other things are a mobile's with its country code."""
_MOBILE = (Kind.MOBILE, Kind.FIXED_LINE_OR_MOBILE)
_OF_PEOPLE = (*_MOBILE, Kind.FIXED_LINE, Kind.VOIP, Kind.PERSONAL_NUMBER, Kind.PAGER)
"""The others are of services: toll-free, premium, of shared cost, for all of a company."""
_FICTION = re.compile(r"\+1\d{3}55501\d\d|\+447700900\d{3}|\+3363998\d{4}")
"""Numbers for films and examples: of NANPA (555-0100 to 0199), Ofcom, and ARCEP (decision 2012-0855)."""


def list_regions(sources: Iterable[RecipientSource]) -> list[str]:
    """Return the regions whose national numbers are looked for beside some audiences."""
    return sorted({one.country or _USUAL_REGION for one in sources}) or [_USUAL_REGION]


def find_phones(text: str, regions: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the phone numbers in a line: start, end, and E.164 form; not of services, nor those for fiction.

    They are international (`+`, `00`), national in one of the regions (ISO 3166-1), or international without
    `+`: of one of these, or mobiles with at least 12 digits.
    """
    if _MAY_HOLD.search(text) is None:
        return
    text = _PLUS.sub(lambda one: "+".rjust(len(one[0])), text)
    text = _NO_PHONE.sub(lambda one: "x" * len(one[0]), text)
    text = _HARD_BLANKS.sub(lambda one: one[0].replace("&nbsp;", " ").ljust(len(one[0])), text)
    text = _UNDERSCORE.sub("-", _CALLED_ABROAD.sub(" +", _BLANK.sub(" ", text)))
    found: dict[int, tuple[int, phonenumbers.PhoneNumber]] = {}
    for region in regions:
        for match in phonenumbers.PhoneNumberMatcher(text, region, phonenumbers.Leniency.VALID):
            # Of digits alone too many are a landline's somewhere.
            is_plain = match.raw_string.isdigit() and not match.raw_string.startswith("0")
            if phonenumbers.number_type(match.number) in (_MOBILE if is_plain else _OF_PEOPLE):
                found.setdefault(match.start, (match.end, match.number))
    for plain in _PLAIN.finditer(text):
        try:
            number = phonenumbers.parse(f"+{plain[0]}")
        except phonenumbers.NumberParseException:
            continue
        is_here = phonenumbers.region_code_for_number(number) in regions
        if (is_here or len(plain[0]) >= _RARE) and phonenumbers.number_type(number) in _MOBILE:
            found.setdefault(plain.start(), (plain.end(), number))
    for start, (end, number) in sorted(found.items(), key=lambda one: one[0]):
        phone = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
        if _FICTION.fullmatch(phone) is None:
            yield start, end, phone
