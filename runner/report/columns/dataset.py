"""A copy of a campaign's results in columns, updated from the ledger.

The copy can be removed at any time. It holds answers, so it is readable by this user alone, and it is rebuilt
whenever the ledger forgets results.
Numbers replace texts that are only compared, derived once, when results are copied: the engine groups them in
a fraction of time and memory. Beside the copy stand tables of the audience, for breakdowns and exports.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from contextlib import contextmanager, suppress
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING

from runner.errors import RunnerError
from runner.ledger.model import DATE
from runner.ledger.report_model import ORDER_UNKNOWN, ContactRow, FeedRow, ResultVersion
from runner.report.columns.engine import SPILL, STAGED, Engine, cannot_write, quote
from runner.source.normalize import PLAIN, TYPED
from runner.source.quantity import AMBIGUOUS_NUMBER, GROUPED_NUMBER, PLAIN_NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path


_LOCK = "lock"
_COPY = "results-13.duckdb"
"""The copy's file; its number is the version of the columns: a copy of another one is rebuilt."""
_VERSION = "copy.version (edition VARCHAR, revision BIGINT, mark VARCHAR)"
_CONTACT_MARK = "copy.contact_mark (mark VARCHAR)"
_UPDATE = """
DELETE FROM copy.results WHERE (launch_id, result_guid) IN (SELECT (launch_id, result_guid) FROM fresh);
INSERT INTO copy.results FROM fresh;
"""
# Few results share a person and a moment. Numbers are compared in half the time of guids, hashes take less
# memory than what they stand for.
_NUMBER_MOMENTS = """
UPDATE copy.results AS r SET nth = found.nth FROM (
  SELECT rowid AS number,
    row_number() OVER (PARTITION BY person, created_us ORDER BY result_guid, launch_id) AS nth
  FROM copy.results WHERE hash(person, created_us) IN (
    SELECT hash(person, created_us) FROM copy.results {among} GROUP BY ALL HAVING count(*) > 1)
) found WHERE r.rowid = found.number;
"""
_AMONG_FRESH = "WHERE person IN (SELECT person FROM fresh)"
# Numbers of rows: guids would be compared as texts by each statement that reads results.
_REFUSED = """
CREATE OR REPLACE TEMP TABLE refused AS
SELECT r.rowid AS number, message, person, is_opt_out = '1' AS is_opt_out FROM copy.results r
JOIN refusals ON refusals.guid = r.result_guid AND refusals.launch = r.launch_id::VARCHAR {wave};
CREATE OR REPLACE TEMP VIEW results AS
SELECT *, says_nothing OR rowid IN (SELECT number FROM refused) AS refuses FROM copy.results {wave};
CREATE OR REPLACE TEMP VIEW texts AS FROM copy.contacts {wave};
CREATE OR REPLACE TEMP VIEW contacts AS {contacts};
"""
# Of a message that goes by dates, people have several texts: they count once, with the session of the latest.
_CONTACTS_BY_DATE = """
SELECT * EXCLUDE (later) FROM (
  SELECT * EXCLUDE (is_sent, is_read, was_texted, began_us),
    bool_or(is_sent) OVER own AS is_sent, bool_and(is_read) OVER own AS is_read,
    bool_or(was_texted) OVER own AS was_texted, min(began_us) OVER own AS began_us,
    row_number() OVER (PARTITION BY message, person ORDER BY began_us DESC) AS later
  FROM texts WINDOW own AS (PARTITION BY message, person)) WHERE later = 1
"""


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
            raise cannot_write(self._folder, error) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # What a killed run has left has answers.
            self._remove(SPILL, STAGED)
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
        refusals: Mapping[tuple[int, str], bool] = MappingProxyType({}),
        contact_mark: str = "",
        read_contacts: Callable[[], Iterable[ContactRow]] = tuple,
        wave: str = "",
    ) -> None:
        """Update the copy, and show the engine of `hold` `results`, `refused`, `texts` and `contacts`.

        `read_since` yields results entered or changed after a revision, each once. `find_mark` returns a mark
        that identifies a revision, as a restored ledger may have another of that number. `refusals` have the
        ledger's launch number and `result_guid` of each result that opts out, and so is no answer, and
        whether an opt-out is on record for it. They are not kept, since a person may decide otherwise later.
        `read_contacts` yields everybody who was sent a text, and is read again if `contact_mark` is another
        than that of the copy. Of a campaign with waves only one `wave` is visible.

        Raises:
            RunnerError: the copy cannot be written.
        """
        held = self._attach(engine, version, find_mark)
        if held != version.revision:
            table = "copy.results" if held < 0 else "fresh"
            engine.load(table, FeedRow._fields, read_since(held), derive_columns)
            now = ", ".join(
                (quote(version.edition), str(version.revision), quote(find_mark(version.revision)))
            )
            update, among = ("", "") if held < 0 else (_UPDATE, _AMONG_FRESH)
            engine.run(
                f"BEGIN; {update} {_NUMBER_MOMENTS.format(among=among)} DELETE FROM copy.version; "
                f"INSERT INTO copy.version VALUES ({now}); COMMIT"
            )
        if engine.rows("SELECT mark FROM copy.contact_mark") != [(contact_mark,)]:
            engine.load("copy.contacts", ContactRow._fields, read_contacts(), derive_contacts)
            engine.run("CREATE OR REPLACE TABLE copy.contact_mark AS SELECT ? AS mark", [contact_mark])
        rows = ((*result, int(is_known)) for result, is_known in refusals.items())
        engine.load("refusals", ("launch", "guid", "is_opt_out"), rows)
        chosen = f"WHERE occasion = {quote(wave)}" if wave else ""
        by_date = engine.rows(f"FROM copy.contacts WHERE starts_with(occasion, {quote(DATE)}) LIMIT 1")
        contacts = _CONTACTS_BY_DATE if by_date else "FROM texts"
        engine.run(_REFUSED.format(wave=chosen, contacts=contacts))

    def _attach(self, engine: Engine, version: ResultVersion, find_mark: Callable[[int], str]) -> int:
        """Attach the copy as `copy`, made anew if it is of no use, and return its revision, or -1."""
        # Most campaigns are small: in blocks of the usual size each would take a megabyte.
        attach = f"ATTACH IF NOT EXISTS {quote(str(self._folder / _COPY))} AS copy (BLOCK_SIZE 65536)"
        with suppress(RunnerError):
            engine.run(attach)
            engine.run(f"CREATE TABLE IF NOT EXISTS {_VERSION}")
            engine.run(f"CREATE TABLE IF NOT EXISTS {_CONTACT_MARK}")
            for edition, revision, mark in engine.rows("FROM copy.version"):
                is_known = edition == version.edition and revision <= version.revision
                if is_known and mark == find_mark(revision):
                    return int(revision)
        engine.run("DETACH DATABASE IF EXISTS copy")
        self._remove(*(file.name for file in self._folder.iterdir() if file.name != _LOCK))
        engine.run(attach)
        engine.run(f"CREATE TABLE {_VERSION}; CREATE TABLE {_CONTACT_MARK}")
        return -1

    def _remove(self, *names: str) -> None:
        try:
            for name in names:
                file = self._folder / name
                shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
        except OSError as error:
            raise cannot_write(self._folder, error) from None


