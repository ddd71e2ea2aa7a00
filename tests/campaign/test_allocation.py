"""Numbers that are taken at once are ones that the library would take as they stand."""

from __future__ import annotations

import re

import phonenumbers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from phonenumbers import NumberParseException, PhoneNumberFormat

from runner.audience.phone import expand_national, is_mobile


def list_examples() -> list[str]:
    """Return the library's example numbers: of each region and kind, and of those that no region has."""
    regions, kinds = sorted(phonenumbers.SUPPORTED_REGIONS), range(11)
    found = [phonenumbers.example_number_for_type(region, kind) for region in regions for kind in kinds]
    codes = sorted(phonenumbers.COUNTRY_CODES_FOR_NON_GEO_REGIONS)
    found += [phonenumbers.example_number_for_non_geo_entity(code) for code in codes]
    return [phonenumbers.format_number(number, PhoneNumberFormat.E164) for number in found if number]


EXAMPLES = list_examples()


def is_valid_as_it_stands(text: str) -> bool:
    """Ask the library itself."""
    try:
        number = phonenumbers.parse(text, None)
    except NumberParseException:
        return False
    is_unchanged = phonenumbers.format_number(number, PhoneNumberFormat.E164) == text
    return is_unchanged and phonenumbers.is_valid_number(number)


@st.composite
def draw_mutated(draw: st.DrawFn) -> str:
    """An example number with some digits changed, added or taken away."""
    digits = list(draw(st.sampled_from(EXAMPLES)))
    for _ in range(draw(st.integers(0, 4))):
        place, kept = draw(st.integers(1, len(digits) - 1)), draw(st.integers(0, 1))
        digits[place : place + kept] = draw(st.sampled_from([[], *([digit] for digit in "0123456789")]))
        digits = digits if len(digits) > 1 else ["+", "1"]
    return "".join(digits)


@pytest.mark.slow
@given(draw_mutated() | st.from_regex(r"\+[1-9][0-9]{6,14}", fullmatch=True))
def test_nothing_is_taken_that_the_library_refuses(text: str) -> None:
    """What is taken at once is valid, and its own E.164 form."""
    assert is_valid_as_it_stands(text) or not is_mobile(text)


@st.composite
def draw_national(draw: st.DrawFn) -> tuple[str, str]:
    """Digits that people of a region might write, and the region."""
    region = draw(st.sampled_from(sorted(phonenumbers.SUPPORTED_REGIONS)))
    number = phonenumbers.example_number_for_type(region, draw(st.integers(0, 10)))
    number = number or phonenumbers.example_number(region)
    kinds = [PhoneNumberFormat.NATIONAL, PhoneNumberFormat.E164]
    written = phonenumbers.format_number(number, draw(st.sampled_from(kinds))) if number else ""
    given = draw(st.sampled_from(["", "0", "1", "00", "011"])) + re.sub(r"\D", "", written)
    start, length = draw(st.integers(0, 3)), draw(st.integers(3, 15))
    return given[start : start + length] or "0", region


@settings(max_examples=150)
@given(draw_national())
def test_national_numbers_are_what_the_library_makes_of_them(given: tuple[str, str]) -> None:
    """What is expanded at once is what the library would make of it, and valid."""
    digits, region = given
    expanded = expand_national(digits, region)
    if expanded is not None:
        number = phonenumbers.parse(digits, region)
        assert phonenumbers.is_valid_number(number)
        assert phonenumbers.format_number(number, PhoneNumberFormat.E164) == expanded


def test_most_of_the_world_is_taken() -> None:
    """The short way is the usual one: it takes nearly all of the library's own examples."""
    kinds = (phonenumbers.PhoneNumberType.MOBILE, phonenumbers.PhoneNumberType.FIXED_LINE_OR_MOBILE)
    people = [one for one in EXAMPLES if phonenumbers.number_type(phonenumbers.parse(one, None)) in kinds]
    assert sum(map(is_mobile, people)) > 0.95 * len(people)


def is_service(text: str) -> bool:
    """Ask the library whether a number is premium or toll-free."""
    kind = phonenumbers.number_type(phonenumbers.parse(text, None))
    return kind in (phonenumbers.PhoneNumberType.PREMIUM_RATE, phonenumbers.PhoneNumberType.TOLL_FREE)


@given(st.sampled_from(EXAMPLES) | draw_mutated())
def test_no_service_is_taken_for_a_person(text: str) -> None:
    """No premium or toll-free number is taken at once."""
    assert not is_mobile(text) or not is_service(text)
