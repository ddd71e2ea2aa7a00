"""Comparison of launches that were to be sent with launches that the service lists. Pure.

A listed launch is ours if it says the same to the same people. What only partly fits is never decided here:
it is held for a person.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from runner.source.folding import fold_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from runner.ledger.model import Unsettled
    from runner.service.model import StatRecord

_DEFAULTS: dict[str, Any] = {"method": "SMS", "complete_existing_sessions": False}
_FIELDS = ("text", "introduction", "questions", "conclusion", "method", "complete_existing_sessions")
_QUESTION_FIELDS = ("text", "tag", "responses", "conclude_on", "webhook")
"""What can be sent (wire facts, "Send body"): what the service adds to it is no matter here."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A launch that the service lists and no record claims.

    Attributes:
        stat: as the service lists it.
        recipients: the fingerprints of its phones; none if the service doesn't say whom it has reached.
    """

    stat: StatRecord
    recipients: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the service's list says of one unsettled launch.

    Attributes:
        launch: the launch.
        match: the one listed launch that is it, if there is exactly one.
        doubtful: listed launches that may be it, when none is it for sure.
    """

    launch: Unsettled
    match: Candidate | None = None
    doubtful: tuple[Candidate, ...] = ()

    @property
    def is_absent(self) -> bool:
        """Whether nothing that is listed can be it."""
        return self.match is None and not self.doubtful


def judge_launches(launches: Sequence[Unsettled], candidates: Iterable[Candidate]) -> list[Verdict]:
    """Return for each unsettled launch what a full list of unclaimed launches says of it.

    Two messages can have the same text for the same people. Their launches are interchangeable: as
    many as are listed were sent.
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

    The time it started doesn't matter: clocks differ, and a text that these recipients once got from this
    message is theirs. Its tag does: messages with the same text may differ in nothing else.
    """
    return (
        is_same_tag(candidate.stat.project_tag, launch.tag)
        and bool(candidate.recipients)
        and candidate.recipients == launch.recipients
        and is_same_text(launch, candidate)
    )


def is_same_tag(one: str, other: str) -> bool:
    """Return whether two project tags are one: a service may list them in another case."""
    return one.casefold() == other.casefold()


def _may_be(launch: Unsettled, candidate: Candidate) -> bool:
    """Return whether a listed launch may be an unsettled one, whatever it says and whenever it started.

    Without recipients it may be anybody's: the service doesn't say, or not yet, whom it has reached.
    """
    return is_same_tag(candidate.stat.project_tag, launch.tag) and (
        not candidate.recipients or not candidate.recipients.isdisjoint(launch.recipients)
    )


def is_same_text(launch: Unsettled, candidate: Candidate) -> bool:
    """Return whether a listed launch says what an unsettled one was to say."""
    listed = candidate.stat.project_definition
    if launch.definition is None:
        return launch.definition_digest == digest_definition(listed)
    return is_same_definition(launch.definition, listed)


def digest_definition(definition: dict[str, Any]) -> str:
    """Return a digest of a definition, for places that must not keep its text: equal if it says the same.

    Unlike a payload's digest it can be made of what the service lists, too.
    """
    text = json.dumps(_canonicalize(definition), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"runner def").hexdigest()


def is_same_definition(ours: dict[str, Any], listed: dict[str, Any]) -> bool:
    """Return whether two project definitions say the same.

    Absent, null, `""`, `[]` and a documented default are one; texts compare in NFC, with line ends and outer
    blanks made equal. The tag is compared on its own; fields that a service adds don't count.
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
    """Return those of an item's fields that say something."""
    known = ((name, _normalize(item.get(name))) for name in names)
    return {name: value for name, value in known if value not in (None, "", [])}


def _normalize(value: Any) -> Any:
    if isinstance(value, str):
        # Lines end as one system or the other writes them.
        return unicodedata.normalize("NFC", "\n".join(value.splitlines()).strip())
    return [_normalize(one) for one in value] if isinstance(value, list) else value


def make_candidates(
    stats: Iterable[StatRecord], claimed: set[str], fingerprint: Callable[[str], str]
) -> list[Candidate]:
    """Return the listed launches that no record claims.

    Args:
        stats: as listed.
        claimed: the guids on record, as `fold_guid` writes them.
        fingerprint: of a phone, in the campaign in question.
    """
    return [
        Candidate(stat, frozenset(map(fingerprint, stat.recipients)))
        for stat in stats
        if fold_guid(stat.project_launch_guid) not in claimed
    ]


def parse_moment(text: str) -> datetime | None:
    """Return a moment of the service in UTC, which it writes without a suffix (reference, section 2)."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
