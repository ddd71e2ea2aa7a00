"""SMS segments as carriers count them.

GSM 03.38 (3GPP TS 23.038, 6.2.1 and 6.2.1.1) when every character is in its alphabet or its
extension table, else UCS-2: 160 septets or 70 units in a single segment, 153 or 67 in each of
several, because the user data header takes the rest (3GPP TS 23.040, 9.2.3.24). No escape
sequence and no surrogate pair straddles two segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Encoding = Literal["GSM-7", "UCS-2"]

_BASIC = (
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_LAST_OF_BMP = "\uffff"
_EXTENSION = "\f^{}\\[~]|€"
_WIDTHS = {**dict.fromkeys(_BASIC, 1), **dict.fromkeys(_EXTENSION, 2)}
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
    costly = next((character for character in text if character not in _WIDTHS), None)
    if costly is None:
        widths = [_WIDTHS[character] for character in text]
        return _pack("GSM-7", widths, None)
    return _pack("UCS-2", [1 if character <= _LAST_OF_BMP else 2 for character in text], costly)


def _pack(encoding: Encoding, widths: list[int], costly: str | None) -> SegmentCount:
    single, several = _LENGTHS[encoding]
    units = sum(widths)
    if units <= single:
        return SegmentCount(encoding, units, 1 if units else 0, costly)
    segments, room = 1, several
    for width in widths:
        if width > room:
            segments, room = segments + 1, several
        room -= width
    return SegmentCount(encoding, units, segments, costly)
