"""Two versions of one lockfile as one: what either says was sent, was sent.

Branches and machines may each have gone on from the same record. The rules are those by which a lockfile
that git has merged is read (`merge`). Lines that a state key has signed stay as they are, since that key is
not at hand here: where both versions have one of a launch, both stay, and reading makes one of them.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from runner.ledger.line_macs import without_mac
from runner.ledger.lockfile import load_data, parse_lockfile, read_launches
from runner.ledger.lockfile_writer import describe_launch, dump_data
from runner.ledger.merge import BLOCKS, agree_on_head, dump_line, refuse_mixture, unite_launches

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_ORDER = {
    "launches": ("message", "key", "project_launch_guid"),
    "messages": ("message", "tags", "launches", "recipients"),
    "runs": ("started_at", "id"),
}


def unite_lockfiles(file: Path, ours: str, theirs: str) -> str:
    """Return the text of a lockfile that says what two others say.

    Args:
        file: where it stands, for errors.
        ours: the text of one.
        theirs: the text of the other.

    Raises:
        LockfileError: one of them cannot be read, or they were made with keys of their own.
    """
    for text in dict.fromkeys((ours, theirs)):
        parse_lockfile(file, text)
    one, is_merged = load_data(file, ours)
    if ours == theirs and not is_merged:
        return ours
    return dump_data(_unite(file, one, load_data(file, theirs)[0]))


def _unite(file: Path, *sides: dict[str, Any]) -> dict[str, Any]:
    are_summaries = ["kind" in side for side in sides]
    refuse_mixture(file, is_summary=any(are_summaries), has_launches=not all(are_summaries))
    said: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for side in sides for name in side if name not in BLOCKS):
        said[name] = []
        for side in sides:
            if name in side and side[name] not in said[name]:
                said[name].append(side[name])
    united = agree_on_head(file, said)
    for block in BLOCKS:
        lines = _unite_lines([line for side in sides for line in side.get(block, ())])
        if block == "launches":
            lines = _unite_launches(file, lines, united.get("first_name", united["campaign"]))
        # Of a message that both have sent, both lines: only the ledger can make one of them.
        if any(block in side for side in sides):
            united[block] = sorted(lines, key=itemgetter(*_ORDER[block]))
    return united


def _unite_lines(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each line once: the one with a MAC, of two that say the same."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        said = dump_line(without_mac(line))
        if said not in found or "mac" in line:
            found[said] = line
    return list(found.values())


def _unite_launches(file: Path, lines: list[dict[str, Any]], first_name: str) -> list[dict[str, Any]]:
    """Return the lines of launches as they are, or, of those without a MAC, each launch once."""
    united = unite_launches(file, read_launches(lines), first_name)
    signed = {line["project_launch_guid"] for line in lines if "mac" in line}
    kept = [line for line in lines if line["project_launch_guid"] in signed]
    return kept + [describe_launch(one) for one in united if one.project_launch_guid not in signed]