# Characters that Python strips from a text's ends, as the readers do.
_BLANK = r"[\s\x0b\x1c-\x1f\x{85}\p{Z}]"
_PLAIN, _GROUPED = (re.sub(r"\[[01]-9\]", r"\\p{Nd}", one) for one in (PLAIN_NUMBER, GROUPED_NUMBER))
_LATEST_US = 253_402_300_799_999_999  # the end of the year 9999


def fold_column(column: str) -> str:
    """Return the expression for a text as `fold_answer` has it, without compatibility forms."""
    plain = f"translate(replace({column}, '…', '...'), {quote(TYPED)}, {quote(PLAIN)})"
    close = f"""regexp_replace({plain}, '{_BLANK}*(["-]){_BLANK}*', '\\1', 'g')"""
    folded = f"nfc_normalize(trim(regexp_replace({close}, '{_BLANK}+', ' ', 'g')))"
    # Most texts have nothing to fold but their case: the check takes a tenth of the time of the rest.
    return f"""lower(if(regexp_matches({column}, '[^ -~]|  |["`-]'), {folded}, trim({column})))"""


def derive_columns(select: str) -> str:
    """Return the statement that adds the columns to count by to staged rows of `FeedRow`.

    Times are microseconds since 1970. `folded` is a response, or the answer without one, as the readers of
    answers compare it; `is_index` and `is_number` say whether they may take an answer for the index of a
    response, or a response for a number. `nth` numbers a person's results of one microsecond by their guids,
    once all are copied.
    """
    return f"""
        SELECT * REPLACE (
            try_cast(launch_id AS INTEGER) AS launch_id,
            nullif(try_cast(question_display_order AS INTEGER), {ORDER_UNKNOWN}) AS question_display_order),
          {number_person("participant")} AS person,
          {read_time("started")} AS started_us,
          coalesce({read_time("created")}, 0) AS created_us,
          0::UINTEGER AS nth,
          coalesce(nullif({fold_column("response")}, ''), {fold_column("answer")}) AS folded,
          regexp_full_match(answer, '{_BLANK}*[1-9][0-9]{{0,2}}{_BLANK}*') AS is_index,
          regexp_full_match(response, '{_BLANK}*(?:{_PLAIN}|{_GROUPED}){_BLANK}*')
            AND NOT regexp_full_match(response, '{_BLANK}*{AMBIGUOUS_NUMBER}{_BLANK}*') AS is_number,
          non_answer <> '' AS says_nothing
        FROM ({select})"""


def derive_contacts(select: str) -> str:
    """Return the statement that reads the columns of staged rows of `ContactRow`."""
    flags = "is_sent", "is_read", "is_listed", "stopped", "blocked", "replaced"
    read = ", ".join(f"{flag} = '1' AS {flag}" for flag in flags)
    return f"""
        SELECT * EXCLUDE (began) REPLACE ({read}, nullif(was_texted, '') = '1' AS was_texted),
          {number_person("participant")} AS person,
          {read_time("began")} AS began_us
        FROM ({select})"""


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


def load_members(engine: Engine, rows: Iterable[tuple[str, ...]], columns: Iterable[str]) -> None:
    """Make the table `members` of the audience, and the values of these columns.

    Rows are the pseudonym, the phone (empty unless wanted), whether the person is in the control group (`1`
    or `0`), and the values. Of several rows of a participant, the first counts.

    Raises:
        RunnerError: it cannot be made.
    """
    values = ["phone", "control", *columns]
    first = "".join(f", arg_min({name}, mention::BIGINT) AS {name}" for name in values)
    engine.load(
        "members",
        ("mention", "participant", *values),
        ((number, *row) for number, row in enumerate(rows)),
        lambda select: (
            f"SELECT participant{first}, {number_person('participant')} AS person FROM ({select}) "
            "GROUP BY participant"
        ),
    )


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
