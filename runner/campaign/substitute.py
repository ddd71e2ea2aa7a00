"""What to write in the place of characters that GSM-7 lacks, and what it costs not to.

One character outside GSM 03.38 turns a whole text into UCS-2, whose segments hold 70 units and not 160. Most
of them come from word processors and have a plain neighbour that says the same. In this order, the first that
GSM-7 can hold:

- a table: quotation marks, dashes and their like by their names in the Unicode Standard; letters that do not
  decompose, as the transliteration Latin-ASCII of the Unicode CLDR writes them; capital Greek letters that
  look like Latin ones by these (as 3GPP TS 23.038, 6.2.1 does); currencies by their ISO 4217 codes;
- nothing at all: invisible characters, marks that combine, and pictures;
- compatibility decomposition without combining marks (NFKD: Unicode Standard Annex 15): accented, full-width
  and styled letters, ligatures, fractions, all kinds of blanks.

Letters of other scripts have no neighbour there.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from runner.campaign.segment import count_segments

_GROUPS = {
    "'": "‘’‚‛‹›′‵`´ʹʻʼʽˈˊˋ❛❜＇｀",
    '"': "“”„‟«»″‶ʺˮ❝❞〝〞〟＂",
    "-": "‐‑‒–—―−⁃•‣◦·∙▪●‧",
    "/": "⁄∕÷",
    "\\": "∖",
    "~": "∼˜≈",
    "|": "¦∣│❘",
    "*": "∗★☆✱",
    "x": "×✕✖",
    "<": "〈⟨",
    ">": "〉⟩",
    "\n": "\x0b\x85\u2028\u2029",
    " ": "\t",
}
_PHRASES = (
    "→=-> ←=<- ⇒==> ↔=<-> ≤=<= ≥=>= ≠=!= ±=+/- √=sqrt ©=(C) ®=(R) °=deg µ=u ‰=0/00",
    "Ł=L ł=l Đ=D đ=d Ħ=H ħ=h Ŧ=T ŧ=t ı=i Ŋ=N ŋ=n Œ=OE œ=oe Ð=D ð=d Þ=TH þ=th ĸ=q ẞ=SS Ə=E ə=e ƒ=f",
    "Α=A Β=B Ε=E Ζ=Z Η=H Ι=I Κ=K Μ=M Ν=N Ο=O Ρ=P Τ=T Υ=Y Χ=X",
    "¢=c ₹=INR ₺=TRY ₽=RUB ₩=KRW ₪=ILS ₫=VND ₱=PHP ₴=UAH",
)
_TABLE = {character: plain for plain, group in _GROUPS.items() for character in group} | {
    pair[0]: pair[2:] for line in _PHRASES for pair in line.split()
}
_SILENT = frozenset({"Cc", "Cf", "Mn", "Me", "Sk"})
"""General categories of what says nothing by itself: control and format characters, marks that combine or
modify."""
_PICTURE = "So"
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
    if category in _SILENT or (category == _PICTURE and not unicodedata.decomposition(character)):
        return ""
    return _decompose(character)


def _decompose(character: str) -> str | None:
    parts = [part for part in unicodedata.normalize("NFKD", character) if not unicodedata.combining(part)]
    if parts == [character]:
        return " " if unicodedata.category(character) == "Zs" else None
    written = [part if _is_plain(part) else _TABLE.get(part) for part in parts]
    return None if None in written else "".join(filter(None, written))


def write_plainly(text: str) -> str:
    """Return a text with everything replaced that GSM-7 can say in another way.

    Args:
        text: as it would be sent. Characters without a substitute stay, and keep it UCS-2.
    """
    if _is_plain(text):
        return text
    # Composed first (NFC): GSM-7 has é, but not e with a mark that combines.
    composed = unicodedata.normalize("NFC", text)
    substitutes = ((character, find_substitute(character)) for character in composed)
    return "".join(character if plain is None else plain for character, plain in substitutes)


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
            return "leave it out"
        case " ":
            return "write a blank instead"
        case "\n":
            return "write a line break instead"
    return f"write {plain} instead"


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
    # Others may stand beside it, and a text is GSM-7 only without any.
    replaced = "what can be" if find_substitute(character) is None else "every such character"
    if segments_without < segments:
        cost = f"{counted} instead of {segments_without:,} with {replaced} replaced"
    else:
        cost = f"{counted}, and no fewer with {replaced} replaced"
    return f"{describe_character(character)} makes {whose} UCS-2: {cost}; {describe_substitute(character)}"


def _is_plain(text: str) -> bool:
    return count_segments(text).encoding == "GSM-7"
