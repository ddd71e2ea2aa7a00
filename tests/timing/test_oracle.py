"""The runner's decisions of when people are texted, compared with a second opinion on 20,000 of them."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import pytest

from runner.timing.decision import Decision, Defer, SendNow, Timekeeper
from runner.timing.legal_hours import load_law
from runner.timing.schedule import Schedule, read_schedule
from tests.timing.oracle import (
    DAYS,
    MINUTE,
    RUNNER,
    Case,
    Person,
    Verdict,
    decide,
    is_refused,
    open_clock,
    stays_open,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

SEED = 18
DECISIONS = 20_000
A_GROUP = 80
"""Decisions that are asked of the same keeper, which remembers what it has worked out."""

MANY = 3

NORTH_AMERICA = tuple(json.loads((RUNNER / "timing/area_codes.json").read_text(encoding="utf-8"))["places"])
CLOCKS_OF_NORTH_AMERICA = (
    *("Pacific/Guam", "Pacific/Pago_Pago", "America/St_Johns", "Pacific/Honolulu", "America/Adak"),
    *("America/Anchorage", "America/Los_Angeles", "America/Vancouver", "America/Phoenix", "America/Denver"),
    *("America/Edmonton", "America/Regina", "America/Chicago", "America/Rankin_Inlet", "America/Winnipeg"),
    *("America/New_York", "America/Toronto", "America/Jamaica", "America/Puerto_Rico", "America/Halifax"),
)
PEOPLE = (
    Person("+12125550101", ("America/New_York",), ("US-NY",)),
    Person("+13055550101", ("America/New_York",), ("US-FL",)),
    Person("+18505550101", ("America/New_York", "America/Chicago"), ("US-FL",)),
    Person("+18504342345", ("America/Chicago",), ("US-FL",)),
    Person("+14155550101", ("America/Los_Angeles",), ("US-CA",)),
    Person("+12084990123", ("America/Boise", "America/Los_Angeles"), ("US-ID",)),
    Person("+16055550101", ("America/Chicago", "America/Denver"), ("US-SD",)),
    Person("+14015550101", ("America/New_York",), ("US-RI",)),
    Person("+12145550101", ("America/Chicago",), ("US-TX",)),
    Person("+12055550101", ("America/Chicago",), ("US-AL",)),
    Person("+15045550101", ("America/Chicago",), ("US-LA",)),
    Person("+573012345678", ("America/Bogota",), ("CO",)),
    Person("+13855550101", ("America/Denver",), ("US-UT",)),
    Person("+16025550101", ("America/Phoenix",), ("US-AZ",)),
    Person("+18085550101", ("Pacific/Honolulu",), ("US-HI",)),
    Person("+16715550101", ("Pacific/Guam",), ("GU",)),
    Person("+17875550101", ("America/Puerto_Rico",), ("PR",)),
    Person("+18765550101", ("America/Jamaica",), ("JM",)),
    Person("+16045550101", ("America/Vancouver",), ("CA-BC",)),
    Person("+12505550101", ("America/Vancouver", "America/Edmonton"), ("CA-BC",)),
    Person("+17805550101", ("America/Edmonton",), ("CA-AB",)),
    Person("+12045550101", ("America/Winnipeg",), ("CA-MB",)),
    Person("+15145550101", ("America/Toronto",), ("CA-QC",)),
    Person("+17095550101", ("America/St_Johns", "America/Halifax"), ("CA-NL",)),
    Person("+18005550101", CLOCKS_OF_NORTH_AMERICA, NORTH_AMERICA),
    Person("+5351234567", ("America/Havana",), ("CU",)),
    Person("+525512345678", ("America/Mexico_City",), ("MX",)),
    Person("+526641234567", ("America/Tijuana",), ("MX",)),
    Person("+50581234567", ("America/Managua",), ("NI",)),
    Person("+5511987654321", ("America/Sao_Paulo",), ("BR",)),
    Person("+5491123456789", ("America/Argentina/Buenos_Aires",), ("AR",)),
    Person("+595981123456", ("America/Asuncion",), ("PY",)),
    Person("+56961234567", ("America/Santiago", "America/Punta_Arenas", "Pacific/Easter"), ("CL",)),
    Person("+33612345678", ("Europe/Paris",), ("FR",)),
    Person("+4915112345678", ("Europe/Berlin",), ("DE",)),
    Person("+447911123456", ("Europe/London",), ("GB",)),
    Person("+353851234567", ("Europe/Dublin",), ("IE",)),
    Person("+34612345678", ("Europe/Madrid", "Atlantic/Canary"), ("ES",)),
    Person("+351912345678", ("Europe/Lisbon", "Atlantic/Azores"), ("PT",)),
    Person("+37360123456", ("Europe/Chisinau",), ("MD",)),
    Person("+212650123456", ("Africa/Casablanca",), ("MA",)),
    Person("+201001234567", ("Africa/Cairo",), ("EG",)),
    Person("+27821234567", ("Africa/Johannesburg",), ("ZA",)),
    Person("+213551234567", ("Africa/Algiers",), ("DZ",)),
    Person("+970591234567", ("Asia/Gaza", "Asia/Hebron"), ("PS",)),
    Person("+9613123456", ("Asia/Beirut",), ("LB",)),
    Person("+972502345678", ("Asia/Jerusalem",), ("IL",)),
    Person("+971501234567", ("Asia/Dubai",), ("AE",)),
    Person("+821012345678", ("Asia/Seoul",), ("KR",)),
    Person("+919876543210", ("Asia/Kolkata",), ("IN",)),
    Person("+9779812345678", ("Asia/Kathmandu",), ("NP",)),
    Person("+628123456789", ("Asia/Jakarta", "Asia/Makassar", "Asia/Jayapura"), ("ID",)),
    Person(
        "+79161234567",
        (
            *("Europe/Kaliningrad", "Europe/Moscow", "Europe/Samara", "Asia/Yekaterinburg", "Asia/Omsk"),
            *("Asia/Novosibirsk", "Asia/Irkutsk", "Asia/Yakutsk", "Asia/Vladivostok", "Asia/Magadan"),
            "Asia/Kamchatka",
        ),
        ("RU", "KZ"),
    ),
    Person("+61291234567", ("Australia/Sydney",), ("AU",)),
    Person("+61889123456", ("Australia/Darwin",), ("AU",)),
    Person(
        "+61412345678",
        (
            *("Indian/Cocos", "Indian/Christmas", "Australia/Perth", "Australia/Eucla", "Australia/Darwin"),
            *("Australia/Adelaide", "Australia/Brisbane", "Australia/Sydney", "Australia/Lord_Howe"),
        ),
        ("AU", "CC", "CX"),
    ),
    Person("+6421123456", ("Pacific/Auckland", "Pacific/Chatham"), ("NZ",)),
    Person("+6857212345", ("Pacific/Apia",), ("WS",)),
    Person("+870301234567", (), ()),
)
ZONES = {
    "North America": (
        *("America/Vancouver", "America/Edmonton", "America/Winnipeg", "America/Havana", "America/New_York"),
        *("America/Chicago", "America/Denver", "America/Los_Angeles", "America/St_Johns", "America/Halifax"),
        *("America/Tijuana", "America/Adak", "America/Nuuk", "America/Rankin_Inlet", "America/Scoresbysund"),
    ),
    "South America": ("America/Santiago", "Pacific/Easter", "America/Asuncion"),
    "Europe": (
        *("Europe/Paris", "Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Lisbon"),
        *("Atlantic/Azores", "Atlantic/Canary", "Europe/Chisinau", "Europe/Madrid"),
    ),
    "Africa": ("Africa/Casablanca", "Africa/El_Aaiun", "Africa/Cairo", "Africa/Ceuta"),
    "Asia": ("Asia/Gaza", "Asia/Beirut", "Asia/Jerusalem", "Asia/Nicosia"),
    "Australia and Oceania": (
        *("Australia/Sydney", "Australia/Lord_Howe", "Australia/Adelaide", "Pacific/Auckland"),
        *("Pacific/Chatham", "Pacific/Norfolk"),
    ),
    "Antarctica": ("Antarctica/Troll", "Antarctica/McMurdo"),
}
CONTINENTS = {zone: continent for continent, zones in ZONES.items() for zone in zones}
NEW_RULES = (
    "America/Vancouver",
    "America/Edmonton",
    "America/Winnipeg",
    "Africa/Casablanca",
    "America/Havana",
)
STEADY = (
    "Asia/Kathmandu",
    "Pacific/Kiritimati",
    "Africa/Lagos",
    "Etc/UTC",
    "Asia/Kolkata",
    "Pacific/Marquesas",
)

FROM, TO = datetime(2026, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)


class Author:
    """Writes campaigns around changes of clocks, and asks about people at moments near by."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def write(self) -> list[Case]:
        """Return cases that share a campaign."""
        zone = self._chance.choice([*CONTINENTS, *NEW_RULES])
        changes = [change for change in open_clock(zone).changes() if FROM < change[0] < TO]
        around, _ = self._chance.choice(changes) if changes else (FROM + timedelta(days=200), 0)
        schedule = self._write_schedule(zone, around)
        policy = {
            "quiet_hours": self._chance.choice(("legal", "schedule")),
            "timezone_unknown": self._chance.choice(("campaign", "refuse")),
            "no_rule": self._chance.choice(("schedule", "schedule", "refuse")),
            "purpose": self._chance.choice(("marketing", "survey", "service")),
        }
        method = "VOICE" if self._happens(0.2) else "SMS"
        moments = [self._choose_moment(around) for _ in range(12)]
        cases: list[Case] = []
        while len(cases) < A_GROUP:
            person, own_zone = self._choose_person(zone)
            chosen = self._chance.sample(moments, self._chance.randrange(1, 5))
            cases += [Case(schedule, policy, method, person, own_zone, moment) for moment in chosen]
        return cases[:A_GROUP]

    def _happens(self, share: float) -> bool:
        return self._chance.random() < share

    def _write_schedule(self, zone: str, around: datetime) -> dict[str, Any]:
        schedule: dict[str, Any] = {}
        if self._happens(0.8):
            schedule["timezone"] = zone if self._happens(0.7) else self._chance.choice([*CONTINENTS, *STEADY])
        if self._happens(0.85):
            schedule["send_between"] = self._choose_hours(zone, around)
        if self._happens(0.5):
            days = self._chance.sample(DAYS, self._chance.randrange(1, 8))
            schedule["days"] = sorted(days, key=DAYS.index)
        home = schedule.get("timezone", zone)
        start = around + timedelta(minutes=self._chance.choice((0, self._chance.randrange(-3000, 1500))))
        if self._happens(0.35):
            schedule["not_before"] = show_time(home, start)
        if self._happens(0.35):
            later = self._chance.choice((30, self._chance.randrange(-60, 5000), 20_000))
            schedule["expires"] = show_time(home, start + timedelta(minutes=later, seconds=later % 2 * 30))
        if schedule.keys() & {"not_before", "expires"}:
            schedule["timezone"] = home
        return schedule

    def _choose_hours(self, zone: str, around: datetime) -> list[str]:
        """Return everyday hours, or narrow ones near the time at which clocks change."""
        if self._happens(0.55):
            choices = ("09:00", "20:00"), ("08:00", "21:00"), ("10:00", "16:00"), ("12:00", "13:30")
            return list(self._chance.choice(choices))
        if self._happens(0.4):
            choices = ("00:00", "24:00"), ("00:00", "00:30"), ("22:00", "24:00"), ("23:45", "24:00")
            return list(self._chance.choice((*choices, ("00:00", "08:00"), ("21:00", "08:00"))))
        shown = int(show_time(zone, around - MINUTE)[11:13]) * 60 + self._chance.randrange(-90, 150)
        opens = max(0, min(shown, 1439)) // 5 * 5
        closes = min(opens + self._chance.choice((10, 20, 30, 60, 120)), 1440)
        return [f"{minute // 60:02d}:{minute % 60:02d}" for minute in (opens, closes)]

    def _choose_person(self, zone: str) -> tuple[Person, str | None]:
        there = [person for person in PEOPLE if zone in person.zones]
        person = self._chance.choice(there if there and self._happens(0.4) else PEOPLE)
        if len(person.zones) > MANY and self._happens(0.9):
            # To find that they have no hour in common takes a while.
            person = PEOPLE[0]
        if zone in person.zones and self._happens(0.6):
            return person, None
        if self._happens(0.4):
            return person, None
        return person, zone if self._happens(0.7) else self._chance.choice([*CONTINENTS, *STEADY])

    def _choose_moment(self, around: datetime) -> datetime:
        if self._happens(0.05):
            return FROM + timedelta(seconds=self._chance.randrange(int((TO - FROM).total_seconds())))
        near = around + timedelta(minutes=self._chance.choice((0, self._chance.randrange(-2400, 2400))))
        step = self._chance.choice((0, 0, -1, 59_999_999, self._chance.randrange(60_000_000)))
        return near + timedelta(microseconds=step)


