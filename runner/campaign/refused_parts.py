"""Parts of a campaign's document that the schema refuses, and what is left without them."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from runner.campaign.translations import is_language_tag
from runner.source.json_schema import find_problems, load_validator, schema_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runner.source.diagnostic import Diagnostic
    from runner.source.yaml import Key, YamlDocument

_LISTS = ("recipients", "exclude", "messages")
_NAME = "campaign"
"""Stands in for a refused name, so that none is made from the file's."""
_PLAIN_KEYS = frozenset(("phone", "vars", "timezone", "language"))
"""Keys of recipients that a loop can check; others go to the validator."""


def find_schema_problems(document: YamlDocument) -> Iterator[Diagnostic]:
    """Yield schema problems; a loop skips valid recipients, a hundred times as fast as the validator."""
    data = document.data
    if not isinstance(data, dict):
        hint = "a campaign starts with `version: 1`"
        yield document.position([]).problem("campaign-empty", "this file holds no campaign", hint)
        return
    shown, kept = _choose_shown(data)
    yield from find_problems(document, "campaign", shown, lambda path: _restore(path, kept))


def list_violations(data: dict[str, Any]) -> list[list[Key]]:
    """Return the paths of all schema violations, including those that follow from others.

    Keys of messages that the schema does not know are removed first: the rest of the message may be sound.
    """
    shown, kept = _choose_shown(data)
    for error in load_validator("campaign").iter_errors(shown):
        if error.validator == "additionalProperties" and "messages" in list(error.absolute_path)[:1]:
            mapping, schema = cast("dict[str, Any]", error.instance), cast("dict[str, Any]", error.schema)
            for key in mapping.keys() - schema["properties"].keys():
                del mapping[key]
    errors = load_validator("campaign").iter_errors(shown)
    return [_restore(list(error.absolute_path), kept) for error in errors]


def _choose_shown(data: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Return the part of a document that the validator reads, and the indices of its recipients."""
    rows = data.get("recipients")
    if not isinstance(rows, list):
        return data, []
    kept = [index for index, row in enumerate(rows) if not _is_plain_recipient(row)]
    return {**data, "recipients": [rows[index] for index in kept] or rows[:1]}, kept


def _restore(path: list[Key], kept: list[int]) -> list[Key]:
    """Return the document's path for a path in the part that the validator reads."""
    if kept and len(path) > 1 and path[0] == "recipients":
        return [path[0], kept[cast("int", path[1])], *path[2:]]
    return path


def _is_plain_recipient(row: Any) -> bool:
    if not isinstance(row, dict) or not row.keys() <= _PLAIN_KEYS:
        return False
    phone, variables = row.get("phone"), row.get("vars", {})
    if not phone or not isinstance(phone, str) or not isinstance(variables, dict):
        return False
    zone, language = row.get("timezone", "UTC"), row.get("language", "en")
    if not isinstance(zone, str) or zone == "" or not isinstance(language, str):
        return False
    return is_language_tag(language) and all(map(str.isidentifier, variables))


def drop_invalid(data: dict[str, Any], violations: Sequence[Sequence[Key]]) -> bool:
    """Remove, in place to keep positions, the parts that the schema refuses.

    Returns:
        True if all recipients and variables are left.
    """
    refused = {str(path[0]) for path in violations if path and (len(path) == 1 or path[0] not in _LISTS)}
    for key in (refused | (data.keys() - _known_keys())) & data.keys():
        del data[key]
    if "name" in refused:
        data["name"] = _NAME
    if "languages" in refused:
        data["languages"] = None  # so that no text by language is said to need it
    has_messages = "messages" in data
    entries = {path[:2] for path in map(tuple, violations) if len(path) > 1 and path[0] in _LISTS}
    lost = {key: _take_out(data, key, [i for name, i in entries if name == key]) for key in _LISTS}
    ids = [one.get("id") if isinstance(one, dict) else None for one in lost["messages"]]
    _take_out_references(data, ids if has_messages else [None])
    policy = data.get("policy", {})
    if "schedule" in refused:
        policy.pop("timezone_unknown", None)
    knows_recipients = bool(data["recipients"]) and not lost["recipients"]
    if not knows_recipients:
        policy.pop("consent", None)
    return knows_recipients and "vars" not in refused


@cache
def _known_keys() -> frozenset[str]:
    return frozenset(json.loads(schema_text("campaign"))["properties"])


def _take_out(data: dict[str, Any], key: str, indices: Iterable[Key]) -> list[Any]:
    entries: list[Any] = data.setdefault(key, [])
    return [entries.pop(int(index)) for index in sorted(indices, key=int, reverse=True)]


def _take_out_references(data: dict[str, Any], lost: list[Any]) -> None:
    """Remove references to lost messages by their ids; an id that is not text may be any."""
    kept = {message["id"] for message in data["messages"]}
    is_any = any(not isinstance(name, str) for name in lost)

    def is_gone(name: str) -> bool:
        return name not in kept and (is_any or name in lost)

    for message in data["messages"]:
        if "after" in message and is_gone(message["after"]["message"]):
            del message["after"]
            message.pop("to", None)
        if lost and isinstance(message.get("to"), dict):  # the question may have been asked there
            del message["to"]
    if "of" in data.get("variants", {}) and is_gone(data["variants"]["of"]):
        del data["variants"]
