"""What a schema doesn't allow, in words for people, with the place in the file.

The schemas stay plain JSON Schema 2020-12 that any editor understands; where a rule needs words of
its own they stand beside it in `$comment`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from runner.source.diagnostic import Diagnostic
from runner.source.document import Key, YamlDocument
from runner.source.violation import Violation, list_unknown_keys, read_words
from runner.source.yaml_flow import write_flow

_SHOWN = 60
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
_LEAST = "0.0001"
"""Python writes smaller floats with an exponent, so that they do not read back as they are written."""
_TYPE_NAMES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}


def explain(violation: Violation, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    """Yield a violation as problems for people.

    Args:
        violation: what isn't allowed.
        document: gives the places.
        path: where it is in the document.
    """
    yield from _EXPLAINERS.get(violation.keyword, _explain_other)(violation, document, path)


def _diagnostic(
    code: str,
    message: str,
    document: YamlDocument,
    path: list[Key],
    *,
    hint: str | None,
    at_key: bool = False,
) -> Diagnostic:
    line, column = document.locate(path, at_key=at_key)
    return Diagnostic("error", code, message, document.file, line, column, hint)


def _explain_unknown_keys(
    violation: Violation, document: YamlDocument, path: list[Key]
) -> Iterator[Diagnostic]:
    schema = violation.schema
    known = list(schema.get("properties", {}))
    hint = f"known here: {', '.join(known)}" if known else None
    where = f" in {_named(path)}" if path else ""
    for key in list_unknown_keys(violation):
        close = difflib.get_close_matches(str(key), known, n=1, cutoff=0.6)
        message = f"`{key}` is not a key{where}" + (f": did you mean `{close[0]}`?" if close else "")
        yield _diagnostic("key-unknown", message, document, [*path, key], hint=hint, at_key=True)


def _explain_missing(violation: Violation, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    key = violation.missing
    hint = _example_of(key, violation.schema)
    yield _diagnostic("key-missing", f"{_named(path)} has no `{key}`", document, path, hint=hint)


def _example_of(key: str, schema: dict[str, Any]) -> str | None:
    examples = schema.get("properties", {}).get(key, {}).get("examples")
    if not examples:
        return None
    return f"write for example `{key}: {write_flow(examples[0])}`"


def _explain_type(violation: Violation, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    wanted = violation.value if isinstance(violation.value, list) else [violation.value]
    names = " or ".join(_TYPE_NAMES[name] for name in wanted)
    message = f"{_named(path)} must be {names}, not {_kind_of(violation.instance)}"
    hint = _hint_for_type(wanted, violation.instance, violation.schema) or read_words(violation.schema).get(
        "hint"
    )
    if violation.repeats:
        more = "1 more entry" if violation.repeats == 1 else f"{violation.repeats:,} more entries"
        hint = "; ".join(filter(None, (hint, f"the same goes for {more} of this list")))
    yield _diagnostic("value-type", message, document, path, hint=hint)


def _hint_for_type(wanted: list[str], instance: Any, schema: dict[str, Any]) -> str | None:
    if "string" in wanted and isinstance(instance, (int, float)):
        written = json.dumps(instance)
        would_fit = re.search(schema.get("pattern", ""), written)
        return f'put it in quotes: "{written}"' if would_fit else read_words(schema).get("pattern-words")
    if "boolean" in wanted:
        return "write true or false, without quotes"
    # Only a number that reads back as it was written is one: 012 may be a postcode.
    if "number" in wanted and isinstance(instance, str) and _NUMBER.fullmatch(instance):
        plain = repr(float(instance)).removesuffix(".0")
        if "e" in plain:
            return f"write {_LEAST} or more: a smaller number is read as a text"
        return f"write {plain}, without quotes and without zeros at either end"
    return None


def _explain_enum(violation: Violation, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    allowed = [str(value) for value in violation.value]
    folded = {value.casefold(): value for value in allowed}
    close = difflib.get_close_matches(str(violation.instance).casefold(), folded, n=1, cutoff=0.6)
    message = f"{_named(path)} is {_shown(violation.instance)}" + (
        f": did you mean `{folded[close[0]]}`?" if close else ""
    )
    yield _diagnostic("value-not-allowed", message, document, path, hint=f"one of: {', '.join(allowed)}")


def _explain_const(violation: Violation, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    wanted = write_flow(violation.value)
    message = f"{_named(path)} is {_shown(violation.instance)}; this program reads {wanted} alone"
    yield _diagnostic("value-not-allowed", message, document, path, hint=f"write `{path[-1]}: {wanted}`")


def _explain_pattern(violation: Violation, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    rule = read_words(violation.schema).get("pattern-words", f"does not match {violation.value}")
    if violation.is_about_a_key:
        message = f"the key {_shown(violation.instance)} in {_named(path)}: {rule}"
        yield _diagnostic(
            "key-pattern", message, document, [*path, violation.instance], hint=None, at_key=True
        )
        return
    hidden = "hide-value" in read_words(violation.schema)
    message = (
        f"{_named(path)}: {rule}" if hidden else f"{_named(path)} is {_shown(violation.instance)}: {rule}"
    )
    yield _diagnostic("value-pattern", message, document, path, hint=None)


def _explain_size(violation: Violation, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
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
    yield _diagnostic("value-size", f"{_named(path)} {words}", document, path, hint=hint)


def _explain_unique(violation: Violation, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    seen: list[Any] = []
    for index, item in enumerate(violation.instance):
        if item in seen:
            message = f"{_named([*path, index])} repeats {_shown(item)}"
            yield _diagnostic("value-repeated", message, document, [*path, index], hint="remove it")
        seen.append(item)


def _explain_choice(violation: Violation, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    forms: list[dict[str, Any]] = violation.value
    found = violation.instance
    hint = read_words(violation.schema).get("choice-hint")
    form = next((form for form in forms if all(key in found for key in form["required"])), None)
    if form is None:
        yield from _explain_nothing(violation, document, path)
        return
    refused = next(key for key, rule in form["properties"].items() if rule is False and key in found)
    message = f"{_named(path)} has `{refused}` beside `{form['required'][0]}`"
    yield _diagnostic("value-form", message, document, [*path, refused], hint=hint, at_key=True)


def _explain_nothing(violation: Violation, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    names = " nor ".join(f"`{key}`" for form in violation.value for key in form["required"])
    hint = read_words(violation.schema).get("choice-hint")
    yield _diagnostic("value-form", f"{_named(path)} has neither {names}", document, path, hint=hint)


def _explain_refusal(violation: Violation, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    schema: dict[str, Any] = violation.value if isinstance(violation.value, dict) else {}
    words = read_words(schema)
    yield _diagnostic(
        words.get("refusal-code", "value-refused"),
        f"{_named(path)} {words.get('refusal-words', 'is not allowed')}",
        document,
        path,
        hint=words.get("refusal-hint"),
    )


def _explain_dependency(
    violation: Violation, document: YamlDocument, path: list[Key]
) -> Iterator[Diagnostic]:
    key, needed = violation.companion, violation.missing
    message = f"`{key}` in {_named(path)} needs `{needed}` beside it"
    hint = _example_of(needed, violation.schema)
    yield _diagnostic("key-missing", message, document, [*path, key], hint=hint, at_key=True)


def _explain_other(violation: Violation, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    yield _diagnostic("value-refused", f"{_named(path)}: {violation.message}", document, path, hint=None)


_Explainer = Callable[[Violation, YamlDocument, list[Key]], Iterator[Diagnostic]]

_EXPLAINERS: dict[str, _Explainer] = {
    "additionalProperties": _explain_unknown_keys,
    "required": _explain_missing,
    "type": _explain_type,
    "enum": _explain_enum,
    "const": _explain_const,
    "pattern": _explain_pattern,
    "minItems": _explain_size,
    "maxItems": _explain_size,
    "minLength": _explain_size,
    "maxLength": _explain_size,
    "minProperties": _explain_size,
    "minimum": _explain_size,
    "exclusiveMinimum": _explain_size,
    "maximum": _explain_size,
    "exclusiveMaximum": _explain_size,
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
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {_shown(value)}"
    return "a list" if isinstance(value, list) else "a mapping"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
