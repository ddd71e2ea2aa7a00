"""The text that a message opens with, and whether it says who sends it."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from runner.source.normalize import normalize

if TYPE_CHECKING:
    from runner.text.outgoing import Definition

ADDRESS = re.compile(r"[!-~]*(?:@|://|\.\w+/)[!-~]*|(?:[\w-]+\.)+[a-z]{2,}\b", re.ASCII)
"""A link, a domain or an e-mail address, whose words are not those of the text around it."""
_APOSTROPHE = re.compile(r"['’]")
_MEMO_SIZE = 4096


def says_sender(definition: Definition, sender: str) -> bool:
    """Return whether the first text of a message says a name; one in a link or an address does not count."""
    texts = (definition.get(name) for name in ("introduction", "text"))
    opening = next(filter(None, texts), None) or definition["questions"][0]["text"]
    # Most texts have the name as it is written: normalizing takes fifty times longer.
    return _as_written(sender).search(opening) is not None or _says(opening, sender)


@cache
def _as_written(sender: str) -> re.Pattern[str]:
    name = re.escape(sender.strip())
    return re.compile(rf"(?<!\S)[^\w\s@/]{{0,3}}{name}(?!\w|\S*(?:[@/]|\.[a-z]))", re.IGNORECASE)


@lru_cache(maxsize=_MEMO_SIZE)
def _says(text: str, sender: str) -> bool:
    said, name = (normalize(_APOSTROPHE.sub(" ", one)) for one in (ADDRESS.sub(" ", text), sender))
    if not name:
        return sender.strip() in text
    # Scripts without capitals may write words without blanks between them.
    before, after = (r"\b" if one.upper() != one or one.isdigit() else "" for one in (name[0], name[-1]))
    return re.search(f"{before}{re.escape(name)}{after}", said) is not None
