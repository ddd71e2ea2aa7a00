"""What a schema doesn't allow, as data; one violation for one mistake."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.source.document import Key


_CHOICES = ("oneOf", "anyOf")


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that a schema doesn't allow.

    Attributes:
        keyword: the JSON Schema keyword that it breaks.
        value: the keyword's value in the schema.
        instance: what was found.
        path: keys and indices from the document's root.
        schema: the schema that the keyword stands in.
        message: the validator's own words.
        is_about_a_key: whether `instance` is the name of a key.
        repeats: further entries of the same list that break it in the same way.
    """

    keyword: str
    value: Any
    instance: Any
    path: list[Key]
    schema: dict[str, Any]
    message: str
    is_about_a_key: bool
    repeats: int = 0


def list_unknown_keys(violation: Violation) -> list[str]:
    """Return the keys that a mapping has and its schema doesn't know."""
    return [key for key in violation.instance if key not in violation.schema.get("properties", {})]


def missing_key(violation: Violation) -> str:
    """Return the required key that a mapping lacks."""
    # The validator reports one violation a key, and only its message says which.
    keys: list[str] = violation.value
    return next(key for key in keys if f"'{key}' is a required property" == violation.message)


def missing_companion(violation: Violation) -> tuple[str, str]:
    """Return the key that a mapping has, and the one that it therefore needs and lacks."""
    companions: dict[str, list[str]] = violation.value
    pairs = [(key, needed) for key, all_needed in companions.items() for needed in all_needed]
    return next(pair for pair in pairs if f"{pair[1]!r} is a dependency of {pair[0]!r}" == violation.message)


def keep_mistakes(violations: Iterable[Violation]) -> list[Violation]:
    """Return one violation a mistake: what follows from another one is left out.

    A misspelt key is not missed as well, a value of the wrong type has no wrong form, and a list whose
    entries are all of the wrong type is one mistake.
    """
    found = list(violations)
    unknown = {tuple(v.path): list_unknown_keys(v) for v in found if v.keyword == "additionalProperties"}
    kept: dict[object, Violation] = {}
    for violation in found:
        if _follows_from_misspelling(violation, unknown.get(tuple(violation.path), [])):
            continue
        if violation.keyword in _CHOICES and not isinstance(violation.instance, dict):
            continue
        kind = _kind_of_entry(violation)
        if kind in kept:
            kept[kind] = replace(kept[kind], repeats=kept[kind].repeats + 1)
        else:
            kept[kind] = violation
    return list(kept.values())


def _follows_from_misspelling(violation: Violation, unknown: list[str]) -> bool:
    if violation.keyword in _CHOICES:
        return bool(unknown)
    if violation.keyword == "dependentRequired":
        needed = missing_companion(violation)[1]
    elif violation.keyword == "required":
        needed = missing_key(violation)
    else:
        return False
    return bool(difflib.get_close_matches(needed, unknown, n=1))


def _kind_of_entry(violation: Violation) -> object:
    if violation.keyword == "type" and violation.path and isinstance(violation.path[-1], int):
        return tuple(violation.path[:-1]), type(violation.instance)
    return id(violation)
