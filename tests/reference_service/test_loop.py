"""The whole loop against each answer that the reference leaves open, and again with every record lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.reference_service.loop import (
    apply_without_records,
    check_figures,
    check_privacy,
    mark_most,
    run_campaigns,
)
from tests.reference_service.switches import VALUES, Switches
from tests.reference_service.test_withheld import TURNED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.reference_service.campaigns import Campaigns

    Make = Callable[..., Campaigns]

RECOGNISED: tuple[str, ...] = (
    "definitions=as-sent",
    "definitions=nulls",
    "definitions=defaults",
    "definitions=no-tag",
    "definitions=extra",
    "texts=stripped",
    "guids=upper",
    "phones=bare",
    "phones=blanks",
    "phones=reversed",
    "times=zulu",
    "times=offsets",
    "times=ahead",
    "times=behind",
    "times=words",
    "times=null",
    "tags=null",
    "counts=text",
    "display_order=one",
    "display_order=integer",
    "limit=ignored",
    "limit=ignored page_cap=2",
    "page_cap=2",
    "next=null",
    "next=whole",
    "total=text",
    "order=newest",
    "order=guid",
    "order=random",
    "order=random page_cap=2",
    "accepted=200",
    "accepted=201",
    "accepted=202",
    "send_reply=urls",
)
"""Figures are right, and launches are recognised without any record."""
RECOGNISED_IN_OTHER_WORDS: tuple[str, ...] = (
    # Expected: as above, since absent, null, empty and default values are one, and so are texts after NFC.
    "definitions=empty-text",
    "definitions=empties",
    "texts=nfd",
    "texts=crlf",
    "texts=padded",
    # Expected: as above, since guids and tags are compared without case, too.
    "guids=mixed",
    "tags=lower",
    "tags=lower-alone",
    # Expected: as above, since JSON is asked for, a list needs no count, and GETs follow within the origin.
    "default_format=csv",
    "total=missing",
    "total=null",
    "redirects=same-origin redirect_status=301",
    "redirects=same-origin redirect_status=302",
    "redirects=same-origin redirect_status=307",
    "redirects=same-origin redirect_status=308",
)
"""The same, of services that are further from the letter of the reference."""
HELD: tuple[tuple[str, set[str]], ...] = (
    ("definitions=text-alone", {"pulse"}),
    ("texts=smart-quotes", {"pulse", "notice"}),
    ("texts=cut", {"pulse", "notice"}),
    ("sessions=part", {"pulse"}),
    ("sessions=none", {"pulse", "notice"}),
)
"""Figures are right, and without any record the people of these campaigns are held: nobody can know."""


@pytest.mark.slow
@pytest.mark.parametrize("switches", mark_most([*RECOGNISED, *RECOGNISED_IN_OTHER_WORDS]))
def test_figures_are_right_and_launches_recognised(make_campaigns: Make, switches: str) -> None:
    """However the service writes, everybody is texted once, the report is right, and lost records come back."""
    campaigns = make_campaigns(switches)
    run_campaigns(campaigns)
    reconciled = campaigns.run("reconcile")
    assert reconciled.returncode == 0, reconciled.stderr
    assert check_figures(campaigns) == {"pulse": set(), "notice": set()}
    apply_without_records(campaigns, 0)
    assert campaigns.list_guids() == {sent.guid for sent in campaigns.service.accepted}
    assert campaigns.service.strays == 0
    check_privacy(campaigns)


@pytest.mark.slow
@pytest.mark.parametrize(("switches", "held"), HELD, ids=[switches for switches, _ in HELD])
def test_people_are_held_where_nobody_can_know(make_campaigns: Make, switches: str, held: set[str]) -> None:
    """A launch in other words or to other people is not taken for ours, and its people are not texted again."""
    campaigns = make_campaigns(switches)
    run_campaigns(campaigns)
    reconciled = campaigns.run("reconcile")
    assert reconciled.returncode == 0, reconciled.stderr
    assert check_figures(campaigns) == {"pulse": set(), "notice": set()}
    apply_without_records(campaigns, 4)
    status = campaigns.read_status()
    assert {name for name, message in status.items() if message["unresolved"]} == held
    for message in status.values():
        assert message["sent"] + message["unresolved"] == 5
        assert message["planned"] == 0


def list_open_values() -> Iterator[str]:
    """Return each value of each switch but the defaults, as `name=value`."""
    for name, values in VALUES.items():
        default = getattr(Switches(), name)
        yield from (f"{name}={value}" for value in values if value != default)


def test_every_value_of_every_switch_is_gone_through() -> None:
    """A switch that no test turns would prove nothing."""
    turned = {
        assignment
        for switches in (
            *RECOGNISED,
            *RECOGNISED_IN_OTHER_WORDS,
            *(switches for switches, _ in HELD),
            *TURNED,
        )
        for assignment in switches.split()
    }
    assert set(list_open_values()) - turned == set()
