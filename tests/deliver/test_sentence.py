"""What `apply` says that it did: people are people, texts are texts, and nobody is counted twice."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from freezegun import freeze_time

from tests.deliver.conftest import PATIENCE_S
from tests.deliver.test_opt_out_during_apply import check_apply

if TYPE_CHECKING:
    from tests.deliver.conftest import Behaviour, FaultyService, Repository, Request

SECOND_MESSAGE = "  - {id: more, text: One more thing.}\n"
EVENING = datetime(2026, 11, 21, 3, 0, 0, tzinfo=UTC)
"""An hour before the end of the hours: frozen clocks tick on, and a busy machine takes its time."""
HOURS = 'schedule: {timezone: America/Los_Angeles, send_between: ["09:00", "20:00"]}\n'
EXPIRES = "schedule: {timezone: America/Los_Angeles, expires: 2026-11-20T20:00}\n"


def append(repository: Repository, text: str) -> None:
    with repository.campaign.open("a", encoding="utf-8") as stream:
        stream.write(text)


def wait_for_intents(repository: Repository, count: int) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE_S * 100)):
        if repository.query("SELECT count(*) FROM launches")[0][0] >= count:
            return
        pause.wait(0.01)
    raise AssertionError("the intents did not come")


def test_several_messages_to_the_same_people(repository: Repository, faulty: FaultyService) -> None:
    """Texts and people are told apart, and the people are as many as the plan has said."""
    phones = repository.write_campaign(3)
    append(repository, SECOND_MESSAGE)
    assert "To send to live: 3 people now, 6 segments" in repository.run("plan").out
    applied = repository.apply("--quiet")
    assert (applied.code, applied.out) == (0, "pulse: 6 texts to 3 people.\n")
    assert faulty.accepted == Counter(phones * 2)


def test_several_messages_to_one_person(repository: Repository) -> None:
    """`--limit` counts people, too."""
    repository.write_campaign(3)
    append(repository, SECOND_MESSAGE)
    assert repository.apply("--limit", "1").out == "pulse: 2 texts to 1 person.\n"


def test_different_messages_to_different_people(repository: Repository) -> None:
    """As long as nobody gets two texts, recipients are counted."""
    repository.write_campaign(3)
    repository.apply("--limit", "1")
    append(repository, SECOND_MESSAGE)
    repository.apply("--only", "ask")
    assert repository.apply("--limit", "2").out == "pulse: 2 people texted.\n"


def test_of_a_part_of_several_messages_texts_are_counted(
    repository: Repository, faulty: FaultyService
) -> None:
    """Where some of them did not leave, it does not say how many people the others went to."""
    repository.write_campaign(3)
    append(repository, SECOND_MESSAGE)
    faulty.decide = lambda number, _request: {"accepts": False, "status": 400} if number == 2 else {}
    applied = repository.apply("--concurrency", "1", "--quiet")
    assert applied.out == "pulse: 5 texts sent, 1 text rejected.\n"


def test_of_several_messages_that_were_not_tried_texts_are_counted(
    repository: Repository, faulty: FaultyService
) -> None:
    """The service ends the run with the first answer: the sum of all is that of the plan's deliveries."""
    repository.write_campaign(9)
    append(repository, SECOND_MESSAGE)
    faulty.behave({"accepts": False, "status": 403})
    applied = repository.apply("--concurrency", "1", "--quiet")
    assert applied.out == (
        "pulse: 0 texts sent, 1 text rejected, 1 text not sent, "
        "16 texts left for the next run, since this one ended early.\n"
    )


@pytest.mark.parametrize(("rules", "what"), [(HOURS, "deferred"), (EXPIRES, "too late for `expires`")])
def test_whoever_the_hours_leave_out_is_told_once(
    repository: Repository, faulty: FaultyService, rules: str, what: str
) -> None:
    """Launches that had their intent when the hours ended are not counted besides their recipients."""
    phones = repository.write_campaign(6)
    text = repository.campaign.read_text(encoding="utf-8")
    # Launches go until the last moment of the hours.
    text = text.replace("limits:\n", "limits:\n  settle_margin: 0s\n")
    repository.campaign.write_text(text + rules, encoding="utf-8")
    with freeze_time(EVENING, tick=True, real_asyncio=True) as frozen:

        def take_time(number: int, _request: Request) -> Behaviour:
            # The next launch has its intent before its hours end.
            wait_for_intents(repository, number + 1)
            frozen.tick(timedelta(minutes=40))
            return {}

        faulty.decide = take_time
        applied = repository.apply("--concurrency", "1", "--quiet")
    assert (applied.code, applied.err) == (0, "")
    assert applied.out == f"pulse: 2 people texted, 4 people {what}.\n"
    assert faulty.accepted == Counter(phones[:2])
    assert repository.query("SELECT count(*) FROM launches WHERE state = 'not_sent'") == [(1,)]


