"""Audiences in all the situations that a plan tells apart, and a slow answer that is plainly right."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from runner.campaign.model import Variants
from runner.campaign.variants import Draw
from runner.ledger.fingerprint import FingerprintSet, KnownPeople, OpenSession, TargetKey
from runner.ledger.model import RecordedDeliveries
from runner.ledger.people.history import EarlierLaunch, EarlierMessage
from runner.ledger.people.suppressions import Pause
from runner.plan.model import PlanOptions
from runner.plan.plan_context import PlanContext, TextedPeople
from runner.plan.planner import Planner
from runner.source.diagnostic import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.campaign.model import Campaign
    from runner.ledger.people.opt_outs import Barred
    from runner.timing.legal_hours import LawBook

    Load = Callable[..., Campaign]

KEY = TargetKey.of("sandbox", None)
WAIT = timedelta(days=2)
AREAS = {
    "212": ("America/New_York",),
    "415": ("America/Los_Angeles",),
    "850": ("America/Chicago", "America/New_York"),
    "800": (),  # anywhere from Guam to Newfoundland, whose days have no hour in common
}
OPENS, CLOSES = 9, 19
QUARTER = timedelta(minutes=15)
NOON = datetime(2026, 11, 20, 17, 0, tzinfo=UTC)
"""On a Friday: noon in New York, nine in the morning in California."""

YAML = """\
version: 1
name: pulse
recipients:
  - csv: people.csv
    timezone_column: tz
    consent: {{source_column: source}}
exclude:
  - csv: out.csv
messages:
  - id: ask
    introduction: Hello {{{{ name | default("you") }}}}
    questions:
      - {{tag: why, text: Why?}}
  - id: nudge
    after: {{message: ask, wait: 2d}}
    to: {to}
    text: Still there?
variants:
  seed: s
  of: ask
  arms:
    - {{id: short, introduction: One question}}
    - {{id: warm}}
  holdout: {holdout}
schedule:
  timezone: America/New_York
  send_between: ["09:00", "19:00"]
  {expires}
policy:
  consent: required
  timezone_unknown: {timezone_unknown}
  {cap}
