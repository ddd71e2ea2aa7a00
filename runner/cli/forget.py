"""`runner forget`: removes a person's data, and sees that they are never texted again."""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from runner.campaign.phone import mask_phone
from runner.cli.approval import APPROVAL, require_approval
from runner.cli.campaigns import DEFAULT_FOLDER, show_path
from runner.cli.console import count_words, print_json
from runner.cli.duration import DURATION
from runner.cli.folders import state_folder
from runner.cli.holder import describe_this_run
from runner.cli.phone_list import parse_phones
from runner.cli.reserving import Reserving
from runner.cli.result_copies import remove_copies
from runner.cli.scope import Scope, format_option, target_scope
from runner.cli.suppressions import SuppressionFiles
from runner.cli.workspace import Workspace
from runner.ledger.forget import Forgotten, ForgottenCampaign, forget_person
from runner.ledger.lock import hold_campaign_lock
from runner.ledger.screening import list_recorded_campaigns
from runner.ledger.target_key import TargetSecret
from runner.service.state_key import STATE_KEY, read_state_key
from runner.service.target import find_key_variable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger


@click.command(
    epilog="\b\nExamples:\n  runner forget +14155550101\n"
    "  runner forget +14155550101 campaigns/customer-pulse.yaml --target live"
)
@click.argument("phone", metavar="PHONE")
@target_scope
@format_option("human", "json")
@click.option(
    "--lock-timeout",
    type=DURATION,
    default="0s",
    show_default=True,
    metavar="TIME",
    help="How long to wait for runs that are sending.",
)
@APPROVAL
def command(scope: Scope, phone: str, format_: str, lock_timeout: float, auto_approve: bool) -> int:
    """Remove a person's data from the ledger and the lockfiles, and never text them again.

    Their deliveries, answers and the texts that went to them alone are removed, of every campaign and
    target of the ledger; the lockfiles of the campaigns at PATH, and what a state remote has of these, are
    written anew without them. One keyed entry a target stays, in the ledger and in
    campaigns/<target>.suppressions.json, by which no campaign on any machine texts them again, also if a
    file still lists them; and one in each of these lockfiles.

    Reports that are already written, git's history and the service are out of reach: what to do about
    these is said in the end. `runner optouts remove` lets the person in again, as a newcomer.
    """
    (person,) = parse_phones([phone])
    workspace = Workspace.open(scope)
    campaigns = _load_campaigns(scope)
    require_approval(
        f"Remove everything on record of {mask_phone(person)}, for good, and never text them again?",
        is_approved=auto_approve,
    )
    with workspace.open_ledger() as ledger, ExitStack() as stack:
        reserving = Reserving(workspace, ledger)
        reserving.hold(stack, lock_timeout, quiet=scope.quiet)
        stack.enter_context(_hold_locks(workspace, ledger, campaigns, lock_timeout))
        done, rewritten = _forget(workspace, ledger, campaigns, person, reserving)
    unreached = [
        *done.list_unreached(),
        *_list_other_lockfiles(workspace, campaigns, done),
        *_list_states(workspace, campaigns, done),
    ]
    document = _describe(person, done, rewritten, unreached)
    if format_ == "json":
        print_json(document)
    else:
        _write_human(document)
    return int(reserving.is_behind)


def _load_campaigns(scope: Scope) -> tuple[Campaign, ...]:
    # A person can be forgotten where there are no campaigns: the ledger may be all that is left.
    return scope.load_valid_campaigns() if scope.paths or DEFAULT_FOLDER.exists() else ()


@contextmanager
def _hold_locks(
    workspace: Workspace, ledger: Ledger, campaigns: Sequence[Campaign], timeout_s: float
) -> Iterator[None]:
    """Hold the locks of all campaigns from which something is removed: those of the ledger, too."""
    names = {workspace.target.name: {name for c in campaigns for name in workspace.identify(c).names}}
    with ledger.reading() as connection:
        for target, name in list_recorded_campaigns(connection):
            names.setdefault(target, set()).add(name)
    holder = describe_this_run(workspace.now_text())
    with ExitStack() as stack:
        for target in sorted(names):
            lock = hold_campaign_lock(ledger, target, names[target], holder, timeout_s=timeout_s)
            stack.enter_context(lock)
        yield


