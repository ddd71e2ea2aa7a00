"""What people wrote, without what tells who they are: addresses, phone numbers, and their own names.

Names are what the audience says of the person: each cell, and each of its words, so `Ada Lovelace` masks
`ada`. Masking rather takes too much than too little: it cannot know what a cell means. It does not know of
names that are in no cell, of misspelt ones, and of what is told in other words.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EMAIL, PHONE, NAME = "[e-mail]", "[phone]", "[name]"

# It begins where no such character is before it: a long text without `@` is read once.
_EMAIL = re.compile(r"(?<![\w.+%'-])[\w.+%'-]+\s?[@＠]\s?[\w-]+(?:\.[\w-]+)+")
_LEAST_DIGITS = 7
_DATE = r"(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
# A date is tried first, and left; digits go on over what people write between them.
_NUMBER = re.compile(
    rf"(?<!\d)(?P<date>{_DATE})(?!\d)|[+＋]?\(?\d(?:[\s.()/‐-―−-]{{0,3}}\d){{{_LEAST_DIGITS - 1},}}"
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_LONGEST_CELL = 100
"""A longer cell is a remark, and no name."""
_LONGEST_NAME = 3
"""Words of a cell that may all be names, be they capitalised or not; of more, as in `paid in full`, only
capitalised ones are."""
_LONGEST_CODE = 3
"""Letters of a cell in capitals that is a code, as `US` is, and not the word `us`."""


def mask_words(words: str, cells: Iterable[str] = ()) -> str:
    """Return what a person wrote with e-mail addresses, phone numbers and the person's own names masked.

    Phone numbers are seven digits and more, of any script, with what people write between them. Dates as in
    2026-12-01 are none. `cells` are what the audience says of the person.
    """
    shown = _EMAIL.sub(EMAIL, unicodedata.normalize("NFC", words))
    shown = _NUMBER.sub(lambda found: found["date"] or PHONE, shown)
    names = sorted({form for cell in cells for form in _list_names(cell)}, key=lambda one: (-len(one), one))
    if not names:
        return shown
    return re.sub("|".join(map(_write_pattern, names)), NAME, shown, flags=re.IGNORECASE)


def _list_names(cell: str) -> Iterator[str]:
    """Yield a cell and those of its words that may be names, with and without accents."""
    found = _WORD.findall(cell)
    if not found or len(cell) > _LONGEST_CELL:
        return
    kept = [one for one in found if len(found) <= _LONGEST_NAME or not one[0].islower()]
    for name in (" ".join(cell.split()), *kept):
        # A single letter of an alphabet is an initial, or `a`; a single sign of another script may be a name.
        if len(name) > 1 or not _has_case(name):
            yield unicodedata.normalize("NFC", name)
            yield _strip_accents(name)


def _write_pattern(name: str) -> str:
    """Return the pattern of a name as a word of its own; scripts without case may write no blanks."""
    pattern = r"\s+".join(map(re.escape, name.split()))
    if name.isupper() and len(name) <= _LONGEST_CODE:
        pattern = f"(?-i:{pattern})"
    return rf"(?<![^\W_]){pattern}(?![^\W_])" if _has_case(name) else pattern


def _has_case(text: str) -> bool:
    return text.lower() != text.upper()


def _strip_accents(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text)
    return "".join(character for character in plain if not unicodedata.combining(character))
