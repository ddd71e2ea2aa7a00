"""Plans, held against a re-computation that is plainly right."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import PlanChangedError
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import RecordedDeliveries
from runner.plan.decisions import Decision
from runner.plan.model import PlanOptions
from runner.plan.plan_context import PlanContext
from runner.plan.plan_counts import group_of
from runner.plan.planner import Planner
from runner.reasons import Disposition
from runner.source.diagnostic import Problems
from runner.text.payload import Payload
from tests.canonical import digest_definition

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.plan.model import CampaignPlan, PlannedLaunch

    Load = Callable[..., Campaign]

KEY = TargetKey.of("sandbox", None)
NOBODY = RecordedDeliveries({}, {})
MESSAGES = ("personal", "same")
YAML = """\
version: 1
name: pulse
recipients:
  - csv: first.csv
  - csv: second.csv
exclude:
  - csv: out.csv
messages:
  - id: personal
    introduction: Hello {{ name | default("there") }}
    questions:
      - {tag: why, text: Why?}
  - id: same
    text: Goodbye
"""


def phone_of(number: int) -> str:
    return f"+141555501{number:02}"


@dataclass(frozen=True)
class World:
    """An audience, and what is known of its deliveries: people are numbers, messages their ids."""

    rows: list[tuple[int, str]]
    split: int
    excluded: set[int]
    sent: set[tuple[str, int]]
    unresolved: set[tuple[str, int]]
    options: PlanOptions
    per_send: int | None


PEOPLE = st.integers(0, 11)
DELIVERIES = st.sets(st.tuples(st.sampled_from(MESSAGES), PEOPLE), max_size=6)
WORLDS = st.builds(
    World,
    rows=st.lists(st.tuples(PEOPLE, st.sampled_from(["", "Ada", "Bo", "Ğ"])), max_size=25),
    split=st.integers(0, 25),
    excluded=st.sets(PEOPLE, max_size=3),
    sent=DELIVERIES,
    unresolved=DELIVERIES,
    options=st.builds(
        PlanOptions,
        only=st.sampled_from([None, None, *MESSAGES]),
        limit=st.sampled_from([None, None, 0, 1, 2, 5]),
        recipients_per_send=st.sampled_from([None, 1, 2, 3]),
    ),
    per_send=st.sampled_from([None, 1, 2, 4]),
)


def shelve(deliveries: set[tuple[str, int]]) -> dict[str, set[str]]:
    shelf: dict[str, set[str]] = {}
    for message, number in deliveries:
        shelf.setdefault(message, set()).add(KEY.fingerprint(phone_of(number)))
    return shelf


def write_table(rows: list[tuple[int, str]]) -> str:
    return "phone,name\n" + "".join(f"{phone_of(number)},{name}\n" for number, name in rows)


def make_planner(load: Load, world: World) -> Planner:
    limits = f"limits: {{recipients_per_send: {world.per_send}}}\n" if world.per_send else ""
    campaign = load(
        YAML + limits,
        first=write_table(world.rows[: world.split]),
        second=write_table(world.rows[world.split :]),
        out=write_table([(number, "") for number in world.excluded]),
    )
    known = RecordedDeliveries(shelve(world.sent), shelve(world.unresolved))
    return Planner(campaign, "sandbox", known, KEY, world.options, PlanContext())


def decide(world: World) -> tuple[dict[str, Counter[str]], list[tuple[str, int, str]]]:
    """Return every message's dispositions, and the deliveries to make: message, person, name."""
    names: dict[int, str] = {}
    for number, name in world.rows:
        names.setdefault(number, name)
    messages = [message for message in MESSAGES if world.options.only in (None, message)]
    counts: dict[str, Counter[str]] = {message: Counter() for message in messages}
    deliveries: list[tuple[str, int, str]] = []
    served: set[int] = set()
    for number, name in names.items():
        for message in messages:
            if number in world.excluded:
                why = "excluded"
            elif (message, number) in world.sent:
                why = "already_sent"
            elif (message, number) in world.unresolved:
                why = "unresolved"
            elif world.options.limit is not None and len(served | {number}) > world.options.limit:
                why = "over_limit"
            else:
                why = "to_send"
                served.add(number)
                deliveries.append((message, number, name))
            counts[message][why] += 1
    return counts, deliveries


