"""The whole loop against each answer that the reference leaves open, and again with every record lost."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.reference_service.campaigns import (
    ADA,
    BOB,
    CY,
    EVERYBODY_ONCE,
    TAGS,
    Campaigns,
)
from tests.reference_service.figures import find_unknown, find_wrong, know_figures, read_figures
from tests.reference_service.switches import VALUES, Switches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Make = Callable[..., Campaigns]

RECOGNISED: tuple[str, ...] = (
    "definitions=as-sent",
    "definitions=empty-text",
    "definitions=nulls",
    "definitions=defaults",
    "definitions=empties",
    "definitions=no-tag",
    "definitions=extra",
    "texts=nfd",
    "texts=crlf",
    "texts=stripped",
    "texts=padded",
    "guids=upper",
    "guids=mixed",
    "phones=bare",
    "phones=blanks",
    "phones=reversed",
    "times=zulu",
    "times=ahead",
    "times=behind",
    "times=words",
    "times=null",
    "tags=lower",
    "tags=lower-alone",
    "tags=null",
    "counts=text",
    "null_results=details",
    "null_results=times",
    "display_order=one",
    "display_order=integer",
    "limit=ignored",
    "limit=ignored page_cap=2",
    "page_cap=2",
    "next=null",
    "next=whole",
    "total=missing",
    "total=null",
    "total=text",
    "order=newest",
    "order=guid",
    "order=random",
    "order=random page_cap=2",
    "accepted=200",
    "accepted=201",
    "accepted=202",
    "send_reply=urls",
    "default_format=csv",
    "redirects=same-origin redirect_status=301",
    "redirects=same-origin redirect_status=302",
    "redirects=same-origin redirect_status=307",
    "redirects=same-origin redirect_status=308",
)
"""Figures are right, and launches are recognised without any record."""
HELD: tuple[tuple[str, set[str]], ...] = (
    ("definitions=text-alone", {"pulse"}),
    ("texts=smart-quotes", {"pulse", "notice"}),
    ("texts=cut", {"pulse", "notice"}),
    ("sessions=part", {"pulse"}),
    ("sessions=none", {"pulse", "notice"}),
)
"""Figures are right, and without any record the people of these campaigns are held: nobody can know."""


def run_campaigns(campaigns: Campaigns) -> None:
    """Validate, plan and send, and have some people answer."""
    assert campaigns.run("validate").returncode == 0
    planned = campaigns.run("plan", "--detailed-exitcode")
    assert planned.returncode == 2, planned.stderr
    applied = campaigns.apply()
    assert applied.returncode == 0, applied.stderr
    assert campaigns.count_texts() == EVERYBODY_ONCE
    assert campaigns.list_guids() == {sent.guid for sent in campaigns.service.accepted}
    answer_some(campaigns)


def answer_some(campaigns: Campaigns) -> None:
    """Have three people answer, one of them both questions, and one at the second attempt."""
    for phone, text in ((ADA, "10"), (BOB, "9"), (CY, "perhaps"), (CY, "3"), (ADA, "It's good")):
        campaigns.service.answer(phone, text)


def check_figures(campaigns: Campaigns) -> dict[str, set[str]]:
    """Hold `report` and `status` to what the service knows; return the figures that are not known."""
    report, status = campaigns.read_report(), campaigns.read_status()
    unknown = {}
    for name, tag in TAGS.items():
        truth = know_figures(campaigns.service.store, tag)
        shown = read_figures(report[name])
        assert find_wrong(shown, truth) == {}
        unknown[name] = find_unknown(shown, truth)
        brief = {figure: truth[figure] for figure in ("sent", "queued", "active", "complete", "answered")}
        assert find_wrong({figure: status[name][figure] for figure in brief}, brief) == {}
        assert (status[name]["planned"], status[name]["unresolved"]) == (0, 0)
    return unknown


def check_privacy(campaigns: Campaigns) -> None:
    """Hold every file to the promise that credentials stand in none."""
    api_key = campaigns.service.credentials["api_key"]
    for file in campaigns.folder.rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert api_key.encode() not in content, file
        assert quote(api_key, safe="").encode() not in content, file


def apply_without_records(campaigns: Campaigns, code: int) -> None:
    """Lose every record and apply twice: each time this exit code, and nobody is texted again."""
    campaigns.lose_records()
    for _ in range(2):
        applied = campaigns.apply()
        assert campaigns.count_texts() == EVERYBODY_ONCE, applied.stderr
        assert applied.returncode == code, applied.stderr


@pytest.mark.parametrize("switches", RECOGNISED)
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


@pytest.mark.parametrize(("switches", "held"), HELD)
def test_people_are_held_where_nobody_can_know(make_campaigns: Make, switches: str, held: set[str]) -> None:
    """What is listed in other words or for other people is not taken for ours, and nobody whom it reached is texted."""
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
    from tests.reference_service import test_withheld  # noqa: PLC0415

    turned = {
        assignment
        for switches in (*RECOGNISED, *(switches for switches, _ in HELD), *test_withheld.TURNED)
        for assignment in switches.split()
    }
    assert set(list_open_values()) - turned == set()
