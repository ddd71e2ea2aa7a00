"""Slips of the finger on a phone's keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

_NEIGHBOURS = {
    "a": "sq", "b": "vn", "c": "xv", "d": "sf", "e": "wr", "f": "dg", "g": "fh", "h": "gj", "i": "uo",
    "j": "hk", "k": "jl", "l": "k", "m": "n", "n": "bm", "o": "ip", "p": "o", "q": "wa", "r": "et",
    "s": "ad", "t": "ry", "u": "yi", "v": "cb", "w": "qe", "x": "zc", "y": "tu", "z": "x",
}  # fmt: skip


def mistype(random: Random, text: str) -> str:
    """Write a text with one slip: a letter left out, doubled, swapped with the next one, or its neighbour.

    A text without letters of the English keyboard stays as it is.
    """
    places = [place for place, letter in enumerate(text) if letter.lower() in _NEIGHBOURS]
    if not places:
        return text
    place = random.choice(places)
    before, letter, after = text[:place], text[place], text[place + 1 :]
    slips = (
        before + after,
        before + letter * 2 + after,
        before + after[:1] + letter + after[1:],
        before + random.choice(_NEIGHBOURS[letter.lower()]) + after,
    )
    return random.choice(slips)
