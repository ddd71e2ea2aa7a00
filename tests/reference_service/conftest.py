"""The service of the reference, and a repository of campaigns that are sent to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.reference_service.campaigns import Campaigns
from tests.reference_service.service import API_KEY, USERNAME, ReferenceService
from tests.reference_service.switches import Switches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SETTLE_WINDOW = "300ms"


@pytest.fixture
def start_service() -> Iterator[Callable[..., ReferenceService]]:
    """Start a service with switches, as in "guids=upper page_cap=2"; it ends with the test."""
    started = []

    def start(switches: str = "") -> ReferenceService:
        service = ReferenceService(Switches.parse(switches.split()))
        started.append(service)
        return service

    yield start
    for service in started:
        service.close()


@pytest.fixture
def make_campaigns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_service: Callable[..., ReferenceService]
) -> Callable[..., Campaigns]:
    """Write both campaigns for a service with switches, as in "guids=upper page_cap=2": the target `live`."""

    def make(switches: str = "") -> Campaigns:
        service = start_service(switches)
        monkeypatch.setenv("RUNNER_BASE_URL", service.url)
        monkeypatch.setenv("RUNNER_USERNAME", USERNAME)
        monkeypatch.setenv("RUNNER_API_KEY", API_KEY)
        monkeypatch.setenv("RUNNER_SETTLE_WINDOW", SETTLE_WINDOW)
        campaigns = Campaigns(tmp_path, service)
        campaigns.write()
        return campaigns

    return make
