"""Whether a reply opts out: surely, perhaps, or not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from runner.optout.doubtful import RULES
from runner.source.folding import fold, fold_to_word

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind = Literal["exact", "doubtful", "none"]

# 47 CFR 64.1200(a)(10) names stop, quit, end, revoke, opt out, cancel and unsubscribe; stopall is the
# carriers' (CTIA Messaging Principles and Best Practices, 2023, section 5.1.3, and Twilio's default words).
_ALWAYS = frozenset({"stop", "stopall", "unsubscribe", "optout"})
WORDS = _ALWAYS | {"cancel", "end", "quit", "revoke"}
"""The words that opt out, as `fold_to_word` writes them."""

_LONGEST = 1600
"""Characters that are read: no SMS has more, ten segments of 160 (Twilio's limit, and most gateways')."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says.

    Attributes:
        kind: `exact`: an opt-out word and nothing else, to be obeyed; `doubtful`: a person must decide.
        rule: which rule found a doubtful one.
    """

    kind: Kind
    rule: str | None = None


_NONE = Reading("none")
_EXACT = Reading("exact")


def classify(text: str, *, offered: Iterable[str] = ()) -> Reading:
    """Return whether a reply opts out.

    Case, accents, blanks and punctuation do not matter. `stop`, `stopall`, `unsubscribe` and `opt out` always
    opt out. The other words, and doubtful texts, are an answer where the question itself offers them.

    Args:
        text: what the participant wrote.
        offered: the responses of the question that it answers.
    """
    surely = _read(text[:_LONGEST])
    if surely.kind == "none":
        return surely
    word = fold_to_word(text[:_LONGEST])
    if word not in _ALWAYS and any(fold_to_word(response) == word for response in offered):
        return _NONE
    return surely


@lru_cache(maxsize=1024)
def _read(text: str) -> Reading:
    """Read a text on its own. Most replies repeat one of a few responses, so what they say is remembered."""
    folded = fold(text)
    if folded.replace(" ", "") in WORDS:
        return _EXACT
    rule = next((rule for rule in RULES if rule.pattern.search(folded)), None)
    return Reading("doubtful", rule.name) if rule else _NONE
