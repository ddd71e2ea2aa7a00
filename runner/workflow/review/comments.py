"""`runner ci comment`: comments on a pull request.

One has the plan of its campaigns, or why there is none; the other (`--merged`) deliveries since the merge.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner.audience.sealing import count_rows
from runner.errors import LimitError, MissingKeyError, RunnerError
from runner.git.command import GitError, find_work_tree
from runner.github.comments import write_marker
from runner.github.job import NoJobError, is_of_pull_request, read_github_job
from runner.github.pull_requests import PlanNumbers, find_last_change, write_numbers
from runner.ledger.files.comparison import RECORD_ENDINGS
from runner.ledger.model import CampaignLaunches
from runner.ledger.record.campaign_record import find_campaign_id
from runner.ledger.results.sendings import SentCount, count_sent
from runner.plan.model import MessagePlan, PlannedWave
from runner.source.diagnostic import Problems
from runner.wording import count_words, hide_phones, write_table
from runner.workflow.campaigns import DEFAULT_FOLDER, InvalidCampaignError, load_campaigns
from runner.workflow.failures import Failures
from runner.workflow.observer import warn
from runner.workflow.plans.names import plan_on_record
from runner.workflow.plans.planning import leave_out_refused, list_changed, list_texted, plan_without_key
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
from runner.workflow.review.review import describe_changes, write_unknown
from runner.workflow.workspace.folders import name_folder
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.plan.model import CampaignPlan
    from runner.service.target import Target
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.scope import Scope


_MOST_ROWS = 100
_SECOND = len("2026-11-20T12:00:00")
_COLUMNS = ("campaign", "message", "texted", "deferred", "held", "refused", "still to send")
_NAMES, _HELD = 2, _COLUMNS.index("held")
_HELD_WORDS = "They may have got a message, and are not texted until a person says what became of it."
_Row = tuple[str | int, ...]


@dataclass(slots=True)
class PlanFindings:
    """The findings about the campaigns of a pull request, and the end of the command.

    Attributes:
        target_name: empty if it is not known.
        target: the plan's target; None if it cannot be opened.
        remarks: Markdown on the pull request's changes beside the plan.
        planned: the plans, if any could be made.
        changed: full names of sent messages whose texts are others now.
        texted: without the key, the number of people on record by message (None if not known), for each plan.
        problems: all problems; None if the campaigns were not read.
        sealed: the campaigns whose encrypted audience cannot be read here.
        left_out: a Markdown table of the campaigns that could not be planned.
        failure: the reason why nothing could be planned.
        error: to be raised once the comment is written.
        code: the exit code, if nothing is raised.
    """

    target_name: str
    target: Target | None = None
    remarks: list[str] = field(default_factory=list)
    planned: Sequence[PlanResult] = ()
    changed: Sequence[str] = ()
    texted: Sequence[Mapping[str, int] | None] | None = None
    problems: Problems | None = None
    sealed: Sequence[Campaign] = ()
    left_out: str = ""
    failure: RunnerError | None = None
    error: RunnerError | None = None
    code: int = 0


def find_plan(scope: Scope, remote: str) -> PlanFindings:
    """Validate and plan the campaigns of a pull request; errors are part of the findings."""
    findings = PlanFindings(scope.target or "")
    _describe_changes(findings, remote)
    try:
        workspace = Workspace.open(scope)
        findings.target, findings.target_name = workspace.target, workspace.target.name
        _read_remote(findings, workspace)
        _plan(findings, workspace, scope)
    except InvalidCampaignError as error:
        findings.problems = error.problems
        findings.error = error
    except RunnerError as error:
        _explain(findings, error, scope)
    return findings


def keep_plan_comment(findings: PlanFindings, text: CommentText) -> None:
    """Keep one comment on the pull request; without GitHub, write it elsewhere."""
    if findings.planned or findings.sealed:
        text = replace(text, numbers=_write_numbers(findings))

    def keep() -> None:
        job = read_github_job(os.environ)
        if not job.number:
            raise NoJobError("this is no job of a pull request")
        tail = f"<sub>For commit {job.head}</sub>" if job.head else ""
        marker = write_marker(findings.target_name, name_folder())
        comment(open_repository(job), job.number, marker, replace(text, tail=tail), head=job.head)

    publish("comment", lambda: text, keep)


def _describe_changes(findings: PlanFindings, remote: str) -> None:
    """Add the pull request's changes to the remarks."""
    try:
        findings.remarks.append(describe_changes(remote, os.environ))
    except RunnerError as error:
        what = "what this pull request changes of targets and records"
        findings.remarks.append(write_unknown(what, error))


