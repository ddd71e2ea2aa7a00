"""Phones, held against the library that knows every country's numbers."""

from __future__ import annotations

import phonenumbers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from phonenumbers import PhoneNumberFormat, PhoneNumberType

from runner.audience.phone import mask_phone, mask_written, parse_phone
from runner.audience.renumbering import renumber
from runner.source.diagnostic import CellProblem

REGIONS = ["US", "GB", "DE", "FR", "IT", "BR", "IN", "MX", "AU", "CH", "SG", "NG"]


def example_of(region: str) -> phonenumbers.PhoneNumber:
    number = phonenumbers.example_number_for_type(region, PhoneNumberType.MOBILE)
    assert number is not None
    return number


EXAMPLES = {region: example_of(region) for region in REGIONS}
E164 = {region: phonenumbers.format_number(EXAMPLES[region], PhoneNumberFormat.E164) for region in REGIONS}

DRESSINGS = st.sampled_from(["{}", " {} ", "'{}", "{}.0", "\t{}\n", " '{}", "\N{NO-BREAK SPACE}{}"])
ALPHABET = st.sampled_from(
    [*"0123456789", *"0123456789", *"+-() ./,;#x'*", "E", "a", "٣", "３", "\N{EN DASH}"]
)


@given(st.sampled_from(REGIONS), DRESSINGS, st.sampled_from([None, *REGIONS]))
def test_international_numbers_need_no_region(region: str, dressing: str, given_region: str | None) -> None:
    """An E.164 or internationally written number is itself, whatever region is given and however dressed."""
    for form in (PhoneNumberFormat.E164, PhoneNumberFormat.INTERNATIONAL):
        written = dressing.format(phonenumbers.format_number(EXAMPLES[region], form))
        assert parse_phone(written, given_region) == E164[region]


@given(st.sampled_from(REGIONS), DRESSINGS)
def test_national_numbers_belong_to_their_region(region: str, dressing: str) -> None:
    """A number in national form is that of its region."""
    written = phonenumbers.format_number(EXAMPLES[region], PhoneNumberFormat.NATIONAL)
    assert parse_phone(dressing.format(written), region) == E164[region]


@settings(max_examples=200)
@given(st.text(ALPHABET, min_size=1, max_size=18), st.sampled_from([None, *REGIONS]))
def test_what_is_accepted_is_valid_and_in_e164(written: str, region: str | None) -> None:
    """An accepted phone is a valid number in E.164 form, and parsing it again changes nothing."""
    parsed = parse_phone(written, region)
    if isinstance(parsed, CellProblem):
        assert parsed.reason
        return
    number = phonenumbers.parse(parsed, None)
    assert phonenumbers.is_valid_number(number)
    assert phonenumbers.format_number(number, PhoneNumberFormat.E164) == parsed
    assert number.extension is None
    for again in (None, *REGIONS):
        assert parse_phone(parsed, again) == parsed


@settings(max_examples=200)
@given(st.text(st.sampled_from("0123456789+-() "), max_size=16), st.sampled_from([None, *REGIONS]))
def test_plain_digits_are_what_the_library_says(written: str, region: str | None) -> None:
    """Digits and punctuation are accepted if the library calls one reading of them, or one rewritten, valid."""
    texts = [written.strip()]
    if region is not None and not written.strip("-() ").startswith("+"):
        texts.append("+" + phonenumbers.normalize_digits_only(written))
    valid = {found for text in texts if (found := read_by_library(text, region)) is not None}
    parsed = parse_phone(written, region)
    if isinstance(parsed, str):
        assert parsed in valid or parsed in map(renumber, list_unchecked(texts, region))
    else:
        assert len(valid) != 1


def read_by_library(text: str, region: str | None) -> str | None:
    """Return the valid number that the library makes of a text."""
    return next(
        (
            one
            for one in list_unchecked([text], region)
            if phonenumbers.is_valid_number(phonenumbers.parse(one))
        ),
        None,
    )


def list_unchecked(texts: list[str], region: str | None) -> list[str]:
    """Return what the library makes of texts, valid or not."""
    found = []
    for text in texts:
        try:
            number = phonenumbers.parse(text, region)
        except phonenumbers.NumberParseException:
            continue
        found.append(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))
    return found


@given(st.text(max_size=30), st.sampled_from([None, "US", "DE"]))
def test_any_text_is_a_phone_or_a_problem(written: str, region: str | None) -> None:
    """No text makes the parser fail."""
    assert isinstance(parse_phone(written, region), (str, CellProblem))


@pytest.mark.parametrize(
    ("written", "masked"),
    [
        ("+14155550101", "+14•••••••01"),
        ("(415) 555-0101", "(41•) •••-••01"),
        ("911", "911"),
        ("1.4155E+10", "1.4•••E+10"),
        ("+14155550101 ext. 5", "+14••••••••1 ext. 5"),
        ("+1800FLOWERS", "+18•••••••RS"),
        ("ada@example.com", "ad•@•••••••.•om"),
        ("Ada Lovelace, ext. 5", "Ad• ••••••••, ••t. 5"),
        ("4" * 99, "44" + "•" * 36 + "44…"),
        ("", ""),
    ],
)
def test_written_phones_are_masked_in_the_middle(written: str, masked: str) -> None:
    """A phone as written keeps its shape, its first two and its last two digits."""
    assert mask_written(written) == masked


def test_phones_are_masked_for_people() -> None:
    """An E.164 phone shows its first two and its last two digits."""
    assert mask_phone("+14155550101") == "+14•••••••01"
