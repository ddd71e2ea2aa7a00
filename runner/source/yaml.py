"""YAML with the position of every value.

The parser's events become plain data directly: no objects are constructed, and keys are unique. PyYAML's
nodes would not do: they lack the places of aliases, and libyaml's binding overflows the stack over deep
nesting before anyone can check them. YAML 1.2's core schema (section 10.3.2) is narrowed by one rule: a plain
scalar is a number only if writing that number gives the same characters again, so `012`, `1.50` and
`+14155550101` stay text.
"""

from __future__ import annotations

import gc
import json
import re
import sys
import unicodedata
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import yaml
from yaml import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent

from runner.source.diagnostic import Diagnostic, Position, ProblemError
from runner.source.stand_in import find_stand_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML without libyaml: the same events, slower
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

MAX_DEPTH = 64
"""Levels of nesting; a campaign needs seven."""
MAX_ALIASED_NODES = 10_000
"""Nodes that aliases may add in all; bounds "billion laughs"."""
_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})", re.ASCII)
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+", re.ASCII)
_NO_STARTS = "\t@`%*&!|>"
"""Characters that have a meaning to YAML at the start of a value."""
_QUOTES_WITHIN = {
    '"': """a `"` within the text ends it: write `\\"` there, or the whole text in 'single quotes'""",
    "'": """a `'` within the text ends it: write it twice, or the whole text in "double quotes\"""",
}
_INDENT = re.compile(r"^ *(?:- +)*")
_GENERAL = "check the indentation and the blank behind each `key:`, and put text in quotes, or below a `|`"

Key = str | int


class Place(NamedTuple):
    """Place of an entry of a mapping or sequence; lines and columns count from 0.

    In a sequence, the key's place is the value's. `style` is the scalar style (`|`, `>`, `"`, `'`), empty for
    plain scalars and collections.
    """

    file: Path
    key_line: int
    key_column: int
    line: int
    column: int
    style: str

    def at_value(self) -> Position:
        """Return the position of the entry's value."""
        return Position(self.file, self.line + 1, self.column + 1)


Places = dict[int, dict[Key, Place]]
"""The places of entries by key or index, by the ids of their containers."""


@dataclass(slots=True)
class YamlDocument:
    """A parsed document: plain data with positions. It is usable despite problems such as duplicate keys.

    Attributes:
        unused: anchors of scalars that no alias repeats, by line and column from 0.
    """

    file: Path
    data: Any
    text: str
    problems: list[Diagnostic] = field(default_factory=list)
    unused: dict[tuple[int, int], str] = field(default_factory=dict)
    _places: Places = field(default_factory=dict)
    _others: list[YamlDocument] = field(default_factory=list)
    _copies: dict[str, dict[str, Any]] = field(default_factory=dict)
    lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.lines = self.text.splitlines()

    def place(self, container: dict[str, Any] | list[Any], key: Key) -> Place | None:
        """Return the place of the entry `key` of `container`, an object of this document."""
        return self._places.get(id(container), {}).get(key)

    def adopt(self, key: str, other: YamlDocument, parent: dict[str, Any]) -> Iterator[str]:
        """Add what the mapping `key` of `parent`, in another document, has to that of this document's data.

        Entries that are there already stay; each new one is yielded, and keeps its place in its file. The
        mapping is replaced by a copy first, since an alias may have it stand elsewhere, too.
        """
        if key not in self._copies:
            former = self.data.get(key)
            merged = self._copies[key] = dict(former or {})
            self._places[id(merged)] = dict(self._places.get(id(former), {}))
            if former is None:
                self.take(self.data, key, other, parent)
            self.data[key] = merged
        merged = self._copies[key]
        for name in parent[key]:
            if name not in merged:
                self.take(merged, name, other, parent[key])
                yield name

    def take(self, container: dict[str, Any], key: str, other: YamlDocument, source: dict[str, Any]) -> None:
        """Set an entry to that of a mapping of another document, and keep its place there."""
        container[key] = source[key]
        # The ids of its containers are theirs as long as it is there.
        self._others.append(other)
        self._places |= other._places
        self._places[id(container)][key] = other._places[id(source)][key]

    def position_of(self, container: dict[str, Any] | list[Any], key: Key) -> Position:
        """Return the position of an entry's value; the file's start if there is none."""
        place = self.place(container, key)
        return Position(self.file, 1, 1) if place is None else place.at_value()

    def position(self, path: list[Key], *, at_key: bool = False) -> Position:
        """Return the position of the value, or the key, at `path`, or of its nearest ancestor."""
        place: Place | None = None
        value = self.data
        for key in path:
            found = self.place(value, key) if isinstance(value, (dict, list)) else None
            if found is None:
                at_key = False
                break
            place, value = found, value[key]
        if place is None:
            return Position(self.file, 1, 1)
        if at_key:
            return Position(place.file, place.key_line + 1, place.key_column + 1)
        return place.at_value()


