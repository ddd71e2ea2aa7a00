"""The whole loop as commands, and the checks that follow it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.reference_service.campaigns import ADA, BOB, CY, EVERYBODY_ONCE, TAGS
from tests.reference_service.figures import find_unknown, find_wrong, know_figures, read_figures

if TYPE_CHECKING:
    from tests.reference_service.campaigns import Campaigns


_DAILY = 12
"""One in so many is tested every day."""


def mark_most(values: list[str]) -> list[Any]:
    """Return a test's parameters, most of them marked as slow: each runs the whole loop."""
    return [
        pytest.param(value, marks=pytest.mark.slow) if place % _DAILY else value
        for place, value in enumerate(values)
    ]


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


def hide_launches(campaigns: Campaigns, seconds: float) -> None:
    """Have a service whose lists are late show nothing of what was accepted for some time from now."""
    age = time.monotonic() - campaigns.service.accepted[-1].monotonic
    campaigns.service.switch(delay_s=age + seconds)


def apply_without_records(campaigns: Campaigns, code: int) -> None:
    """Lose every record and apply twice: each time this exit code, and nobody is texted again."""
    campaigns.lose_records()
    for _ in range(2):
        applied = campaigns.apply()
        assert campaigns.count_texts() == EVERYBODY_ONCE, applied.stderr
        assert applied.returncode == code, applied.stderr
