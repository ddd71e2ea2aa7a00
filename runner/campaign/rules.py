"""Defaults and bounds of campaigns, which stand in `targets.yaml`, whose changes its owners review.

Each file of that name between a campaign and the top of its repository holds (`list_targets_files`), so that
no other place, link or name takes a campaign out of reach. Defaults become a part of the campaign's document
before it is checked. Bounds of an audience are also checked on each plan (`runner.plan.plan_counts`).
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.campaign.rule_model import AppliedDefault, CampaignRules, RequiredRule
from runner.source.diagnostic import Position, ProblemError
from runner.source.json_schema import schema_text, write_flow
from runner.source.money import parse_money
from runner.source.quantity import parse_duration, parse_share
from runner.source.storage import stamp_file
from runner.source.targets_file import (
    TARGETS_FILE,
    list_targets_files,
    read_targets_file,
)
from runner.timing.window import parse_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.source.diagnostic import Diagnostic
    from runner.source.yaml import Key, YamlDocument

_SECTIONS = ("policy", "schedule", "limits")
_WORDS = "opt_out_words"
_AUDIENCE = "recipients"


def read_rules(document: YamlDocument, current: Path) -> tuple[CampaignRules, list[Diagnostic]]:
    """Add the defaults to a campaign's document; return what was added, the bounds, and what is wrong.

    Defaults are those around the file, and around the one that a link leads to. Bounds are also those around
    the `current` folder, whose targets may be used.
    """
    written = Path(os.path.abspath(document.file)).parent  # noqa: PTH100  keeps links
    own = [written, document.file.resolve().parent]
    files = list_targets_files([*own, current.absolute()], current)
    giving = list_targets_files(own, current)
    stamps = {str(file): stamp_file(str(file)) for file in files}
    defaults: list[AppliedDefault] = []
    required: list[RequiredRule] = []
    wrong: list[Diagnostic] = []
    for file in files:
        try:
            found = read_targets_file(file)
        except ProblemError as error:
            wrong.extend(error.diagnostics)
            continue
        if found is not None and file in giving:
            defaults.extend(_add_defaults(document, found))
        if found is not None:
            required.extend(_list_required(found, current))
    said = {json.dumps([one.key, one.value]) for one in defaults if one.key != "owner"}
    said |= {json.dumps([one.name, one.bound]) for one in required}
    digest = hashlib.sha256("\n".join(sorted(said)).encode()).hexdigest() if said else ""
    return CampaignRules(tuple(defaults), tuple(required), digest, stamps), wrong


def _add_defaults(document: YamlDocument, targets: YamlDocument) -> Iterator[AppliedDefault]:
    """Add the defaults of a targets.yaml where the campaign says nothing, and yield them."""
    data, defaults = document.data, targets.data.get("defaults", {})
    if not isinstance(data, dict):
        return
    if "owner" in defaults and "owner" not in data:
        document.take(data, "owner", targets, defaults)
        yield AppliedDefault("owner", data["owner"], document.position(["owner"]))
    for section in _SECTIONS:
        if section not in defaults or not isinstance(data.get(section, {}), dict):
            continue
        added = list(document.adopt(section, targets, defaults))
        for key in added:
            yield AppliedDefault(f"{section}.{key}", data[section][key], document.position([section, key]))
        if section == "policy" and _WORDS not in added and isinstance(data[section].get(_WORDS), list):
            yield from _add_words(data[section], targets)
        if section == "limits" and _AUDIENCE not in added and _AUDIENCE in defaults[section]:
            yield from _add_guards(data[section], targets)


def _add_words(policy: dict[str, Any], targets: YamlDocument) -> Iterator[AppliedDefault]:
    """Add opt-out words to a campaign's own: they only protect."""
    words = [
        word for word in targets.data["defaults"]["policy"].get(_WORDS, ()) if word not in policy[_WORDS]
    ]
    if words:
        policy[_WORDS] = [*policy[_WORDS], *words]
        place = targets.position(["defaults", "policy", _WORDS])
        yield AppliedDefault(f"policy.{_WORDS}", words, place)


