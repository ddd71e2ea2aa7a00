"""Lockfiles that git has merged: both sides of a conflict, or lines put together without the right commas.

One launch is one line, so that nearly every merge is a matter of lines, and the record of two branches
is the union of their launches: accepted is accepted, whichever branch knows. This is read here rather
than in a merge driver, which would have to be set up in every clone, and which no forge runs.

Only what this program itself wrote, line by line, is read like this; anything else is damage.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from runner.errors import LockfileError
from runner.ledger.checksum import RESTORE_HINT, renew_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from runner.ledger.model import LaunchRecord

BLOCKS = ("launches", "messages", "runs")
"""What a lockfile has one line each of; whatever else it says stands on one line."""
_MARKER = re.compile(r"(<{7,}|\|{7,}|={7,}|>{7,})(?: .*)?")
_HEAD = re.compile(r'  "(?P<name>[a-z_]+)": (?P<value>.+)')
_FRAME = {
    "{",
    "}",
    '  "launches": [',
    '  "launches": []',
    '  "messages": [',
    '  "messages": []',
    '  "runs": [',
    "  ]",
}


@dataclass(slots=True)
class MergedText:
    """What the lines of a merged lockfile say.

    Attributes:
        head: the values that each line outside the launches gives its name, in order; more than one means
            that the sides disagree.
        launches: every launch's line, parsed; one that both sides have comes twice.
        runs: every run's line, parsed; one that both sides have comes twice.
        messages: every line of a message that is summed up, parsed.
        has_launches: whether a side has launches, were it none.
    """

    head: dict[str, list[Any]] = field(default_factory=dict)
    launches: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    has_launches: bool = False


def dump_line(value: Any) -> str:
    """Return a value as it stands in a lockfile's line."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def read_merged(text: str) -> MergedText | None:
    """Return what a lockfile says that git has put together from whole lines; None if it is anything else.

    Args:
        text: the file, with the markers of any conflict style (merge, diff3, zdiff3) or without.
    """
    merged = MergedText()
    lines = read_merged_lines(text)
    if lines is None or not all(_take_line(merged, line) for line in lines):
        return None
    return merged


def read_merged_lines(text: str) -> list[str] | None:
    """Return the lines of both sides of a file that git has merged; None if it is not whole.

    Args:
        text: as for `read_merged`; a JSON object, laid out in lines.
    """
    kept = list(_keep_both_sides(text.replace("\r\n", "\n").split("\n")))
    lines = [line for line in kept if line is not None]
    # A file that was cut off has lines of ours as well: it must have its ends.
    if len(lines) != len(kept) or lines[:1] != ["{"] or lines[-2:] != ["}", ""]:
        return None
    return lines[:-1]


def _choose_shelf(merged: MergedText, item: dict[str, Any]) -> list[dict[str, Any]]:
    if "started_at" in item:
        return merged.runs
    return merged.messages if "digest" in item else merged.launches


def _keep_both_sides(lines: Iterable[str]) -> Iterator[str | None]:
    """Yield the lines of both sides of every conflict, and None if markers don't pair."""
    expected, width, is_base = "<", 0, False
    for line in lines:
        marker = _MARKER.fullmatch(line)
        # In the text of a common ancestor stand the markers of its own conflicts: they are longer.
        if marker is None or (width and len(marker[1]) != width):
            if not is_base:
                yield line
            continue
        kind = line[0]
        if kind not in expected:
            yield None
            return
        width = len(marker[1]) if kind != ">" else 0
        is_base = kind == "|"
        expected = {"<": "|=", "|": "=", "=": ">", ">": "<"}[kind]
    if width:
        yield None


def _take_line(merged: MergedText, line: str) -> bool:
    """Enter a line; return whether it is one that this program writes."""
    bare = line.removesuffix(",")
    if bare in _FRAME:
        merged.has_launches |= "launches" in bare
        return True
    if line.startswith("    {"):
        item = parse_as_written(bare[4:])
        if isinstance(item, dict):
            # Known by what they are: a conflict may begin among the launches and end among the runs.
            _choose_shelf(merged, item).append(item)
        return isinstance(item, dict)
    found = _HEAD.fullmatch(bare)
    value = parse_as_written(found["value"]) if found else None
    if found is None or value is None:
        return False
    shelf = merged.head.setdefault(found["name"], [])
    if value not in shelf:
        shelf.append(value)
    return True


