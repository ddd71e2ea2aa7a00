"""Every fault that a send can meet, met by a survey and by a text: everybody is texted exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.reference_service.campaigns import EVERYBODY_ONCE
from tests.reference_service.loop import hide_launches, mark_most
from tests.reference_service.switches import FAULTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.reference_service.campaigns import Campaigns

    Make = Callable[..., Campaigns]

HANGS = ("accept-hang", "refuse-hang")
REJECTED = ("refuse-400", "refuse-403")
BUSY = ("accept-429", "accept-503")
LISTED_IN_OTHER_WORDS = (
    "definitions=empty-text",
    "definitions=nulls",
    "definitions=empties",
    "texts=nfd",
    "tags=lower",
    "tags=lower-alone",
    "tags=null",
    "guids=mixed",
    "phones=blanks",
    "times=behind",
    "times=words",
    "total=missing",
)
DOUBTFUL = (
    ("definitions=text-alone", (0, 2)),
    ("texts=smart-quotes", (1, 2)),
    ("texts=smart-quotes times=behind", (1, 2)),
    ("sessions=none", (1, 2)),
    ("sessions=part", (0, 2)),
)
"""With how many people of the text and of the survey are held."""
SETTLED = [fault for fault in FAULTS if fault not in (*HANGS, *REJECTED, *BUSY)]


def meet(campaigns: Campaigns, fault: str, then: Callable[[], None] = lambda: None) -> None:
    """Have the second text and the first survey meet a fault, and run until nothing is left to do.

    After each run `then` is called.
    """
    campaigns.service.plan_faults(["", fault, "", "", "", fault])
    for _ in range(3):
        applied = campaigns.apply()
        then()
        assert max(campaigns.count_texts().values(), default=1) == 1, applied.stderr
        if applied.returncode == 0 and campaigns.count_texts() == EVERYBODY_ONCE:
            break
    assert campaigns.service.faults == {fault: 2}
    assert applied.returncode == 0, applied.stderr
    assert campaigns.count_texts() == EVERYBODY_ONCE
    assert campaigns.list_guids() == {sent.guid for sent in campaigns.service.accepted}
    assert campaigns.run("reconcile").returncode == 0
    assert campaigns.run("plan", "--detailed-exitcode").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("fault", mark_most([*SETTLED, *BUSY]))
def test_a_fault_leaves_everybody_texted_once(make_campaigns: Make, fault: str) -> None:
    """Whatever becomes of an answer, the launch is found, or shown to be absent and sent again."""
    meet(make_campaigns(), fault)


@pytest.mark.slow
@pytest.mark.parametrize("fault", HANGS)
def test_an_answer_that_takes_too_long_leaves_everybody_texted_once(make_campaigns: Make, fault: str) -> None:
    """A send that is answered after the timeout is settled as if it had not been answered."""
    campaigns = make_campaigns()
    campaigns.service.switch(hangs_s=1.2)
    campaigns.write_timeout("800ms")
    # The other requests are to be answered in time, however busy the machine is.
    meet(campaigns, fault, then=lambda: campaigns.write_timeout("100s"))


@pytest.mark.slow
@pytest.mark.parametrize("fault", REJECTED)
def test_a_refused_send_reaches_nobody_twice(make_campaigns: Make, fault: str) -> None:
    """A send that the service refuses is told of, and its people are texted once by a later run."""
    campaigns = make_campaigns()
    campaigns.service.plan_faults(["", fault])
    refused = campaigns.apply()
    assert refused.returncode in (1, 3)
    assert refused.stderr
    assert max(campaigns.count_texts().values()) == 1
    assert campaigns.apply().returncode == 0
    assert campaigns.count_texts() == EVERYBODY_ONCE


@pytest.mark.slow
@pytest.mark.parametrize("status", ["408", "409", "425", "499", "429", "503"])
def test_an_answer_of_a_gateway_and_a_late_list_text_nobody_twice(make_campaigns: Make, status: str) -> None:
    """Accepted, answered with an error, and listed late: the launch is waited for, not sent again."""
    campaigns = make_campaigns("lists=late delay_s=0.2")
    campaigns.service.plan_faults(["", f"accept-{status}", "", "", "", f"accept-{status}"])
    assert campaigns.apply().returncode in (0, 3, 4)
    hide_launches(campaigns, 0.2)
    applied = campaigns.apply()
    assert max(campaigns.count_texts().values()) == 1, applied.stderr
    assert (applied.returncode, campaigns.count_texts()) == (0, EVERYBODY_ONCE)
    assert campaigns.list_guids() == {sent.guid for sent in campaigns.service.accepted}


@pytest.mark.slow
@pytest.mark.parametrize("switches", LISTED_IN_OTHER_WORDS)
def test_a_lost_answer_is_found_in_other_words(make_campaigns: Make, switches: str) -> None:
    """A launch whose answer was lost is recorded, however the service writes it."""
    campaigns = make_campaigns(switches)
    meet(campaigns, "accept-close")


@pytest.mark.slow
@pytest.mark.parametrize(("switches", "held"), DOUBTFUL, ids=[switches for switches, _ in DOUBTFUL])
def test_a_lost_answer_is_held_where_nobody_can_know(
    make_campaigns: Make, switches: str, held: tuple[int, int]
) -> None:
    """A launch that may be another one is held, its people are not texted again, and the others are."""
    campaigns = make_campaigns(switches)
    campaigns.service.plan_faults(["", "accept-close", "", "", "", "accept-close"])
    for _ in range(2):
        applied = campaigns.apply()
        assert applied.returncode == 4, applied.stderr
        assert campaigns.count_texts() == EVERYBODY_ONCE
    status = campaigns.read_status()
    assert (status["notice"]["unresolved"], status["pulse"]["unresolved"]) == held


def test_a_launch_that_is_listed_in_part_is_adopted_as_a_whole(make_campaigns: Make) -> None:
    """Of an adopted launch that lists half of its people nobody is texted again."""
    campaigns = make_campaigns("sessions=part")
    campaigns.service.plan_faults(["", "", "", "", "", "accept-close"])
    assert campaigns.apply().returncode == 4
    assert campaigns.read_status()["pulse"]["unresolved"] == 2
    resolved = campaigns.run("resolve", "--adopt-all", "--auto-approve")
    assert resolved.returncode == 0, resolved.stderr
    applied = campaigns.apply()
    assert (applied.returncode, campaigns.count_texts()) == (0, EVERYBODY_ONCE)