def read_plain(text: str) -> str | int | float | bool | None:
    """Return the value of a plain scalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] in "-0123456789":
        if _INTEGER.fullmatch(text) and text != "-0":
            return int(text)
        if _DECIMAL.fullmatch(text) and repr(float(text)) == text:
            return float(text)
    return text


@contextmanager
def pause_collector() -> Iterator[None]:
    """Pause the cycle collector, which would walk a growing tree again and again in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def read_yaml(text: str, file: Path) -> YamlDocument:
    """Parse one YAML document; `file` is only named in problems.

    Raises:
        ProblemError: the text cannot be turned into data.
    """
    if (stand_in := find_stand_in(file, text.encode("utf-8", "replace"))) is not None:
        raise ProblemError(stand_in)
    try:
        with pause_collector():
            builder = _Builder(file, _Loader(text).get_event, text)
            data = builder.build()
    except yaml.MarkedYAMLError as error:
        place, words, hint = _explain_syntax(error, text)
        _refuse(file, "yaml-syntax", words, place, hint)
    except yaml.reader.ReaderError as error:
        shown = f"U+{error.character:04X}" if isinstance(error.character, int) else repr(error.character)
        message = f"the character {shown} may not stand in YAML"
        _refuse(file, "yaml-character", message, _make_mark(text, error.position), "remove it")
    unused = {(mark.line, mark.column): anchor for anchor, mark in builder.unused.items()}
    return YamlDocument(file, data, text, builder.problems, unused, builder.places)


class _Builder:
    """A builder of data from events by recursive descent; event types are compared by identity, for speed."""

    def __init__(self, file: Path, next_event: Callable[[], Any], text: str) -> None:
        self.file = file
        self._text = text
        self.problems: list[Diagnostic] = []
        self.places: Places = {}
        self._next = next_event
        self._depth = 0
        self._anchors: dict[str, tuple[Any, int]] = {}
        self.unused: dict[str, yaml.Mark] = {}  # Anchors of scalars that no alias has repeated yet.
        self._nodes = 0  # Values of finished collections, including those that aliases add.
        self._aliased_nodes = 0

    def build(self) -> Any:
        """Return the data of the only document; None if there is none."""
        data = None
        is_started = False
        while type(event := self._next()) is not yaml.StreamEndEvent:
            if type(event) is not yaml.DocumentStartEvent:
                continue
            if is_started:
                self._stop(
                    "yaml-documents",
                    "a second document starts here",
                    event.start_mark,
                    "one file is one document: remove the `---`, or move the rest to a file of its own",
                )
            is_started = True
            data = self._read(self._next())
        return data

    def _read(self, event: Any) -> Any:
        """Return the value that starts with an event."""
        self._nodes += 1
        kind = type(event)
        if kind is AliasEvent:
            return self._read_alias(event)
        if event.tag is not None:
            self._stop(
                "yaml-tag",
                f"the tag {event.tag.replace('tag:yaml.org,2002:', '!!', 1)} is not allowed",
                event.start_mark,
                "write plain values; put the whole text in quotes",
            )
        before = self._nodes
        if kind is ScalarEvent:
            value = event.value if event.style else read_plain(event.value)
        elif self._depth >= MAX_DEPTH:
            self._stop("yaml-depth", f"nested more than {MAX_DEPTH} levels deep", event.start_mark, None)
        else:
            self._depth += 1
            value = self._read_mapping() if kind is MappingStartEvent else self._read_sequence()
            self._depth -= 1
        if event.anchor:
            self._anchors[event.anchor] = (value, 1 + self._nodes - before)
            if kind is ScalarEvent:
                self.unused[event.anchor] = event.start_mark
        return value

    def _read_mapping(self) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        places = self.places[id(mapping)] = {}
        while type(key_event := self._next()) is not MappingEndEvent:
            key = self._read_key(key_event, places)
            event = self._next()
            value = self._read(event)
            if key is not None:
                mapping[key] = value
                places[key] = self._find_place(key_event.start_mark, event)
        return mapping

    def _read_sequence(self) -> list[Any]:
        sequence: list[Any] = []
        places = self.places[id(sequence)] = {}
        while type(event := self._next()) is not SequenceEndEvent:
            places[len(sequence)] = self._find_place(event.start_mark, event)
            sequence.append(self._read(event))
        return sequence

    def _find_place(self, key: Any, event: Any) -> Place:
        mark, style = event.start_mark, (event.style or "") if type(event) is ScalarEvent else ""
        return Place(self.file, key.line, key.column, mark.line, mark.column, style)

    def _read_key(self, event: Any, places: dict[Key, Place]) -> str | None:
        """Return a key; None, with a problem noted, if it cannot be one."""
        if type(event) not in (ScalarEvent, AliasEvent):
            self._stop(
                "yaml-key",
                "a list or mapping cannot be a key",
                event.start_mark,
                "text that starts with `{` or `[` needs quotes",
            )
        key = self._read(event)
        if not isinstance(key, str):
            message = f"the key {json.dumps(key)} is not text"
            self._note("yaml-key", message, event.start_mark, "put it in quotes")
            return None
        # Recipients repeat their keys, and share one string each.
        key = sys.intern(key) if key.isascii() else unicodedata.normalize("NFC", key)
        if key in places:
            message = f"the key `{key}` stands twice; first in line {places[key].key_line + 1}"
            self._note("yaml-duplicate-key", message, event.start_mark, "keep one of them")
            return None
        return key

    def _read_alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            self._stop(
                "yaml-alias",
                f"the alias *{event.anchor} stands for nothing before it",
                event.start_mark,
                f"put the whole text in quotes, or write &{event.anchor} at the value that it repeats",
            )
        self.unused.pop(event.anchor, None)
        value, nodes = self._anchors[event.anchor]
        self._nodes += nodes - 1
        self._aliased_nodes += nodes
        if self._aliased_nodes > MAX_ALIASED_NODES:
            self._stop(
                "yaml-alias-bomb",
                f"aliases repeat more than {MAX_ALIASED_NODES:,} values",
                event.start_mark,
                "write the values out, or move the recipients to a CSV",
            )
        return value

    def _note(self, code: str, message: str, mark: yaml.Mark, hint: str) -> None:
        self.problems.append(
            Diagnostic("error", code, message, self.file, mark.line + 1, mark.column + 1, hint)
        )

    def _stop(self, code: str, message: str, mark: Any, hint: str | None) -> NoReturn:
        _refuse(self.file, code, message, mark, hint)


