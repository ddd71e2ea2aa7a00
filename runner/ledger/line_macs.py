"""MACs of a lockfile's lines: with the state key, what it wrote is told from what somebody else did.

Each line has its own, so that git, and `runner record`, merge files line by line without the key at hand. It
covers the target, the campaign's first name, the kind of line and all that the line says: without the key,
nobody can change a line, make one up, or bring one from another campaign or target.

Nothing here shows that lines were taken out, or that a whole file was put back: that is an older record. What
it lacks is found by the preflight, which asks the service before anything is sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runner.errors import LockfileError
from runner.ledger.checksum import RESTORE_HINT
from runner.ledger.fingerprint import FingerprintKey

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = ("campaign", "first_name", "key_fingerprint", "kind", "lockfile_version", "salt", "target")
_LINES = {
    "launches": "the launch {project_launch_guid}",
    "messages": "the message {message}",
    "runs": "the run {id}",
}
_NAMES = {"dismissed": "the dismissed launch {}", "forgotten": "the forgotten person {}"}
_NAMED = 3
_OTHER_KEY = "set RUNNER_STATE_KEY to the key it was written with; with another one everyone would look new"
_SIGN = (
    "restore it with git; if it is as it should be, since an older version of runner wrote it: `runner key "
    "rotate`, with RUNNER_OLD_STATE_KEY set to the same key, shows what has no MAC, asks, and signs it"
)


class LineMacs:
    """Makes the MACs of the lines of one campaign's record.

    Args:
        state_key: the user's secret.
        target: the target's name.
        first_name: the campaign's first name.
    """

    def __init__(self, state_key: str, target: str, first_name: str) -> None:
        self._key = FingerprintKey.from_secret(state_key).for_purpose("lockfile")
        self._place = (target, first_name)

    def make(self, kind: str, said: Any) -> str:
        """Return the MAC of what a line of some kind says."""
        # In ASCII: JSON can hold half a surrogate pair, and no digest can be made of one.
        return self._key.seal(json.dumps([*self._place, kind, said], sort_keys=True).encode())

    def sign_head(self, head: dict[str, Any]) -> list[str]:
        """Return the MACs of all that a lockfile says outside its blocks of lines: sorted."""
        names = (self.make(name, one) for name in _NAMES for one in head.get(name, ()))
        return sorted({self.make("head", describe_head(head)), *names})

    def sign_line(self, block: str, line: dict[str, Any]) -> dict[str, Any]:
        """Return a line with its MAC."""
        return {**line, "mac": self.make(block, line)}


def describe_head(data: dict[str, Any]) -> dict[str, Any]:
    """Return what one MAC covers of a lockfile's data: all outside its lines but its lists of names."""
    return {name: data[name] for name in _HEAD if name in data}


def without_mac(line: dict[str, Any]) -> dict[str, Any]:
    """Return what a line says."""
    return {name: value for name, value in line.items() if name != "mac"}


@dataclass(slots=True)
class Unsigned:
    """The lines of a lockfile that the state key has not signed as they are.

    Attributes:
        bare: those that have no MAC.
        wrong: those that have another one than is theirs.
    """

    bare: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def find_unsigned(data: dict[str, Any], state_key: str) -> Unsigned:
    """Return the lines of a lockfile's data, which fit the schema, that a key has not signed as they are."""
    macs = LineMacs(state_key, data["target"], data.get("first_name", data["campaign"]))
    told, found = frozenset(data.get("macs", ())), Unsigned()
    if macs.make("head", describe_head(data)) not in told:
        (found.wrong if told else found.bare).append("its head")
    for name, words in _NAMES.items():
        found.bare += [words.format(one) for one in data.get(name, ()) if macs.make(name, one) not in told]
    for block, words in _LINES.items():
        for line in data.get(block, ()):
            if "mac" not in line:
                found.bare.append(words.format(**line))
            elif line["mac"] != macs.make(block, without_mac(line)):
                found.wrong.append(words.format(**line))
    return found


def is_signed(data: dict[str, Any]) -> bool:
    """Return whether any line of a lockfile's data has a MAC, right or wrong."""
    return "macs" in data or any("mac" in line for block in _LINES for line in data.get(block, ()))


def require_signed(file: Path, data: dict[str, Any], state_key: str) -> None:
    """Make sure that a key has signed all that a lockfile says.

    Args:
        file: the lockfile, for the error.
        data: what it says; it fits the schema.
        state_key: the user's secret.

    Raises:
        LockfileError: it has not.
    """
    if "salt" in data and not is_signed(data):
        raise LockfileError(
            f"the lockfile {file} was written with a salt, and now there is a RUNNER_STATE_KEY",
            hint="`runner key rotate` moves the records to the key. Until then nothing is sent: who may "
            "change the file could choose the salt, and with it who seems to have been texted",
        )
    if "salt" not in data and data["key_fingerprint"] != FingerprintKey.from_secret(state_key).name:
        raise LockfileError(
            f"the lockfile {file} cannot be read: it was written with another RUNNER_STATE_KEY",
            hint=_OTHER_KEY,
        )
    found = find_unsigned(data, state_key)
    if found.wrong:
        raise LockfileError(
            f"the lockfile {file} was changed without the RUNNER_STATE_KEY: {_enumerate(found.wrong)} "
            f"{'does' if len(found.wrong) == 1 else 'do'} not fit the MAC",
            hint=RESTORE_HINT,
        )
    if found.bare:
        raise LockfileError(
            f"the lockfile {file} was written without the RUNNER_STATE_KEY: {_enumerate(found.bare)} "
            f"{'has' if len(found.bare) == 1 else 'have'} no MAC",
            hint=_SIGN,
        )


def _enumerate(lines: list[str]) -> str:
    rest = len(lines) - _NAMED
    return ", ".join(lines[:_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")
