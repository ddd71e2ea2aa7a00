"""Looks, before the first send, for launches that the service knows and no record does.

A run whose machine was lost, or an old commit that is run again, looks like a first run. The service knows
better. Its launches that say what is planned now are adopted. The people that any other unexplained launch
has reached are
held: what they got, and whether the plan would send it once more, is for a person to say.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from runner.deliver.evidence import ListReader
from runner.deliver.match import digest_definition, is_same_definition, is_same_tag, parse_moment
from runner.deliver.settle import write_moment
from runner.ledger.entry import enter_adopted
from runner.ledger.model import LaunchRecord
from runner.ledger.unexplained import (
    UnexplainedLaunch,
    drop_unexplained,
    hold_people,
    list_unexplained,
    read_dismissed,
)
from runner.ledger.unsettled import list_claimed
from runner.service.listing import list_launches
from runner.source.folding import fold_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from runner.deliver.subject import Subject
    from runner.ledger.target_key import LedgerConnection
    from runner.plan.model import Offer
    from runner.service.model import StatRecord

    Offers = Mapping[str, list[Offer]]


_RECENT = timedelta(days=7)
"""How long after it a launch under another tag may be one of a lost run, whose tag was changed since."""


@dataclass(frozen=True, slots=True)
class PreflightSummary:
    """The findings of a preflight.

    Attributes:
        adopted: launches that were sent by a run that no record tells of.
        held: deliveries that are held since this look, because of launches that no record explains.
        freed: deliveries that are held no more.
        unexplained: guids of all launches that hold people of the campaign.
        partial: how many launches were listed without all of their recipients: these may be listed later.
        foreign: guids of launches under the campaign's tags that nobody here can account for, and that
            reached nobody whom the campaign would text.
        gap: why the list is no proof that nothing else was sent, in words; None if it is one.
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
        """Whether a plan that was made before has to be made anew."""
        return bool(self.adopted or self.held or self.freed)

    @property
    def is_surprising(self) -> bool:
        """Whether a run was lost that may have sent more than is listed yet."""
        return bool(self.adopted or self.held or self.partial or self.gap)


class PayloadFinder(Protocol):
    """A planner that has planned the campaign, and knows what its recipients would get."""

    def find_payloads(self, phones: set[str] | None) -> dict[str, list[Offer]]:
        """Return what some recipients lack, by phone, whether it would be sent now or not; with None, all."""


class Preflight:
    """Compares the service's launches with the record of one campaign. The caller holds its lock.

    Args:
        subject: the campaign.
        window_s: how long a launch may take to be listed, in seconds.
        list_told: returns the guids that lockfiles of other campaigns have, as `fold_guid` writes them: the
            ledger may not know these.
    """

    def __init__(
        self, subject: Subject, window_s: float, list_told: Callable[[], set[str]] = set[str]
    ) -> None:
        self._subject = subject
        self._lists = ListReader(subject, window_s)
        self._list_told = list_told

    def check(
        self, finder: PayloadFinder, tags: Mapping[str, set[str]], *, is_first: bool
    ) -> PreflightSummary:
        """Adopt what the service knows and the record doesn't; hold the people of what remains unexplained.

        Args:
            finder: says what the campaign's recipients would get.
            tags: by message id, the project tags that it has, or may have had.
            is_first: whether nothing is on record of the campaign. It may have had another tag then: the
                same texts are looked for under all tags.

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
        planned = finder.find_payloads(None if hides_people else phones) if phones or hides_people else {}
        with subject.ledger.writing() as connection:
            drop_unexplained(connection, subject.campaign_id, explained)
            earlier = list_unexplained(connection, subject.campaign_id)
            reached, unexplained = self._adopt(connection, unclaimed, planned, tags)
            found = [(stat, _find_people(stat, planned, tags, reached)) for stat in unexplained]
            found += _find_same_texts(elsewhere, planned) if elsewhere else ()
            # Found anew: a launch may have been listed without its people before, and have held everybody.
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
        """Return the guids that are on record, or were dismissed, as `fold_guid` writes them."""
        dismissed = read_dismissed(connection, self._subject.campaign_id)
        return list_claimed(connection, self._subject.target) | set(map(fold_guid, dismissed))

    def _list_elsewhere(self, own: Collection[StatRecord]) -> list[StatRecord]:
        """Return the recent launches under other tags than the campaign's, whose own ones are known.

        Later, the same text to the same people is the next wave of a survey, and not a lost run of this one.
        """
        client = self._subject.client
        if client.count_launches(None) == len(own):
            return []
        guids = {fold_guid(stat.project_launch_guid) for stat in own}
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
        """Enter the launches that fit the plan; return who got what by them, and the other launches."""
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
        fingerprints = tuple(sorted({self._subject.fingerprint(p) for p in stat.recipients}))
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

    def _hold(
        self,
        connection: LedgerConnection,
        stat: StatRecord,
        people: Mapping[str, set[str]],
        earlier: UnexplainedLaunch | None,
    ) -> None:
        subject = self._subject
        held = {message: set(map(subject.fingerprint, phones)) for message, phones in people.items()}
        if earlier is not None and earlier.is_whole:
            # That a list lacks somebody whom it once showed sets nobody free.
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
    return [stat for stat in stats if fold_guid(stat.project_launch_guid) not in explained]


def _find_message(
    stat: StatRecord, planned: Offers, tags: Mapping[str, set[str]], reached: set[tuple[str, str]]
) -> Offer | None:
    """Return the message that a launch was: one that a recipient of it would get now, word for word.

    Two messages can have the same text: each launch stands for one that its recipients lack. Of a launch
    that is listed without all of its recipients nobody can say who else has got it.
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
    """Return whom of the plan a launch has reached, or may have reached, by the messages of its tag."""
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
    """Yield launches under other tags that have a planned text, and whom of the plan each may have reached.

    The people are by message. Of a launch that is listed without all of its recipients they are all who
    would get that text.
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
