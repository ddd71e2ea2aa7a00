"""Which of the service's launches is ours: pure comparison of what was to be sent with what is listed.

A launch is ours if its definition equals the payload and its recipients are the phones (design:
delivery, step 4). What only partly fits is never decided here: it is held for a person.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from runner.ledger.model import Unsettled
    from runner.service.model import StatRecord

CLOCK_SKEW = timedelta(minutes=5)
"""How far the service's clock may be behind ours."""

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
            verdicts.append(Verdict(launch, doubtful=tuple(c for c in others if _is_near(launch, c))))
    return verdicts


def is_same(launch: Unsettled, candidate: Candidate) -> bool:
    """Return whether a listed launch is, for sure, an unsettled one.

    When it started is not asked: clocks differ, and a text that these recipients once got from this
    message is theirs, whenever that was. Its tag is: messages of the same text may differ in it alone.
    """
    return (
        candidate.stat.project_tag == launch.tag
        and bool(candidate.recipients)
        and candidate.recipients == launch.recipients
        and is_same_text(launch, candidate)
    )


def _is_near(launch: Unsettled, candidate: Candidate) -> bool:
    if candidate.stat.project_tag != launch.tag:
        return False
    # Without sessions the service doesn't say, or not yet, whom a launch has reached: it may be anybody.
    if candidate.recipients and not candidate.recipients & launch.recipients:
        return False
    if is_same_text(launch, candidate):
        return True
    if not candidate.recipients:
        return False
    started = parse_moment(candidate.stat.project_launch_start)
    return started is None or started >= _require_moment(launch.intent_at) - CLOCK_SKEW


def is_same_text(launch: Unsettled, candidate: Candidate) -> bool:
    """Return whether a listed launch says what an unsettled one was to say."""
    listed = candidate.stat.project_definition
    if launch.definition is None:
        return launch.definition_digest == digest_definition(listed)
    return is_same_definition(launch.definition, listed)


def digest_definition(definition: dict[str, Any]) -> str:
    """Return what stands for a definition where its text must not be kept: equal for those that say the same.

    Unlike a payload's digest it can be made of what the service lists, too.
    """
    text = json.dumps(_bare(definition), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"runner def").hexdigest()


def is_same_definition(ours: dict[str, Any], listed: dict[str, Any]) -> bool:
    """Return whether two project definitions say the same.

    The tag is not compared, it stands beside the definition too; a field that is null or has its
    default value may be missing, and the service may have added fields of its own.
    """
    return _bare(ours) == _bare(listed)


def _bare(definition: dict[str, Any]) -> dict[str, Any]:
    known = {name: definition.get(name) for name in _FIELDS}
    if isinstance(questions := known["questions"], list):
        known["questions"] = [_bare_question(question) for question in questions]
    return {
        name: value
        for name, value in known.items()
        if value not in (None, "", []) and value != _DEFAULTS.get(name)
    }


def _bare_question(question: Any) -> Any:
    if not isinstance(question, dict):
        return question
    return {name: value for name in _QUESTION_FIELDS if (value := question.get(name)) is not None}


def make_candidates(
    stats: Iterable[StatRecord], claimed: set[str], fingerprint: Callable[[str], str]
) -> list[Candidate]:
    """Return the listed launches that no record claims.

    Args:
        stats: as listed.
        claimed: the guids on record.
        fingerprint: of a phone, in the campaign in question.
    """
    return [
        Candidate(stat, frozenset(map(fingerprint, stat.recipients)))
        for stat in stats
        if stat.project_launch_guid not in claimed
    ]


def parse_moment(text: str) -> datetime | None:
    """Return a moment of the service in UTC, which it writes without a suffix (reference, section 2)."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _require_moment(text: str) -> datetime:
    moment = parse_moment(text)
    if moment is None:
        raise ValueError(text)
    return moment