def make_plan(planner: Planner) -> CampaignPlan:
    problems = Problems()
    plan = planner.make_plan(problems)
    assert plan is not None, list(problems)
    return plan


@pytest.mark.slow
@settings(max_examples=150)
@given(world=WORLDS)
def test_launches_deliver_to_each_once(campaign: Load, world: World) -> None:
    """Each row is counted once and rightly; launches hold each delivery once, with its recipient's payload."""
    planner = make_planner(campaign, world)
    plan = make_plan(planner)
    launches = list(planner.iterate_launches())
    expected, deliveries = decide(world)
    assert [message.id for message in plan.messages] == list(expected)
    assert plan.recipients_to_send == len({number for _, number, _ in deliveries})
    found = [(launch.message.id, phone, text_of(launch)) for launch in launches for phone in launch.phones]
    assert Counter(found) == Counter(
        (message, phone_of(number), expected_text(message, name)) for message, number, name in deliveries
    )
    per_send = min((n for n in (world.per_send, world.options.recipients_per_send) if n), default=500)
    for message in plan.messages:
        assert message.rows == len(world.rows) == message.duplicates + message.recipients
        assert {name: n for name in get_args(Disposition) if (n := getattr(message, name))} == expected[
            message.id
        ]
        own = [launch for launch in launches if launch.message.id == message.id]
        sizes = Counter(expected_text(m, name) for m, _, name in deliveries if m == message.id)
        assert len(own) == message.launches == sum(-(-size // per_send) for size in sizes.values())
        assert message.segments == sum(launch.payload.segments * len(launch.phones) for launch in own)
        each = 2 if message.id == "personal" else 1
        assert (message.renders_min, message.renders_max) == (message.to_send * each,) * 2
        costly = sum("Ğ" in text_of(launch) for launch in own for _ in launch.phones)
        counted = {one.character: one.recipients for one in message.costly_characters}
        assert counted == ({"Ğ": costly} if costly else {})
    for launch in launches:
        assert 1 <= len(launch.phones) <= per_send
        assert launch.payload.digest == digest_definition(launch.payload.definition)


def text_of(launch: PlannedLaunch) -> str:
    definition = launch.payload.definition
    text: str = definition["introduction"] if "introduction" in definition else definition["text"]
    return text


def expected_text(message: str, name: str) -> str:
    return "Goodbye" if message == "same" else f"Hello {name or 'there'}"


@pytest.mark.slow
@settings(max_examples=50)
@given(one=WORLDS, other=WORLDS)
def test_the_digest_says_who_gets_what(campaign: Load, one: World, other: World) -> None:
    """Two plans have one digest exactly if they deliver the same, in the same order."""
    plans = []
    for world in (one, other):
        planner = make_planner(campaign, world)
        digest = make_plan(planner).digest
        _, deliveries = decide(world)
        messages = [m for m in MESSAGES if world.options.only in (None, m)]
        plans.append((digest, [(messages.index(m), expected_text(m, name), n) for m, n, name in deliveries]))
    assert (plans[0][0] == plans[1][0]) is (plans[0][1] == plans[1][1])


def test_launches_leave_as_soon_as_they_are_complete(campaign: Load) -> None:
    """Personal texts leave one by one, and a shared one when its last recipient is there."""
    rows = [(number, name) for number, name in enumerate(["Ada", "Bo", "Ada", "Cy"])]
    world = World(rows, 4, set(), set(), set(), PlanOptions(), None)
    planner = make_planner(campaign, world)
    make_plan(planner)
    found = [(launch.message.id, launch.phones) for launch in planner.iterate_launches()]
    assert found == [
        ("personal", (phone_of(1),)),
        ("personal", (phone_of(0), phone_of(2))),
        ("personal", (phone_of(3),)),
        ("same", tuple(map(phone_of, range(4)))),
    ]


@pytest.mark.parametrize("name", ["campaign.yaml", "first.csv", "second.csv", "out.csv"])
@pytest.mark.parametrize("change", ["appended", "touched", "removed"])
def test_a_changed_file_stops_the_launches(campaign: Load, tmp_path: Path, name: str, change: str) -> None:
    """If a file of the campaign changes between the passes, nothing of the old plan is sent."""
    planner = make_planner(campaign, World([(1, "Ada")], 1, set(), set(), set(), PlanOptions(), None))
    make_plan(planner)
    file = tmp_path / name
    if change == "appended":
        with file.open("a", encoding="utf-8") as stream:
            stream.write("\n")
    elif change == "touched":
        os.utime(file, ns=(0, 0))
    else:
        file.unlink()
    with pytest.raises(PlanChangedError) as caught:
        next(planner.iterate_launches())
    assert caught.value.message == f"pulse: {name} has changed since it was planned"


def test_an_audience_that_grows_while_it_is_sent_adds_nobody(campaign: Load, tmp_path: Path) -> None:
    """Rows that come in after the plan was made are not sent, even when the launches have begun."""
    world = World([(1, "Ada"), (2, "Bob")], 1, set(), set(), set(), PlanOptions(), None)
    planner = make_planner(campaign, world)
    make_plan(planner)
    launches = planner.iterate_launches()
    sent = [next(launches)]
    for name in ("first.csv", "second.csv"):
        file = tmp_path / name
        header = file.read_text(encoding="utf-8").splitlines()[0]
        rows = "\n".join(",".join([f"+1415555{n:04d}"] * len(header.split(","))) for n in range(300, 700))
        file.write_text(f"{header}\n{rows}\n", encoding="utf-8")
    with pytest.raises(PlanChangedError) as caught:
        sent += launches
    assert caught.value.message == "the files of pulse have changed while it was sent"
    assert caught.value.hint == "what was sent is recorded; run the same command again to send the rest"
    assert {phone for launch in sent for phone in launch.phones} <= {phone_of(1), phone_of(2)}


def test_somebody_else_with_the_same_text_is_not_sent(campaign: Load, tmp_path: Path) -> None:
    """A row that is exchanged while launches leave has as many recipients as before, and another one."""
    world = World([(1, "Ada"), (2, "Bob")], 1, set(), set(), set(), PlanOptions(), None)
    planner = make_planner(campaign, world)
    make_plan(planner)
    launches = planner.iterate_launches()
    sent = [next(launches)]
    for name in ("first.csv", "second.csv"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace(phone_of(2), phone_of(9)), encoding="utf-8")
    with pytest.raises(PlanChangedError):
        sent += launches
    assert len(sent) == 1


def test_limits_look_at_what_leaves_now(campaign: Load) -> None:
    """People who already have their messages don't count against the limits."""
    loaded = campaign(
        YAML + "limits: {recipients: 1, renders: 3}\n",
        first=write_table([(1, "Ada"), (2, "Bo"), (3, "")]),
        second=write_table([]),
        out=write_table([(3, "")]),
    )
    known = RecordedDeliveries(shelve({("personal", 1), ("same", 1)}), {})
    plan = make_plan(Planner(loaded, "sandbox", known, KEY, PlanOptions(), PlanContext()))
    assert (plan.recipients_to_send, plan.refusals) == (1, ())


def test_text_arm_end_of_the_hours_and_occasion_make_a_group() -> None:
    """Who differs in one of them is in another group; who differs in nothing is in the same."""
    ends = [None, datetime(2026, 11, 21, 1, tzinfo=UTC), datetime(2026, 11, 21, 4, tzinfo=UTC)]
    payloads = [Payload({}, digest * 32, 1, None) for digest in ("0", "f")]
    found = [
        group_of(Decision(0, "to_send", payload, arm, until, occasion=occasion), payload)
        for payload in payloads
        for arm in (None, "short", "warm")
        for until in ends
        for occasion in ("", "2026q4")
        for _ in range(2)
    ]
    assert set(Counter(found).values()) == {2}
    assert len(set(found)) == 36
    assert all(0 < group < 2**64 for group in found)
