"""Time-zone data: the newer of two releases, whoever ships it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from zoneinfo import ZoneInfoNotFoundError

import pytest

from runner.timing.zone import order_folders, read_zone

VANCOUVER = "America/Vancouver"
NOON = datetime(2026, 12, 1, 20, tzinfo=UTC)
PACKAGE = Path(str(resources.files("tzdata") / "zoneinfo"))


def make_zones(folder: Path, first_line: str | None, shown: str = "America/New_York") -> Path:
    """Make a system's zones, in which Vancouver has another city's clocks."""
    (folder / "America").mkdir(parents=True)
    shutil.copy(PACKAGE / shown, folder / VANCOUVER)
    if first_line is not None:
        (folder / "tzdata.zi").write_text(f"{first_line}\n", encoding="utf-8")
    return folder


def read_hour(folder: Path, zone: str = VANCOUVER) -> int:
    folders = order_folders([str(folder / "none"), str(folder)], PACKAGE)
    return NOON.astimezone(read_zone(folders, zone)).hour


@pytest.mark.parametrize("first_line", ["# version 2020a", None, "# redo posix_only"])
def test_an_older_or_unknown_release_of_the_system_is_not_used(
    tmp_path: Path, first_line: str | None
) -> None:
    """The package's zones are read if the system's are older, or if nobody can tell how old they are."""
    zones = make_zones(tmp_path / "zones", first_line)
    assert read_hour(zones) == read_hour(tmp_path / "nowhere") != 15


def test_a_newer_release_of_the_system_is_used(tmp_path: Path) -> None:
    """A system that is kept up to date is ahead of a package that is not; what it lacks is the package's."""
    zones = make_zones(tmp_path / "zones", "# version 2999a")
    assert (read_hour(zones), read_hour(zones, "Asia/Tokyo")) == (15, 5)
    with pytest.raises(ZoneInfoNotFoundError):
        read_hour(zones, "Asia/Nowhere")
