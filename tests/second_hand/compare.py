"""A report held against the figures that were computed again, leaf by leaf of the report's schema."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tests.second_hand.tables import Matching, Within

if TYPE_CHECKING:
    from collections.abc import Iterator

    Schema = dict[str, Any]

_HALF = 0.5000001e-4
"""How far a figure may be from one that is rounded to four places."""
_FLOATING = 1e-9
"""How far the arithmetic of two hands may lead apart, as a part of a figure."""
_SIGNIFICANT = 5.000001e-4
"""How far a p-value or an error of four significant figures may be from what it was, as a part of it."""


@dataclass
class Comparison:
    """What was compared, and what differs.

    Attributes:
        compared: how often each path of the schema was compared.
        told: how often the figure there was not null.
        differences: in words.
    """

    schema: Schema
    exempt: dict[str, str]
    compared: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def list_paths(self) -> set[str]:
        """Return the path of every leaf that the schema has, but those that are exempt."""
        below = tuple(f"{path}/" for path in self.exempt)
        leaves = _list_leaves(self.schema, self.schema, "", ())
        return {path for path in leaves if path not in self.exempt and not path.startswith(below)}

    def compare(self, report: Any, expected: Any, about: str) -> None:
        """Compare a whole report."""
        self._compare(self.schema, report, expected, "", about)

    def _compare(self, schema: Schema, found: Any, expected: Any, path: str, about: str) -> None:
        schema = _resolve(self.schema, schema)
        if path in self.exempt:
            return
        if found is None or expected is None:
            self._note(found is None and expected is None, found, expected, about)
            for leaf in _list_leaves(self.schema, schema, path, ()):
                self.compared[leaf] += 1
        elif "properties" in schema:
            self._compare_object(schema, found, expected, path, about)
        elif "items" in schema:
            if path.endswith("partly_known"):
                found = sorted(found, key=_tell_name)
                expected = sorted(expected, key=_tell_name)
            self._note(len(found) == len(expected), found, expected, f"{about} (length)")
            for number, (one, other) in enumerate(zip(found, expected, strict=False)):
                self._compare(schema["items"], one, other, f"{path}[]", f"{about}[{number}]")
        else:
            self.compared[path] += 1
            self.told[path] += 1
            self._note(_are_alike(found, expected, path), found, expected, about)

    def _compare_object(self, schema: Schema, found: Any, expected: Any, path: str, about: str) -> None:
        for name, own in schema["properties"].items():
            where = f"{path}/{name}"
            if where in self.exempt or f"{where}[]" in self.exempt:
                continue
            if name not in expected or name not in found:
                self.differences.append(f"{about}/{name}: stands in one of both alone")
                continue
            self._compare(own, found[name], expected[name], where, f"{about}/{name}")
        for name in found.keys() - schema["properties"].keys():
            self.differences.append(f"{about}/{name}: is not in the schema")

    def _note(self, is_same: bool, found: Any, expected: Any, about: str) -> None:  # noqa: FBT001  what is noted
        if not is_same:
            self.differences.append(f"{about}: the report has {found!r}, counted again {expected!r}")


def _tell_name(row: Any) -> str:
    return str(row["name"])


def _are_alike(found: Any, expected: Any, path: str) -> bool:
    if isinstance(expected, Within):
        moment = datetime.fromisoformat(found) if isinstance(found, str) else found
        return bool(expected.first <= moment <= expected.last)
    if isinstance(expected, Matching):
        return isinstance(found, str) and re.fullmatch(expected.pattern, found) is not None
    if isinstance(expected, datetime | bool | str):
        own = datetime.fromisoformat(found) if isinstance(expected, datetime) else found
        return bool(own == expected)
    return bool(abs(found - expected) <= _allow(found, float(expected), path))


def _allow(found: float, expected: float, path: str) -> float:
    """Return how far a number may be from what was counted again: counts are exact, rates are rounded."""
    if path.endswith(("p_value", "standard_error")):
        return _SIGNIFICANT * abs(expected)
    return 0.0 if isinstance(found, int) and expected.is_integer() else _HALF + _FLOATING * abs(expected)


def _list_leaves(root: Schema, schema: Schema, path: str, within: tuple[str, ...]) -> Iterator[str]:
    choices = [schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    reference = next((one["$ref"] for one in choices if "$ref" in one), None)
    if reference is not None and reference in within:
        return
    within = (*within, reference) if reference is not None else within
    schema = _resolve(root, schema)
    if "properties" in schema:
        for name, own in schema["properties"].items():
            yield from _list_leaves(root, own, f"{path}/{name}", within)
    elif "items" in schema:
        yield from _list_leaves(root, schema["items"], f"{path}[]", within)
    else:
        yield path


def _resolve(root: Schema, schema: Schema) -> Schema:
    for name in ("anyOf", "oneOf"):
        for one in schema.get(name, ()):
            if one.get("type") != "null":
                return _resolve(root, one)
    if "$ref" in schema:
        *_, name = schema["$ref"].split("/")
        return _resolve(root, root["$defs"][name])
    return schema
