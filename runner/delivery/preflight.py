"""A check, before the first send, for launches that the service lists and no record has.

A run whose machine was lost, or an old commit that is run again, looks like a first run. Listed launches that
match the plan are adopted. The recipients of other unexplained launches are held until a person decides.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from runner.delivery.settle import (
    ListReader,
    digest_definition,
    is_same_definition,
    is_same_tag,
    parse_moment,
    write_moment,
)
from runner.ledger.model import LaunchRecord
from runner.ledger.people.opt_outs import find_suppressed
from runner.ledger.record.entry import enter_adopted
from runner.ledger.record.unexplained import UnexplainedLaunch, hold_people, list_unexplained, read_dismissed
from runner.ledger.record.unsettled import drop_unexplained, list_claimed
from runner.service.paging import list_launches
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from runner.delivery.campaign_ref import ListedCampaign
    from runner.ledger.target_key import LedgerConnection
    from runner.plan.model import Offer
    from runner.service.model import StatRecord

    Offers = Mapping[str, list[Offer]]
    FindPayloads = Callable[[set[str] | None], Offers]


_RECENT = timedelta(days=7)
"""The age up to which a launch under another tag may be one of a lost run, whose tag was changed since."""


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

    `window_s` is the time that a launch may take to be listed, in seconds. `list_told` returns the guids in
    other campaigns' lockfiles, as `normalize_guid` writes them: the ledger may not know these. `state_key` is
    the user's secret, if there is one.
    """

    def __init__(
        self,
        subject: ListedCampaign,
        window_s: float,
        list_told: Callable[[], set[str]] = set[str],
        state_key: str | None = None,
    ) -> None:
        self._state_key = state_key
        # The phones of forgotten people: they are kept from texts, and out of whatever is recorded.
        self._forgotten: set[str] = set()
        self._subject = subject
        self._lists = ListReader(subject, window_s)
        self._list_told = list_told

    def check(
        self, find_payloads: FindPayloads, tags: Mapping[str, set[str]], *, is_first: bool
    ) -> PreflightSummary:
        """Adopt unrecorded launches that match the plan, and hold the recipients of unexplained ones.

        `find_payloads` returns the messages that recipients lack (of all for None), to be sent now or later.
        `tags` are the present and former project tags of each message. `is_first` means that nothing is on
        record of the campaign: it may have had another tag, so the same texts are looked for under all tags.

        Raises:
            ServiceError: the service cannot be asked. Nothing may be sent then.
            LedgerError: the ledger cannot be written.
        """
        subject = self._subject
        own = set[str]().union(*tags.values())
        listing = self._lists.read(own, subject.now(), trusts_counts=True)
        elsewhere = self._list_elsewhere(listing.launches) if is_first else []
        with subject.ledger.reading() as connection:
            explained = self._list_explained(connection)
        late, elsewhere = _divide(_leave_out(elsewhere, explained), own)
        unclaimed = [*_leave_out(listing.launches, explained), *late]
        partial = sum(not stat.is_whole for stat in unclaimed)
        phones = {phone for stat in (*unclaimed, *elsewhere) for phone in stat.recipients}
        hides_people = not all(stat.is_whole for stat in (*unclaimed, *elsewhere))
        planned = find_payloads(None if hides_people else phones) if phones or hides_people else {}
        with subject.ledger.writing() as connection:
            self._forgotten = find_suppressed(
                connection, subject.target, self._state_key, phones | planned.keys(), "forgotten"
            )
            drop_unexplained(connection, subject.campaign_id, explained)
            earlier = list_unexplained(connection, subject.campaign_id)
            reached, unexplained = self._adopt(connection, unclaimed, planned, tags)
            found = [(stat, _find_people(stat, planned, tags, reached)) for stat in unexplained]
            found += _find_same_texts(elsewhere, planned) if elsewhere else ()
            # Found anew: a launch listed without its people before has held everybody.
            drop_unexplained(connection, subject.campaign_id, [one.project_launch_guid for one, _ in found])
            known = {one.project_launch_guid: one for one in earlier}
            for stat, people in found:
                self._hold(connection, stat, people, known.get(stat.project_launch_guid))
            kept = list_unexplained(connection, subject.campaign_id)
        before, after = _list_held(earlier), _list_held(kept)
        return PreflightSummary(
            adopted=len(unclaimed) - len(unexplained),
            held=len(after - before),
            freed=len(before - after),
            unexplained=tuple(one.project_launch_guid for one in kept),
            partial=partial,
            foreign=tuple(stat.project_launch_guid for stat, people in found if not people),
            gap=listing.gap,
        )

    def _list_explained(self, connection: LedgerConnection) -> set[str]:
        """Return the guids on record, and those dismissed, as `normalize_guid` writes them."""
        dismissed = read_dismissed(connection, self._subject.campaign_id)
        return list_claimed(connection, self._subject.target) | set(map(normalize_guid, dismissed))

    def _list_elsewhere(self, own: Collection[StatRecord]) -> list[StatRecord]:
        """Return the recent launches under tags other than the campaign's.

        An older one with the same text to the same people is the last wave of a survey, not a lost run of
        this one.
        """
        client = self._subject.client
        if client.count_launches(None) == len(own):
            return []
        guids = {normalize_guid(stat.project_launch_guid) for stat in own}
        since = datetime.fromisoformat(self._subject.now()) - _RECENT
        started = [
            (stat, parse_moment(stat.project_launch_start))
            for stat in _leave_out(list_launches(client, None).launches, guids | self._list_told())
        ]
        return [stat for stat, moment in started if moment is None or moment >= since]

    def _adopt(
        self,
        connection: LedgerConnection,
        unclaimed: Iterable[StatRecord],
        planned: Offers,
        tags: Mapping[str, set[str]],
    ) -> tuple[set[tuple[str, str]], list[StatRecord]]:
        """Record the launches that match the plan; return their deliveries, and the other launches."""
        reached: set[tuple[str, str]] = set()
        others = []
        for stat in unclaimed:
            found = _find_message(stat, planned, tags, reached)
            if found is None:
                others.append(stat)
                continue
            reached |= {(found.message.id, phone) for phone in stat.recipients}
            record = self._record(stat, found)
            enter_adopted(connection, self._subject.campaign_id, record, stat.project_definition)
        return reached, others

    def _record(self, stat: StatRecord, found: Offer) -> LaunchRecord:
        fingerprints = tuple(sorted(self._name_people(stat.recipients)))
        message, digest = found.message, found.payload.digest
        return LaunchRecord(
            message=message.id,
            key=self._subject.name_launch(message.id, digest, fingerprints),
            tag=stat.project_tag,
            payload_digest=digest,
            project_launch_guid=stat.project_launch_guid,
            sent_at=write_moment(stat.project_launch_start, self._subject.now()),
            recipients=fingerprints,
            arm=found.arm,
        )

    def _name_people(self, phones: Iterable[str]) -> set[str]:
        return {self._subject.fingerprint(phone) for phone in phones if phone not in self._forgotten}

    def _hold(
        self,
        connection: LedgerConnection,
        stat: StatRecord,
        people: Mapping[str, set[str]],
        earlier: UnexplainedLaunch | None,
    ) -> None:
        subject = self._subject
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
            write_moment(stat.project_launch_start, subject.now()),
            stat.project_definition,
            held,
            stat.is_whole,
        )
        hold_people(connection, subject.campaign_id, launch)