def parse_as_written(text: str) -> Any:
    """Return the value of a JSON text that is written as this program writes it; None of any other."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if dump_line(value) == text else None


def _unite_lists(head: dict[str, list[Any]]) -> None:
    """Keep what either side lists; what is no list of names is left to the schema."""
    for name in ("dismissed", "forgotten", "macs"):
        sides = head.get(name, [])
        if all(isinstance(side, list) and all(isinstance(one, str) for one in side) for side in sides):
            head.update({name: [sorted({one for side in sides for one in side})]} if sides else {})


def agree_on_head(file: Path, head: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the values outside the launches, each of which must be the same on both sides.

    Except for its lists: who asked one side to be forgotten is not texted by the other.

    Args:
        file: the lockfile, for the error.
        head: the values of each name.

    Raises:
        LockfileError: the sides were not made with the same key, or disagree on something else.
    """
    _unite_lists(head)
    first_names = head.get("first_name", [])
    if len(first_names) == 1:
        # One branch has renamed the campaign, the other has gone on sending it under its first name.
        head["campaign"] = [
            name for name in head.get("campaign", []) if name not in first_names
        ] or first_names
    names = [name for name, values in head.items() if len(values) > 1]
    if "salt" in names or ("salt" in head and "key_fingerprint" in names):
        raise LockfileError(
            f"the lockfile {file} holds the sends of two branches, each made with a key of its own",
            hint=f"keep the side that was sent with the ledger here (git checkout --ours {file}, or "
            "--theirs), or either one and move the ledger away; `runner apply` then asks the service for "
            "what the other side sent. With a RUNNER_STATE_KEY branches just merge",
        )
    if names:
        raise LockfileError(
            f"the lockfile {file} was merged, and its sides don't agree on {', '.join(sorted(names))}",
            hint=RESTORE_HINT,
        )
    return {name: values[0] for name, values in head.items()}


def refuse_mixture(file: Path, *, is_summary: bool, has_launches: bool) -> None:
    """Make sure that not one side of a merged lockfile sums up and the other has all launches.

    Args:
        file: the lockfile, for the error.
        is_summary: whether a side sums up.
        has_launches: whether a side has launches.

    Raises:
        LockfileError: it is so: what one has and the other counts cannot be told apart.
    """
    if is_summary and has_launches:
        raise LockfileError(
            f"the lockfile {file} is a merge of one with all launches and one that sums up",
            hint="keep the side with the launches (git checkout --ours, or --theirs): the ledger is filled "
            "from it, and `runner apply` asks the service for what it lacks",
        )


def unite_launches(file: Path, launches: Iterable[LaunchRecord], name: str) -> tuple[LaunchRecord, ...]:
    """Return each launch once: git keeps a line twice that both sides have added.

    Args:
        file: the lockfile, for the error.
        launches: of either side.
        name: the campaign's first name.

    Raises:
        LockfileError: one launch is under two messages.
    """
    found: dict[str, LaunchRecord] = {}
    for launch in launches:
        twin = found.setdefault(launch.project_launch_guid, launch)
        if twin is launch or twin == launch:
            continue
        if twin.message != launch.message:
            raise LockfileError(
                f"the lockfile {file} has the launch {launch.project_launch_guid} under two messages",
                hint=RESTORE_HINT,
            )
        # Two machines may have learned of it in two ways: all that either says it reached were reached.
        recipients = tuple(sorted({*twin.recipients, *launch.recipients}))
        first = min(twin, launch, key=lambda side: (side.sent_at, side.key))
        # One that has only found the launch at the service doesn't know which run sent it.
        run = min(filter(None, (twin.run, launch.run)), default=None)
        united = replace(first, recipients=recipients, run=run)
        found[launch.project_launch_guid] = renew_key(united, name)
    return tuple(found.values())
