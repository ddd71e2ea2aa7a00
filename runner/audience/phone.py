"""Phone numbers as people and spreadsheets write them, brought to E.164 (ITU-T E.164) or refused.

A fast check accepts numbers that the library's own patterns certainly allocate; the library judges and
explains the rest, including premium and toll-free numbers. Damage by spreadsheets and address books is
repaired if no digit is lost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import phonenumbers
from phonenumbers import (
    COUNTRY_CODE_TO_REGION_CODE,
    NumberParseException,
    PhoneMetadata,
    ValidationResult,
    country_code_for_region,
)

if TYPE_CHECKING:
    from phonenumbers import PhoneNumberDesc


_START = 4
"""`+` and as many digits as the longest country codes have."""
_NUMBER_TYPES = "fixed_line mobile shared_cost voip personal_number pager uan voicemail".split()  # noqa: SIM905
_SERVICE_PATTERNS = ("premium_rate", "toll_free")

Damage = Literal["invisible", "blanks", "formula", "apostrophe", "decimal", "thousands", "punctuation"]
DAMAGE_WORDS: dict[Damage, str] = {
    "invisible": "invisible characters in {}",
    "blanks": "blanks around {}",
    "formula": 'a formula, ="…", around {}',
    "apostrophe": "an apostrophe or quotes around {}",
    "decimal": "a decimal point and zeros behind {}",
    "thousands": "separators of thousands in {}",
    "punctuation": "stray punctuation around {}",
}
"""By kind of damage: completes "a phone has "; {} is for it or them."""
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe0f\ufeff]"
)
"""Controls, soft hyphens, zero widths, marks of direction: address books put them around copied phones."""
_FORMULA = re.compile(r'=\s*(?:"([^"]*)"|(\+?\d[\d\s().-]*))')
_QUOTES = "'’‘`´\"“”"
_DECIMAL = re.compile(r"(\+?\d{6,15})[.,]0{1,2}|([^.,]*\d)\.0")
"""In French notation `.00` may be a phone's last two digits; in digits alone it may not."""
_THOUSANDS = re.compile(r"(?=(?:\D*\d){7})\+?\d{1,3}(?:,\d{3}){2,}|\d{1,3}(?:\.\d{3}){3,}")
_STRAY = ",;:.!?_<>[]{}|•·\\"
_SCIENTIFIC = re.compile(r"\d(?:[.,]\d+)?[eE]\+?\d+")
_LETTERS = re.compile(r"[^\W\d_]")
_VANITY = re.compile(r"\+?[\d\s().-]{3,}[A-Za-z][A-Za-z\d\s().-]*")
_SHORT = re.compile(r"[1-9]\d{2,5}")
"""Three to six digits, as emergency, information and premium services have them."""
_OPENING_WORD = re.compile(r"\W*[^\W\d_]")
_SHOWN = 40
_MOST_DIGITS = 15
_EXTENSION = re.compile(r"(?:ext\.?|extension|x|#|;ext=)\s*\d+\s*$", re.IGNORECASE)
_REASONS = {
    ValidationResult.TOO_SHORT: "it has too few digits",
    ValidationResult.TOO_LONG: "it has too many digits",
    ValidationResult.INVALID_COUNTRY_CODE: "its country code does not exist",
    ValidationResult.IS_POSSIBLE_LOCAL_ONLY: "its area code is missing",
    ValidationResult.INVALID_LENGTH: "no number has this many digits",
}
Service = Literal["premium", "toll-free"]
"""Kinds of numbers that no person has."""
_SERVICES: dict[int, Service] = {
    phonenumbers.PhoneNumberType.PREMIUM_RATE: "premium",
    phonenumbers.PhoneNumberType.TOLL_FREE: "toll-free",
}


class _Region:
    """The numbers of one region, compiled when one is first looked up: `+1` has two dozen regions."""

    def __init__(self, leading_digits: re.Pattern[str] | None, metadata: PhoneMetadata, guard: str) -> None:
        self.leading_digits = leading_digits
        self._metadata = metadata
        self._guard = guard

    @cached_property
    def numbers(self) -> re.Pattern[str]:
        return _compile(self._guard + _join_patterns(self._metadata))


class _Country(NamedTuple):
    """One country code.

    Attributes:
        national: the start of the national number in an E.164 number.
        regions: in the library's order, each with its distinguishing digits, and its numbers.
    """

    national: int
    regions: tuple[_Region, ...]


