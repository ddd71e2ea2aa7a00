"""Validation against plain JSON Schema 2020-12, with words for people in `$comment`."""

from __future__ import annotations

import difflib
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from runner.source.normalize import suggest
from runner.source.storage import shipped_folder
from runner.wording import hide_phones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from jsonschema.protocols import Validator

    from runner.source.diagnostic import Diagnostic
    from runner.source.yaml import Key, YamlDocument


_SCHEMA_SUFFIX = ".schema.json"
_CHOICES = ("oneOf", "anyOf")
_REQUIRING = ("required", "dependentRequired")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}")
_NOT_A_TEXT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}|0[box].*|true|false|null|yes|no|on|off|y|n", re.IGNORECASE
)
"""Text that some readers of YAML take for a date, a number, a truth value or nothing."""
_SHOWN = 60
_MEANS = "means-"
_HOMES = 2
"""Most places that are told of a key that stands at a wrong one."""
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
_LEAST = "0.0001"
"""Python writes smaller floats with an exponent, so that they do not read back as they are written."""
_TYPE_NAMES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}


@dataclass(frozen=True, slots=True)
class _Violation:
    """One violation of a schema.

    Attributes:
        keyword: the violated JSON Schema keyword.
        value: the keyword's value in the schema.
        instance: the value that was found.
        path: keys and indices from the document's root.
        schema: the schema with the keyword.
        message: the validator's own words.
        is_about_a_key: True if `instance` is the name of a key.
        missing: the key that a mapping lacks, if any.
        companion: the key that requires the missing one; empty if every mapping does.
        repeats: further entries of the same list with the same violation.
        elsewhere: the places of mappings that know a key, by key.
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
    elsewhere: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_words(schema: dict[str, Any]) -> dict[str, str]:
    """Return the words for people in `$comment`, since strict validators refuse unknown keywords."""
    lines = (line.partition(": ") for line in schema.get("$comment", "").splitlines())
    return {name: words for name, _, words in lines if words}


def _list_unknown_keys(violation: _Violation) -> list[str]:
    """Return the keys of a mapping that its schema doesn't know."""
    return [key for key in violation.instance if key not in violation.schema.get("properties", {})]


def _keep_mistakes(violations: Iterable[_Violation]) -> list[_Violation]:
    """Return one violation for each mistake, without those that follow from another one.

    A misspelt key is not reported as missing, a value of the wrong type not as malformed, and a list of
    entries of the wrong type is one mistake.
    """
    found = list(_name_missing_keys(violations))
    unknown = {tuple(v.path): _list_unknown_keys(v) for v in found if v.keyword == "additionalProperties"}
    kept: dict[object, _Violation] = {}
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


def _follows_from_misspelling(violation: _Violation, unknown: list[str]) -> bool:
    if violation.keyword in _CHOICES:
        return bool(unknown)
    # An empty key is close to the empty name of what other violations lack: nothing.
    return bool(violation.missing and difflib.get_close_matches(violation.missing, unknown, n=1))


def _kind_of_entry(violation: _Violation) -> object:
    if violation.keyword == "type" and violation.path and isinstance(violation.path[-1], int):
        return tuple(violation.path[:-1]), type(violation.instance)
    return id(violation)


def _name_missing_keys(violations: Iterable[_Violation]) -> Iterator[_Violation]:
    """Yield one violation for each missing key (validators may report several), and all others."""
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


def _iterate_needs(violation: _Violation) -> Iterator[tuple[str, str]]:
    """Yield the keys that a mapping must have, each with the key that requires it, if any."""
    if violation.keyword == "required":
        yield from (("", key) for key in violation.value)
        return
    for companion, needed in violation.value.items():
        if companion in violation.instance:
            yield from ((companion, key) for key in needed)


