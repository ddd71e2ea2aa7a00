"""The masking of what tells who people are in what they wrote: addresses, phone numbers, and their own names.

Names are what the audience says of the person: each cell, and each of its words, so `Ada Lovelace` masks
`ada`. Masking rather takes too much than too little: it cannot know what a cell means. It does not know of
names that are in no cell, of misspelt ones, and of what is told in other words.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

EMAIL, PHONE, NAME = "[e-mail]", "[phone]", "[name]"

# It begins where no such character is before it: a long text without `@` is read once.
_EMAIL = re.compile(r"(?<![\w.+%'-])[\w.+%'-]+\s?[@＠]\s?[\w-]+(?:\.[\w-]+)+")
_LEAST_DIGITS = 7
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_DATE = rf"(?:(?:19|20)\d\d-{_DAY}-{_DAY}|{_DAY}(?P<mark>[./-]){_DAY}(?P=mark)(?:19|20)\d\d)"
_MILLIONS = r"[1-9]\d?,\d{3},\d{3}(?:\.\d\d)?"
_PRICES = r"\d{1,4}\.\d\d(?:, \d{1,4}\.\d\d)+"
_YEARS = r"(?:19|20)\d\d(?:, (?:19|20)\d\d)+"
# A digit in a frame, as phones have it among their emoji, is a digit and these.
_DIGIT = r"\d\uFE0F?\u20E3?"
_BETWEEN = r"[\s_.,;|*~·•()\[\]/\\\u00AD\u200B-\u200F\u2060\uFEFF‐-―−-]{0,3}"
# What is no phone is tried first, and left; digits go on over what people write between them.
_NUMBER = re.compile(
    rf"(?<!\d)(?P<kept>{_DATE}(?!\d)|(?:{_MILLIONS}|{_PRICES}|{_YEARS})(?![\s.,;_-]{{0,2}}\d))"
    rf"|[+＋]?\(?{_DIGIT}(?:{_BETWEEN}{_DIGIT}){{{_LEAST_DIGITS - 1},}}"
)
_LATIN = r"[0-9A-Za-zªºÀ-ÖØ-öø-ɏḀ-ỿⱠ-ⱿꜢ-ꟿＡ-Ｚａ-ｚ]"
# A change of script ends a word: no blank need stand between a Latin name and signs of another script.
_WORD = re.compile(rf"{_LATIN}+|(?:(?!{_LATIN})[^\W_])+")
_LONGEST_CELL = 100
"""A longer cell is a remark, and no name."""
_LONGEST_NAME = 3
"""Words of a cell that may all be names, be they capitalised or not; of more, as in `paid in full`, only
capitalised ones are."""
_LONGEST_CODE = 3
"""Letters of a cell in capitals that is a code, as `US` is, and not the word `us`."""
_LONGEST_GAP = 3
"""Characters between the words of one name."""


def mask_words(words: str, cells: Iterable[str] = ()) -> str:
    """Return what a person wrote with e-mail addresses, phone numbers and the person's own names masked.

    Phone numbers are seven digits and more, of any script, with what people write between them. Dates as in
    2026-12-01 or 1/12/2026, millions, and prices or years in a row are none. `cells` are what the audience
    says of the person.
    """
    shown = _EMAIL.sub(EMAIL, unicodedata.normalize("NFC", words))
    shown = _NUMBER.sub(lambda found: found["kept"] or PHONE, shown)
    names = {name for cell in cells for name in _list_names(cell)}
    for name in sorted(("".join(name) for name in names if not _has_case(name[0])), key=len, reverse=True):
        # Such scripts may write no blanks.
        shown = shown.replace(name, NAME)
    return _mask_names(shown, names) if names else shown


def _mask_names(text: str, names: Collection[tuple[str, ...]]) -> str:
    """Return a text without the names, each of one word or several, where they are words of their own."""
    by_first: dict[str, list[tuple[str, ...]]] = {}
    for name in sorted(names, key=len, reverse=True):
        by_first.setdefault(name[0], []).append(name)
    found = list(_WORD.finditer(text))
    forms = [(one[0], _fold(one[0])) for one in found]
    parts, end, place = [], 0, 0
    while place < len(found):
        for name in (name for form in forms[place] for name in by_first.get(form, ())):
            last = place + len(name) - 1
            if last < len(found) and all(one in forms[at] for at, one in enumerate(name, start=place)):
                gaps = (found[at + 1].start() - found[at].end() for at in range(place, last))
                if max(gaps, default=0) <= _LONGEST_GAP:
                    parts += [text[end : found[place].start()], NAME]
                    end, place = found[last].end(), last
                    break
        place += 1
    return "".join([*parts, text[end:]])


def _list_names(cell: str) -> Iterator[tuple[str, ...]]:
    """Yield a cell, and those of its words that may be names, each as its words for comparison."""
    cell = unicodedata.normalize("NFC", cell)
    found = _WORD.findall(cell) if len(cell) <= _LONGEST_CELL else []
    if not any(map(str.isalpha, found)):
        return
    if cell.isupper() and 1 < len(cell) <= _LONGEST_CODE:
        yield (cell,)
        return
    if len(cell) > 1 or not _has_case(cell):
        yield tuple(map(_fold, found))
    for word in found:
        # A single letter of an alphabet is an initial, or `a`; a single sign of another script may be a name.
        may_be_name = len(found) <= _LONGEST_NAME or not word[0].islower()
        if word.isalpha() and may_be_name and (len(word) > 1 or not _has_case(word)):
            yield (_fold(word),)


def _has_case(text: str) -> bool:
    return text.lower() != text.upper()


@lru_cache(maxsize=10_000)
def _fold(word: str) -> str:
    """Return a word without regard to case and accents."""
    plain = unicodedata.normalize("NFKD", word.casefold())
    letters = "".join(character for character in plain if not unicodedata.combining(character))
    return unicodedata.normalize("NFC", letters)
