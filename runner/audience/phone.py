"""Phone numbers as people and spreadsheets write them, brought to E.164 (ITU-T E.164) or refused.

A fast check accepts mobiles by the library's own patterns; the library judges and explains the rest,
including landlines, premium and toll-free numbers. Damage by spreadsheets and address books is
repaired if no digit is lost.

Digits with neither `+`, a prefix for abroad nor a trunk prefix may be a national number, or one with its
country code: both are read, and only one that is certain is taken.
"""

from __future__ import annotations

import re
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import phonenumbers
from phonenumbers import (
    COUNTRY_CODE_TO_REGION_CODE,
    NumberParseException,
    PhoneMetadata,
    ValidationResult,
    country_code_for_region,
)

from runner.audience.renumbering import RENUMBERED_STARTS, renumber
from runner.source.diagnostic import CellProblem
from runner.timing.legal_hours import check_region
from runner.timing.zone import find_country_code

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from phonenumbers import PhoneNumber, PhoneNumberDesc

    from runner.campaign.model import PhoneForm


_START = 4
"""`+` and as many digits as the longest country codes have."""
_E164_START = re.compile(r"\+[1-9]\d\d", re.ASCII)
_SERVICE_PATTERNS = ("premium_rate", "toll_free")

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
_SHORT = re.compile(r"[1-9]\d{2,5}")
"""Three to six digits, as emergency, information and premium services have them."""
_PLUS = re.compile(r"[^\w+＋]*[+＋]")
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
_PARSE_REASONS = {
    NumberParseException.INVALID_COUNTRY_CODE: "its country code does not exist",
    NumberParseException.TOO_SHORT_NSN: "it has too few digits",
    NumberParseException.TOO_SHORT_AFTER_IDD: "it has too few digits",
    NumberParseException.TOO_LONG: "it has too many digits",
}
_MOBILE = frozenset((phonenumbers.PhoneNumberType.MOBILE, phonenumbers.PhoneNumberType.FIXED_LINE_OR_MOBILE))
_NORTH_AMERICAN_DIGITS = 10
_NORTH_AMERICA = 1
"""The country code of the North American plan, where ten digits are a national number."""


class _Region:
    """The numbers of one region, compiled when one is first looked up: `+1` has two dozen regions."""

    def __init__(self, leading_digits: re.Pattern[str] | None, metadata: PhoneMetadata, guard: str) -> None:
        self.leading_digits = leading_digits
        self._metadata = metadata
        self._guard = guard

    @cached_property
    def mobiles(self) -> re.Pattern[str]:
        return _compile(self._guard + _write_mobiles(self._metadata))


class _Country(NamedTuple):
    """One country code.

    Attributes:
        national: the start of the national number in an E.164 number.
        regions: in the library's order, each with its distinguishing digits, and its numbers.
    """

    national: int
    regions: tuple[_Region, ...]


def is_mobile(text: str) -> bool:
    """Return whether a text is the E.164 form, as of today, of a number that certainly may be a mobile's."""
    country = _find_country(text[:_START])
    if country is None:
        return False
    start, regions = country
    for region in regions:
        if region.leading_digits is None:
            if region.mobiles.fullmatch(text, start):
                return text[:3] not in RENUMBERED_STARTS or renumber(text) == text
        elif region.leading_digits.match(text, start):
            return region.mobiles.fullmatch(text, start) is not None
    return False


def expand_national(digits: str, region: str) -> str | None:
    """Return the E.164 form of digits that certainly are a mobile in national form, else None.

    That is so where numbers have no trunk prefix. `region` is the country's ISO 3166-1 alpha-2 code.
    """
    if not (digits.isascii() and digits.isdigit()):
        return None
    code, abroad, has_trunk = _read_dialling(region)
    if has_trunk:
        return None
    text = f"+{code}{digits}"
    return text if is_mobile(text) and not (abroad and abroad.match(digits)) else None


@cache
def _read_dialling(region: str) -> tuple[int, re.Pattern[str] | None, bool]:
    """Return a country's code, the prefix dialled there for abroad, and whether it has a trunk prefix."""
    metadata = PhoneMetadata.metadata_for_region(region)
    abroad = metadata.international_prefix if metadata is not None else None
    code = country_code_for_region(region)
    has_trunk = metadata is None or (metadata.national_prefix is not None and code != _NORTH_AMERICA)
    return code, _compile(abroad) if abroad else None, has_trunk


@lru_cache(maxsize=10_000)
def _find_country(start: str) -> _Country | None:
    """Return the country whose numbers start with these digits."""
    if not _E164_START.fullmatch(start):
        return None
    code = find_country_code(start)
    return _read_country(code) if code else None


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


def _write_mobiles(region: PhoneMetadata) -> str:
    services = "|".join(filter(None, (_write_pattern(getattr(region, name)) for name in _SERVICE_PATTERNS)))
    guard = f"(?!(?:{services})$)" if services else ""
    mobile = _write_pattern(region.mobile) or "(?!)"
    return f"{guard}(?={_write_pattern(region.general_desc)}$)(?:{mobile})"


