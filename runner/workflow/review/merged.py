"""`runner ci comment --merged`: deliveries since the merge, as a comment on the pull request."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from runner.git.command import find_work_tree
from runner.github.comments import write_marker
from runner.github.job import NoJobError, read_github_job
from runner.github.pull_requests import find_last_change
from runner.ledger.files.comparison import RECORD_ENDINGS
from runner.ledger.record.campaign_record import find_campaign_id
from runner.ledger.results.sendings import SentCount, count_sent
from runner.plan.approval import find_latest
from runner.plan.model import MessagePlan
from runner.wording import count_words, escape_markdown, write_table
from runner.workflow.approval_coverage import ApprovalStore
from runner.workflow.campaigns import DEFAULT_FOLDER
from runner.workflow.failures import Failures
from runner.workflow.records.record_message import list_approving
from runner.workflow.review.checklist import write_resolving
from runner.workflow.review.plan_comment import plan_on_record
from runner.workflow.review.publishing import (
    CommentText,
    IssuePlace,
    Piece,
    comment,
    open_repository,
    publish,
    try_on_github,
    write_heading,
    write_page,
)
from runner.workflow.workspace.folders import name_folder
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runner.ledger.database import Ledger
    from runner.plan.model import CampaignPlan
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.scope import Scope

_MOST_ROWS = 100
_ALWAYS = ("campaign", "message", "texted", "launches")
_LEFT = ("deferred", "held", "refused", "still to send")
_SECOND = len("2026-11-20T12:00:00")

_Sent = tuple["PlanResult", dict[str, SentCount]]
"""A campaign's plan for the rest, and what was sent, by message id."""
_Row = dict[str, "str | int"]


def comment_merged(scope: Scope) -> None:
    """Keep one comment on the merged pull request about deliveries since.

    Raises:
        RunnerError: the campaigns or their records cannot be read.
    """
    workspace, failures = Workspace.open(scope), Failures()
    target = workspace.target.name
    with workspace.open_ledger_for_reading() as ledger:
        planned = plan_on_record(workspace, scope, ledger, failures)

    def write(merged_at: str | None) -> CommentText:
        with workspace.open_ledger_for_reading() as ledger:
            sent = [(item, _count(workspace, ledger, item, merged_at)) for item in planned]
        place, approvers = IssuePlace.find(os.environ), _list_approvers(workspace, sent)
        return _write_text(target, sent, merged_at, failures.markdown(), place, approvers)

    def keep() -> None:
        job = read_github_job(os.environ)
        if not job.commit:
            raise NoJobError("GITHUB_SHA doesn't say which commit this job is for")
        repository, is_meant = open_repository(job), _make_check(scope.paths)
        branch = os.environ.get("GITHUB_REF_NAME", "")
        pull = try_on_github(lambda: find_last_change(repository, job.commit, branch, is_meant))
        if pull is None:
            raise NoJobError(f"no merged pull request that changed the campaigns leads to {job.commit[:10]}")
        marker = write_marker(target, name_folder(), kind="sent")
        comment(repository, pull.number, marker, write(pull.merged_at), quiet=scope.quiet)

    publish("comment", lambda: write(None), keep)


def _count(
    workspace: Workspace, ledger: Ledger, item: PlanResult, merged_at: str | None
) -> dict[str, SentCount]:
    """Return a campaign's deliveries by message."""
    identity = workspace.identify(item.campaign)
    campaign_id = find_campaign_id(ledger, identity)
    if campaign_id is None:
        return {}
    with ledger.reading() as connection:
        return count_sent(connection, campaign_id, (merged_at or "")[:_SECOND], identity.message_ids)


def _list_approvers(workspace: Workspace, sent: Sequence[_Sent]) -> list[str]:
    """Return the approvers of deliveries, as far as this machine can verify them."""
    store, found = ApprovalStore(workspace.target, workspace.state), list_approving(workspace.environ)
    key = store.key
    for item, counts in sent:
        if key is not None:
            approvals = store.list_approvals(store.find_file(item.campaign), key)
            latest = find_latest(item.campaign.name, workspace.target.name, approvals)
            texted = [message for message, count in counts.items() if count.recipients]
            found |= {name for message in texted if message in latest for name in latest[message].approved_by}
    return sorted(found)


