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

from runner.source.diagnostic import Diagnostic, Position
from runner.source.stand_in import find_stand_in
from runner.source.yaml_faults import explain_syntax, make_mark

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

Key = str | int


class YamlProblemError(Exception):
    """Text that is not YAML, or YAML that a campaign repository doesn't accept."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


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


Places = dict[int, dict[Key, tuple[Any, Any, str]]]
"""The marks of key and value, and the value's style, by key or index, by the ids of containers."""


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
    _others: dict[Path, YamlDocument] = field(default_factory=dict)
    _adopted: dict[tuple[int, Key], Path] = field(default_factory=dict)
    _copies: dict[str, dict[str, Any]] = field(default_factory=dict)
    lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.lines = self.text.splitlines()

    def place(self, container: dict[str, Any] | list[Any], key: Key) -> Place | None:
        """Return the place of the entry `key` of `container`, an object of this document."""
        found = self._places.get(id(container), {}).get(key)
        if found is None:
            elsewhere = (other.place(container, key) for other in self._others.values())
            return next(filter(None, elsewhere), None)
        key_mark, mark, style = found
        file = self._adopted.get((id(container), key), self.file)
        return Place(file, key_mark.line, key_mark.column, mark.line, mark.column, style)

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
        self._places[id(container)][key] = other._places[id(source)][key]
        self._adopted[id(container), key] = other.file
        self._others[other.file] = other

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
        YamlProblemError: the text cannot be turned into data.
    """
    stand_in = find_stand_in(text.encode("utf-8", "replace"))
    if stand_in is not None:
        place = yaml.Mark("", 0, stand_in.line - 1, 0, "", 0)
        _refuse(file, stand_in.code, stand_in.message, place, stand_in.hint)
    try:
        with pause_collector(), _open_parser(text) as next_event:
            builder = _Builder(file, next_event, text)
            data = builder.build()
    except yaml.MarkedYAMLError as error:
        place, words, hint = explain_syntax(error, text)
        _refuse(file, "yaml-syntax", words, place, hint)
    except yaml.reader.ReaderError as error:
        shown = f"U+{error.character:04X}" if isinstance(error.character, int) else repr(error.character)
        message = f"the character {shown} may not stand in YAML"
        _refuse(file, "yaml-character", message, make_mark(text, error.position), "remove it")
    unused = {(mark.line, mark.column): anchor for anchor, mark in builder.unused.items()}
    return YamlDocument(file, data, text, builder.problems, unused, builder.places)


@contextmanager
def _open_parser(text: str) -> Iterator[Callable[[], Any]]:
    """Yield the function that returns a text's next event."""
    parser = _Loader(text)
    try:
        yield parser.get_event
    finally:
        parser.dispose()


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
                style = (event.style or "") if type(event) is ScalarEvent else ""
                places[key] = key_event.start_mark, event.start_mark, style
        return mapping

    def _read_sequence(self) -> list[Any]:
        sequence: list[Any] = []
        places = self.places[id(sequence)] = {}
        while type(event := self._next()) is not SequenceEndEvent:
            style = (event.style or "") if type(event) is ScalarEvent else ""
            places[len(sequence)] = event.start_mark, event.start_mark, style
            sequence.append(self._read(event))
        return sequence

    def _read_key(self, event: Any, places: dict[Key, Any]) -> str | None:
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
            message = f"the key `{key}` stands twice; first in line {places[key][0].line + 1}"
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
    raise YamlProblemError(problem) from None
