"""Experiments: each recipient's arm of a message, and the holdout.

Both depend on the seed and the phone alone, so nothing is stored, and adding people moves nobody. Arms are
chosen by weighted rendezvous hashing (D. Thaler, C. Ravishankar, "Using Name-Based Mappings to Increase Hit
Rates", IEEE/ACM Transactions on Networking 6(1), 1998; weights by the logarithmic method of C. Schindelhauer,
G. Schomaker, "Weighted Distributed Hash Tables", SPAA 2005). Each arm draws an exponentially distributed
number at the rate of its weight for each recipient, and the smallest wins: arm `i` with probability `w_i /
Σw`. A growing weight changes only its own arm's draws, so no more people move than the new shares require.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from datetime import date
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.campaign.message_model import Arm, Message
    from runner.campaign.model import Analysis, Variants
    from runner.source.diagnostic import Diagnostic

_WORD_BITS = 64
SHARES = 2**_WORD_BITS
"""The number of possible draws: a share is a bound for draws over this."""
_FRACTION_BITS = 53  # integers below this are exact as floats


class Draw:
    """The draw of arms and holdout for valid `variants`. It keeps only the prepared hashes."""

    __slots__ = ("_arms", "_control_below", "_holdout")

    def __init__(self, variants: Variants) -> None:
        self._holdout = _start_hash(variants.seed, "holdout")
        # A power of two only shifts a float's exponent.
        self._control_below = int(variants.holdout * SHARES)
        self._arms = [
            (arm.id, arm.weight, _start_hash(variants.seed, "arm", arm.id))
            for arm in sorted(variants.arms, key=lambda arm: arm.id)
            if arm.weight > 0
        ]

    def is_in_control_group(self, phone: str) -> bool:
        """Return whether a recipient (E.164) gets nothing; independent of arms, and kept at larger shares."""
        return _read_word(self._holdout, phone.encode()) < self._control_below

    def choose_arm(self, phone: str) -> str | None:
        """Return the arm's id of a recipient (E.164), in the control group or not; None without arms."""
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


def draw_shares(seed: str, purpose: str) -> Callable[[str], int]:
    """Return the function that draws a number from 0 to below `SHARES` for each phone (E.164).

    Who is below a bound stays below a larger one, so growing shares are nested. Draws for different purposes
    are independent, of arms too.
    """
    started = _start_hash(seed, purpose)
    return lambda phone: _read_word(started, phone.encode())


def find_problems(variants: Variants, messages: Sequence[Message]) -> Iterator[Diagnostic]:
    """Yield the problems of an experiment over a campaign's messages."""
    message = next((message for message in messages if message.id == variants.of), None)
    if message is None and variants.of is not None:
        known = ", ".join(message.id for message in messages)
        words = f"`of` names no message: there is no {variants.of!r}"
        yield variants.position.problem("variants-of-unknown", words, f"name one of: {known}")
    if variants.analysis is not None and not _has_day(variants.analysis):
        words = f"`analysis.at` is a day that does not exist: {variants.analysis.at}"
        hint = "write a day of the calendar, as in 2026-12-15"
        yield variants.analysis.position.problem("variants-analysis-day", words, hint)
    yield from _find_arm_problems(variants.arms, message)
    if variants.arms and not any(arm.weight > 0 for arm in variants.arms):
        words = "no arm has a weight above 0: nobody would get the message"
        hint = "give at least one arm `weight: 1`"
        yield variants.arms[0].position.problem("variants-weightless", words, hint)


def _find_arm_problems(arms: Sequence[Arm], message: Message | None) -> Iterator[Diagnostic]:
    count = Counter[str]()
    for arm in arms:
        count[arm.id] += 1
        if count[arm.id] == 2:  # noqa: PLR2004  the second one is the first that is wrong
            words = f"two arms have the id {arm.id!r}"
            hint = "the id is part of the draw: give each arm its own"
            yield arm.position.problem("variants-arm-repeated", words, hint)
        if message is not None and _mixes_kinds(arm, message):
            yield arm.position.problem(
                "variants-arm-kind",
                f"the arm {arm.id!r} would have both a `text` and a survey's keys",
                "a message is a plain text or a survey, and so is each of its arms: make two messages of it",
            )


def _mixes_kinds(arm: Arm, message: Message) -> bool:
    if message.replies == "recorded":
        return not {"questions", "introduction", "conclusion"}.isdisjoint(arm.changes)
    made = arm.apply_to(message)
    return made.text is not None and bool(made.questions or made.introduction or made.conclusion)


def _has_day(analysis: Analysis) -> bool:
    """Return whether an analysis has a day that exists in the calendar."""
    try:
        return analysis.at is None or bool(date.fromisoformat(analysis.at))
    except ValueError:
        return False


def _start_hash(seed: str, *words: str) -> hashlib.blake2b:
    """Return a keyed hash (BLAKE2b, RFC 7693) of all but the phone; copying it is cheap."""
    key = hashlib.blake2b(seed.encode(), digest_size=32, person=b"runner variants").digest()
    started = hashlib.blake2b(key=key, digest_size=_WORD_BITS // 8)
    started.update("".join(f"{word}\0" for word in words).encode())
    return started


def _read_word(started: hashlib.blake2b, phone: bytes) -> int:
    own = started.copy()
    own.update(phone)
    return int.from_bytes(own.digest())
