"""Kinds of people, by name: what sets them apart from the crowd that answers by default."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from random import Random
from typing import TYPE_CHECKING

from runner.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

WHOLE_MOOD = (0.0, 1.0)
_TOLERANCE = 1e-9  # three thirds, written in decimals, are everybody


@dataclass(frozen=True, slots=True)
class Habits:
    """How often people do what; shares from 0 to 1.

    Attributes:
        response_rate: of all participants, those who reply at all.
        quit_rate: of those who reply, those who stop half-way through a survey.
        invalid_rate: of the replies to multiple choice, those that are preceded by an invalid one.
        typo_rate: of the replies, those with a slip of the finger.
        stop_rate: of those who reply, those who write STOP instead of an answer.
        mood: the range of moods, from 0 (upset) to 1 (glad).
        pace: factor on the time that they take.
    """

    response_rate: float = 0.6
    quit_rate: float = 0.12
    invalid_rate: float = 0.08
    typo_rate: float = 0.0
    stop_rate: float = 0.0
    mood: tuple[float, float] = WHOLE_MOOD
    pace: float = 1.0


@dataclass(frozen=True, slots=True)
class PersonaKind:
    """A kind of people.

    Attributes:
        says: what they are like, in one line.
        habits: theirs, whatever the crowd's are.
    """

    says: str
    habits: Habits


_WILLING = Habits(response_rate=1.0, quit_rate=0.0, invalid_rate=0.0)

# The moods give 9 and 10, 7 and 8, and at most 6 on a scale from 0 to 10: what NPS calls its three kinds.
PERSONAS: Mapping[str, PersonaKind] = {
    "promoter": PersonaKind("glad, answers everything", replace(_WILLING, mood=(0.9, 1.0))),
    "passive": PersonaKind("content, answers everything", replace(_WILLING, mood=(0.66, 0.8))),
    "detractor": PersonaKind("upset, answers everything", replace(_WILLING, mood=(0.0, 0.6))),
    "hurried": PersonaKind(
        "answers within seconds and with typos, often gives up",
        replace(_WILLING, quit_rate=0.5, typo_rate=0.3, pace=0.1),
    ),
    "careful": PersonaKind("takes hours, answers everything", replace(_WILLING, pace=20.0)),
    "muddled": PersonaKind("answers wrongly first", replace(_WILLING, invalid_rate=0.8, typo_rate=0.4)),
    "quitter": PersonaKind("stops half-way", replace(_WILLING, quit_rate=1.0)),
    "leaver": PersonaKind("writes STOP", replace(_WILLING, stop_rate=1.0)),
    "silent": PersonaKind("never replies", replace(_WILLING, response_rate=0.0)),
}
"""Every kind by its name."""


def parse_shares(written: Iterable[str]) -> dict[str, float]:
    """Read shares of all participants, each written as in `promoter=0.3`.

    Returns:
        The share of each kind; whoever is of none of them is one of the crowd.

    Raises:
        SandboxError: one isn't written like that or named twice, there is no such kind, or they add up to
            more than all.
    """
    shares: dict[str, float] = {}
    for each in written:
        name, _, share = each.partition("=")
        if name not in PERSONAS:
            near = get_close_matches(name, PERSONAS, n=1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(PERSONAS)}"
            raise SandboxError(f"there is no persona {name!r}: {meant}")
        if name in shares:
            raise SandboxError(f"the persona {name} is named twice")
        shares[name] = _read_share(each, share)
    if sum(shares.values()) > 1 + _TOLERANCE:
        raise SandboxError(f"the personas add up to {sum(shares.values()):g}; together they are 1 at most")
    return shares


def choose_habits(seed: int, phone: str, crowd: Habits, shares: Mapping[str, float]) -> Habits:
    """Choose what kind of person answers a phone; it depends on nobody else.

    Args:
        seed: what the choice grows from.
        phone: who it is, in E.164.
        crowd: the habits of those who are of no kind.
        shares: of each kind, as `parse_shares` gives them.
    """
    drawn = Random(f"{seed}/{phone}/kind").random()
    for name, share in shares.items():
        if drawn < share:
            return PERSONAS[name].habits
        drawn -= share
    return crowd


def _read_share(written: str, share: str) -> float:
    try:
        number = float(share)
    except ValueError:
        number = -1.0
    # Written so that NaN is refused too.
    if not 0 <= number <= 1:
        raise SandboxError(f"{written!r} is no persona with its share: write it as in promoter=0.3")
    return number
