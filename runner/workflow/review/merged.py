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
from runner.plan.model import MessagePlan
from runner.wording import count_words, write_table
from runner.workflow.campaigns import DEFAULT_FOLDER
from runner.workflow.failures import Failures
from runner.workflow.plans.names import plan_on_record
from runner.workflow.review.checklist import write_resolving
from runner.workflow.review.publishing import (
    CommentText,
    IssuePlace,
    Piece,
    comment,
    open_repository,
    publish,
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
_SECOND = len("2026-11-20T12:00:00")
_COLUMNS = ("campaign", "message", "texted", "deferred", "held", "refused", "still to send")
_NAMES, _HELD = 2, _COLUMNS.index("held")
_HELD_WORDS = "They may have got a message, and are not texted until a person says what became of it."

_Row = tuple[str | int, ...]


def comment_merged(scope: Scope) -> None:
    """Keep one comment on the merged pull request about deliveries since."""
    workspace, failures = Workspace.open(scope), Failures()
    target = workspace.target.name
    with workspace.open_ledger_for_reading() as ledger:
        planned = plan_on_record(workspace, scope, ledger, failures)

    def write(merged_at: str | None) -> CommentText:
        with workspace.open_ledger_for_reading() as ledger:
            rows = [
                row
                for item in planned
                for row in _list_rows(item.plan, _count(workspace, ledger, item, merged_at))
            ]
        return _write_text(target, rows, merged_at, failures.markdown())

    def keep() -> None:
        job = read_github_job(os.environ)
        if not job.commit:
            raise NoJobError("GITHUB_SHA doesn't say which commit this job is for")
        repository, is_meant = open_repository(job), _make_check(scope.paths)
        branch = os.environ.get("GITHUB_REF_NAME", "")
        pull = find_last_change(repository, job.commit, branch, is_meant)
        if pull is None:
            raise NoJobError(f"no merged pull request that changed the campaigns leads to {job.commit[:10]}")
        marker = write_marker(target, name_folder(), kind="sent")
        comment(repository, pull.number, marker, write(pull.merged_at))

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


def _make_check(paths: Sequence[Path]) -> Callable[[str], bool]:
    """Return a test for GitHub's file names of the campaigns; records, which jobs write, are none."""
    top = (find_work_tree(Path.cwd()) or Path.cwd()).resolve()
    folders = [(path if path.is_dir() else path.parent).resolve() for path in paths or [DEFAULT_FOLDER]]
    below = [folder.relative_to(top) for folder in folders if folder.is_relative_to(top)]
    return lambda file: (
        any(Path(file).is_relative_to(folder) for folder in below) and not file.endswith(RECORD_ENDINGS)
    )


def _list_rows(plan: CampaignPlan, sent: Mapping[str, SentCount]) -> Iterator[_Row]:
    """Yield a row for each message, former ones last."""
    plans = {message.id: message for message in plan.messages}
    for name in (*plans, *sorted(sent.keys() - plans.keys())):
        message, count = plans.get(name) or MessagePlan(name, ""), sent.get(name) or SentCount()
        numbers = (count.recipients, message.deferred, message.unresolved, count.rejected, message.to_send)
        yield (plan.campaign.name, name, *numbers)


def _write_text(target: str, rows: Sequence[_Row], merged_at: str | None, left_out: str) -> CommentText:
    """Return the comment on deliveries since a pull request was merged.

    Args:
        target: the target's name.
        rows: of the messages, by `_COLUMNS`.
        merged_at: UTC, ISO 8601; None if unknown: then all deliveries count.
        left_out: a Markdown table of campaigns that could not be planned, or empty.
    """
    place = IssuePlace.find(os.environ)
    sums = [sum(int(row[number]) for row in rows) for number in range(_NAMES, len(_COLUMNS))]
    when = f"Since this was merged ({merged_at[:16].replace('T', ' ')} UTC): " if merged_at else ""
    named = zip(sums[1:], _COLUMNS[_NAMES + 1 :], strict=True)
    said = [f"{count_words(sums[0], 'text')} sent", *(f"{count:,} {name}" for count, name in named if count)]
    pieces = [Piece("Messages", write_table(_COLUMNS, rows, _MOST_ROWS), is_open=True)] if rows else []
    pieces += [Piece("Left out", left_out, is_open=True)] if left_out else []
    if sums[_HELD - _NAMES]:
        body = f"#### People are held\n\n{_HELD_WORDS}\n\n{write_resolving(target, place)}"
        pieces.append(Piece("People are held", body, is_open=True))
    run = write_page("the last run", place.run_url)
    head = f"{write_heading('Campaigns sent', target)}{when}**{' · '.join(said)}**\n"
    return CommentText(head, tuple(pieces), f"<sub>As of {run}.</sub>" if run else "")