def _refuse(file: Path, code: str, message: str, mark: yaml.Mark, hint: str | None) -> NoReturn:
    """Raise the error for a text that cannot be read as a document."""
    problem = Diagnostic("error", code, message, file, mark.line + 1, mark.column + 1, hint)
    raise ProblemError(problem) from None


def _explain_syntax(error: yaml.MarkedYAMLError, text: str) -> tuple[yaml.Mark, str, str]:
    """Return where a parser refused a text, why, and a hint.

    What it is follows from the characters at the parser's marks: each release words its errors anew.
    """
    noticed = error.problem_mark or error.context_mark or _make_mark(text, 0)
    began = error.context_mark or noticed
    message = f"this is not YAML: {error.problem}"
    first, at = _character(began, text), _character(noticed, text)
    if first in "\"'" and not "".join(text.splitlines()[noticed.line :])[noticed.column :].strip():
        return began, "this quote is never closed", "close it where the text ends"
    if at == "\t":
        return noticed, "a tab stands in the indentation", "YAML is indented with blanks: replace the tab"
    for mark, character in ((began, first), (noticed, at)):
        if character in _NO_STARTS:
            return mark, f"text cannot start with `{character}` here", "put it in quotes"
    if (bare := _find_bare_key(began, noticed, text)) is not None:
        word = _read_line(bare, text)[bare.column :].split()[0]
        return (
            bare,
            f"there is no `:` behind `{word}`",
            f"write `{word}:`, or indent what goes on with a text",
        )
    before = _read_line(noticed, text)[: noticed.column].strip()
    return noticed, message, _advise(first, at, before)


def _find_bare_key(began: yaml.Mark, noticed: yaml.Mark, text: str) -> yaml.Mark | None:
    """Return where a key without its colon stands; None if that is not certain."""
    if began.line == noticed.line:
        # Or the parser took it for a text that goes on with the next key, at the same indentation.
        line = _read_line(noticed, text)
        before = text.splitlines()[noticed.line - 1] if noticed.line else ""
        start = len(before) - len(_INDENT.sub("", before))
        if _character(noticed, text) != ":" or start != len(line) - len(line.lstrip()):
            return None
        began = yaml.Mark("", 0, noticed.line - 1, start, "", 0)
    key = _read_line(began, text)[began.column :]
    return began if key[:1].isalnum() and ":" not in key else None


def _advise(first: str, at: str, before: str) -> str:
    if first in "[{":
        return f"close the `{first}`, put `,` between its entries, and text with `{first}` or ` #` in quotes"
    if first == '"' and at == "\\":
        return "write a backslash twice, or the text in 'single quotes'"
    if before[-1:] in _QUOTES_WITHIN:
        return _QUOTES_WITHIN[before[-1]]
    if at == ":" and ": " in before:
        return "put text that contains `: ` in quotes"
    return _GENERAL


def _make_mark(text: str, index: int) -> yaml.Mark:
    """Return the mark of a character of a text."""
    line, column = text.count("\n", 0, index), index - text.rfind("\n", 0, index) - 1
    return yaml.Mark("", index, line, column, "", 0)


def _character(mark: yaml.Mark, text: str) -> str:
    return _read_line(mark, text)[mark.column : mark.column + 1] or "\n"


def _read_line(mark: yaml.Mark, text: str) -> str:
    """Return the line of a mark."""
    lines = text.splitlines()
    return lines[mark.line] if mark.line < len(lines) else ""