def _list_held(launches: Iterable[UnexplainedLaunch]) -> set[tuple[str, str]]:
    """Return the deliveries that launches hold: message and fingerprint."""
    return {
        (message, one) for launch in launches for message, people in launch.held.items() for one in people
    }


def _divide(stats: Iterable[StatRecord], tags: Collection[str]) -> tuple[list[StatRecord], list[StatRecord]]:
    """Return the launches under some tags, and the others."""
    found: tuple[list[StatRecord], list[StatRecord]] = [], []
    for stat in stats:
        found[not any(is_same_tag(stat.project_tag, tag) for tag in tags)].append(stat)
    return found


def _leave_out(stats: Iterable[StatRecord], explained: Collection[str]) -> list[StatRecord]:
    return [stat for stat in stats if normalize_guid(stat.project_launch_guid) not in explained]


def _find_message(
    stat: StatRecord, planned: Offers, tags: Mapping[str, set[str]], reached: set[tuple[str, str]]
) -> Offer | None:
    """Return the message that a launch was: one that a recipient of it would get now, word for word.

    Two messages can have the same text: each launch stands for one that its recipients lack. A launch listed
    without all of its recipients may have reached others, too.
    """
    if not stat.is_whole:
        return None
    for phone in stat.recipients:
        for offer in planned.get(phone, ()):
            is_theirs = any(is_same_tag(stat.project_tag, tag) for tag in tags[offer.message.id])
            is_new = (offer.message.id, phone) not in reached
            if is_theirs and is_new and is_same_definition(offer.payload.definition, stat.project_definition):
                return offer
    return None


def _find_people(
    stat: StatRecord, planned: Offers, tags: Mapping[str, set[str]], reached: set[tuple[str, str]]
) -> dict[str, set[str]]:
    """Return the planned people whom a launch has reached, or may have, by the messages of its tag."""
    people = defaultdict(set)
    for phone in stat.recipients if stat.is_whole else planned:
        for offer in planned.get(phone, ()):
            is_theirs = any(is_same_tag(stat.project_tag, tag) for tag in tags[offer.message.id])
            if is_theirs and (offer.message.id, phone) not in reached:
                people[offer.message.id].add(phone)
    return dict(people)


def _find_same_texts(
    stats: Iterable[StatRecord], planned: Offers
) -> Iterator[tuple[StatRecord, dict[str, set[str]]]]:
    """Yield launches under other tags that have a planned text, with the planned people of each.

    The people are those that it may have reached, by message: all who would get that text, if not all
    recipients are listed.
    """
    digests: dict[str, str] = {}
    texts: dict[str, dict[str, set[str]]] = {}
    for phone, offers in planned.items():
        for offer in offers:
            payload = offer.payload
            if payload.digest not in digests:
                digests[payload.digest] = digest_definition(payload.definition)
            people = texts.setdefault(digests[payload.digest], {})
            people.setdefault(offer.message.id, set()).add(phone)
    for stat in stats:
        same = texts.get(digest_definition(stat.project_definition), {})
        if stat.is_whole:
            same = {
                message: reached for message, all_ in same.items() if (reached := all_ & set(stat.recipients))
            }
        if same:
            yield stat, same
