"""Opt-outs as a file, for backups or another ledger.

JSON Lines: a head with the target and the key, then one opt-out a line, sorted. Without `RUNNER_STATE_KEY`
the head holds the salt: then phones can be guessed from the file, as from a lockfile.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, literal_column, or_, select

from runner.errors import LedgerError
from runner.ledger.database import exclude_others
from runner.ledger.people.opt_outs import (
    RENEW,
    OptOut,
    entering,
    in_state,
    iterate_opt_outs,
    says,
    write_rows,
)
from runner.ledger.people.suppression_file import ENTRY_FORMS
from runner.ledger.tables import opt_outs
from runner.ledger.target_key import TargetKey, read_target_key, record_target_key
from runner.version import OPT_OUTS_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import Connection

MAX_LINE = 1000
"""In characters; lines of this program are shorter."""
_HEAD_FORMS = {
    "target": re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}"),
    "key_fingerprint": re.compile(r"[0-9a-f]{16}"),
    "salt": re.compile(r"[0-9a-f]{32}"),
}
_FORMS = {name: ENTRY_FORMS[name] for name in ("fingerprint", "evidence", "source", "state", "at")}
# A new opt-out overrides any earlier decision. A reply stays decided: reading it again makes it no newer.
_TAKE_OVER = entering(
    lambda new: and_(
        says(new, "confirmed"),
        or_(
            in_state("doubtful"),
            and_(
                in_state("dismissed"),
                opt_outs.c.source != literal_column("'reply'"),
                new.excluded.at >= opt_outs.c.at,
            ),
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Imported:
    """The numbers of entered opt-outs, and of those left out because a later decision here dismissed them."""

    entered: int = 0
    left_out: int = 0


def export_opt_outs(connection: Connection, key: TargetKey) -> Iterator[str]:
    """Yield the lines of a file with all opt-outs, including line ends."""
    head = {"opt_outs_version": OPT_OUTS_VERSION, "target": key.target, "key_fingerprint": key.name}
    yield _dump(head if key.salt is None else {**head, "salt": key.salt})
    for item in iterate_opt_outs(connection, key.target):
        yield _dump(asdict(item))


def import_opt_outs(
    connection: Connection, lines: Iterable[str], target: str, state_key: str | None
) -> Imported:
    """Enter a file of `export_opt_outs`.

    People who were let in here, and opted out elsewhere at the same time or later, have opted out. Decisions
    about replies stay, and a file lets in nobody who has opted out here.

    Raises:
        LedgerError: it is invalid, or of another target or key. A transaction that ends with the error
            keeps nothing.
    """
    waiting = iter(lines)
    head = _read_head(next(waiting, ""))
    if head["target"] != target:
        raise LedgerError(
            f"the opt-outs are of the target {head['target']}, not {target}",
            hint="name that target with --target; on another one give the phones themselves as a CSV",
        )
    exclude_others(connection)
    own = read_target_key(connection, target, state_key)
    theirs = _open_key(head, target, state_key)
    if own is None:
        record_target_key(connection, theirs)
    elif own.name != theirs.name:
        raise LedgerError(
            "the opt-outs were written with another key than the ledger's, so their people cannot be matched",
            hint="import them into a new ledger first, or give the phones themselves as a CSV",
        )
    return _take_over(connection, target, _read_items(waiting))


def _take_over(connection: Connection, target: str, items: Iterable[OptOut]) -> Imported:
    entered = left_out = 0
    for rows in write_rows(target, items):
        entered += _TAKE_OVER.run(connection, rows)
        RENEW.run(connection, rows)
        left_out += _count_dismissed(connection, target, rows)
    return Imported(entered, left_out)


def _count_dismissed(connection: Connection, target: str, rows: list[dict[str, Any]]) -> int:
    """Return the number of opt-outs among rows that are dismissed in the ledger."""
    said = {(row["fingerprint"], row["evidence"]) for row in rows if row["state"] != "dismissed"}
    query = select(opt_outs.c.fingerprint, opt_outs.c.evidence).where(
        opt_outs.c.target == target,
        opt_outs.c.fingerprint.in_({fingerprint for fingerprint, _ in said}),
        opt_outs.c.state == "dismissed",
    )
    return sum(tuple(row) in said for row in connection.execute(query))


def _open_key(head: dict[str, Any], target: str, state_key: str | None) -> TargetKey:
    salt = head.get("salt")
    if salt is None and not state_key:
        raise LedgerError(
            "the opt-outs were written with a RUNNER_STATE_KEY, and none is set",
            hint="set RUNNER_STATE_KEY to the key they were written with",
        )
    key = TargetKey.from_salt(target, salt) if salt else TargetKey.from_secret(target, state_key or "")
    if key.name != head["key_fingerprint"]:
        raise LedgerError(
            "the opt-outs were written with another RUNNER_STATE_KEY, or were edited",
            hint="set RUNNER_STATE_KEY to the key they were written with",
        )
    return key


def _read_head(line: str) -> dict[str, Any]:
    head = _parse(line)
    needed = _HEAD_FORMS.keys() - ({"salt"} if head and "salt" not in head else set())
    if head is None or not all(_fits(_HEAD_FORMS[name], head.get(name)) for name in needed):
        raise LedgerError(
            "line 1 is not the head of exported opt-outs",
            hint="give a file that `runner optouts export` has written; a list of phones needs a CSV header",
        )
    if head.get("opt_outs_version") != OPT_OUTS_VERSION:
        raise LedgerError("the opt-outs were exported by a newer version of runner", hint="update runner")
    return head


def _read_items(lines: Iterable[str]) -> Iterator[OptOut]:
    for number, line in enumerate(lines, start=2):
        data = _parse(line)
        if data is None or data.keys() != _FORMS.keys():
            raise _refuse(f"line {number} is not an exported opt-out")
        wrong = [name for name, form in _FORMS.items() if not _fits(form, data[name])]
        if not wrong and not _is_moment(data["at"]):
            wrong = ["at"]
        if wrong:
            # Values are not shown: they could be phones or texts.
            raise _refuse(f"line {number} is not an exported opt-out: it has no usable {', '.join(wrong)}")
        yield OptOut(**data)


def _refuse(message: str) -> LedgerError:
    return LedgerError(message, hint="export them again: nothing was entered")


def _fits(form: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None


def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _parse(line: str) -> dict[str, Any] | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _dump(data: dict[str, Any]) -> str:
    return json.dumps(data, sort_keys=True) + "\n"
