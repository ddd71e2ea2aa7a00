"""Which E.164 numbers are allocated, told at once: the library's own patterns, put together once a country.

Only says yes where the library would; everything else is the library's to judge and to explain. So are
numbers that are nobody's phone: premium and toll-free ones.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, PhoneMetadata, country_code_for_region

if TYPE_CHECKING:
    from phonenumbers import PhoneNumberDesc

_START = 4
"""`+` and as many digits as the longest country codes have."""
_NUMBER_TYPES = (
    "fixed_line",
    "mobile",
    "shared_cost",
    "voip",
    "personal_number",
    "pager",
    "uan",
    "voicemail",
)

_SERVICES = ("premium_rate", "toll_free")

_Region = tuple[re.Pattern[str] | None, re.Pattern[str]]


class _Country(NamedTuple):
    """One country code.

    Attributes:
        national: where the national number starts in an E.164 number.
        regions: in the library's order, each with the digits that tell it from the others, and its numbers.
    """

    national: int
    regions: tuple[_Region, ...]


def is_allocated(text: str) -> bool:
    """Return whether a text is, as it stands, the E.164 form of a number that certainly is somebody's."""
    country = _find_country(text[:_START])
    if country is None:
        return False
    start, regions = country
    for leading_digits, numbers in regions:
        if leading_digits is None:
            if numbers.fullmatch(text, start):
                return True
        elif leading_digits.match(text, start):
            return numbers.fullmatch(text, start) is not None
    return False


def expand_national(digits: str, region: str) -> str | None:
    """Return the E.164 form of a number in national form that certainly is one, else None.

    Args:
        digits: as they stand in the file.
        region: ISO 3166-1 alpha-2 code of the country.
    """
    if not (digits.isascii() and digits.isdigit()):
        return None
    code, abroad = _read_dialling(region)
    text = f"+{code}{digits}"
    return text if is_allocated(text) and not (abroad and abroad.match(digits)) else None


@cache
def _read_dialling(region: str) -> tuple[int, re.Pattern[str] | None]:
    """Return a country's code, and what people dial there before other countries' codes."""
    metadata = PhoneMetadata.metadata_for_region(region)
    abroad = metadata.international_prefix if metadata is not None else None
    return country_code_for_region(region), _compile(abroad) if abroad else None


@lru_cache(maxsize=10_000)
def _find_country(start: str) -> _Country | None:
    """Return the country that numbers belong to which start so.

    No country code is the start of another one (ITU-T E.164, section 6.2).
    """
    digits = start[1:]
    if len(start) < _START or start[0] != "+" or not (digits.isascii() and digits.isdigit()):
        return None
    lengths = (length for length in range(1, _START) if int(digits[:length]) in COUNTRY_CODE_TO_REGION_CODE)
    length = next(lengths, 0)
    return _read_country(digits[:length]) if length and digits[0] != "0" else None


@cache
def _read_country(code: str) -> _Country | None:
    found = [PhoneMetadata.metadata_for_region(name) for name in COUNTRY_CODE_TO_REGION_CODE[int(code)]]
    metadata = [region for region in found if region is not None]
    if not metadata:
        return None
    prefix = metadata[0].national_prefix_for_parsing
    # The library would try the number without the prefix that people dial inside the country.
    # Argentina's may be nothing at all, which is no reason to.
    guard = rf"(?!(?:{prefix})(?<!\+{code}))" if prefix else ""
    regions = tuple(
        (
            _compile(region.leading_digits) if region.leading_digits else None,
            _compile(guard + _join_patterns(region)),
        )
        for region in metadata
    )
    return _Country(1 + len(code), regions)


def _compile(pattern: str) -> re.Pattern[str]:
    # ASCII: the library's `\d` is for digits that it has brought to 0 to 9 first.
    return re.compile(pattern, re.ASCII)


def _join_patterns(region: PhoneMetadata) -> str:
    # Many countries' mobiles are their landlines: what is written twice is looked for once.
    kinds, services = (
        "|".join(filter(None, dict.fromkeys(_write_pattern(getattr(region, name)) for name in names)))
        for names in (_NUMBER_TYPES, _SERVICES)
    )
    guard = f"(?!(?:{services})$)" if services else ""
    return f"{guard}(?={_write_pattern(region.general_desc)}$)(?:{kinds})"


def _write_pattern(kind: PhoneNumberDesc | None) -> str:
    if kind is None or not kind.national_number_pattern:
        return ""
    lengths = "|".join(f"[0-9]{{{length}}}" for length in kind.possible_length if length > 0)
    is_of_length = f"(?=(?:{lengths})$)" if lengths else ""
    return f"{is_of_length}(?:{kind.national_number_pattern})"
