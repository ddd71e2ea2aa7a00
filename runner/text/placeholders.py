"""Placeholders in other tools' forms, and what else people write in tags that Jinja2 cannot read."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, NamedTuple

from runner.audience.table import name_variable, normalize_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_NAME = r"(\w[\w .-]{0,60})"
_FOREIGN = re.compile(
    "|".join(
        form.replace("NAME", _NAME)
        for form in (
            r"\*\|NAME\|\*",
            r"<<\s*NAME\s*>>",
            r"<NAME>",
            r"\$?\{\s*NAME\s*\}",
            r"\[\[\s*NAME\s*\]\]",
            r"\[NAME\]",
            r"%%NAME%%",
            r"%NAME%",
            r"#NAME#",
            r"«NAME»",
        )
    )
)
_SHORT = {"fname": "firstname", "lname": "lastname", "mname": "middlename"}
_PARTS = re.compile(r"[^\W_]+")
_CLOSE = 0.8
_IN_TEXTS = re.compile(r"\[(?!\[)|<(?!<)|%(?!%)|#")
"""Marks that texts without placeholders have, too: `[Acme] Your order`, `<24 h>`."""
_TAG = re.compile(r"\{[{%](.*?)[%}]\}", re.DOTALL)
_CURLY = re.compile(r"[“”„‟‘’‚‛«»]")
_BLANK_IN_NAME = re.compile(r"\s*([^\W\d]\w*(?: +\w+)+)\s*(?:\|.*)?", re.DOTALL)
_DASHED = re.compile(r"[^\W\d]\w*(?:-\w+)+")
_WORDS_OF_TAGS = re.compile(r"\b(?:if|else|not|and|or|is|in|for)\b")


class ForeignPlaceholder(NamedTuple):
    """A placeholder as another tool writes it, and the known name that it seems to mean.

    `is_sure` is False for what may be a text: `[Order update]`, where there is a column `order`.
    """

    written: str
    name: str
    is_sure: bool = True


def find_foreign(text: str, known: Collection[str]) -> Iterator[ForeignPlaceholder]:
    """Yield the placeholders of other tools in a text whose name is, or resembles, a known one."""
    for found in _FOREIGN.finditer(text):
        written = next(filter(None, found.groups())).strip()
        name = _find_alike(written, known)
        if name is not None:
            is_named = _fold(written) == _fold(name) or _list_parts(written) <= _list_parts(name)
            is_sure = is_named or not _IN_TEXTS.match(found[0])
            yield ForeignPlaceholder(found[0], name, is_sure)


def find_dashed(text: str, name: str, known: Iterable[str]) -> ForeignPlaceholder | None:
    """Return a known name that a text writes with dashes, of which `name` is a part; None if it has none."""
    folded = {normalize_name(one): one for one in known}
    for written in _DASHED.findall(text):
        if name in written.split("-") and normalize_name(written) in folded:
            return ForeignPlaceholder(written, folded[normalize_name(written)])
    return None


def _find_alike(written: str, known: Collection[str]) -> str | None:
    folded = {_fold(name): name for name in known}
    wanted = _SHORT.get(_fold(written), _fold(written))
    if wanted in folded:
        return folded[wanted]
    parts = _list_parts(written)
    for name in known:
        own = _list_parts(name)
        if own and parts and (own <= parts or parts <= own):
            return name
    close = difflib.get_close_matches(wanted, folded, n=1, cutoff=_CLOSE)
    return folded[close[0]] if close else None


def _list_parts(name: str) -> set[str]:
    return {part.casefold() for part in _PARTS.findall(name)}


def _fold(name: str) -> str:
    return "".join(_PARTS.findall(name)).casefold()


def explain_tag(line: str, quote: str) -> tuple[str, str] | None:
    """Return what is wrong, and what to do, in a line with curly quotes or a blank in a variable's name.

    `quote` is the straight one that the text may hold. None if there is neither.
    """
    for tag in _TAG.finditer(line):
        if _CURLY.search(tag[1]):
            mended = _CURLY.sub(quote, tag[0])
            return "the quotes are curly", f"write straight ones, as in `{mended}`"
        found = _BLANK_IN_NAME.fullmatch(tag[1]) if tag[0].startswith("{{") else None
        if found and not _WORDS_OF_TAGS.search(found[1]):
            return "a variable's name has no blanks", f"write `{{{{ {name_variable(found[1])} }}}}`"
    return None
