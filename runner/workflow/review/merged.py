"""`runner comment --merged`: deliveries since the merge, as a comment on the pull request."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import RunnerError
from runner.git.command import find_work_tree
from runner.git.recording import ASIDE
from runner.github.comments import write_marker
from runner.github.job import NoJobError, read_github_job
from runner.github.pull_requests import find_last_change
from runner.ledger.record.campaign_record import find_campaign_id, list_unentered
from runner.ledger.results.sendings import SentCount, count_sent
from runner.plan.approval import find_latest
from runner.plan.model import MessagePlan, PlanOptions
from runner.wording import count_words, escape_markdown
from runner.workflow.approval_coverage import ApprovalStore
from runner.workflow.campaigns import DEFAULT_FOLDER, InvalidCampaignError
from runner.workflow.failures import Failures
from runner.workflow.plans.context_reader import PlanContextReader
from runner.workflow.plans.names import RecordNames
from runner.workflow.plans.planning import plan_campaigns
from runner.workflow.records.record_push import list_approving
from runner.workflow.review.checklist import write_resolving
from runner.workflow.review.publishing import (
    CommentText,
    IssuePlace,
    Piece,
    comment,
    open_repository,
    publish,
    try_on_github,
    write_failure_text,
    write_page,
    write_problem_text,
    write_table,
)
from runner.workflow.workspace.folders import name_folder
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runner.ledger.database import Ledger
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.scope import Scope

_MOST_ROWS = 100
_ALWAYS = ("campaign", "message", "texted", "launches")
_SECOND = len("2026-11-20T12:00:00")


@dataclass(frozen=True, slots=True)
class SentCampaign:
    """A campaign's plan for the rest, and what was sent, by message id."""

    planned: PlanResult
    sent: Mapping[str, SentCount] = field(default_factory=dict)

    def list_rows(self) -> Iterator[_Row]:
        """Yield a row for each message, former ones last."""
        plan = self.planned.plan
        plans = {message.id: message for message in plan.messages}
        for name in (*plans, *sorted(self.sent.keys() - plans.keys())):
            yield _Row(
                plan.campaign.name,
                name,
                plans.get(name) or MessagePlan(name, ""),
                self.sent.get(name) or SentCount(),
            )


@dataclass(frozen=True, slots=True)
class _Row:
    campaign: str
    message: str
    plan: MessagePlan
    sent: SentCount

    @property
    def cells(self) -> dict[str, str | int]:
        due = self.plan.next_due
        return {
            "campaign": self.campaign,
            "message": self.message,
            "texted": self.sent.recipients,
            "launches": self.sent.launches,
            "texted before": self.sent.before,
            "deferred": self.plan.deferred,
            "the first due": "" if due is None else f"{due:%Y-%m-%d %H:%M} UTC",
            "held": self.plan.unresolved,
            "refused": self.sent.rejected,
            "still to send": self.plan.to_send,
        }


def comment_merged(scope: Scope, name: str | None) -> None:
    """Keep one comment on the merged pull request about deliveries since; `name` is `--id`.

    Raises:
        RunnerError: the campaigns or their records cannot be read; that is commented first.
    """
    target, write, failed = _prepare(scope)

    def keep() -> None:
        job = read_github_job(os.environ)
        if not job.commit:
            raise NoJobError("GITHUB_SHA doesn't say which commit this job is for")
        repository, is_meant = open_repository(job), _make_check(scope.paths)
        branch = os.environ.get("GITHUB_REF_NAME", "")
        pull = try_on_github(lambda: find_last_change(repository, job.commit, branch, is_meant, ASIDE))
        if pull is None:
            raise NoJobError(f"no merged pull request that changed the campaigns leads to {job.commit[:10]}")
        marker = write_marker(target, name or name_folder(), kind="sent")
        comment(repository, pull.number, marker, write(pull.merged_at), quiet=scope.quiet)

    publish("comment", lambda: write(None), keep)
    if failed is not None:
        raise failed


def _prepare(scope: Scope) -> tuple[str, Callable[[str | None], CommentText], RunnerError | None]:
    """Return the target's name, the writer of the comment, and the error if it is about one."""
    target = scope.target or os.environ.get("RUNNER_TARGET") or ""
    try:
        workspace = Workspace.open(scope)
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
            sendings = [SentCampaign(item, _count(workspace, ledger, item, merged_at)) for item in planned]
        place = IssuePlace.find(os.environ, scope.state_remote)
        approvers = _list_approvers(workspace, sendings)
        return _write_text(target, sendings, merged_at, failures.markdown(), place, approvers)

    return target, write, None