def _write_pattern(kind: PhoneNumberDesc | None) -> str:
    if kind is None or not kind.national_number_pattern:
        return ""
    lengths = "|".join(f"[0-9]{{{length}}}" for length in kind.possible_length if length > 0)
    is_of_length = f"(?=(?:{lengths})$)" if lengths else ""
    return f"{is_of_length}(?:{kind.national_number_pattern})"


def mend(written: str) -> str:
    """Remove additions of programs from a written phone; possible digits of it stay."""
    text = _unwrap_formula(_INVISIBLE.sub("", written).strip()).strip(_QUOTES).strip()
    text = re.sub(r"[.,]0+$", "", text) if _DECIMAL.fullmatch(text) else text
    text = re.sub("[,.]", "", text) if _THOUSANDS.fullmatch(text) else text
    return text.strip(_STRAY).strip()


def _unwrap_formula(text: str) -> str:
    formula = _FORMULA.fullmatch(text)
    return text if formula is None else formula[1] if formula[1] is not None else formula[2]


_BLANK_PROBLEM = CellProblem("it is blank", "fill it in, or remove the row")
_ROUNDED_PROBLEM = CellProblem(
    "a spreadsheet has rounded it, its last digits are gone",
    "format the column as text in the spreadsheet, paste the numbers again, and export",
)
_LETTERS_PROBLEM = CellProblem("it has letters in it", "write digits, also those that letters stand for")
_SHORT_PROBLEM = CellProblem("a short number is a service, not a person's phone", "remove the row")
_FORM_HINT = (
    "write it with +, or say what all digits without + are, with `phone_form: international` or `national`"
)
_EXTENSION_PROBLEM = CellProblem(
    "an extension cannot be texted", "write the number without it, if it is a mobile's"
)


class Readings(NamedTuple):
    """The meanings of a written phone, in E.164 form.

    Attributes:
        phone: the certain reading, in the form of today.
        others: other valid readings of the same digits.
        is_certain: whether it was written with `+`, or as abroad, so that no country had to be assumed.
        doubt: the problem of digits with several readings of which none is certain.
    """

    phone: str
    others: tuple[str, ...] = ()
    is_certain: bool = True
    doubt: CellProblem | None = None


REGION_HINT = "use a code of ISO 3166-1, as in US, GB, DE"


def find_region_fault(region: str) -> str | None:
    """Return what is wrong with the code of a country, with the one that was meant; None if nothing is."""
    if region.partition("-")[0] in phonenumbers.SUPPORTED_REGIONS:
        return None
    meant = check_region(region)
    guess = f": did you mean {meant}?" if isinstance(meant, str) else ""
    return f"there is no region {region}{guess}"


def parse_phone(written: str, region: str | None) -> str | CellProblem:
    """Return a written phone in E.164 form, or the reason why it is refused.

    `region` is the ISO 3166-1 alpha-2 code for numbers in national form; None if there is none.
    """
    if is_mobile(written):
        return written
    read = read_mended(mend(written), region)
    return read if isinstance(read, CellProblem) else read.doubt or read.phone


def read_mended(
    text: str,
    region: str | None,
    form: PhoneForm | None = None,
    *,
    within: bool = False,
) -> Readings | CellProblem:
    """Return the readings of a text from `mend`, or the reason why it is refused.

    Args:
        text: the phone.
        region: the ISO 3166-1 alpha-2 code for numbers in national form; None if there is none.
        form: the form of digits without a prefix, where a person has said so.
        within: whether the person is known to be of that region: then a number of another one must be
            written with `+`.
    """
    if (wrong := _find_wrong(text)) is not None:
        return wrong
    whole = _parse_digits(text, region)
    digits = phonenumbers.normalize_digits_only(text)
    if _PLUS.match(text) or not digits or digits[0] == "0" or (region is None and form != "international"):
        if isinstance(whole, CellProblem):
            return _say_better(text, whole)
        abroad = region is not None and _read_dialling(region)[1]
        is_abroad = bool(_PLUS.match(text) or (abroad and abroad.match(digits)))
        return Readings(whole, is_certain=is_abroad)
    return _choose(text, digits, region, form, whole, within=within)


def _find_wrong(text: str) -> CellProblem | None:
    """Return the problem of a text that is no phone whatever its digits are."""
    if not text:
        return _BLANK_PROBLEM
    if _SCIENTIFIC.fullmatch(text):
        return _ROUNDED_PROBLEM
    if _EXTENSION.search(text):
        return _EXTENSION_PROBLEM
    if _LETTERS.search(text):
        return _LETTERS_PROBLEM
    return None


