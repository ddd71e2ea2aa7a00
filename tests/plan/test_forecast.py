"""The forecast of a plan: how many may get a message later. Nobody is forgotten, nobody is counted in vain."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.ledger.fingerprint import FingerprintSet, KnownPeople, OpenSession
from runner.ledger.model import RecordedDeliveries
from runner.ledger.people.replies import UnreadReplies
from runner.plan.model import Coming, PlanOptions, Span
from runner.plan.plan_context import PlanContext
from runner.plan.planner import Planner
from runner.source.diagnostic import Problems
from tests.plan.worlds import KEY, NOON, WAIT, WORLDS, Person, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.campaign.model import Campaign
    from runner.plan.model import CampaignPlan, MessagePlan

    Load = Callable[..., Campaign]

DAY = timedelta(days=1)
NIGHT = datetime(2026, 11, 20, 6, 0, tzinfo=UTC)
"""One in the morning in New York."""
PEOPLE = 'recipients: [{phone: "+12125550101"}, {phone: "+12125550102"}, {phone: "+14155550103"}]'
MAY_GO = ("to_send", "deferred", "open_session", "capped", "paused", "over_limit")
"""Of a message that people do not have: how it may still reach them, and from when on."""
HOURS = 'schedule: {send_between: ["09:00", "19:00"]}'


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


def test_what_is_over_the_limit_comes_later(campaign: Load) -> None:
    """People over --limit, and follow-ups to what they get then, are among what comes later at most."""
    plan = World((Person(), Person(), Person()), NOON, limit=1).plan(campaign).make_plan(Problems())
    assert plan is not None
    ask, nudge = plan.messages
    assert [(one.why, one.recipients) for one in ask.coming] == [("over_limit", Span(0, 2))]
    assert [(one.why, one.recipients) for one in nudge.coming] == [("awaiting", Span(0, 3))]
    assert (ask.coming[0].segments, ask.coming[0].first) == (Span(0, 4), None)
    assert (plan.recipients_later, plan.texts_later) == (Span(0, 2), Span(0, 5))


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


@pytest.mark.slow
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


def plan_at(
    load: Load, now: datetime, *messages: str, rules: str = HOURS, unread: UnreadReplies | None = None
) -> CampaignPlan:
    """Return the plan of a campaign of which nothing is on record, for three people: two in New York."""
    lines = "".join(f"  - {message}\n" for message in messages)
    campaign = load(f"version: 1\nname: pulse\n{PEOPLE}\nmessages:\n{lines}{rules}\n")
    context = PlanContext(now=now, unread=unread)
    planner = Planner(campaign, "sandbox", RecordedDeliveries({}, {}), None, PlanOptions(), context)
    plan = planner.make_plan(Problems())
    assert plan is not None
    return plan


def list_spans(message: MessagePlan) -> list[tuple[str, Span, Span]]:
    """Return of each group that comes later why, how many recipients it has, and how many renders."""
    return [(one.why, one.recipients, one.renders) for one in message.coming]


def test_before_the_hours_everything_comes_later(campaign: Load) -> None:
    """What is deferred is told with its first and last moment, its launches, segments and renders."""
    plan = plan_at(campaign, NIGHT, f"{{id: news, text: {'x' * 161}}}")
    (news,) = plan.messages
    assert (news.to_send, plan.recipients_to_send, plan.recipients_later) == (0, 0, Span(3, 3))
    due = datetime(2026, 11, 20, 14, 0, tzinfo=UTC), datetime(2026, 11, 20, 17, 0, tzinfo=UTC)
    # In one run or in three; the same text to all of them.
    assert news.coming == (Coming("deferred", *due, Span(3, 3), Span(1, 3), Span(6, 6), Span(3, 3), {}),)


def test_a_follow_up_comes_to_none_at_least(campaign: Load) -> None:
    """Who answers is not known: a reminder comes to nobody or to all, not before its wait is over."""
    plan = plan_at(
        campaign,
        NOON,
        "{id: ask, questions: [{tag: q, text: Why?}], complete_existing_sessions: true}",
        "{id: nudge, text: Still there?, after: {message: ask, wait: 2d}, to: unanswered}",
        "{id: thanks, text: Thank you, after: {message: ask, wait: 1d}, to: answered}",
    )
    ask, nudge, thanks = plan.messages
    assert (ask.to_send, list_spans(ask)) == (3, [])
    assert (list_spans(nudge), list_spans(thanks)) == ([("awaiting", Span(0, 3), Span(0, 3))],) * 2
    assert (nudge.coming[0].first, thanks.coming[0].first) == (NOON + 2 * DAY, NOON + DAY)
    # Each person counts once: nobody is reached by follow-ups alone.
    assert (plan.recipients_to_send, plan.recipients_later, plan.texts_later) == (3, Span(0, 0), Span(0, 6))


def list_firsts(message: MessagePlan) -> list[tuple[str, int, datetime | None]]:
    """Return of each group that comes later why, for how many at most, and not before when."""
    return [(one.why, one.recipients.most, one.first) for one in message.coming]


def test_people_who_are_held_do_not_date_the_follow_ups_of_others(campaign: Load) -> None:
    """A follow-up goes its wait after the message before is due, whatever holds other people back."""
    people = (Person(area="212"), Person(opt_out="doubtful"))
    nudge = count(World(people, NIGHT), campaign)["nudge"]
    due = datetime(2026, 11, 22, 14, 0, tzinfo=UTC)
    assert list_firsts(nudge) == [("opt_out_doubtful", 1, None), ("awaiting", 1, due)]


def test_a_sent_message_dates_its_follow_up(campaign: Load) -> None:
    """Before answers are read, the record says when it may go; people whose wait is over go apart."""
    asked = Person(asked=timedelta(hours=30), reconciled=None)
    overdue = Person(asked=WAIT, reconciled=None)
    nudge = count(World((Person(), asked, overdue), NOON, to="unanswered"), campaign)["nudge"]
    assert list_firsts(nudge) == [("awaiting", 2, NOON + timedelta(days=1)), ("awaiting", 1, None)]


def test_what_may_have_been_sent_does_not_date_a_follow_up(campaign: Load) -> None:
    """A message of unknown outcome may have gone out long ago: when its follow-up is due is not known."""
    yaml = (
        f"version: 1\nname: pulse\n{PEOPLE}\nmessages:\n  - {{id: ask, text: Hello}}\n"
        "  - {id: nudge, text: Again, after: {message: ask, wait: 2d}}\n"
        "  - {id: last, text: Bye, after: {message: nudge, wait: 1d}}\n"
    )
    known = RecordedDeliveries({}, {"ask": {KEY.fingerprint("+12125550101")}})
    planner = Planner(campaign(yaml), "sandbox", known, KEY, PlanOptions(), PlanContext(now=NOON))
    plan = planner.make_plan(Problems())
    assert plan is not None
    firsts = [list_firsts(message) for message in plan.messages]
    assert firsts == [
        [("unresolved", 1, None)],
        [("awaiting", 2, NOON + 2 * DAY), ("awaiting", 1, None)],
        [("awaiting", 2, NOON + 3 * DAY), ("awaiting", 1, None)],
    ]


def test_a_follow_up_keeps_to_the_schedule(campaign: Load) -> None:
    """It goes within the hours, and what would come after `expires` never comes; nor does what follows that."""
    yaml = (
        f"version: 1\nname: pulse\n{PEOPLE}\nmessages:\n  - {{id: ask, text: Hello}}\n"
        "  - {id: nudge, text: Again, after: {message: ask, wait: 12h}}\n"
        "  - {id: late, text: Bye, after: {message: nudge, wait: 3d}}\n"
        "  - {id: last, text: Bye, after: {message: late, wait: 1h}}\n"
        "schedule:\n  timezone: America/New_York\n  send_between: ['09:00', '20:00']\n"
        "  expires: 2026-11-23T12:00\n"
    )
    planner = Planner(
        campaign(yaml), "sandbox", RecordedDeliveries({}, {}), KEY, PlanOptions(), PlanContext(now=NOON)
    )
    plan = planner.make_plan(Problems())
    assert plan is not None
    morning = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
    firsts = [list_firsts(message) for message in plan.messages]
    assert firsts == [[], [("awaiting", 3, morning)], [], []]


@pytest.mark.slow
@settings(max_examples=40)
@given(world=WORLDS)
def test_no_follow_up_is_dated_before_its_wait_is_over(campaign: Load, world: World) -> None:
    """The first of those who wait goes when it may, its wait after the message before was sent, or may go."""
    firsts = []
    for person, messages in zip(world.people, world.decide(), strict=True):
        why, due = messages["ask"]
        if messages["nudge"][0] != "awaiting":
            continue
        if person.asked is not None and person.asked < WAIT:
            over = WAIT - person.asked
        elif person.asked is None and why in MAY_GO:
            over = WAIT + ((due or world.now) - world.now)
        else:
            continue
        kind, moment = world.find_time(person, over)
        if kind == "deferred" and moment is not None:
            firsts.append(moment)
    dated = [one.first for one in count(world, campaign)["nudge"].coming if one.why == "awaiting"]
    assert [first for first in dated if first is not None] == sorted(firsts)[:1]


@pytest.mark.parametrize(
    ("nudge", "least"),
    [
        ("text: Again, to: everyone", 3),
        ("text: Again, to: everyone, complete_existing_sessions: true", 3),
        ("text: Again, to: unanswered", 0),
    ],
)
def test_what_comes_after_a_plain_text_comes_for_sure(campaign: Load, nudge: str, least: int) -> None:
    """A follow-up to everybody goes once its wait is over; none that goes by answers is sure."""
    first = "{id: ask, text: Hello}" if least else "{id: ask, questions: [{tag: q, text: Why?}]}"
    plan = plan_at(campaign, NOON, first, f"{{id: nudge, after: {{message: ask, wait: 2d}}, {nudge}}}")
    assert list_spans(plan.messages[1]) == [("awaiting", Span(least, 3), Span(least, 3))]


@pytest.mark.parametrize(
    ("news", "rules", "least"),
    [
        ("text: News", "", 0),
        ("text: News, complete_existing_sessions: true", "", 3),
        ("text: News", "policy: {open_session: complete}", 3),
        ("text: News", "policy: {frequency_cap: {messages: 2, within: 7d}}", 0),
    ],
)
def test_what_may_wait_behind_a_survey_is_not_sure(campaign: Load, news: str, rules: str, least: int) -> None:
    """People may never end the survey that is due with it; a frequency cap may be reached."""
    ask = "{id: ask, questions: [{tag: q, text: Why?}]}"
    plan = plan_at(campaign, NIGHT, ask, f"{{id: news, {news}}}", rules=f"{HOURS}\n{rules}")
    assert [one.recipients for one in plan.messages[1].coming] == [Span(least, 3)]


def test_nothing_that_is_paused_or_behind_an_open_survey_is_sure(campaign: Load) -> None:
    """A person has to say so, or to end the survey: until then it may not come at all."""
    paused = replace(World((Person(), Person(asked=WAIT)), NOON), is_paused=True)
    ask = count(paused, campaign)["ask"]
    assert [(one.why, one.recipients) for one in ask.coming] == [("paused", Span(0, 1))]
    asked = count(World((Person(surveyed=True),), NOON), campaign)["ask"]
    assert [(one.why, one.recipients, one.first) for one in asked.coming] == [
        ("open_session", Span(0, 1), None)
    ]


def test_who_waits_for_replies_stays_counted(campaign: Load) -> None:
    """A plan whose people wait until replies are read says how many, also if replies became overdue later."""
    plan = World((Person(), Person()), NOON).plan(campaign).make_plan(Problems())
    assert plan is not None
    unread = UnreadReplies("news", NOON - 2 * DAY)
    assert (plan.waiting_for_replies, replace(plan, unread=unread).waiting_for_replies) == (0, 2)


def test_who_waits_for_replies_does_not_undate_the_others(campaign: Load) -> None:
    """Where it is day, people wait for a reading, whenever it comes; where it is night, for the morning."""
    morning = datetime(2026, 11, 20, 14, 30, tzinfo=UTC)
    unread = UnreadReplies("news", morning - 2 * DAY)
    (news,) = plan_at(campaign, morning, "{id: news, text: Hello}", unread=unread).messages
    due = datetime(2026, 11, 20, 17, 0, tzinfo=UTC)
    assert list_firsts(news) == [("deferred", 1, due), ("deferred", 2, None)]


def test_segments_are_not_known_where_a_text_is_not(campaign: Load) -> None:
    """Of people who wait for a person's decision, a row that cannot be rendered is no error, and no zero."""
    yaml = (
        "version: 1\nname: pulse\nrecipients: [{phone: '+14155550101'}]\n"
        "messages: [{id: ask, text: 'Hi {{ name }}'}]\n"
    )
    person = KEY.fingerprint("+14155550101")
    known = RecordedDeliveries({}, {"ask": {person}})
    problems = Problems()
    planner = Planner(campaign(yaml), "sandbox", known, KEY, PlanOptions(), PlanContext(now=NOON))
    plan = planner.make_plan(problems)
    assert plan is not None, list(problems)
    (held,) = plan.messages[0].coming
    assert (held.why, held.recipients, held.segments) == ("unresolved", Span(0, 1), None)


