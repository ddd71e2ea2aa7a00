"""Validation against plain JSON Schema 2020-12, with words for people in `$comment`."""

from __future__ import annotations

import difflib
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry, Resource

from runner.source.normalize import suggest
from runner.source.storage import shipped_folder
from runner.wording import hide_phones

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from jsonschema.protocols import Validator

    from runner.source.diagnostic import Diagnostic
    from runner.source.yaml import Key, YamlDocument


_SCHEMA_SUFFIX = ".schema.json"
_SHOWN = 60
_MEANS = "means-"
_TYPE_NAMES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
_SIZE_WORDS = {
    "minItems": "has fewer than {bound} entries",
    "maxItems": "has more than {bound} entries",
    "minLength": "has fewer than {bound} characters",
    "maxLength": "has more than {bound} characters",
    "minProperties": "has fewer than {bound} keys",
    "minimum": "is {found}: the least is {bound}",
    "exclusiveMinimum": "is {found}: it must be more than {bound}",
    "maximum": "is {found}: the most is {bound}",
    "exclusiveMaximum": "is {found}: it must be less than {bound}",
}


class _Fault(NamedTuple):
    """A violation in words for people, at the path `below` it; with `at_key`, the key is wrong."""

    code: str
    message: str
    hint: str | None = None
    below: tuple[Key, ...] = ()
    at_key: bool = False


class _Violation(NamedTuple):
    """One violation of a schema.

    Attributes:
        error: of the validator.
        name: of the place, for messages.
        schema: the schema with the violated keyword.
        words: the schema's words for people.
        unknown: the keys of the same mapping that its schema does not know.
    """

    error: ValidationError
    name: str
    schema: dict[str, Any]
    words: dict[str, str]
    unknown: Collection[str]

    @property
    def value(self) -> Any:
        """The value of the violated keyword."""
        return self.error.validator_value

    @property
    def found(self) -> Any:
        """The value that was found."""
        return self.error.instance


def read_words(schema: dict[str, Any]) -> dict[str, str]:
    """Return the words for people in `$comment`, since strict validators refuse unknown keywords."""
    lines = (line.partition(": ") for line in schema.get("$comment", "").splitlines())
    return {name: words for name, _, words in lines if words}


def write_flow(value: Any) -> str:
    """Return a JSON value in YAML's flow style; its keys are names."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {write_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(write_flow, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _explain_unknown_keys(one: _Violation) -> Iterator[_Fault]:
    rules = one.schema.get("properties", {})
    known = [key for key, rule in rules.items() if not (isinstance(rule, dict) and rule.get("deprecated"))]
    hint = f"known here: {', '.join(known)}" if known else None
    if advice := one.words.get("unknown-hint"):
        hint = f"{advice}; {hint}"
    where = f" in {one.name}" if one.error.absolute_path else ""
    for key in one.unknown:
        means = _find_meaning(key, one.words)
        guess = "" if means else suggest(key, known)
        yield _Fault("key-unknown", f"`{key}` is not a key{where}{guess}", means or hint, (key,), at_key=True)


def _find_meaning(key: str, words: dict[str, str]) -> str | None:
    """Return what to write instead of a key that other tools know by this name, from a schema's synonyms."""
    wanted = key.casefold().replace("-", "_")
    names = (name for name in words if name.startswith(_MEANS))
    return next((words[name] for name in names if wanted in name.removeprefix(_MEANS).split("|")), None)


def _explain_missing(one: _Violation) -> Iterator[_Fault]:
    value = one.value
    for companion, needed in value.items() if isinstance(value, dict) else [("", value)]:
        for key in needed if not companion or companion in one.found else ():
            # A misspelt key is not missing.
            if key in one.found or difflib.get_close_matches(key, one.unknown, n=1):
                continue
            hint = _example_of(key, one.schema)
            if companion:
                message = f"`{companion}` in {one.name} needs `{key}` beside it"
                yield _Fault("key-missing", message, hint, (companion,), at_key=True)
            else:
                yield _Fault("key-missing", f"{one.name} has no `{key}`", hint)


def _example_of(key: str, schema: dict[str, Any]) -> str | None:
    examples = schema.get("properties", {}).get(key, {}).get("examples")
    return f"write for example `{key}: {write_flow(examples[0])}`" if examples else None


def _explain_type(one: _Violation) -> Iterator[_Fault]:
    value = one.value
    wanted = value if isinstance(value, list) else [value]
    names = " or ".join(_TYPE_NAMES[name] for name in wanted)
    hint = one.words.get("hint")
    if "string" in wanted and isinstance(one.found, (int, float)):
        written = json.dumps(one.found)
        hint = f'put it in quotes: "{written}"' if hide_phones(written) == written else "put it in quotes"
        if isinstance(one.error.absolute_path[-1], int):
            hint = f"{hint}, as each number of this list"
        if not re.search(one.schema.get("pattern", ""), written):
            hint = one.words.get("pattern-words")
    elif "boolean" in wanted:
        hint = "write true or false, without quotes"
    elif "number" in wanted:
        hint = "write a plain number, as in 20 or 0.05"
    yield _Fault("value-type", f"{one.name} must be {names}, not {_kind_of(one.found)}", hint)


def _explain_enum(one: _Violation) -> Iterator[_Fault]:
    folded = {str(each).casefold(): str(each) for each in one.value}
    close = difflib.get_close_matches(str(one.found).casefold(), folded, n=1, cutoff=0.6)
    guess = f": did you mean `{folded[close[0]]}`?" if close else ""
    message = f"{one.name} is {_shown(one.found)}{guess}"
    yield _Fault("value-not-allowed", message, f"one of: {', '.join(folded.values())}")


