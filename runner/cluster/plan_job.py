"""What a worker needs to know of a campaign to plan a part of it: in the folder, not with the tasks.

The campaign's own phones and texts are in it, so it is a file beside those of the audience. The ledger's
URL and the user's secret are not: workers have them in their environments.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from runner.campaign.include import include_folder
from runner.campaign.template import TextCompiler
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.opt_outs import Suppressions
from runner.ledger.target_key import TargetKey
from runner.plan.track import compile_tracks
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from runner.campaign.model import Campaign
    from runner.cluster.folder import SharedFolder
    from runner.ledger.fingerprint_set import FingerprintSet
    from runner.ledger.suppressions import Pause
    from runner.ledger.unread_replies import UnreadReplies
    from runner.plan.model import PlanOptions
    from runner.plan.track import Track

_KEPT = 4
"""Jobs that a worker has ready: a command's campaigns are planned one after the other."""


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where a key of fingerprints comes from, without the secret.

    Attributes:
        salt: on record; None if the key is the user's secret.
        first_name: of a renamed campaign.
    """

    salt: str | None
    first_name: str | None = None

    @classmethod
    def of(cls, key: FingerprintKey) -> KeySource:
        """Return where a key comes from."""
        return cls(key.salt, key.first_name)

    def open(self, state_key: str | None) -> FingerprintKey:
        """Return the key.

        Args:
            state_key: the user's secret; None if there is none.
        """
        key = (
            FingerprintKey.from_secret(state_key or "")
            if self.salt is None
            else FingerprintKey.from_salt(self.salt)
        )
        return replace(key, first_name=self.first_name)


@dataclass(frozen=True, slots=True)
class TargetSuppressions:
    """Who is not to be texted on a target, without the secret of its fingerprints.

    Attributes:
        salt: on record; None if the key is the user's secret.
        confirmed: those who opted out.
        doubtful: those of whom a person must say whether they did.
    """

    salt: str | None
    confirmed: FingerprintSet
    doubtful: FingerprintSet

    def open(self, target: str, state_key: str | None) -> Suppressions:
        """Return them with their key.

        Args:
            target: the target's name.
            state_key: the user's secret; None if there is none.
        """
        key = (
            TargetKey.from_secret(target, state_key or "")
            if self.salt is None
            else TargetKey.from_salt(target, self.salt)
        )
        return Suppressions(key, self.confirmed, self.doubtful)


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """Where in the ledger the answers about a campaign's people stand.

    Attributes:
        ledger_variable: the environment variable that has the ledger's URL; None if there is no ledger yet.
        key_variable: the one that has the user's secret.
        campaign_id: the ledger's number of the campaign; None if it is not there.
        key: of the campaign's fingerprints; None if nobody was texted or forgotten.
        forgotten: the fingerprints of those who asked to be forgotten.
        has_opt_outs: whether anybody on the target is not to be texted.
        has_open_launches: whether somebody may have an open survey on the target.
        recent_since: from when on deliveries count for the frequency cap, UTC, ISO 8601; None without a cap.
        told_elsewhere: of the cap's time, what lockfiles of other campaigns tell and the ledger doesn't: of
            each its first name, its key, and the fingerprints of those it texted.
        told_sessions: people of whom lockfiles alone tell that they were sent a survey: of each campaign its
            name, its key, and their fingerprints.
        depleted: of messages that others come after, launches some of whose recipients are entered under
            another one.
        suppressed: who is not to be texted, where files of suppressions tell more of it than the ledger.
        pause: a person's word that the campaign is to wait; None if there is none.
        unread: replies on the target that were not read yet; None if there can be none.
    """

    ledger_variable: str | None
    key_variable: str
    campaign_id: int | None = None
    key: KeySource | None = None
    forgotten: frozenset[str] = frozenset()
    has_opt_outs: bool = False
    has_open_launches: bool = False
    recent_since: str | None = None
    told_elsewhere: tuple[tuple[str, KeySource, FingerprintSet], ...] = ()
    told_sessions: tuple[tuple[str, KeySource, FingerprintSet], ...] = ()
    depleted: tuple[int, ...] = ()
    suppressed: TargetSuppressions | None = None
    pause: Pause | None = None
    unread: UnreadReplies | None = None


@dataclass(frozen=True, slots=True)
class PlanJob:
    """A campaign to plan.

    Attributes:
        campaign: the campaign.
        target: the target's name.
        options: what the user asks for, `limit` aside.
        now: the moment for which is planned; None to look at the campaign's files alone.
        included: the files that its texts include, by name.
        partitions: how many there are: a power of two.
        record: where the ledger has its people; None to go by the files alone.
        planned_at: of a saved plan, the moment for which it was made.
    """

    campaign: Campaign
    target: str
    options: PlanOptions
    now: datetime | None
    included: Mapping[str, str | None]
    partitions: int
    record: RecordPlace | None = None
    planned_at: datetime | None = None


@dataclass(slots=True)
class OpenJob:
    """A job, ready to be worked on.

    Attributes:
        job: what is to be planned.
        tracks: its messages, compiled.
        names: the variables that their texts refer to, sorted.
    """

    job: PlanJob
    tracks: list[Track] = field(default_factory=list)
    names: tuple[str, ...] = ()


def store_job(folder: SharedFolder, name: str, job: PlanJob) -> None:
    """Put a job into the folder.

    Args:
        folder: which all workers reach.
        name: of the file.
        job: what is to be planned.
    """
    folder.write(name, pickle.dumps(job))


@lru_cache(maxsize=_KEPT)
def open_job(folder: SharedFolder, name: str) -> OpenJob:
    """Return a job of the folder, ready to be worked on; a worker compiles its texts once."""
    # Whoever can write there could as well give the scheduler functions to call: Dask's own trust.
    job: PlanJob = pickle.loads(folder.read(name))  # noqa: S301
    compiler = TextCompiler(include_folder(job.campaign), job.included)
    only = job.options.only
    tracks = [t for t in compile_tracks(job.campaign, compiler, Problems()) if only in (None, t.message.id)]
    return OpenJob(job, tracks, tuple(sorted(frozenset[str]().union(*(track.names for track in tracks)))))