def _forget(
    workspace: Workspace, ledger: Ledger, campaigns: Sequence[Campaign], phone: str, reserving: Reserving
) -> tuple[Forgotten, list[Path]]:
    """Forget a person, and return what became of it with the lockfiles that have changed."""
    # First, what the lockfiles alone know of: it would come back from them.
    records = [(campaign, workspace.enter_record(ledger, campaign)) for campaign in campaigns]
    target = workspace.target
    done = forget_person(
        ledger,
        phone,
        targets=[target.name],
        find_secret=partial(_find_secret, workspace),
        new_salt=secrets.token_hex(16),
        at=workspace.now_text(),
    )
    for other in done.targets:
        secret = _find_secret(workspace, other).value
        SuppressionFiles.find([one.file for one in campaigns], other, secret).write(ledger)
    # The answers stand in the copies that reports are counted from; the next report makes them anew.
    remove_copies(state_folder())
    rewritten = []
    for campaign, record in records:
        lockfile = workspace.identify(campaign).lockfile
        before = lockfile.read_bytes() if lockfile.exists() else None
        workspace.rewrite_lockfile(ledger, campaign, record)
        reserving.keep(campaign, record)
        if lockfile.exists() and lockfile.read_bytes() != before:
            rewritten.append(lockfile)
    return done, rewritten


def _find_secret(workspace: Workspace, target: str) -> TargetSecret:
    """Return the user's secret of a target: each has its own, and one's must not be taken for another's."""
    variable, is_required = find_key_variable(target, workspace.targets)
    if target == workspace.target.name:
        return TargetSecret(variable or STATE_KEY, workspace.target.state_key, is_certain=True)
    value = read_state_key(os.environ, variable or STATE_KEY)
    return TargetSecret(variable or STATE_KEY, value, variable is not None, is_required)


def _list_other_lockfiles(
    workspace: Workspace, campaigns: Sequence[Campaign], done: Forgotten
) -> Iterator[str]:
    """Yield what is to be said of lockfiles that were not written anew."""
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
    """Yield what is to be said of the state remote: what it was, and campaigns that only it knows of."""
    state = workspace.state
    if state is None:
        return
    if state.is_behind:
        yield (
            f"{state.ref}, which could not be moved, and still leads to their fingerprints: forget them "
            "again when the remote can be reached"
        )
    else:
        yield (
            f"earlier states of {state.ref} hold their fingerprints: the ref no longer leads there, but the "
            "remote keeps them until it removes what no ref leads to (git gc --prune=now there; a forge may "
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


def _describe(
    phone: str, done: Forgotten, rewritten: Sequence[Path], unreached: Sequence[str]
) -> dict[str, Any]:
    return {
        "phone": mask_phone(phone),
        "targets": list(done.targets),
        "opt_outs": done.opt_outs,
        "campaigns": [asdict(one) for one in done.campaigns],
        "lockfiles": [show_path(file) for file in rewritten],
        "unreached": list(unreached),
    }


def _write_human(document: dict[str, Any]) -> None:
    campaigns = [ForgottenCampaign(**one) for one in document["campaigns"]]
    if not campaigns:
        click.echo(f"Nothing was on record of {document['phone']} but, perhaps, opt-outs.")
    for one in campaigns:
        removed = (
            count_words(one.deliveries, "delivery", "deliveries"),
            count_words(one.results, "answer"),
            count_words(one.texts, "text"),
        )
        kept = (
            f"; {count_words(one.shared_texts, 'text')} that others got, too, kept"
            if one.shared_texts
            else ""
        )
        click.echo(f"{one.campaign} on {one.target}: {', '.join(removed)} removed{kept}.")
    for file in document["lockfiles"]:
        click.echo(f"{file}: written anew; commit it.")
    click.echo(f"{document['phone']} is never texted again on {', '.join(document['targets'])}.")
    click.echo("Out of reach:")
    for sentence in document["unreached"]:
        click.echo(f"  - {sentence}")
