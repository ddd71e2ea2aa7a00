"""What spreadsheets and address books do to phones, undone as far as no digit is lost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Damage = Literal["invisible", "blanks", "formula", "apostrophe", "decimal", "thousands", "punctuation"]

DAMAGE_WORDS: dict[Damage, str] = {
    "invisible": "invisible characters in {}",
    "blanks": "blanks around {}",
    "formula": 'a formula, ="…", around {}',
    "apostrophe": "an apostrophe or quotes around {}",
    "decimal": "a decimal point and zeros behind {}",
    "thousands": "separators of thousands in {}",
    "punctuation": "stray punctuation around {}",
}
"""By kind of damage: completes "a phone has "; {} is for it or them."""

_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe0f\ufeff]"
)
"""Controls, soft hyphens, zero widths, marks of direction: address books put them around copied phones."""
_FORMULA = re.compile(r'=\s*(?:"([^"]*)"|(\+?\d[\d\s().-]*))')
_QUOTES = "'’‘`´\"“”"
_DECIMAL = re.compile(r"(\+?\d{6,15})[.,]0{1,2}|([^.,]*\d)\.0")
"""In French notation `.00` may be a phone's last two digits; in digits alone it may not."""
_THOUSANDS = re.compile(r"(?=(?:\D*\d){7})\+?\d{1,3}(?:,\d{3}){2,}|\d{1,3}(?:\.\d{3}){3,}")
_STRAY = ",;:.!?_<>[]{}|•·\\"


@dataclass(frozen=True, slots=True)
class Mended:
    """A phone as a person wrote it.

    Attributes:
        text: without what a program added.
        damage: what that was.
    """

    text: str
    damage: tuple[Damage, ...] = ()


def mend(written: str) -> Mended:
    """Take away what programs add to phones; nothing that could be one of its digits is touched.

    Args:
        written: a cell or value.
    """
    text, damage = written, list[Damage]()

    def keep(mended: str, kind: Damage) -> str:
        if mended != text and kind not in damage:
            damage.append(kind)
        return mended

    text = keep(_INVISIBLE.sub("", text), "invisible")
    text = keep(text.strip(), "blanks")
    text = keep(_unwrap_formula(text), "formula")
    text = keep(text.strip(_QUOTES), "apostrophe")
    text = keep(text.strip(), "blanks")
    text = keep(re.sub(r"[.,]0+$", "", text) if _DECIMAL.fullmatch(text) else text, "decimal")
    text = keep(re.sub("[,.]", "", text) if _THOUSANDS.fullmatch(text) else text, "thousands")
    text = keep(text.strip(_STRAY), "punctuation")
    return Mended(keep(text.strip(), "blanks"), tuple(damage))


def _unwrap_formula(text: str) -> str:
    formula = _FORMULA.fullmatch(text)
    return text if formula is None else formula[1] if formula[1] is not None else formula[2]
