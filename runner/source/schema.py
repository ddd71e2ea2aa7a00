"""JSON Schema: the one door through which documents are held to their schemas."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from runner.source.explanation import explain
from runner.source.shipped import shipped_folder
from runner.source.violation import Violation, keep_mistakes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jsonschema.protocols import Validator

    from runner.source.diagnostic import Diagnostic
    from runner.source.document import Key, YamlDocument

SCHEMA_SUFFIX = ".schema.json"


def _match_pattern(_: Validator, pattern: str, instance: object, __: object) -> Iterator[ValidationError]:
    # `$` is the very end in the dialect of JSON Schema (ECMA 262), but may stand before a line break in ours.
    if isinstance(instance, str) and not _compile(pattern).search(instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(f"{pattern[:-1]}\\Z" if pattern.endswith("$") else pattern)


_Validator = extend(Draft202012Validator, {"pattern": _match_pattern})  # type: ignore[no-untyped-call]


def schema_names() -> list[str]:
    """Return the names of the shipped schemas, such as `campaign`."""
    files = shipped_folder("schemas").glob(f"*{SCHEMA_SUFFIX}")
    return sorted(file.name.removesuffix(SCHEMA_SUFFIX) for file in files)


def schema_text(name: str) -> str:
    """Return a shipped schema as it stands in its file."""
    return (shipped_folder("schemas") / f"{name}{SCHEMA_SUFFIX}").read_text(encoding="utf-8")


@cache
def load_validator(name: str) -> Validator:
    """Return the validator for the shipped schema `name`."""
    validator: Validator = _Validator(json.loads(schema_text(name)))
    return validator


def find_problems(
    document: YamlDocument,
    schema: str,
    data: Any = None,
    restore: Callable[[list[Key]], list[Key]] | None = None,
) -> Iterator[Diagnostic]:
    """Yield what in a document its schema doesn't allow.

    Args:
        document: gives the places.
        schema: the schema's name.
        data: validated instead of the document's own data, when given.
        restore: turns a path in `data` into one in the document, where they differ.
    """
    instance = document.data if data is None else data
    for violation in keep_mistakes(map(_read, load_validator(schema).iter_errors(instance))):
        yield from explain(violation, document, restore(violation.path) if restore else violation.path)


def _read(error: ValidationError) -> Violation:
    return Violation(
        keyword=str(error.validator),
        value=error.validator_value,
        instance=error.instance,
        path=list(error.absolute_path),
        schema=dict(error.schema) if isinstance(error.schema, dict) else {},
        message=error.message,
        is_about_a_key="propertyNames" in error.absolute_schema_path,
    )
