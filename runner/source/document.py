"""A document as data, with the place of each of its values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from runner.source.diagnostic import Diagnostic

if TYPE_CHECKING:
    from pathlib import Path

Key = str | int
BarePlace = tuple[int, int, int, int, str]
"""The fields of a `Place`, in its order."""


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


@dataclass(slots=True)
class Places:
    """Where the entries of a document's containers stand.

    A document of many recipients has many places and looks few of them up: they are kept as bare
    tuples, which cost a third of a `Place` to make, and become one when asked for.
    """

    _by_container: dict[int, dict[Key, BarePlace]] = field(default_factory=dict)

    def open(self, container: dict[str, Any] | list[Any]) -> dict[Key, BarePlace]:
        """Take in a container, which must live as long as these places.

        Returns:
            For the caller to fill: the places of its entries, by key or index.
        """
        places = self._by_container[id(container)] = {}
        return places

    def find(self, container: dict[str, Any] | list[Any], key: Key) -> Place | None:
        """Return the place of the entry `key` of `container`, None if either is unknown."""
        places = self._by_container.get(id(container))
        bare = places.get(key) if places else None
        return Place._make(bare) if bare else None


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
