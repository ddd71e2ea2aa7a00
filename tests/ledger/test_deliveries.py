"""Deliveries: in any order of events, nobody belongs to two launches (docs/delivery.md)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from runner.errors import RunLockedError
from runner.ledger.database import Ledger
from runner.ledger.model import CampaignLaunches, Intent, LaunchRecord, Outcome
from runner.ledger.record.deliveries import (
    count_states,
    enter_campaign,
    iterate_accepted,
    read_known,
    record_outcomes,
)
from runner.ledger.record.entry import absorb_launches, add_intents
from tests.ledger.conftest import AT

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.model import LaunchState

MESSAGES = st.sampled_from(["ask", "nudge"])
PEOPLE = st.sets(st.sampled_from("abcdef"), min_size=1, max_size=4)


def make_intent(message: str, people: set[str], name: str = "k") -> Intent:
    recipients = tuple(sorted(people))
    # As a real key, it differs where message or recipients do.
    key = "-".join((name, message, *recipients))
    return Intent(message, key, "pulse-2026", "d1g35t", recipients, '{"text": "Hello"}')


@dataclass
class Launch:
    """A launch as the model sees it."""

    message: str
    state: LaunchState
    people: set[str] = field(default_factory=set)
    freed: set[str] = field(default_factory=set)


class DeliveriesMachine(RuleBasedStateMachine):
    """The ledger beside an obvious model: launches, each with the people that it holds."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._ledger = Ledger(url)
        self._ledger.prepare()
        with self._ledger.writing() as connection:
            self._campaign = enter_campaign(connection, "live", "pulse")
        self._launches: dict[int, Launch] = {}
        self._guids: dict[str, int] = {}
        self._absorbed: set[int] = set()

    def teardown(self) -> None:
        """Close the ledger."""
        self._ledger.__exit__()

    def _list_own(self, *, is_open: bool) -> list[int]:
        """Return the launches that were recorded before they were sent."""
        return [
            number
            for number, launch in self._launches.items()
            if number not in self._absorbed and (launch.state == "intent") == is_open
        ]

    def _take(self, message: str, people: set[str]) -> None:
        for launch in self._launches.values():
            if launch.message == message:
                launch.people -= people
                launch.freed -= people

    def _held(self, message: str) -> set[str]:
        return {
            person
            for launch in self._launches.values()
            if launch.message == message and launch.state in ("intent", "unknown", "sent")
            for person in launch.people
        }

    @rule(message=MESSAGES, groups=st.lists(PEOPLE, min_size=1, max_size=3))
    def intend(self, message: str, groups: list[set[str]]) -> None:
        """Record intents together: all of them, or none if somebody is taken."""
        intents = [make_intent(message, people) for people in groups]
        wanted = [person for people in groups for person in people]
        is_free = not self._held(message) & set(wanted) and len(wanted) == len(set(wanted))
        try:
            with self._ledger.writing() as connection:
                ids = add_intents(connection, self._campaign, intents, AT)
        except RunLockedError:
            assert not is_free
            return
        assert is_free
        self._take(message, set(wanted))
        for number, people in zip(ids, groups, strict=True):
            self._launches[number] = Launch(message, "intent", set(people))

    @precondition(lambda self: self._list_own(is_open=True))
    @rule(data=st.data(), state=st.sampled_from(["sent", "not_sent", "rejected", "unknown"]))
    def conclude(self, data: st.DataObject, state: LaunchState) -> None:
        """Record what became of a launch that was open."""
        number = data.draw(st.sampled_from(self._list_own(is_open=True)))
        guid = f"guid-{number}" if state == "sent" else None
        with self._ledger.writing() as connection:
            record_outcomes(connection, [Outcome(number, state, AT, guid)])
        launch = self._launches[number]
        launch.state = state
        if guid:
            self._guids[guid] = number
        if state in ("not_sent", "rejected"):
            launch.people, launch.freed = set(), launch.people

    @precondition(lambda self: self._list_own(is_open=False))
    @rule(data=st.data(), state=st.sampled_from(["sent", "not_sent", "rejected", "unknown"]))
    def conclude_late(self, data: st.DataObject, state: LaunchState) -> None:
        """Hear once more of a launch that is settled: what is known stays, but that it was sent counts.

        Then those whom it had set free, and whom nobody has taken since, have been reached after all.
        """
        number = data.draw(st.sampled_from(self._list_own(is_open=False)))
        guid = f"guid-{number}" if state == "sent" else None
        with self._ledger.writing() as connection:
            record_outcomes(connection, [Outcome(number, state, AT, guid)])
        if guid:
            launch = self._launches[number]
            launch.state = "sent"
            launch.people, launch.freed = launch.people | launch.freed, set()
            self._guids[guid] = number

    @rule(people=PEOPLE, name=st.sampled_from(["x", "y", "z"]))
    def absorb(self, people: set[str], name: str) -> None:
        """Take over a launch that only the lockfile knows of, or people of a known one."""
        guid, message = f"guid-{name}", "nudge" if name == "z" else "ask"
        key = "-".join((name, *sorted(people)))
        record = LaunchRecord(message, key, "pulse-2026", "d1g35t", tuple(sorted(people)), guid, AT)
        with self._ledger.writing() as connection:
            count = absorb_launches(connection, self._campaign, [record, record])
            (number,) = connection.exec_driver_sql("SELECT max(id) FROM launches").one()
        assert count == (guid not in self._guids)
        if not count:
            same = [one for one in self._launches.values() if (one.message, one.state) == (message, "sent")]
            new = people - {person for one in same for person in one.people}
            self._take(message, new)
            self._launches[self._guids[guid]].people |= new
            return
        self._take(message, people)
        self._guids[guid] = number
        self._absorbed.add(number)
        self._launches[number] = Launch(message, "sent", set(people))

    @invariant()
    def knows_what_the_model_knows(self) -> None:
        """`read_known` agrees with the model, and nobody is both sent and open."""
        with self._ledger.reading() as connection:
            known = read_known(connection, self._campaign)
        for shelf, states in ((known.sent, ("sent",)), (known.unresolved, ("intent", "unknown"))):
            expected: dict[str, set[str]] = {}
            for launch in self._launches.values():
                if launch.state in states and launch.people:
                    expected.setdefault(launch.message, set()).update(launch.people)
            assert shelf == expected
        for message, people in known.sent.items():
            assert not people & known.unresolved.get(message, set())

    @invariant()
    def belongs_to_one_launch_at_most(self) -> None:
        """A delivery that is open or sent has one launch, and each accepted launch is listed once."""
        with self._ledger.reading() as connection:
            accepted = list(iterate_accepted(connection, self._campaign))
        assert sorted(record.project_launch_guid for record in accepted) == sorted(self._guids)
        for record in accepted:
            assert set(record.recipients) == self._launches[self._guids[record.project_launch_guid]].people
        sent = [(record.message, person) for record in accepted for person in record.recipients]
        assert len(sent) == len(set(sent))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_nobody_belongs_to_two_launches(new_url: Callable[[], str]) -> None:
    """Whatever is recorded in whatever order, the ledger agrees with an obvious model."""
    run_state_machine_as_test(
        # Any factory will do; its annotation is narrower than its documentation.
        lambda: DeliveriesMachine(new_url()),  # type: ignore[arg-type]
        settings=settings(max_examples=12, stateful_step_count=20),
    )