"""


@dataclass(frozen=True)
class Person:
    """Somebody of the audience.

    Attributes:
        asked: how long ago they got `ask`; None if they did not.
        reconciled: how long ago the answers to that were read; None if they never were.
        recent: messages that other campaigns have sent them.
        planned: messages that another campaign of the run is about to send them.
        polled: whether these are surveys.
        surveyed: whether a survey of another campaign is open for them.
    """

    area: str = "415"
    name: str = ""
    zone: str = ""
    source: str = "shop"
    excluded: bool = False
    asked: timedelta | None = None
    reconciled: timedelta | None = timedelta()
    answered: bool = False
    sent: bool = False
    unresolved: bool = False
    opt_out: Literal["confirmed", "doubtful"] | None = None
    recent: int = 0
    planned: int = 0
    polled: bool = False
    surveyed: bool = False


@dataclass(frozen=True)
class World:
    """People, the moment, and the campaign's rules."""

    people: tuple[Person, ...]
    now: datetime = NOON
    to: str = "everyone"
    holdout: float = 0.0
    expires: datetime | None = None
    timezone_unknown: str = "refuse"
    cap: int | None = None
    limit: int | None = None
    ignore_time: bool = False
    is_paused: bool = False
    law: LawBook | None = None
    only: str | None = None

    def phone(self, index: int) -> str:
        """Return the phone of the person at a place of the audience."""
        return f"+1{self.people[index].area}55501{index:02}"

    def load(self, load: Load) -> Campaign:
        """Write the campaign and its tables, and load it."""
        zone = ZoneInfo("America/New_York")
        expires = f"expires: {self.expires.astimezone(zone):%Y-%m-%dT%H:%M}" if self.expires else ""
        cap = f"frequency_cap: {{messages: {self.cap}, within: 7d}}" if self.cap else ""
        people = [(self.phone(index), person) for index, person in enumerate(self.people)]
        rows = [f"{phone},{one.name},{one.zone},{one.source}\n" for phone, one in people]
        out = [f"{phone}\n" for phone, one in people if one.excluded]
        return load(
            YAML.format(
                to=self.to,
                holdout=self.holdout,
                expires=expires,
                timezone_unknown=self.timezone_unknown,
                cap=cap,
            ),
            people="phone,name,tz,source\n" + "".join(rows),
            out="phone\n" + "".join(out),
        )

    def plan(self, load: Load) -> Planner:
        """Return a planner of the campaign in these circumstances."""
        options = PlanOptions(self.only, self.limit)
        return Planner(self.load(load), "sandbox", self.list_known(), KEY, options, self.context())

    def list_known(self) -> RecordedDeliveries:
        """Return what is on record."""
        known = RecordedDeliveries({"ask": set(), "nudge": set()}, {"nudge": set()})
        for index, person in enumerate(self.people):
            if person.asked is not None:
                known.sent["ask"].add(self._fingerprint(index))
            if person.sent:
                known.sent["nudge"].add(self._fingerprint(index))
            if person.unresolved:
                known.unresolved["nudge"].add(self._fingerprint(index))
        return known

    def context(self) -> PlanContext:
        """Return what is known besides the files and the record."""
        people = list(enumerate(self.people))
        shelves: dict[Barred, FingerprintSet] = {
            state: FingerprintSet(
                sorted(KEY.fingerprint(self.phone(i)) for i, one in people if one.opt_out == state)
            )
            for state in ("confirmed", "doubtful")
        }
        recent = sorted(KEY.fingerprint(self.phone(i)) for i, one in people for _ in range(one.recent))
        surveyed = sorted(KEY.fingerprint(self.phone(i)) for i, one in people if one.surveyed)
        launches = {
            self._fingerprint(i): EarlierLaunch(
                self.now - one.asked, None if one.reconciled is None else self.now - one.reconciled
            )
            for i, one in people
            if one.asked is not None
        }
        answered = {self._fingerprint(i) for i, one in people if one.answered}
        context = PlanContext(
            now=self.now,
            suppressions=KnownPeople(KEY, shelves),
            earlier={"ask": EarlierMessage(launches, answered)},
            sessions=KnownPeople(KEY, {OpenSession("news", "read"): FingerprintSet(surveyed)}),
            recent={timedelta(days=7): KnownPeople(KEY, {"": FingerprintSet(recent)})},
            planned=[
                TextedPeople(
                    "poll",
                    [int(self.phone(i)[1:]) for i, one in people for _ in range(one.planned)],
                    [int(self.phone(i)[1:]) for i, one in people if one.planned and one.polled],
                )
            ],
            law=self.law,
            pause=Pause("2026-11-01T00:00:00.000000Z", "") if self.is_paused else None,
        )
        return context.leave_out_time() if self.ignore_time else context

    def _fingerprint(self, index: int) -> str:
        return KEY.fingerprint(self.phone(index))

    def is_in_control_group(self, phone: str) -> bool:
        """Return whether the campaign's draw holds a phone out."""
        variants = Variants("s", None, (), Position(Path("pulse.yaml"), 1, 1), self.holdout)
        return Draw(variants).is_in_control_group(phone)

    def decide(self) -> list[dict[str, tuple[str, datetime | None]]]:
        """Return of each person what becomes of each message, and when it is due if that is later."""
        found, served = [], 0
        for index, person in enumerate(self.people):
            is_held = self.is_in_control_group(self.phone(index))
            one = {message: self._decide(message, person, is_held=is_held) for message in ("ask", "nudge")}
            is_asked = person.surveyed or (person.planned > 0 and person.polled)
            if is_asked and not self.ignore_time:
                one = {m: ("open_session", None) if d[0] == "to_send" else d for m, d in one.items()}
            texts = person.recent + person.planned
            # What is sent to oneself is no text to them.
            cap = None if self.ignore_time else self.cap
            for message, (why, _) in one.items():
                if why == "to_send" and cap is not None and texts >= cap:
                    one[message] = "capped", None
                texts += one[message][0] == "to_send"
            # Nor is a pause broken by that.
            if self.is_paused and not self.ignore_time:
                one = {m: ("paused", None) if d[0] == "to_send" else d for m, d in one.items()}
            gets_something = any(why == "to_send" for why, _ in one.values())
            if gets_something and self.limit is not None and served >= self.limit:
                one = {m: ("over_limit", None) if d[0] == "to_send" else d for m, d in one.items()}
            served += gets_something
            found.append(one)
        return found

    def _decide(self, message: str, person: Person, *, is_held: bool) -> tuple[str, datetime | None]:
        has_it = person.asked is not None if message == "ask" else person.sent
        bars = {
            "excluded": person.excluded,
            "already_sent": has_it,
            "unresolved": message == "nudge" and person.unresolved,
            "opted_out": person.opt_out == "confirmed",
            "opt_out_doubtful": person.opt_out == "doubtful",
            "control_group": is_held,
            "no_consent": not person.source,
        }
        if message == "nudge" and not self.ignore_time:
            bars["awaiting"] = person.asked is None or not self._knows_answers(person)
            bars["not_qualified"] = self.to != "everyone" and person.answered != (self.to == "answered")
        why = next((name for name, holds in bars.items() if holds), None)
        if why is not None:
            return why, None
        wait = WAIT - (person.asked or timedelta()) if message == "nudge" else timedelta()
        return ("to_send", None) if self.ignore_time else self.find_time(person, max(wait, timedelta()))

    def _knows_answers(self, person: Person) -> bool:
        """Return whether it is known what `to` asks: that nobody answered, only by a reading after the wait."""
        # An answer that was read stays one, whenever all of them were.
        if self.to == "everyone" or person.answered:
            return True
        if person.reconciled is None or person.asked is None:
            return False
        is_over = person.asked >= WAIT
        return self.to == "answered" or not is_over or person.reconciled <= person.asked - WAIT

    def find_time(self, person: Person, wait: timedelta) -> tuple[str, datetime | None]:
        """Return what becomes of a message to a person when a time from now is over, and when it is due."""
        zones = (person.zone,) if person.zone else AREAS[person.area]
        if not zones and self.timezone_unknown == "refuse":
            return "timezone_unknown", None
        clocks = [ZoneInfo(zone) for zone in zones or ("America/New_York",)]
        due = self.now + wait
        for quarter in count():
            if all(OPENS <= due.astimezone(clock).hour < CLOSES for clock in clocks):
                break
            due = round_up(self.now + wait, QUARTER) + quarter * QUARTER
        if self.expires is not None and due >= self.expires:
            return "expired", None
        return ("to_send", None) if due == self.now else ("deferred", due)


