"""In words what of `targets.yaml` is changed: where texts go, how, and with which credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runner.cli.inert import inert
from runner.repository.git import hide_credentials
from runner.source.document import YamlProblemError
from runner.source.schema import find_problems
from runner.source.yaml import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_MEANINGS = {
    "base_url": "texts, phone numbers and credentials go to another address",
    "insecure": "whether phone numbers, texts and credentials may go out **unencrypted**",
    "username_env": "other credentials go out",
    "api_key_env": "other credentials go out",
    "state_key_env": "another key of the record: with a wrong one everybody looks new",
    "cluster": "other machines do the work",
}
_LONGEST = 200
_UNREADABLE = "cannot be read as one: what it changes is **not known**"


def list_target_changes(file: Path, former: str | None, text: str | None) -> list[str]:
    """Return what differs between two versions of `targets.yaml`, one line of Markdown each.

    Args:
        file: where it stands, for what cannot be read.
        former: the text of the former version; None if there was none.
        text: that of the later one; None if there is none any more.
    """
    before, after = _read(file, former), _read(file, text)
    if before is None or after is None:
        return [f"the {'former' if before is None else 'new'} version {_UNREADABLE}"]
    return list(_compare(before, after))


def _read(file: Path, text: str | None) -> dict[str, Any] | None:
    """Return what a text says; None if it isn't valid: then it may hold what must not be shown."""
    if text is None:
        return {"targets": {}}
    try:
        document = read_yaml(text.removeprefix("\ufeff"), file)
    except YamlProblemError:
        return None
    if document.problems or next(iter(find_problems(document, "targets")), None) is not None:
        return None
    data: dict[str, Any] = document.data
    return data


def _compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    old, new = before["targets"], after["targets"]
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            said = ", ".join(f"{inert(key)} {_show(value)}" for key, value in _flatten(new[name]).items())
            yield f"**new target {inert(name)}**: {said}"
        elif name not in new:
            yield f"**the target {inert(name)} is removed**; it was at {_show(old[name].get('base_url'))}"
        else:
            yield from _compare_target(name, _flatten(old[name]), _flatten(new[name]))
    if before.get("default") != after.get("default"):
        change = f"{_show(before.get('default'))} → {_show(after.get('default'))}"
        yield f"**default**: {change}: commands that name no target go there"


def _compare_target(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            meaning = f": {_MEANINGS[key]}" if key in _MEANINGS else ""
            change = f"{_show(old.get(key))} → {_show(new.get(key))}"
            yield f"**{inert(name)}, {inert(key)}**: {change}{meaning}"


def _flatten(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a target's settings, its limits by their own names."""
    limits: Mapping[str, Any] = settings.get("limits", {})
    return {key: value for key, value in settings.items() if key != "limits"} | dict(limits)


def _show(value: Any) -> str:
    if value is None:
        return "not set"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"**{inert(hide_credentials(text)[:_LONGEST])}**"