def write_flow(value: Any) -> str:
    """Return a JSON value in YAML's flow style; ambiguous text is quoted."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{write_flow(key)}: {write_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(write_flow, value))}]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and not _reads_as_other(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _reads_as_other(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return _NOT_A_TEXT.fullmatch(text) is not None
    return True


class _Fault(NamedTuple):
    """A violation in words for people, at the path `below` it; with `at_key`, the key is wrong."""

    code: str
    message: str
    hint: str | None = None
    below: tuple[Key, ...] = ()
    at_key: bool = False


def _explain_unknown_keys(violation: _Violation) -> Iterator[_Fault]:
    schema = violation.schema
    known = [key for key, rule in schema.get("properties", {}).items() if not _is_refused(rule)]
    hint = f"known here: {', '.join(known)}" if known else None
    if advice := read_words(schema).get("unknown-hint"):
        hint = f"{advice}; {hint}"
    where = f" in {_named(violation.path)}" if violation.path else ""
    for key in _list_unknown_keys(violation):
        homes = [] if advice else violation.elsewhere.get(key, [])
        means = _find_meaning(key, schema)
        guess = "" if means else _suggest_home(key, homes) or suggest(key, known)
        yield _Fault("key-unknown", f"`{key}` is not a key{where}{guess}", means or hint, (key,), at_key=True)


def _find_meaning(key: str, schema: dict[str, Any]) -> str | None:
    """Return what to write instead of a key that other tools know by this name, from a schema's synonyms."""
    wanted = key.casefold().replace("-", "_")
    for name, words in read_words(schema).items():
        if name.startswith(_MEANS) and wanted in name.removeprefix(_MEANS).split("|"):
            return words
    return None


def _is_refused(rule: bool | dict[str, Any]) -> bool:  # noqa: FBT001  a schema may be one
    """Return whether a key is in the schema for its refusal alone."""
    return isinstance(rule, dict) and bool(rule.get("deprecated"))


def _suggest_home(key: str, places: Sequence[str]) -> str:
    """Return `: did you mean …?` for a key at the wrong place; empty if none knows it, or too many do."""
    homes = [f"`{place}.{key}`" if place else f"`{key}` at the top level" for place in places]
    return f": did you mean {' or '.join(homes)}?" if 1 <= len(homes) <= _HOMES else ""


def _explain_missing(violation: _Violation) -> Iterator[_Fault]:
    key = violation.missing
    hint = _example_of(key, violation.schema)
    yield _Fault("key-missing", f"{_named(violation.path)} has no `{key}`", hint)


def _example_of(key: str, schema: dict[str, Any]) -> str | None:
    examples = schema.get("properties", {}).get(key, {}).get("examples")
    if not examples:
        return None
    return f"write for example `{key}: {write_flow(examples[0])}`"


def _explain_type(violation: _Violation) -> Iterator[_Fault]:
    wanted = violation.value if isinstance(violation.value, list) else [violation.value]
    names = " or ".join(_TYPE_NAMES[name] for name in wanted)
    message = f"{_named(violation.path)} must be {names}, not {_kind_of(violation.instance)}"
    hint = _hint_for_type(wanted, violation.instance, violation.schema) or read_words(violation.schema).get(
        "hint"
    )
    if violation.repeats:
        more = "1 more entry" if violation.repeats == 1 else f"{violation.repeats:,} more entries"
        hint = "; ".join(filter(None, (hint, f"the same goes for {more} of this list")))
    yield _Fault("value-type", message, hint)


def _hint_for_type(wanted: list[str], instance: Any, schema: dict[str, Any]) -> str | None:
    if "string" in wanted and isinstance(instance, (int, float)):
        written = json.dumps(instance)
        would_fit = re.search(schema.get("pattern", ""), written)
        if not would_fit:
            return read_words(schema).get("pattern-words")
        return f'put it in quotes: "{written}"' if hide_phones(written) == written else "put it in quotes"
    if "boolean" in wanted:
        return "write true or false, without quotes"
    # Only a number that reads back as written is one: 012 may be a postcode.
    if "number" in wanted and isinstance(instance, str) and _NUMBER.fullmatch(instance):
        plain = repr(float(instance)).removesuffix(".0")
        if "e" in plain:
            return f"write {_LEAST} or more: a smaller number is read as text"
        return f"write {plain}, without quotes and without zeros at either end"
    return None


def _explain_enum(violation: _Violation) -> Iterator[_Fault]:
    allowed = [str(value) for value in violation.value]
    folded = {value.casefold(): value for value in allowed}
    close = difflib.get_close_matches(str(violation.instance).casefold(), folded, n=1, cutoff=0.6)
    message = f"{_named(violation.path)} is {_shown(violation.instance)}" + (
        f": did you mean `{folded[close[0]]}`?" if close else ""
    )
    yield _Fault("value-not-allowed", message, f"one of: {', '.join(allowed)}")


