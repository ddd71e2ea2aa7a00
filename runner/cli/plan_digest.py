"""What a plan is known by: digests of what it rests on, and one digest over them all.

They are printed, saved as artifacts and recorded for good, so nobody must learn a phone from them. With a
`RUNNER_STATE_KEY` they are made with it, and say nothing to who has not got it. Without one there is no
secret: who gets what can then be guessed at, as the people of a lockfile can, so each guess is made dear
instead (scrypt, RFC 7914): of who gets what, where anybody gets anything, and of a campaign file that names
phones. One that names audience files alone holds nothing to guess at. A random salt would not do in the
place of all that: a plan that is made anew on another machine, when nothing was ever sent, must have the same
digest.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from runner.campaign.recipients import InlineRecipient
from runner.errors import PlanChangedError
from runner.ledger.fingerprint import FingerprintKey
from runner.plan.digest import plan_digest
from runner.service.destination import describe_destination

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.cli.planning import PlannedHead

_SIZE = 16
_COST = {"n": 2**13, "r": 8, "p": 1, "dklen": _SIZE}
"""8 MiB and some hundredths of a second a guess."""


@dataclass(frozen=True, slots=True)
class _Seal:
    """Makes digests that don't give away what they are of.

    Attributes:
        secret: the key; None if there is none.
        salt: what the guesses of one record are of no use with for another one.
    """

    secret: FingerprintKey | None
    salt: str

    @classmethod
    def of(cls, item: PlannedHead) -> _Seal:
        if item.target.state_key:
            return cls(FingerprintKey.from_secret(item.target.state_key), "")
        # A salt that nothing was recorded with yet is this machine's alone.
        key = None if item.record.is_empty() else item.record.key
        return cls(None, f"{item.plan.target}\0{(key and key.salt) or ''}")

    def digest(self, text: bytes, *, names_people: bool) -> str:
        if self.secret is not None:
            return self.secret.seal(text)
        if not names_people:
            return hashlib.blake2b(text, digest_size=_SIZE).hexdigest()
        return _digest_dearly(hashlib.blake2b(text, digest_size=32).digest(), self.salt)


@cache
def _digest_dearly(brief: bytes, salt: str) -> str:
    # A run asks for the same one again: for what it prints, what it saves and what it records.
    return hashlib.scrypt(brief, salt=salt.encode(), **_COST).hex()


def name_key(item: PlannedHead) -> str | None:
    """Return the fingerprint of the secret that a plan's digests are made with; None without one."""
    secret = _Seal.of(item).secret
    return None if secret is None else secret.name


def digests(item: PlannedHead) -> dict[str, str]:
    """Return what a plan goes by: digests of the campaign file, of who gets what, and of the record.

    Raises:
        PlanChangedError: the campaign file is gone.
    """
    seal, campaign = _Seal.of(item), item.campaign
    sources = (*campaign.recipients, *campaign.exclude)
    names_people = any(isinstance(source, InlineRecipient) for source in sources)
    return {
        "campaign": seal.digest(_read_file(item), names_people=names_people),
        "deliveries": seal.digest(item.plan.digest.encode(), names_people=item.plan.recipients_to_send > 0),
        "record": item.record.digest,
    }


def _read_file(item: PlannedHead) -> bytes:
    try:
        return item.campaign.file.read_bytes()
    except OSError:
        raise PlanChangedError(
            f"the files of {item.campaign.name} have changed while it was planned",
            hint="run the same command again",
        ) from None


def describe_campaign(item: PlannedHead) -> dict[str, Any]:
    """Return what of a campaign's plan its digest is of, by the names of the JSON."""
    return {
        "name": item.plan.campaign.name,
        "target": item.plan.target,
        "destination": describe_destination(item.target),
        "digests": digests(item),
        "messages": [{"id": one.id, "to_send": one.to_send} for one in item.plan.messages],
    }


def describe_campaigns(planned: Sequence[PlannedHead]) -> list[dict[str, Any]]:
    """Return `describe_campaign` of several plans; what is dear of it is done on all cores at once."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(describe_campaign, planned))


def digest_plans(planned: Sequence[PlannedHead]) -> str:
    """Return the digest of plans."""
    return plan_digest(describe_campaigns(planned))
