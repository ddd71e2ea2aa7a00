"""What the digits of a phone mean: with or without country code, by file, row or person, in old forms and new."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import phonenumbers
import pytest
from phonenumbers import PhoneMetadata, PhoneNumberFormat, PhoneNumberType

from runner.audience.audience import AudienceTally, iterate_audience, read_excluded
from runner.audience.phone import mend, read_mended
from runner.audience.renumbering import list_forms, renumber
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import RecordedDeliveries
from runner.plan.model import PlanOptions
from runner.plan.plan_context import PlanContext
from runner.plan.planner import Planner
from runner.source.diagnostic import CellProblem, Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runner.campaign.model import Campaign

    Load = Callable[[str], Campaign]

AMBIGUOUS = "it is two numbers"


def read(written: str, region: str | None) -> str:
    """Return a phone in E.164 form, or the reason for which it is refused."""
    found = read_mended(mend(written), region)
    if isinstance(found, CellProblem):
        return found.reason
    return found.doubt.reason if found.doubt else found.phone


DIGITS_ARE_READ_BOTH_WAYS: list[tuple[str | None, str, str]] = [
    ("DE", "491715550101", "+491715550101"),
    ("DE", "49 1512 3456788", "+4915123456788"),
    ("DE", "0171 5550101", "+491715550101"),
    ("DE", "1715550101", "+491715550101"),
    ("DE", "33612345678", "+33612345678"),
    ("DE", "447911123456", "+447911123456"),
    ("DE", "380501234567", "+380501234567"),
    ("DE", "14155550101", "+14155550101"),
    ("DE", "15123456788", AMBIGUOUS),
    ("DE", "431234567", AMBIGUOUS),
    ("GB", "7725 234567", "+447725234567"),
    ("US", "479 412 3456", "+14794123456"),
    ("US", "491715550101", "+491715550101"),
    ("PL", "508551234", "+48508551234"),
    ("NO", "40612345", "+4740612345"),
    ("ES", "687123456", "+34687123456"),
    ("IT", "3331234567", "+393331234567"),
    ("IT", "393331234567", "+393331234567"),
    ("ID", "62812345678", "+62812345678"),
    ("RU", "89161234567", "+79161234567"),
    ("BR", "11 98765-4321", "+5511987654321"),
    ("GA", "06 03 12 34", "+24166031234"),
    ("GA", "+24106031234", "+24166031234"),
    ("AR", "11 2345-6789", "+5491123456789"),
    ("AR", "+54 9 11 2345 6789", "+5491123456789"),
    ("CI", "47 12 34 56", "+2250747123456"),
    ("BJ", "97 12 34 56", "+2290197123456"),
    ("MX", "+52 1 55 1234 5678", "+525512345678"),
    ("VN", "0168 123 4567", "+84381234567"),
    ("BR", "11 8123-4567", "+5511981234567"),
    (None, "+49 171 5550101 / +49 171 5550102", "it is not a phone number"),
]


def test_digits_are_read_both_ways() -> None:
    """The reading that is certain is taken, and digits with two are refused."""
    for region, written, phone in DIGITS_ARE_READ_BOTH_WAYS:
        found = read(written, region)
        assert found.startswith(phone) if phone == AMBIGUOUS else found == phone


@pytest.mark.parametrize(
    "phone",
    ["+5491123456789", "+525512345678", "+5511981234567", "+24166031234", "+2250707123456", "+84381234567"],
)
def test_old_forms_lead_to_the_form_of_today(phone: str) -> None:
    """Each older form of a number is rewritten to it, and today's stays as it is."""
    assert len(list_forms(phone)) > 1
    assert {renumber(old) for old in list_forms(phone)} == {phone}


YAML = """\
version: 1
name: c
recipients:
  - {{csv: p.csv, {source}}}
exclude:
  - {{csv: x.csv, {excluded}}}
messages: [{{id: hi, text: Hello}}]
"""


def load(
    campaign: Load, folder: Path, rows: str, *, source: str, not_texted: str = "", excluded: str = ""
) -> Campaign:
    """Write an audience and a list of people not to text, and load their campaign."""
    (folder / "p.csv").write_text(rows, encoding="utf-8")
    (folder / "x.csv").write_text(f"phone\n{not_texted}", encoding="utf-8")
    return campaign(YAML.format(source=source, excluded=excluded or source))


def read_people(loaded: Campaign) -> tuple[list[str], list[tuple[int | None, str]]]:
    """Return the phones of an audience, and its errors with their lines."""
    problems = Problems()
    found = [one.phone for one in iterate_audience(loaded, frozenset(), problems, AudienceTally())]
    return found, [(one.line, one.message) for one in problems if one.severity == "error"]


def test_a_row_s_country_reads_its_number(campaign: Load, tmp_path: Path) -> None:
    """A national number is read by its row's country, and refused if the row contradicts itself."""
    rows = (
        "country,phone\nUS,415 555 0101\nGB,7725 234567\nDE,0151 23456788\nFR,06 12 34 56 78\n"
        "GB,447725234568\nDE,15123456788\nGB,33612345678\nGermany,15123456789\nIN,765 555 0101\nFR,+4917604069074\n"
    )
    found, errors = read_people(
        load(campaign, tmp_path, rows, source="region: US, region_column: country", excluded="region: US")
    )
    assert found == [
        *("+14155550101", "+447725234567", "+4915123456788", "+33612345678", "+447725234568"),
        *("+4915123456789", "+17655550101", "+4917604069074"),
    ]
    assert [line for line, _ in errors] == [7, 8]


