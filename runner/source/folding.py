"""Short texts as people write them, brought to one spelling so that they can be compared."""

from __future__ import annotations

import re
import unicodedata

_APOSTROPHES = re.compile(r"['’‘ʼ´`]")
_BETWEEN = re.compile(r"[\W_]+")


def fold(text: str) -> str:
    """Return a text in lower case, without accents and punctuation, its words apart by one blank each.

    Args:
        text: as somebody wrote it; full-width and styled letters become plain ones (NFKD: Unicode Standard
            Annex 15).
    """
    # Compatibility forms first: a mathematical capital has no lower case of its own.
    plain = unicodedata.normalize("NFKD", _APOSTROPHES.sub("", text))
    plain = unicodedata.normalize("NFKD", plain.casefold())
    letters = "".join(character for character in plain if not unicodedata.combining(character))
    return _BETWEEN.sub(" ", letters).strip()


def fold_to_word(text: str) -> str:
    """Return a folded text without its blanks, too: `Opt out`, `OPT-OUT` and `optout` are one."""
    return fold(text).replace(" ", "")


def fold_guid(guid: str) -> str:
    """Return a guid of the service as it compares: it is hexadecimal, and may come in either case."""
    return guid.casefold()
