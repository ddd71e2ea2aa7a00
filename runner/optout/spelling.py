"""Replies brought to plain words: one spelling for the many ways in which people and phones write them."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LATIN = {
    "a": "аαᴀ",
    "b": "вβʙ",
    "c": "сᴄ",
    "d": "ԁđᴅ",
    "e": "еεᴇ",
    "h": "нһηʜ",
    "i": "іιıɪ",
    "j": "јᴊ",
    "k": "кκᴋ",
    "l": "łʟӏ",
    "m": "мμᴍ",
    "n": "νɴ",
    "o": "оοøᴏ",
    "p": "рρᴘ",
    "r": "гʀ",
    "s": "ѕꜱ",
    "t": "тτᴛ",
    "u": "υᴜ",
    "x": "хχ",
    "y": "уүʏ",
    "z": "ᴢ",
}
"""Letters that look like a Latin one and are another to Unicode, in lower case: the small form of a capital
look-alike counts, since replies in capitals come here as small letters."""
_LOOK_ALIKES = str.maketrans({other: plain for plain, others in _LATIN.items() for other in others})
# Letters in circles and squares, of which Unicode gives no plain form (its chart "Enclosed Alphanumeric
# Supplement"): two black series of 26.
_ENCLOSED = {start + n: chr(ord("a") + n) for start in (0x1F150, 0x1F170) for n in range(26)}

_SIGN = "🛑"
# What a phone or a mail program quotes: three words or more in quotation marks, or behind a `>`.
_WORDS = r"{0}\s*[^\s{1}]+(?:\s+[^\s{1}]+){{2,}}\s*{2}"
_QUOTED = re.compile(
    "|".join(
        (
            _WORDS.format('["“”„«‟]', '"“”„«»‟', '["“”»‟]'),
            _WORDS.format(r"(?<!\S)['‘‚]", "‘‚", r"['’](?![^\W_])"),
            r"(?<!\S)>\s+\S+(?:[^\S\n]+\S+){2,}",
        )
    )
)
_SPACED = re.compile(r"(?<![^\W_])[^\W\d_](?:[\W_]{1,2}[^\W\d_]){2,}(?![^\W_])")
# French and Italian: the short word before an apostrophe is one of its own.
_ELISION = re.compile(r"(?<![^\W_])([cdjlmnst]|qu|dell|nell|sull|all|un)['’‘ʼ´`](?=[^\W_])")
_APOSTROPHE = re.compile(r"['’‘ʼ´`]")
_NAME = re.compile(r"(?<=[^\W_] )(?=[^\W\d_a-z])[^\W\d_]{3,}")
_CLAUSE_END = re.compile(r"[.!?…;:,()\n–—]+|\s-+\s")
_BETWEEN = re.compile(r"[^\w,]+|_+")
_MARKS = re.compile(r"(?: ,)+ ")
_DRAWN_OUT = re.compile(r"([^\W\d_])\1{2,}")
# Digits for letters, within a word that is otherwise of letters.
_DIGITS = str.maketrans("01345", "oieas")
_WITH_DIGITS = re.compile(r"\b[a-z]+[01345][a-z]+\b")


def spell(text: str) -> str:
    """Return the words of a text in small Latin letters, apart by one blank each, with ` , ` between clauses.

    Letters that only look Latin become so, accents go, and so do letters between blanks (`S T O P`), letters
    that are drawn out (`stoooop`), digits that stand for letters and quotations of three words and more.

    Args:
        text: as somebody wrote it.
    """
    plain = "".join(char for char in text if unicodedata.category(char) != "Cf").translate(_ENCLOSED)
    plain = unicodedata.normalize("NFKD", plain).casefold()
    unquoted = _QUOTED.sub(" , ", plain)
    plain = unquoted if unquoted.strip(" ,") else plain
    plain = _APOSTROPHE.sub("", _ELISION.sub(r"\1 ", plain)).replace(_SIGN, " stop ")
    plain = unicodedata.normalize("NFKD", plain).translate(_LOOK_ALIKES)
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    plain = _SPACED.sub(lambda found: "".join(filter(str.isalpha, found[0])), plain)
    plain = _BETWEEN.sub(" ", _CLAUSE_END.sub(" , ", plain))
    plain = _DRAWN_OUT.sub(r"\1", plain)
    plain = _WITH_DIGITS.sub(lambda found: found[0].translate(_DIGITS), plain)
    return _MARKS.sub(" , ", f" {plain} ").strip(" ,")


def hide_names(text: str) -> str:
    """Return a text with `Somename` for each capitalised word that follows another word."""
    return _NAME.sub(lambda found: "Somename" if found[0][1:].islower() else found[0], text)


def is_slip(word: str, meant: str) -> bool:
    """Return whether a word is another one with a slip of the finger: a single edit.

    Of a short word that is only two letters in each other's place, one that is doubled, or the neighbour on
    the keyboard: other words are too near to it.

    Args:
        word: as it was spelt.
        meant: a word of at least four letters.
    """
    if word == meant or abs(len(word) - len(meant)) > 1:
        return False
    pairs = zip(word, meant, strict=False)
    start = next(
        (place for place, (one, other) in enumerate(pairs) if one != other), min(len(word), len(meant))
    )
    rest, wanted = word[start:], meant[start:]
    if len(word) == len(meant):
        if rest[:2] == wanted[1::-1] and rest[2:] == wanted[2:]:
            return True
        is_near = rest[0] in _NEIGHBOURS.get(wanted[0], "")
        return rest[1:] == wanted[1:] and (is_near or len(meant) >= _LONG)
    if len(word) < len(meant):
        return rest == wanted[1:] and len(meant) >= _MIDDLING
    is_doubled = start > 0 and rest[0] == meant[start - 1]
    return rest[1:] == wanted and (is_doubled or (len(meant) >= _LONG and bool(wanted)))


_MIDDLING, _LONG = 5, 6
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def _find_neighbours() -> dict[str, str]:
    near: dict[str, str] = {}
    for number, row in enumerate(_ROWS):
        for place, letter in enumerate(row):
            above = _ROWS[number - 1][place : place + 2] if number else ""
            below = _ROWS[number + 1][max(place - 1, 0) : place + 1] if number + 1 < len(_ROWS) else ""
            near[letter] = row[max(place - 1, 0) : place] + row[place + 1 : place + 2] + above + below
    return near


_NEIGHBOURS = _find_neighbours()


class SlipIndex:
    """Words that slips of the finger are compared with, found by what is left of each without a letter."""

    def __init__(self, words: Iterable[str]) -> None:
        self._near: dict[str, list[str]] = {}
        for word in sorted(words):
            for part in _leave_out_one(word):
                self._near.setdefault(part, []).append(word)

    def find(self, word: str) -> str | None:
        """Return a word that this one is a slip of; None if there is none."""
        near = (meant for part in _leave_out_one(word) for meant in self._near.get(part, ()))
        return next((meant for meant in near if is_slip(word, meant)), None)


def _leave_out_one(word: str) -> list[str]:
    return [word, *(word[:place] + word[place + 1 :] for place in range(len(word)))]
