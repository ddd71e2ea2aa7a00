"""Time-zone data: the newer of two releases, whoever ships it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfoNotFoundError

import pytest

from runner.timing.zone import ZoneData

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

VANCOUVER = "America/Vancouver"
NOON = datetime(2026, 12, 1, 20, tzinfo=UTC)
PACKAGE = Path(str(resources.files("tzdata") / "zoneinfo"))
RELEASE = (PACKAGE / "tzdata.zi").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# version ")


def make_zones(folder: Path, first_line: str | None, shown: str = "America/New_York") -> Path:
    """Make a system's zones, in which Vancouver has another city's clocks."""
    (folder / "America").mkdir(parents=True)
    shutil.copy(PACKAGE / shown, folder / VANCOUVER)
    if first_line is not None:
        (folder / "tzdata.zi").write_text(f"{first_line}\n", encoding="utf-8")
    return folder


def read_hour(data: ZoneData) -> int:
    return NOON.astimezone(data.load(VANCOUVER)).hour


@pytest.mark.parametrize("first_line", ["# version 2020a", None, "# redo posix_only"])
def test_an_older_or_unknown_release_of_the_system_is_not_used(
    tmp_path: Path, first_line: str | None
) -> None:
    """The package's zones are read if the system's are older, or if nobody can tell how old they are."""
    packaged = ZoneData([], PACKAGE)
    assert read_hour(ZoneData([str(make_zones(tmp_path / "zones", first_line))], PACKAGE)) == read_hour(
        packaged
    )


def test_a_newer_release_of_the_system_is_used(tmp_path: Path) -> None:
    """A system that is kept up to date is ahead of a package that is not."""
    zones = make_zones(tmp_path / "zones", "# version 2999a")
    data = ZoneData([str(tmp_path / "none"), str(zones)], PACKAGE)
    assert read_hour(data) == 15
    assert data.describe_difference(VANCOUVER, NOON) == (
        f"clocks in America/Vancouver are read by this system's 2999a; release {RELEASE} of the package tzdata "
        "shows another time"
    )


def test_a_zone_that_only_one_of_them_has_is_found_there(tmp_path: Path) -> None:
    """A system may lack zones, and the package those of tomorrow."""
    data = ZoneData([str(make_zones(tmp_path / "zones", "# version 2999a"))], PACKAGE)
    assert NOON.astimezone(data.load("Asia/Tokyo")).hour == 5
    assert data.describe_difference("Asia/Tokyo", NOON) is None
    with pytest.raises(ZoneInfoNotFoundError):
        data.load("Asia/Nowhere")


def test_releases_that_agree_are_not_spoken_of(tmp_path: Path) -> None:
    """An older release is named only where its clocks show another time."""
    zones = make_zones(tmp_path / "zones", "# version 2020a", shown=VANCOUVER)
    assert ZoneData([str(zones)], PACKAGE).describe_difference(VANCOUVER, NOON) is None


def test_a_plan_says_where_the_systems_clocks_are_wrong_for_somebody(
    tmp_path: Path, run_process: Run
) -> None:
    """The plan names the release it goes by, and counts the people for whom the two differ."""
    zones = make_zones(tmp_path / "zones", "# version 2020a")
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/hello.yaml").write_text(
        "version: 1\nname: hello\nrecipients: [{phone: '+16042550101'}, {phone: '+12125550101'}]\n"
        "messages: [{id: hi, tag: hello, text: Hello}]\n"
        "schedule: {send_between: ['09:00', '20:00']}\n",
        encoding="utf-8",
    )
    planned = run_process(
        "plan", "--now", "2026-12-01T20:00Z", cwd=tmp_path, env={"PYTHONTZPATH": str(zones)}
    )
    assert planned.returncode == 0, planned.stderr
    assert (
        f"\n  hi: 1 recipient to send: clocks in America/Vancouver are read by release {RELEASE} of the package tzdata; "
        "this system's 2020a shows another time"
    ) in planned.stdout
