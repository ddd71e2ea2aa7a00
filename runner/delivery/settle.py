"""Settlement of launches of unknown outcome, by the service's lists.

A launch that is listed is adopted. One that is missing from two full lists, a settle window apart, was not
sent and can be sent again. A listed launch is ours if it says the same to the same people; a partial match is
held for a person to decide, and so is one whose people cannot be matched with anybody.
A service may answer 200 with an old or an empty list. So a list is proof only if it has as many different
launches as it claims, and shows the launches that the ledger knows as accepted at about that time. Absence
also takes the list of all tags: a service may list launches without theirs.
No list takes back what the service has answered: a launch with a guid of its own stays sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from runner.delivery.verdict import find_misnamed, is_tagged, judge_launches, make_candidates, may_have_tag
from runner.errors import ServiceError
from runner.ledger.model import format_moment
from runner.ledger.people.forgotten import read_forgotten
from runner.ledger.record.unexplained import read_dismissed
from runner.ledger.record.unsettled import (
    adopt_launch,
    correct_guids,
    count_known,
    drop_unexplained,
    list_claimed,
    list_known,
    list_unsettled,
    read_claims,
    release_launch,
)
from runner.service.paging import list_launches
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from runner.delivery.campaign_ref import ListedCampaign
    from runner.delivery.verdict import Verdict
    from runner.ledger.model import Unsettled
    from runner.ledger.record.unsettled import KnownLaunch
    from runner.service.model import StatRecord


def parse_moment(text: str) -> datetime | None:
    """Return a time of the service in UTC, which it writes without a suffix."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


_ABOUT = timedelta(days=1)
"""The time before the moment in question from which a list has to show known launches."""
MANY_LAUNCHES = 10_000
"""Launches under one tag, all older than the window, from which on a count that agrees is enough."""


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


class ListReader:
    """Reader of full lists of launches, which it compares with the ledger.

    `window_s` is the time that a launch may take to be listed, in seconds.
    """

    def __init__(self, campaign: ListedCampaign, window_s: float) -> None:
        self._campaign = campaign
        self._window = timedelta(seconds=window_s)

    def read(self, tags: Iterable[str], moment: str, *, trusts_counts: bool = False) -> LaunchListing:
        """Return all launches under some tags, each also asked for in lower case, as a service may know it.

        `moment` is the earliest time at which the launch may have been sent (UTC, ISO 8601). With
        `trusts_counts`, tags are skipped if their count is evidence enough.

        Raises:
            ServiceError: the service cannot be asked, or its list keeps changing.
        """
        asked = sorted({form for tag in tags for form in (tag, tag.casefold())})
        since = datetime.fromisoformat(moment) - _ABOUT
        if trusts_counts:
            asked = [tag for tag in asked if not self._is_accounted_for(tag, since)]
        known = self._list_known(asked, since)
        found: dict[str, StatRecord] = {}
        uncounted = None
        for tag in asked:
            listed = list_launches(self._campaign.client, tag)
            theirs = (stat for stat in listed.launches if is_tagged(stat, tag))
            found |= {normalize_guid(stat.project_launch_guid): stat for stat in theirs}
            if not listed.is_counted:
                uncounted = f"the tag {tag!r}"
        return LaunchListing(tuple(found.values()), self._find_gap(known, found.keys(), since), uncounted)

    def widen(self, listing: LaunchListing, moment: str) -> LaunchListing:
        """Return a list with the launches under all other tags, and under none.

        It has to show what is known to have been sent around that time under any tag.

        Raises:
            ServiceError: as for `read`.
        """
        since = datetime.fromisoformat(moment) - _ABOUT
        known = self._list_known(None, since)
        found = {normalize_guid(stat.project_launch_guid): stat for stat in listing.launches}
        uncounted = listing.uncounted
        if self._campaign.client.count_launches(None) != len(found):
            listed = list_launches(self._campaign.client, None)
            # Those that are found under a tag have it, even if they are listed without.
            found = {normalize_guid(stat.project_launch_guid): stat for stat in listed.launches} | found
            uncounted = uncounted if listed.is_counted else "all tags"
        return LaunchListing(tuple(found.values()), self._find_gap(known, found.keys(), since), uncounted)

    def _list_known(self, tags: Collection[str] | None, since: datetime) -> list[KnownLaunch]:
        """Return what a list that is read after this has to show."""
        if self._campaign.is_embedded:
            # If only the embedded sandbox's database was removed, the lists may lack some for good.
            return []
        with self._campaign.ledger.reading() as connection:
            return list_known(connection, self._campaign.target, tags, format_moment(since))

    def _is_accounted_for(self, tag: str, since: datetime) -> bool:
        """Return whether a tag's count is evidence enough: its launches are many, old, and on record."""
        with self._campaign.ledger.reading() as connection:
            count = count_known(connection, self._campaign.target, tag)
            if count < MANY_LAUNCHES:
                return False
            latest = list_known(connection, self._campaign.target, [tag], format_moment(since))
        young = format_moment(datetime.fromisoformat(self._campaign.now()) - self._window)
        if any(one.sent_at >= young for one in latest):
            return False
        return self._campaign.client.count_launches(tag) == count

    def _find_gap(self, known: Iterable[KnownLaunch], listed: Collection[str], since: datetime) -> str | None:
        recent = format_moment(since)
        missing = [one for one in known if normalize_guid(one.project_launch_guid) not in listed]
        # The latest before that time: a service may have forgotten it, and then says so.
        missing = [one for one in missing if one.sent_at >= recent or self._knows(one)]
        if not missing:
            return None
        count = f"{len(missing):,} launches" if len(missing) > 1 else "a launch"
        return f"the service does not list {count} that it is known to have accepted"

    def _knows(self, launch: KnownLaunch) -> bool:
        return self._campaign.client.read_stat(launch.project_launch_guid) is not None


