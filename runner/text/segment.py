"""SMS segments as carriers count them, and plain substitutes for characters outside GSM-7.

A text is GSM 03.38 (3GPP TS 23.038, 6.2.1 and 6.2.1.1) when every character is in its alphabet or its
extension table, else UCS-2: 160 septets or 70 units in a single segment, 153 or 67 in each of several,
because the user data header takes the rest (3GPP TS 23.040, 9.2.3.24). No escape sequence and no surrogate
pair straddles two segments.

One character outside GSM 03.38 turns a whole text into UCS-2. Most such characters come from word processors
and have a plain neighbour of the same meaning; others stay, since no advice may change the meaning. The first
of these that GSM-7 can hold is taken:

- a table: quotation marks, dashes and the like by their names in the Unicode Standard; letters that do not
  decompose, by the transliteration Latin-ASCII of the Unicode CLDR; capital Greek letters by the Latin ones
  that look the same (as 3GPP TS 23.038, 6.2.1 does); currencies by their ISO 4217 codes;
- nothing: invisible characters, combining accents, and pictures beside words;
- compatibility decomposition without accents (NFKD: Unicode Standard Annex 15): accented, full-width and
  styled letters, ligatures, blanks.

Letters of other scripts have no neighbour there, nor do powers, fractions, circled figures, and ≯.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


Encoding = Literal["GSM-7", "UCS-2"]

_BASIC = (
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENSION = "\f^{}\\[~]|€"
_OUTSIDE = re.compile(f"[^{re.escape(_BASIC + _EXTENSION)}]")
_WIDE_SEPTETS = re.compile(f"[{re.escape(_EXTENSION)}]")
_WIDE_UNITS = re.compile("[\U00010000-\U0010ffff]")
"""Characters of two septets (with an escape) or two units (a surrogate pair)."""
_PLAIN = "".join(character for character in _BASIC if character.isascii()).encode()
"""Characters of most texts: one byte in ASCII, one septet in GSM-7."""
_LENGTHS: dict[Encoding, tuple[int, int]] = {"GSM-7": (160, 153), "UCS-2": (70, 67)}
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
    "→=-> ←=<- ⇒==> ↔=<-> ≤=<= ≥=>= ≠=!= ±=+/- √=sqrt ©=(C) ®=(R) °=deg µ=u ª=a º=o ™=(TM) ℠=(SM) №=No.",
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
"""Signs without a meaning of their own: accents, variation selectors, keycaps, skin tones. Marks that strike
through or forbid have one, and so do vowels of other scripts.
"""
_SILENT_CATEGORIES = frozenset({"Cc", "Cf"})
_OPERATORS = frozenset("\u2061\u2062\u2063\u2064")
"""Invisible characters with a meaning: as in 1, invisible plus, ½."""
_PICTURE = "So"
_SET_APART = frozenset(("<super>", "<sub>", "<circle>", "<fraction>"))
"""Decompositions that change the meaning beside other figures: 5² is not 52."""
_ACCENTED = {unicodedata.normalize("NFD", letter)[1]: letter for letter in "àéñäåÇ"}
"""Accents that GSM-7 has on some letter, each with such a letter."""


class SegmentCount(NamedTuple):
    """Encoding and segments of a text. A tuple, since one is made for every text.

    Attributes:
        encoding: GSM-7, or UCS-2 when a character needs it.
        units: septets (GSM-7) or 16-bit units (UCS-2) of the whole text.
        segments: SMS segments; 0 for an empty text.
        costly: the first character that GSM-7 lacks, if any.
    """

    encoding: Encoding
    units: int
    segments: int
    costly: str | None = None


def count_segments(text: str) -> SegmentCount:
    """Count the segments of a text, as it is sent."""
    if text.isascii() and not text.encode().translate(None, _PLAIN):
        return _count_plain(len(text))
    costly = _OUTSIDE.search(text)
    if costly is None:
        return _pack("GSM-7", text, _WIDE_SEPTETS)
    return _pack("UCS-2", text, _WIDE_UNITS)._replace(costly=costly[0])


@cache
def _count_plain(septets: int) -> SegmentCount:
    return SegmentCount("GSM-7", septets, _divide(septets, "GSM-7"))


def _divide(units: int, encoding: Encoding) -> int:
    """Return the segments of so many units, none of which belong together."""
    single, several = _LENGTHS[encoding]
    if units <= single:
        return 1 if units else 0
    return -(-units // several)


def _pack(encoding: Encoding, text: str, wide: re.Pattern[str]) -> SegmentCount:
    single, several = _LENGTHS[encoding]
    pairs = len(wide.findall(text))
    units = len(text) + pairs
    if not pairs or units <= single:
        return SegmentCount(encoding, units, _divide(units, encoding))
    segments, room = 1, several
    for character in text:
        width = 2 if wide.match(character) else 1
        if width > room:
            segments, room = segments + 1, several
        room -= width
    return SegmentCount(encoding, units, segments)


@lru_cache(maxsize=4096)
def find_substitute(character: str) -> str | None:
    """Return a GSM-7 text for a character: itself, a substitute, or an empty text; None if there is none."""
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
    bare = [part for part in parts if not unicodedata.combining(part)]
    is_accented = len(bare) < len(parts)
    kind = unicodedata.decomposition(character).partition(" ")[0]
    if kind in _SET_APART or (is_accented and not all(map(str.isalpha, bare))):
        return None
    written = [part if _is_plain(part) else _TABLE.get(part) for part in bare]
    return None if None in written else "".join(filter(None, written))


def write_plainly(text: str) -> str:
    """Return a text with all substitutes; characters without one stay, and keep it UCS-2."""
    if _is_plain(text):
        return text
    # Composed first (NFC): GSM-7 has é, but not e with a mark that combines.
    composed = unicodedata.normalize("NFC", text)
    plain = [(character, find_substitute(character)) for character in composed]
    written = "".join(character if instead is None else instead for character, instead in plain)
    if not written.strip():  # a picture that is all there is, is what is said
        return text
    if _is_plain(written):
        return written
    # It stays UCS-2, where a longer substitute would only make the text longer.
    return "".join(
        character if instead is None or len(instead) > 1 else instead for character, instead in plain
    )


def write_choices_plainly(choices: Sequence[str]) -> list[str]:
    """Return a question's choices written plainly; unchanged if they could not be told apart then."""
    written = [write_plainly(choice) for choice in choices]
    folded = {choice.strip().casefold() for choice in written}
    return written if len(folded) == len(choices) else list(choices)


