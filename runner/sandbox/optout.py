"""Command words that carriers have every sender obey, whatever conversation is open.

The words are those of the CTIA Messaging Principles and Best Practices (2023, section 5.1.3) and of Twilio's
advanced opt-out; that `opt out` and any punctuation count too follows 47 CFR 64.1200(a)(10).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runner.sandbox.model import Keyword

if TYPE_CHECKING:
    from runner.sandbox.model import Question

# These mean but one thing; the other words are the answer where the open question itself offers them.
_ALWAYS_OPT_OUT = frozenset({"STOP", "STOPALL", "UNSUBSCRIBE", "OPTOUT"})
_OPT_OUT = _ALWAYS_OPT_OUT | {"CANCEL", "END", "QUIT", "REVOKE"}
_OPT_IN = frozenset({"START", "YES", "UNSTOP"})
_HELP = frozenset({"HELP", "INFO"})
_BETWEEN = re.compile(r"[\s\-–—.,;:!?'\"“”‘’()]+")
_LONGEST = 64  # characters, blanks and punctuation included

NOTICES = {
    Keyword.OPT_OUT: (
        "You have been unsubscribed and will receive no more messages from this number. "
        "Reply START to subscribe again."
    ),
    Keyword.OPT_IN: "You are subscribed again. Reply HELP for help, STOP to unsubscribe.",
    Keyword.HELP: "Reply STOP to unsubscribe. Message and data rates may apply.",
}


def read_keyword(text: str, question: Question | None, *, has_opted_out: bool) -> Keyword | None:
    """Find the command that a text is, if it is one: a single word and nothing else.

    Case, blanks and punctuation do not matter. STOP, STOPALL, UNSUBSCRIBE and OPTOUT always opt out. The
    other words are an answer where the question that waits names them, as a response or in `conclude_on`.

    Args:
        text: what the participant wrote.
        question: what they are being asked, if anything.
        has_opted_out: whether they may not be texted: START and its kin say something to them alone.
    """
    word = _reduce(text) if len(text) <= _LONGEST else ""
    if word in _ALWAYS_OPT_OUT:
        return Keyword.OPT_OUT
    if question is not None and word in map(_reduce, (*question.responses, question.conclude_on or "")):
        return None
    if word in _OPT_OUT:
        return Keyword.OPT_OUT
    if word in _HELP:
        return Keyword.HELP
    return Keyword.OPT_IN if has_opted_out and word in _OPT_IN else None


def _reduce(text: str) -> str:
    return _BETWEEN.sub("", text).upper()