def _make_check(paths: Sequence[Path]) -> Callable[[str], bool]:
    """Return a test for GitHub's file names of the campaigns; records, which jobs write, are none."""
    top = (find_work_tree(Path.cwd()) or Path.cwd()).resolve()
    folders = [(path if path.is_dir() else path.parent).resolve() for path in paths or [DEFAULT_FOLDER]]
    below = [folder.relative_to(top) for folder in folders if folder.is_relative_to(top)]
    return lambda file: (
        any(Path(file).is_relative_to(folder) for folder in below) and not file.endswith(RECORD_ENDINGS)
    )


def _write_text(
    target: str,
    sent: Sequence[_Sent],
    merged_at: str | None,
    left_out: str,
    place: IssuePlace,
    approvers: Sequence[str] = (),
) -> CommentText:
    """Return the comment on deliveries since a pull request was merged.

    Args:
        target: the target's name.
        sent: the campaigns that could be planned.
        merged_at: UTC, ISO 8601; None if unknown: then all deliveries count.
        left_out: a Markdown table of campaigns that could not be planned, or empty.
        place: the comment's place.
        approvers: the recorded names.
    """
    rows = [row for item, counts in sent for row in _list_rows(item.plan, counts)]
    sums = {name: sum(int(row[name]) for row in rows) for name in ("texted", "launches", *_LEFT)}
    when = f"Since this was merged ({merged_at[:16].replace('T', ' ')} UTC): " if merged_at else ""
    texts = count_words(sums["texted"], "text")
    launches = count_words(sums["launches"], "launch", "launches")
    left = [f"{sums[name]:,} {name}" for name in _LEFT if sums[name]]
    said = " · ".join([f"{texts} sent in {launches}", *left])
    pieces = [Piece("Messages", _write_rows(rows), is_open=True)] if rows else []
    pieces += [Piece("Left out", left_out, is_open=True)] if left_out else []
    if sums["held"]:
        body = f"#### People are held\n\n{_HELD}\n\n{write_resolving(target, place)}"
        pieces.append(Piece("People are held", body, is_open=True))
    if sums["refused"]:
        pieces.append(Piece("Refused", _REFUSED, is_open=True))
    head = f"{write_heading('Campaigns sent', target)}{when}**{said}**\n"
    return CommentText(head, tuple(pieces), _write_tail(place, approvers))


_HELD = "They may have got a message, and are not texted until a person says what became of it."
_REFUSED = (
    "#### Refused\n\nThe service refused these texts, and nobody got them: the run's log says why. "
    "The next plan has them again."
)


def _list_rows(plan: CampaignPlan, sent: Mapping[str, SentCount]) -> Iterator[_Row]:
    """Yield a row for each message, former ones last."""
    plans = {message.id: message for message in plan.messages}
    for name in (*plans, *sorted(sent.keys() - plans.keys())):
        message, count = plans.get(name) or MessagePlan(name, ""), sent.get(name) or SentCount()
        due = message.next_due
        yield {
            "campaign": plan.campaign.name,
            "message": name,
            "texted": count.recipients,
            "launches": count.launches,
            "texted before": count.before,
            "deferred": message.deferred,
            "the first due": "" if due is None else f"{due:%Y-%m-%d %H:%M} UTC",
            "held": message.unresolved,
            "refused": count.rejected,
            "still to send": message.to_send,
        }


def _write_rows(rows: Sequence[_Row]) -> str:
    columns = [name for name in rows[0] if name in _ALWAYS or any(row[name] for row in rows)]
    return write_table(columns, [[row[name] for name in columns] for row in rows], _MOST_ROWS)


def _write_tail(place: IssuePlace, approvers: Sequence[str]) -> str:
    run = write_page("the last run", place.run_url)
    words = [
        *([f"As of {run}"] if run else []),
        *([f"approved by {', '.join(map(escape_markdown, approvers))}"] if approvers else []),
    ]
    text = ", ".join(words)
    return f"<sub>{text[:1].upper()}{text[1:]}.</sub>" if text else ""