def _explain_const(violation: _Violation) -> Iterator[_Fault]:
    wanted = write_flow(violation.value)
    message = f"{_named(violation.path)} is {_shown(violation.instance)}; this program reads {wanted} alone"
    yield _Fault("value-not-allowed", message, f"write `{violation.path[-1]}: {wanted}`")


def _explain_pattern(violation: _Violation) -> Iterator[_Fault]:
    rule = read_words(violation.schema).get("pattern-words", f"does not match {violation.value}")
    if violation.is_about_a_key:
        message = f"the key {_shown(violation.instance)} in {_named(violation.path)}: {rule}"
        key, colon, value = violation.instance.partition(":")
        hint = f"a blank is missing after the colon: write `{key}: {value}`" if colon and value else None
        yield _Fault("key-pattern", message, hint, (violation.instance,), at_key=True)
        return
    hidden = "hide-value" in read_words(violation.schema)
    message = (
        f"{_named(violation.path)}: {rule}"
        if hidden
        else f"{_named(violation.path)} is {_shown(violation.instance)}: {rule}"
    )
    yield _Fault("value-pattern", message)


def _explain_size(violation: _Violation) -> Iterator[_Fault]:
    bound = violation.value
    words = {
        "minItems": "is empty" if bound == 1 else f"has fewer than {bound} entries",
        "maxItems": f"has more than {bound} entries",
        "minLength": "is empty" if bound == 1 else f"has fewer than {bound} characters",
        "maxLength": f"has more than {bound} characters",
        "minProperties": "is empty" if bound == 1 else f"has fewer than {bound} keys",
        "minimum": f"is {violation.instance}: the least is {bound}",
        "exclusiveMinimum": f"is {violation.instance}: it must be more than {bound}",
        "maximum": f"is {violation.instance}: the most is {bound}",
        "exclusiveMaximum": f"is {violation.instance}: it must be less than {bound}",
    }[violation.keyword]
    hint = read_words(violation.schema).get("hint")
    yield _Fault("value-size", f"{_named(violation.path)} {words}", hint)


def _explain_unique(violation: _Violation) -> Iterator[_Fault]:
    seen: list[Any] = []
    for index, item in enumerate(violation.instance):
        if item in seen:
            message = f"{_named([*violation.path, index])} repeats {_shown(item)}"
            yield _Fault("value-repeated", message, "remove it", (index,))
        seen.append(item)


def _explain_choice(violation: _Violation) -> Iterator[_Fault]:
    forms: list[dict[str, Any]] = violation.value
    found = violation.instance
    hint = read_words(violation.schema).get("choice-hint")
    form = next((form for form in forms if all(key in found for key in form["required"])), None)
    if form is None:
        yield from _explain_nothing(violation)
        return
    refused = next(key for key, rule in form["properties"].items() if rule is False and key in found)
    message = f"{_named(violation.path)} has `{refused}` beside `{form['required'][0]}`"
    yield _Fault("value-form", message, hint, (refused,), at_key=True)


def _explain_nothing(violation: _Violation) -> Iterator[_Fault]:
    names = " nor ".join(f"`{key}`" for form in violation.value for key in form["required"])
    hint = read_words(violation.schema).get("choice-hint")
    yield _Fault("value-form", f"{_named(violation.path)} has neither {names}", hint)


def _explain_refusal(violation: _Violation) -> Iterator[_Fault]:
    schema: dict[str, Any] = violation.value if isinstance(violation.value, dict) else {}
    words = read_words(schema)
    yield _Fault(
        words.get("refusal-code", "value-refused"),
        f"{_named(violation.path)} {words.get('refusal-words', 'is not allowed')}",
        words.get("refusal-hint"),
    )


def _explain_dependency(violation: _Violation) -> Iterator[_Fault]:
    key, needed = violation.companion, violation.missing
    message = f"`{key}` in {_named(violation.path)} needs `{needed}` beside it"
    hint = _example_of(needed, violation.schema)
    yield _Fault("key-missing", message, hint, (key,), at_key=True)


def _explain_other(violation: _Violation) -> Iterator[_Fault]:
    yield _Fault("value-refused", f"{_named(violation.path)}: {violation.message}")


