"""A copy of a campaign's results in columns, updated from the ledger.

The copy is Parquet, and can be removed at any time. It holds answers, so it is readable by this user alone,
and it is rebuilt whenever the ledger forgets results.
Numbers replace texts that are only compared, derived once, when results are copied: the engine groups them in
a fraction of time and memory. Beside the copy stand tables of the audience, for breakdowns and exports.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from runner.errors import RunnerError
from runner.ledger.report_model import ORDER_UNKNOWN, AskedRow, FeedRow, ResultVersion
from runner.report.columns.engine import SPILL, Engine, quote, stage_rows
from runner.source.normalize import PLAIN, TYPED
from runner.source.quantity import AMBIGUOUS_NUMBER, GROUPED_NUMBER, PLAIN_NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path


_LOCK = "lock"
_MANIFEST = "manifest.json"
_MOST_PARTS = 16


@dataclass(frozen=True, slots=True)
class _Manifest:
    """The content of a folder: Parquet files, the oldest first, up to a revision of the ledger."""

    layout: int
    edition: str
    revision: int
    mark: str
    parts: tuple[str, ...]


class ResultColumns:
    """The copy of one campaign's results, in a folder of its own, made if needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def hold(self) -> Iterator[Engine]:
        """Lock the copy, waiting if needed, and yield an engine to read it with.

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
            # Data spilled by a killed run has answers.
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
        """Update the copy, and make it visible to the engine of `hold` as the table `results`.

        `read_since` yields results entered or changed after a revision, each once. `find_mark` returns a mark
        that identifies a revision, as a restored ledger may have another of that number. `refusals` are as
        for `flag_refusals`.

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
        """Return the parts with further rows added, in a new part if they replace none."""
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
        """Remove the files of an interrupted refresh, which have answers."""
        held = {_LOCK, _MANIFEST, *manifest.parts}
        for file in self._folder.iterdir():
            if file.name not in held and file.is_file():
                file.unlink(missing_ok=True)

    def _cannot_write(self, error: OSError) -> RunnerError:
        return RunnerError(
            f"the copy of the results in {self._folder} cannot be written: {error.strerror}",
            hint="make room on the disk, and check that this user may write there",
        )


LAYOUT = 7
"""The version of the columns: a copy of another one is rebuilt."""

# Characters that Python strips from a text's ends, as the readers do.
_BLANK = r"[\s\x0b\x1c-\x1f\x{85}\p{Z}]"
_LATEST_US = 253_402_300_799_999_999  # the end of the year 9999
# Letters and the marks that follow them, with apostrophes inside; anything else ends a word.
_WORD = r"\p{L}[\p{L}\p{M}]*(?:''[\p{L}\p{M}]+)*"
# As `fold_answer`, but for case folding and compatibility forms.
_PLAIN_TEXT = f"""translate(replace(response, '…', '...'), {quote(TYPED)}, {quote(PLAIN)})"""
_CLOSE_MARKS = f"""regexp_replace({_PLAIN_TEXT}, '{_BLANK}*(["-]){_BLANK}*', '\\1', 'g')"""
_SINGLE_BLANKS = f"""trim(regexp_replace({_CLOSE_MARKS}, '{_BLANK}+', ' ', 'g'))"""
_FOLDED = f"lower(nfc_normalize({_SINGLE_BLANKS}))"
_FOLDED_TEXT = "nfc_normalize(lower(replace(response, '’', '''')))"


def derive_columns(select: str) -> str:
    """Return the statement that adds the columns to count by to staged rows of `FeedRow`.

    Times are microseconds since 1970. `folded` is a response as the readers of answers compare it, `is_index`
    and `is_number` say whether they may take an answer for the index of a response, or a response for a
    number. `words` are those of a response, each once. `tie` orders results of one microsecond: the first
    eight bytes of their guids. `refuses` is added by `flag_refusals`.
    """
    return f"""
        SELECT * REPLACE (
            try_cast(launch_id AS INTEGER) AS launch_id,
            nullif(try_cast(question_display_order AS INTEGER), {ORDER_UNKNOWN}) AS question_display_order),
          {number_person("participant")} AS person,
          {read_time("started")} AS started_us,
          coalesce({read_time("created")}, 0) AS created_us,
          ('0x' || rpad(left(hex(result_guid), 16), 16, '0'))::UBIGINT AS tie,
          length(response)::INTEGER AS characters,
          {_FOLDED} AS folded,
          list_distinct(regexp_extract_all({_FOLDED_TEXT}, '{_WORD}')) AS words,
          regexp_full_match(answer, '{_BLANK}*[1-9][0-9]{{0,2}}{_BLANK}*') AS is_index,
          regexp_full_match(response, '{_BLANK}*(?:{PLAIN_NUMBER}|{GROUPED_NUMBER}){_BLANK}*')
            AND NOT regexp_full_match(response, '{_BLANK}*{AMBIGUOUS_NUMBER}{_BLANK}*') AS is_number,
          false AS refuses
        FROM ({select})"""


