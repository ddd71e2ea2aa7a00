"""What to write in the place of characters that GSM-7 lacks, and what it costs not to.

One character outside GSM 03.38 turns a whole text into UCS-2, whose segments hold 70 units and not 160. Most
of them come from word processors and have a plain neighbour that says the same; what has none stays, as no
advice is better than one that changes what is said. In this order, the first that GSM-7 can hold:

- a table: quotation marks, dashes and their like by their names in the Unicode Standard; letters that do not
  decompose, as the transliteration Latin-ASCII of the Unicode CLDR writes them; capital Greek letters that
  look like Latin ones by these (as 3GPP TS 23.038, 6.2.1 does); currencies by their ISO 4217 codes;
- nothing at all: invisible characters, accents that combine, and pictures beside words;
- compatibility decomposition without accents (NFKD: Unicode Standard Annex 15): accented, full-width and
  styled letters, ligatures, all kinds of blanks; fractions, powers and circled figures so that their digits
  do not run into others.

Letters of other scripts have no neighbour there, and neither has a sign that is struck through, as in ≯.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from runner.campaign.segment import count_segments

if TYPE_CHECKING:
    from collections.abc import Sequence

_GROUPS = {
    "'": "‘’‚‛‹›′‵`´ʹʻʼʽˈˊˋ❛❜＇｀",
    '"': "“”„‟«»″‶ʺˮ❝❞〝〞〟＂",
    "-": "‐‑‒–—―−⁃•‣◦·∙▪●‧",
    "/": "⁄∕÷",
    "\\": "∖",
    "~": "∼˜≈",
    "|": "¦∣│❘",
    "*": "∗★✱",
    "x": "×✕✖",
    "<": "〈⟨",
    ">": "〉⟩",
    "\n": "\x0b\x85\u2028\u2029",
    " ": "\t",
}
_PHRASES = (
    "→=-> ←=<- ⇒==> ↔=<-> ≤=<= ≥=>= ≠=!= ±=+/- √=sqrt ©=(C) ®=(R) °=deg µ=u ™=(TM) ℠=(SM) №=No.",
    "Ł=L ł=l Đ=D đ=d Ħ=H ħ=h Ŧ=T ŧ=t ı=i Ŋ=N ŋ=n Œ=OE œ=oe Ð=D ð=d Þ=TH þ=th ĸ=q ẞ=SS Ə=E ə=e ƒ=f",
    "Α=A Β=B Ε=E Ζ=Z Η=H Ι=I Κ=K Μ=M Ν=N Ο=O Ρ=P Τ=T Υ=Y Χ=X",
    "¢=c ₹=INR ₺=TRY ₽=RUB ₩=KRW ₪=ILS ₫=VND ₱=PHP ₴=UAH",
)
_TABLE = {character: plain for plain, group in _GROUPS.items() for character in group} | {
    pair[0]: pair[2:] for line in _PHRASES for pair in line.split()
}
_SILENT = re.compile(
    "[\u0300-\u0333\u0339-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\ufe00-\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef]"
)
"""What says nothing by itself: accents, variation selectors, keycaps and skin tones. Marks that strike
through or forbid do, and so do the vowels of other scripts."""
_SILENT_CATEGORIES = frozenset({"Cc", "Cf"})
_OPERATORS = frozenset("\u2061\u2062\u2063\u2064")
"""Invisible, and meant: as in 1, invisible plus, ½."""
_PICTURE = "So"
_FRACTION = re.compile("[¼-¾⅐-⅟↉]")
_POWERS = frozenset("ⁿⁱ")
_OVERLAY = 1
"""Combining class of marks that strike through (Unicode Standard, 4.3)."""
_ACCENTED = {unicodedata.normalize("NFD", letter)[1]: letter for letter in "àéñäåÇ"}
"""Marks that GSM-7 has on some letter, each with such a letter."""


@lru_cache(maxsize=4096)
def find_substitute(character: str) -> str | None:
    """Return what says the same in GSM-7.

    Args:
        character: one character.

    Returns:
        The text to write instead, the character itself if GSM-7 has it, an empty text if it is to be left
        out; None if GSM-7 has nothing like it.
    """
    if _is_plain(character):
        return character
    if character in _TABLE:
        return _TABLE[character]
    category = unicodedata.category(character)
    if _SILENT.match(character) or (category in _SILENT_CATEGORIES and character not in _OPERATORS):
        return ""
    if _is_picture(character):
        return ""
    return _decompose(character)


def _is_picture(character: str) -> bool:
    is_symbol = unicodedata.category(character) == _PICTURE and character not in _TABLE
    return is_symbol and not unicodedata.decomposition(character)


def _decompose(character: str) -> str | None:
    parts = unicodedata.normalize("NFKD", character)
    if parts == character:
        return " " if unicodedata.category(character) == "Zs" else None
    if any(unicodedata.combining(part) == _OVERLAY for part in parts):
        return None
    bare = [part for part in parts if not unicodedata.combining(part)]
    if len(bare) < len(parts) and not all(map(str.isalpha, bare)):
        return None
    written = [part if _is_plain(part) else _TABLE.get(part) for part in bare]
    plain = None if None in written else "".join(filter(None, written))
    return plain and _set_apart(character, plain)


def _set_apart(character: str, plain: str) -> str | None:
    """Return what a figure decomposes into so that it stays apart from what is around it."""
    kind = unicodedata.decomposition(character).partition(" ")[0]
    if kind == "<super>" and (character in _POWERS or not plain.isalpha()):
        return f"^{plain}"
    if kind == "<circle>":
        return f"({plain})"
    return None if kind == "<sub>" and not plain.isalpha() else plain


def write_plainly(text: str) -> str:
    """Return a text with everything replaced that GSM-7 can say in another way.

    Args:
        text: as it would be sent. Characters without a substitute stay, and keep it UCS-2.
    """
    if _is_plain(text):
        return text
    # Composed first (NFC): GSM-7 has é, but not e with a mark that combines.
    composed = unicodedata.normalize("NFC", text)
    written = _write_all(composed)
    if not written.strip():  # a picture that is all there is, is what is said
        return text
    if _is_plain(written):
        return written
    # It stays UCS-2: to write more than one unit for one would only make it longer.
    return "".join(
        plain if (plain := find_substitute(character)) is not None and len(plain) <= 1 else character
        for character in composed
    )


def write_choices_plainly(choices: Sequence[str]) -> list[str]:
    """Return choices written plainly; as they are, if they could not be told apart then.

    Args:
        choices: of one question, as they would be sent.
    """
    written = [write_plainly(choice) for choice in choices]
    folded = {choice.strip().casefold() for choice in written}
    return written if len(folded) == len(choices) else list(choices)


def _write_all(text: str) -> str:
    parts: list[str] = []
    before = ""
    for character, after in zip(text, (*text[1:], ""), strict=True):
        plain = find_substitute(character)
        if plain is None:
            plain = character
        elif _FRACTION.match(character):
            plain = f"{' ' if before.isdecimal() else ''}{plain}{' ' if after.isdecimal() else ''}"
        elif plain.startswith("^") and before and (find_substitute(before) or "").startswith("^"):
            plain = plain[1:]  # one power of several figures
        parts.append(plain)
        before = character
    return "".join(parts)


def describe_character(character: str) -> str:
    """Return a character with its Unicode name, or with its number where it has none or cannot be seen."""
    name = unicodedata.name(character, "")
    number = f"U+{ord(character):04X}"
    is_seen = character.isprintable() and unicodedata.category(character)[0] not in "MZ"
    shown = character if is_seen else number
    return f"{shown} ({name})" if name else number


def describe_substitute(character: str) -> str:
    """Return what to do about a character that GSM-7 lacks: `write ' instead`, in words for people."""
    if character in _ACCENTED:
        return f"write letter and accent as one character (NFC), as in {_ACCENTED[character]}"
    plain = find_substitute(character)
    match plain:
        case None:
            return "GSM-7 has nothing like it"
        case "":
            return "say it in words, or leave it out" if _is_picture(character) else "leave it out"
        case " ":
            return "write a blank instead"
        case "\n":
            return "write a line break instead"
    apart = ", behind a blank if a digit comes before" if _FRACTION.match(character) else ""
    return f"write {plain} instead{apart}"


def advise(character: str, recipients: int, segments: int, segments_without: int) -> str:
    """Return which character makes texts expensive, for how many people, what it costs, and what to write.

    Args:
        character: outside GSM-7.
        recipients: those whose texts are UCS-2 because of it.
        segments: SMS segments of these texts, of all of these recipients together.
        segments_without: the same, had they been written plainly (`write_plainly`).
    """
    whose = "1 recipient's text" if recipients == 1 else f"{recipients:,} recipients' texts"
    counted = f"{segments:,} segment{'' if segments == 1 else 's'}"
    made = f"{describe_character(character)} makes {whose} UCS-2: {counted}"
    if segments_without >= segments:
        return f"{made}, and no fewer with all replaced that can be"
    # Others may stand beside it, and a text is GSM-7 only without any.
    replaced = "what can be" if find_substitute(character) is None else "every such character"
    cost = f"instead of {segments_without:,} with {replaced} replaced"
    return f"{made} {cost}; {describe_substitute(character)}"


def _is_plain(text: str) -> bool:
    return count_segments(text).encoding == "GSM-7"
