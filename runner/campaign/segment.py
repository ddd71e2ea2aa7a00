"""SMS segments as carriers count them.

GSM 03.38 (3GPP TS 23.038, 6.2.1 and 6.2.1.1) when every character is in its alphabet or its
extension table, else UCS-2: 160 septets or 70 units in a single segment, 153 or 67 in each of
several, because the user data header takes the rest (3GPP TS 23.040, 9.2.3.24). No escape
sequence and no surrogate pair straddles two segments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

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
_LENGTHS: dict[Encoding, tuple[int, int]] = {"GSM-7": (160, 153), "UCS-2": (70, 67)}


@dataclass(frozen=True, slots=True)
class SegmentCount:
    """How a text goes over the air.

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
    costly = _OUTSIDE.search(text)
    if costly is None:
        return _pack("GSM-7", text, _WIDE_SEPTETS, None)
    return _pack("UCS-2", text, _WIDE_UNITS, costly[0])


def _pack(encoding: Encoding, text: str, wide: re.Pattern[str], costly: str | None) -> SegmentCount:
    single, several = _LENGTHS[encoding]
    is_wide = wide.search(text) is not None
    units = len(text) + (len(wide.findall(text)) if is_wide else 0)
    if units <= single:
        return SegmentCount(encoding, units, 1 if units else 0, costly)
    if not is_wide:
        return SegmentCount(encoding, units, -(-units // several), costly)
    segments, room = 1, several
    for character in text:
        width = 2 if wide.match(character) else 1
        if width > room:
            segments, room = segments + 1, several
        room -= width
    return SegmentCount(encoding, units, segments, costly)