@pytest.mark.slow
def test_a_run_that_is_too_late_for_everybody_has_sent_nothing(
    repository: Repository, faulty: FaultyService
) -> None:
    """If all launches that had their intent were too late, none is counted."""
    repository.write_campaign(3)
    append(repository, HOURS)
    with freeze_time(EVENING, tick=True, real_asyncio=True) as frozen:

        def refuse(_number: int, _request: Request) -> Behaviour:
            frozen.tick(timedelta(minutes=80))
            return {"status": 429, "accepts": False, "headers": {"Retry-After": "0"}}

        faulty.decide = refuse
        applied = repository.apply("--concurrency", "1", "--quiet")
    assert (applied.code, applied.out) == (0, "pulse: nothing sent, 3 people deferred.\n")


class TestSavedPlan:
    """A plan that is sent when its campaign has expired, or is about to."""

    BEFORE = datetime(2026, 11, 20, 20, 0, tzinfo=UTC)  # noon in California, nine in the evening in Paris

    @pytest.fixture
    def saved(self, repository: Repository) -> Repository:
        """A repository with a plan of five, two of whom wait for the next morning, the campaign's last."""
        repository.write_campaign(3)
        people = repository.campaign.read_text(encoding="utf-8")
        paris = "".join(f'  - phone: "+3314277550{number}"\n' for number in (1, 2))
        people = people.replace("limits:\n", f"{paris}limits:\n")
        repository.campaign.write_text(people, encoding="utf-8")
        append(
            repository,
            "schedule: {timezone: America/Los_Angeles, expires: 2026-11-21T09:00, "
            'send_between: ["09:00", "20:00"]}\n',
        )
        with freeze_time(self.BEFORE, tick=True, real_asyncio=True):
            done = repository.run("plan", "--out", "plan.json")
        assert done.code == 0, done.err
        return repository

    @pytest.mark.slow
    def test_all_of_it_is_too_late(self, saved: Repository, faulty: FaultyService) -> None:
        """Whom it meant to send to and whom it deferred, all are told as too late, none as deferred."""
        with freeze_time(self.BEFORE + timedelta(days=2), tick=True, real_asyncio=True):
            late = saved.run("apply", "--plan", "plan.json", "--quiet")
            counted = saved.run("apply", "--plan", "plan.json", "--quiet", "--format", "json")
        assert (late.code, late.out) == (0, "pulse: nothing sent, 5 people too late for `expires`.\n")
        campaign = check_apply(counted.out)
        assert (campaign["expired"], campaign["deferred"], campaign["not_tried"]) == (5, 0, 0)
        assert not faulty.requests

    def test_before_that_it_defers(self, saved: Repository, faulty: FaultyService) -> None:
        """In time, those who were to be texted are, and those who wait are deferred."""
        with freeze_time(self.BEFORE + timedelta(minutes=5), tick=True, real_asyncio=True):
            done = saved.run("apply", "--plan", "plan.json", "--quiet")
        left = "2 people deferred until Sat 2026-11-21 09:00 (Europe/Paris)"
        assert (done.code, done.out) == (0, f"pulse: 3 people texted, {left}.\n")
        assert len(faulty.requests) == 3

    def test_what_the_plan_deferred_may_be_too_late_alone(self, saved: Repository) -> None:
        """Half an hour before the end Paris may still be texted by another run, California may not: it says both."""
        half_past_eight = datetime(2026, 11, 21, 16, 30, tzinfo=UTC)
        with freeze_time(half_past_eight, tick=True, real_asyncio=True):
            done = saved.run("apply", "--plan", "plan.json", "--quiet")
        assert done.out == (
            "pulse: nothing sent, 3 people too late for `expires`, 2 people deferred until Sat "
            "2026-11-21 09:00 (Europe/Paris).\n"
        )


def test_a_person_is_told_what_comes_next(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a terminal the last line says what to run next; elsewhere, and with `--quiet`, nothing is said."""
    repository.write_campaign(2)
    assert "Next:" not in repository.apply().err
    monkeypatch.setattr("runner.cli.console.find_width", lambda *, err=False: 200 if err else None)
    repository.write_campaign(3)
    last = "Next: `runner reconcile` reads counts and answers, once people have answered.\n"
    assert repository.apply().err.endswith(last)
    repository.write_campaign(4)
    assert "Next:" not in repository.apply("--quiet").err
