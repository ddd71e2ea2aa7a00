"""The lockfile: what was sent, beside the campaign, committed to git (design: delivery, contract)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from runner.errors import LockfileError
from runner.ledger.checksum import (
    RESTORE_HINT,
    rename_message,
    require_known_runs,
    require_times,
    require_unedited,
)
from runner.ledger.line_macs import is_signed, require_signed, without_mac
from runner.ledger.merge import agree_on_head, read_merged, refuse_mixture, unite_launches
from runner.ledger.model import LaunchRecord, Run, SummaryLine
from runner.source.schema import load_validator

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


LAUNCH_FIELDS = {"key", "message", "tag", "payload_digest", "project_launch_guid", "sent_at", "recipients"}
OPTIONAL_FIELDS = {"arm", "run"}
"""Fields of some launches: of those of a message with several arms, of those whose run is known."""


FULL_VERSION, SUMMARY_VERSION = 1, 2
"""The version of the format of a lockfile with all launches, and of one that sums up."""


@dataclass(frozen=True, slots=True)
class Lockfile:
    """What a lockfile says.

    Attributes:
        campaign: the campaign's name.
        target: the target's name.
        key_fingerprint: tells under which key the fingerprints were made.
        salt: the key itself; None if it is the user's secret.
        first_name: the name under which the fingerprints are made, of a campaign that was renamed since.
        launches: those that the service accepted.
        forgotten: the fingerprints of people who asked to be forgotten.
        runs: those that sent the launches, as far as that is known; each once.
        is_merged: whether git put it together from two branches' files, so that it has to be written anew.
        lines: of one that sums up: what it says of each message. One that was merged can have several of a
            message, each of which is true.
        is_summary: whether it sums up (`lockfile: summary`), and has lines in the place of launches.
        dismissed: the `project_launch_guid`s of launches under the campaign's tags that are not the
            campaign's.
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
    """Return where the lockfile of a campaign and a target stands: beside the campaign."""
    return campaign_file.with_name(f"{campaign_file.stem}.{target}.lock.json")


def read_lockfile(
    file: Path,
    names: Sequence[str] = (),
    message_ids: Mapping[str, str] | None = None,
    state_key: str | None = None,
) -> Lockfile | None:
    """Return what a lockfile says; None if there is none.

    One that git has merged, with conflict markers in it or not, says what both sides say.

    Args:
        file: where it stands.
        names: those that the campaign is known to have had.
        message_ids: the ids that messages have now, by those that they had before.
        state_key: the user's secret, which must have signed it; None to take it as it is.

    Raises:
        LockfileError: it cannot be read as one, was edited, is not signed, or its sides cannot be one record.
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
    """Return what a lockfile's text says.

    Args:
        file: where it is kept, for errors.
        text: what it holds.
        names: as for `read_lockfile`.
        message_ids: as for `read_lockfile`.
        state_key: as for `read_lockfile`.

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
    """Return the data of a lockfile's text, which fit the schema, and whether git has merged it.

    Args:
        file: where it is kept, for errors.
        text: what it holds.

    Raises:
        LockfileError: as for `read_lockfile`.
    """
    data, is_merged = _parse(file, text)
    _require_valid(file, data)
    return data, is_merged


def read_lines(data: dict[str, Any], message_ids: Mapping[str, str]) -> tuple[SummaryLine, ...]:
    """Return what data that fit the schema sum up, under the ids that messages have now; each line once."""
    items = map(without_mac, data.get("messages", ()))
    lines = (SummaryLine(**{**item, "tags": tuple(item["tags"])}) for item in items)
    renamed = (replace(line, message=message_ids.get(line.message, line.message)) for line in lines)
    return tuple(dict.fromkeys(renamed))


def read_launches(lines: Iterable[dict[str, Any]]) -> list[LaunchRecord]:
    """Return what lines of launches say, which fit the schema."""
    items = map(without_mac, lines)
    return [LaunchRecord(**{**item, "recipients": tuple(item["recipients"])}) for item in items]


def _read_launches(
    file: Path, data: dict[str, Any], names: Sequence[str], message_ids: Mapping[str, str]
) -> tuple[LaunchRecord, ...]:
    """Return the launches of data that fit the schema, under the ids that their messages have now."""
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
        return json.loads(text, object_pairs_hook=_refuse_repeated_keys), False
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
    # Without runs the lockfile has no line of them at all.
    runs = {"runs": merged.runs} if merged.runs else {}
    items = {"messages": merged.messages} if "kind" in merged.head else {"launches": merged.launches}
    return {**agree_on_head(file, merged.head), **items, **runs}, True


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        # The last one would win without a word, and the launches of the first be forgotten.
        raise ValueError
    return data


def _describe_damage(text: str, error: ValueError) -> str:
    if re.search(r"^<{7,}( |$)", text, re.MULTILINE):
        return "has merge conflict markers in it, around lines that were edited by hand"
    if isinstance(error, json.JSONDecodeError):
        return f"is not JSON (line {error.lineno}, column {error.colno})"
    return "says the same thing twice, and was edited by hand"


def _require_valid(file: Path, data: Any) -> None:
    head = data
    if isinstance(data, dict) and isinstance(data.get("launches"), list):
        # Launches that are plainly right are not shown to the validator, which is slow.
        head = {**data, "launches": [item for item in data["launches"] if not _is_plain_launch(item)]}
    problem = next(load_validator("lockfile").iter_errors(head), None)
    if problem is None:
        return
    version = data.get("lockfile_version") if isinstance(data, dict) else None
    known = SUMMARY_VERSION if isinstance(data, dict) and "kind" in data else FULL_VERSION
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
