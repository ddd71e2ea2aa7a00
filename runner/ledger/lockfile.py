"""The lockfile: what was sent, beside the campaign, committed to git (design: delivery, contract)."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.errors import LockfileError
from runner.ledger.model import LaunchRecord
from runner.source.schema import load_validator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.ledger.fingerprint import FingerprintKey

_FIELDS = {"key", "message", "tag", "payload_digest", "project_launch_guid", "sent_at", "recipients"}
_RESTORE_HINT = "restore it with git; nothing is sent as long as it is unclear who was texted"


@dataclass(frozen=True, slots=True)
class Lockfile:
    """What a lockfile says."""

    campaign: str
    target: str
    key_fingerprint: str
    salt: str | None
    launches: tuple[LaunchRecord, ...]


def lockfile_path(campaign_file: Path, target: str) -> Path:
    """Return where the lockfile of a campaign and a target stands: beside the campaign."""
    return campaign_file.with_name(f"{campaign_file.stem}.{target}.lock.json")


def read_lockfile(file: Path) -> Lockfile | None:
    """Return what a lockfile says; None if there is none.

    Raises:
        LockfileError: it cannot be read as one.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LockfileError(
            f"the lockfile {file} cannot be read: {error.strerror}", hint=_RESTORE_HINT
        ) from None
    except UnicodeDecodeError:
        raise LockfileError(f"the lockfile {file} is not UTF-8", hint=_RESTORE_HINT) from None
    data = _parse(file, text)
    launches = tuple(
        LaunchRecord(**{**item, "recipients": tuple(item["recipients"])}) for item in data["launches"]
    )
    return Lockfile(data["campaign"], data["target"], data["key_fingerprint"], data.get("salt"), launches)


def _parse(file: Path, text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except RecursionError:
        raise LockfileError(
            f"the lockfile {file} is not JSON (nested too deeply)", hint=_RESTORE_HINT
        ) from None
    except json.JSONDecodeError as error:
        conflict = "\n<<<<<<< " in text or text.startswith("<<<<<<< ")
        words = (
            "has merge conflict markers in it"
            if conflict
            else f"is not JSON (line {error.lineno}, column {error.colno})"
        )
        raise LockfileError(f"the lockfile {file} {words}", hint=_RESTORE_HINT) from None
    head = data
    if isinstance(data, dict) and isinstance(data.get("launches"), list):
        # Launches that are plainly right are not shown to the validator, which is slow.
        head = {**data, "launches": [item for item in data["launches"] if not _is_plain_launch(item)]}
    problem = next(load_validator("lockfile").iter_errors(head), None)
    if problem is not None:
        if (
            isinstance(data, dict)
            and isinstance(data.get("lockfile_version"), int)
            and data["lockfile_version"] > 1
        ):
            raise LockfileError(
                f"the lockfile {file} was written by a newer version of runner", hint="update runner"
            )
        where = "/".join(str(key) for key in problem.absolute_path) or "its top level"
        raise LockfileError(
            f"the lockfile {file} is damaged at {where}: {problem.message}", hint=_RESTORE_HINT
        )
    return data  # type: ignore[no-any-return]


def _is_plain_launch(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and item.keys() == _FIELDS
        and all(isinstance(value, list if name == "recipients" else str) for name, value in item.items())
        and all(isinstance(recipient, str) for recipient in item["recipients"])
    )


def write_lockfile(
    file: Path, campaign: str, target: str, key: FingerprintKey, launches: Iterable[LaunchRecord]
) -> bool:
    """Write a lockfile, whole or not at all.

    Args:
        file: where it stands.
        campaign: the campaign's name.
        target: the target's name.
        key: under which the fingerprints were made.
        launches: sorted by message and key; streamed.

    Returns:
        Whether it differs from what was there.

    Raises:
        LockfileError: it cannot be written. What was there is untouched.
    """
    temporary: str | None = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=file.parent, prefix=f".{file.name}.", delete=False
        ) as stream:
            temporary = stream.name
            _write(stream, campaign, target, key, launches)
            stream.flush()
            os.fsync(stream.fileno())
        changed = not _same_content(file, Path(temporary))
        if changed:
            Path(temporary).chmod(0o644)
            Path(temporary).replace(file)
            temporary = None
            _sync_folder(file.parent)
    except OSError as error:
        raise LockfileError(
            f"the lockfile {file} cannot be written: {error.strerror}",
            hint="the ledger has everything: run `runner apply` again when this is mended",
        ) from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
    return changed


def _write(
    stream: Any, campaign: str, target: str, key: FingerprintKey, launches: Iterable[LaunchRecord]
) -> None:
    def dump(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, sort_keys=True)

    stream.write(
        f'{{\n  "campaign": {dump(campaign)},\n  "key_fingerprint": {dump(key.name)},\n  "launches": ['
    )
    separator = "\n"
    for launch in launches:
        item = {name: getattr(launch, name) for name in _FIELDS}
        stream.write(f"{separator}    {dump(item)}")
        separator = ",\n"
    end = "]" if separator == "\n" else "\n  ]"
    stream.write(f'{end},\n  "lockfile_version": 1,\n')
    if key.salt is not None:
        stream.write(f'  "salt": {dump(key.salt)},\n')
    stream.write(f'  "target": {dump(target)}\n}}\n')


def _same_content(first: Path, second: Path) -> bool:
    try:
        return first.stat().st_size == second.stat().st_size and first.read_bytes() == second.read_bytes()
    except FileNotFoundError:
        return False


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
