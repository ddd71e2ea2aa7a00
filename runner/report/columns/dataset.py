"""A copy of a campaign's results in columns, which is brought up to date from the ledger.

The copy is Parquet: the same statements read it here, from object storage, or on a cluster. It can be removed
at any time. It holds answers, so it is this user's alone, and what the ledger forgets it loses as a whole.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from runner.errors import RunnerError
from runner.ledger.report_model import FeedRow, ResultVersion
from runner.report.columns.derivation import LAYOUT, derive_columns, flag_refusals
from runner.report.columns.engine import SPILL, Engine, quote
from runner.report.columns.staging import stage_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_LOCK = "lock"
_MANIFEST = "manifest.json"
_MOST_PARTS = 16


@dataclass(frozen=True, slots=True)
class _Manifest:
    """What a folder holds.

    Attributes:
        layout: of the files.
        edition: of the ledger's results.
        revision: up to which they are here.
        mark: of that revision.
        parts: names of Parquet files, the oldest first.
    """

    layout: int
    edition: str
    revision: int
    mark: str
    parts: tuple[str, ...]


class ResultColumns:
    """The copy of one campaign's results.

    Args:
        folder: its own; made if it isn't there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def hold(self) -> Iterator[Engine]:
        """Keep other processes from the copy, and yield an engine to read it with; it waits for its turn.

        Raises:
            RunnerError: the folder cannot be written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self._folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise self._cannot_write(error) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # What a run that was killed has spilled: answers stand in it.
            shutil.rmtree(self._folder / SPILL, ignore_errors=True)
            with Engine(self._folder) as engine:
                yield engine
        finally:
            os.close(lock)

    def refresh(
        self,
        engine: Engine,
        version: ResultVersion,
        read_since: Callable[[int], Iterable[FeedRow]],
        find_mark: Callable[[int], str],
        refusals: Iterable[tuple[int, str]] = (),
    ) -> None:
        """Bring the copy up to date, and let the engine see it as the table `results`.

        Args:
            engine: of `hold`.
            version: which results the ledger has.
            read_since: yields those that it has entered or changed after a revision, each once.
            find_mark: returns what tells a revision from another of that number: ledgers are restored.
            refusals: those that opt out, as for `flag_refusals`.

        Raises:
            RunnerError: the copy cannot be written.
        """
        held = self._read_manifest()
        if (
            held is None
            or held.edition != version.edition
            or held.revision > version.revision
            or held.mark != find_mark(held.revision)
        ):
            held = _Manifest(LAYOUT, version.edition, -1, "", ())
        try:
            if held.revision != version.revision:
                name = f"{version.edition}-{version.revision}"
                parts = self._take_in(engine, name, held.parts, read_since(held.revision))
                mark = find_mark(version.revision)
                held = _Manifest(LAYOUT, version.edition, version.revision, mark, parts)
                self._write_manifest(held)
            self._remove_strays(held)
        except OSError as error:
            raise self._cannot_write(error) from None
        flagged = flag_refusals(engine, self._folder, self._select(held.parts), refusals)
        engine.run(f"CREATE OR REPLACE TEMP VIEW results AS {flagged}")

    def _take_in(
        self, engine: Engine, name: str, parts: tuple[str, ...], rows: Iterable[FeedRow]
    ) -> tuple[str, ...]:
        """Return the parts with further rows among them: in a part of their own, if they replace none."""
        with stage_rows(self._folder, FeedRow._fields, rows) as staged:
            if parts and not staged.count:
                return parts
            new = self._write_part(engine, derive_columns(staged.select), name)
        if not parts:
            return (new,)
        replaced = f"""SELECT count(*) FROM ({self._select(parts)})
            SEMI JOIN ({self._select((new,))}) USING (launch_id, result_guid)"""
        ((overlap,),) = engine.rows(replaced)
        if not overlap and len(parts) < _MOST_PARTS:
            return (*parts, new)
        merged = f"""{self._select((new,))} UNION ALL SELECT * FROM ({self._select(parts)})
            ANTI JOIN ({self._select((new,))}) USING (launch_id, result_guid)"""
        return (self._write_part(engine, merged, f"{name}-merged"),)

    def _write_part(self, engine: Engine, select: str, name: str) -> str:
        file = self._folder / f"{name}.parquet"
        engine.run(f"COPY ({select}) TO {quote(str(file))} (FORMAT parquet, COMPRESSION zstd)")
        return file.name

    def _select(self, parts: tuple[str, ...]) -> str:
        files = ", ".join(quote(str(self._folder / name)) for name in parts)
        return f"SELECT * FROM read_parquet([{files}])"

    def _read_manifest(self) -> _Manifest | None:
        try:
            written = json.loads((self._folder / _MANIFEST).read_text(encoding="utf-8"))
            manifest = _Manifest(**{**written, "parts": tuple(written["parts"])})
            is_whole = bool(manifest.parts) and all(
                (self._folder / name).is_file() for name in manifest.parts
            )
            is_numbered = manifest.layout == LAYOUT and isinstance(manifest.revision, int)
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return manifest if is_whole and is_numbered else None

    def _write_manifest(self, manifest: _Manifest) -> None:
        draft = self._folder / f"{_MANIFEST}.new"
        draft.write_text(json.dumps(asdict(manifest)), encoding="utf-8")
        draft.replace(self._folder / _MANIFEST)

    def _remove_strays(self, manifest: _Manifest) -> None:
        """Remove what a refresh that was killed has left: answers stand in it."""
        held = {_LOCK, _MANIFEST, *manifest.parts}
        for file in self._folder.iterdir():
            if file.name not in held and file.is_file():
                file.unlink(missing_ok=True)

    def _cannot_write(self, error: OSError) -> RunnerError:
        return RunnerError(
            f"the copy of the results in {self._folder} cannot be written: {error.strerror}",
            hint="make room on the disk, and check that this user may write there",
        )
