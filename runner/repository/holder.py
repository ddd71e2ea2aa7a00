"""Who holds a state ref: the one file in it that says so."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from runner.repository.state_ref import StateRefError

if TYPE_CHECKING:
    from runner.repository.state_ref import Snapshot, StateRef

STATE_FILE = "state.json"
_VERSION = 2
_READ = (1, _VERSION)
"""Versions that can be read. The first had runs take over by the time of day, which is no longer safe."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a ref.

    Attributes:
        who: host, process, CI run and since when, in words.
        run: tells this run from every other.
        lease_s: how long it holds the ref from its last push on, in seconds.
    """

    who: str
    run: str
    lease_s: float


@dataclass(frozen=True, slots=True)
class State:
    """What `state.json` says.

    Attributes:
        holder: who holds the ref; None if nobody does.
        moves: how often the ref has moved: no two of its commits are the same.
    """

    holder: Holder | None = None
    moves: int = 0


def read_state(ref: StateRef, snapshot: Snapshot) -> State:
    """Return who holds a ref, and how often it has moved.

    Raises:
        StateRefError: the ref is damaged, or a newer version of the program has written it.
    """
    if snapshot.commit is None:
        return State()
    try:
        data = json.loads(ref.load(snapshot.files[STATE_FILE]))
        version, holder = int(data["state_version"]), data["holder"]
        if version in _READ:
            state = State(None if holder is None else _read_holder(holder), int(data["moves"]))
    except (ValueError, TypeError, LookupError, AttributeError):
        raise damaged(ref, STATE_FILE) from None
    if version not in _READ:
        raise StateRefError(f"{ref} was written by a newer version of runner", hint="update runner")
    return state


def _read_holder(data: dict[str, Any]) -> Holder:
    return Holder(str(data["who"]), str(data["run"]), float(data["lease_s"]))


def damaged(ref: StateRef, file: str) -> StateRefError:
    """Return the error for a ref that no version of this program has written."""
    return StateRefError(f"{ref} is damaged: {file} in it cannot be read", hint=advise_removal(ref))


def advise_removal(ref: StateRef) -> str:
    """Return what to do about a ref that cannot be read."""
    return (
        "nothing is sent as long as it is unclear who was texted. With the lockfiles at hand, remove it "
        f"(git push {ref.remote} --delete {ref.name}): `runner apply` asks the service for what they lack"
    )


def dump_state(state: State) -> str:
    """Return what `state.json` says, so that people can read it, too."""
    data = {**asdict(state), "state_version": _VERSION}
    return json.dumps(data, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