def test_a_time_zone_contradicts_a_number(campaign: Load, tmp_path: Path) -> None:
    """A national number is refused where the row's clock is not one of its country, unless written with +."""
    rows = "tz,phone\nAmerica/New_York,4155550101\nEurope/Berlin,4155550102\nEurope/Berlin,+14155550103\n"
    source = "region: US, timezone_column: tz"
    found, errors = read_people(load(campaign, tmp_path, rows, source=source, excluded="region: US"))
    assert found == ["+14155550101", "+14155550103"]
    assert [line for line, _ in errors] == [3]


def test_a_list_of_people_not_to_text_keeps_every_reading(campaign: Load, tmp_path: Path) -> None:
    """Where two readings are possible both are kept out; a file that says its form keeps out one."""
    loaded = load(
        campaign, tmp_path, "phone\n", source="region: DE", not_texted="15123456788\n491715550101\n"
    )
    assert read_excluded(loaded, Problems()) == {
        *("+4915123456788", "+15123456788", "+491715550101", "+49491715550101"),
    }
    said = load(
        campaign,
        tmp_path,
        "phone\n",
        source="region: DE, phone_form: international",
        not_texted="15123456788\n",
    )
    assert read_excluded(said, Problems()) == {"+15123456788"}


@pytest.mark.parametrize(
    ("form", "phone"), [("international", "+15123456788"), ("national", "+4915123456788")]
)
def test_a_file_says_its_form(campaign: Load, tmp_path: Path, form: str, phone: str) -> None:
    """The hint for ambiguous digits, `phone_form`, decides."""
    loaded = load(campaign, tmp_path, "phone\n15123456788\n", source=f"region: DE, phone_form: {form}")
    assert read_people(loaded) == ([phone], [])


@pytest.mark.parametrize(
    ("written", "recorded"),
    [("+5491123456789", "+541123456789"), ("0603 1234", "+24106031234")],
)
def test_who_was_texted_under_an_old_form_is_not_new(
    campaign: Load, tmp_path: Path, written: str, recorded: str
) -> None:
    """A person on record under an old form of a number that a country has rewritten has been texted."""
    region = "GA" if recorded.startswith("+241") else "DE"
    loaded = load(campaign, tmp_path, f"phone\n{written}\n", source=f"region: {region}")
    key = TargetKey.of("sandbox", "k")
    known = RecordedDeliveries({"hi": {key.fingerprint(recorded)}}, {})
    made = Planner(loaded, "sandbox", known, key, PlanOptions(), PlanContext()).make_plan(Problems())
    assert made is not None
    assert (made.messages[0].already_sent, made.messages[0].to_send) == (1, 0)


def draw_mobiles(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield mobiles of sixty countries, with their regions: examples with their last five digits drawn."""
    chosen = random.Random(seed)  # noqa: S311
    regions = sorted(chosen.sample(sorted(phonenumbers.SUPPORTED_REGIONS), 60))
    while count:
        region = chosen.choice(regions)
        example = phonenumbers.example_number_for_type(region, PhoneNumberType.MOBILE)
        if example is None:
            continue
        text = phonenumbers.format_number(example, PhoneNumberFormat.E164)
        phone = f"{text[:-5]}{chosen.randrange(100_000):05}"
        if phonenumbers.is_valid_number_for_region(phonenumbers.parse(phone), region):
            count -= 1
            yield phone, region


def write_ways(phone: str, region: str) -> Iterator[str]:
    """Yield a phone in six usual ways; the last two lack what tells them apart."""
    number = phonenumbers.parse(phone)
    national = phonenumbers.format_number(number, PhoneNumberFormat.NATIONAL)
    metadata = PhoneMetadata.metadata_for_region(region)
    trunk = "" if metadata is None else metadata.national_prefix or ""
    yield phone
    yield phonenumbers.format_number(number, PhoneNumberFormat.INTERNATIONAL)
    yield national
    yield phonenumbers.normalize_digits_only(national)
    yield phone[1:]
    yield phonenumbers.normalize_digits_only(national).removeprefix(trunk)


def check_corpus(count: int, seed: int) -> None:
    """Assert that mobiles are read as themselves, or refused, and stay on any list of people not to text."""
    abroad = ["DE", "US", "FR", "BR", "IN", "GB"]
    for index, (phone, region) in enumerate(draw_mobiles(count, seed)):
        today = renumber(phone)
        for way, written in enumerate(write_ways(phone, region)):
            for by in (region, None):
                found = read_mended(mend(written), by)
                if isinstance(found, CellProblem) or found.doubt is not None:
                    assert way > 3 or by is None, (phone, written, by, found)
                else:
                    assert found.phone == today, (phone, written, by, found)
            listed = read_mended(mend(written), region)
            assert not isinstance(listed, CellProblem), (phone, written, listed)
            assert today in (listed.phone, *listed.others), (phone, written, listed)
        listed = read_mended(phone[1:], abroad[index % len(abroad)])
        if not isinstance(listed, CellProblem):
            assert today in (listed.phone, *listed.others), (phone, listed)


def test_mobiles_of_sixty_countries_in_six_ways() -> None:
    """Nobody else is texted, whatever way a mobile is written, and nobody is lost from a list."""
    check_corpus(150, 1)