def is_allocated(text: str) -> bool:
    """Return whether a text is the E.164 form of a number that certainly is somebody's."""
    country = _find_country(text[:_START])
    if country is None:
        return False
    start, regions = country
    for region in regions:
        if region.leading_digits is None:
            if region.numbers.fullmatch(text, start):
                return True
        elif region.leading_digits.match(text, start):
            return region.numbers.fullmatch(text, start) is not None
    return False


def expand_national(digits: str, region: str) -> str | None:
    """Return the E.164 form of digits that certainly are a number in national form, else None.

    `region` is the country's ISO 3166-1 alpha-2 code.
    """
    if not (digits.isascii() and digits.isdigit()):
        return None
    code, abroad = _read_dialling(region)
    text = f"+{code}{digits}"
    return text if is_allocated(text) and not (abroad and abroad.match(digits)) else None


@cache
def _read_dialling(region: str) -> tuple[int, re.Pattern[str] | None]:
    """Return a country's code, and the prefix dialled there before other countries' codes."""
    metadata = PhoneMetadata.metadata_for_region(region)
    abroad = metadata.international_prefix if metadata is not None else None
    return country_code_for_region(region), _compile(abroad) if abroad else None


@lru_cache(maxsize=10_000)
def _find_country(start: str) -> _Country | None:
    """Return the country whose numbers start with these digits.

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
    # The library would also try the number without the country's trunk prefix. Argentina's may be empty,
    # which is no reason to.
    guard = rf"(?!(?:{prefix})(?<!\+{code}))" if prefix else ""
    regions = tuple(
        _Region(_compile(region.leading_digits) if region.leading_digits else None, region, guard)
        for region in metadata
    )
    return _Country(1 + len(code), regions)


def _compile(pattern: str) -> re.Pattern[str]:
    # ASCII: the library's `\d` is for digits that it has brought to 0 to 9 first.
    return re.compile(pattern, re.ASCII)


def _join_patterns(region: PhoneMetadata) -> str:
    # Many countries' mobile and landline patterns are equal: each is matched once.
    kinds, services = (
        "|".join(filter(None, dict.fromkeys(_write_pattern(getattr(region, name)) for name in names)))
        for names in (_NUMBER_TYPES, _SERVICE_PATTERNS)
    )
    guard = f"(?!(?:{services})$)" if services else ""
    return f"{guard}(?={_write_pattern(region.general_desc)}$)(?:{kinds})"


def _write_pattern(kind: PhoneNumberDesc | None) -> str:
    if kind is None or not kind.national_number_pattern:
        return ""
    lengths = "|".join(f"[0-9]{{{length}}}" for length in kind.possible_length if length > 0)
    is_of_length = f"(?=(?:{lengths})$)" if lengths else ""
    return f"{is_of_length}(?:{kind.national_number_pattern})"


@dataclass(frozen=True, slots=True)
class Mended:
    """A written phone without additions of programs, and the kinds of damage."""

    text: str
    damage: tuple[Damage, ...] = ()


def mend(written: str) -> Mended:
    """Remove additions of programs from a written phone; possible digits of it stay."""
    text, damage = written, list[Damage]()

    def keep(mended: str, kind: Damage) -> str:
        if mended != text and kind not in damage:
            damage.append(kind)
        return mended

    text = keep(_INVISIBLE.sub("", text), "invisible")
    text = keep(text.strip(), "blanks")
    text = keep(_unwrap_formula(text), "formula")
    text = keep(text.strip(_QUOTES), "apostrophe")
    text = keep(text.strip(), "blanks")
    text = keep(re.sub(r"[.,]0+$", "", text) if _DECIMAL.fullmatch(text) else text, "decimal")
    text = keep(re.sub("[,.]", "", text) if _THOUSANDS.fullmatch(text) else text, "thousands")
    text = keep(text.strip(_STRAY), "punctuation")
    return Mended(keep(text.strip(), "blanks"), tuple(damage))


def _unwrap_formula(text: str) -> str:
    formula = _FORMULA.fullmatch(text)
    return text if formula is None else formula[1] if formula[1] is not None else formula[2]


@dataclass(frozen=True, slots=True)
class PhoneProblem:
    """A reason for refusing a phone; completes "the phone … is refused: ". With a hint."""

    reason: str
    hint: str | None = None


_BLANK_PROBLEM = PhoneProblem("it is blank", "fill it in, or remove the row")
_ROUNDED_PROBLEM = PhoneProblem(
    "a spreadsheet has rounded it, its last digits are gone",
    "format the column as text in the spreadsheet, paste the numbers again, and export",
)
_VANITY_PROBLEM = PhoneProblem("letters stand for some of its digits", "write the digits that they stand for")
_LETTERS_PROBLEM = PhoneProblem("it has letters in it", "write digits alone")
_SHORT_PROBLEM = PhoneProblem("a short number is a service, not a person's phone", "remove the row")
PREMIUM_PROBLEM = PhoneProblem(
    "a premium number is a service that costs its callers, not a person's phone", "remove the row"
)
_EXTENSION_PROBLEM = PhoneProblem(
    "an extension cannot be texted", "write the number without it, if it is a mobile's"
)


def parse_phone(written: str, region: str | None) -> str | PhoneProblem:
    """Return a written phone in E.164 form, or the reason why it is refused.

    `region` is the ISO 3166-1 alpha-2 code for numbers in national form; None if there is none.
    """
    return written if is_allocated(written) else parse_mended(mend(written).text, region)


def parse_mended(text: str, region: str | None) -> str | PhoneProblem:
    """Return a text from `mend` as `parse_phone` does."""
    if not text:
        return _BLANK_PROBLEM
    if _SCIENTIFIC.fullmatch(text):
        return _ROUNDED_PROBLEM
    if _EXTENSION.search(text):
        return _EXTENSION_PROBLEM
    if _LETTERS.search(text):
        return _VANITY_PROBLEM if _VANITY.fullmatch(text) else _LETTERS_PROBLEM
    parsed = _parse_digits(text, region)
    if isinstance(parsed, PhoneProblem) and _SHORT.fullmatch(text):
        return _SHORT_PROBLEM
    return parsed


def list_readings(digits: str) -> list[str]:
    """Return the phones (E.164) that digits without `+` may stand for: whole, or in any country."""
    bare = digits.lstrip("0")
    national = dict.fromkeys((bare, digits))
    codes = ("", *map(str, COUNTRY_CODE_TO_REGION_CODE))
    found = (f"{code}{number}" for code in codes for number in national)
    return [f"+{one}" for one in found if one[:1] not in {"", "0"} and len(one) <= _MOST_DIGITS]


def find_service(phone: str) -> Service | None:
    """Return the kind of service of an allocated E.164 number, None if it may be a person's."""
    if is_allocated(phone):
        return None
    return _SERVICES.get(phonenumbers.number_type(phonenumbers.parse(phone, None)))


