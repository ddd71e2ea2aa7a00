"""A run: its options, the commit and CI job that it is from, its results by campaign, and its audiences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from runner.audience.trace import AudienceTrace, trace_audience
from runner.campaign.model import FileRecipients
from runner.delivery.delivery_summary import DeliverySummary
from runner.errors import InterruptedRunError
from runner.git.command import Git, GitError, hide_credentials
from runner.ledger.locks.campaign_lock import find_run_url
from runner.ledger.model import AudienceFigures, Run
from runner.ledger.report_model import AudienceRow
from runner.ledger.results.runs import name_run
from runner.ledger.results.sendings import read_audience_trace, store_audience_trace, store_audiences
from runner.reasons import LEFT, Disposition
from runner.source.targets_file import TARGETS_FILE
from runner.text.include import include_folder
from runner.timing.zone import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.errors import RunnerError
    from runner.ledger.database import Ledger
    from runner.plan.limits.audience_guard import PlannedAudience
    from runner.plan.model import MessagePlan
    from runner.workflow.plans.planning import PlanResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of a run; None is the target's own value.

    They are the sends in flight at once, the longest time until a launch is listed, and the longest wait for
    another run.
    """

    concurrency: int | None = None
    settle_window_s: float | None = None
    lock_timeout_s: float = 0.0


_LEFT_BY_PLAN = ("deferred", "expired", "opt_out_doubtful", "open_session", "no_rule", "enough")
"""Reasons that a run's last line tells of whether the plan or the run found them."""


@dataclass(slots=True)
class CampaignRun:
    """The result of a run for one campaign.

    `adopted` counts launches of earlier runs found to have been sent, and `unresolved` recipients whose
    outcome is unknown after the run. `diagnosis` is the likely cause if the service refused to send.
    """

    planned: PlanResult
    summary: DeliverySummary = field(default_factory=DeliverySummary)
    adopted: int = 0
    unresolved: int = 0
    diagnosis: RunnerError | None = None
    ended_at: datetime | None = None

    @property
    def to_send(self) -> int:
        """The number of planned deliveries."""
        return sum(message.to_send for message in self.planned.plan.messages)

    @property
    def sends_several_each(self) -> bool:
        """True if somebody gets more than one message, so that deliveries are not people."""
        return self.to_send != self.planned.plan.recipients_to_send

    @property
    def counts_texts(self) -> bool:
        """True if missing deliveries may count one person several times."""
        messages = self.planned.plan.messages
        waiting = sum(any(getattr(one, name) for name in _LEFT_BY_PLAN) for one in messages)
        return self.sends_several_each or waiting > 1

    def say_due(self) -> str:
        """Return until when the first of the deferred recipients wait, by their clocks; empty if unknown."""
        plan = self.planned.plan
        due = [one for message in plan.messages for one in message.due]
        if not due or plan.pause is not None:
            return ""
        moment, zone = min(due)
        first = ", the first" if any(other > moment for other, _ in due) else ""
        return f"{first} until {moment.astimezone(load_zone(zone)):%a %Y-%m-%d %H:%M} ({zone})"

    def count_left(self) -> dict[str, int]:
        """Return the planned texts that were not sent, by reason (`runner.reasons.LEFT`).

        They were left by the plan or by the run; `not_tried` had no launch, since the run ended early.
        """
        summary = self.summary
        left = {name: summary.left[name] for name in LEFT}
        left["not_tried"] = self.to_send - summary.recipients_tried - summary.left.total()
        if summary.has_enough:
            left["enough"], left["not_tried"] = left["enough"] + left["not_tried"], 0
        left["deferred"] += summary.recipients_too_late
        for name in _LEFT_BY_PLAN:
            left[name] += sum(getattr(message, name) for message in self.planned.plan.messages)
        if self._is_over:
            left["expired"], left["deferred"] = left["expired"] + left["deferred"], 0
        return left

    @property
    def _is_over(self) -> bool:
        expires = self.planned.campaign.schedule.expires
        return expires is not None and self.ended_at is not None and self.ended_at >= expires


def interrupt_run() -> InterruptedRunError:
    """Return the error of a run that was stopped, to raise after recording what it sent."""
    return InterruptedRunError(
        "interrupted; everything that was sent is recorded",
        hint="run the same command again to send the rest",
    )