def _add_guards(limits: dict[str, Any], targets: YamlDocument) -> Iterator[AppliedDefault]:
    """Add the guards of an audience that a campaign does not have beside its own."""
    given, own = (
        one if isinstance(one, dict) else {"most": one}
        for one in (targets.data["defaults"]["limits"][_AUDIENCE], limits[_AUDIENCE])
    )
    if added := {key: value for key, value in given.items() if key not in own}:
        limits[_AUDIENCE] = {**added, **own}
        place = targets.position(["defaults", "limits", _AUDIENCE])
        yield AppliedDefault(f"limits.{_AUDIENCE}", added, place)


def _list_required(targets: YamlDocument, current: Path) -> Iterator[RequiredRule]:
    shown = os.path.relpath(targets.file, current)
    for name, bound in targets.data.get("require", {}).items():
        line = targets.position(["require", name], at_key=True).line
        is_most = isinstance(bound, str) and bound.startswith("<=")
        rule = RequiredRule(name, int(bound[2:]) if is_most else bound, f"{shown}:{line}")
        yield rule
        if rule.is_of_hours:
            # What waits at the service behind an open survey leaves at any hour.
            yield RequiredRule("open_session", "complete", f"{shown}:{line}")


def name_taker(problem: Diagnostic, campaign: Path) -> Diagnostic:
    """Return a problem of a campaign; one of a default, which is in another file, says whose it is."""
    if problem.file.name != TARGETS_FILE:
        return problem
    return replace(problem, message=f"{problem.message} (the default is taken by {campaign.name})")


class _Check(NamedTuple):
    """The check of a bound on a key of a section, by its values as they are written.

    `keeps` takes the campaign's value, None if it has none, and the bound; `describe` the bound.
    """

    section: str
    keeps: Callable[[Any, Any], bool]
    describe: Callable[[Any], str]


def _is_at_most(value: Any, bound: int) -> bool:
    most = value.get("most") if isinstance(value, dict) else value
    return most is not None and most <= bound


def _choose(*strictest_first: str) -> _Check:
    order = strictest_first.index
    return _Check(
        "policy",
        lambda value, bound: value is not None and order(value) <= order(bound),
        lambda bound: " or ".join(f"`{one}`" for one in strictest_first[order(bound) :: -1]),
    )


def _measure(parse: Callable[[str], Any]) -> _Check:
    return _Check(
        "policy",
        lambda value, bound: value is not None and parse(value) <= parse(bound),
        lambda bound: f"at most {bound}",
    )


