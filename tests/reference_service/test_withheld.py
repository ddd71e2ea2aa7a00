"""Services that withhold or delay things: never a wrong figure, and never a second text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.reference_service.campaigns import ADA, EVERYBODY_ONCE, PHONES, Campaigns
from tests.reference_service.figures import COUNTED
from tests.reference_service.loop import (
    answer_some,
    apply_without_records,
    check_figures,
    check_privacy,
    hide_launches,
    run_campaigns,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Campaigns]

pytestmark = pytest.mark.slow

HELD = 4
NOTHING_UNKNOWN: dict[str, set[str]] = {"pulse": set(), "notice": set()}
NULL_FIELDS = ("null_results=details", "null_results=times", "null_results=answer", "null_results=question")
LATE_LISTS = ("lists=late delay_s=0.2", "lists=empty delay_s=0.2")
TURNED = (
    *NULL_FIELDS,
    *LATE_LISTS,
    "counts=null",
    "counts=missing",
    "counts=one-more",
    "total=too-high",
    "sessions=late",
    "lists=forgetful",
    "redirects=other-origin",
    "redirects=sends",
)
"""The switches that this file turns."""


def test_counts_that_are_null_are_not_known(make_campaigns: Make) -> None:
    """Without a count of any launch `reconcile` fails, and reports say "not known" where they would count."""
    campaigns = make_campaigns("counts=null")
    run_campaigns(campaigns)
    reconciled = campaigns.run("reconcile")
    assert reconciled.returncode == 1
    assert reconciled.stderr
    for unknown in check_figures(campaigns).values():
        assert unknown >= set(COUNTED)
    apply_without_records(campaigns, 0)


def test_a_count_that_is_missing_is_not_known(make_campaigns: Make) -> None:
    """A stat without `num_renders` leaves renders "not known", and `reconcile` does not end with 0."""
    campaigns = make_campaigns("counts=missing")
    run_campaigns(campaigns)
    reconciled = campaigns.run("reconcile")
    assert reconciled.returncode in (1, 3)
    assert reconciled.stderr
    for unknown in check_figures(campaigns).values():
        assert "renders" in unknown
    for message in campaigns.read_report().values():
        assert "renders" in " ".join(message["discrepancies"])
    apply_without_records(campaigns, 0)


def test_a_count_above_the_list_is_a_discrepancy(make_campaigns: Make) -> None:
    """A count above the list leaves the figures as the list has them, and both numbers are shown."""
    campaigns = make_campaigns("counts=one-more")
    run_campaigns(campaigns)
    reconciled = campaigns.run("reconcile")
    assert reconciled.returncode in (0, 3)
    assert "pulse: " in reconciled.stderr
    assert check_figures(campaigns) == NOTHING_UNKNOWN
    discrepancies = " ".join(campaigns.read_report()["pulse"]["discrepancies"])
    # Four results are listed, and each of three launches counts one more.
    assert {"4", "7"} <= set(re.findall(r"\d+", discrepancies))
    apply_without_records(campaigns, 0)


@pytest.mark.parametrize("switches", NULL_FIELDS)
def test_nulls_in_results_make_no_wrong_figure(make_campaigns: Make, switches: str) -> None:
    """A result whose field is null is counted rightly, or `reconcile` says so and the figure is not known."""
    campaigns = make_campaigns(switches)
    run_campaigns(campaigns)
    reconciled = campaigns.run("reconcile")
    unknown = check_figures(campaigns)
    assert unknown["notice"] == set()
    if unknown["pulse"]:
        assert reconciled.returncode in (1, 3)
        assert "pulse: " in reconciled.stderr
    else:
        assert reconciled.returncode == 0
    apply_without_records(campaigns, 0)


@pytest.mark.parametrize("switches", LATE_LISTS)
def test_a_late_list_makes_no_wrong_figure(make_campaigns: Make, switches: str) -> None:
    """Launches that are not listed yet are not known, and their figures right as soon as they are listed."""
    campaigns = make_campaigns(switches)
    assert campaigns.apply().returncode == 0
    answer_some(campaigns)
    campaigns.service.switch(delay_s=3600.0)
    reconciled = campaigns.run("reconcile")
    assert reconciled.returncode == 1
    for unknown in check_figures(campaigns).values():
        assert unknown >= set(COUNTED)
    campaigns.service.switch(delay_s=0.0)
    assert campaigns.run("reconcile").returncode == 0
    assert check_figures(campaigns) == NOTHING_UNKNOWN


@pytest.mark.parametrize("switches", LATE_LISTS)
def test_a_late_list_texts_nobody_twice(make_campaigns: Make, switches: str) -> None:
    """A record lost right after a send comes back from a list that is late by less than the settle window."""
    campaigns = make_campaigns(switches)
    assert campaigns.apply().returncode == 0
    hide_launches(campaigns, 0.2)
    apply_without_records(campaigns, 0)
    assert campaigns.list_guids() == {sent.guid for sent in campaigns.service.accepted}


@pytest.mark.parametrize("switches", LATE_LISTS)
def test_a_lost_answer_and_a_late_list_text_nobody_twice(make_campaigns: Make, switches: str) -> None:
    """A launch whose answer was lost, of a survey and of a text, is waited for and recorded."""
    campaigns = make_campaigns(switches)
    campaigns.service.plan_faults(["", "accept-close", "", "", "", "", "accept-close", ""])
    for _ in range(2):
        applied = campaigns.apply()
        assert campaigns.count_texts() == EVERYBODY_ONCE
    assert applied.returncode == 0
    assert campaigns.list_guids() == {sent.guid for sent in campaigns.service.accepted}


def test_sessions_that_come_late_hold_people_until_they_are_there(make_campaigns: Make) -> None:
    """A launch that is listed without people may be anybody's: held, and recorded once they are listed."""
    campaigns = make_campaigns("sessions=late delay_s=3600")
    assert campaigns.apply().returncode == 0
    answer_some(campaigns)
    assert campaigns.run("reconcile").returncode == 0
    assert check_figures(campaigns) == NOTHING_UNKNOWN
    apply_without_records(campaigns, 4)
    campaigns.service.switch(delay_s=0.0)
    applied = campaigns.apply()
    assert (applied.returncode, campaigns.count_texts()) == (0, EVERYBODY_ONCE)
    assert campaigns.list_guids() == {sent.guid for sent in campaigns.service.accepted}


