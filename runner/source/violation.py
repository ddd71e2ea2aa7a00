"""What a schema doesn't allow, as data; one violation for one mistake."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.source.document import Key


_CHOICES = ("oneOf", "anyOf")
_REQUIRING = ("required", "dependentRequired")


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
        missing: the key that a mapping lacks; empty if it breaks another rule.
        companion: the key that it has and that needs the missing one beside it; empty if every mapping does.
        repeats: further entries of the same list that break it in the same way.
    """

    keyword: str
    value: Any
    instance: Any
    path: list[Key]
    schema: dict[str, Any]
    message: str
    is_about_a_key: bool
    missing: str = ""
    companion: str = ""
    repeats: int = 0


def read_words(schema: dict[str, Any]) -> dict[str, str]:
    """Return the words for people that stand in a schema's `$comment`: a line each, its name before a colon.

    They are no keywords of their own: strict validators refuse what they do not know.
    """
    lines = (line.partition(": ") for line in schema.get("$comment", "").splitlines())
    return {name: words for name, _, words in lines if words}


def list_unknown_keys(violation: Violation) -> list[str]:
    """Return the keys that a mapping has and its schema doesn't know."""
    return [key for key in violation.instance if key not in violation.schema.get("properties", {})]


def keep_mistakes(violations: Iterable[Violation]) -> list[Violation]:
    """Return one violation a mistake: what follows from another one is left out.

    A misspelt key is not missed as well, a value of the wrong type has no wrong form, and a list whose
    entries are all of the wrong type is one mistake.
    """
    found = list(_name_missing_keys(violations))
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
    return bool(difflib.get_close_matches(violation.missing, unknown, n=1))


def _kind_of_entry(violation: Violation) -> object:
    if violation.keyword == "type" and violation.path and isinstance(violation.path[-1], int):
        return tuple(violation.path[:-1]), type(violation.instance)
    return id(violation)


def _name_missing_keys(violations: Iterable[Violation]) -> Iterator[Violation]:
    """Yield one violation for each missing key, with its name; others as they are.

    A validator reports several keys together or one by one, and only in its own words which.
    """
    seen = set()
    for violation in violations:
        if violation.keyword not in _REQUIRING:
            yield violation
            continue
        for companion, key in _iterate_needs(violation):
            place = *violation.path, companion, key
            if key not in violation.instance and place not in seen:
                seen.add(place)
                yield replace(violation, missing=key, companion=companion)


def _iterate_needs(violation: Violation) -> Iterator[tuple[str, str]]:
    """Yield the keys that a mapping must have, each with the one that asks for it, if any."""
    if violation.keyword == "required":
        yield from (("", key) for key in violation.value)
        return
    for companion, needed in violation.value.items():
        if companion in violation.instance:
            yield from ((companion, key) for key in needed)
