"""Removal of a person's data from a ledger and its lockfiles, for good."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from runner.audience.phone import mask_phone
from runner.document import Count, Document, build
from runner.errors import RunLockedError
from runner.ledger.files.comparison import name_target
from runner.ledger.files.lockfile import LOCKFILE_SUFFIX
from runner.ledger.people.forgotten import Forgotten, ForgottenCampaign, forget_person
from runner.ledger.people.opt_outs import add_opt_outs
from runner.ledger.target_key import enter_key
from runner.report.columns.dataset import remove_copies
from runner.service.target import SANDBOX, find_key_variable, read_state_key
from runner.workflow.campaigns import show_path
from runner.workflow.delivery.remote_intents import RemoteIntents
from runner.workflow.observer import note
from runner.workflow.workspace.folders import state_folder
from runner.workflow.workspace.record_files import RecordFiles
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.ledger.database import Ledger
    from runner.workflow.scope import Scope


class ForgottenPerson(Document, frozen=True):
    """The document that `runner forget --format json` writes.

    Attributes:
        phone: masked.
        targets: where they are never texted again.
        opt_outs: entries about replies and lists that gave way to the one that stays.
        campaigns: what was removed of each campaign's record that had something of theirs.
        lockfiles: those that were written anew.
        unreached: what may still hold something of theirs, in sentences.
        is_behind: whether the state remote could not be updated.
    """

    phone: str
    targets: tuple[str, ...]
    opt_outs: Count
    campaigns: tuple[ForgottenCampaign, ...]
    lockfiles: tuple[str, ...]
    unreached: tuple[str, ...]
    is_behind: bool


def forget(scope: Scope, phone: str, lock_timeout_s: float, approve: Callable[[], None]) -> ForgottenPerson:
    """Remove a person's data, and prevent any further text to them.

    All lockfiles of the target are rewritten; `phone` is E.164; `lock_timeout_s` limits the wait for active
    runs; `approve` asks before removal, and raises to refuse.
    """
    workspace = Workspace.open_known(scope)
    files = workspace.files
    approve()
    with workspace.open_ledger() as ledger:
        # A launch in a lockfile that cannot be read would bring the person back.
        for _, error in files.unread.values():
            raise error
        try:
            stack, remote_intents = _hold(workspace, ledger, 0)
        except RunLockedError:
            _opt_out(workspace, ledger, phone)
            if not lock_timeout_s:
                raise
            stack, remote_intents = _hold(workspace, ledger, lock_timeout_s)
        with stack:
            remote_intents.enter_all()
            done = _forget(workspace, ledger, phone)
            rewritten = files.rewrite(ledger, files.read_texts())
            remote_intents.keep_all()
        if not remote_intents.is_behind:
            # A ref without campaigns has it from here.
            workspace.files.share(ledger, is_told=workspace.state is not None)
    unreached = [*done.list_unreached(), *_list_other_lockfiles(workspace, done), *_list_states(workspace)]
    return build(
        ForgottenPerson,
        done,
        phone=mask_phone(phone),
        targets=tuple(sorted(key.target for key in done.keys)),
        lockfiles=tuple(show_path(file) for file in rewritten if file.name.endswith(LOCKFILE_SUFFIX)),
        unreached=tuple(unreached),
        is_behind=remote_intents.is_behind,
    )


def _hold(workspace: Workspace, ledger: Ledger, timeout_s: float) -> tuple[ExitStack, RemoteIntents]:
    """Hold ref and campaigns until the stack is closed."""
    with ExitStack() as stack:
        remote_intents = RemoteIntents(workspace, ledger)
        remote_intents.hold_all(stack, timeout_s, every_target=True)
        return stack.pop_all(), remote_intents


def _opt_out(workspace: Workspace, ledger: Ledger, phone: str) -> None:
    """Have nobody text a person whose data cannot be removed yet, the run that is in the way included."""
    with ledger.writing() as connection:
        enter_key(connection, workspace.key)
        add_opt_outs(connection, workspace.key, [phone], "person", workspace.now_text())
    workspace.files.share(ledger)
    note(
        f"{mask_phone(phone)} is on record as opted out, and gets no more texts. Their data stays until the "
        "run that is under way has ended, and this command can remove it."
    )


def _forget(workspace: Workspace, ledger: Ledger, phone: str) -> Forgotten:
    """Remove a person from the ledger, and write down that nobody texts them again."""

    def find_secret(target: str) -> tuple[str, str | None]:
        """Return the variable of another target's state key, and its value."""
        variable = find_key_variable(target, workspace.targets)
        return variable, read_state_key(workspace.environ, variable)

    done = forget_person(ledger, phone, workspace.key, find_secret, workspace.now_text())
    for key in done.keys:
        files = RecordFiles.find(workspace.files.paths, key)
        if not files.write_suppressions(ledger):
            continue
        is_shared = key.target == workspace.target.name and workspace.state is not None
        if key.target != SANDBOX and not is_shared:
            note(f"`runner ci record` commits {files.places[0]}: other machines learn of it there.")
    # The copies for reports contain answers; the next report rebuilds them.
    remove_copies(state_folder())
    return done


def _list_other_lockfiles(workspace: Workspace, done: Forgotten) -> Iterator[str]:
    """Yield sentences on lockfiles that were not rewritten."""
    files, target = workspace.files, workspace.target.name
    reached = {(target, name) for name in files.campaigns.values()}
    known = {(one.target, one.campaign) for one in done.campaigns}
    for other, campaign in sorted(known - reached):
        yield (
            f"the lockfile of {campaign} on {other}, which still has their fingerprint: forget "
            f"them again with the campaign's file as PATH and --target {other}"
        )
    own = set(files.list_lockfiles())
    for file in files.list_lockfiles(every_target=True):
        other = name_target(file)
        if file not in own and other not in {name for name, _ in known}:
            yield (
                f"the lockfile {show_path(file)}, if they are in it: forget them again with --target {other}"
            )


def _list_states(workspace: Workspace) -> Iterator[str]:
    """Yield sentences on the state remote's history."""
    state = workspace.state
    if state is None or not state.exists():
        return
    if state.is_behind:
        yield (
            f"{state.ref}, which could not be moved, and still leads to their fingerprints: forget them "
            "again when the remote can be reached"
        )
    else:
        yield (
            f"earlier states of {state.ref} hold their fingerprints: the ref no longer leads there, but the "
            "remote keeps them until it removes what no ref leads to (git gc --prune=now there; GitHub may "
            "have to be asked), and so do clones that have used the ref, caches of CI, and backups"
        )