def test_launches_that_the_service_forgot_are_told_of(make_campaigns: Make) -> None:
    """Of launches that are not listed any more nothing is known, and what is left is not taken for the whole."""
    campaigns = make_campaigns("lists=forgetful remembers=2")
    run_campaigns(campaigns)
    reconciled = campaigns.run("reconcile")
    assert reconciled.returncode == 3
    assert "not listed by the service" in reconciled.stderr
    for unknown in check_figures(campaigns).values():
        assert unknown >= set(COUNTED)


def test_a_list_that_forgets_is_no_proof(make_campaigns: Make) -> None:
    """A lost answer is not settled by a list that lacks what is known to have been sent: it is held."""
    campaigns = make_campaigns("lists=forgetful remembers=1")
    campaigns.service.plan_faults(["", "", "accept-close", "", "", "", "accept-close", ""])
    for _ in range(3):
        applied = campaigns.apply()
        assert campaigns.count_texts() == EVERYBODY_ONCE
        assert applied.returncode == 4
    status = campaigns.read_status()
    assert (status["notice"]["unresolved"], status["pulse"]["unresolved"]) == (1, 2)


def test_a_total_that_is_too_high_texts_nobody_twice(make_campaigns: Make) -> None:
    """A list that shows fewer launches than it counts is read in full, or refused, and never believed to be whole."""
    campaigns = make_campaigns("total=too-high")
    for _ in range(2):
        applied = campaigns.apply()
        texts = campaigns.count_texts()
        assert texts in (EVERYBODY_ONCE, {})
        assert applied.returncode == 0 if texts else applied.returncode in (1, 4)
        assert texts or applied.stderr
    if texts:
        answer_some(campaigns)
        assert campaigns.run("reconcile").returncode in (0, 3)
        check_figures(campaigns)
        campaigns.lose_records()
        assert campaigns.apply().returncode in (0, 4)
        assert campaigns.count_texts() == EVERYBODY_ONCE


@pytest.mark.parametrize("status", ["302", "308"])
def test_a_redirect_to_another_origin_is_named_and_not_followed(make_campaigns: Make, status: str) -> None:
    """Credentials go to no other origin: nothing is sent, and the message says where the service points to."""
    campaigns = make_campaigns(f"redirects=other-origin redirect_status={status}")
    applied = campaigns.apply()
    assert applied.returncode == 1
    assert "http://localhost:" in applied.stderr
    assert campaigns.count_texts() == {}
    assert campaigns.service.strays == 0
    campaigns.service.switch(redirects="none")
    assert campaigns.apply().returncode == 0
    assert campaigns.count_texts() == EVERYBODY_ONCE
    check_privacy(campaigns)


@pytest.mark.parametrize("status", ["302", "307"])
def test_a_redirected_send_is_named_and_not_followed(make_campaigns: Make, status: str) -> None:
    """A POST is not sent on: nobody is texted, the message says where to, and everybody is texted once later."""
    campaigns = make_campaigns(f"redirects=sends redirect_status={status}")
    applied = campaigns.apply()
    assert applied.returncode in (1, 3, 4)
    assert "/moved/api/send" in applied.stderr
    assert campaigns.count_texts() == {}
    campaigns.service.switch(redirects="none")
    for _ in range(2):
        applied = campaigns.apply()
    assert (applied.returncode, campaigns.count_texts()) == (0, EVERYBODY_ONCE)
    check_privacy(campaigns)


def test_a_plan_that_is_used_up_is_named(make_campaigns: Make) -> None:
    """A 403 with no renders left names the plan; with a larger one the rest is sent, and nobody twice."""
    campaigns = make_campaigns("renders_max=3")
    applied = campaigns.apply()
    assert applied.returncode in (1, 3)
    assert "plan" in applied.stderr
    assert set(campaigns.count_texts().values()) == {1}
    assert campaigns.count_texts().total() == 3
    campaigns.service.switch(renders_max=1000)
    assert campaigns.apply().returncode == 0
    assert campaigns.count_texts() == EVERYBODY_ONCE


def test_people_who_have_an_open_survey_get_the_next_message_behind_it(make_campaigns: Make) -> None:
    """A session that queues is counted as queued, and complete once the one before it has ended."""
    campaigns = make_campaigns()
    campaigns.service.accept({"phone": list(PHONES), "questions": [{"text": "How was it?"}]})
    # Nobody knows whose that survey is, until a person says so.
    assert campaigns.apply().returncode == HELD
    assert campaigns.run("resolve", "--not-sent-all", "--auto-approve").returncode == 0
    assert campaigns.apply().returncode == 0
    campaigns.service.answer(ADA, "Good")
    assert campaigns.run("reconcile").returncode == 0
    assert check_figures(campaigns) == NOTHING_UNKNOWN
    assert campaigns.read_status()["notice"]["queued"] == 4
