"""Which E.164 numbers are allocated, told at once: the library's own patterns, put together once a country.

Only says yes where the library would; everything else is the library's to judge and to explain.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, PhoneMetadata

if TYPE_CHECKING:
    from phonenumbers import PhoneNumberDesc

_E164 = re.compile(r"\+[1-9][0-9]{6,14}")
_COUNTRY_CODE_DIGITS = (1, 2, 3)
_NUMBER_TYPES = (
    "fixed_line",
    "mobile",
    "premium_rate",
    "toll_free",
    "shared_cost",
    "voip",
    "personal_number",
    "pager",
    "uan",
    "voicemail",
)

_Region = tuple[re.Pattern[str] | None, re.Pattern[str]]


def is_allocated(text: str) -> bool:
    """Return whether a text is, as it stands, the E.164 form of a number that is certainly allocated."""
    if not _E164.fullmatch(text):
        return False
    # No country code is the start of another one (ITU-T E.164, section 6.2).
    length = next((n for n in _COUNTRY_CODE_DIGITS if int(text[1 : n + 1]) in COUNTRY_CODE_TO_REGION_CODE), 0)
    if not length:
        return False
    prefix, regions = _read_country(int(text[1 : length + 1]))
    national = text[length + 1 :]
    # The library would try the number without the prefix that people dial inside the country.
    if prefix is not None and (match := prefix.match(national)) and match.end():
        return False
    for leading_digits, numbers in regions:
        if leading_digits is None:
            if numbers.fullmatch(national):
                return True
        elif leading_digits.match(national):
            return numbers.fullmatch(national) is not None
    return False


@cache
def _read_country(code: int) -> tuple[re.Pattern[str] | None, tuple[_Region, ...]]:
    """Return a country code's national prefix, and the patterns of its regions in the library's order."""
    found = [PhoneMetadata.metadata_for_region(name) for name in COUNTRY_CODE_TO_REGION_CODE[code]]
    metadata = [region for region in found if region is not None]
    if not metadata:
        return None, ()
    prefix = metadata[0].national_prefix_for_parsing
    regions = tuple(
        (re.compile(region.leading_digits) if region.leading_digits else None, _join_patterns(region))
        for region in metadata
    )
    return re.compile(prefix) if prefix else None, regions


def _join_patterns(region: PhoneMetadata) -> re.Pattern[str]:
    kinds = [_write_pattern(getattr(region, name)) for name in _NUMBER_TYPES]
    return re.compile(f"(?={_write_pattern(region.general_desc)}$)(?:{'|'.join(filter(None, kinds))})")


def _write_pattern(kind: PhoneNumberDesc | None) -> str:
    if kind is None or not kind.national_number_pattern:
        return ""
    lengths = "|".join(f"[0-9]{{{length}}}" for length in kind.possible_length if length > 0)
    is_of_length = f"(?=(?:{lengths})$)" if lengths else ""
    return f"{is_of_length}(?:{kind.national_number_pattern})"
