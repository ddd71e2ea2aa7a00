"""What a service has accepted, and what the harness wants of any service: that it counts it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.torture.door import Doorway

_MESSAGE = re.compile(r"\[(\w+)\]")
_VERSION = re.compile(r"\((\d+)\)")
_LANGUAGE = re.compile(r"\|(\w+)\|")
_CELL = re.compile(r"<(.*?)>")
_WAVE = re.compile(r"-(\d{4}q\d+)$")


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch that the service has accepted; it is listed from `listed_at`, in monotonic seconds."""

    guid: str
    definition: dict[str, Any]
    phones: tuple[str, ...]
    started: str
    listed_at: float

    @property
    def message(self) -> str:
        """The message, which stands in brackets in the first text of each of the harness's definitions."""
        found = _MESSAGE.search(self._first_text)
        return found[1] if found else ""

    @property
    def version(self) -> int:
        """The version of the texts, which stands in parentheses."""
        found = _VERSION.search(self._first_text)
        return int(found[1]) if found else -1

    @property
    def language(self) -> str:
        """The language, which stands between bars; empty in a campaign without languages."""
        found = _LANGUAGE.search(self._first_text)
        return found[1] if found else ""

    @property
    def cell(self) -> str | None:
        """The date that the text is for; None for a message that goes by none."""
        found = _CELL.search(self._first_text)
        return found[1] if found else None

    @property
    def occasion(self) -> str:
        """What it is one of several of to the same people: a wave, which ends the tag, or a date."""
        found = _WAVE.search(self.tag)
        return found[1] if found else self.cell or ""

    @property
    def tag(self) -> str:
        """The project tag that it was sent with."""
        return str(self.definition["tag"])

    @property
    def _first_text(self) -> str:
        said = self.definition
        return str(said.get("text") or said.get("introduction") or said["questions"][0]["text"])

    @property
    def is_ours(self) -> bool:
        """Whether the campaign sent it, and not somebody else under the same tag."""
        return bool(self.message)


class CountingService(Protocol):
    """A service that goes wrong, and lists what it accepts, though it may do so late.

    Attributes:
        launches: what it has accepted.
        faults: how often each fault was met by a request.
        door: where requests come in.
        is_ahead: whether its clock is ahead of ours.
    """

    @property
    def is_ahead(self) -> bool: ...

    @property
    def launches(self) -> Sequence[Launch]: ...

    @property
    def faults(self) -> Counter[str]: ...

    @property
    def door(self) -> Doorway: ...

    def accept(self, body: dict[str, Any]) -> str:
        """Text the phones, whoever asks for it, and return the launch's guid."""

    def calm(self) -> None:
        """Behave from now on; what is accepted is still listed late."""

    def come_to_rest(self) -> None:
        """Wait until everything that was accepted, or will be, is listed."""

    def count_texts(self) -> Counter[tuple[str, str, str]]:
        """Return how often the campaign has texted each phone each message on each occasion."""


def count_texts(launches: Iterable[Launch]) -> Counter[tuple[str, str, str]]:
    """Return how often the campaign has texted each phone each message on each occasion."""
    return Counter(
        (launch.message, phone, launch.occasion)
        for launch in launches
        if launch.is_ours
        for phone in launch.phones
    )
