"""Removal of a person's data from a ledger and its lockfiles, for good."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from runner.audience.phone import mask_phone
from runner.document import Count, Document, build
from runner.ledger.fingerprint import TargetKey
from runner.ledger.locks.campaign_lock import hold_campaign_lock
from runner.ledger.people.forgotten import Forgotten, ForgottenCampaign, forget_person
from runner.ledger.people.replies import list_recorded_campaigns
from runner.ledger.target_key import TargetSecret
from runner.report.columns.dataset import remove_copies
from runner.service.target import SANDBOX, STATE_KEY, find_key_variable, read_state_key
from runner.workflow.campaigns import DEFAULT_FOLDER, show_path
from runner.workflow.delivery.remote_intents import RemoteIntents
from runner.workflow.observer import note
from runner.workflow.workspace.folders import state_folder
from runner.workflow.workspace.record_files import RecordFiles
from runner.workflow.workspace.workspace import Workspace, describe_this_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from runner.campaign.model import Campaign
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

    The scope's lockfiles are rewritten; `phone` is E.164; `lock_timeout_s` limits the wait for active runs;
    `approve` asks before removal, and raises to refuse.

    Raises:
        RunnerError: the ledger, a lockfile or the state remote cannot be read or written, or there are
            neither campaigns nor a ledger here.
    """
    workspace = Workspace.open_known(scope)
    campaigns = _load_campaigns(scope)
    approve()
    with workspace.open_ledger() as ledger, ExitStack() as stack:
        remote_intents = RemoteIntents(workspace, ledger)
        remote_intents.hold(stack, lock_timeout_s, makes_ref=False, quiet=scope.quiet)
        stack.enter_context(_hold_locks(workspace, ledger, campaigns, lock_timeout_s))
        done, rewritten = _forget(workspace, ledger, campaigns, phone, remote_intents, quiet=scope.quiet)
    unreached = [
        *done.list_unreached(),
        *_list_other_lockfiles(workspace, campaigns, done),
        *_list_states(workspace, campaigns, done),
    ]
    return build(
        ForgottenPerson,
        done,
        phone=mask_phone(phone),
        lockfiles=tuple(map(show_path, rewritten)),
        unreached=tuple(unreached),
        is_behind=remote_intents.is_behind,
    )


def _load_campaigns(scope: Scope) -> tuple[Campaign, ...]:
    # Campaigns are optional, since the ledger may be all that is left.
    return scope.load_valid_campaigns() if scope.paths or DEFAULT_FOLDER.exists() else ()


@contextmanager
def _hold_locks(
    workspace: Workspace, ledger: Ledger, campaigns: Sequence[Campaign], timeout_s: float
) -> Iterator[None]:
    """Hold the locks of all campaigns that lose data, including those only in the ledger."""
    names = {workspace.target.name: {name for c in campaigns for name in workspace.identify(c).names}}
    with ledger.reading() as connection:
        for target, name in list_recorded_campaigns(connection):
            names.setdefault(target, set()).add(name)
    holder = describe_this_run(workspace.now_text(), workspace.environ)
    with ExitStack() as stack:
        for target in sorted(names):
            lock = hold_campaign_lock(ledger, target, names[target], holder, timeout_s=timeout_s)
            stack.enter_context(lock)
        yield


def _forget(
    workspace: Workspace,
    ledger: Ledger,
    campaigns: Sequence[Campaign],
    phone: str,
    remote_intents: RemoteIntents,
    *,
    quiet: bool,
) -> tuple[Forgotten, list[Path]]:
    """Forget a person; return the result and the changed lockfiles."""
    # First, import launches known from lockfiles alone, which would bring the person back.
    records = [(campaign, workspace.enter_record(ledger, campaign)) for campaign in campaigns]
    target = workspace.target
    done = forget_person(
        ledger,
        phone,
        targets=[target.name],
        find_secret=partial(_find_secret, workspace),
        at=workspace.now_text(),
    )
    for other in done.targets:
        secret = _find_secret(workspace, other).value
        key = TargetKey.of(other, secret)
        files = RecordFiles.find([one.file for one in campaigns], key)
        if files.write_suppressions(ledger) and other != SANDBOX and not quiet:
            note(f"`runner ci record` commits {files.places[0]}: other machines learn of it there.")
    # The copies for reports contain answers; the next report rebuilds them.
    remove_copies(state_folder())
    rewritten = []
    for campaign, record in records:
        lockfile = workspace.identify(campaign).lockfile
        before = lockfile.read_bytes() if lockfile.exists() else None
        workspace.rewrite_lockfile(ledger, campaign, record)
        remote_intents.keep(campaign, record)
        if lockfile.exists() and lockfile.read_bytes() != before:
            rewritten.append(lockfile)
    return done, rewritten


def _find_secret(workspace: Workspace, target: str) -> TargetSecret:
    """Return the state key of a target; targets must not share one by mistake."""
    variable, is_required = find_key_variable(target, workspace.targets)
    if target == workspace.target.name:
        return TargetSecret(variable or STATE_KEY, workspace.target.state_key, is_certain=True)
    value = read_state_key(workspace.environ, variable or STATE_KEY)
    return TargetSecret(variable or STATE_KEY, value, variable is not None, is_required)


def _list_other_lockfiles(
    workspace: Workspace, campaigns: Sequence[Campaign], done: Forgotten
) -> Iterator[str]:
    """Yield sentences on lockfiles that were not rewritten."""
    reached = {(workspace.target.name, campaign.name) for campaign in campaigns}
    for one in done.campaigns:
        if (one.target, one.campaign) not in reached:
            yield (
                f"the lockfile of {one.campaign} on {one.target}, which still has their fingerprint: forget "
                f"them again with the campaign's file as PATH and --target {one.target}"
            )
    told = {(one.target, one.campaign) for one in done.campaigns}
    for campaign in campaigns:
        own = workspace.identify(campaign).lockfile
        stem = own.name.removesuffix(f".{workspace.target.name}.lock.json")
        for file in sorted(own.parent.glob(f"{stem}.*.lock.json")):
            target = file.name.removeprefix(f"{stem}.").removesuffix(".lock.json")
            if file != own and (target, campaign.name) not in told:
                yield (
                    f"the lockfile {show_path(file)}, if they are in it: "
                    f"forget them again with --target {target}"
                )


def _list_states(workspace: Workspace, campaigns: Sequence[Campaign], done: Forgotten) -> Iterator[str]:
    """Yield sentences on the state remote's history, and on campaigns only it knows."""
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
    told = {one.campaign for one in done.campaigns if one.target == workspace.target.name}
    told.update(name for campaign in campaigns for name in workspace.identify(campaign).names)
    for name in state.list_campaigns():
        if name not in told:
            yield (
                f"the record of {name} on {state.ref}, if they are in it: forget them again with the "
                f"campaign's file as PATH and --target {workspace.target.name}"
            )