def describe_character(character: str) -> str:
    """Return a character with its Unicode name, or with its number if it has no name or is invisible."""
    name = unicodedata.name(character, "")
    number = f"U+{ord(character):04X}"
    is_seen = character.isprintable() and unicodedata.category(character)[0] not in "MZ"
    shown = character if is_seen else number
    return f"{shown} ({name})" if name else number


def describe_substitute(character: str) -> str:
    """Return advice for a character that GSM-7 lacks: `write ' instead`."""
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
    return f"write {plain} instead"


def advise(character: str, recipients: int, segments: int, segments_without: int) -> str:
    """Return a sentence on a costly character: the people, the cost, and the substitute.

    Args:
        character: outside GSM-7.
        recipients: those whose texts are UCS-2 because of it.
        segments: SMS segments of all their texts.
        segments_without: the same, written plainly (`write_plainly`).
    """
    whose = "1 recipient's text" if recipients == 1 else f"{recipients:,} recipients' texts"
    counted = f"{segments:,} segment{'' if segments == 1 else 's'}"
    made = f"{describe_character(character)} makes {whose} UCS-2: {counted}"
    if segments_without >= segments:
        return f"{made}, and no fewer with all replaced that can be"
    # Others may be beside it, and a text is GSM-7 only without any.
    replaced = "what can be" if find_substitute(character) is None else "every such character"
    cost = f"instead of {segments_without:,} with {replaced} replaced"
    return f"{made} {cost}; {describe_substitute(character)}"


def _is_plain(text: str) -> bool:
    return count_segments(text).encoding == "GSM-7"
