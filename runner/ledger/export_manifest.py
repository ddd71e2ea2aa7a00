"""What an export of the ledger consists of: `manifest.json`, which is written last and checked first."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from runner.errors import LedgerError
from runner.ledger.versions import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
_DIGEST_SIZE = 16
_CHUNK = 2**20
_ANEW = "export it again with `runner ledger export`, or take another copy"


@dataclass(frozen=True, slots=True)
class ExportFile:
    """One file of a table.

    Attributes:
        name: in the folder.
        rows: how many it has.
        digest: BLAKE2b-128 of its bytes, in hexadecimal digits.
    """

    name: str
    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class Export:
    """An export of the ledger, or of some campaigns of it.

    Attributes:
        exported_at: UTC, ISO 8601.
        schema_version: of the ledger's tables.
        campaigns: target and name of those in it, sorted.
        is_whole: whether it has all of the ledger, and not chosen campaigns.
        tables: their files, by their names, in an order in which they can be filled.
    """

    exported_at: str
    schema_version: int
    campaigns: tuple[tuple[str, str], ...]
    is_whole: bool
    tables: dict[str, tuple[ExportFile, ...]] = field(default_factory=dict)

    def count(self) -> dict[str, int]:
        """Return how many rows each table has."""
        return {name: sum(file.rows for file in files) for name, files in self.tables.items()}


def digest_file(file: Path) -> str:
    """Return the BLAKE2b-128 of a file's bytes, in hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def dump_manifest(export: Export) -> str:
    """Return the text of a manifest: JSON, its keys sorted."""
    data = {"format_version": FORMAT_VERSION, **asdict(export)}
    return (
        json.dumps({**data, "checksum": _sum_up(data)}, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    )


def read_export(folder: Path) -> Export:
    """Return what an export consists of, after making sure that it is whole and as it was written.

    Raises:
        LedgerError: it isn't, or a newer version has written it.
    """
    data = _read_manifest(folder)
    tables = {name: tuple(ExportFile(**file) for file in files) for name, files in data.pop("tables").items()}
    campaigns = tuple((target, name) for target, name in data.pop("campaigns"))
    export = Export(**data, campaigns=campaigns, tables=tables)
    for file in _iterate_files(export):
        place = folder / file.name
        if not place.is_file():
            raise LedgerError(f"the export {folder} lacks the file {file.name}", hint=_ANEW)
        if digest_file(place) != file.digest:
            raise LedgerError(
                f"the export {folder} is damaged: {file.name} is not as it was written", hint=_ANEW
            )
    return export


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        data = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        checksum, version = data.pop("checksum"), data["format_version"]
        is_sound = _sum_up(data) == checksum
    except FileNotFoundError:
        raise LedgerError(
            f"{folder} is no export of a ledger: it has no {MANIFEST}",
            hint="give the folder that `runner ledger export` has written",
        ) from None
    except (OSError, ValueError, LookupError, AttributeError):
        is_sound, version, data = False, FORMAT_VERSION, {}
    if not is_sound:
        raise LedgerError(f"the export {folder} is damaged: its {MANIFEST} was changed", hint=_ANEW)
    if version != FORMAT_VERSION or data["schema_version"] > SCHEMA_VERSION:
        raise LedgerError(
            f"the export {folder} was written by a newer version of runner", hint="update runner"
        )
    del data["format_version"]
    return dict(data)


def _iterate_files(export: Export) -> Iterator[ExportFile]:
    for files in export.tables.values():
        yield from files


def _sum_up(data: dict[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_SIZE).hexdigest()