def round_up(moment: datetime, step: timedelta) -> datetime:
    """Return the first moment from one on that is a multiple of a step."""
    return moment + (datetime.min.replace(tzinfo=UTC) - moment) % step


_AGES = st.sampled_from([timedelta(minutes=5), timedelta(hours=30), WAIT, timedelta(days=4, seconds=31)])
PEOPLE = st.builds(
    Person,
    area=st.sampled_from(sorted(AREAS)),
    name=st.sampled_from(["", "", "Ada", "Bo"]),
    zone=st.sampled_from(["", "", "", "Europe/London"]),
    source=st.sampled_from(["shop", "shop", "shop", ""]),
    excluded=st.sampled_from([False] * 5 + [True]),
    asked=st.none() | _AGES,
    reconciled=st.none() | st.sampled_from([timedelta(), timedelta(days=3)]),
    answered=st.booleans(),
    sent=st.sampled_from([False] * 3 + [True]),
    unresolved=st.sampled_from([False] * 3 + [True]),
    opt_out=st.sampled_from([None] * 4 + ["confirmed", "doubtful"]),
    recent=st.integers(0, 2),
    planned=st.integers(0, 1),
    polled=st.booleans(),
    surveyed=st.sampled_from([False] * 3 + [True]),
)
_MOMENTS = st.sampled_from(
    [
        NOON,
        datetime(2026, 11, 20, 13, 59, tzinfo=UTC),  # a minute before nine in New York
        datetime(2026, 11, 20, 4, 59, 59, 999999, tzinfo=UTC),  # the last moment of a day there
        datetime(
            2026, 11, 1, 5, 30, tzinfo=UTC
        ),  # the first half past one of the night in which it comes twice
        datetime(
            2027, 3, 14, 12, 59, tzinfo=UTC
        ),  # nearly nine in New York, on its summer time since an hour
        datetime(2027, 3, 14, 0, 0, tzinfo=UTC),  # seven in the evening there: just closed
    ]
)
WORLDS = st.builds(
    World,
    people=st.lists(PEOPLE, max_size=12).map(tuple),
    now=_MOMENTS,
    to=st.sampled_from(["everyone", "answered", "unanswered"]),
    holdout=st.sampled_from([0, 0.3]),
    expires=st.sampled_from([None, None, datetime(2027, 3, 14, 14, 0, tzinfo=UTC)]),
    timezone_unknown=st.sampled_from(["refuse", "campaign"]),
    cap=st.sampled_from([None, 1, 2, 3]),
    limit=st.sampled_from([None, None, 1, 3]),
    ignore_time=st.sampled_from([False, False, False, True]),
    is_paused=st.sampled_from([False, False, False, True]),
)
