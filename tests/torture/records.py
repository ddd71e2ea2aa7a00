"""The records of a scenario's launches, and the ways in which they get lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.torture.ledgers import LocalLedger

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from tests.torture.launches import Launch
    from tests.torture.ledgers import Ledger
    from tests.torture.repository import Audience, Repository

_RECORDED = (0, 3, 4)
"""Exit codes of runs that have recorded all that they know."""


class Records:
    """Lockfile, ledger and, with several machines, the ref on their remote.

    Args:
        repository: has the lockfile.
        ledger: the ledger.
        has_key: whether fingerprints have a key, not a salt that gets lost with the records.

    Attributes:
        is_new: whether nothing is on record, and no run has begun since.
    """

    def __init__(self, repository: Repository, ledger: Ledger, *, has_key: bool) -> None:
        self._repository = repository
        self._ledger = ledger
        self._has_key = has_key
        self._in_ledger: set[str] = set()
        self._on_ref: set[str] = set()
        self._copies: list[tuple[Any, set[str]]] = []
        self.is_new = True

    def list_kept(self) -> set[str]:
        """Return the guids that are on record for sure."""
        if isinstance(self._ledger, LocalLedger):
            return set(self._on_ref)
        return self._in_ledger | read_guids(self._repository.lockfile)

    def note_end(self, folder: Path, code: int) -> None:
        """Take account of a run that has ended, in this folder."""
        self.is_new = False
        if code not in _RECORDED:
            return
        known = read_guids(folder / "campaigns" / self._repository.lockfile.name)
        if self._ledger.is_shared or folder == self._repository.folder:
            self._in_ledger |= known
        if isinstance(self._ledger, LocalLedger):
            self._on_ref |= known

    def copy_ledger(self) -> None:
        """Remember the ledger as it is."""
        if self._ledger.is_there():
            self._copies.append((self._ledger.copy(), set(self._in_ledger)))

    def lose(
        self, rng: random.Random, is_known: Callable[[set[str]], bool], *, is_listed: bool
    ) -> str | None:
        """Lose something, and return what; None if there was nothing to lose, or too much would be.

        Args:
            rng: chooses.
            is_known: returns whether what was sent can be known from these guids and the service.
            is_listed: whether all that was accepted is listed by now.
        """
        lockfile = rng.choice(self._repository.lockfiles)
        losses: dict[str, Callable[[], bool]] = {
            "ledger deleted": lambda: self._delete_ledger(is_known),
            "lockfile deleted": lambda: self._put_lockfile(None, is_known),
            "lockfile older": lambda: self._put_lockfile(lockfile, is_known),
            "both lost": lambda: self._lose_both(lockfile, is_known),
        }
        if is_listed:
            losses["ledger older"] = lambda: self._restore_ledger(rng, is_known)
        if isinstance(self._ledger, LocalLedger) and is_listed:
            losses["state ref deleted"] = lambda: self.delete_ref(is_known)
        kind = rng.choice(tuple(losses))
        return kind if losses[kind]() else None

    def delete_ref(self, is_known: Callable[[set[str]], bool]) -> bool:
        """Delete the ref that machines share, and return whether it was there."""
        if not isinstance(self._ledger, LocalLedger) or not is_known(set()):
            return False
        self._on_ref.clear()
        return self._ledger.delete_ref()

    def _delete_ledger(self, is_known: Callable[[set[str]], bool]) -> bool:
        if not is_known(self._on_ref | read_guids(self._repository.lockfile)):
            return False
        return self._drop_ledger()

    def _drop_ledger(self) -> bool:
        was_there = self._ledger.is_there()
        self._ledger.delete()
        self._in_ledger.clear()
        if self._repository.read_lockfile() is None and not self._on_ref:
            self.is_new = True
            if not self._has_key:
                # With the last of its records a campaign has lost its salt: those from before fit no more.
                self._copies.clear()
                self._repository.forget_older_lockfiles()
        return was_there

    def _restore_ledger(self, rng: random.Random, is_known: Callable[[set[str]], bool]) -> bool:
        if not self._copies:
            return False
        copy, known = rng.choice(self._copies)
        if not is_known(self._on_ref | known | read_guids(self._repository.lockfile)):
            return False
        self._ledger.restore(copy)
        self._in_ledger = set(known)
        return True

    def _put_lockfile(self, content: bytes | None, is_known: Callable[[set[str]], bool]) -> bool:
        if not is_known(self._on_ref | self._in_ledger | parse_guids(content)):
            return False
        return self._repository.put_lockfile(content)

    def _lose_both(self, lockfile: bytes | None, is_known: Callable[[set[str]], bool]) -> bool:
        if not is_known(self._on_ref | parse_guids(lockfile)):
            return False
        is_other = self._repository.put_lockfile(lockfile)
        return self._drop_ledger() or is_other


def can_be_known(
    launches: Iterable[Launch], audience: Audience, kept: set[str], *, is_new: bool, is_literal: bool
) -> bool:
    """Return whether records and service together tell of each launch: nobody could, of others, know anything.

    A launch is found under a tag that its message has, or had by a default name, or is on record with; in
    the first run also by its text.

    Args:
        launches: that were accepted.
        audience: of the campaign.
        kept: the guids on record.
        is_new: whether nothing is on record, and no run has begun since.
        is_literal: whether the service lists texts as they were sent.
    """
    ours = [launch for launch in launches if launch.is_ours]
    tags = audience.list_tags()
    recorded = {(launch.message, launch.tag) for launch in ours if launch.guid.lower() in kept}
    says_same = is_new and not kept and is_literal and not audience.form.corrected
    phones = set(audience.phones)
    return all(
        launch.guid.lower() in kept
        or launch.tag in (tags[launch.message], *audience.form.names[:-1])
        or (launch.message, launch.tag) in recorded
        or (says_same and launch.version == audience.version and phones.issuperset(launch.phones))
        for launch in ours
    )


def read_guids(lockfile: Path) -> set[str]:
    """Return the guids in a lockfile, in lower case."""
    return parse_guids(lockfile.read_bytes() if lockfile.exists() else None)


def parse_guids(content: bytes | None) -> set[str]:
    """Return the guids in a lockfile's content, in lower case."""
    launches: Sequence[dict[str, str]] = json.loads(content)["launches"] if content else []
    return {launch["project_launch_guid"].lower() for launch in launches}