def _parse_digits(text: str, region: str | None) -> str | PhoneProblem:
    try:
        number = phonenumbers.parse(text, region)
    except NumberParseException as error:
        return _explain_parse(error, is_national=not text.startswith("+"), region=region)
    if number.extension:
        return _EXTENSION_PROBLEM
    if phonenumbers.is_valid_number(number):
        return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
    possible = phonenumbers.is_possible_number_with_reason(number)
    if possible == ValidationResult.IS_POSSIBLE_LOCAL_ONLY and text.startswith("+"):
        possible = ValidationResult.TOO_SHORT
    return PhoneProblem(_REASONS.get(possible, "nobody has such a number: its range is not allocated"))


def _explain_parse(error: NumberParseException, *, is_national: bool, region: str | None) -> PhoneProblem:
    if error.error_type == NumberParseException.INVALID_COUNTRY_CODE and is_national and region is None:
        return PhoneProblem(
            "it does not start with + and a country code",
            "write it as in +14155550101, or say which country's numbers these are with `region`",
        )
    if error.error_type == NumberParseException.INVALID_COUNTRY_CODE:
        return PhoneProblem("its country code does not exist")
    if error.error_type in (NumberParseException.TOO_SHORT_NSN, NumberParseException.TOO_SHORT_AFTER_IDD):
        return PhoneProblem("it has too few digits")
    if error.error_type == NumberParseException.TOO_LONG:
        return PhoneProblem("it has too many digits")
    return PhoneProblem("it is not a phone number", "write it as in +14155550101")


def mask_written(written: str) -> str:
    """Return a phone as written, with digits hidden except its first and its last two.

    The damage stays visible, the owner doesn't: logs may be public. In other texts letters are hidden too,
    since the column may hold names or addresses.
    """
    is_number = _SCIENTIFIC.fullmatch(written) or _EXTENSION.search(written)
    is_hidden = str.isdigit if is_number and not _OPENING_WORD.match(written) else str.isalnum
    shown = written if len(written) <= _SHOWN else f"{written[:_SHOWN]}…"
    hidden = frozenset([index for index, character in enumerate(shown) if is_hidden(character)][2:-2])
    return "".join("•" if index in hidden else character for index, character in enumerate(shown))


def mask_phone(phone: str) -> str:
    """Return an E.164 phone with all but its first two and last two digits hidden, for people to read."""
    return f"{phone[:3]}{'•' * max(len(phone) - 5, 0)}{phone[-2:]}"
