"""People on a target by what is known of them: values without SQL, for plans that need no database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Self, TypeVar

from runner.ledger.fingerprint import FingerprintSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.ledger.fingerprint import TargetKey

Kind = TypeVar("Kind")


class OpenSession(NamedTuple):
    """The open survey that holds a person: its campaign, and the grounds.

    `read`: its session was open when last read; `unread`: it was never read; `planned`: it is about to begin.
    """

    campaign: str
    state: Literal["read", "unread", "planned"]


@dataclass(frozen=True, slots=True)
class KnownPeople(Generic[Kind]):
    """People by what is known of them, as the state of an opt-out or an open survey: at 16 bytes each."""

    key: TargetKey
    shelves: Mapping[Kind, FingerprintSet] = field(default_factory=dict)

    @classmethod
    def gather(cls, key: TargetKey, rows: Iterable[tuple[str, Any]]) -> Self:
        """Return the people of rows of a fingerprint and a kind, by fingerprint."""
        found: dict[Any, FingerprintSet] = {}
        for fingerprint, kind in rows:
            if kind not in found:
                found[kind] = FingerprintSet()
            found[kind].append(fingerprint)
        return cls(key, {kind: found[kind] for kind in sorted(found)})

    def __bool__(self) -> bool:
        return any(self.shelves.values())

    def find(self, phone: str) -> Kind | None:
        """Return the first kind that a person, by phone (E.164), is of; None if nothing is known of them."""
        person = self.key.fingerprint(phone) if self.shelves else ""
        return next((kind for kind, people in self.shelves.items() if person in people), None)

    def count(self, phone: str) -> int:
        """Return the number of times that a person was given."""
        person = self.key.fingerprint(phone)
        return sum(people.count(person) for people in self.shelves.values())
