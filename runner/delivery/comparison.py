"""Comparison of the launches that the service lists with intents of unknown outcome, and with offers.

A listed launch is ours if it says the same to the same people. A service may change the form of numbers, tags
and texts, and leave out people; what may be meant is not taken for certain, and not passed over either.
"""

from __future__ import annotations

import json
import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from runner.ledger.model import parse_moment
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.model import Unsettled
    from runner.ledger.record.unsettled import Claim
    from runner.plan.model import Offer
    from runner.service.model import StatRecord

    Delivery = tuple[str, str, str]
    """A message, a phone and an occasion."""
    Offers = Mapping[str, list[Offer]]
    FindPayloads = Callable[[Container[str] | None], Offers]


_DEFAULTS: dict[str, Any] = {"method": "SMS", "complete_existing_sessions": False}
_FIELDS = ("text", "introduction", "questions", "conclusion", "method", "complete_existing_sessions")
_QUESTION_FIELDS = ("text", "tag", "responses", "conclude_on", "webhook")
"""The fields that can be sent; those that the service adds are ignored."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A launch that the service lists, with fingerprints of its listed recipients by a target's key."""

    stat: StatRecord
    recipients: frozenset[str]
    key: TargetKey

    @property
    def guid(self) -> str:
        """Its guid, as `normalize_guid` writes it."""
        return normalize_guid(self.stat.project_launch_guid)


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


def judge_launches(
    launches: Sequence[Unsettled],
    candidates: Iterable[Candidate],
    claims: Mapping[str, Claim] = MappingProxyType({}),
    campaign_id: int = 0,
) -> list[Verdict]:
    """Return a verdict on each unsettled launch, by a full list.

    Two messages can have the same text for the same people. Their launches are interchangeable: as many as
    are listed were sent.

    Args:
        launches: all unsettled launches of the campaign.
        candidates: the listed launches, except those of no interest.
        claims: the records that have candidates, by guid as `normalize_guid` writes them.
        campaign_id: of the launches.
    """
    comparison = _Comparison(launches, list(candidates), claims, campaign_id)
    return [comparison.judge(launch) for launch in launches]


class _Comparison:
    """All unsettled launches and all listed ones, by their people."""

    def __init__(
        self,
        launches: Sequence[Unsettled],
        candidates: Sequence[Candidate],
        claims: Mapping[str, Claim],
        campaign_id: int,
    ) -> None:
        self._claims, self._campaign_id = claims, campaign_id
        self._listed = [one for one in candidates if one.guid not in claims]
        self._claimed = [one for one in candidates if one.guid in claims]
        by_people: dict[frozenset[str], list[Candidate]] = {}
        for one in self._listed:
            by_people.setdefault(one.recipients, []).append(one)
        self._exact = {
            launch.id: [c for c in by_people.get(launch.recipients, ()) if is_same(launch, c)]
            for launch in launches
        }
        self._fitting = {c.guid for found in self._exact.values() for c in found}
        self._by_person: dict[str, list[Unsettled]] = {}
        for launch in launches:
            for person in launch.recipients:
                self._by_person.setdefault(person, []).append(launch)
        # A list may leave out sessions: in the same words, a launch may be one to more people.
        self._parts = {
            c.guid
            for c in self._listed
            if any(_is_part(one, c) for one in self._by_person.get(next(iter(c.recipients), ""), ()))
        }
        self._is_odd = any(_is_in_other_form(c, claims[c.guid], campaign_id) for c in self._claimed)
        self._taken: set[str] = set()

    def judge(self, launch: Unsettled) -> Verdict:
        """Return the verdict on one of the launches, each of which is asked for once."""
        found = self._exact[launch.id]
        peers = sum(one == found for one in self._exact.values())
        if len(found) > peers or any(c.guid in self._parts for c in found):
            return Verdict(launch, doubtful=tuple(found))
        match = next((c for c in found if c.guid not in self._taken), None)
        if match is not None:
            self._taken.add(match.guid)
            return Verdict(launch, match=match)
        doubtful = [c for c in self._listed if self._may_be(launch, c)]
        doubtful += [
            c for c in self._claimed if _is_contested(launch, c, self._claims[c.guid], self._campaign_id)
        ]
        return Verdict(launch, doubtful=tuple(doubtful))

    def _may_be(self, launch: Unsettled, candidate: Candidate) -> bool:
        if candidate.guid in self._parts and _is_part(launch, candidate):
            return True
        is_free = candidate.guid not in self._fitting
        return is_free and _may_be(launch, candidate, self._by_person.keys(), is_odd=self._is_odd)


