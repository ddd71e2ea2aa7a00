"""Recovery: the service's lists are compared with the record, which is then brought up to date.

A launch of unknown outcome that is listed is adopted. One that is missing from two full lists, a settle
window apart, was not sent and can be sent again. A partial match is held for a person to decide, and so is
one whose people cannot be matched with anybody. No list takes back what the service has answered: a launch
with a guid of its own stays sent.

A run whose machine was lost, or an old commit that is run again, looks like a first run. So before the first
send listed launches that no record has, and that say what is planned, are adopted. The recipients of other
unexplained launches are held until a person decides, and so is whoever may be one of them, written in another
form.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from runner.audience.renumbering import list_forms
from runner.campaign.message_model import is_of_other_wave
from runner.delivery.comparison import (
    Candidate,
    Offered,
    digest_definition,
    is_akin,
    is_tagged,
    judge_launches,
    may_have_tag,
    name_tag,
)
from runner.delivery.launch_list import NO_LAUNCHES, LaunchListing, read_listing
from runner.errors import ServiceError
from runner.ledger.fingerprint import launch_key
from runner.ledger.model import LaunchRecord, Outcome, parse_moment, write_moment
from runner.ledger.people.opt_outs import read_forgotten
from runner.ledger.record.deliveries import record_outcomes
from runner.ledger.record.entry import (
    UnexplainedLaunch,
    add_recipients,
    enter_adopted,
    hold_people,
    list_unexplained,
    read_dismissed,
)
from runner.ledger.record.unsettled import (
    ADOPTED,
    drop_unexplained,
    list_adopted,
    list_claimed,
    list_tags,
    list_unsettled,
    read_claims,
)
from runner.service.model import StatRecord
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from runner.delivery.campaign_ref import ListedCampaign
    from runner.delivery.comparison import Delivery, FindPayloads, Verdict
    from runner.ledger.model import Unsettled
    from runner.ledger.target_key import LedgerConnection


_SOME = 100
ABSENT = "the service did not list it in two full lists"
_LOOKS = 4
"""Readings of the lists before unclear launches are left to the next run."""


@dataclass(frozen=True, slots=True)
class SettleSummary:
    """The findings of settling.

    Attributes:
        adopted: the number of launches that were sent after all.
        released: the ledger's numbers of launches that were not sent, and can be sent again.
        waiting: the number of launches that are missing from the lists, without proof that they weren't sent.
        doubt: the reason why the lists are no proof, in words.
        failure: the error that kept the service from being asked again.
    """

    adopted: int = 0
    released: frozenset[int] = frozenset()
    waiting: int = 0
    doubt: str | None = None
    failure: ServiceError | None = None


@dataclass(frozen=True, slots=True)
class LostLaunches:
    """The findings about launches that no record has.

    Attributes:
        adopted: the number of launches sent by a run without a record.
        unexplained: guids of all launches that hold people of the campaign.
        gap: the reason why the list does not prove that nothing else was sent; None if it does.
        has_changed_record: an earlier plan has to be made anew: people were recorded, held or freed.
        is_surprising: a run was lost that may have sent more than is listed yet.
    """

    adopted: int
    unexplained: tuple[str, ...]
    gap: str | None
    has_changed_record: bool
    is_surprising: bool


class _Known(NamedTuple):
    """The record: guids of launches, as `normalize_guid` writes them, and fingerprints of forgotten people.

    `dismissed` launches were sent by somebody else. Forgotten people are left out of every record.
    """

    claimed: set[str]
    dismissed: set[str]
    forgotten: set[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Comparison of one campaign's record with the service's lists. The caller holds the campaign's lock.

    `window_s` is the settle window in seconds, which keeps people from being texted twice. So `wait` must not
    use a clock that can be set; it returns whether the run was stopped meanwhile. `history_s` is the age up
    to which a launch under another tag may be of a lost run, in seconds.
    """

    campaign: ListedCampaign
    window_s: float
    history_s: float
    wait: Callable[[float], bool]

    def settle(self) -> SettleSummary:
        """Settle every launch of unknown outcome."""
        adopted, released = 0, set[int]()
        # Launches missing from the latest list, and from the latest one that is proof.
        absent: list[Unsettled] = []
        lacked: set[int] = set()
        listing, failure = NO_LAUNCHES, None
        for look in range(_LOOKS):
            try:
                verdicts, listing = self._look()
            except ServiceError as error:
                # The findings so far are on record: the caller has to get them, too.
                failure = error
                break
            adopted += self._adopt(verdicts)
            absent = [verdict.launch for verdict in verdicts if verdict.is_absent]
            if listing.doubt is None:
                gone = [launch for launch in absent if launch.id in lacked]
                self._release(gone)
                released.update(launch.id for launch in gone)
                absent = [launch for launch in absent if launch.id not in lacked]
                lacked = {launch.id for launch in absent}
            # A list without a count is read once more, for late launches: it is never proof.
            is_last = look == _LOOKS - 1 or (look > 0 and listing.uncounted is not None)
            if not absent or is_last or self.wait(self.window_s):
                break
        return SettleSummary(adopted, frozenset(released), len(absent), listing.doubt, failure)

    def judge(self) -> list[Verdict]:
        """Return the verdicts of one full list on each unsettled launch, and change nothing."""
        return self._look()[0]

    def _look(self) -> tuple[list[Verdict], LaunchListing]:
        """Read the lists, and compare the unsettled launches with them."""
        campaign = self.campaign
        with campaign.ledger.reading() as connection:
            launches = list_unsettled(connection, campaign.campaign_id)
        if not launches:
            return [], NO_LAUNCHES
        since = min(launch.intent_at for launch in launches)
        listing = read_listing(self.campaign, {launch.tag for launch in launches}, since)
        verdicts = self._compare(launches, listing)
        if any(verdict.is_absent for verdict in verdicts):
            try:
                listing = read_listing(self.campaign, None, since, listing)
            except ServiceError as error:
                # What the first list shows counts all the same.
                return verdicts, replace(listing, gap=error.message)
            verdicts = self._compare(launches, listing)
        return verdicts, listing

    def _compare(self, launches: Sequence[Unsettled], listing: LaunchListing) -> list[Verdict]:
        campaign, tags = self.campaign, {launch.tag for launch in launches}
        with campaign.ledger.reading() as connection:
            known = self._read_known(connection)
        unsettled = frozenset[str]().union(*(launch.recipients for launch in launches))
        candidates, ours, others = list[Candidate](), list[Candidate](), list[Candidate]()
        for stat in listing.launches:
            if not any(may_have_tag(stat, tag) for tag in tags):
                continue
            one = Candidate(stat, self._name(stat.recipients, known), self.campaign.key)
            # A launch without recipients may be anybody's, but not if all of them are forgotten.
            if (stat.recipients and not one.recipients) or one.guid in known.dismissed:
                continue
            if one.guid not in known.claimed:
                candidates.append(one)
            else:
                (others if unsettled.isdisjoint(one.recipients) else ours).append(one)
        # Of the others on record, a few show how the list writes people.
        recorded = [*ours, *others[:_SOME]]
        guids = [one.stat.project_launch_guid for one in recorded]
        with campaign.ledger.reading() as connection:
            claims = read_claims(connection, campaign.target, guids)
        return judge_launches(launches, [*recorded, *candidates], claims, campaign.campaign_id)

    def _adopt(self, verdicts: Sequence[Verdict]) -> int:
        matches = [(verdict.launch, verdict.match.stat) for verdict in verdicts if verdict.match]
        if matches:
            with self.campaign.ledger.writing() as connection:
                guids = [stat.project_launch_guid for _, stat in matches]
                drop_unexplained(connection, self.campaign.campaign_id, guids)
                now = self.campaign.now()
                started = [write_moment(stat.project_launch_start, now) for _, stat in matches]
                record_outcomes(
                    connection,
                    [
                        Outcome(launch.id, "sent", at, stat.project_launch_guid, ADOPTED)
                        for (launch, stat), at in zip(matches, started, strict=True)
                    ],
                )
        return len(matches)

    def _release(self, launches: Sequence[Unsettled]) -> None:
        if launches:
            with self.campaign.ledger.writing() as connection:
                # A process that has lost the lock would release launches that another run is about to send.
                self.campaign.lock.require_held(connection)
                at = self.campaign.now()
                # The launch's own answer says more than its absence from the list.
                gone = [Outcome(one.id, "not_sent", at, detail=one.detail or ABSENT) for one in launches]
                record_outcomes(connection, gone)

    def find_lost(
        self, find_payloads: FindPayloads, tags: Mapping[str, set[str]], *, is_behind: bool
    ) -> LostLaunches:
        """Adopt unrecorded launches that match the plan, and hold the recipients of unexplained ones.

        `find_payloads` returns the messages that recipients lack (of all for None), to be sent now or later.
        `tags` are the present and former project tags of each message. `is_behind` means that the record is
        new, or lacked launches: a lost run may have had other tags, so launches under all tags count.
        """
        campaign = self.campaign
        own = set[str]().union(*tags.values())
        listing = self._read(own, is_behind=is_behind)
        with campaign.ledger.writing() as connection:
            known = self._read_known(connection)
            explained = known.claimed | known.dismissed
            ever = own.union(*list_tags(connection, campaign.campaign_id).values())
            unclaimed, elsewhere = list[StatRecord](), list[StatRecord]()
            for stat in listing.launches:
                if normalize_guid(stat.project_launch_guid) in explained:
                    continue
                if any(is_tagged(stat, tag) for tag in own):
                    unclaimed.append(stat)
                # Of the others of its time, those that may be the campaign's all the same.
                elif (is_behind or any(may_have_tag(stat, tag) for tag in own)) and self._is_akin(stat, ever):
                    elsewhere.append(stat)
            offered = Offered(find_payloads, [*unclaimed, *elsewhere])
            grown = self._take_in(connection, listing.launches, known)
            drop_unexplained(connection, campaign.campaign_id, explained)
            earlier = list_unexplained(connection, campaign.campaign_id)
            reached, unexplained = self._adopt_offered(connection, unclaimed, offered, tags, known)
            found = [(stat, offered.find_people(stat, reached, tags)) for stat in unexplained]
            found += [(stat, offered.find_people(stat, reached)) for stat in elsewhere]
            occasions = {one[0].project_launch_guid: offered.find_occasion(one[1]) for one in found}
            self._hold(connection, found, earlier, known, occasions)
            kept = list_unexplained(connection, campaign.campaign_id)
        adopted = len(unclaimed) - len(unexplained) + grown
        before, after = _list_held(earlier), _list_held(kept)
        is_partial = not all(stat.is_whole for stat in unclaimed)
        return LostLaunches(
            adopted=adopted,
            unexplained=tuple(one.project_launch_guid for one in kept),
            gap=listing.gap,
            has_changed_record=bool(adopted or before != after),
            is_surprising=bool(adopted or after - before or is_partial or listing.gap),
        )

    def adopt_unexplained(self, message: str, launch: UnexplainedLaunch) -> None:
        """Record a launch as sent: its recipients have got a message.

        The service is asked for them, and for a text that another machine has recorded. If it doesn't list
        them, they are those that it may have reached.
        """
        people, definition = set(launch.held.get(message, launch.people)), launch.definition
        stat = self.campaign.client.read_stat(launch.project_launch_guid)
        if isinstance(stat, StatRecord):
            with self.campaign.ledger.reading() as connection:
                listed = self._name(stat.recipients, self._read_known(connection))
            people = {*listed} if stat.is_whole else people | listed
            definition = definition or stat.project_definition
        digest = digest_definition(definition, self.campaign.key)
        record = self._record(message, digest, launch, people)
        with self.campaign.ledger.writing() as connection:
            enter_adopted(connection, self.campaign.campaign_id, record, definition)

    def _read(self, own: Collection[str], *, is_behind: bool) -> LaunchListing:
        now = self.campaign.now()
        listing = read_listing(self.campaign, own, now)
        if is_behind:
            return read_listing(self.campaign, None, now, listing)
        if listing.gap is not None:
            # What a tag's list lacks may be listed without its tag; if that can't be read, the gap stays.
            with suppress(ServiceError):
                return read_listing(self.campaign, None, now, listing)
        return listing

    def _read_known(self, connection: LedgerConnection) -> _Known:
        campaign = self.campaign
        dismissed = read_dismissed(connection, campaign.campaign_id)
        claimed = list_claimed(connection, campaign.target)
        forgotten = read_forgotten(connection, campaign.campaign_id)
        return _Known(claimed, set(map(normalize_guid, dismissed)), forgotten)

    def _name(self, phones: Iterable[str], known: _Known) -> frozenset[str]:
        """Return the fingerprints of people who are not forgotten."""
        fingerprint, forgotten = self.campaign.key.fingerprint, known.forgotten
        if forgotten:
            phones = [one for one in phones if forgotten.isdisjoint(map(fingerprint, list_forms(one)))]
        return frozenset(map(fingerprint, phones))

    def _is_akin(self, stat: StatRecord, ever: Collection[str]) -> bool:
        """Return whether a launch is of the campaign's time, and not of another of its waves.

        `ever` are all tags that the campaign has or had.
        """
        if is_of_other_wave(str(name_tag(stat)), ever, self.campaign.wave):
            return False
        since = datetime.fromisoformat(self.campaign.now()) - timedelta(seconds=self.history_s)
        moment = parse_moment(stat.project_launch_start)
        return moment is None or moment >= since

    def _take_in(self, connection: LedgerConnection, stats: Iterable[StatRecord], known: _Known) -> int:
        """Add recipients to adopted launches that were listed without them; return the number of launches."""
        campaign = self.campaign
        listed = {normalize_guid(stat.project_launch_guid): stat for stat in stats}
        grown = 0
        for one in list_adopted(connection, campaign.campaign_id):
            stat = listed.get(normalize_guid(one.project_launch_guid))
            if stat is not None and len(stat.recipients) > len(one.people):
                people = self._name(stat.recipients, known) - one.people
                grown += bool(add_recipients(connection, campaign.campaign_id, one, people))
        return grown

    def _adopt_offered(
        self,
        connection: LedgerConnection,
        unclaimed: Iterable[StatRecord],
        offered: Offered,
        tags: Mapping[str, set[str]],
        known: _Known,
    ) -> tuple[set[Delivery], list[StatRecord]]:
        """Record the launches that match the plan; return their deliveries, and the other launches.

        One that may be an unsettled launch, which is listed with other people, is left to a person.
        """
        reached: set[Delivery] = set()
        others = []
        unsettled = list_unsettled(connection, self.campaign.campaign_id)
        for stat in unclaimed:
            key = self.campaign.key
            offer, people = offered.find_message(stat, reached, tags), self._name(stat.recipients, known)
            if offer is None or any(is_akin(launch, Candidate(stat, people, key)) for launch in unsettled):
                others.append(stat)
                continue
            message, launch = offer.message.id, self._describe(stat, {}, offer.occasion)
            reached |= {(message, phone, offer.occasion) for phone in stat.recipients}
            record = self._record(message, key.seal_payload(offer.payload.digest), launch, people, offer.arm)
            enter_adopted(connection, self.campaign.campaign_id, record, stat.project_definition)
        return reached, others

    def _describe(self, stat: StatRecord, held: dict[str, set[str]], occasion: str) -> UnexplainedLaunch:
        """Return a listed launch that holds people, by message."""
        at = write_moment(stat.project_launch_start, self.campaign.now())
        guid, definition = stat.project_launch_guid, stat.project_definition
        occasion = self.campaign.key.name_occasion(occasion)
        return UnexplainedLaunch(guid, stat.project_tag, at, definition, held, stat.is_whole, occasion)

    def _record(
        self,
        message: str,
        digest: str,
        launch: UnexplainedLaunch,
        people: Iterable[str],
        arm: str | None = None,
    ) -> LaunchRecord:
        """Return the record of a listed launch as one of a message to some people."""
        fingerprints = tuple(sorted(people))
        return LaunchRecord(
            message=message,
            occasion=launch.occasion,
            key=launch_key(self.campaign.campaign, message, digest, fingerprints, launch.occasion),
            tag=launch.tag,
            payload_digest=digest,
            project_launch_guid=launch.project_launch_guid,
            sent_at=launch.started_at,
            recipients=fingerprints,
            arm=arm,
        )

    def _hold(
        self,
        connection: LedgerConnection,
        found: Collection[tuple[StatRecord, Mapping[str, set[str]]]],
        earlier: Iterable[UnexplainedLaunch],
        known: _Known,
        occasions: Mapping[str, str],
    ) -> None:
        """Hold the people whom launches have reached, or may have, by message.

        `occasions` are those of the launches, by guid. People of several are held on all of them.
        """
        campaign_id = self.campaign.campaign_id
        # Found anew: a launch listed without its people before has held everybody.
        drop_unexplained(connection, campaign_id, [stat.project_launch_guid for stat, _ in found])
        before = {one.project_launch_guid: one for one in earlier if one.is_whole}
        for stat, people in found:
            guid = stat.project_launch_guid
            named = {message: set(self._name(phones, known)) for message, phones in people.items()}
            held = {message: found for message, found in named.items() if found}
            # A recipient once listed and now missing stays held.
            for message, fingerprints in before[guid].held.items() if guid in before else ():
                held.setdefault(message, set()).update(fingerprints)
            if held:
                hold_people(connection, campaign_id, self._describe(stat, held, occasions[guid]))


def _list_held(launches: Iterable[UnexplainedLaunch]) -> set[tuple[str, str]]:
    """Return the deliveries that launches hold: message and fingerprint."""
    return {
        (message, one) for launch in launches for message, people in launch.held.items() for one in people
    }
