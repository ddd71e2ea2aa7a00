"""The words that people use most in answers of their own: a hint at texts that a report does not show."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from runner.report.answered import WordCount

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LEAST_LENGTH = 3
"""Shorter words say little: of, is, no."""

_FUNCTION_WORDS = """
    about above after again all also although always among and another any anybody anyone anything are
    aren't around because been before being below between both but can can't cannot could couldn't did
    didn't does doesn't doing don't down during each either else even ever every everybody everyone
    everything few for from further had hadn't has hasn't have haven't having he'd he'll he's her here
    hers herself him himself his how however i'd i'll i'm i've into isn't it'd it'll it's its itself just
    let's many may might mine more most much must myself neither nor not now off once one only onto other
    others our ours ourselves out over own per quite rather really same shall she she'd she'll she's
    should shouldn't since some somebody someone something still such than that that's the their theirs
    them themselves then there there's these they they'd they'll they're they've this those though through
    thus too toward towards under until upon very was wasn't we'd we'll we're we've were weren't what
    what's when where whether which while who who's whoever whom whose why will with within without won't
    would wouldn't yet you you'd you'll you're you've your yours yourself yourselves
"""

STOP_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English words that hold sentences together: pronouns, articles, prepositions, conjunctions, auxiliaries and
their contractions. Our own choice, and few: a dull word shown does less harm than a telling one hidden."""


def list_frequent(
    counts: Mapping[str, int],
    limit: int = 20,
    least: int = 5,
    stop_words: Collection[str] = STOP_WORDS,
) -> tuple[WordCount, ...]:
    """Return the most frequent words, the most frequent first, and equally frequent ones by the alphabet.

    Args:
        counts: participants by word, in small letters.
        limit: how many words at most; none for 0.
        least: words of fewer participants are left out: what few people say may name one of them.
        stop_words: words to leave out.
    """
    frequent = ((-count, word) for word, count in counts.items() if count >= least and word not in stop_words)
    return tuple(WordCount(word, -negated) for negated, word in heapq.nsmallest(limit, frequent))
