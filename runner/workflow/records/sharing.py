"""Opt-outs, pauses and holds for other machines, on the state remote."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from runner.errors import RunnerError, StateLockedError
from runner.ledger.people.suppressions import compose_suppressions
from runner.workflow.delivery.remote_intents import RemoteIntents
from runner.workflow.observer import note, warn

if TYPE_CHECKING:
    from runner.ledger.database import Ledger
    from runner.workflow.workspace.state_remote import StateRemote
    from runner.workflow.workspace.workspace import Workspace

_ADVICE = (
    "  the next command that can brings it; until then other machines do not know it, unless `runner ci "
    "record` commits it"
)


def share_suppressions(workspace: Workspace, ledger: Ledger) -> None:
    """Bring what this machine has learned of people to the state remote, if there is one.

    It is written to the file of suppressions all the same, and a later run brings it: a failure is only told.
    """
    state = workspace.state
    if state is None:
        return
    try:
        _share(workspace, ledger, state)
    except StateLockedError:
        warn(f"{state.ref} is held by another run: what was decided here could not be brought there")
        note(_ADVICE)
    except RunnerError as error:
        warn(f"what was decided here could not be brought to {state.ref}: {error.message}")
        note(_ADVICE)


def _share(workspace: Workspace, ledger: Ledger, state: StateRemote) -> None:
    # Without a ref everybody would wait until nobody can be sending: `apply` does.
    if state.ref.find() is None or not _is_news(workspace, ledger, state):
        return
    with ExitStack() as stack:
        RemoteIntents(workspace, ledger).hold(stack, 0, quiet=True)
        workspace.files.fill(ledger)
        with ledger.reading() as connection:
            text = compose_suppressions(connection, workspace.key)
        if text is not None:
            state.write_suppressions(text)


def _is_news(workspace: Workspace, ledger: Ledger, state: StateRemote) -> bool:
    with ledger.reading() as connection:
        text = compose_suppressions(connection, workspace.key)
    return text is not None and text not in state.read_record_texts().values()