def show_time(zone: str, moment: datetime) -> str:
    """Return a local time, which may be one that clocks skip: it is shown as if they had not."""
    ahead = open_clock(zone).ahead((moment - MINUTE - datetime(2025, 12, 1, tzinfo=UTC)) // MINUTE)
    shown = (moment + ahead * MINUTE).replace(tzinfo=None).isoformat(timespec="seconds")
    return shown.removesuffix(":00") if shown.count(":") == 2 else shown


def make_keeper(case: Case, schedule: Schedule) -> Timekeeper:
    """Return what is checked, for cases that share a campaign."""
    unknown: Literal["campaign", "refuse"] = (
        "campaign" if case.policy["timezone_unknown"] == "campaign" else "refuse"
    )
    law = load_law() if case.policy["quiet_hours"] == "legal" else None
    method: Literal["SMS", "VOICE"] = "VOICE" if case.method == "VOICE" else "SMS"
    no_rule: Literal["refuse", "schedule"] = "refuse" if case.policy["no_rule"] == "refuse" else "schedule"
    purposes: dict[str, Literal["survey", "marketing", "service"]] = {
        "survey": "survey",
        "marketing": "marketing",
        "service": "service",
    }
    return Timekeeper(
        schedule,
        timezone_unknown=unknown,
        law=law,
        method=method,
        purpose=purposes[case.policy["purpose"]],
        no_rule=no_rule,
    )


def describe(decision: Decision) -> Verdict:
    if isinstance(decision, SendNow):
        return Verdict("now")
    if isinstance(decision, Defer):
        return Verdict("later", decision.until, frozenset(reason.kind for reason in decision.reasons))
    return Verdict(decision.kind)


def find_traits(case: Case, verdict: Verdict) -> Iterator[str]:
    """Yield what is special about a case."""
    yield verdict.word
    yield from verdict.closed
    yield from (f"`{key}`" for key in case.schedule)
    yield f"policy {case.policy['timezone_unknown']}"
    yield case.method
    yield f"purpose {case.policy['purpose']}"
    if case.own_zone:
        yield "own zone"
    if len(verdict.zones) > 1:
        yield "several zones"
    if not case.own_zone and verdict.zones and not {*verdict.zones} & {*case.person.zones, "Etc/UTC"}:
        yield "campaign's zone"
    if verdict.word == "later" and verdict.due is not None and verdict.due - case.moment > timedelta(days=8):
        yield "more than a week"
    if case.schedule.get("send_between", ["", "24:00"])[1] == "24:00":
        yield "open up to midnight"
    last = verdict.due or case.moment
    for zone in {*verdict.zones} & CONTINENTS.keys():
        for change, minutes in open_clock(zone).changes():
            if case.moment - timedelta(hours=3) < change < last + timedelta(hours=3):
                yield CONTINENTS[zone]
                yield "gap" if minutes > 0 else "overlap"
                yield f"{abs(minutes)} minutes"
                yield zone
                if case.moment < change <= last:
                    yield "waits over a change"


TRAITS = {
    *("now", "later", "expired", "timezone_unknown", "never_open", "not_before", "send_between", "law"),
    *(
        "`timezone`",
        "`send_between`",
        "`days`",
        "`not_before`",
        "`expires`",
        "policy campaign",
        "policy refuse",
    ),
    *("no_rule", "purpose survey", "purpose marketing", "purpose service"),
    *("SMS", "VOICE", "own zone", "several zones", "campaign's zone", "more than a week"),
    *(
        "open up to midnight",
        "gap",
        "overlap",
        "30 minutes",
        "60 minutes",
        "120 minutes",
        "waits over a change",
    ),
    *ZONES,
    *NEW_RULES,
    *("Australia/Lord_Howe", "Antarctica/Troll", "Africa/El_Aaiun", "America/Santiago", "Pacific/Chatham"),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_oracle_agrees(record_property: Any) -> None:
    """Sent now, later and from when on, or never: on 20,000 decisions around changes of clocks everywhere."""
    author = Author(SEED)
    seen: Counter[str] = Counter()
    compared = 0
    for number in count():
        if compared >= DECISIONS:
            break
        cases = author.write()
        schedule = read_schedule(cases[0].schedule)
        assert is_refused(cases[0].schedule) == isinstance(schedule, tuple), (number, cases[0].schedule)
        if isinstance(schedule, tuple):
            seen["refused schedule"] += 1
            continue
        keeper, asked = make_keeper(cases[0], schedule), set()
        for case in cases:
            expected = decide(case)
            found = keeper.decide(case.person.phone, case.own_zone, case.moment)
            said = describe(found)
            assert (said.word, said.due) == (expected.word, expected.due), (number, case)
            # Reasons are told as they were when first asked.
            if (case.person, case.own_zone) not in asked:
                assert said.closed == expected.closed, (number, case)
            asked.add((case.person, case.own_zone))
            if isinstance(found, SendNow):
                assert found.until > case.moment, (number, case)
                assert stays_open(case, expected.zones, found.until), (number, case)
            seen.update(set(find_traits(case, expected)))
            compared += 1
    record_property("decisions", compared)
    sys.stdout.write(f"\n{compared} decisions compared: {dict(seen.most_common())}\n")
    assert compared >= DECISIONS
    assert seen["refused schedule"] > 20
    assert {trait for trait in TRAITS if seen[trait] < 20} == set()


@pytest.mark.slow
def test_the_oracle_agrees_on_holidays() -> None:
    """From Christmas to Easter every seven hours, where a law closes its holidays; some of them close somebody."""
    codes = {"US-AL", "US-LA", "US-RI", "US-UT", "CO", "ZA", "AU", "FR"}
    people = [person for person in PEOPLE if len(person.zones) == 1 and codes & set(person.places)]
    policy = {"quiet_hours": "legal", "timezone_unknown": "refuse", "no_rule": "refuse", "purpose": "survey"}
    closed: Counter[str] = Counter()
    for method in ("SMS", "VOICE"):
        for person in people:
            for step in range(0, 125 * 24, 7):
                moment = datetime(2026, 12, 20, tzinfo=UTC) + timedelta(hours=step)
                case = Case({}, policy, method, person, None, moment)
                # A keeper of its own: one tells as long as somebody waits what closed first.
                found = make_keeper(case, Schedule()).decide(person.phone, None, moment)
                expected = decide(case)
                said = describe(found)
                assert (said.word, said.due) == (expected.word, expected.due), case
                if isinstance(found, Defer):
                    closed.update(person.places[0] for reason in found.reasons if reason.holiday is not None)
    assert closed.keys() == codes


@pytest.mark.slow
@pytest.mark.parametrize(
    "now",
    [
        "2026-02-15T01:30:00+00:00",  # Ramadan begins in Morocco
        "2026-10-03T15:30:00+00:00",  # Lord Howe's half hour
        "2026-10-25T00:59:59+00:00",  # winter begins in Europe and at Troll
        "2026-12-01T20:00:00+00:00",  # Vancouver does not change its clocks any more
    ],
)
def test_a_plan_counts_as_the_oracle_does(tmp_path: Path, run_process: Run, now: str) -> None:
    """From the campaign's file and the audience's zones to the counts, and the first moment that one is due."""
    moment = datetime.fromisoformat(now)
    zones = [None, None, *CONTINENTS, *STEADY]
    audience = [(person, zones[number % len(zones)]) for number, person in enumerate(PEOPLE)]
    schedule = {
        "timezone": "Africa/Casablanca",
        "send_between": ["09:00", "20:00"],
        "days": ["mon", "tue", "wed", "thu", "sun"],
        "not_before": show_time("Africa/Casablanca", moment - timedelta(hours=1)),
        "expires": show_time("Africa/Casablanca", moment + timedelta(hours=12)),
    }
    policy = {"timezone_unknown": "refuse"}
    campaign = {
        "version": 1,
        "name": "pulse",
        "recipients": [{"csv": "people.csv", "timezone_column": "tz"}],
        "messages": [{"id": "ask", "text": "Hello"}],
        "schedule": schedule,
        "policy": policy,
    }
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/pulse.yaml").write_text(json.dumps(campaign), encoding="utf-8")
    rows = "".join(f"{person.phone},{zone or ''}\n" for person, zone in audience)
    (tmp_path / "campaigns/people.csv").write_text(f"phone,tz\n{rows}", encoding="utf-8")
    expected = [decide(Case(schedule, policy, "SMS", person, zone, moment)) for person, zone in audience]
    words = Counter(verdict.word for verdict in expected)
    done = run_process("plan", "--now", now, "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (message,) = json.loads(done.stdout)["campaigns"][0]["messages"]
    assert message["recipients"] == len(PEOPLE)
    assert {name: message[name] for name in ("to_send", "deferred", "expired", "timezone_unknown")} == {
        "to_send": words["now"],
        "deferred": words["later"],
        "expired": words["expired"],
        # Those whose zones have no hour in common are counted as well.
        "timezone_unknown": words["timezone_unknown"] + words["never_open"],
    }
    assert min(words["later"], words["expired"]) > 3
    first = min(verdict.due for verdict in expected if verdict.due is not None)
    assert datetime.fromisoformat(message["next_due"]) == first