def _explain_const(one: _Violation) -> Iterator[_Fault]:
    message = f"{one.name} must be {_shown(one.value)}, not {_shown(one.found)}"
    hint = f"write `{one.error.absolute_path[-1]}: {write_flow(one.value)}`"
    yield _Fault("value-not-allowed", message, hint)


def _explain_pattern(one: _Violation) -> Iterator[_Fault]:
    rule = one.words.get("pattern-words", f"does not match {one.value}")
    shown = "" if "hide-value" in one.words else f" is {_shown(one.found)}"
    if "propertyNames" not in one.error.absolute_schema_path:
        yield _Fault("value-pattern", f"{one.name}{shown}: {rule}")
        return
    message = f"the key {_shown(one.found)} in {one.name}: {rule}"
    key, colon, value = one.found.partition(":")
    hint = f"a blank is missing after the colon: write `{key}: {value}`" if colon and value else None
    yield _Fault("key-pattern", message, hint, (one.found,), at_key=True)


def _explain_size(one: _Violation) -> Iterator[_Fault]:
    keyword, bound = str(one.error.validator), one.value
    is_empty = keyword in ("minItems", "minLength", "minProperties") and bound == 1
    words = "is empty" if is_empty else _SIZE_WORDS[keyword].format(bound=bound, found=one.found)
    yield _Fault("value-size", f"{one.name} {words}", one.words.get("hint"))


def _explain_unique(one: _Violation) -> Iterator[_Fault]:
    for index, item in enumerate(one.found):
        if item in one.found[:index]:
            message = f"{one.name} has {_shown(item)} twice"
            yield _Fault("value-repeated", message, "remove it", (index,))


def _explain_choice(one: _Violation) -> Iterator[_Fault]:
    """Explain a mapping with the keys of none of several forms, or with a key of another one."""
    found, hint = one.found, one.words.get("choice-hint")
    if one.unknown or not isinstance(found, dict):
        return
    forms: list[dict[str, Any]] = one.value
    form = next((form for form in forms if all(key in found for key in form["required"])), None)
    if form is None:
        names = " nor ".join(f"`{key}`" for each in forms for key in each["required"])
        yield _Fault("value-form", f"{one.name} has neither {names}", hint)
        return
    for key in [key for key, rule in form.get("properties", {}).items() if rule is False and key in found][
        :1
    ]:
        message = f"{one.name} has `{key}` beside `{form['required'][0]}`"
        yield _Fault("value-form", message, hint, (key,), at_key=True)


def _explain_refusal(one: _Violation) -> Iterator[_Fault]:
    value = one.value
    words = read_words(value) if isinstance(value, dict) else {}
    yield _Fault(
        words.get("refusal-code", "value-refused"),
        f"{one.name} {words.get('refusal-words', 'is not allowed')}",
        words.get("refusal-hint"),
    )


_EXPLAINERS: dict[str, Callable[[_Violation], Iterator[_Fault]]] = {
    "additionalProperties": _explain_unknown_keys,
    "required": _explain_missing,
    "type": _explain_type,
    "enum": _explain_enum,
    "const": _explain_const,
    "pattern": _explain_pattern,
    **dict.fromkeys(_SIZE_WORDS, _explain_size),
    "uniqueItems": _explain_unique,
    "oneOf": _explain_choice,
    "anyOf": _explain_choice,
    "dependentRequired": _explain_missing,
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
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a mapping"
    kind = "the text " if isinstance(value, str) else "" if isinstance(value, bool) else "the number "
    return f"{kind}{_shown(value)}"


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


# JSON Schema takes 4.0 for an integer; readers of values do not.
_TYPES = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, one: type(one) is int)
_Validator = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {"pattern": _match_pattern}, type_checker=_TYPES
)


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
    validator: Validator = _Validator(json.loads(schema_text(name)), registry=_REGISTRY)
    return validator


def _retrieve(uri: str) -> Resource[Any]:
    """Return the shipped schema that another one refers to."""
    name = uri.rpartition("/")[2].removesuffix(_SCHEMA_SUFFIX)
    return Resource.from_contents(json.loads(schema_text(name)))


_REGISTRY: Registry[Any] = Registry(retrieve=_retrieve)  # type: ignore[call-arg]


def _list_unknown(error: ValidationError) -> list[str]:
    schema, found = cast("tuple[dict[str, Any], dict[str, Any]]", (error.schema, error.instance))
    return [key for key in found if key not in schema.get("properties", {})]


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
    errors = list(load_validator(schema).iter_errors(document.data if data is None else data))
    unknown = {
        tuple(error.absolute_path): _list_unknown(error)
        for error in errors
        if error.validator == "additionalProperties"
    }
    lists: set[object] = set()
    seen: set[Diagnostic] = set()  # validators report a missing key once for each that is missing
    for error in errors:
        found: list[Key] = list(error.absolute_path)
        if error.validator == "type" and found and isinstance(found[-1], int):
            # One mistake, however many entries of a list have it.
            kind = (*found[:-1], type(error.instance))
            if kind in lists:
                continue
            lists.add(kind)
        path = restore(found) if restore else found
        rules = error.schema if isinstance(error.schema, dict) else {}
        words = read_words(rules)
        one = _Violation(error, _named(path), rules, words, unknown.get(tuple(found), []))
        for fault in _EXPLAINERS.get(str(error.validator), _explain_refusal)(one):
            place = document.position([*path, *fault.below], at_key=fault.at_key)
            problem = place.problem(fault.code, fault.message, fault.hint)
            if problem not in seen:
                seen.add(problem)
                yield problem