_SOME = 100
ABSENT = "the service did not list it in two full lists"
_LOOKS = 4
"""Readings of the lists before unclear launches are left to the next run."""


@dataclass(frozen=True, slots=True)
class SettleSummary:
    """The findings of settling.

    Attributes:
        adopted: launches that were sent after all: the service's guid by the launch's key.
        released: the keys of launches that were not sent, and can be sent again.
        held: launches that a person has to resolve.
        waiting: launches that are missing from the lists, without proof that they were not sent.
        doubt: the reason why the lists are no proof, in words.
        failure: the error that kept the service from being asked again.
    """

    adopted: dict[str, str] = field(default_factory=dict)
    released: frozenset[str] = frozenset()
    held: tuple[Verdict, ...] = ()
    waiting: int = 0
    doubt: str | None = None
    failure: ServiceError | None = None


class Settler:
    """Settlement of one campaign's launches. The caller holds the campaign's lock.

    `window_s` is the settle window in seconds, which keeps people from being texted twice. So `wait` must not
    use a clock that can be set; it returns whether the run was stopped meanwhile.
    """

    def __init__(self, campaign: ListedCampaign, *, window_s: float, wait: Callable[[float], bool]) -> None:
        self._campaign = campaign
        self._window_s = window_s
        self._wait = wait
        self._lists = ListReader(campaign, window_s)

    def settle(self) -> SettleSummary:
        """Settle every launch of unknown outcome.

        Raises:
            ServiceError: the service cannot be asked; nothing has changed.
            RunLockedError: another run has got the campaign's lock.
            LedgerError: the ledger cannot be written.
        """
        adopted, released = dict[str, str](), set[str]()
        # Launches missing from the latest list that is proof.
        lacked: set[int] = set()
        failure = None
        verdicts, listing = self._look()
        for look in range(_LOOKS):
            adopted |= self._adopt(verdicts)
            absent = [verdict.launch for verdict in verdicts if verdict.is_absent]
            if listing.doubt is None:
                gone = [launch for launch in absent if launch.id in lacked]
                self._release(gone)
                released.update(launch.key for launch in gone)
                absent = [launch for launch in absent if launch.id not in lacked]
                lacked = {launch.id for launch in absent}
            # A list without a count is read once more, for late launches: it is never proof.
            is_last = look == _LOOKS - 1 or (look > 0 and listing.uncounted is not None)
            if not absent or is_last or self._wait(self._window_s):
                break
            try:
                verdicts, listing = self._look()
            except ServiceError as error:
                # The findings so far are on record: the caller has to get them, too.
                failure = error
                break
        held = tuple(verdict for verdict in verdicts if verdict.doubtful)
        return SettleSummary(adopted, frozenset(released), held, len(absent), listing.doubt, failure)

    def judge(self) -> list[Verdict]:
        """Return the verdicts of one full list on each unsettled launch, and change nothing."""
        return self._look()[0]

    def _look(self) -> tuple[list[Verdict], LaunchListing]:
        """Read the lists, and compare the unsettled launches with them."""
        campaign = self._campaign
        with campaign.ledger.reading() as connection:
            launches = list_unsettled(connection, campaign.campaign_id)
        if not launches:
            return [], LaunchListing(())
        since = min(launch.intent_at for launch in launches)
        listing = self._lists.read({launch.tag for launch in launches}, since)
        verdicts = self._compare(launches, listing)
        if any(verdict.is_absent for verdict in verdicts):
            try:
                listing = self._lists.widen(listing, since)
            except ServiceError as error:
                # What the first list shows counts all the same.
                return verdicts, replace(listing, gap=error.message)
            verdicts = self._compare(launches, listing)
        return verdicts, listing

    def _compare(self, launches: Sequence[Unsettled], listing: LaunchListing) -> list[Verdict]:
        campaign = self._campaign
        tags = {launch.tag for launch in launches}
        theirs = [stat for stat in listing.launches if any(may_have_tag(stat, tag) for tag in tags)]
        with campaign.ledger.reading() as connection:
            dismissed = set(map(normalize_guid, read_dismissed(connection, campaign.campaign_id)))
            claimed = list_claimed(connection, campaign.target)
            forgotten = read_forgotten(connection, campaign.campaign_id)
        found = make_candidates(theirs, campaign.fingerprint, forgotten)
        found = [one for one in found if one.guid not in dismissed]
        unsettled = frozenset[str]().union(*(launch.recipients for launch in launches))
        recorded = [one for one in found if one.guid in claimed]
        # Of the others on record, a few show how the list writes people.
        some = islice((one for one in recorded if unsettled.isdisjoint(one.recipients)), _SOME)
        recorded = [*(one for one in recorded if not unsettled.isdisjoint(one.recipients)), *some]
        candidates = [*recorded, *(one for one in found if one.guid not in claimed)]
        guids = [one.stat.project_launch_guid for one in recorded]
        with campaign.ledger.reading() as connection:
            claims = read_claims(connection, campaign.target, guids)
        misnamed = find_misnamed(launches, candidates, claims, campaign.campaign_id)
        if misnamed:
            with campaign.ledger.writing() as connection:
                campaign.lock.require_held(connection)
                correct_guids(connection, campaign.campaign_id, misnamed)
                claims = read_claims(connection, campaign.target, [*guids, *misnamed.values()])
        return judge_launches(launches, candidates, claims, campaign.campaign_id)

    def _adopt(self, verdicts: Sequence[Verdict]) -> dict[str, str]:
        matches = [(verdict.launch, verdict.match.stat) for verdict in verdicts if verdict.match]
        if matches:
            with self._campaign.ledger.writing() as connection:
                guids = [stat.project_launch_guid for _, stat in matches]
                drop_unexplained(connection, self._campaign.campaign_id, guids)
                for launch, stat in matches:
                    at = write_moment(stat.project_launch_start, self._campaign.now())
                    adopt_launch(connection, launch.id, stat.project_launch_guid, at)
        return {launch.key: stat.project_launch_guid for launch, stat in matches}

    def _release(self, launches: Sequence[Unsettled]) -> None:
        if launches:
            with self._campaign.ledger.writing() as connection:
                # A process that has lost the lock would release launches that another run is about to send.
                self._campaign.lock.require_held(connection)
                for launch in launches:
                    # The launch's own answer says more than its absence from the list.
                    detail = launch.detail or ABSENT
                    release_launch(connection, launch.id, self._campaign.now(), detail)


def write_moment(started: str, otherwise: str) -> str:
    """Return a launch's start as records write it, UTC and ISO 8601; `otherwise` if it cannot be read."""
    moment = parse_moment(started)
    return format_moment(moment) if moment else otherwise
