"""SMS segments as carriers count them.

GSM 03.38 (3GPP TS 23.038, 6.2.1 and 6.2.1.1) when every character is in its alphabet or its
extension table, else UCS-2: 160 septets or 70 units in a single segment, 153 or 67 in each of
several, because the user data header takes the rest (3GPP TS 23.040, 9.2.3.24). No escape
sequence and no surrogate pair straddles two segments.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple

Encoding = Literal["GSM-7", "UCS-2"]

_BASIC = (
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENSION = "\f^{}\\[~]|€"
_OUTSIDE = re.compile(f"[^{re.escape(_BASIC + _EXTENSION)}]")
_WIDE_SEPTETS = re.compile(f"[{re.escape(_EXTENSION)}]")
_WIDE_UNITS = re.compile("[\U00010000-\U0010ffff]")
"""Characters that take two septets, an escape before them, or two units, a surrogate pair."""
_PLAIN = "".join(character for character in _BASIC if character.isascii()).encode()
"""What most texts are made of alone: one byte in ASCII, one septet in GSM-7."""
_LENGTHS: dict[Encoding, tuple[int, int]] = {"GSM-7": (160, 153), "UCS-2": (70, 67)}


class SegmentCount(NamedTuple):
    """How a text goes over the air. A tuple: one is made for every text of a million people.

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
    """Count the segments of one text message.

    Args:
        text: as it is sent.
    """
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
