"""How many SMS segments a text takes, which is what carriers charge for.

The service's own count, from the standards: the runner has another, and a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

# 3GPP TS 23.038: the default alphabet (6.2.1), and the extension table (6.2.1.1), reached by an escape.
_ALPHABET = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENSION = frozenset("\f^{}\\[~]|€")
# 3GPP TS 23.040, 9.2.3.24: the header that joins segments takes 7 septets, or 3 units, of each.
_SEPTETS = (160, 153)
_UNITS = (70, 67)


@dataclass(frozen=True, slots=True)
class Airtime:
    """What a text is on the air.

    Attributes:
        encoding: "GSM-7", or "UCS-2" where a character needs it.
        segments: at least 1.
    """

    encoding: str
    segments: int


@lru_cache(maxsize=4096)  # a launch renders the same texts for everybody
def measure_text(text: str) -> Airtime:
    """Count a text's segments; no escape sequence and no surrogate pair is torn apart."""
    if all(character in _ALPHABET or character in _EXTENSION for character in text):
        widths = [2 if character in _EXTENSION else 1 for character in text]
        return Airtime("GSM-7", _fill(widths, *_SEPTETS))
    return Airtime("UCS-2", _fill([len(character.encode("utf-16-be")) // 2 for character in text], *_UNITS))


def _fill(widths: list[int], single: int, joined: int) -> int:
    if sum(widths) <= single:
        return 1
    segments, used = 1, 0
    for width in widths:
        if used + width > joined:
            segments, used = segments + 1, 0
        used += width
    return segments
