"""Fingerprints under a new key, by those under the keys that they were made with.

A fingerprint cannot be turned back into a phone. So phones are offered, from wherever they are at hand, and
each is tried under the old keys of all records. Whoever is on record and fits none of them cannot be moved.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.errors import MissingKeyError
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.frequency import open_campaign_key
from runner.ledger.target_key import TargetKey

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Maker:
    """The way in which some record's fingerprints were made.

    Attributes:
        campaign: the campaign's first name; empty for the people of the target.
        salt: on record; None if the key was the user's secret.
        name: the key's own fingerprint.
    """

    campaign: str
    salt: str | None = field(repr=False)
    name: str


class Translation:
    """Moves fingerprints of one target to a new key.

    Args:
        target: the target's name.
        new: the user's new secret.
        old: the user's old secret; None if there is none.
    """

    def __init__(self, target: str, new: str, old: str | None) -> None:
        self.target = target
        self.new_secret = new
        self.old_secret = old
        self.new = FingerprintKey.from_secret(new)
        self.new_people = TargetKey.from_secret(target, new)
        self._found: defaultdict[Maker, dict[str, str]] = defaultdict(dict)
        self._wanted: defaultdict[Maker, set[str]] = defaultdict(set)
        self._keys: dict[Maker, FingerprintKey | TargetKey] = {}

    @property
    def is_signing_only(self) -> bool:
        """Whether old and new key are the same: fingerprints stay as they are."""
        return self.new_secret == self.old_secret

    def is_moved(self, maker: Maker) -> bool:
        """Return whether a record is under the new key, or stays under its salt."""
        if maker.salt is not None:
            return self.is_signing_only
        return maker.name == (self.new if maker.campaign else self.new_people).name

    def want(self, maker: Maker, where: str, fingerprints: Iterable[str]) -> None:
        """Take note of fingerprints of a record that is to be moved.

        Args:
            maker: made them.
            where: the record, for the error.
            fingerprints: any number.

        Raises:
            MissingKeyError: the key that made them is not at hand.
        """
        if maker not in self._keys:
            self._keys[maker] = self._open(maker, where)
        self._wanted[maker].update(fingerprints)
        self._wanted[maker].difference_update(self._found[maker])

    def offer(self, phones: Iterable[str]) -> None:
        """Try phones, E.164."""
        waiting = {maker: wanted for maker, wanted in self._wanted.items() if wanted}
        for phone in phones:
            for maker, wanted in waiting.items():
                old = self._make(self._keys[maker], maker, phone)
                if old in wanted:
                    wanted.remove(old)
                    new = self.new if maker.campaign else self.new_people
                    self._found[maker][old] = self._make(new, maker, phone)

    def count_missing(self) -> dict[str, int]:
        """Return how many people no phone fits, by the campaign's first name; "" for people of the target."""
        found: defaultdict[str, int] = defaultdict(int)
        for maker, wanted in self._wanted.items():
            if wanted:
                found[maker.campaign] += len(wanted)
        return dict(found)

    def count_people(self) -> int:
        """Return how many people of how many campaigns are moved, each campaign's for themselves."""
        return sum(map(len, self._found.values()))

    def list_pairs(self, maker: Maker) -> dict[str, str]:
        """Return new fingerprints by old ones."""
        return self._found[maker]

    def move(self, maker: Maker, fingerprints: Iterable[str]) -> list[str]:
        """Return fingerprints under the new key, sorted; all of them are known."""
        found = self._found[maker]
        return sorted(found[one] for one in fingerprints)

    @staticmethod
    def _make(key: FingerprintKey | TargetKey, maker: Maker, phone: str) -> str:
        return (
            key.fingerprint(phone) if isinstance(key, TargetKey) else key.fingerprint(maker.campaign, phone)
        )

    def _open(self, maker: Maker, where: str) -> FingerprintKey | TargetKey:
        key: FingerprintKey | TargetKey | None
        if maker.campaign:
            key = open_campaign_key(maker.salt, maker.name, self.old_secret)
        else:
            source, made = maker.salt or self.old_secret, None
            if source:
                made = (
                    TargetKey.from_salt(self.target, source)
                    if maker.salt
                    else TargetKey.from_secret(self.target, source)
                )
            key = made if made is not None and made.name == maker.name else None
        if key is None:
            raise MissingKeyError(
                f"{where} was written with another key than the one in RUNNER_OLD_STATE_KEY"
                if self.old_secret
                else f"{where} was written with another key, and RUNNER_OLD_STATE_KEY is not set",
                hint="set RUNNER_OLD_STATE_KEY to the key that it was written with; nothing was changed",
            )
        return key