def is_same(launch: Unsettled, candidate: Candidate) -> bool:
    """Return whether a listed launch is, for sure, an unsettled one.

    Without occasions the start doesn't matter: clocks differ, and the same text of this message to these
    recipients is the same launch. On an occasion, one from before it is of an earlier one. The tag matters:
    messages with the same text may differ in nothing else.
    """
    return (
        is_tagged(candidate.stat, launch.tag)
        and candidate.stat.is_whole
        and candidate.recipients == launch.recipients
        and is_same_text(launch, candidate)
        and not (launch.occasion and is_before(candidate.stat, parse_moment(launch.intent_at)))
    )


_CLOCKS_DIFFER = timedelta(minutes=10)


def is_before(stat: StatRecord, moment: datetime | None) -> bool:
    """Return whether a launch may have started before a moment, by clocks that differ a little."""
    start = parse_moment(stat.project_launch_start)
    return moment is not None and (start is None or start < moment - _CLOCKS_DIFFER)


def is_tagged(stat: StatRecord, tag: str) -> bool:
    """Return whether a launch has a project tag: perhaps in another case, or in its definition."""
    named = name_tag(stat)
    return isinstance(named, str) and _fold(named) == _fold(tag)


def name_tag(stat: StatRecord) -> object:
    """Return the project tag of a launch, perhaps of its definition."""
    return stat.project_tag.strip() or stat.project_definition.get("tag")


def may_have_tag(stat: StatRecord, tag: str) -> bool:
    """Return whether a launch may have a project tag: in its definition, too, or if it has none at all."""
    named = (stat.project_tag, stat.project_definition.get("tag"))
    tags = {_fold(one) for one in named if isinstance(one, str) and one.strip()}
    return not tags or _fold(tag) in tags


def _fold(tag: str) -> str:
    return unicodedata.normalize("NFC", tag).strip().casefold()


def is_akin(launch: Unsettled, candidate: Candidate) -> bool:
    """Return whether a listed launch says the same as an unsettled one to some of the same people."""
    return (
        not candidate.recipients.isdisjoint(launch.recipients)
        and is_tagged(candidate.stat, launch.tag)
        and is_same_text(launch, candidate)
    )


def _is_part(launch: Unsettled, candidate: Candidate) -> bool:
    """Return whether a listed launch may be an unsettled one, some of whose people are not listed."""
    return candidate.recipients < launch.recipients and is_akin(launch, candidate)


def _may_be(launch: Unsettled, candidate: Candidate, everybody: AbstractSet[str], *, is_odd: bool) -> bool:
    """Return whether a listed launch may be an unsettled one, at any time and with any text.

    Without listed recipients it may be anybody's: the service doesn't name them, or not yet. If they match
    nobody in doubt (`everybody`), they may be written in another form: so it is with the same text, and where
    the list is known to do so (`is_odd`).
    """
    if not may_have_tag(candidate.stat, launch.tag):
        return False
    if not candidate.recipients or not candidate.recipients.isdisjoint(launch.recipients):
        return True
    return candidate.recipients.isdisjoint(everybody) and (is_odd or is_same_text(launch, candidate))


def _is_in_other_form(candidate: Candidate, claim: Claim, campaign_id: int) -> bool:
    """Return whether a launch of ours is listed with other people, as the list writes them."""
    people = claim.people if claim.campaign_id == campaign_id else frozenset()
    return bool(people and candidate.recipients) and people.isdisjoint(candidate.recipients)


