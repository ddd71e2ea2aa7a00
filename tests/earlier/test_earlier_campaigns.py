"""Campaigns that were written before plan the same people, texts and launches as they did."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.earlier.recording import (
    RECORDED,
    copy_repository,
    list_repositories,
    record_lockfiles,
    record_plan,
)

if TYPE_CHECKING:
    from pathlib import Path

KNOWN: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.fixture(params=KNOWN)
def name(request: pytest.FixtureRequest) -> str:
    """A folder of campaigns."""
    return str(request.param)


def test_plans_are_as_recorded(name: str, tmp_path: Path) -> None:
    """The digests, people and rendered launches of a plan are those of the program before."""
    repository = copy_repository(list_repositories()[name], tmp_path)
    assert record_plan(repository) == KNOWN[name]["plan"]


@pytest.mark.slow
def test_lockfiles_are_as_recorded(name: str, tmp_path: Path) -> None:
    """The launch keys, fingerprints and every other byte of a lockfile, less time and guids, are those of before."""
    repository = copy_repository(list_repositories()[name], tmp_path)
    assert record_lockfiles(repository) == KNOWN[name]["apply"]
