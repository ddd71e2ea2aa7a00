"""Sharing of decisions about people and campaigns with other machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.errors import RunnerError
from runner.ledger.model import SUPPRESSIONS_SUFFIX
from runner.ledger.people.suppressions import compose_suppressions
from runner.service.target import SANDBOX
from runner.workflow.observer import note, warn

if TYPE_CHECKING:
    from runner.ledger.database import Ledger
    from runner.workflow.workspace.workspace import Workspace


def share_decisions(workspace: Workspace, ledger: Ledger, *, is_quiet: bool = True) -> None:
    """Bring the ledger's opt-outs, pauses and holds to the state remote, if there is one.

    They are in the file of suppressions all the same, and a later run brings them: a failure is a warning.
    Unless it `is_quiet`, it notes where other machines learn of them.
    """
    state, is_shared = workspace.state, False
    if state is not None:
        with ledger.reading() as connection:
            text = compose_suppressions(connection, workspace.key)
        try:
            # Without a ref everybody would wait until nobody can be sending: `apply` does.
            is_shared = text is not None and state.append(
                {f"{workspace.target.name}{SUPPRESSIONS_SUFFIX}": text}
            )
        except RunnerError as error:
            warn(f"what was decided here could not be brought to {state.ref}: {error.message}")
            note(
                "  the next command that can brings it; until then other machines do not know it, unless "
                "`runner ci record` commits it"
            )
            return
    if is_quiet or workspace.target.name == SANDBOX:
        return
    if state is not None and is_shared:
        note(f"Other machines learn of it from {state.ref}.")
    else:
        note(f"`runner ci record` commits {workspace.files.places[0]}: other machines learn of it there.")
