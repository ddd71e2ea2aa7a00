"""Experiments: which arm of a message a recipient gets, and who gets nothing, for comparison.

Both are functions of the seed and the phone alone, so that nobody has to be remembered: adding people moves
nobody. Arms are chosen by weighted rendezvous hashing (D. Thaler, C. Ravishankar, "Using Name-Based Mappings
to Increase Hit Rates", IEEE/ACM Transactions on Networking 6(1), 1998; weights by the logarithmic method of
C. Schindelhauer, G. Schomaker, "Weighted Distributed Hash Tables", SPAA 2005): each arm draws a number for
each recipient, exponentially distributed with the arm's weight for its rate, and the smallest one wins. The
winner is arm `i` with probability `w_i / Σw`, and a weight that grows changes the draws of its own arm alone:
people move to that arm or stay, and no more of them than the new shares ask for.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from datetime import date
from typing import TYPE_CHECKING

from runner.source.diagnostic import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.campaign.model import Analysis, Arm, Message, Variants
    from runner.campaign.position import Position

_WORD_BITS = 64
_FRACTION_BITS = 53  # what a float holds exactly


class Draw:
    """Assigns recipients. It keeps nothing but the prepared hashes.

    Args:
        variants: has no problems (`find_problems`).
    """

    __slots__ = ("_arms", "_held_out_below", "_holdout")

    def __init__(self, variants: Variants) -> None:
        self._holdout = _start_hash(variants.seed, "holdout")
        # A power of two shifts a float's exponent and rounds nothing.
        self._held_out_below = int(variants.holdout * 2**_WORD_BITS)
        self._arms = [
            (arm, arm.weight, _start_hash(variants.seed, "arm", arm.id))
            for arm in sorted(variants.arms, key=lambda arm: arm.id)
            if arm.weight > 0
        ]

    def is_held_out(self, phone: str) -> bool:
        """Return whether a recipient gets nothing. That is independent of the arms and of their weights.

        Who is held out at a share stays so at every larger one.

        Args:
            phone: E.164.
        """
        return _read_word(self._holdout, phone.encode()) < self._held_out_below

    def choose_arm(self, phone: str) -> Arm | None:
        """Return a recipient's arm, held out or not; None if there are no arms.

        Args:
            phone: E.164.
        """
        written = phone.encode()
        chosen, least = None, math.inf
        for arm, weight, started in self._arms:
            fraction = (
                (_read_word(started, written) >> (_WORD_BITS - _FRACTION_BITS)) + 0.5
            ) / 2**_FRACTION_BITS
            score = -math.log(fraction) / weight
            if score < least:
                chosen, least = arm, score
        return chosen


def find_problems(variants: Variants, messages: Sequence[Message]) -> Iterator[Diagnostic]:
    """Yield what is wrong with an experiment.

    Args:
        variants: the experiment.
        messages: those of its campaign.
    """
    message = next((message for message in messages if message.id == variants.of), None)
    if message is None and variants.of is not None:
        known = ", ".join(message.id for message in messages)
        yield _problem(
            variants.position,
            "variants-of-unknown",
            f"`of` names no message: there is no {variants.of!r}",
            f"name one of: {known}",
        )
    if not 0 <= variants.holdout < 1:
        yield _problem(
            variants.position,
            "variants-holdout",
            f"`holdout` is a share: {variants.holdout:g} is not from 0 to below 1",
            "write 0.05 for one person in twenty",
        )
    if variants.analysis is not None and not _has_day(variants.analysis):
        yield _problem(
            variants.analysis.position,
            "variants-analysis-day",
            f"`analysis.at` is a day that does not exist: {variants.analysis.at}",
            "write a day of the calendar, as in 2026-12-15",
        )
    yield from _find_arm_problems(variants.arms, message)
    if variants.arms and not any(arm.weight > 0 for arm in variants.arms):
        yield _problem(
            variants.arms[0].position,
            "variants-weightless",
            "no arm has a weight above 0: nobody would get the message",
            "give at least one arm `weight: 1`",
        )


def _find_arm_problems(arms: Sequence[Arm], message: Message | None) -> Iterator[Diagnostic]:
    count = Counter[str]()
    for arm in arms:
        count[arm.id] += 1
        if count[arm.id] == 2:  # noqa: PLR2004  the second one is the first that is wrong
            yield _problem(
                arm.position,
                "variants-arm-repeated",
                f"two arms have the id {arm.id!r}",
                "the id is part of the draw: give each arm its own",
            )
        if not (math.isfinite(arm.weight) and arm.weight >= 0):
            yield _problem(
                arm.position,
                "variants-weight",
                f"the weight of the arm {arm.id!r} is {arm.weight:g}: it must be 0 or more",
                "two arms of `weight: 1` get half of the people each",
            )
        if message is not None and _mixes_kinds(arm, message):
            yield _problem(
                arm.position,
                "variants-arm-kind",
                f"the arm {arm.id!r} would have both a `text` and a survey's keys",
                "a message is a plain text or a survey, and so is each of its arms: make two messages of it",
            )


def _mixes_kinds(arm: Arm, message: Message) -> bool:
    if message.replies == "recorded":
        return bool(arm.questions or arm.introduction or arm.conclusion)
    made = arm.apply_to(message)
    return made.text is not None and bool(made.questions or made.introduction or made.conclusion)


def _has_day(analysis: Analysis) -> bool:
    """Tell whether the day of an analysis, if it names one, is one of the calendar."""
    try:
        return analysis.at is None or bool(date.fromisoformat(analysis.at))
    except ValueError:
        return False


def _problem(place: Position, code: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic("error", code, message, place.file, place.line, place.column, hint)


def _start_hash(seed: str, *words: str) -> hashlib.blake2b:
    """Return a keyed hash (BLAKE2b, RFC 7693) that lacks the phone alone: to copy it is cheap."""
    key = hashlib.blake2b(seed.encode(), digest_size=32, person=b"runner variants").digest()
    started = hashlib.blake2b(key=key, digest_size=_WORD_BITS // 8)
    started.update("".join(f"{word}\0" for word in words).encode())
    return started


def _read_word(started: hashlib.blake2b, phone: bytes) -> int:
    own = started.copy()
    own.update(phone)
    return int.from_bytes(own.digest())
