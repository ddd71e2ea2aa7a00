"""The forecast of a plan: how many may get a message later. Nobody is forgotten, nobody is counted in vain."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.source.diagnostic import Problems
from tests.plan.worlds import NOON, WAIT, WORLDS, Person, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.campaign.model import Campaign
    from runner.plan.model import MessagePlan

    Load = Callable[..., Campaign]

DAY = timedelta(days=1)


def count(world: World, load: Load) -> dict[str, MessagePlan]:
    """Return the plan's counts, by message."""
    plan = world.plan(load).make_plan(Problems())
    assert plan is not None
    return {message.id: message for message in plan.messages}


@pytest.mark.parametrize(
    ("to", "person", "ask", "nudge"),
    [
        ("everyone", Person(), 0, 1),
        ("everyone", Person(excluded=True), 0, 0),
        ("everyone", Person(opt_out="confirmed"), 0, 0),
        ("everyone", Person(opt_out="doubtful"), 1, 1),
        ("everyone", Person(source=""), 0, 0),
        ("everyone", Person(area="800"), 0, 0),
        ("everyone", Person(recent=5), 1, 1),
        ("everyone", Person(asked=timedelta(hours=30)), 0, 1),
        ("everyone", Person(asked=WAIT, unresolved=True), 0, 1),
        ("everyone", Person(asked=WAIT, sent=True), 0, 0),
        ("unanswered", Person(asked=WAIT, reconciled=None), 0, 1),
        ("unanswered", Person(asked=WAIT, answered=True), 0, 0),
        ("answered", Person(asked=WAIT, answered=False), 0, 1),
        ("answered", Person(asked=WAIT, reconciled=None), 0, 1),
    ],
)
def test_each_person_is_forecast_once_a_message(
    campaign: Load, to: str, person: Person, ask: int, nudge: int
) -> None:
    """A follow-up is forecast for those alone who have, get or may get the message before it."""
    world = World((person,), NOON, to=to, cap=2)
    found = count(world, campaign)
    assert (found["ask"].forecast, found["nudge"].forecast) == (ask, nudge)


def test_what_is_over_the_limit_is_not_forecast(campaign: Load) -> None:
    """--limit leaves people to a later plan, and their follow-ups with them."""
    found = count(World((Person(), Person()), NOON, limit=1), campaign)
    assert (found["ask"].reach, found["ask"].over_limit) == (1, 1)
    assert (found["nudge"].reach, found["nudge"].awaiting) == (1, 2)


def test_a_message_alone_is_forecast_for_all_who_wait(campaign: Load) -> None:
    """With --only nothing is known of the message before: whoever waits for it may get it from another run."""
    world = World((Person(), Person(asked=WAIT)), NOON, only="nudge")
    found = count(world, campaign)
    assert [(name, message.reach) for name, message in found.items()] == [("nudge", 2)]


FUTURES = st.builds(
    lambda passed, sends, answers, reads: (passed, sends, answers, reads),
    st.sampled_from([timedelta(hours=1), timedelta(hours=16), DAY, 3 * DAY]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


def move_on(world: World, future: tuple[timedelta, bool, bool, bool]) -> World:
    """Return the world after some time: what is due may be sent, some answer, answers may be read."""
    passed, sends, answers, reads = future
    decided = world.decide()
    people = []
    for index, (person, messages) in enumerate(zip(world.people, decided, strict=True)):
        asked = None if person.asked is None else person.asked + passed
        reconciled = None if person.reconciled is None else person.reconciled + passed
        if sends and messages["ask"][0] == "to_send":
            asked, reconciled = passed, None
        has_got = person.sent or (sends and messages["nudge"][0] == "to_send")
        people.append(
            replace(
                person,
                asked=asked,
                reconciled=timedelta() if reads else reconciled,
                answered=person.answered or (answers and reads and asked is not None and index % 2 == 0),
                sent=has_got,
                unresolved=person.unresolved and not has_got,
                recent=0,
                planned=0,
            )
        )
    return replace(world, people=tuple(people), now=world.now + passed)


@settings(max_examples=150)
@given(world=WORLDS, futures=st.lists(FUTURES, min_size=1, max_size=4))
def test_nothing_that_happens_by_itself_goes_beyond_the_forecast(
    campaign: Load, world: World, futures: list[tuple[timedelta, bool, bool, bool]]
) -> None:
    """However time, sending and answers go on, no message reaches more people than was forecast."""
    world = replace(world, limit=None, ignore_time=False)
    before = count(world, campaign)
    for future in futures:
        world = move_on(world, future)
        after = count(world, campaign)
        for name, message in after.items():
            assert message.reach <= before[name].reach, name