def test_a_recipient_of_another_run_stops_the_whole_group(ledger: Ledger) -> None:
    """Intents that meet another run's recipient are refused in words, and none of them is kept."""
    with ledger.writing() as connection:
        campaign_id = enter_campaign(connection, "live", "pulse")
        add_intents(connection, campaign_id, [make_intent("ask", {"a"})], AT)
    with pytest.raises(RunLockedError) as caught, ledger.writing() as connection:
        add_intents(connection, campaign_id, [make_intent("ask", {"b"}), make_intent("ask", {"c", "a"})], AT)
    assert caught.value.message == (
        "another run is sending this campaign: it has recorded some of the same recipients"
    )
    assert caught.value.hint == "wait until it has ended, then run the same command again"
    assert caught.value.exit_code == 6
    with ledger.reading() as connection:
        assert read_known(connection, campaign_id).unresolved == {"ask": {"a"}}
        assert count_states(connection, CampaignLaunches(campaign_id)) == {("ask", "intent"): 1}


def test_a_writer_waits_for_another(ledger: Ledger, ledger_url: str) -> None:
    """A second connection that claims the same recipient waits for the first one's commit, and then sees it."""
    intents = [make_intent("ask", {"a"})]
    with ledger.writing() as connection:
        campaign_id = enter_campaign(connection, "live", "pulse")

    def claim() -> None:
        with Ledger(ledger_url) as other, other.writing() as connection:
            add_intents(connection, campaign_id, intents, AT)

    with ThreadPoolExecutor(1) as pool:
        with ledger.writing() as connection:
            claimed = pool.submit(claim)
            add_intents(connection, campaign_id, intents, AT)
        assert isinstance(claimed.exception(), RunLockedError)
