"""A check, before the first send, for launches that the service lists and no record has.

A run whose machine was lost, or an old commit that is run again, looks like a first run. Listed launches that
match the plan are adopted. The recipients of other unexplained launches are held until a person decides, and
so is whoever may be one of them, written in another form.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from runner.delivery.settle import ListReader, parse_moment, write_moment
from runner.delivery.verdict import is_akin, is_same_definition, is_tagged, make_candidates, may_have_tag
from runner.errors import ServiceError
from runner.ledger.model import LaunchRecord
from runner.ledger.people.opt_outs import find_suppressed
from runner.ledger.record.entry import add_recipients, enter_adopted
from runner.ledger.record.unexplained import UnexplainedLaunch, hold_people, list_unexplained, read_dismissed
from runner.ledger.record.unsettled import drop_unexplained, list_adopted, list_claimed, list_unsettled
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from runner.delivery.campaign_ref import ListedCampaign
    from runner.delivery.settle import LaunchListing
    from runner.ledger.target_key import LedgerConnection
    from runner.plan.model import Offer
    from runner.service.model import StatRecord

    Offers = Mapping[str, list[Offer]]
    FindPayloads = Callable[[Container[str] | None], Offers]


_PREFIX = 4
"""The most digits that a list may put before a number with its country code."""
_SHORTEST = 8
"""The fewest digits of a number with its country code."""


@dataclass(frozen=True, slots=True)
class PreflightSummary:
    """The findings of a preflight.

    Attributes:
        adopted: launches sent by a run without a record.
        held: deliveries newly held because of unexplained launches.
        freed: deliveries that are held no more.
        unexplained: guids of all launches that hold people of the campaign.
        partial: the number of launches listed without all of their recipients, which may be listed later.
        foreign: guids of unexplained launches under the campaign's tags that reached nobody in its audience.
        gap: the reason why the list does not prove that nothing else was sent; None if it does.
    """

    adopted: int = 0
    held: int = 0
    freed: int = 0
    unexplained: tuple[str, ...] = ()
    partial: int = 0
    foreign: tuple[str, ...] = ()
    gap: str | None = None

    @property
    def has_changed_record(self) -> bool:
        """True if an earlier plan has to be made anew."""
        return bool(self.adopted or self.held or self.freed)

    @property
    def is_surprising(self) -> bool:
        """True if a run was lost that may have sent more than is listed yet."""
        return bool(self.adopted or self.held or self.partial or self.gap)


class Preflight:
    """Comparison of the service's launches with one campaign's record. The caller holds its lock.

    `window_s` is the time that a launch may take to be listed, `history_s` the age up to which one under
    another tag may be of a lost run, in seconds.
    """

    def __init__(self, campaign: ListedCampaign, window_s: float, history_s: float) -> None:
        # The phones of forgotten people: they are kept from texts, and out of whatever is recorded.
        self._forgotten: set[str] = set()
        self._campaign = campaign
        self._history = timedelta(seconds=history_s)
        self._lists = ListReader(campaign, window_s)

    def check(
        self, find_payloads: FindPayloads, tags: Mapping[str, set[str]], *, is_behind: bool
    ) -> PreflightSummary:
        """Adopt unrecorded launches that match the plan, and hold the recipients of unexplained ones.

        `find_payloads` returns the messages that recipients lack (of all for None), to be sent now or later.
        `tags` are the present and former project tags of each message. `is_behind` means that the record is
        new, or lacked launches: a lost run may have had other tags, so launches under all tags count.

        Raises:
            ServiceError: the service cannot be asked. Nothing may be sent then.
            LedgerError: the ledger cannot be written.
        """
        campaign = self._campaign
        own = set[str]().union(*tags.values())
        listing = self._read(own, is_behind=is_behind)
        with campaign.ledger.reading() as connection:
            explained = self._list_explained(connection)
        unclaimed, elsewhere = _divide(_leave_out(listing.launches, explained), own)
        elsewhere = self._choose_recent(elsewhere, None if is_behind else own) if elsewhere else []
        partial = sum(not stat.is_whole for stat in unclaimed)
        planned = _Planned(find_payloads, [*unclaimed, *elsewhere])
        with campaign.ledger.writing() as connection:
            phones = {phone for stat in (*unclaimed, *elsewhere) for phone in stat.recipients}
            self._forgotten = find_suppressed(connection, campaign.key, phones | planned.phones, "forgotten")
            grown = self._take_in(connection, listing.launches)
            drop_unexplained(connection, campaign.campaign_id, explained)
            earlier = list_unexplained(connection, campaign.campaign_id)
            reached, unexplained = self._adopt(connection, unclaimed, planned, tags)
            found = [(stat, planned.find_people(stat, reached, tags)) for stat in unexplained]
            found += [(stat, planned.find_people(stat, reached)) for stat in elsewhere]
            self._hold_all(connection, found, earlier)
            kept = list_unexplained(connection, campaign.campaign_id)
        before, after = _list_held(earlier), _list_held(kept)
        return PreflightSummary(
            adopted=len(unclaimed) - len(unexplained) + grown,
            held=len(after - before),
            freed=len(before - after),
            unexplained=tuple(one.project_launch_guid for one in kept),
            partial=partial,
            foreign=tuple(
                stat.project_launch_guid for stat, people in found[: len(unexplained)] if not people
            ),
            gap=listing.gap,
        )

    def _read(self, own: Collection[str], *, is_behind: bool) -> LaunchListing:
        now = self._campaign.now()
        listing = self._lists.read(own, now, trusts_counts=True)
        if is_behind:
            return self._lists.widen(listing, now)
        if listing.gap is not None:
            # What a tag's list lacks may be listed without its tag; if that can't be read, the gap stays.
            with suppress(ServiceError):
                return self._lists.widen(listing, now)
        return listing

    def _list_explained(self, connection: LedgerConnection) -> set[str]:
        """Return the guids on record, and those dismissed, as `normalize_guid` writes them."""
        dismissed = read_dismissed(connection, self._campaign.campaign_id)
        return list_claimed(connection, self._campaign.target) | set(map(normalize_guid, dismissed))

    def _choose_recent(
        self, elsewhere: Iterable[StatRecord], own: Collection[str] | None
    ) -> list[StatRecord]:
        """Return the recent launches under other tags.

        With `own` tags, they are those that may have one of these all the same.
        """
        since = datetime.fromisoformat(self._campaign.now()) - self._history
        return [
            stat
            for stat in elsewhere
            if (own is None or any(may_have_tag(stat, tag) for tag in own))
            and ((moment := parse_moment(stat.project_launch_start)) is None or moment >= since)
        ]

    def _take_in(self, connection: LedgerConnection, stats: Iterable[StatRecord]) -> int:
        """Add recipients to adopted launches that were listed without them; return the number of launches."""
        campaign = self._campaign
        listed = {normalize_guid(stat.project_launch_guid): stat for stat in stats}
        grown = 0
        for one in list_adopted(connection, campaign.campaign_id):
            stat = listed.get(normalize_guid(one.project_launch_guid))
            if stat is not None and len(stat.recipients) > len(one.people):
                people = set(map(campaign.fingerprint, stat.recipients)) - one.people
                grown += bool(add_recipients(connection, campaign.campaign_id, one, people))
        return grown

    def _adopt(
        self,
        connection: LedgerConnection,
        unclaimed: Iterable[StatRecord],
        planned: _Planned,
        tags: Mapping[str, set[str]],
    ) -> tuple[set[tuple[str, str]], list[StatRecord]]:
        """Record the launches that match the plan; return their deliveries, and the other launches.

        One that may be an unsettled launch, which is listed with other people, is left to a person.
        """
        reached: set[tuple[str, str]] = set()
        others = []
        unsettled = list_unsettled(connection, self._campaign.campaign_id)
        for stat in unclaimed:
            found = planned.find_message(stat, reached, tags)
            (candidate,) = make_candidates([stat], self._campaign.fingerprint)
            if found is None or any(is_akin(launch, candidate) for launch in unsettled):
                others.append(stat)
                continue
            reached |= {(found.message.id, phone) for phone in stat.recipients}
            record = self._record(stat, found, self._name_people(stat.recipients))
            enter_adopted(connection, self._campaign.campaign_id, record, stat.project_definition)
        return reached, others

    def _record(self, stat: StatRecord, found: Offer, people: Collection[str]) -> LaunchRecord:
        fingerprints = tuple(sorted(people))
        message, digest = found.message, found.payload.digest
        return LaunchRecord(
            message=message.id,
            key=self._campaign.name_launch(message.id, digest, fingerprints),
            tag=stat.project_tag,
            payload_digest=digest,
            project_launch_guid=stat.project_launch_guid,
            sent_at=write_moment(stat.project_launch_start, self._campaign.now()),
            recipients=fingerprints,
            arm=found.arm,
        )

    def _name_people(self, phones: Iterable[str]) -> set[str]:
        return {self._campaign.fingerprint(phone) for phone in phones if phone not in self._forgotten}

    def _hold_all(
        self,
        connection: LedgerConnection,
        found: Collection[tuple[StatRecord, Mapping[str, set[str]]]],
        earlier: Iterable[UnexplainedLaunch],
    ) -> None:
        # Found anew: a launch listed without its people before has held everybody.
        guids = [stat.project_launch_guid for stat, _ in found]
        drop_unexplained(connection, self._campaign.campaign_id, guids)
        known = {one.project_launch_guid: one for one in earlier}
        for stat, people in found:
            self._hold(connection, stat, people, known.get(stat.project_launch_guid))

    def _hold(
        self,
        connection: LedgerConnection,
        stat: StatRecord,
        people: Mapping[str, set[str]],
        earlier: UnexplainedLaunch | None,
    ) -> None:
        campaign = self._campaign
        named = {message: self._name_people(phones) for message, phones in people.items()}
        held = {message: found for message, found in named.items() if found}
        if earlier is not None and earlier.is_whole:
            # A recipient once listed and now missing stays held.
            for message, fingerprints in earlier.held.items():
                held.setdefault(message, set()).update(fingerprints)
        if not held:
            return
        launch = UnexplainedLaunch(
            stat.project_launch_guid,
            stat.project_tag,
            write_moment(stat.project_launch_start, campaign.now()),
            stat.project_definition,
            held,
            stat.is_whole,
        )
        hold_people(connection, campaign.campaign_id, launch)


def _list_held(launches: Iterable[UnexplainedLaunch]) -> set[tuple[str, str]]:
    """Return the deliveries that launches hold: message and fingerprint."""
    return {
        (message, one) for launch in launches for message, people in launch.held.items() for one in people
    }


def _divide(stats: Iterable[StatRecord], tags: Collection[str]) -> tuple[list[StatRecord], list[StatRecord]]:
    """Return the launches under some tags, and the others."""
    found: tuple[list[StatRecord], list[StatRecord]] = [], []
    for stat in stats:
        found[not any(is_tagged(stat, tag) for tag in tags)].append(stat)
    return found


def _leave_out(stats: Iterable[StatRecord], explained: Collection[str]) -> list[StatRecord]:
    return [stat for stat in stats if normalize_guid(stat.project_launch_guid) not in explained]


class _Listed:
    """The phones of listed launches, and all others that may be meant: those that end alike.

    A service may leave out the country code or all but the last digits, or put a prefix for calls abroad
    before it.
    """

    def __init__(self, phones: Iterable[str]) -> None:
        self._phones = set(phones)
        self._endings = {ending for phone in self._phones for ending in _list_endings(phone)}
        self._lengths = sorted(set(map(len, self._endings)))

    def __contains__(self, phone: object) -> bool:
        return phone in self._phones or bool(self.list_endings(str(phone)))

    def list_endings(self, phone: str) -> list[str]:
        """Return the listed forms of a phone (E.164)."""
        digits = phone.removeprefix("+")
        return [digits[-n:] for n in self._lengths if n <= len(digits) and digits[-n:] in self._endings]


def _list_endings(phone: str) -> Iterator[str]:
    digits = phone.removeprefix("+")
    yield digits.lstrip("0")
    yield from (digits[n:] for n in range(1, _PREFIX + 1) if len(digits) - n >= _SHORTEST)


class _Planned:
    """The messages that recipients of some launches lack, with all people whom these may have reached."""

    def __init__(self, find_payloads: FindPayloads, stats: Collection[StatRecord]) -> None:
        listed = _Listed(phone for stat in stats for phone in stat.recipients)
        hides_people = not all(stat.is_whole for stat in stats)
        self._offers = find_payloads(None if hides_people else listed) if stats else {}
        self._by_ending = defaultdict[str, set[str]](set)
        for phone in self._offers:
            for ending in listed.list_endings(phone):
                self._by_ending[ending].add(phone)

    @property
    def phones(self) -> AbstractSet[str]:
        """The phones of the recipients."""
        return self._offers.keys()

    def _find_possible(self, phone: str) -> set[str]:
        """Return the people whom a listed phone may be: itself, or else those that end alike."""
        if phone in self._offers:
            return {phone}
        return set[str]().union(*(self._by_ending.get(ending, ()) for ending in _list_endings(phone)))

    def find_message(
        self, stat: StatRecord, reached: set[tuple[str, str]], tags: Mapping[str, set[str]]
    ) -> Offer | None:
        """Return the message that a launch was: one that a recipient of it would get now, word for word.

        Two messages can have the same text: each launch stands for one that its recipients lack. A launch
        listed without all of its recipients, or with some in another form, may have reached others, too.
        """
        if not stat.is_whole or any(self._find_possible(phone) - {phone} for phone in stat.recipients):
            return None
        for phone in stat.recipients:
            for offer in self._offers.get(phone, ()):
                is_theirs = any(is_tagged(stat, tag) for tag in tags[offer.message.id])
                is_new = (offer.message.id, phone) not in reached
                if (
                    is_theirs
                    and is_new
                    and is_same_definition(offer.payload.definition, stat.project_definition)
                ):
                    return offer
        return None

    def find_people(
        self,
        stat: StatRecord,
        reached: set[tuple[str, str]],
        tags: Mapping[str, set[str]] | None = None,
    ) -> dict[str, set[str]]:
        """Return the planned people whom a launch has reached, or may have, by message.

        The messages are those with its tag by `tags`; without them, all.
        """
        people = defaultdict(set)
        phones = set[str]().union(*map(self._find_possible, stat.recipients))
        for phone in phones if stat.is_whole else self._offers:
            for offer in self._offers.get(phone, ()):
                message = offer.message.id
                is_theirs = tags is None or any(is_tagged(stat, tag) for tag in tags[message])
                if is_theirs and (message, phone) not in reached:
                    people[message].add(phone)
        return dict(people)
