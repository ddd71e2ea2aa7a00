"""Time zones of numbers, held against the library, and names that people write."""

from __future__ import annotations

import random

import phonenumbers
import pytest
from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, PhoneNumberFormat, PhoneNumberType
from phonenumbers.timezone import time_zones_for_geographical_number, time_zones_for_number
from phonenumbers.tzdata import TIMEZONE_DATA

from runner.timing.zone import check_zone, find_prefix, find_zones
from tests.timing.test_zone_table import CORRECTED, RENAMED

MANY_ZONES = sorted(code for code in COUNTRY_CODE_TO_REGION_CODE if len(TIMEZONE_DATA.get(str(code), ())) > 1)


def list_numbers() -> list[phonenumbers.PhoneNumber]:
    """An example of every kind of number in every region, and neighbours of it that are allocated."""
    chance = random.Random(5)  # noqa: S311 - repeatable, not secret
    kinds = [kind for kind in PhoneNumberType.values() if kind != PhoneNumberType.UNKNOWN]
    found = []
    for region in sorted(phonenumbers.SUPPORTED_REGIONS):
        code = phonenumbers.country_code_for_region(region)
        for kind in kinds:
            example = phonenumbers.example_number_for_type(region, kind)
            if example is None:
                continue
            found.append(example)
            digits = str(example.national_number)
            for _ in range(8 if code in MANY_ZONES else 1):
                kept = chance.randrange(1, len(digits))
                tail = "".join(chance.choices("0123456789", k=len(digits) - kept))
                number = phonenumbers.PhoneNumber(code, int(digits[:kept] + tail))
                if phonenumbers.is_valid_number(number):
                    found.append(number)
    return found


@pytest.mark.slow
def test_zones_are_those_of_the_library() -> None:
    """Outside North America, where nothing corrects it, the answer is the library's for numbers of every kind."""
    numbers = [number for number in list_numbers() if number.country_code != 1]
    compared = 0
    for number in numbers:
        phone = phonenumbers.format_number(number, PhoneNumberFormat.E164)
        prefix = find_prefix(phone)
        if any(prefix.startswith(corrected) for corrected in CORRECTED):
            continue
        expected = {RENAMED.get(zone, zone) for zone in time_zones_for_number(number)} - {"Etc/Unknown"}
        if prefix == str(number.country_code):
            # All of the country's, among them what was corrected in it.
            assert expected - set(find_zones(phone)) <= {"Europe/Bucharest", "America/New_York"}, phone[:6]
        else:
            assert set(find_zones(phone)) == expected, phone[:6]
        compared += 1
    assert compared > 1000


@pytest.mark.slow
def test_zones_in_north_america_hold_all_of_the_library_s() -> None:
    """There they may be more: of an exchange that it does not know, the library tells most people's."""
    numbers = [number for number in list_numbers() if number.country_code == 1]
    assert len(numbers) > 400
    more = set()
    for number in numbers:
        phone = phonenumbers.format_number(number, PhoneNumberFormat.E164)
        if any(phone[1:].startswith(corrected) for corrected in CORRECTED):
            continue
        found, expected = set(find_zones(phone)), set(time_zones_for_geographical_number(number))
        if expected == set(TIMEZONE_DATA["1"]):
            continue  # it knows nothing
        assert found >= expected, phone[:5]
        if found > expected:
            more.add(phone[:5])
            # The library has other zones for some exchanges of the same area code, and corrections have more.
            assert found == {
                zone
                for p, zones in (TIMEZONE_DATA | CORRECTED).items()
                if p[:4] == phone[1:5]
                for zone in zones
            }
    assert len(more) < 30


@pytest.mark.parametrize(
    ("phone", "zones"),
    [
        ("+14155550101", ("America/Los_Angeles",)),
        ("+18505550101", ("America/Chicago", "America/New_York")),  # Florida's panhandle
        ("+18504342345", ("America/Chicago",)),  # an exchange of Pensacola
        (
            "+12084990123",
            ("America/Boise", "America/Denver", "America/Los_Angeles"),
        ),  # Idaho, who knows where
        ("+12684641234", ("America/Antigua",)),
        ("+4915112345678", ("Europe/Berlin",)),
        ("+870301234567", ()),  # Inmarsat: no country
    ],
)
def test_an_area_code_tells_its_zones(phone: str, zones: tuple[str, ...]) -> None:
    """One zone, several, or none at all."""
    assert find_zones(phone) == zones


def test_mobiles_without_area_codes_may_be_anywhere_in_the_country() -> None:
    """A Russian mobile is not taken to be in Moscow because its digits look like Moscow's."""
    assert len(find_zones("+79161234567")) > 10
    assert find_zones("+74951234567") == ("Europe/Moscow",)


@pytest.mark.parametrize("written", ["America/New_York", " Europe/Paris ", "UTC", "Asia/Calcutta"])
def test_names_of_the_database_are_taken(written: str) -> None:
    """Links such as Asia/Calcutta too; blanks around do not matter."""
    assert check_zone(written) == written.strip()
