"""A document as data, with the place of each of its values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from runner.source.diagnostic import Diagnostic

if TYPE_CHECKING:
    from pathlib import Path

Key = str | int


class YamlProblemError(Exception):
    """The text is not YAML, or YAML that a campaign repository doesn't accept.

    Attributes:
        diagnostic: what is wrong and where.
    """

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class Place(NamedTuple):
    """Where an entry of a mapping or sequence stands; lines and columns count from 0.

    Attributes:
        key_line: line of the entry's key; of the value, in a sequence.
        key_column: column of the entry's key; of the value, in a sequence.
        line: line of the value.
        column: column of the value.
        style: the value's scalar style (`|`, `>`, `"`, `'`), empty for plain ones and collections.
    """

    key_line: int
    key_column: int
    line: int
    column: int
    style: str


_WIDTH = 4
"""What is kept of an entry: its key or index, the marks of key and value, the value's style."""


@dataclass(slots=True)
class Places:
    """Where the entries of a document's containers stand.

    A document of many recipients has many places and looks few of them up: the parser's own marks are
    kept, in one list for each container, and become a `Place` when asked for.
    """

    _entries: dict[int, list[Any]] = field(default_factory=dict)
    _starts: dict[int, dict[Key, int]] = field(default_factory=dict)

    def open(self, container: dict[str, Any] | list[Any]) -> list[Any]:
        """Take in a container, which must live as long as these places.

        Returns:
            For the caller to fill, four values an entry: its key or index, the marks of key and value,
            the value's style.
        """
        entries = self._entries[id(container)] = []
        # A container that was left out may have had the same id.
        self._starts.pop(id(container), None)
        return entries

    def find(self, container: dict[str, Any] | list[Any], key: Key) -> Place | None:
        """Return the place of the entry `key` of `container`, None if either is unknown."""
        start, entries = self._find_entry(container, key)
        if start < 0:
            return None
        _, key_mark, mark, style = entries[start : start + _WIDTH]
        return Place(key_mark.line, key_mark.column, mark.line, mark.column, style)

    def find_value(self, container: dict[str, Any] | list[Any], key: Key) -> tuple[int, int] | None:
        """Return line and column, from 0, of the value of an entry, None if there is none."""
        start, entries = self._find_entry(container, key)
        if start < 0:
            return None
        mark = entries[start + 2]
        return mark.line, mark.column

    def _find_entry(self, container: dict[str, Any] | list[Any], key: Key) -> tuple[int, list[Any]]:
        """Return where in which list an entry starts, below 0 if it is unknown."""
        entries = self._entries.get(id(container))
        if not entries:
            return -1, []
        if entries[0] == key:
            return 0, entries
        starts = self._starts.setdefault(id(container), {})
        # The container may have grown since the last look.
        for start in range(len(starts) * _WIDTH, len(entries), _WIDTH):
            starts[entries[start]] = start
        return starts.get(key, -1), entries


@dataclass(slots=True)
class YamlDocument:
    """A parsed document: plain data, and the place of each of its values.

    Attributes:
        file: where the text came from.
        data: dicts, lists, strings, numbers, booleans and None.
        text: the document as it was written.
        problems: duplicate keys and the like; the data is usable all the same.
    """

    file: Path
    data: Any
    text: str
    problems: list[Diagnostic] = field(default_factory=list)
    _places: Places = field(default_factory=Places)
    _lines: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """The text's lines; split when first asked for, as most documents are read without them."""
        if not self._lines:
            self._lines = self.text.splitlines()
        return self._lines

    def place(self, container: dict[str, Any] | list[Any], key: Key) -> Place | None:
        """Return where the entry `key` of `container`, an object of this document, stands."""
        return self._places.find(container, key)

    def place_of_value(self, container: dict[str, Any] | list[Any], key: Key) -> tuple[int, int] | None:
        """Return line and column, from 0, of the value of the entry `key` of `container`."""
        return self._places.find_value(container, key)

    def locate(self, path: list[Key], *, at_key: bool = False) -> tuple[int, int]:
        """Return line and column, from 1, of the value at `path`.

        Args:
            path: keys and indices from the root. What doesn't exist is located at its nearest ancestor.
            at_key: the place of the key rather than of its value.
        """
        place: Place | None = None
        value = self.data
        for key in path:
            found = self.place(value, key) if isinstance(value, (dict, list)) else None
            if found is None:
                at_key = False
                break
            place, value = found, value[key]
        if place is None:
            return 1, 1
        if at_key:
            return place.key_line + 1, place.key_column + 1
        return place.line + 1, place.column + 1


def refuse_document(
    file: Path, code: str, message: str, line: int, column: int, hint: str | None
) -> NoReturn:
    """Raise the error that says why a file cannot be read as a document."""
    raise YamlProblemError(Diagnostic("error", code, message, file, line, column, hint)) from None
