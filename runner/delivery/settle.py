"""Settlement of launches of unknown outcome, by the service's lists.

A launch that is listed is adopted. One that is missing from two full lists, a settle window apart, was not
sent and can be sent again. A listed launch is ours if it says the same to the same people; a partial match is
held for a person to decide.
A service may answer 200 with an old or an empty list. So a list is proof only if it has as many different
launches as it claims, and shows the launches that the ledger knows as accepted at about that time.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from runner.errors import ServiceError
from runner.ledger.model import format_moment
from runner.ledger.record.entry import dispute_launches
from runner.ledger.record.unexplained import read_dismissed
from runner.ledger.record.unsettled import (
    adopt_launch,
    count_known,
    drop_unexplained,
    list_claimed,
    list_known,
    list_unsettled,
    read_recipients,
    release_launch,
)
from runner.service.paging import list_launches
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from runner.delivery.campaign_ref import ListedCampaign
    from runner.ledger.model import Unsettled
    from runner.ledger.record.unsettled import KnownLaunch
    from runner.service.model import StatRecord


_DEFAULTS: dict[str, Any] = {"method": "SMS", "complete_existing_sessions": False}
_FIELDS = ("text", "introduction", "questions", "conclusion", "method", "complete_existing_sessions")
_QUESTION_FIELDS = ("text", "tag", "responses", "conclude_on", "webhook")
"""The fields that can be sent; those that the service adds are ignored."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A launch that the service lists and no record claims, with fingerprints of listed recipients."""

    stat: StatRecord
    recipients: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The evidence of a list on one unsettled launch: the one launch that it is, or those that it may be."""

    launch: Unsettled
    match: Candidate | None = None
    doubtful: tuple[Candidate, ...] = ()

    @property
    def is_absent(self) -> bool:
        """True if no listed launch can be this one."""
        return self.match is None and not self.doubtful


def judge_launches(launches: Sequence[Unsettled], candidates: Iterable[Candidate]) -> list[Verdict]:
    """Return a verdict on each unsettled launch, by a full list of unclaimed launches.

    Two messages can have the same text for the same people. Their launches are interchangeable: as many as
    are listed were sent.
    """
    listed = list(candidates)
    exact = {launch.id: [c for c in listed if is_same(launch, c)] for launch in launches}
    fitting = {c.stat.project_launch_guid for found in exact.values() for c in found}
    others = [c for c in listed if c.stat.project_launch_guid not in fitting]
    taken: set[str] = set()
    verdicts = []
    for launch in launches:
        found = exact[launch.id]
        if len(found) > sum(exact[peer.id] == found for peer in launches):
            verdicts.append(Verdict(launch, doubtful=tuple(found)))
            continue
        match = next((c for c in found if c.stat.project_launch_guid not in taken), None)
        if match is not None:
            taken.add(match.stat.project_launch_guid)
            verdicts.append(Verdict(launch, match=match))
        else:
            verdicts.append(Verdict(launch, doubtful=tuple(c for c in others if _may_be(launch, c))))
    return verdicts


def is_same(launch: Unsettled, candidate: Candidate) -> bool:
    """Return whether a listed launch is, for sure, an unsettled one.

    The start doesn't matter: clocks differ, and the same text of this message to these recipients is the same
    launch. The tag matters: messages with the same text may differ in nothing else.
    """
    return (
        is_same_tag(candidate.stat.project_tag, launch.tag)
        and bool(candidate.recipients)
        and candidate.recipients == launch.recipients
        and is_same_text(launch, candidate)
    )


def is_same_tag(one: str, other: str) -> bool:
    """Return whether two project tags are equal: a service may list them in another case."""
    return one.casefold() == other.casefold()


def _may_be(launch: Unsettled, candidate: Candidate) -> bool:
    """Return whether a listed launch may be an unsettled one, at any time and with any text.

    Without listed recipients it may be anybody's: the service doesn't name them, or not yet.
    """
    return is_same_tag(candidate.stat.project_tag, launch.tag) and (
        not candidate.recipients or not candidate.recipients.isdisjoint(launch.recipients)
    )


def is_same_text(launch: Unsettled, candidate: Candidate) -> bool:
    """Return whether a listed launch has the text of an unsettled one."""
    listed = candidate.stat.project_definition
    if launch.definition is None:
        return launch.definition_digest == digest_definition(listed)
    return is_same_definition(launch.definition, listed)


def digest_definition(definition: dict[str, Any]) -> str:
    """Return a digest that is equal for equal definitions, for places that must not keep the text.

    Unlike a payload's digest it can also be made of a listed launch.
    """
    text = json.dumps(_canonicalize(definition), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"runner def").hexdigest()


def is_same_definition(ours: dict[str, Any], listed: dict[str, Any]) -> bool:
    """Return whether two project definitions say the same.

    Absent, null, `""`, `[]` and a documented default are equal; texts compare in NFC, regardless of line ends
    and outer blanks. The tag, and fields that a service adds, are not compared.
    """
    return _canonicalize(ours) == _canonicalize(listed)


def _canonicalize(definition: dict[str, Any]) -> dict[str, Any]:
    known = _normalize_fields(definition, _FIELDS)
    if isinstance(method := known.get("method"), str):
        known["method"] = method.upper()
    if isinstance(questions := known.get("questions"), list):
        known["questions"] = [
            _normalize_fields(one, _QUESTION_FIELDS) if isinstance(one, dict) else one for one in questions
        ]
    return {name: value for name, value in known.items() if value != _DEFAULTS.get(name)}


def _normalize_fields(item: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of an item that are not empty."""
    known = ((name, _normalize(item.get(name))) for name in names)
    return {name: value for name, value in known if value not in (None, "", [])}


