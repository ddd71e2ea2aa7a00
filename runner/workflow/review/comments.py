"""`runner ci comment`: the plan of a pull request's campaigns as a comment, or why there is none."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runner.audience.sealing import count_rows
from runner.errors import LimitError, MissingKeyError, RunnerError
from runner.git.command import GitError
from runner.github.comments import write_marker
from runner.github.job import NoJobError, is_of_pull_request, read_github_job
from runner.github.pull_requests import PlanNumbers, write_numbers
from runner.plan.model import PlannedWave
from runner.source.diagnostic import Problems
from runner.wording import hide_phones
from runner.workflow.campaigns import InvalidCampaignError, load_campaigns
from runner.workflow.failures import Failures
from runner.workflow.observer import warn
from runner.workflow.plans.names import plan_on_record
from runner.workflow.plans.planning import (
    leave_out_refused,
    list_changed,
    list_texted,
    plan_without_key,
)
from runner.workflow.review.publishing import comment, open_repository, publish
from runner.workflow.review.review import describe_changes, write_unknown
from runner.workflow.workspace.folders import name_folder
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.campaign.model import Campaign
    from runner.service.target import Target
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.review.publishing import CommentText
    from runner.workflow.scope import Scope


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
