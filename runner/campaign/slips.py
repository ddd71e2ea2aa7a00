"""Texts that are not what their author sees: cut by YAML, in quotes that are none, with hidden characters."""

from __future__ import annotations

import re
import unicodedata
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.source.diagnostic import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.source.diagnostic import Diagnostic
    from runner.source.yaml import Place, YamlDocument

_TEXT_KEYS = frozenset(("text", "introduction", "conclusion", "conclude_on", "responses"))
_OWN_NAMES = frozenset(("name", "id", "renamed_from"))
_READ_KEYS = frozenset(("title", "description", "owner"))
_NAME_KEYS = frozenset(("tag", "opt_out_words", "export_columns", "vars")) | _OWN_NAMES | _READ_KEYS
_COMMENT = re.compile(r"(?:^|[ \t])(#.*)$")
_JINJA = re.compile(r"\{[{%#].*?[}%#]\}", re.DOTALL)
_HIDDEN = re.compile("[\u00ad\u200b\u2060\u2061-\u2064\u202a-\u202e\u2066-\u2069\ufeff]")
_WORD = re.compile(r"[^\W\d_]{2,}")
_LATIN, _FOREIGN = re.compile("[A-Za-z]"), re.compile("[\u0370-\u03ff\u0400-\u052f]")
_WRAPPED = re.compile("[“”„‟«»‘‚‹›´`’][^“”„‟«»]*[”“»«’‘›‹´`]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


class _Scalar(NamedTuple):
    """A text of a document, and the key that it is the value of."""

    key: str
    place: Place
    value: str

    @property
    def is_sent(self) -> bool:
        """True for a text that people get."""
        return self.key in _TEXT_KEYS


def find_slips(document: YamlDocument) -> Iterator[Diagnostic]:
    """Yield texts, tags and names of a campaign that are not what their author sees."""
    yield from _find_hidden(document)
    if not isinstance(document.data, dict):
        return
    has_comments = re.search(r"[ \t]#", document.text) is not None
    is_plain = document.text.isascii() and "\\" not in document.text
    if is_plain and not has_comments and not document.unused:
        return
    for scalar in _iterate_texts(document, document.data, ""):
        if has_comments and not scalar.place.style:
            yield from _check_comment(document, scalar)
        place = scalar.place.at_value()
        if scalar.place.style != '"' and "\\n" in _JINJA.sub("", scalar.value):
            words = "`\\n` stays two characters here: only text in double quotes has it for a new line"
            hint = "break the line instead, or put the text in double quotes"
            yield place.problem("yaml-escape", words, hint, "warning")
        if not scalar.place.style and _WRAPPED.fullmatch(scalar.value):
            words = "these are no quotes of YAML: they are part of the text"
            yield place.problem("yaml-quotes", words, 'write plain ones: "…"', "warning")
        if control := _CONTROL.search(scalar.value):
            words = f"U+{ord(control[0]):04X} in this text is no character to see, and would be sent"
            yield place.problem("text-hidden", words, "remove it", "warning")
        if anchor := document.unused.get((scalar.place.line, scalar.place.column)):
            words = f"`&{anchor}` is an anchor to YAML, and no part of this text: no `*{anchor}` repeats it"
            yield place.problem("yaml-anchor", words, "put the whole text in quotes, or leave it out")


def _find_hidden(document: YamlDocument) -> Iterator[Diagnostic]:
    """Yield characters that nobody who reviews the file can see, and letters that only look Latin."""
    if document.text.isascii():
        return
    for number, line in enumerate(document.lines, start=1):
        for found in _HIDDEN.finditer(line):
            name = unicodedata.name(found[0], "a character without a name")
            words = f"U+{ord(found[0]):04X} ({name}) cannot be seen here, and would be sent"
            hint = f"remove it; in double quotes, `\\u{ord(found[0]):04X}` is the same for all to see"
            place = Position(document.file, number, found.start() + 1)
            yield place.problem("text-hidden", words, hint, "warning")
        for word in _WORD.finditer(line):
            odd = _FOREIGN.search(word[0])
            if odd is not None and _LATIN.search(word[0]):
                name = unicodedata.name(odd[0])
                words = f"{odd[0]!r} in {word[0]!r} is {name}, between Latin letters"
                place = Position(document.file, number, word.start() + odd.start() + 1)
                hint = "write the whole word in one alphabet"
                yield place.problem("text-lookalike", words, hint, "warning")


def _iterate_texts(document: YamlDocument, container: Any, role: str) -> Iterator[_Scalar]:
    """Yield the texts of a container whose key has `role`."""
    for key, value in container.items() if isinstance(container, dict) else enumerate(container):
        is_inner = role == "vars" or (role in _TEXT_KEYS and key != "value")  # a text by language
        own = role if isinstance(key, int) or is_inner else key
        if isinstance(value, (dict, list)):
            yield from _iterate_texts(document, value, own)
        elif isinstance(value, (str, NoneType)) and (own in _TEXT_KEYS or own in _NAME_KEYS):
            place = document.place(container, key)
            if place is not None:
                yield _Scalar(own, place, value or "")


def _check_comment(document: YamlDocument, scalar: _Scalar) -> Iterator[Diagnostic]:
    """Yield the comment behind a plain text, if it may be a part of it: `#1` more than `# a remark`."""
    place, rest = scalar.place, scalar.value.split()
    for number in range(place.line, len(document.lines)):
        start = place.column if number == place.line else 0
        line = document.lines[number][start:]
        found = _COMMENT.search(line)
        words = line[: found.start()].split() if found else line.split()
        if rest[: len(words)] != words:
            return
        rest = rest[len(words) :]
        if found is None and rest:
            continue
        is_text = found is not None and found[1][1:2].strip() != ""
        if found is not None and not rest and (is_text or scalar.is_sent):
            message = "`#` begins a comment to YAML: the rest of this line is no part of the text"
            hint = "put the whole text in quotes, or the comment on a line of its own"
            if scalar.key in _OWN_NAMES:
                hint = "names have no `#`; a comment has a blank behind it"
            at = Position(document.file, number + 1, start + found.start(1) + 1)
            yield at.problem("yaml-comment", message, hint, "error" if is_text else "warning")
        return
