"""The lockfile: a JSON file of a campaign's sends, committed to git beside the campaign."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from runner.errors import LockfileError
from runner.ledger.lockfile.integrity import (
    RESTORE_HINT,
    is_signed,
    rename_message,
    require_known_runs,
    require_signed,
    require_times,
    require_unedited,
    without_mac,
)
from runner.ledger.lockfile.merge import (
    agree_on_head,
    read_merged,
    refuse_mixture,
    refuse_repeated_keys,
    unite_launches,
)
from runner.ledger.model import LaunchRecord, Run, SummaryLine
from runner.source.json_schema import load_validator
from runner.version import LOCKFILE_VERSION, SUMMARY_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


LAUNCH_FIELDS = {"key", "message", "tag", "payload_digest", "project_launch_guid", "sent_at", "recipients"}
OPTIONAL_FIELDS = {"arm", "run"}
"""Optional fields of launches: the arm of a message with several arms, and a known run."""


@dataclass(frozen=True, slots=True)
class Lockfile:
    """The contents of a lockfile.

    Attributes:
        campaign: the campaign's name.
        target: the target's name.
        key_fingerprint: the name of the fingerprints' key.
        salt: that key; None if it is the user's secret.
        first_name: a renamed campaign's name for its fingerprints.
        launches: accepted launches.
        forgotten: fingerprints of forgotten people.
        runs: the known runs that sent the launches; each once.
        is_merged: whether git merged it from two branches, so that it must be rewritten.
        lines: sums by message; a merged file can have several of one message, all of them true.
        is_summary: whether it has `lines` in place of launches (`lockfile: summary`).
        dismissed: `project_launch_guid`s under the campaign's tags that are not the campaign's.
        is_signed: whether its lines have MACs of a state key.
    """

    campaign: str
    target: str
    key_fingerprint: str
    salt: str | None
    first_name: str | None
    launches: tuple[LaunchRecord, ...]
    forgotten: frozenset[str] = frozenset()
    runs: tuple[Run, ...] = ()
    is_merged: bool = False
    lines: tuple[SummaryLine, ...] = ()
    is_summary: bool = False
    dismissed: frozenset[str] = frozenset()
    is_signed: bool = False


def lockfile_path(campaign_file: Path, target: str) -> Path:
    """Return the path of the lockfile of a campaign and a target."""
    return campaign_file.with_name(f"{campaign_file.stem}.{target}.lock.json")


def read_lockfile(
    file: Path,
    names: Sequence[str] = (),
    message_ids: Mapping[str, str] | None = None,
    state_key: str | None = None,
) -> Lockfile | None:
    """Return a lockfile, or None if there is none; one merged by git has the launches of both sides.

    `names` has all known names of the campaign. Without `state_key`, signatures are not checked.

    Raises:
        LockfileError: it is invalid, was edited, is not signed, or its sides cannot be one record.
    """
    text = read_text(file)
    return None if text is None else parse_lockfile(file, text, names, message_ids, state_key)


def read_text(file: Path) -> str | None:
    """Return the text of a lockfile; None if there is none.

    Raises:
        LockfileError: it cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LockfileError(
            f"the lockfile {file} cannot be read: {error.strerror}", hint=RESTORE_HINT
        ) from None
    except UnicodeDecodeError:
        raise LockfileError(f"the lockfile {file} is not UTF-8", hint=RESTORE_HINT) from None


def parse_lockfile(
    file: Path,
    text: str,
    names: Sequence[str] = (),
    message_ids: Mapping[str, str] | None = None,
    state_key: str | None = None,
) -> Lockfile:
    """Parse the text of a lockfile, with the arguments of `read_lockfile`.

    Raises:
        LockfileError: as for `read_lockfile`.
    """
    data, is_merged = load_data(file, text)
    if state_key is not None:
        require_signed(file, data, state_key)
    launches = _read_launches(file, data, names, message_ids or {})
    lines = read_lines(data, message_ids or {})
    runs = _read_runs(file, data, launches)
    sent_at = (time for line in lines for time in (line.first_sent_at, line.last_sent_at))
    require_times(file, chain((launch.sent_at for launch in launches), sent_at), runs)
    return Lockfile(
        data["campaign"],
        data["target"],
        data["key_fingerprint"],
        data.get("salt"),
        data.get("first_name"),
        launches,
        frozenset(data.get("forgotten", ())),
        runs,
        is_merged,
        lines,
        "kind" in data,
        frozenset(data.get("dismissed", ())),
        is_signed(data),
    )


