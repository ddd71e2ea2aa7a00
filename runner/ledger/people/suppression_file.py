"""The file of suppressions: people who must not be texted on a target, committed beside the campaigns.

It holds opt-outs, forgotten people, paused campaigns and people held by unexplained launches, as keyed
fingerprints. Each entry is one line, so that git merges it; of two decisions about one thing the later
counts.

Every entry has a seal. Merging needs no key; readers have it, and refuse other seals. With a
`RUNNER_STATE_KEY` nobody without it can make one; without, seals are made with the salt in the file, and show
damage and slips of an editor only.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from runner.errors import MissingKeyError, RunnerError, SuppressionsError
from runner.ledger.lockfile.merge import read_merged_lines, refuse_repeated_keys
from runner.ledger.target_key import TargetKey
from runner.source.json_schema import load_validator
from runner.version import SUPPRESSIONS_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

Entry = dict[str, Any]
"""One entry, as in the file."""

DIGEST_SIZE = 16
_RESTORE = "restore it with git"
_KEY_HINT = (
    "set RUNNER_STATE_KEY to the key it was written with; with another one nobody would have opted out"
)
_SEAL = "seal"
_IDENTITIES = {
    "hold": ("campaign", "launch", "message", "fingerprints", "key_fingerprint", "tag", "whole"),
    "opt_out": ("fingerprint", "evidence"),
    "pause": ("campaign",),
}
"""The fields that identify an entry, by kind."""
_RANKS = {"dismissed": 0, "doubtful": 1, "confirmed": 2, "resumed": 0, "paused": 1}
"""The ranks of decisions of the same moment: the most cautious one counts."""
ENTRY_FORMS = {
    "at": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z"),
    # The service's guids look like this; other characters could break databases and terminals.
    "evidence": re.compile(r"[!-~]{1,200}"),
    "fingerprint": re.compile(r"[0-9a-f]{32}"),
    "kind": re.compile("opt_out"),
    "seal": re.compile(r"[0-9a-f]{32}"),
    "source": re.compile("reply|launch|import|person|forgotten"),
    "state": re.compile("confirmed|doubtful|dismissed"),
}
"""The forms of the fields of an opt-out, as this program writes them."""
_UNSEALED = ENTRY_FORMS.keys() - {_SEAL}
_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode


@dataclass(frozen=True, slots=True)
class Book:
    """The parsed contents of a file of suppressions: each entry once, sorted.

    `key_fingerprint` names the key of the fingerprints. `salt` is that key; None if it is the user's secret.
    `seal` shows that this header was written with the key; None in a file without one.
    """

    file: Path
    target: str
    key_fingerprint: str
    salt: str | None
    seal: str | None
    entries: tuple[Entry, ...]
    text: str = field(repr=False)

    def list_kind(self, kind: str) -> list[Entry]:
        """Return the entries of a kind."""
        return [entry for entry in self.entries if entry["kind"] == kind]

    def open_key(self, target: str, state_key: str | None) -> TargetKey:
        """Return the key of the fingerprints, after checking that all entries were written with it.

        Raises:
            MissingKeyError: the key is missing.
            SuppressionsError: the file is of another target or key, or has entries not written with the
                key.
        """
        if self.target != target:
            raise SuppressionsError(
                f"{self.file} is of the target {self.target!r}, not {target!r}",
                hint="targets' names are for good: put it back",
            )
        if self.salt is None and not state_key:
            raise MissingKeyError(
                f"{self.file} was written with a RUNNER_STATE_KEY, and none is set", hint=_KEY_HINT
            )
        key = TargetKey.reopen(target, self.salt, state_key, self.key_fingerprint)
        if key is None:
            raise SuppressionsError(
                f"{self.file} cannot be read: "
                + (
                    "it was written with another RUNNER_STATE_KEY"
                    if self.salt is None
                    else "its salt is damaged"
                ),
                hint=_KEY_HINT if self.salt is None else _RESTORE,
            )
        self._require_seals(key)
        return key

    def is_written_with(self, target: str, state_key: str | None) -> bool:
        """Return whether the whole file was written with a secret."""
        try:
            self.open_key(target, state_key)
        except RunnerError:
            return False
        return True

    def _require_seals(self, key: TargetKey) -> None:
        if _seal_head(key) != self.seal:
            if not key.is_secret:
                raise SuppressionsError(
                    f"{self.file} is damaged or was edited by hand: its seal is missing or wrong",
                    hint=_RESTORE,
                )
            raise SuppressionsError(
                f"{self.file} was not written with this RUNNER_STATE_KEY: its seal is missing or wrong",
                hint=f"if the key was set just now, `runner key rotate` signs or moves it; else {_RESTORE}",
            )
        for entry in self.entries:
            if entry.get(_SEAL) != _seal_entry(key, _without_seal(entry)):
                whose = entry.get("campaign") or entry["source"]
                how = "was not written with this RUNNER_STATE_KEY" if key.is_secret else "is damaged"
                raise SuppressionsError(
                    f"{self.file}:{self._find_line(entry)}: the entry {how}: {entry['kind']} ({whose}) of "
                    f"{entry['at']}",
                    hint=f"somebody has edited or forged it: {_RESTORE}" if key.is_secret else _RESTORE,
                )

    def _find_line(self, entry: Entry) -> int:
        """Return the line of an entry in the file, from 1."""
        written = _encode(entry)
        lines = enumerate(self.text.splitlines(), start=1)
        return next((number for number, line in lines if line.strip().removesuffix(",") == written), 1)


@dataclass(frozen=True, slots=True)
class BookText:
    """The unparsed text of a file of suppressions: often the ledger already has all of it."""

    file: Path
    text: str = field(repr=False)

    @property
    def digest(self) -> str:
        """Return the digest of the text."""
        return hashlib.blake2b(self.text.encode(), digest_size=DIGEST_SIZE).hexdigest()

    def parse(self) -> Book:
        """Parse the text with `parse_book`."""
        return parse_book(self.file, self.text)


def parse_book(file: Path, text: str) -> Book:
    """Parse the text of a file of suppressions, also one that git has merged.

    Raises:
        SuppressionsError: it is invalid.
    """
    data = _parse(file, text)
    _require_valid(file, data)
    return Book(
        file,
        data["target"],
        data["key_fingerprint"],
        data.get("salt"),
        data.get(_SEAL),
        tuple(settle(data["entries"])),
        text,
    )


def unite_books(file: Path, ours: str, theirs: str) -> str:
    """Return the text of two files united. No key is needed.

    Raises:
        SuppressionsError: one of them is invalid, or their keys differ.
    """
    one, other = parse_book(file, ours), parse_book(file, theirs)
    heads = {(book.target, book.key_fingerprint, book.salt, book.seal) for book in (one, other)}
    if len({head[:3] for head in heads}) > 1:
        raise _several_keys(file) if one.salt and other.salt else _moved_apart(file)
    # An entry that was written before the key was set has no seal: the other's seal holds for both.
    seal = max((book.seal for book in (one, other)), key=lambda said: said or "")
    head = (one.target, one.key_fingerprint, one.salt, seal)
    return "".join(_lay_out(*head, map(_encode, settle([*one.entries, *other.entries]))))


def lacks_suppressions(file: Path, before: str, after: str) -> bool:
    """Return whether one version of a file lacks entries of another, and so is older than it seems.

    Raises:
        SuppressionsError: one of them is invalid.
    """
    old, new = parse_book(file, before), parse_book(file, after)
    known = {identify(entry): _weigh(entry) for entry in settle([*old.entries, *new.entries])}
    told = {identify(entry): _weigh(entry) for entry in new.entries}
    return any(told.get(name) != weight for name, weight in known.items() if name[0] != "hold")


def write_book(stream: IO[str], key: TargetKey, entries: Iterable[Entry]) -> str:
    """Write a file of suppressions, and return the digest of its text.

    The entries are streamed: without seals, sorted by `identify`.
    """
    digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
    lines = (_write_entry(key, entry) for entry in entries)
    for piece in _lay_out(key.target, key.name, key.salt, _seal_head(key), lines):
        digest.update(piece.encode())
        stream.write(piece)
    return digest.hexdigest()


def identify(entry: Entry) -> tuple[str, ...]:
    """Return the identity of an entry: entries with the same identity are decisions about the same thing."""
    kind = entry["kind"]
    return (kind, *(_flatten(entry[name]) for name in _IDENTITIES[kind]))


def _flatten(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value)


def settle(entries: Iterable[Entry]) -> list[Entry]:
    """Return the last decision about each thing, sorted, without entries replaced by forgetting."""
    found: dict[tuple[str, ...], Entry] = {}
    for entry in entries:
        name = identify(entry)
        known = found.setdefault(name, entry)
        if known is not entry and _weigh(known) < _weigh(entry):
            found[name] = entry
    forgotten = {one["fingerprint"]: one["at"] for one in found.values() if one.get("source") == "forgotten"}
    return [
        entry
        for _, entry in sorted(found.items())
        if not is_replaced(entry, forgotten.get(entry.get("fingerprint", "")))
    ]


def is_replaced(entry: Entry, forgotten_at: str | None) -> bool:
    """Return whether forgetting a person replaced an entry.

    `forgotten_at` is None if the person was never forgotten, and the later moment if let in again.
    """
    return forgotten_at is not None and entry["source"] != "forgotten" and entry["at"] <= forgotten_at


def _weigh(entry: Entry) -> tuple[str, int, str]:
    """Return the sort key among entries of one identity: time, then caution, then text."""
    return entry["at"], _RANKS.get(entry.get("state", ""), 0), _encode(entry)


def _without_seal(entry: Entry) -> Entry:
    return {name: value for name, value in entry.items() if name != _SEAL}


def _seal_entry(key: TargetKey, entry: Entry) -> str:
    return key.seal(f"entry\0{key.target}\0{_encode(entry)}")


def _seal_head(key: TargetKey) -> str:
    return key.seal(f"head\0{key.target}\0{key.name}\0{key.salt or ''}")


def _write_entry(key: TargetKey, entry: Entry) -> str:
    return _encode({**entry, _SEAL: _seal_entry(key, entry)})


def _lay_out(
    target: str, name: str, salt: str | None, seal: str | None, lines: Iterable[str]
) -> Iterator[str]:
    yield '{\n  "entries": ['
    separator = "\n"
    for line in lines:
        yield f"{separator}    {line}"
        separator = ",\n"
    yield "],\n" if separator == "\n" else "\n  ],\n"
    yield f'  "key_fingerprint": {_encode(name)},\n'
    if salt is not None:
        yield f'  "salt": {_encode(salt)},\n'
    if seal is not None:
        yield f'  "seal": {_encode(seal)},\n'
    yield f'  "suppressions_version": {SUPPRESSIONS_VERSION},\n  "target": {_encode(target)}\n}}\n'


def _parse(file: Path, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=refuse_repeated_keys)
    except RecursionError:
        raise SuppressionsError(f"{file} is not JSON (nested too deeply)", hint=_RESTORE) from None
    except ValueError as error:
        lines = read_merged_lines(text)
        data = None if lines is None else _join_lines(file, lines)
        if data is None:
            where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
            raise SuppressionsError(
                f"{file} is not JSON, or was edited by hand{where}", hint=_RESTORE
            ) from None
        return data


def _join_lines(file: Path, lines: Iterable[str]) -> Entry | None:
    """Return the data of lines that git put together; None if this program did not write all of them."""
    entries: list[Any] = []
    head: Entry = {}
    for line in lines:
        bare = line.strip().removesuffix(",")
        if bare in {"{", "}", "]", '"entries": [', '"entries": []'}:
            continue
        try:
            said = json.loads(
                bare if bare.startswith("{") else f"{{{bare}}}", object_pairs_hook=refuse_repeated_keys
            )
        except (ValueError, RecursionError):
            return None
        if bare.startswith("{"):
            entries.append(said)
        elif any(head.setdefault(name, value) != value for name, value in said.items()):
            raise _several_keys(file)
    return {**head, "entries": entries}


def _several_keys(file: Path) -> SuppressionsError:
    return SuppressionsError(
        f"{file} holds the opt-outs of two machines, each made with a key of its own",
        hint=f"keep one side (git checkout --ours {file}, or --theirs), and enter the people of the other "
        "again with `runner optouts add` or `import`; replies are found again by `runner reconcile --full`. "
        "With a RUNNER_STATE_KEY the two just merge",
    )


def _moved_apart(file: Path) -> SuppressionsError:
    return SuppressionsError(
        f"{file} is there under two keys, and one version may have people that the other lacks",
        hint="was it moved by `runner key rotate`? If the branch runner/record of before is still there, and "
        "was merged, delete it: git push origin --delete runner/record. If a machine with the old key wrote "
        "it since, enter its opt-outs again with `runner optouts add` or `import` first",
    )


def _require_valid(file: Path, data: Any) -> None:
    shown = data
    if isinstance(data, dict) and isinstance(data.get("entries"), list):
        # The validator is slow, so entries that are plainly right skip it.
        shown = {**data, "entries": [entry for entry in data["entries"] if not _is_plain(entry)]}
    problem = next(load_validator("suppressions").iter_errors(shown), None)
    if problem is None:
        return
    version = data.get("suppressions_version") if isinstance(data, dict) else None
    if isinstance(version, int) and version > SUPPRESSIONS_VERSION:
        raise SuppressionsError(f"{file} was written by a newer version of runner", hint="update runner")
    where = "/".join(str(key) for key in problem.absolute_path) or "its top level"
    raise SuppressionsError(f"{file} is damaged at {where}", hint=_RESTORE)


def _is_plain(entry: Any) -> bool:
    """Return whether an entry is an opt-out as this program writes it: the usual case, checked fast."""
    if not isinstance(entry, dict) or entry.keys() - {_SEAL} != _UNSEALED:
        return False
    return all(
        isinstance(value, str) and ENTRY_FORMS[name].fullmatch(value) is not None
        for name, value in entry.items()
    )