def _is_contested(launch: Unsettled, candidate: Candidate, claim: Claim, campaign_id: int) -> bool:
    """Return whether a listed launch that is on record may be an unsettled one all the same.

    The service may have named another launch so. What was only found in a list may have been listed without
    all of its people.
    """
    if claim.campaign_id == campaign_id:
        is_as_recorded = claim.people == candidate.recipients
    else:
        is_as_recorded = len(claim.people) == len(candidate.recipients)
    if is_as_recorded:
        return False
    return is_same(launch, candidate) or (claim.is_adopted and is_akin(launch, candidate))


def is_same_text(launch: Unsettled, candidate: Candidate) -> bool:
    """Return whether a listed launch has the text of an unsettled one."""
    listed = candidate.stat.project_definition
    if launch.definition is None:
        return launch.definition_digest == digest_definition(listed, candidate.key)
    return is_same_definition(launch.definition, listed)


def digest_definition(definition: dict[str, Any], key: TargetKey) -> str:
    """Return a digest that is equal for equal definitions, for places that must not keep the text.

    Unlike a payload's digest it can also be made of a listed launch. Only the holder of the key can try
    texts on it.
    """
    return key.seal("definition", json.dumps(_canonicalize(definition), sort_keys=True).encode())


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


_COMMON = 8
"""The last digits in which all forms of a number agree: it has no fewer with its country code."""


def _shorten(phone: str) -> str:
    return phone.removeprefix("+").lstrip("0")[-_COMMON:]


class _Endings:
    """All phones that may be meant by listed ones: those that end alike.

    A service may leave out the country code or all but the last digits, or put a prefix for calls abroad
    before it.
    """

    def __init__(self, phones: Iterable[str]) -> None:
        self._endings = set(map(_shorten, phones))
        self._lengths = sorted(set(map(len, self._endings)))

    def __contains__(self, phone: object) -> bool:
        return any(self.iterate(str(phone)))

    def iterate(self, phone: str) -> Iterator[str]:
        """Yield the listed endings of a phone (E.164)."""
        return (phone[-n:] for n in self._lengths if phone[-n:] in self._endings)


class Offered:
    """Offers to the recipients of some listed launches, and to all whom these may have reached."""

    def __init__(self, find_payloads: FindPayloads, stats: Collection[StatRecord]) -> None:
        listed = _Endings(phone for stat in stats for phone in stat.recipients)
        hides_people = not all(stat.is_whole for stat in stats)
        self._offers = find_payloads(None if hides_people else listed) if stats else {}
        self._by_ending = defaultdict[str, set[str]](set)
        for phone in self._offers:
            for ending in listed.iterate(phone):
                self._by_ending[ending].add(phone)

    def _find_possible(self, phone: str) -> set[str]:
        """Return the people whom a listed phone may be: itself, or else those that end alike."""
        return {phone} if phone in self._offers else self._by_ending.get(_shorten(phone), set())

    def find_message(
        self, stat: StatRecord, reached: set[Delivery], tags: Mapping[str, set[str]]
    ) -> Offer | None:
        """Return the message that a launch was: one that a recipient of it would get now, word for word.

        Two messages can have the same text: each launch stands for one that its recipients lack. A launch
        listed without all of its recipients, or with some in another form, may have reached others, too.
        """
        if not stat.is_whole or any(self._find_possible(phone) - {phone} for phone in stat.recipients):
            return None
        for phone in stat.recipients:
            for offer in self._offers.get(phone, ()):
                message, said = offer.message.id, offer.payload.definition
                is_theirs = any(is_tagged(stat, tag) for tag in tags[message])
                is_new = is_theirs and (message, phone, offer.occasion) not in reached
                is_new = is_new and not is_before(stat, offer.earliest)
                if is_new and is_same_definition(said, stat.project_definition):
                    return offer
        return None

    def find_people(
        self, stat: StatRecord, reached: set[Delivery], tags: Mapping[str, set[str]] | None = None
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
                if is_theirs and (message, phone, offer.occasion) not in reached:
                    people[message].add(phone)
        return dict(people)

    def find_occasion(self, people: Mapping[str, Collection[str]]) -> str:
        """Return the one occasion on which people (phones by message) lack messages; empty for several."""
        found = {
            offer.occasion
            for message, phones in people.items()
            for phone in phones
            for offer in self._offers[phone]
            if offer.message.id == message
        }
        return found.pop() if len(found) == 1 else ""