def load_data(file: Path, text: str) -> tuple[dict[str, Any], bool]:
    """Return the schema-valid data of a lockfile's text, and whether git has merged it.

    Raises:
        LockfileError: as for `read_lockfile`.
    """
    data, is_merged = _parse(file, text)
    _require_valid(file, data)
    return data, is_merged


def read_lines(data: dict[str, Any], message_ids: Mapping[str, str]) -> tuple[SummaryLine, ...]:
    """Return the message lines of valid data once, under the current ids."""
    items = map(without_mac, data.get("messages", ()))
    lines = (SummaryLine(**{**item, "tags": tuple(item["tags"])}) for item in items)
    renamed = (replace(line, message=message_ids.get(line.message, line.message)) for line in lines)
    return tuple(dict.fromkeys(renamed))


def read_launches(lines: Iterable[dict[str, Any]]) -> list[LaunchRecord]:
    """Return the launches of valid lines."""
    items = map(without_mac, lines)
    return [LaunchRecord(**{**item, "recipients": tuple(item["recipients"])}) for item in items]


def _read_launches(
    file: Path, data: dict[str, Any], names: Sequence[str], message_ids: Mapping[str, str]
) -> tuple[LaunchRecord, ...]:
    """Return the launches of schema-valid data under the current ids of their messages."""
    first_name = data.get("first_name", data["campaign"])
    written = read_launches(data.get("launches", ()))
    require_unedited(file, written, (first_name, data["campaign"], *names))
    current = (rename_message(one, message_ids.get(one.message, one.message), first_name) for one in written)
    return unite_launches(file, current, first_name)


def _read_runs(file: Path, data: dict[str, Any], launches: Sequence[LaunchRecord]) -> tuple[Run, ...]:
    """Return each run once: git keeps a line twice that both sides have added."""
    runs = {run.id: run for run in (Run(**without_mac(item)) for item in data.get("runs", ()))}
    require_known_runs(file, runs.values(), launches)
    return tuple(runs.values())


def _parse(file: Path, text: str) -> tuple[Any, bool]:
    """Return a lockfile's data, and whether git has merged it."""
    try:
        return json.loads(text, object_pairs_hook=refuse_repeated_keys), False
    except RecursionError:
        raise LockfileError(
            f"the lockfile {file} is not JSON (nested too deeply)", hint=RESTORE_HINT
        ) from None
    except ValueError as error:
        merged = read_merged(text)
        if merged is None:
            raise LockfileError(
                f"the lockfile {file} {_describe_damage(text, error)}", hint=RESTORE_HINT
            ) from None
    refuse_mixture(file, is_summary="kind" in merged.head, has_launches=merged.has_launches)
    # A lockfile without runs has no block of them.
    runs = {"runs": merged.runs} if merged.runs else {}
    items = {"messages": merged.messages} if "kind" in merged.head else {"launches": merged.launches}
    return {**agree_on_head(file, merged.head), **items, **runs}, True


def _describe_damage(text: str, error: ValueError) -> str:
    if re.search(r"^<{7,}( |$)", text, re.MULTILINE):
        return "has merge conflict markers in it, around lines that were edited by hand"
    if isinstance(error, json.JSONDecodeError):
        return f"is not JSON (line {error.lineno}, column {error.colno})"
    return "says the same thing twice, and was edited by hand"


def _require_valid(file: Path, data: Any) -> None:
    head = data
    if isinstance(data, dict) and isinstance(data.get("launches"), list):
        # The validator is slow, so launches that are plainly right skip it.
        head = {**data, "launches": [item for item in data["launches"] if not _is_plain_launch(item)]}
    problem = next(load_validator("lockfile").iter_errors(head), None)
    if problem is None:
        return
    version = data.get("lockfile_version") if isinstance(data, dict) else None
    known = SUMMARY_VERSION if isinstance(data, dict) and "kind" in data else LOCKFILE_VERSION
    if isinstance(version, int) and version > known:
        raise LockfileError(
            f"the lockfile {file} was written by a newer version of runner", hint="update runner"
        )
    where = "/".join(str(key) for key in problem.absolute_path) or "its top level"
    raise LockfileError(f"the lockfile {file} is damaged at {where}: {problem.message}", hint=RESTORE_HINT)


def _is_plain_launch(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and item.keys() - OPTIONAL_FIELDS - {"mac"} == LAUNCH_FIELDS
        and all(isinstance(value, list if name == "recipients" else str) for name, value in item.items())
        and all(isinstance(recipient, str) for recipient in item["recipients"])
    )