def _choose(
    text: str,
    digits: str,
    region: str | None,
    form: PhoneForm | None,
    whole: str | CellProblem,
    *,
    within: bool,
) -> Readings | CellProblem:
    """Return the reading of digits with neither `+` nor a leading zero that is certain, or the problem."""
    abroad = _parse_digits(f"+{digits}", None)
    international = abroad if isinstance(abroad, str) else None
    national = whole if isinstance(whole, str) and whole != international else None
    own = "+" if region is None else f"+{_read_dialling(region)[0]}"
    if within and international is not None and not international.startswith(own):
        if national is not None:
            return Readings(national, (international,), is_certain=False)
        words = f"its digits are {mask_phone(international)}, which is not of the row's country, {region}"
        return CellProblem(words, "write it with + if it is right, or correct the country")
    at_home = whole if isinstance(whole, str) else None
    wanted = {"national": at_home, "international": international}.get(form or "")
    found = [one for one in (national, international) if one is not None]
    if form is not None and wanted is None and found:
        other = "international" if form == "national" else "national"
        hint = f"leave `phone_form` out, or write `phone_form: {other}` if all are"
        return CellProblem(f"it is no {form} number, as `phone_form` says", hint)
    if not found:
        return Readings(whole) if isinstance(whole, str) else _say_better(text, whole)
    chosen = wanted or _find_certain(found, digits, region)
    if chosen is None:
        doubt = doubt_readings(found, "its first digits may be a country code, or not", _FORM_HINT)
        return Readings(found[0], tuple(found[1:]), is_certain=False, doubt=doubt)
    others = () if wanted is not None else tuple(one for one in found if one != chosen)
    return Readings(chosen, others, is_certain=False)


def doubt_readings(readings: Iterable[str], why: str, hint: str) -> CellProblem:
    """Return the problem of a phone with several readings; `why` says on what they depend."""
    return CellProblem(f"it is two numbers, {' and '.join(map(mask_phone, readings))}: {why}", hint)


def _find_certain(found: Sequence[str], digits: str, region: str | None) -> str | None:
    """Return the certain one of the readings of digits, the national one first; None if there is none."""
    if len(found) == 1:
        return found[0]
    mobiles = [one for one in found if phonenumbers.number_type(phonenumbers.parse(one, None)) in _MOBILE]
    if region is not None and is_written_whole(digits, region):
        return found[0]
    return mobiles[0] if len(mobiles) == 1 else None


def is_written_whole(text: str, region: str) -> bool:
    """Return whether a text is a region's mobile, where such are usually written without a trunk prefix."""
    metadata = PhoneMetadata.metadata_for_region(region)
    digits = phonenumbers.normalize_digits_only(text)
    if metadata is None:
        return False
    if metadata.country_code == _NORTH_AMERICA:
        return len(digits) == _NORTH_AMERICAN_DIGITS
    if not is_mobile(f"+{metadata.country_code}{digits}"):
        return False
    if not _read_dialling(region)[2]:
        return True
    for form in metadata.number_format:
        leading = form.leading_digits_pattern
        if (not leading or re.match(leading[-1], digits)) and re.fullmatch(form.pattern or "", digits):
            rule = form.national_prefix_formatting_rule
            has_trunk = rule is not None and str(metadata.national_prefix) in re.sub(r"\\\d", "", rule)
            return not has_trunk or bool(form.national_prefix_optional_when_formatting)
    return False


def _say_better(text: str, problem: CellProblem) -> CellProblem:
    """Return the problem of a short number in place of a vaguer one."""
    return _SHORT_PROBLEM if _SHORT.fullmatch(text) else problem


def list_readings(digits: str) -> list[str]:
    """Return the phones (E.164) that digits without `+` may stand for: whole, or in any country."""
    bare = digits.lstrip("0")
    national = dict.fromkeys((bare, digits))
    codes = ("", *map(str, COUNTRY_CODE_TO_REGION_CODE))
    found = (f"{code}{number}" for code in codes for number in national)
    return [f"+{one}" for one in found if one[:1] not in {"", "0"} and len(one) <= _MOST_DIGITS]


def _parse_digits(text: str, region: str | None) -> str | CellProblem:
    try:
        number = phonenumbers.parse(text, region)
    except NumberParseException as error:
        return _explain_parse(error, is_national=not text.startswith("+"), region=region)
    if number.extension:
        return _EXTENSION_PROBLEM
    if (phone := _write_today(number)) is not None:
        return phone
    possible = phonenumbers.is_possible_number_with_reason(number)
    if possible == ValidationResult.IS_POSSIBLE_LOCAL_ONLY and text.startswith("+"):
        possible = ValidationResult.TOO_SHORT
    return CellProblem(_REASONS.get(possible, "nobody has such a number: its range is not allocated"))


def _write_today(number: PhoneNumber) -> str | None:
    """Return the E.164 form of today of a number; None if nobody has it."""
    written = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
    today = renumber(written)
    if today != written and phonenumbers.is_valid_number(phonenumbers.parse(today, None)):
        return today
    return written if phonenumbers.is_valid_number(number) else None


def _explain_parse(error: NumberParseException, *, is_national: bool, region: str | None) -> CellProblem:
    if error.error_type == NumberParseException.INVALID_COUNTRY_CODE and is_national and region is None:
        return CellProblem(
            "it does not start with + and a country code",
            "write it as in +14155550101, or say which country's numbers these are (`region` in a campaign)",
        )
    reason = _PARSE_REASONS.get(error.error_type, "it is not a phone number")
    return CellProblem(reason, "write it as in +14155550101")


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
