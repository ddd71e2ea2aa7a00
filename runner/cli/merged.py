"""`runner comment --merged`: what was sent, as one comment on the pull request that brought it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from runner.cli.alert_text import Place
from runner.cli.campaigns import DEFAULT_FOLDER
from runner.cli.circumstances import CircumstanceReader
from runner.cli.comment_text import CommentText, write_failure_text, write_problem_text
from runner.cli.coverage import ApprovalShelf
from runner.cli.diagnostics import InvalidCampaignError
from runner.cli.failures import Failures
from runner.cli.folders import name_folder
from runner.cli.merged_text import Sending, write_merged_text
from runner.cli.planning import plan_campaigns
from runner.cli.publishing import comment, open_repository, publish, try_on_forge
from runner.cli.record_text import list_approving
from runner.cli.workspace import Workspace
from runner.errors import RunnerError
from runner.forge.comment import write_marker
from runner.forge.job import NoJobError, read_forge_job
from runner.forge.merged import find_last_change
from runner.ledger.record import find_campaign_id, list_unentered
from runner.ledger.sendings import SentCount, count_sent
from runner.plan.approval import find_latest
from runner.plan.model import PlanOptions
from runner.repository.git import find_work_tree
from runner.repository.recording import ASIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.cli.planning import Planned
    from runner.cli.scope import Scope
    from runner.ledger.database import Ledger

_SECOND = len("2026-11-20T12:00:00")


def comment_merged(scope: Scope, name: str | None) -> int:
    """Keep one comment on the merged pull request that says what was sent since, and what was not.

    Args:
        scope: says which campaigns.
        name: `--id`, if given.

    Raises:
        RunnerError: the campaigns, or what is on record of them, cannot be read; that is commented first.
    """
    target, write, failed = _prepare(scope)

    def keep() -> None:
        job = read_forge_job(os.environ)
        if not job.commit:
            raise NoJobError("GITHUB_SHA doesn't say which commit this job is for")
        repository, is_meant = open_repository(job), _make_check(scope.paths)
        branch = os.environ.get("GITHUB_REF_NAME", "")
        pull = try_on_forge(lambda: find_last_change(repository, job.commit, branch, is_meant, ASIDE))
        if pull is None:
            raise NoJobError(f"no merged pull request that changed the campaigns leads to {job.commit[:10]}")
        marker = write_marker(target, name or name_folder(), kind="sent")
        comment(repository, pull.number, marker, write(pull.merged_at), quiet=scope.quiet)

    publish("comment", lambda: write(None), keep)
    if failed is not None:
        raise failed
    return 0


def _prepare(scope: Scope) -> tuple[str, Callable[[str | None], CommentText], RunnerError | None]:
    """Return the target's name, what writes the comment, and why it isn't about what was sent, if so."""
    target = scope.target or os.environ.get("RUNNER_TARGET") or ""
    try:
        workspace = Workspace.open(scope, needs_credentials=False)
        target = workspace.target.name
        failures = Failures()
        planned = _plan(workspace, scope, failures)
    except InvalidCampaignError as error:
        text = write_problem_text(error.problems, target)
        return target, lambda _: text, error
    except RunnerError as error:
        text = write_failure_text(error, target)
        return target, lambda _: text, error

    def write(merged_at: str | None) -> CommentText:
        with workspace.open_ledger_if_present() as ledger:
            sendings = [Sending(item, _count(workspace, ledger, item, merged_at)) for item in planned]
        place = Place.find(os.environ, scope.state_remote)
        approvers = _list_approvers(workspace, sendings)
        return write_merged_text(target, sendings, merged_at, failures.markdown(), place, approvers)

    return target, write, None


def _plan(workspace: Workspace, scope: Scope, failures: Failures) -> list[Planned]:
    options = PlanOptions(recipients_per_send=workspace.target.recipients_per_send)
    with workspace.open_ledger_if_present() as ledger:
        reader = CircumstanceReader(workspace, ledger, workspace.now())
        return plan_campaigns(
            workspace, scope, options, lambda c: workspace.read_record(ledger, c), reader, failures
        )


def _count(
    workspace: Workspace, ledger: Ledger | None, item: Planned, merged_at: str | None
) -> dict[str, SentCount]:
    """Return what was sent of a campaign, by message: as the ledger knows, and lockfiles that it doesn't."""
    since = (merged_at or "")[:_SECOND]
    identity = workspace.identify(item.campaign)
    found: dict[str, SentCount] = {}
    campaign_id = None if ledger is None else find_campaign_id(ledger, identity)
    if ledger is not None and campaign_id is not None:
        with ledger.reading() as connection:
            found = count_sent(connection, campaign_id, since, identity.message_ids)
    for launch in list_unentered(ledger, identity):
        one = found.setdefault(launch.message, SentCount())
        one.add_sent(len(launch.recipients), is_since=launch.sent_at >= since)
    return found


def _list_approvers(workspace: Workspace, sendings: Sequence[Sending]) -> list[str]:
    """Return who approved what was sent, as far as this machine can believe it."""
    shelf, found = ApprovalShelf(workspace.target), list_approving(os.environ)
    key = shelf.key
    for sending in sendings:
        campaign = sending.planned.campaign
        if key is not None:
            approvals = shelf.list_approvals(shelf.find_file(campaign), key)
            latest = find_latest(campaign.name, workspace.target.name, approvals)
            sent = [message for message, count in sending.sent.items() if count.recipients]
            found |= {name for message in sent if message in latest for name in latest[message].approved_by}
    return sorted(found)


def _make_check(paths: Sequence[Path]) -> Callable[[str], bool]:
    """Return what says of a file, as the forge names it, whether it is one of the campaigns."""
    top = (find_work_tree(Path.cwd()) or Path.cwd()).resolve()
    folders = [(path if path.is_dir() else path.parent).resolve() for path in paths or [DEFAULT_FOLDER]]
    below = [folder.relative_to(top) for folder in folders if folder.is_relative_to(top)]
    return lambda file: any(Path(file).is_relative_to(folder) for folder in below)
