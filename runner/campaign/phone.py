"""Phone numbers: what people and spreadsheets write, brought to E.164 (ITU-T E.164) or refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import phonenumbers
from phonenumbers import NumberParseException, ValidationResult

from runner.campaign.allocation import is_allocated
from runner.campaign.spreadsheet import mend

_SCIENTIFIC = re.compile(r"\d(?:[.,]\d+)?[eE]\+?\d+")
_LETTERS = re.compile(r"[^\W\d_]")
_VANITY = re.compile(r"\+?[\d\s().-]{3,}[A-Za-z][A-Za-z\d\s().-]*")
_SHORT = re.compile(r"[1-9]\d{2,5}")
"""Three to six digits, as emergency, information and premium services have them."""
_OPENING_WORD = re.compile(r"\W*[^\W\d_]")
_SHOWN = 40
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


@dataclass(frozen=True, slots=True)
class PhoneProblem:
    """Why a phone is refused.

    Attributes:
        reason: completes "the phone … is refused: ".
        hint: what to do about it.
    """

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
_SERVICES: dict[int, Service] = {
    phonenumbers.PhoneNumberType.PREMIUM_RATE: "premium",
    phonenumbers.PhoneNumberType.TOLL_FREE: "toll-free",
}
_EXTENSION_PROBLEM = PhoneProblem(
    "an extension cannot be texted", "write the number without it, if it is a mobile's"
)


def parse_phone(written: str, region: str | None) -> str | PhoneProblem:
    """Return a phone in E.164 form, or why it is refused.

    Args:
        written: as it stands in the file.
        region: ISO 3166-1 alpha-2 code of the country of numbers in national form; None if there is none.
    """
    return written if is_allocated(written) else parse_mended(mend(written).text, region)


def parse_mended(text: str, region: str | None) -> str | PhoneProblem:
    """Return a phone in E.164 form, or why it is refused, as `parse_phone` does.

    Args:
        text: what `mend` has left of it.
        region: of numbers in national form; None if there is none.
    """
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


def find_service(phone: str) -> Service | None:
    """Return the kind of service that a number is, None if it may be a person's.

    Args:
        phone: E.164, allocated.
    """
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
    """Return a phone as it was written, but for the digits between its first and its last two.

    What is wrong with it can still be seen; whose it is cannot. A job's log may be public. Of other texts
    the letters are hidden too: the column may hold names or addresses.
    """
    is_number = _SCIENTIFIC.fullmatch(written) or _EXTENSION.search(written)
    is_hidden = str.isdigit if is_number and not _OPENING_WORD.match(written) else str.isalnum
    shown = written if len(written) <= _SHOWN else f"{written[:_SHOWN]}…"
    hidden = frozenset([index for index, character in enumerate(shown) if is_hidden(character)][2:-2])
    return "".join("•" if index in hidden else character for index, character in enumerate(shown))


def mask_phone(phone: str) -> str:
    """Return an E.164 phone with all but its first two and last two digits hidden, for people to read."""
    return f"{phone[:3]}{'•' * max(len(phone) - 5, 0)}{phone[-2:]}"
