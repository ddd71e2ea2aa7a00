"""Full lists of the launches that the service knows, and what they prove.

A service may answer 200 with an old or an empty list. So a list is proof only if it has as many different
launches as it claims, and shows the launches that the ledger knows as accepted at about that time. Absence
also takes the list of all tags: a service may list launches without theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from runner.delivery.comparison import is_tagged
from runner.ledger.model import format_moment
from runner.ledger.record.unsettled import list_known
from runner.service.paging import list_launches
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from runner.delivery.campaign_ref import ListedCampaign
    from runner.service.model import StatRecord


_ABOUT = timedelta(days=1)
"""The time before the moment in question from which a list has to show known launches."""


@dataclass(frozen=True, slots=True)
class LaunchListing:
    """All launches that the service lists under some project tags, or under all of them.

    `gap` names known launches that are missing, `uncounted` the list that has no count of its launches.
    """

    launches: tuple[StatRecord, ...]
    gap: str | None = None
    uncounted: str | None = None

    @property
    def doubt(self) -> str | None:
        """The reason why the list does not prove that a launch was not sent; None if it does."""
        if self.gap is None and self.uncounted is not None:
            return f"the service does not say how many launches it knows under {self.uncounted}"
        return self.gap


NO_LAUNCHES = LaunchListing(())


def read_listing(
    campaign: ListedCampaign, tags: Iterable[str] | None, moment: str, before: LaunchListing = NO_LAUNCHES
) -> LaunchListing:
    """Return all launches under some tags (None for all, or none), and those of the list `before`.

    Each tag is also asked for in lower case, as a service may know it. The list has to show what is known
    to have been sent under these tags around the earliest `moment` in question (UTC, ISO 8601).
    """
    asked = None if tags is None else sorted({form for tag in tags for form in (tag, tag.casefold())})
    since = datetime.fromisoformat(moment) - _ABOUT
    known = _list_known(campaign, asked, since)
    found = {normalize_guid(stat.project_launch_guid): stat for stat in before.launches}
    uncounted = before.uncounted
    for tag in [None] if asked is None else asked:
        if tag is None and campaign.client.count_launches(None) == len(found):
            continue
        listed = list_launches(campaign.client, tag)
        theirs = (stat for stat in listed.launches if tag is None or is_tagged(stat, tag))
        # Those that are found under a tag have it, even if they are listed without.
        found = {normalize_guid(stat.project_launch_guid): stat for stat in theirs} | found
        if not listed.is_counted:
            uncounted = "all tags" if tag is None else f"the tag {tag!r}"
    return LaunchListing(tuple(found.values()), _find_gap(campaign, known, found.keys(), since), uncounted)


def _list_known(campaign: ListedCampaign, tags: Collection[str] | None, since: datetime) -> list[Any]:
    """Return what a list that is read after this has to show."""
    if campaign.is_embedded:
        # If only the embedded sandbox's database was removed, the lists may lack some for good.
        return []
    with campaign.ledger.reading() as connection:
        return list_known(connection, campaign.target, tags, format_moment(since))


def _find_gap(
    campaign: ListedCampaign, known: Iterable[Any], listed: Collection[str], since: datetime
) -> str | None:
    recent = format_moment(since)
    missing = [one for one in known if normalize_guid(one.project_launch_guid) not in listed]
    # The latest before that time: a service may have forgotten it, and then says so.
    missing = [
        one
        for one in missing
        if one.sent_at >= recent or campaign.client.read_stat(one.project_launch_guid) is not None
    ]
    if not missing:
        return None
    count = f"{len(missing):,} launches" if len(missing) > 1 else "a launch"
    return f"the service does not list {count} that it is known to have accepted"