def _count_within(cap: dict[str, Any], within: str) -> int:
    """Return how many messages a cap lets through in another time at most: all at the starts of its times."""
    times = -(-parse_duration(within) // parse_duration(cap["within"]))
    return int(cap["messages"] * times)


def _is_as_cheap(value: str, bound: str) -> bool:
    own, most = parse_money(value), parse_money(bound)
    return own.currency == most.currency and own.amount <= most.amount


def _is_inside(hours: list[str] | None, bound: list[str]) -> bool:
    (start, end), (first, last) = ([parse_clock(one) or 0 for one in each] for each in (hours or _DAY, bound))
    return first <= start and end <= last


_DAY = ["00:00", "24:00"]
_CHECKS: dict[str, _Check] = {
    "quiet_hours": _choose("legal", "none"),
    "no_rule": _choose("refuse", "schedule"),
    "purpose": _choose("marketing", "survey", "service"),
    "consent": _choose("required", "not_required"),
    "audience": _choose("encrypted", "any"),
    "sender": _Check("policy", lambda value, bound: value == bound, lambda bound: f"`{bound}`"),
    "timezone_unknown": _choose("refuse", "campaign"),
    "landlines": _choose("refuse", "warn", "allow"),
    "open_session": _choose("wait", "complete", "queue"),
    **dict.fromkeys(("read_replies_within", "retention"), _measure(parse_duration)),
    "review_margin": _measure(parse_share),
    "frequency_cap": _Check(
        "policy",
        lambda cap, bound: cap is not None and _count_within(cap, bound["within"]) <= bound["messages"],
        lambda bound: f"at most {bound['messages']} in {bound['within']}",
    ),
    "cost": _Check(
        "limits",
        lambda value, bound: value is not None and _is_as_cheap(value, bound),
        lambda bound: f"at most {bound}",
    ),
    "send_between": _Check("schedule", _is_inside, lambda bound: f"hours from {bound[0]} to {bound[1]}"),
    **dict.fromkeys(
        ("recipients", "renders", "segments_per_message", "recipients_per_send"),
        _Check("limits", _is_at_most, lambda bound: f"at most {bound:,}"),
    ),
}
"""The checks of rules by name, which is that of the key; others need the plan or the target."""


def find_broken_rules(
    document: YamlDocument, rules: CampaignRules, violations: Sequence[Sequence[Key]]
) -> Iterator[Diagnostic]:
    """Yield the bounds that a campaign goes beyond, at its own line.

    What the schema refuses, `violations` by their paths, is another problem.
    """
    refused = {path[0] for path in violations if path}
    for rule in rules.required:
        check = _CHECKS.get(rule.name)
        if check is None or check.section in refused:
            continue
        section = document.data.get(check.section, {})
        value = section.get(rule.name, _read_defaults(check.section).get(rule.name))
        if not check.keeps(value, rule.bound):
            yield _describe(document, rule, check, value)
        elif rule.name == "open_session" and rule.bound == "wait":
            yield from _find_ended(document, rule)


def _describe(document: YamlDocument, rule: RequiredRule, check: _Check, value: Any) -> Diagnostic:
    name, section = f"{check.section}.{rule.name}", document.data.get(check.section, {})
    said = "is not set" if value is None else f"is {_show(value)}"
    if rule.name not in section and value is not None:
        said += " by default"
    if rule.name == "frequency_cap" and value is not None:
        within = rule.bound["within"]
        said += f", which lets {_count_within(value, within)} through in {within}"
    place = document.position([check.section, rule.name])
    bound = (
        {**value, "most": rule.bound} if rule.name == _AUDIENCE and isinstance(value, dict) else rule.bound
    )
    piece = f"{rule.name}: {bound if isinstance(bound, str) else write_flow(bound)}"
    if rule.name not in section and (check.section not in document.data or place.file != document.file):
        place, piece = Position(document.file, 1, 1), f"{check.section}: {{{piece}}}"
    words = f"`{name}` {said}, and {rule.place} requires {check.describe(rule.bound)}"
    return _report(rule, place, words, piece)


def _report(rule: RequiredRule, place: Position, words: str, piece: str) -> Diagnostic:
    hint = f"write `{piece}`: only targets.yaml can change the rule"
    return place.problem(f"require-{rule.name.replace('_', '-')}", words, hint)


def _find_ended(document: YamlDocument, rule: RequiredRule) -> Iterator[Diagnostic]:
    """Yield messages and arms that end open surveys by themselves."""
    key = "complete_existing_sessions"
    for path in (["messages"], ["variants", "arms"]):
        entries = document.data
        for step in path:
            entries = entries.get(step, {}) if isinstance(entries, dict) else ()
        for index, one in enumerate(entries):
            if isinstance(one, dict) and one.get(key) is True:
                words = f"`{key}` ends open surveys, and {rule.place} requires `open_session: wait`"
                place = document.position([*path, index, key])
                yield _report(rule, place, words, f"{key}: false")


def _show(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"`{value}`" if isinstance(value, str) else f"`{write_flow(value)}`"


@cache
def _read_defaults(section: str) -> dict[str, Any]:
    """Return what holds where a campaign says nothing, by the schema."""
    keys = json.loads(schema_text("campaign"))["$defs"][section]["properties"]
    return {key: rule["default"] for key, rule in keys.items() if "default" in rule}
