"""Why somebody gets a message now, later, or not: every rule, and which of several that hold is told."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.campaign.variants import Draw
from runner.ledger.model import RecordedDeliveries
from runner.plan.model import MessageCounts, MessagePlan, PlanOptions
from runner.plan.plan_context import PlanContext
from runner.plan.planner import Planner, find_payloads
from runner.reasons import Disposition
from runner.source.diagnostic import Problems
from runner.timing.legal_hours import load_law
from tests.plan.worlds import KEY, NOON, PEOPLE, WAIT, WORLDS, Person, World, round_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.campaign.model import Campaign
    from runner.plan.model import CampaignPlan, PlannedLaunch

    Load = Callable[..., Campaign]

NIGHT = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
"""Three in the morning in New York, midnight in California."""


def make_plan(planner: Planner) -> CampaignPlan:
    problems = Problems()
    plan = planner.make_plan(problems)
    assert plan is not None, list(problems)
    return plan


def plan_nudge(load: Load, world: World) -> MessagePlan:
    """Return the counts of the follow-up."""
    return make_plan(world.plan(load)).messages[1]


def find_dispositions(message: MessagePlan) -> dict[str, int]:
    return {name: n for name in get_args(Disposition) if (n := getattr(message, name))}


@pytest.mark.slow
@settings(max_examples=60)
@given(world=WORLDS)
def test_everybody_is_counted_once_and_rightly(campaign: Load, world: World) -> None:
    """Rows are duplicates and recipients, recipients are the sum of the dispositions, each as it should be."""
    plan = make_plan(world.plan(campaign))
    expected = world.decide()
    for message in plan.messages:
        assert message.rows == message.duplicates + message.recipients == len(world.people)
        assert sum(find_dispositions(message).values()) == message.recipients
        assert find_dispositions(message) == Counter(one[message.id][0] for one in expected)
        due = Counter(moment for one in expected if (moment := one[message.id][1]) is not None)
        found = Counter[datetime]()
        for (moment, _zone), recipients in message.due.items():
            found[moment] += recipients
        minute = timedelta(minutes=1)
        assert found == Counter({round_up(moment, minute): n for moment, n in due.items()})
    served = sum(any(why == "to_send" for why, _ in one.values()) for one in expected)
    assert plan.recipients_to_send == served


@pytest.mark.slow
@settings(max_examples=60)
@given(world=WORLDS)
def test_the_second_pass_yields_what_the_first_counted(campaign: Load, world: World) -> None:
    """Launches hold each delivery of the plan once, grouped by text, arm and end of the hours."""
    planner = world.plan(campaign)
    plan = make_plan(planner)
    launches = list(planner.iterate_launches())
    assert list(planner.iterate_launches()) == launches
    expected = Counter(
        (message, world.phone(index))
        for index, one in enumerate(world.decide())
        for message, (why, _) in one.items()
        if why == "to_send"
    )
    assert Counter((one.message.id, phone) for one in launches for phone in one.phones) == expected
    for message in plan.messages:
        own = [one for one in launches if one.message.id == message.id]
        assert len(own) == message.launches == len({tell_apart(one) for one in own})
        assert message.arms == Counter(one.arm for one in own if one.arm for _ in one.phones)
    assert all((one.until is None) is world.ignore_time for one in launches)
    assert all(one.until > world.now for one in launches if one.until is not None)


def tell_apart(launch: PlannedLaunch) -> tuple[Any, ...]:
    return launch.message.id, launch.payload.digest, launch.arm, launch.until


BARS: dict[str, dict[str, Any]] = {
    "excluded": {"excluded": True},
    "already_sent": {"sent": True},
    "unresolved": {"unresolved": True},
    "opted_out": {"opt_out": "confirmed"},
    "opt_out_doubtful": {"opt_out": "doubtful"},
    "control_group": {"is_held": True},
    "no_consent": {"source": ""},
    "awaiting": {"asked": None},
    "not_qualified": {"answered": True},
    "timezone_unknown": {"area": "800"},
    "no_rule": {"area": "876", "law": load_law()},
    "deferred": {"now": NIGHT},
    "open_session": {"surveyed": True},
    "capped": {"recent": 1},
    "over_limit": {"is_second": True},
    "to_send": {},
}


@pytest.mark.parametrize("why", BARS)
def test_the_first_reason_that_holds_is_told(campaign: Load, why: str) -> None:
    """Of somebody whom several rules keep back, the first of them in this order is counted."""
    names = list(BARS)
    holding = names[names.index(why) :]
    given: dict[str, Any] = {"asked": timedelta(days=3)}
    for name in reversed(holding):
        given |= BARS[name]
    is_held, is_second = given.pop("is_held", False), given.pop("is_second", False)
    now, law = given.pop("now", NOON), given.pop("law", None)
    world = World((), now=now, to="unanswered", holdout=0.5, cap=1, law=law)
    # Somebody before them uses up the limit; whether one is in the control group goes by the phone alone.
    first = Person("212", zone="Africa/Lagos", asked=timedelta(days=3))
    filler = Person(excluded=True)
    for index in range(2, 90):
        people = (first, *[filler] * (index - 1), Person(**given))
        world = replace(world, people=people, limit=1 if is_second else None)
        if world.is_in_control_group(world.phone(index)) == is_held and not world.is_in_control_group(
            world.phone(0)
        ):
            break
    found = find_dispositions(plan_nudge(campaign, world))
    others = {"to_send": 1, "excluded": len(world.people) - 2}
    assert Counter(found) == Counter(others) + Counter([why])


def test_the_order_that_is_written_down_is_kept() -> None:
    """The dispositions stand in the order in which they are told, and each has its count."""
    # Some are true of everybody at once, or of the draw; dates and samples have tests of their own.
    elsewhere = {"expired", "paused", "enough", "not_sampled", "later_step", "no_date", "missed"}
    documented = [name for name in get_args(Disposition) if name not in elsewhere]
    assert documented == list(BARS)
    assert set(get_args(Disposition)) <= set(MessageCounts.__struct_fields__)


@pytest.mark.parametrize(
    ("to", "person", "why"),
    [
        ("everyone", Person(), "awaiting"),
        ("everyone", Person(asked=WAIT, reconciled=None), "to_send"),
        ("unanswered", Person(asked=WAIT, reconciled=None), "awaiting"),
        ("answered", Person(asked=WAIT, reconciled=None), "awaiting"),
        ("answered", Person(asked=WAIT), "not_qualified"),
        ("answered", Person(asked=WAIT, answered=True), "to_send"),
        ("unanswered", Person(asked=WAIT, answered=True), "not_qualified"),
        ("unanswered", Person(asked=WAIT), "to_send"),
        ("unanswered", Person(asked=timedelta(hours=47)), "deferred"),
    ],
)
def test_whom_a_follow_up_is_for(campaign: Load, to: str, person: Person, why: str) -> None:
    """It goes to those who got the message before, and answered it or not as its `to` says, after its wait."""
    world = World((person,), to=to)
    assert find_dispositions(plan_nudge(campaign, world)) == {why: 1}


def test_who_is_deferred_is_told_when_and_why(campaign: Load) -> None:
    """The due moments are those of each place, the reasons are the rules in words, with how many they hold."""
    asked = timedelta(days=1)
    people = (Person("212", asked=asked), Person(asked=asked), Person(asked=timedelta(days=3)))
    message = plan_nudge(campaign, World(people, now=NIGHT))
    assert message.due == {
        (datetime(2026, 11, 21, 14, 0, tzinfo=UTC), "America/New_York"): 1,
        (datetime(2026, 11, 21, 17, 0, tzinfo=UTC), "America/Los_Angeles"): 1,
        (datetime(2026, 11, 20, 17, 0, tzinfo=UTC), "America/Los_Angeles"): 1,
    }
    assert message.next_due == datetime(2026, 11, 20, 17, 0, tzinfo=UTC)
    assert message.reasons == {
        "the `wait` of the follow-up is not over": 2,
        "outside `send_between` on their own clocks": 3,
    }


def test_a_wait_that_ends_within_the_hours_is_a_due_moment(campaign: Load) -> None:
    """A follow-up is due the minute its wait is over, never before, told on the clocks of the recipient."""
    person = Person("212", asked=WAIT - timedelta(hours=1, seconds=1))
    message = plan_nudge(campaign, World((person,)))
    assert message.due == {(NOON + timedelta(hours=1, minutes=1), "America/New_York"): 1}
    assert message.reasons == {"the `wait` of the follow-up is not over": 1}


def test_who_can_never_be_texted_is_told_why(campaign: Load) -> None:
    """A zone that cannot be told, and an end that comes first, each with what to do about it."""
    people = (Person("800", asked=WAIT), Person(asked=WAIT))
    message = plan_nudge(campaign, World(people, now=NIGHT, expires=datetime(2026, 11, 20, 17, tzinfo=UTC)))
    assert find_dispositions(message) == {"timezone_unknown": 1, "expired": 1}
    assert message.reasons == {
        "the number may be in several time zones, and their sending hours have no moment in common: give "
        "one in a `timezone_column`, widen `send_between`, or set `timezone_unknown: campaign` in `policy`": 1,
        "the campaign's `expires` comes before the next moment at which it may be sent: move `expires`, or "
        "start earlier": 1,
    }


def test_one_message_less_than_the_cap_leaves_room_for_one(campaign: Load) -> None:
    """What was sent, what another campaign will send and what this one sends now are counted together."""
    people = (Person(), Person(recent=1), Person(planned=1), Person(recent=1, planned=1))
    ask = make_plan(World(people, cap=2).plan(campaign)).messages[0]
    assert find_dispositions(ask) == {"to_send": 3, "capped": 1}


@pytest.mark.slow
@settings(max_examples=25)
@given(
    first=st.lists(PEOPLE, max_size=10),
    later=st.lists(PEOPLE, max_size=10),
    holdout=st.sampled_from([0, 0.4]),
)
def test_adding_people_moves_nobody(
    campaign: Load, first: list[Person], later: list[Person], holdout: float
) -> None:
    """With more rows behind them, everybody gets the same arm, and the same people are in the control group."""
    found = []
    for people in (first, [*first, *later]):
        world = World(tuple(people), holdout=holdout, timezone_unknown="campaign")
        planner = world.plan(campaign)
        plan = make_plan(planner)
        arms = {phone: one.arm for one in planner.iterate_launches() for phone in one.phones if one.arm}
        found.append((plan.messages[0].control_group, arms))
    (held_before, before), (held_after, after) = found
    assert before.items() <= after.items()
    assert held_before <= held_after
    phones = {World(tuple(first)).phone(index) for index in range(len(first))}
    assert after.keys() & phones == before.keys()


def test_what_people_lack_is_found_at_any_hour(campaign: Load) -> None:
    """What a lost run may have sent is asked for whatever keeps people back now, and with their arms."""
    people = (Person("800"), Person(opt_out="confirmed", source=""), Person(asked=WAIT), Person(sent=True))
    world = World(people, now=NIGHT, holdout=0.9, expires=NIGHT, cap=1)
    phones = [world.phone(index) for index in range(4)]
    offers = find_payloads(world.load(campaign), world.list_known(), KEY, set(phones[1:]))
    assert {phone: [offer.message.id for offer in found] for phone, found in offers.items()} == {
        phones[1]: ["ask", "nudge"],
        phones[2]: ["nudge"],
        phones[3]: ["ask"],
    }
    draw = Draw(world.load(campaign).variants)  # type: ignore[arg-type]
    arms = {
        phone: offer.arm for phone, found in offers.items() for offer in found if offer.message.id == "ask"
    }
    assert arms == {phone: draw.choose_arm(phone) for phone in arms}


def test_arms_of_the_same_text_go_out_apart(campaign: Load) -> None:
    """Reports tell arms apart, and so do launches, even where the texts are equal."""
    rows = "".join(f"  - phone: '+1415555{number:04}'\n" for number in range(100, 120))
    loaded = campaign(
        f"version: 1\nname: pulse\nrecipients:\n{rows}messages:\n  - {{id: ask, text: Hello}}\n"
        "variants: {seed: s, of: ask, arms: [{id: a}, {id: b}]}\n"
    )
    planner = Planner(loaded, "sandbox", RecordedDeliveries({}, {}), None, PlanOptions(), PlanContext(NOON))
    (message,) = make_plan(planner).messages
    launches = list(planner.iterate_launches())
    assert message.launches == len(launches) == 2
    assert {launch.arm: len(launch.phones) for launch in launches} == message.arms
    assert sorted(message.arms) == ["a", "b"]
    assert len({launch.payload.digest for launch in launches}) == 1


def test_launches_whose_hours_end_at_different_times_go_out_apart(campaign: Load) -> None:
    """People of one text share a launch where their windows close together, and nowhere else."""
    people = tuple(Person(area, asked=WAIT) for area in ("212", "415", "212", "415"))
    planner = World(people).plan(campaign)
    make_plan(planner)
    launches = list(planner.iterate_launches())
    assert [(one.message.id, one.until, len(one.phones)) for one in launches] == [
        ("nudge", datetime(2026, 11, 21, 0, 0, tzinfo=UTC), 2),
        ("nudge", datetime(2026, 11, 21, 3, 0, tzinfo=UTC), 2),
    ]
