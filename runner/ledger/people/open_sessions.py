"""Open surveys on a target: values apart from their reading, for a plan that needs no database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from runner.ledger.fingerprint import FingerprintSet, TargetKey


class OpenShelf(NamedTuple):
    """The people with an open survey of one campaign.

    `open` has those whose session was open when last read; `unread`, those whose session was never read.
    """

    campaign: str
    open: FingerprintSet
    unread: FingerprintSet


class OpenSession(NamedTuple):
    """The open survey that holds a person: its campaign, and the grounds (`state`)."""

    campaign: str
    state: Literal["read", "unread", "planned"]


@dataclass(frozen=True, slots=True)
class OpenSessions:
    """The people with open surveys on a target, by campaign."""

    key: TargetKey
    shelves: tuple[OpenShelf, ...] = ()

    def find(self, phone: str) -> OpenSession | None:
        """Return the open survey of a person, as last read, or None."""
        person = self.key.fingerprint(phone) if self.shelves else ""
        for shelf in self.shelves:
            if person in shelf.open:
                return OpenSession(shelf.campaign, "read")
            if person in shelf.unread:
                return OpenSession(shelf.campaign, "unread")
        return None
