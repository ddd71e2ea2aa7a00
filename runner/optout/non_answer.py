"""Replies that answer nothing: blank ones, reactions of phones, and automatic replies."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Literal

from runner.source.normalize import normalize

NonAnswer = Literal["blank", "reaction", "automatic"]

_INVISIBLE_LETTERS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
"""Letters and signs to Unicode, without ink: fillers of Hangul and Khmer, and the empty braille pattern."""
_OPEN, _CLOSE = "[\"“”„«‟'‘‹]", "[\"“”»‟'’›]"
# What iPhones and Google Messages send as a text where the other side knows no reactions.
_VERBS = (
    "liked|loved|disliked|laughed at|emphasi[sz]ed|questioned"
    "|(?:a|n['’]a pas) (?:aimé|adoré|souligné|ri de|ri à|mis en évidence|posé une question sur)"
    "|s['’]est interrogée?(?:\\(e\\))? sur|a (?:attribué|retiré|ajouté) .{1,40} (?:à|de)"
    "|(?:no )?le (?:gustó|encantó|ha gustado|ha encantado|ha dado risa)|(?:me|se) r[ií]o (?:de|con)"
    "|(?:enfatizó|dudó de|cuestionó|reaccionó [^\\w]+ a)"
    "|(?:mag|liebt|gefällt|hasst|lacht über|betont|hinterfragt)|hat [^\\w]+ auf"
    "|(?:ha messo|ha aggiunto) .{1,30} a|(?:adora|piace|non piace|ha riso (?:di|per)|ha evidenziato)"
    "|(?:não )?(?:gostou|amou|adorou|riu|curtiu|enfatizou|questionou)(?: de| com)?|reagiu [^\\w]+ a"
    "|vond .{1,20} leuk|gillade|älskade|ogillade"
)
_QUOTING = re.compile(
    rf"(?:{_VERBS}|reacted [^\w]+ to|a réagi (?:avec )?[^\w]+ à|removed .{{1,30}} from) ?"
    rf"{_OPEN}(?P<quoted>.+){_CLOSE}",
    re.IGNORECASE | re.DOTALL,
)
# Google Messages: a sign, a short word of any language, and the quotation.
_SIGN = re.compile(rf"(?P<sign>[^\w\s\"“”«»„'‘’]+) ?\w{{1,5}} ?{_OPEN}(?P<quoted>.+){_CLOSE}", re.DOTALL)
_AUTOMATIC = re.compile(
    r"\W*(?:"
    r"(?:this is an )?(?:auto(?:matic|mated)?|out.of.office|vacation|away)\W?"
    r"(?:reply|response|responder|answer|message|notice|text)\s?(?:[^\w\s]|\Z)"
    r"|out of (?:the )?office[:.]|(?:abwesenheitsnotiz|abwesend)[:.]"
    r"|i['’]?a?m (?:currently )?driving (?:with|right now|at the moment|and (?:can['’]?t|cannot|will))"
    r"|i['’]?a?m driving[.!]?\Z"
    r"|i['’]?m (?:not receiving notifications|busy with .{1,20} focus)"
    r"|\(i['’]m not receiving notifications"
    r"|(?:(?:dies ist eine )?automatische (?:antwort|nachricht)|réponse automatique|respuesta automática"
    r"|risposta automatica|resposta automática|automatisch antwoord|automatiskt svar"
    r"|odpowiedź automatyczna|automatyczna odpowiedź|otomatik yanıt)\b"
    r")",
    re.IGNORECASE,
)
"""The beginnings of what phones and mail programs answer by themselves: iOS's Driving Focus among them."""


_SIGNS = frozenset({"So", "Sk", "Mn"})
"""The categories of emoji, their skin colours and their variants."""
_LONG_QUOTATION = 4
"""Words that nobody quotes in just this form but a phone, even if they are of another text."""


@lru_cache(maxsize=4096)
def find_non_answer(text: str, sent: str = "") -> NonAnswer | None:
    """Return why a reply to an open question answers nothing; None for an answer.

    A reply of words or signs is an answer, however short: "ok", "thanks", "?" and a lone emoji are. A short
    quotation is a reaction only if it is of `sent`, what the participant was asked.
    """
    if not text.isascii() or not text.isprintable():
        text = "".join(char for char in text if char.isspace() or not _is_invisible(char))
    said = " ".join(text.split())
    if not any(char.isascii() or unicodedata.category(char)[0] in "LNPS" for char in said):
        return "blank"
    if _is_reaction(said, sent):
        return "reaction"
    return "automatic" if _AUTOMATIC.match(said) else None


def _is_invisible(char: str) -> bool:
    return char in _INVISIBLE_LETTERS or unicodedata.category(char).startswith("C")


def _is_reaction(said: str, sent: str) -> bool:
    if said[-1] not in _CLOSE:
        return False
    found = _QUOTING.fullmatch(said)
    if found is None:
        found = _SIGN.fullmatch(said)
        if found is None or any(unicodedata.category(char) not in _SIGNS for char in found["sign"]):
            return False
    quoted = normalize(found["quoted"])
    return quoted in normalize(sent) or len(quoted.split()) >= _LONG_QUOTATION
