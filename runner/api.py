"""The Python API: a project of campaigns, with a method for each command.

    project = runner.open("campaigns", target="sandbox")
    plan = project.plan()
    project.apply(plan)

Nothing here prints, exits or reads the process's environment. Errors are those of `runner.errors`.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.errors import UsageError
from runner.report.people_model import SMALL_GROUP
from runner.settings import REQUIRE_APPROVAL, SETTLE_WINDOW
from runner.source.diagnostic import Problems
from runner.workflow.apply import MOST_CONCURRENT, ApplyOptions, ApplyResult, apply_campaigns
from runner.workflow.campaigns import load_campaigns, show_path
from runner.workflow.checking.validate import Validation, validate_campaigns
from runner.workflow.observer import Observer, observing
from runner.workflow.plan import PlanWishes, ProjectPlan, plan_project
from runner.workflow.plans.saved import SavedPlan, read_saved_plan
from runner.workflow.preview import Preview, preview_campaign
from runner.workflow.resolve import Unresolved, Word, resolve_launches
from runner.workflow.results.campaign_report import ReportOptions
from runner.workflow.results.reconcile import ReconcileOptions, ReconcileResult, reconcile_project
from runner.workflow.results.report import ProjectReport, read_answers, report_project
from runner.workflow.results.status import StatusResult, find_project_status
from runner.workflow.scope import Scope
from runner.workflow.who import find_person
from runner.workflow.workspace.folders import simulate_answers
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime

    from runner.report.columns.file_columns import Shape
    from runner.sandbox.rehearsal.simulate import SimulationSummary
    from runner.workflow.who import PersonDocument

__all__ = ["Observer", "Project", "observing", "open"]


def open(  # noqa: A001  read as `runner.open`, like `gzip.open`
    campaigns: str | Path | Iterable[str | Path] = "campaigns",
    *,
    target: str | None = None,
    ledger: str | None = None,
    cluster: str | None = None,
    insecure_cluster: bool | None = None,
    scratch: str | None = None,
    state_remote: str | None = None,
    record_remote: str | None = None,
    allowed: str | Path | Iterable[str | Path] = (),
    environ: Mapping[str, str] | None = None,
    observer: Observer | None = None,
    verbose: bool = False,
) -> Project:
    """Return a project; nothing is read yet.

    Parameters beat the environment, which beats `targets.yaml`; docs/reference/settings.md says more of each.
    Relative paths, and the default ledger, start from the current folder.

    Args:
        campaigns: campaign files, and folders of them.
        target: a target of `targets.yaml`, `live` or `sandbox`.
        ledger: the URL of the ledger's database.
        cluster: the address of a Dask scheduler, or `local:N`.
        insecure_cluster: let `tcp://` lead to another machine.
        scratch: a folder that all workers of a cluster reach.
        state_remote: a git remote by which machines share their record.
        record_remote: a git remote where `apply` looks for pauses and opt-outs.
        allowed: further folders, and prefixes of URLs, that campaigns may read from.
        environ: the environment variables, such as credentials and the state key; None for none.
        observer: receives notes, warnings and progress; None for the one of `observing`, if any.
        verbose: tell the observer more.
    """
    paths = tuple(map(Path, _list(campaigns)))
    if not paths:
        # Without paths a scope is of the whole folder: far more than an empty list names.
        raise UsageError("no campaign is named", hint="leave `campaigns` out for the folder campaigns/")
    remotes = {"ledger": ledger, "state_remote": state_remote, "record_remote": record_remote}
    workers = {"cluster": cluster, "insecure_cluster": insecure_cluster, "scratch": scratch}
    given = {"paths": paths, "target": target, "allowed": tuple(_list(allowed)), "verbose": verbose}
    return Project(Scope.read({**given, **remotes, **workers}, environ or {}), observer)


def _list(given: str | Path | Iterable[str | Path]) -> Iterable[str | Path]:
    """Return several values of a parameter, or its only one as a list."""
    return [given] if isinstance(given, (str, Path)) else given


def _check_number(name: str, value: float | None, least: float, most: float | None = None) -> None:
    """Refuse a number that the commands refuse as well.

    Raises:
        UsageError: `value` is below `least`, or above `most`.
    """
    if value is None or (least <= value and (most is None or value <= most)):
        return
    bounds = f"at least {least:g}" if most is None else f"from {least:g} to {most:g}"
    raise UsageError(f"`{name}` must be {bounds}, not {value!r}")


@dataclass(frozen=True, slots=True)
class Project:
    """Campaigns with a target and a ledger. `runner.open` makes one.

    Attributes:
        scope: the campaigns, the target, the ledger, the environment.
        observer: receives notes, warnings and progress.
    """

    scope: Scope = field(repr=False)
    observer: Observer | None = None

    def validate(self) -> Validation:
        """Return every problem of every campaign, without sending anything or calling a service."""
        with self._observed():
            return validate_campaigns(self.scope)

    def plan(
        self,
        *,
        only: str | None = None,
        limit: int | None = None,
        now: datetime | None = None,
        out: str | Path | None = None,
        launches: bool = False,
    ) -> ProjectPlan:
        """Return the messages that `apply` would send, and the reasons for leaving people out. Only reads.

        Args:
            only: this message alone.
            limit: at most so many recipients now.
            now: as of this time, with its offset; else the present.
            out: save it to this file too, or with a cluster to this folder or URL.
            launches: describe each launch with its payload.
        """
        _check_number("limit", limit, 1)
        if now is not None and now.tzinfo is None:
            raise UsageError("`now` has no offset from UTC", hint="as in datetime.now(UTC)")
        wishes = PlanWishes(
            only=only,
            limit=limit,
            now=now,
            out=None if out is None else str(out),
            with_launches=launches,
        )
        with self._observed():
            return plan_project(self.scope, wishes)

    def read_plan(self, path: str | Path) -> SavedPlan:
        """Return a saved plan from a file."""
        return read_saved_plan(str(path))

    def apply(
        self,
        plan: ProjectPlan | SavedPlan,
        *,
        expect_digest: str | None = None,
        require_approval: bool | None = None,
        concurrency: int | None = None,
        settle_window_s: float | None = None,
        lock_timeout_s: float = 0.0,
    ) -> ApplyResult:
        """Send exactly this plan, once, and record it; passing the plan approves it.

        If any of its campaigns has changed, or any of it was sent meanwhile, nothing is sent.

        Args:
            plan: the plan to send.
            expect_digest: the digest of the approved plan: another one is refused.
            require_approval: send nothing that `runner ci approve` has not recorded; else
                RUNNER_REQUIRE_APPROVAL.
            concurrency: sends in flight at once; else the target's.
            settle_window_s: seconds that a launch may take to be listed; else RUNNER_SETTLE_WINDOW, else the
                target's.
            lock_timeout_s: seconds to wait for another run of the same campaign.

        Raises:
            PlanChangedError: the plan no longer holds.
            RunnerError: nothing of it can be sent, or the run could not go on; what was sent is recorded.
        """
        _check_number("concurrency", concurrency, 1, MOST_CONCURRENT)
        _check_number("lock_timeout_s", lock_timeout_s, 0)
        if isinstance(plan, ProjectPlan) and not plan:
            return ApplyResult(failures=plan.failures, exit_code=plan.failures.find_exit_code(None))
        if require_approval is None:
            require_approval = bool(REQUIRE_APPROVAL.read(self.scope.environ))
        options = ApplyOptions(
            saved=_approve_plan(plan),
            expect_digest=expect_digest,
            require_approval=require_approval,
            concurrency=concurrency,
            settle_window_s=self._choose_window(settle_window_s),
            lock_timeout_s=lock_timeout_s,
        )
        with self._observed():
            return apply_campaigns(replace(self.scope, paths=()), options, _approve)

    def settle(self, *, settle_window_s: float | None = None, lock_timeout_s: float = 0.0) -> ApplyResult:
        """Find and record what earlier runs have sent, without sending; a plan made afterwards holds."""
        _check_number("lock_timeout_s", lock_timeout_s, 0)
        window_s = self._choose_window(settle_window_s)
        options = ApplyOptions(settle_only=True, settle_window_s=window_s, lock_timeout_s=lock_timeout_s)
        with self._observed():
            return apply_campaigns(self.scope, options, _approve)

    def status(self) -> StatusResult:
        """Return planned, sent, answered and unresolved counts; only reads, without calling a service."""
        with self._observed():
            return find_project_status(self.scope)

    def reconcile(
        self, *, full: bool = False, accept_differences: bool = False, drop_unlisted: bool = False
    ) -> ReconcileResult:
        """Bring counts and results of every launch into the ledger.

        Args:
            full: read every result again.
            accept_differences: where the service counts more results than it lists, accept the list as
                complete.
            drop_unlisted: remove results that the service no longer lists.
        """
        with self._observed():
            return reconcile_project(self.scope, ReconcileOptions(full, accept_differences, drop_unlisted))

    def report(
        self,
        *,
        by: str | Iterable[str] = (),
        min_group: int = SMALL_GROUP,
        comments: bool = False,
        reconcile: bool = False,
        wave: str | None = None,
    ) -> ProjectReport:
        """Return a report for each campaign, from the ledger.

        Args:
            by: columns of the audience to break the turnout down by.
            min_group: leave groups of fewer recipients out.
            comments: quote what people wrote; names, phones and e-mail addresses are masked.
            reconcile: bring the ledger up to date first.
            wave: an earlier wave of the campaign; None for the present one.
        """
        _check_number("min_group", min_group, 1)
        columns = [by] if isinstance(by, str) else by
        options = ReportOptions(tuple(dict.fromkeys(columns)), min_group, comments=comments, wave=wave)
        with self._observed():
            return report_project(self.scope, options, is_reconciled=reconcile)

    def answers(
        self,
        campaign: str | Path | None = None,
        *,
        shape: Shape = "answers",
        library: str = "pandas",
        include_pii: bool = False,
        comments: bool = False,
        wave: str | None = None,
    ) -> Any:
        """Return the answers to one campaign as a `pandas.DataFrame` or a `pyarrow.Table`.

        Args:
            campaign: its name or file; may be left out of a project with one.
            shape: `answers`, with a row for each person and columns for questions; `answers-long`, with a row
                for each person, message and question; or `results`, with a row each.
            library: `pandas` or `arrow`.
            include_pii: with phone numbers, and what people wrote as it is.
            comments: with what people wrote, and what tells who they are masked.
            wave: an earlier wave of the campaign; None for the present one.
        """
        with self._observed():
            scope = replace(self.scope, paths=(self._find_file(campaign),))
            options = ReportOptions(include_pii=include_pii, comments=comments, wave=wave)
            return read_answers(scope, options, shape=shape, library=library)

    def preview(
        self,
        campaign: str | Path | None = None,
        *,
        phone: str | None = None,
        message: str | None = None,
        language: str | None = None,
    ) -> Preview:
        """Return whole conversations of a campaign as recipients will see them, worst cases first.

        Args:
            campaign: its name or file; may be left out of a project with one.
            phone: show this recipient's instead.
            message: this message's alone.
            language: those of people of this language; with `phone`, the texts in it.
        """
        with self._observed():
            file = self._find_file(campaign)
            return preview_campaign(self.scope, file, phone=phone, message=message, language=language)

    def who(self, phone: str, *, region: str | None = None) -> PersonDocument:
        """Return what a person got, answered and gets next, and whether they opted out; only reads.

        Args:
            phone: in E.164 form, or in that of their country.
            region: the country of a number without country code, ISO 3166-1; else those of the campaigns.
        """
        with self._observed():
            return find_person(self.scope, phone, region)

    def resolve(
        self,
        *,
        message: str | None = None,
        launch: str | None = None,
        adopt: str | None = None,
        not_sent: bool = False,
        adopt_all: bool = False,
        not_sent_all: bool = False,
    ) -> Unresolved:
        """Record the outcome of launches that may have reached people; return those that are left.

        Args:
            message: the message of the launches.
            launch: the launch's key, or the service's guid.
            adopt: it was sent: the guid of the service's launch.
            not_sent: this campaign did not send it: its people can be texted.
            adopt_all: all listed launches were sent by their campaigns.
            not_sent_all: none of them was.
        """
        word = Word(
            message=message,
            key=launch,
            guid=adopt,
            not_sent=not_sent,
            adopt_all=adopt_all,
            not_sent_all=not_sent_all,
        )
        with self._observed():
            return resolve_launches(self.scope, word, _approve)

    def simulate(self, *, seed: int = 1, response_rate: float = 0.6) -> SimulationSummary:
        """Let simulated participants answer on the built-in sandbox, and move its clock along.

        Args:
            seed: equal seeds give equal participants.
            response_rate: share of people who reply at all, from 0 to 1.
        """
        _check_number("response_rate", response_rate, 0, 1)
        return simulate_answers(Workspace.open(self.scope).target, seed=seed, response_rate=response_rate)

    def _observed(self) -> AbstractContextManager[None]:
        return nullcontext() if self.observer is None else observing(self.observer)

    def _choose_window(self, given_s: float | None) -> float | None:
        _check_number("settle_window_s", given_s, 0)
        return given_s if given_s is not None else SETTLE_WINDOW.read(self.scope.environ)

    def _find_file(self, campaign: str | Path | None) -> Path:
        """Return the file of a named campaign."""
        campaigns = load_campaigns(self.scope, Problems())
        named = {one.name: one.file for one in campaigns.campaigns}
        if campaign is None and len(campaigns.files) == 1:
            return campaigns.files[0]
        if campaign is None:
            raise UsageError("there are several campaigns", hint=f"name one: {', '.join(sorted(named))}")
        if str(campaign) in named:
            return named[str(campaign)]
        if Path(campaign).is_file():
            return Path(campaign)
        known = ", ".join(sorted(named)) or ", ".join(map(show_path, campaigns.files))
        raise UsageError(f"there is no campaign {str(campaign)!r}", hint=f"known: {known}")


def _approve(_: object) -> None:
    """Approve without asking: the call itself is the approval."""


def _approve_plan(plan: ProjectPlan | SavedPlan) -> SavedPlan:
    """Return a plan in the form that is sent.

    Raises:
        UsageError: it is none: a missing plan would mean to plan now, and to send what nobody has seen.
    """
    if isinstance(plan, ProjectPlan):
        return plan.approve()
    if isinstance(plan, SavedPlan):
        return plan
    raise UsageError(
        f"`apply` takes a plan, not {type(plan).__name__}",
        hint="pass what `plan()` or `read_plan(path)` returns",
    )
