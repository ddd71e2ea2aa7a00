"""YAML with the place of every value; the one door through which YAML is read.

The parser's events are turned into plain data directly: no object is ever constructed, keys are
unique, and what a plain scalar means is what a reader sees. YAML 1.2's core schema is narrowed by
one rule: a plain scalar is a number only if writing that number gives the same characters again,
so `012`, `1.50` and `+14155550101` stay the text that they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import yaml

from runner.source.diagnostic import Diagnostic
from runner.source.document import Key, Place, YamlDocument, refuse_document
from runner.source.syntax import Spot, explain_syntax

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML was built without libyaml: the same events, slower
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


def read_yaml(text: str, file: Path) -> YamlDocument:
    """Parse one YAML document.

    Args:
        text: the document.
        file: named in problems; not read.

    Raises:
        YamlProblemError: the text cannot be turned into data.
    """
    builder = _Builder(file)
    try:
        for event in yaml.parse(text, Loader=_Loader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        noticed = error.problem_mark or error.context_mark
        fault = explain_syntax(
            error.problem or "", _spot(noticed), _spot(error.context_mark or noticed), text
        )
        refuse_document(file, "yaml-syntax", fault.message, fault.line, fault.column, fault.hint)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        shown = f"U+{error.character:04X}" if isinstance(error.character, int) else repr(error.character)
        message = f"the character {shown} may not stand in YAML"
        refuse_document(file, "yaml-character", message, line, column, "remove it")
    return YamlDocument(file, builder.root, text.splitlines(), builder.problems, builder.places)


def _spot(mark: yaml.Mark | None) -> Spot:
    return Spot(mark.line, mark.column) if mark else Spot(0, 0)


@dataclass(slots=True)
class _Open:
    """A collection whose end has not been seen."""

    container: dict[str, Any] | list[Any]
    places: dict[Key, Place]
    anchor: str | None
    mark: yaml.Mark
    nodes: int = 1
    key: str | None = None
    key_mark: yaml.Mark | None = None


class _Builder:
    """Builds data from events; see `YamlDocument` for what comes out."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.root: Any = None
        self.problems: list[Diagnostic] = []
        self.places: dict[int, dict[Key, Place]] = {}
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._documents = 0
        self._aliased_nodes = 0
        self._takers = {
            yaml.ScalarEvent: self._take_scalar,
            yaml.MappingStartEvent: self._open_mapping,
            yaml.SequenceStartEvent: self._open_sequence,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
            yaml.AliasEvent: self._take_alias,
            yaml.DocumentStartEvent: self._start_document,
        }

    def take(self, event: yaml.Event) -> None:
        taker = self._takers.get(type(event))
        if taker is not None:
            taker(event)

    def _start_document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            self._stop(
                "yaml-documents",
                "a second document starts here",
                event.start_mark,
                "one file is one document: remove the `---`, or move the rest to a file of its own",
            )

    def _take_scalar(self, event: Any) -> None:
        if event.tag is not None:
            self._refuse_tag(event)
        value: Any = event.value
        style = event.style or ""
        if style == "" and event.implicit[0]:
            value = _resolve(value)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._put(value, event.start_mark, style, 1)

    def _open_mapping(self, event: Any) -> None:
        self._open(event, {})

    def _open_sequence(self, event: Any) -> None:
        self._open(event, [])

    def _open(self, event: Any, container: dict[str, Any] | list[Any]) -> None:
        if event.tag is not None:
            self._refuse_tag(event)
        if len(self._stack) >= MAX_DEPTH:
            self._stop("yaml-depth", f"nested more than {MAX_DEPTH} levels deep", event.start_mark, None)
        if self._stack and isinstance(self._stack[-1].container, dict) and self._stack[-1].key_mark is None:
            self._stop(
                "yaml-key",
                "a list or mapping cannot be a key",
                event.start_mark,
                "a text that starts with `{` or `[` needs quotes",
            )
        places: dict[Key, Place] = {}
        self.places[id(container)] = places
        self._stack.append(_Open(container, places, event.anchor, event.start_mark))

    def _close(self, _event: Any) -> None:
        done = self._stack.pop()
        if done.anchor:
            self._anchors[done.anchor] = (done.container, done.nodes)
        self._put(done.container, done.mark, "", done.nodes)

    def _take_alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            self._stop(
                "yaml-alias",
                f"the alias *{event.anchor} stands for nothing before it",
                event.start_mark,
                f"write &{event.anchor} at the value that it repeats",
            )
        value, nodes = self._anchors[event.anchor]
        self._aliased_nodes += nodes
        if self._aliased_nodes > MAX_ALIASED_NODES:
            self._stop(
                "yaml-alias-bomb",
                f"aliases repeat more than {MAX_ALIASED_NODES:,} values",
                event.start_mark,
                "write the values out, or move the recipients to a CSV",
            )
        self._put(value, event.start_mark, "", nodes)

    def _put(self, value: Any, mark: yaml.Mark, style: str, nodes: int) -> None:
        if not self._stack:
            self.root = value
            return
        top = self._stack[-1]
        top.nodes += nodes
        container = top.container
        line, column = mark.line, mark.column
        if isinstance(container, list):
            top.places[len(container)] = Place(line, column, line, column, style)
            container.append(value)
        elif top.key_mark is None:
            self._take_key(top, value, mark)
        else:
            key_mark, top.key_mark = top.key_mark, None
            key, top.key = top.key, None
            if key is not None:
                top.places[key] = Place(key_mark.line, key_mark.column, line, column, style)
                container[key] = value

    def _take_key(self, top: _Open, value: Hashable, mark: yaml.Mark) -> None:
        top.key_mark = mark
        if not isinstance(value, str):
            self._note("yaml-key", f"the key {_written(value)} is not a text", mark, "put it in quotes")
            return
        if value in top.places:
            first = top.places[value].key_line + 1
            self._note(
                "yaml-duplicate-key",
                f"the key `{value}` stands twice; first in line {first}",
                mark,
                "keep one of them",
            )
            return
        top.key = value

    def _refuse_tag(self, event: Any) -> NoReturn:
        self._stop(
            "yaml-tag",
            f"the tag {_short_tag(event.tag)} is not allowed",
            event.start_mark,
            "write plain values; put a text in quotes",
        )

    def _note(self, code: str, message: str, mark: yaml.Mark, hint: str) -> None:
        self.problems.append(
            Diagnostic("error", code, message, self.file, mark.line + 1, mark.column + 1, hint)
        )

    def _stop(self, code: str, message: str, mark: yaml.Mark, hint: str | None) -> NoReturn:
        refuse_document(self.file, code, message, mark.line + 1, mark.column + 1, hint)


def _resolve(text: str) -> str | int | float | bool | None:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] in "-0123456789":
        if _INTEGER.fullmatch(text) and text != "-0":
            return int(text)
        if _DECIMAL.fullmatch(text) and repr(float(text)) == text:
            return float(text)
    return text


def _written(value: Hashable) -> str:
    if value is None:
        return "(nothing)"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _short_tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!", 1)
