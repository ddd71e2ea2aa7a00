"""What is left of a campaign without the parts that its schema refuses: the rest can be checked all the same.

The schema's rules for the whole document are only about its keys, so what is left fits it, but for lists that
have become empty. What refers to a part that was taken out goes too: its absence is no mistake of its own.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from runner.source.schema import schema_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.source.document import Key

_LISTS = ("recipients", "exclude", "messages")
_NAME = "campaign"
"""Stands for a name that is refused, so that none is made from the file's."""


def keep_sound(data: dict[str, Any], violations: Sequence[Sequence[Key]]) -> None:
    """Take out of a campaign's document what its schema refuses.

    In place: the document knows the places of its values by these very objects.

    Args:
        data: the document's; afterwards `read_campaign` can read it.
        violations: paths of what the schema refuses.
    """
    refused = {str(path[0]) for path in violations if path and (len(path) == 1 or path[0] not in _LISTS)}
    for key in (refused | (data.keys() - _known_keys())) & data.keys():
        del data[key]
    if "name" in refused:
        data["name"] = _NAME
    has_messages = "messages" in data
    entries = {path[:2] for path in map(tuple, violations) if len(path) > 1 and path[0] in _LISTS}
    lost = {key: _take_out(data, key, [i for name, i in entries if name == key]) for key in _LISTS}
    ids = [one.get("id") if isinstance(one, dict) else None for one in lost["messages"]]
    _take_out_references(data, ids if has_messages else [None])
    policy = data.get("policy", {})
    if "schedule" in refused:
        policy.pop("timezone_unknown", None)
    if lost["recipients"] or not data["recipients"]:
        policy.pop("consent", None)


@cache
def _known_keys() -> frozenset[str]:
    return frozenset(json.loads(schema_text("campaign"))["properties"])


def _take_out(data: dict[str, Any], key: str, indices: Iterable[Key]) -> list[Any]:
    entries: list[Any] = data.setdefault(key, [])
    return [entries.pop(int(index)) for index in sorted(indices, key=int, reverse=True)]


def _take_out_references(data: dict[str, Any], lost: list[Any]) -> None:
    """Take out what refers to messages that are gone, by their ids; what is no text may have been any."""
    kept = {message["id"] for message in data["messages"]}
    is_any = any(not isinstance(name, str) for name in lost)

    def is_gone(name: str) -> bool:
        return name not in kept and (is_any or name in lost)

    for message in data["messages"]:
        if "after" in message and is_gone(message["after"]["message"]):
            del message["after"]
            message.pop("to", None)
    if "of" in data.get("variants", {}) and is_gone(data["variants"]["of"]):
        del data["variants"]
