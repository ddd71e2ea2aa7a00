"""Lists of the service, and whether what they lack was not sent.

A list that lacks a launch proves something only if it shows what is known: a service may answer 200 with an
old list, or with an empty one. So a list counts as proof if as many different launches are in it as it says
itself, and if it shows the launches that the ledger knows as accepted at about that time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from runner.deliver.match import is_same_tag
from runner.ledger.moment import format_moment
from runner.ledger.unsettled import count_known, list_known
from runner.service.listing import list_launches
from runner.source.folding import fold_guid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from runner.deliver.subject import Subject
    from runner.ledger.unsettled import KnownLaunch
    from runner.service.model import StatRecord

_ABOUT = timedelta(days=1)
"""How long before the moment in question a launch may have been sent that a list has to show."""
MANY_LAUNCHES = 10_000
"""Launches under one tag from which on a count that agrees is enough, if all of them are older than the
window."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All launches that the service lists under some project tags.

    Attributes:
        launches: each once.
        gap: known launches that are missing from it, in words; None if there are none.
        uncounted: a tag of which the service doesn't say how many launches it has; None if there is none.
    """

    launches: tuple[StatRecord, ...]
    gap: str | None = None
    uncounted: str | None = None

    @property
    def doubt(self) -> str | None:
        """The reason why it is no proof that anything was not sent, in words; None if it is one."""
        if self.gap is None and self.uncounted is not None:
            return f"the service does not say how many launches it knows under the tag {self.uncounted!r}"
        return self.gap


class ListReader:
    """Reads full lists of launches, and holds them against the ledger.

    Args:
        subject: the campaign; says where to ask.
        window_s: how long a launch may take to be listed, in seconds.
    """

    def __init__(self, subject: Subject, window_s: float) -> None:
        self._subject = subject
        self._window = timedelta(seconds=window_s)

    def read(self, tags: Iterable[str], moment: str, *, trusts_counts: bool = False) -> Listing:
        """Return all launches under some tags.

        Args:
            tags: the tags; a service may know them in lower case only, so that is asked for, too.
            moment: when what is looked for may have been sent at the earliest; UTC, ISO 8601.
            trusts_counts: leave out tags of which the count agrees, if it says enough.

        Raises:
            ServiceError: the service cannot be asked, or its list doesn't come to rest.
        """
        asked = sorted({form for tag in tags for form in (tag, tag.casefold())})
        since = datetime.fromisoformat(moment) - _ABOUT
        if trusts_counts:
            asked = [tag for tag in asked if not self._is_accounted_for(tag, since)]
        # Before the lists: all that is known by then must be in them. Whoever has removed the embedded
        # sandbox's database, and no other, may lack some for good.
        known = [] if self._subject.is_embedded else self._list_known(asked, since)
        found: dict[str, StatRecord] = {}
        uncounted = None
        for tag in asked:
            listed = list_launches(self._subject.client, tag)
            theirs = (stat for stat in listed.launches if is_same_tag(stat.project_tag, tag))
            found |= {fold_guid(stat.project_launch_guid): stat for stat in theirs}
            if not listed.is_counted:
                uncounted = tag
        return Listing(tuple(found.values()), self._find_gap(known, found.keys(), since), uncounted)

    def _list_known(self, tags: Collection[str], since: datetime) -> list[KnownLaunch]:
        with self._subject.ledger.reading() as connection:
            return list_known(connection, self._subject.target, tags, format_moment(since))

    def _is_accounted_for(self, tag: str, since: datetime) -> bool:
        """Return whether a count says enough of a tag: its launches are many, old, and on record."""
        with self._subject.ledger.reading() as connection:
            count = count_known(connection, self._subject.target, tag)
            if count < MANY_LAUNCHES:
                return False
            latest = list_known(connection, self._subject.target, [tag], format_moment(since))
        young = format_moment(datetime.fromisoformat(self._subject.now()) - self._window)
        if any(one.sent_at >= young for one in latest):
            return False
        return self._subject.client.count_launches(tag) == count

    def _find_gap(self, known: Iterable[KnownLaunch], listed: Collection[str], since: datetime) -> str | None:
        recent = format_moment(since)
        missing = [one for one in known if fold_guid(one.project_launch_guid) not in listed]
        # The latest of those before that time: a service may have forgotten it, and then says so.
        missing = [one for one in missing if one.sent_at >= recent or self._knows(one)]
        if not missing:
            return None
        count = f"{len(missing):,} launches" if len(missing) > 1 else "a launch"
        return f"the service does not list {count} that it is known to have accepted"

    def _knows(self, launch: KnownLaunch) -> bool:
        return self._subject.client.read_stat(launch.project_launch_guid) is not None
