"""Defaults and bounds of a campaign from files `targets.yaml`, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.source.diagnostic import Position


class AppliedDefault(NamedTuple):
    """A value that a campaign takes from `defaults` of a targets.yaml: its key, as in `policy.consent`."""

    key: str
    value: Any
    position: Position


class RequiredRule(NamedTuple):
    """A bound of `require` in a targets.yaml; `place` is its file and line, for messages."""

    name: str
    bound: Any
    place: str

    @property
    def is_of_hours(self) -> bool:
        """True if it bounds the hours in which texts arrive."""
        return self.name == "send_between" or self.bound == "legal"


@dataclass(frozen=True, slots=True)
class CampaignRules:
    """The defaults and bounds of one campaign, from all files `targets.yaml` that hold for it.

    Attributes:
        digest: of all of it but what only reports read; empty if they say nothing.
        stamps: of the files, those that are missing included, by path.
    """

    defaults: tuple[AppliedDefault, ...] = ()
    required: tuple[RequiredRule, ...] = ()
    digest: str = ""
    stamps: Mapping[str, object] = field(default_factory=dict, compare=False, repr=False)

    @property
    def keeps_number(self) -> bool:
        """True if a person's own time zone or region gets them around no hours of their number."""
        return any(one.is_of_hours for one in self.required)

    def find(self, name: str) -> RequiredRule | None:
        """Return the strictest rule of a name; None if there is none."""
        return min((one for one in self.required if one.name == name), key=attrgetter("bound"), default=None)
