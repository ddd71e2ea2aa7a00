"""YAML with the place of every value; the one door through which YAML is read.

The parser's events are turned into plain data directly: no object is ever constructed, keys are
unique, and what a plain scalar means is what a reader sees. YAML 1.2's core schema is narrowed by
one rule: a plain scalar is a number only if writing that number gives the same characters again,
so `012`, `1.50` and `+14155550101` stay the text that they are.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import yaml
from yaml import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent

from runner.source.collector import pause_collector
from runner.source.diagnostic import Diagnostic
from runner.source.document import Places, YamlDocument, refuse_document
from runner.source.syntax import Spot, explain_syntax
from runner.source.yaml_scalar import read_plain, write_scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML was built without libyaml: the same events, slower
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

MAX_DEPTH = 64
"""Levels of nesting; a campaign needs seven."""
MAX_ALIASED_NODES = 10_000
"""Nodes that aliases may add in all; bounds "billion laughs"."""


def read_yaml(text: str, file: Path) -> YamlDocument:
    """Parse one YAML document.

    Args:
        text: the document.
        file: named in problems; not read.

    Raises:
        YamlProblemError: the text cannot be turned into data.
    """
    try:
        with pause_collector(), _open_parser(text) as next_event:
            builder = _Builder(file, next_event)
            data = builder.build()
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
    return YamlDocument(file, data, text, builder.problems, builder.places)


@contextmanager
def _open_parser(text: str) -> Iterator[Callable[[], Any]]:
    """Give the function that returns a text's next event."""
    parser = _Loader(text)
    try:
        yield parser.get_event
    finally:
        parser.dispose()


def _spot(mark: yaml.Mark | None) -> Spot:
    return Spot(mark.line, mark.column) if mark else Spot(0, 0)


class _Builder:
    """Builds data from events by recursive descent; see `YamlDocument` for what comes out.

    An event's type is compared by identity, not `isinstance`: the parser makes no subclasses, and
    this runs for every value of a file.
    """

    def __init__(self, file: Path, next_event: Callable[[], Any]) -> None:
        self.file = file
        self.problems: list[Diagnostic] = []
        self.places = Places()
        self._next = next_event
        self._depth = 0
        # Keys that are texts in quotes or without: recipients repeat them, and share one string each.
        self._keys: dict[str, str] = {}
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._nodes = 0  # within the collections that have ended, with what aliases add to them
        self._aliased_nodes = 0

    def build(self) -> Any:
        """Return the data of the only document, None if there is none."""
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
        kind = type(event)
        if kind is ScalarEvent:
            return self._read_scalar(event)
        if kind is AliasEvent:
            return self._read_alias(event)
        if event.tag is not None or self._depth >= MAX_DEPTH:
            self._check_start(event)
        self._depth += 1
        before = self._nodes
        value = self._read_mapping() if kind is MappingStartEvent else self._read_sequence()
        self._depth -= 1
        if event.anchor:
            self._anchors[event.anchor] = (value, 1 + self._nodes - before)
        return value

    def _read_scalar(self, event: Any) -> Any:
        if event.tag is not None:
            self._refuse_tag(event)
        value = event.value if event.style else read_plain(event.value)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        return value

    def _read_mapping(self) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        entries = self.places.open(mapping)
        next_event, keys = self._next, self._keys
        while type(key_event := next_event()) is not MappingEndEvent:
            is_bare = type(key_event) is ScalarEvent and key_event.tag is None and key_event.anchor is None
            key = keys.get(key_event.value) if is_bare else None
            if key is None or key in mapping:
                key = self._read_key(key_event, mapping)
            event = next_event()
            if type(event) is not ScalarEvent:
                value, style = self._read(event), ""
            elif event.tag is None and event.anchor is None:
                style = event.style or ""
                value = event.value if style else read_plain(event.value)
            else:
                value, style = self._read_scalar(event), event.style or ""
            if key is None:
                self._nodes += 2
                continue
            mapping[key] = value
            entries += (key, key_event.start_mark, event.start_mark, style)
        self._nodes += 2 * len(mapping)
        return mapping

    def _read_sequence(self) -> list[Any]:
        sequence: list[Any] = []
        entries = self.places.open(sequence)
        while type(event := self._next()) is not SequenceEndEvent:
            style = (event.style or "") if type(event) is ScalarEvent else ""
            entries += (len(sequence), event.start_mark, event.start_mark, style)
            sequence.append(self._read(event))
        self._nodes += len(sequence)
        return sequence

    def _read_key(self, event: Any, mapping: dict[str, Any]) -> str | None:
        """Return a key, or None and note why it cannot be one."""
        key = self._read_new_key(event)
        if not isinstance(key, str):
            message = f"the key {write_scalar(key)} is not a text"
            self._note("yaml-key", message, event.start_mark, "put it in quotes")
            return None
        if first := self.places.find(mapping, key):
            message = f"the key `{key}` stands twice; first in line {first.key_line + 1}"
            self._note("yaml-duplicate-key", message, event.start_mark, "keep one of them")
            return None
        if read_plain(key) == key:
            self._keys[key] = key
        return key

    def _read_new_key(self, event: Any) -> Any:
        kind = type(event)
        if kind is not ScalarEvent and kind is not AliasEvent:
            self._check_start(event)
            self._stop(
                "yaml-key",
                "a list or mapping cannot be a key",
                event.start_mark,
                "a text that starts with `{` or `[` needs quotes",
            )
        return self._read_scalar(event) if kind is ScalarEvent else self._read_alias(event)

    def _read_alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            self._stop(
                "yaml-alias",
                f"the alias *{event.anchor} stands for nothing before it",
                event.start_mark,
                f"write &{event.anchor} at the value that it repeats",
            )
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

    def _check_start(self, event: Any) -> None:
        """Refuse a collection with a tag, or too deep."""
        if event.tag is not None:
            self._refuse_tag(event)
        if self._depth >= MAX_DEPTH:
            self._stop("yaml-depth", f"nested more than {MAX_DEPTH} levels deep", event.start_mark, None)

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

    def _stop(self, code: str, message: str, mark: Any, hint: str | None) -> NoReturn:
        refuse_document(self.file, code, message, mark.line + 1, mark.column + 1, hint)


def _short_tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!", 1)