def test_what_queues_at_the_service_may_never_be_rendered(campaign: Load) -> None:
    """With `open_session: queue`, the least of renders and segments leaves out what waits behind a survey."""
    surveyed = FingerprintSet([KEY.fingerprint("+12125550101")])
    sessions = KnownPeople(KEY, {OpenSession("news", "read"): surveyed})
    yaml = (
        f"version: 1\nname: pulse\n{PEOPLE}\nmessages:\n"
        "  - {id: ask, introduction: Hello, questions: [{tag: q, text: Why?}]}\n  - {id: news, text: News}\n"
        "policy: {open_session: queue}\n"
    )
    context = PlanContext(now=NOON, sessions=sessions)
    planner = Planner(campaign(yaml), "sandbox", RecordedDeliveries({}, {}), None, PlanOptions(), context)
    plan = planner.make_plan(Problems())
    assert plan is not None
    ask, news = plan.messages
    assert (ask.to_send, ask.queueing, ask.renders_min, ask.renders_max) == (3, 1, 4, 6)
    assert (ask.segments, ask.segments_min, ask.segments_max) == (6, 4, 6)
    # Whoever is asked by the first message gets the second one when they have answered, if they do.
    assert (news.to_send, news.queueing, news.renders_min, news.renders_max) == (3, 3, 0, 3)