def _read_remote(findings: PlanFindings, workspace: Workspace) -> None:
    """Read the state remote, and add to the remarks if it cannot be reached."""
    state = workspace.files.state
    if state is None:
        return
    try:
        _ = state.texts
    except GitError as error:
        what = "what the state remote has. People that only it tells of count as not texted yet"
        findings.remarks.append(write_unknown(what, error))
        state.leave_out()


def _plan(findings: PlanFindings, workspace: Workspace, scope: Scope) -> None:
    # Jobs of pull requests get no key for audiences.
    failures = Failures(accepts_sealed=is_of_pull_request(os.environ))
    try:
        with workspace.open_ledger_for_reading() as ledger:
            planned = plan_on_record(workspace, scope, ledger, failures)
            changed = list_changed(ledger, workspace.key, planned)
        missing = next((one for one in failures.errors.values() if isinstance(one, MissingKeyError)), None)
    except MissingKeyError as error:
        if not is_of_pull_request(os.environ):
            raise
        planned, changed, missing = [], (), error
    if missing is not None and is_of_pull_request(os.environ):
        _find_bounds(findings, workspace, scope, missing)
        return
    findings.planned, findings.changed, findings.sealed = planned, changed, failures.sealed
    findings.problems, findings.left_out = failures.problems, failures.markdown()
    # A pause stops sending, but no merge of a pull request.
    failures.accept_pauses(lambda _: True)
    try:
        kept = leave_out_refused(planned, failures)
        findings.code = failures.find_exit_code(0 if kept or findings.sealed else None)
    except LimitError as error:
        findings.error = error


def _find_bounds(findings: PlanFindings, workspace: Workspace, scope: Scope, missing: RunnerError) -> None:
    """Plan without the key to read the record, in which people can just be counted."""
    failures = Failures(accepts_sealed=True)
    planned = plan_without_key(workspace, scope, failures)
    if not planned and not failures.sealed:
        raise missing
    warn(
        f"planned without knowing who was texted, since this pull request gets no secrets: {missing.message}"
    )
    texted = [list_texted(workspace, item.campaign) for item in planned]
    findings.texted = [
        None if one is None else {name: len(got) for name, got in one.get(item.campaign.wave, {}).items()}
        for item, one in zip(planned, texted, strict=True)
    ]
    findings.sealed = failures.sealed
    findings.planned = [_add_wave(item, one or {}) for item, one in zip(planned, texted, strict=True)]
    findings.problems, findings.left_out = failures.problems, failures.markdown()
    findings.code = failures.find_exit_code(0)


def _add_wave(item: PlanResult, texted: Mapping[str, Mapping[str, set[str]]]) -> PlanResult:
    """Return a plan with its wave beside those in lockfiles."""
    people = {wave: len(set[str]().union(*got.values())) for wave, got in texted.items()}
    is_of_waves = item.campaign.wave or any(people)
    wave = PlannedWave.of(item.campaign.wave, people if is_of_waves else {})
    return replace(item, plan=replace(item.plan, wave=wave))


def count_pending(item: PlanResult, texted: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return how many people get each message, now or later; without those who are `texted`, by message."""
    return {one.id: max(0, one.pending - (texted or {}).get(one.id, 0)) for one in item.plan.messages}


def _write_numbers(findings: PlanFindings) -> str:
    texted = findings.texted or [None] * len(findings.planned)
    campaigns = {
        hide_phones(item.campaign.name): {
            hide_phones(message): count for message, count in count_pending(item, known).items() if count
        }
        for item, known in zip(findings.planned, texted, strict=True)
    }
    # Nobody can be texted who is in no row, and another number of rows is an error.
    campaigns |= {
        hide_phones(one.name): {hide_phones(message.id): rows for message in one.messages}
        for one in findings.sealed
        if (rows := count_rows(one))
    }
    return write_numbers(PlanNumbers(findings.target_name, campaigns))


def _explain(findings: PlanFindings, error: RunnerError, scope: Scope) -> None:
    """Find the reason for a missing plan; for the want of secrets a pull request's job doesn't fail."""
    findings.error = error
    problems = Problems()
    with suppress(RunnerError):
        load_campaigns(scope, problems)
    if problems.error_count:
        findings.problems = problems
        return
    findings.failure = error
    if isinstance(error, MissingKeyError) and is_of_pull_request(os.environ):
        warn(f"not planned, since this pull request gets no secrets: {error.message}")
        findings.error = None


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
        return count_sent(
            connection, CampaignLaunches(campaign_id, identity.message_ids), (merged_at or "")[:_SECOND]
        )


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
