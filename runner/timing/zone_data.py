"""Time-zone data: the newer of this system's and the `tzdata` package's.

Governments change their clocks a few times a year, sometimes with weeks of notice. Python reads the system's
data first, however old they are; an old release would send by clocks that nobody has any more. Both are
releases of the IANA time zone database, whose names (`2026f`) sort by age.
"""

from __future__ import annotations

import zoneinfo
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from importlib.resources.abc import Traversable

_RELEASE_FILES = ("tzdata.zi", "+VERSION")
"""Files in which systems keep the release: Linux distributions' first line, macOS and the BSDs."""
_FIRST_LINE = "# version "
_PACKAGE = resources.files("tzdata") / "zoneinfo"


class ZoneData:
    """The time zones of a machine, and of the package.

    Args:
        folders: where the system keeps its zones; the first one that is there counts.
        package: the folder of the package's zones.
    """

    def __init__(self, folders: Sequence[str], package: Traversable) -> None:
        self._system = next((Path(folder) for folder in folders if Path(folder).is_dir()), None)
        self._package = package
        self.package_release = _read_release(package) or ""
        self.system_release = _read_release(self._system) if self._system is not None else None
        # A release that nobody can tell may be any.
        self.is_packages = self.system_release is None or self.system_release < self.package_release

    def load(self, name: str) -> ZoneInfo:
        """Return a zone by its IANA name.

        Raises:
            ZoneInfoNotFoundError: there is no such zone.
        """
        folders = (self._package, self._system) if self.is_packages else (self._system, self._package)
        for folder in folders:
            zone = _read_zone(folder, name)
            if zone is not None:
                return zone
        raise ZoneInfoNotFoundError(f"no time zone {name}")

    def describe_difference(self, name: str, moment: datetime) -> str | None:
        """Return in words that system and package disagree on a zone's clocks; None if they agree.

        Args:
            name: the zone's IANA name.
            moment: any aware time.
        """
        packaged, systems = _read_zone(self._package, name), _read_zone(self._system, name)
        if packaged is None or systems is None:
            return None
        if moment.astimezone(packaged).replace(tzinfo=None) == moment.astimezone(systems).replace(
            tzinfo=None
        ):
            return None
        releases = f"release {self.package_release} of the package tzdata", self._name_systems()
        used, other = releases if self.is_packages else reversed(releases)
        return f"clocks in {name} are read by {used}; {other} shows another time"

    def _name_systems(self) -> str:
        return f"this system's {self.system_release or 'time-zone data, of an unknown release,'}"


def _read_zone(folder: Traversable | None, name: str) -> ZoneInfo | None:
    if folder is None:
        return None
    with suppress(OSError, ValueError), folder.joinpath(*name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)
    return None


def _read_release(folder: Traversable) -> str | None:
    for name in _RELEASE_FILES:
        with suppress(OSError, UnicodeDecodeError), folder.joinpath(name).open(encoding="utf-8") as file:
            release = file.readline().removeprefix(_FIRST_LINE).strip()
            if release[:4].isdecimal():
                return release
    return None


@cache
def read_country_names() -> dict[str, str]:
    """Return the countries of ISO 3166-1 by their codes, with their usual English names."""
    return dict(_read_table("iso3166.tab"))


@cache
def read_country_zones() -> dict[str, tuple[str, ...]]:
    """Return the IANA names of the time zones of each country, by its code of ISO 3166-1."""
    found: dict[str, list[str]] = {}
    for country, _, zone, *_ in _read_table("zone.tab"):
        found.setdefault(country, []).append(zone)
    return {country: tuple(zones) for country, zones in found.items()}


def _read_table(name: str) -> list[list[str]]:
    lines = (_PACKAGE / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


@cache
def open_zone_data() -> ZoneData:
    """Return the time zones of this machine."""
    return ZoneData(zoneinfo.TZPATH, _PACKAGE)


@cache
def load_zone(name: str) -> ZoneInfo:
    """Return a time zone by its IANA name, from the newest data at hand.

    Raises:
        ZoneInfoNotFoundError: there is no such zone.
    """
    return open_zone_data().load(name)
