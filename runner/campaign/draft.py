"""A definition with everything in place that is the same for everyone, and slots for personal texts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from json.encoder import encode_basestring
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Definition = dict[str, Any]
"""A send body less `phone`. Definitions share their equal parts: none is ever changed."""

_DIGEST_BYTES = 16
_SLOT = "$slot"
"""No field of a send body is called so."""
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a personal text belongs: `index` says which of them, from 0."""

    index: int


class Draft:
    """Fills personal texts into one definition.

    What is the same for everyone is put together and written as JSON once: for a million people
    this is several times cheaper than to start anew, and comes to the same.

    Args:
        shape: the definition, with a `Slot` in the place of each personal text; each index from 0 once.
    """

    def __init__(self, shape: Definition) -> None:
        self._shape = shape
        self._fill = _make_filler(shape)
        parts = list(_write_canonical(shape))
        order = [part.index for part in parts if isinstance(part, Slot)]
        self._order = order if order != sorted(order) else None
        self._paths = dict(_find_slots(shape, ()))
        self._pattern = "".join("%s" if isinstance(part, Slot) else part.replace("%", "%%") for part in parts)

    def fill(self, texts: Sequence[str]) -> Definition:
        """Return the definition with texts in its slots."""
        filled: Definition = self._shape if self._fill is None else self._fill(texts)
        return filled

    def read_texts(self, definition: Definition) -> list[str]:
        """Return the texts that `fill` made a definition with."""
        texts = []
        for index in range(len(self._paths)):
            found: Any = definition
            for key in self._paths[index]:
                found = found[key]
            texts.append(found)
        return texts

    def dump(self) -> Any:
        """Return the shape as JSON, for `load`: a slot is a mapping of its index alone."""
        return _mark_slots(self._shape)

    @classmethod
    def load(cls, dumped: Any) -> Draft:
        """Return the draft that `dump` has written; what it fills is the same to the order of its keys."""
        return cls(_restore_slots(dumped))

    def digest(self, texts: Sequence[str]) -> str:
        """Return the digest of what `fill` returns, by which equal definitions are known.

        128 bits of the definition's canonical JSON, in hexadecimal.
        """
        written = tuple(map(encode_basestring, texts))
        if self._order is not None:
            written = tuple([written[index] for index in self._order])
        return blake2b((self._pattern % written).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def digest_filled(definition: Definition) -> str:
    """Return what `Draft.digest` returns, from the definition itself: whoever made it."""
    return blake2b(_CANONICAL.encode(definition).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _write_canonical(value: Any) -> Iterator[str | Slot]:
    """Yield the canonical JSON of a shape in parts, those between the slots and the slots."""
    if isinstance(value, dict):
        for number, key in enumerate(sorted(value)):
            yield f"{',' if number else '{'}{_CANONICAL.encode(key)}:"
            yield from _write_canonical(value[key])
        yield "}" if value else "{}"
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield "," if number else "["
            yield from _write_canonical(item)
        yield "]" if value else "[]"
    else:
        yield value if isinstance(value, Slot) else _CANONICAL.encode(value)


def _find_slots(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[int, tuple[str | int, ...]]]:
    if isinstance(value, Slot):
        yield value.index, path
    elif isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _find_slots(item, (*path, key))


def _mark_slots(value: Any) -> Any:
    if isinstance(value, Slot):
        return {_SLOT: value.index}
    if isinstance(value, dict):
        return {key: _mark_slots(item) for key, item in value.items()}
    return [_mark_slots(item) for item in value] if isinstance(value, list) else value


def _restore_slots(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_SLOT}:
            return Slot(value[_SLOT])
        return {key: _restore_slots(item) for key, item in value.items()}
    return [_restore_slots(item) for item in value] if isinstance(value, list) else value


def _make_filler(shape: Any) -> Callable[[Sequence[str]], Any] | None:
    """Return what fills a shape; None if there is no slot in it."""
    if isinstance(shape, Slot):
        return itemgetter(shape.index)
    if not isinstance(shape, (dict, list)):
        return None
    items = shape.items() if isinstance(shape, dict) else enumerate(shape)
    fillers = [(key, filler) for key, item in items if (filler := _make_filler(item))]

    def fill(texts: Sequence[str]) -> Any:
        filled = shape.copy()
        for key, filler in fillers:
            filled[key] = filler(texts)
        return filled

    return fill if fillers else None