def flag_refusals(engine: Engine, folder: Path, select: str, refusals: Iterable[tuple[int, str]]) -> str:
    """Return the statement that marks results that opt out, and so are no answers.

    `refusals` are the ledger's launch number and `result_guid` of each. They are not kept with the results,
    since a person may decide otherwise later. `folder`, of this user alone, has a file while this runs.

    Raises:
        RunnerError: the file cannot be written.
    """
    with stage_rows(folder, ("launch", "guid"), refusals) as staged:
        engine.run(f"CREATE OR REPLACE TEMP TABLE refusals AS SELECT DISTINCT * FROM ({staged.select})")
        if not staged.count:
            return select
    return f"""
        SELECT flagged.* REPLACE (refusals.guid IS NOT NULL AS refuses) FROM ({select}) flagged
        LEFT JOIN refusals ON refusals.guid = flagged.result_guid
          AND refusals.launch::INTEGER = flagged.launch_id"""


def number_person(column: str) -> str:
    """Return the expression for a participant's unique number of 128 bits.

    A pseudonym's is its eighty bits, and zeros. Any other name's is the first 124 bits of its SHA-256 (FIPS
    180-4), and a one.
    """
    return f"""if(regexp_full_match({column}, '[0-9a-f]{{20}}'),
        {column} || '000000000000', left(sha256({column}), 31) || '1')::UUID"""


def read_time(column: str) -> str:
    """Return the expression for a time, in microseconds since 1970; null for one out of Python's range."""
    time = f"epoch_us(try_cast({column} AS TIMESTAMPTZ))"
    return f"if({time} BETWEEN 1 AND {_LATEST_US}, {time}, NULL)"


def load_members(engine: Engine, folder: Path, rows: Iterable[tuple[str, ...]], columns: int) -> None:
    """Make the table `members` of pseudonym, phone (empty unless wanted), and the value of each column.

    Of several rows of a participant, the first counts.
    `folder`, of this user alone, has a file while this runs.

    Raises:
        RunnerError: the file cannot be written.
    """
    values = ["phone", *(f"value_{number}" for number in range(columns))]
    first = "".join(f", arg_min({name}, mention) AS {name}" for name in values)
    numbered = ((number, *row) for number, row in enumerate(rows))
    with stage_rows(folder, ("mention", "participant", *values), numbered) as staged:
        rows_of_all = _number(f"SELECT * REPLACE (mention::BIGINT AS mention) FROM ({staged.select})")
        engine.run(f"""CREATE OR REPLACE TEMP TABLE members AS
            SELECT min(mention) AS mention, participant{first}, person FROM ({rows_of_all})
            GROUP BY participant, person""")


def load_reached(engine: Engine, folder: Path, rows: Iterable[tuple[str, str]]) -> None:
    """Make the table `reached` of message ids and pseudonyms of their recipients.

    Raises:
        RunnerError: the file cannot be written.
    """
    _load(engine, folder, "reached", ("message", "participant"), rows, _number)


def load_asked(
    engine: Engine, folder: Path, rows: Iterable[AskedRow], opted_out: Iterable[tuple[str, str]]
) -> None:
    """Make the tables `asked_people`, of messages' recipients with the time, and `opted_out`.

    `opted_out` has a message's id and the pseudonym of each participant whose reply to it opts out.

    Raises:
        RunnerError: the file cannot be written.
    """
    _load(engine, folder, "asked_people", AskedRow._fields, rows)
    _load(engine, folder, "opted_out", ("message", "participant"), opted_out)


def _load(
    engine: Engine,
    folder: Path,
    table: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    derive: Callable[[str], str] = str,
) -> None:
    with stage_rows(folder, columns, rows) as staged:
        engine.run(f"CREATE OR REPLACE TEMP TABLE {table} AS {derive(staged.select)}")


def _number(select: str) -> str:
    return f"SELECT *, {number_person('participant')} AS person FROM ({select})"


_FOLDER = "results"


def find_copy(state_folder: Path, target: str, campaign: str) -> Path:
    """Return the folder of the copy of one campaign's results."""
    name = blake2b(f"{target}\0{campaign}".encode(), digest_size=8).hexdigest()
    return state_folder / _FOLDER / name


def remove_copies(state_folder: Path) -> None:
    """Remove the copies of all campaigns' results, so that reports rebuild them.

    Raises:
        RunnerError: a copy cannot be removed.
    """
    folder = state_folder / _FOLDER
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise RunnerError(
            f"the copies of results in {folder} cannot be removed: {error.strerror}",
            hint="remove the folder: answers of people who were forgotten may stand in it",
        ) from None