_EXPLAINERS: dict[str, Callable[[_Violation], Iterator[_Fault]]] = {
    "additionalProperties": _explain_unknown_keys,
    "required": _explain_missing,
    "type": _explain_type,
    "enum": _explain_enum,
    "const": _explain_const,
    "pattern": _explain_pattern,
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength", "minProperties"), _explain_size),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"), _explain_size),
    "uniqueItems": _explain_unique,
    "oneOf": _explain_choice,
    "anyOf": _explain_nothing,
    "not": _explain_refusal,
    "dependentRequired": _explain_dependency,
}


def _named(path: list[Key]) -> str:
    text = ""
    for key in path:
        # People count entries from 1.
        text += f"[{key + 1}]" if isinstance(key, int) else (f".{key}" if text else key)
    return f"`{text}`" if text else "the file"


def _kind_of(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"{str(value).lower()}"
    if isinstance(value, (int, float)):
        return hide_phones(f"the number {value}")
    if isinstance(value, str):
        return f"the text {_shown(value)}"
    return "a list" if isinstance(value, list) else "a mapping"


def _shown(value: Any) -> str:
    text = hide_phones(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _match_pattern(_: Validator, pattern: str, instance: object, __: object) -> Iterator[ValidationError]:
    # `$` matches only the very end in JSON Schema (ECMA 262), but also before a final line break in Python.
    if isinstance(instance, str) and not _compile(pattern).search(instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(f"{pattern[:-1]}\\Z" if pattern.endswith("$") else pattern)


_Validator = extend(Draft202012Validator, {"pattern": _match_pattern})  # type: ignore[no-untyped-call]


def schema_names() -> list[str]:
    """Return the names of the shipped schemas, such as `campaign`."""
    files = shipped_folder("schemas").glob(f"*{_SCHEMA_SUFFIX}")
    return sorted(file.name.removesuffix(_SCHEMA_SUFFIX) for file in files)


def schema_text(name: str) -> str:
    """Return the text of a shipped schema."""
    return (shipped_folder("schemas") / f"{name}{_SCHEMA_SUFFIX}").read_text(encoding="utf-8")


@cache
def load_validator(name: str) -> Validator:
    """Return the validator for a shipped schema."""
    validator: Validator = _Validator(json.loads(schema_text(name)))
    return validator


@cache
def _find_homes(name: str) -> Mapping[str, Sequence[str]]:
    """Return where mappings that know a key stand in a document, such as `limits` or `messages[]`, by key."""
    schema = json.loads(schema_text(name))
    homes: dict[str, list[str]] = defaultdict(list)
    waiting, seen = [("", schema)], set()
    for place, mapping in waiting:
        for key, value in mapping.get("properties", {}).items():
            homes[key].append(place)
            below = f"{place}.{key}" if place else key
            for child, suffix in ((value, ""), (value.get("items", {}), "[]")):
                target = child.get("$ref", "").removeprefix("#/$defs/")
                if target and target not in seen:
                    seen.add(target)
                    waiting.append((below + suffix, schema["$defs"][target]))
    return homes


def find_problems(
    document: YamlDocument,
    schema: str,
    data: Any = None,
    restore: Callable[[list[Key]], list[Key]] | None = None,
) -> Iterator[Diagnostic]:
    """Yield the mistakes in a document according to a schema.

    Args:
        document: gives the positions.
        schema: the schema's name.
        data: validated instead of the document's own data, if given.
        restore: turns a path in `data` into one in the document, where they differ.
    """
    instance = document.data if data is None else data
    for found in _keep_mistakes(map(_read, load_validator(schema).iter_errors(instance))):
        path = restore(found.path) if restore else found.path
        violation = replace(found, path=path, elsewhere=_find_homes(schema))
        for fault in _EXPLAINERS.get(violation.keyword, _explain_other)(violation):
            place = document.position([*violation.path, *fault.below], at_key=fault.at_key)
            yield place.problem(fault.code, fault.message, fault.hint)


def _read(error: ValidationError) -> _Violation:
    return _Violation(
        keyword=str(error.validator),
        value=error.validator_value,
        instance=error.instance,
        path=list(error.absolute_path),
        schema=dict(error.schema) if isinstance(error.schema, dict) else {},
        message=error.message,
        is_about_a_key="propertyNames" in error.absolute_schema_path,
    )