def _plan(workspace: Workspace, scope: Scope, failures: Failures) -> list[PlanResult]:
    options = PlanOptions(recipients_per_send=workspace.target.recipients_per_send)
    with workspace.open_ledger_if_present() as ledger:
        reader = PlanContextReader(workspace, ledger, workspace.now())
        return plan_campaigns(
            workspace,
            scope,
            options,
            lambda c: workspace.read_record(ledger, c),
            reader,
            failures,
            names=RecordNames(workspace, ledger),
        )


def _count(
    workspace: Workspace, ledger: Ledger | None, item: PlanResult, merged_at: str | None
) -> dict[str, SentCount]:
    """Return a campaign's deliveries by message, from the ledger and lockfiles it lacks."""
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


def _list_approvers(workspace: Workspace, sendings: Sequence[SentCampaign]) -> list[str]:
    """Return the approvers of deliveries, as far as this machine can verify them."""
    store, found = ApprovalStore(workspace.target), list_approving(os.environ)
    key = store.key
    for sending in sendings:
        campaign = sending.planned.campaign
        if key is not None:
            approvals = store.list_approvals(store.find_file(campaign), key)
            latest = find_latest(campaign.name, workspace.target.name, approvals)
            sent = [message for message, count in sending.sent.items() if count.recipients]
            found |= {name for message in sent if message in latest for name in latest[message].approved_by}
    return sorted(found)


def _make_check(paths: Sequence[Path]) -> Callable[[str], bool]:
    """Return a test for GitHub's file names that belong to the campaigns."""
    top = (find_work_tree(Path.cwd()) or Path.cwd()).resolve()
    folders = [(path if path.is_dir() else path.parent).resolve() for path in paths or [DEFAULT_FOLDER]]
    below = [folder.relative_to(top) for folder in folders if folder.is_relative_to(top)]
    return lambda file: any(Path(file).is_relative_to(folder) for folder in below)


def _write_text(
    target: str,
    sendings: Sequence[SentCampaign],
    merged_at: str | None,
    left_out: str,
    place: IssuePlace,
    approvers: Sequence[str] = (),
) -> CommentText:
    """Return the comment on deliveries since a pull request was merged.

    Args:
        target: the target's name.
        sendings: the campaigns that could be planned.
        merged_at: UTC, ISO 8601; None if unknown: then all deliveries count.
        left_out: a Markdown table of campaigns that could not be planned, or empty.
        place: the comment's place.
        approvers: the recorded names.
    """
    rows = [row for sending in sendings for row in sending.list_rows()]
    head = f"### Campaigns sent → {escape_markdown(target)}\n\n"
    when = f"Since this was merged ({merged_at[:16].replace('T', ' ')} UTC): " if merged_at else ""
    head += f"{when}**{_sum_up(rows)}**\n"
    pieces = [Piece("Messages", _write_rows(rows), is_open=True)] if rows else []
    pieces += [Piece("Left out", left_out, is_open=True)] if left_out else []
    if any(row.plan.unresolved for row in rows):
        pieces.append(Piece("People are held", _write_held(target, place), is_open=True))
    if any(row.sent.rejected for row in rows):
        pieces.append(Piece("Refused", _REFUSED, is_open=True))
    return CommentText(head, tuple(pieces), _write_tail(place, approvers))


_REFUSED = (
    "#### Refused\n\nThe service refused these texts, and nobody got them: the run's log says why. "
    "The next plan has them again."
)


def _write_held(target: str, place: IssuePlace) -> str:
    return (
        "#### People are held\n\nThey may have got a message, and are not texted until a person says what "
        f"became of it.\n\n{write_resolving(target, place)}"
    )


def _sum_up(rows: Sequence[_Row]) -> str:
    texts = count_words(sum(row.sent.recipients for row in rows), "text")
    launches = count_words(sum(row.sent.launches for row in rows), "launch", "launches")
    others = {
        "deferred": sum(row.plan.deferred for row in rows),
        "held": sum(row.plan.unresolved for row in rows),
        "refused": sum(row.sent.rejected for row in rows),
        "still to send": sum(row.plan.to_send for row in rows),
    }
    left = [f"{count:,} {name}" for name, count in others.items() if count]
    return " · ".join([f"{texts} sent in {launches}", *left])


def _write_rows(rows: Sequence[_Row]) -> str:
    cells = [row.cells for row in rows]
    columns = [name for name in cells[0] if name in _ALWAYS or any(one[name] for one in cells)]
    return write_table(columns, [[one[name] for name in columns] for one in cells], _MOST_ROWS)


def _write_tail(place: IssuePlace, approvers: Sequence[str]) -> str:
    run = write_page("the last run", place.run_url)
    words = [
        *([f"As of {run}"] if run else []),
        *([f"approved by {', '.join(map(escape_markdown, approvers))}"] if approvers else []),
    ]
    text = ", ".join(words)
    return f"<sub>{text[:1].upper()}{text[1:]}.</sub>" if text else ""
