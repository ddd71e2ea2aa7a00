"""The state of a ref: its holder, in the file `state.json`; and files that are added whoever holds it."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from runner.git.state_ref import RefMovedError, StateRefError
from runner.version import STATE_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.git.state_ref import Snapshot, StateRef

TRIES = 8
"""Pushes tried while others move the ref."""
STATE_FILE = "state.json"


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a ref.

    Attributes:
        who: host, process, CI run and start, in words.
        run: a unique id of the run.
        lease_s: length of its lease from its last push, in seconds.
    """

    who: str
    run: str
    lease_s: float


@dataclass(frozen=True, slots=True)
class State:
    """The content of `state.json`.

    Attributes:
        holder: None if the ref is free.
        moves: number of moves of the ref: makes each of its commits unique.
    """

    holder: Holder | None = None
    moves: int = 0


def read_state(ref: StateRef, snapshot: Snapshot) -> State:
    """Return the state of a ref.

    Raises:
        StateRefError: the ref is damaged, or a newer version of the program has written it.
    """
    if snapshot.commit is None:
        return State()
    try:
        data = json.loads(ref.load(snapshot.files[STATE_FILE]))
        version, holder = int(data["state_version"]), data["holder"]
        if version == STATE_VERSION:
            state = State(None if holder is None else _read_holder(holder), int(data["moves"]))
    except (ValueError, TypeError, LookupError, AttributeError):
        raise damaged(ref, STATE_FILE) from None
    if version != STATE_VERSION:
        raise StateRefError(f"{ref} was written by another version of runner", hint="update runner")
    return state


def _read_holder(data: dict[str, Any]) -> Holder:
    return Holder(str(data["who"]), str(data["run"]), float(data["lease_s"]))


def damaged(ref: StateRef, file: str) -> StateRefError:
    """Return the error for a ref that no version of this program has written."""
    return StateRefError(f"{ref} is damaged: {file} in it cannot be read", hint=advise_removal(ref))


def advise_removal(ref: StateRef) -> str:
    """Return the advice for a ref that cannot be read."""
    return (
        "nothing is sent as long as it is unclear who was texted. With the lockfiles at hand, remove it "
        f"(git push {ref.remote} --delete {ref.name}): `runner apply` asks the service for what they lack"
    )


def dump_state(state: State) -> str:
    """Return the content of `state.json`, readable for people too."""
    data = {**asdict(state), "state_version": STATE_VERSION}
    return json.dumps(data, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def append(
    ref: StateRef, add: Callable[[Mapping[str, str]], Mapping[str, str]], seen: Snapshot | None = None
) -> bool:
    """Put files on a ref, whoever holds it; return False if there is no ref.

    `add` returns the blobs of all files, given those that are there; a holder unites them with its own. It
    may be called again, if somebody else moves the ref at the same moment. `seen` is a state that was read a
    moment ago.

    Raises:
        GitError: the ref cannot be read or moved.
    """
    for _ in range(TRIES):
        snapshot, seen = seen or ref.read(), None
        state = read_state(ref, snapshot)
        if snapshot.commit is None:
            return False
        files = add(snapshot.files)
        if files == snapshot.files:
            return True
        text = dump_state(replace(state, moves=state.moves + 1))
        # While nobody holds it, nothing is to stay in its history.
        parent = None if state.holder is None else snapshot.commit
        commit = ref.compose({**files, STATE_FILE: ref.store(text)}, parent)
        with suppress(RefMovedError):
            ref.swap(snapshot.commit, commit)
            return True
    raise StateRefError(f"{ref} moves all the time", hint="run the same command again")