def _normalize(value: Any) -> Any:
    if isinstance(value, str):
        # Line ends differ between systems.
        return unicodedata.normalize("NFC", "\n".join(value.splitlines()).strip())
    return [_normalize(one) for one in value] if isinstance(value, list) else value


def make_candidates(
    stats: Iterable[StatRecord], claimed: set[str], fingerprint: Callable[[str], str]
) -> list[Candidate]:
    """Return the listed launches that no record claims, by guids as `normalize_guid` writes them."""
    return [
        Candidate(stat, frozenset(map(fingerprint, stat.recipients)))
        for stat in stats
        if normalize_guid(stat.project_launch_guid) not in claimed
    ]


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
    """All launches that the service lists under some project tags.

    `gap` names known launches that are missing, `uncounted` a tag without a count of launches.
    """

    launches: tuple[StatRecord, ...]
    gap: str | None = None
    uncounted: str | None = None

    @property
    def doubt(self) -> str | None:
        """The reason why the list does not prove that a launch was not sent; None if it does."""
        if self.gap is None and self.uncounted is not None:
            return f"the service does not say how many launches it knows under the tag {self.uncounted!r}"
        return self.gap


class ListReader:
    """Reader of full lists of launches, which it compares with the ledger.

    `window_s` is the time that a launch may take to be listed, in seconds.
    """

    def __init__(self, subject: ListedCampaign, window_s: float) -> None:
        self._subject = subject
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
        # Before the lists: they must have every launch known by then. If only the embedded
        # sandbox's database was removed, the lists may lack some for good.
        known = [] if self._subject.is_embedded else self._list_known(asked, since)
        found: dict[str, StatRecord] = {}
        uncounted = None
        for tag in asked:
            listed = list_launches(self._subject.client, tag)
            theirs = (stat for stat in listed.launches if is_same_tag(stat.project_tag, tag))
            found |= {normalize_guid(stat.project_launch_guid): stat for stat in theirs}
            if not listed.is_counted:
                uncounted = tag
        return LaunchListing(tuple(found.values()), self._find_gap(known, found.keys(), since), uncounted)

    def _list_known(self, tags: Collection[str], since: datetime) -> list[KnownLaunch]:
        with self._subject.ledger.reading() as connection:
            return list_known(connection, self._subject.target, tags, format_moment(since))

    def _is_accounted_for(self, tag: str, since: datetime) -> bool:
        """Return whether a tag's count is evidence enough: its launches are many, old, and on record."""
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
        missing = [one for one in known if normalize_guid(one.project_launch_guid) not in listed]
        # The latest before that time: a service may have forgotten it, and then says so.
        missing = [one for one in missing if one.sent_at >= recent or self._knows(one)]
        if not missing:
            return None
        count = f"{len(missing):,} launches" if len(missing) > 1 else "a launch"
        return f"the service does not list {count} that it is known to have accepted"

    def _knows(self, launch: KnownLaunch) -> bool:
        return self._subject.client.read_stat(launch.project_launch_guid) is not None


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

    def __init__(self, subject: ListedCampaign, *, window_s: float, wait: Callable[[float], bool]) -> None:
        self._subject = subject
        self._window_s = window_s
        self._wait = wait
        self._lists = ListReader(subject, window_s)

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
        verdicts, listing = self._look(disputes=True)
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
                verdicts, listing = self._look(disputes=True)
            except ServiceError as error:
                # The findings so far are on record: the caller has to get them, too.
                failure = error
                break
        held = tuple(verdict for verdict in verdicts if verdict.doubtful)
        return SettleSummary(adopted, frozenset(released), held, len(absent), listing.doubt, failure)

    def judge(self) -> list[Verdict]:
        """Return the verdicts of one full list on each unsettled launch, and change nothing."""
        return self._look()[0]

    def _look(self, *, disputes: bool = False) -> tuple[list[Verdict], LaunchListing]:
        """Read the lists, and compare the unsettled launches with them.

        With `disputes`, take back guids that the service named for one launch and lists for another.
        """
        subject = self._subject
        with subject.ledger.reading() as connection:
            launches = list_unsettled(connection, subject.campaign_id)
            claimed = list_claimed(connection, subject.target)
            claimed |= set(map(normalize_guid, read_dismissed(connection, subject.campaign_id)))
        if not launches:
            return [], LaunchListing(())
        tags = {launch.tag for launch in launches}
        listing = self._lists.read(tags, min(launch.intent_at for launch in launches))
        if disputes and (wrong := self._find_wrong_claims(launches, listing, claimed)):
            with subject.ledger.writing() as connection:
                dispute_launches(connection, subject.campaign_id, wrong)
            return self._look()
        candidates = make_candidates(listing.launches, claimed, subject.fingerprint)
        return judge_launches(launches, candidates), listing

    def _find_wrong_claims(
        self, launches: Sequence[Unsettled], listing: LaunchListing, claimed: Collection[str]
    ) -> list[str]:
        """Return guids on record that the service lists for an unsettled launch.

        The service named a launch by the guid of another one, whose own answer never came.
        """
        subject = self._subject
        others = [stat for stat in listing.launches if normalize_guid(stat.project_launch_guid) in claimed]
        candidates = make_candidates(others, set(), subject.fingerprint)
        same = {
            normalize_guid(one.stat.project_launch_guid): one.recipients
            for one in candidates
            if any(is_same(launch, one) for launch in launches)
        }
        with subject.ledger.reading() as connection:
            recorded = read_recipients(connection, subject.campaign_id, same)
        return [guid for guid, people in recorded.items() if people != same[guid]]

    def _adopt(self, verdicts: Sequence[Verdict]) -> dict[str, str]:
        matches = [(verdict.launch, verdict.match.stat) for verdict in verdicts if verdict.match]
        if matches:
            with self._subject.ledger.writing() as connection:
                guids = [stat.project_launch_guid for _, stat in matches]
                drop_unexplained(connection, self._subject.campaign_id, guids)
                for launch, stat in matches:
                    at = write_moment(stat.project_launch_start, self._subject.now())
                    adopt_launch(connection, launch.id, stat.project_launch_guid, at)
        return {launch.key: stat.project_launch_guid for launch, stat in matches}

    def _release(self, launches: Sequence[Unsettled]) -> None:
        if launches:
            with self._subject.ledger.writing() as connection:
                # A process that has lost the lock would release launches that another run is about to send.
                self._subject.lock.require_held(connection)
                for launch in launches:
                    # The launch's own answer says more than its absence from the list.
                    detail = launch.detail or ABSENT
                    release_launch(connection, launch.id, self._subject.now(), detail)


def write_moment(started: str, otherwise: str) -> str:
    """Return a launch's start as records write it, UTC and ISO 8601; `otherwise` if it cannot be read."""
    moment = parse_moment(started)
    return format_moment(moment) if moment else otherwise
