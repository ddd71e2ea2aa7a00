"""Lockfiles that git has merged, with conflict markers or with missing commas.

One launch is one line, so the merged record is the union of the lines. This happens on reading, since every
clone would have to set up a merge driver, and no forge runs one. Only lines as this program writes them are
accepted; anything else is damage.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from runner.errors import LockfileError
from runner.ledger.lockfile.integrity import RESTORE_HINT, renew_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from runner.ledger.model import LaunchRecord

BLOCKS = ("launches", "messages", "runs")
"""The blocks with one line for each item; every other value takes one line."""
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
    """The parsed lines of a merged lockfile, with duplicates.

    `head` has the values of each name outside of the blocks; more than one means a disagreement. `messages`
    are summed up ones. `has_launches` is set by an empty block, too.
    """

    head: dict[str, list[Any]] = field(default_factory=dict)
    launches: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    has_launches: bool = False


def dump_line(value: Any) -> str:
    """Return a value as a lockfile's line."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def read_merged(text: str) -> MergedText | None:
    """Return a lockfile that git has merged from whole lines, in any conflict style; None for other texts."""
    merged = MergedText()
    lines = read_merged_lines(text)
    if lines is None or not all(_take_line(merged, line) for line in lines):
        return None
    return merged


def read_merged_lines(text: str) -> list[str] | None:
    """Return the lines of both sides of a JSON object that git has merged; None if it is not whole."""
    kept = list(_keep_both_sides(text.replace("\r\n", "\n").split("\n")))
    lines = [line for line in kept if line is not None]
    # A truncated file also has lines of ours, so check its first and last line.
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
        # The text of a common ancestor contains the markers of its own conflicts, which are longer.
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
    """Enter a line; return False if this program does not write such lines."""
    bare = line.removesuffix(",")
    if bare in _FRAME:
        merged.has_launches |= "launches" in bare
        return True
    if line.startswith("    {"):
        item = parse_as_written(bare[4:])
        if isinstance(item, dict):
            # By their fields: a conflict may begin among the launches and end among the runs.
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
    """Return the value of a JSON text in this program's own format; None for any other."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if dump_line(value) == text else None


def refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object for `json.loads` as its `object_pairs_hook`.

    Raises:
        ValueError: a key is repeated; `json.loads` would silently take the last one.
    """
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError
    return data


def _unite_lists(head: dict[str, list[Any]]) -> None:
    """Unite lists of names; the schema refuses anything else."""
    for name in ("dismissed", "forgotten", "macs"):
        sides = head.get(name, [])
        if all(isinstance(side, list) and all(isinstance(one, str) for one in side) for side in sides):
            head.update({name: [sorted({one for side in sides for one in side})]} if sides else {})


def agree_on_head(file: Path, head: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the values outside the launches, which must be the same on both sides.

    Lists are united: people forgotten on one side are not texted by the other.

    Raises:
        LockfileError: the sides have different keys, or disagree on something else.
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
    """Ensure that both sides of a merged lockfile sum up, or both have launches.

    Raises:
        LockfileError: they differ: launches of one may be in the counts of the other.
    """
    if is_summary and has_launches:
        raise LockfileError(
            f"the lockfile {file} is a merge of one with all launches and one that sums up",
            hint="keep the side with the launches (git checkout --ours, or --theirs): the ledger is filled "
            "from it, and `runner apply` asks the service for what it lacks",
        )


def unite_launches(file: Path, launches: Iterable[LaunchRecord], name: str) -> tuple[LaunchRecord, ...]:
    """Return each launch once: git keeps a line twice that both sides have added.

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
        # Two machines may have recorded different recipients: all of them were reached.
        recipients = tuple(sorted({*twin.recipients, *launch.recipients}))
        first = min(twin, launch, key=lambda side: (side.sent_at, side.key))
        # A machine that found the launch at the service does not know its run.
        run = min(filter(None, (twin.run, launch.run)), default=None)
        united = replace(first, recipients=recipients, run=run)
        found[launch.project_launch_guid] = renew_key(united, name)
    return tuple(found.values())