def keep_audiences(ledger: Ledger, planned: Sequence[PlanResult], at: str) -> None:
    """Store the audiences of plans of entered campaigns, and their counts, for those of the last run."""
    traces = {item.campaign.name: trace_audience(item.campaign) for item in planned}
    with ledger.writing() as connection:
        for item in planned:
            campaign_id = item.record.require_entered()
            rows = [_describe(message, at) for message in item.plan.messages]
            store_audiences(connection, campaign_id, rows, item.plan.rollout)
            before, trace = read_audience_trace(connection, campaign_id), traces[item.campaign.name]
            if before is not None:
                trace = trace.add_columns(AudienceTrace.restore(before))
            store_audience_trace(connection, campaign_id, trace.keep())


def _describe(message: MessagePlan, at: str) -> AudienceRow:
    counts = {name: getattr(message, name) for name in get_args(Disposition)}
    counts = {name: count for name, count in counts.items() if count}
    return AudienceRow(message.id, at, message.recipients, counts)


_TIMEOUT_S = 20.0
_BEFORE_PATH = len("XY ")
"""Characters of a line before its path (git-status(1), "Porcelain Format Version 1")."""
_OF_ONE_CAMPAIGN = {".yaml", ".yml", ".csv", ".json"}


def trace_run(
    campaigns: Sequence[Campaign], plan_digest: str, started_at: str, environment: Mapping[str, str]
) -> Run:
    """Return the run that is about to send, from git and the CI system."""
    commit, is_dirty = _ask_git(campaigns)
    run_url = hide_credentials(find_run_url(environment) or "")
    page, actor = run_url if _is_page(run_url) else None, find_actor(environment)
    return name_run(Run("", started_at, plan_digest, commit, is_dirty, page, actor))


def note_audience(run: Run, audience: PlannedAudience) -> Run:
    """Return a run with what the audience of the campaign that it sends is like."""
    filled = tuple(sorted(audience.filled.items()))
    figures = AudienceFigures(audience.people, audience.excluded, audience.opted_out or 0, filled)
    return name_run(run, figures)


def _is_page(text: str) -> bool:
    return text.startswith(("https://", "http://")) and all("!" <= char <= "~" for char in text)


def find_actor(environment: Mapping[str, str]) -> str | None:
    """Return the user who started, or repeated, the CI job; None outside of CI, whatever the variables.

    See docs.github.com, "Variables reference", and docs.gitlab.com, "Predefined CI/CD variables".
    """
    names = []
    if environment.get("GITHUB_RUN_ID"):
        names = ["GITHUB_TRIGGERING_ACTOR", "GITHUB_ACTOR"]
    elif environment.get("CI_JOB_URL"):
        names = ["GITLAB_USER_LOGIN"]
    return next((actor for name in names if (actor := environment.get(name))), None)


def _ask_git(campaigns: Sequence[Campaign]) -> tuple[str | None, bool]:
    """Return the current commit, and whether files of the campaigns differ from it.

    Without git or a repository, there is no commit.
    """
    root = campaigns[0].root.resolve()
    own = set(_list_own_files(campaigns))
    shared = {include_folder(campaign).resolve() for campaign in campaigns}
    folders = sorted({one for one in (*shared, *(file.parent for file in own)) if one.is_relative_to(root)})
    command = ("--literal-pathspecs", "status", "--porcelain", "--untracked-files=all", "--no-renames", "-z")
    git = Git(root, timeout_s=_TIMEOUT_S)
    try:
        head = git.ask("rev-parse", "--verify", "--quiet", "HEAD")
        answer = git.ask(*command, "--", *map(str, folders))
    except GitError:
        return None, False
    if head.status or answer.status:
        return None, False
    changed = (root / line[_BEFORE_PATH:] for line in answer.output.split("\0") if line)
    return head.output.strip(), any(file in own or _is_included(file, shared) for file in changed)


def _list_own_files(campaigns: Iterable[Campaign]) -> Iterator[Path]:
    for campaign in campaigns:
        yield campaign.file.resolve()
        for source in (*campaign.recipients, *campaign.exclude):
            if isinstance(source, FileRecipients) and source.url is None:
                yield source.path.resolve()


def _is_included(file: Path, folders: Iterable[Path]) -> bool:
    """Return whether texts may include a file, or all campaigns share it: lockfiles change with each send."""
    is_shared = file.suffix not in _OF_ONE_CAMPAIGN or file.name == TARGETS_FILE
    return is_shared and any(file.is_relative_to(folder) for folder in folders)
