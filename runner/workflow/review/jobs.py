"""The jobs of CI: what each does, in which order, and how it ends.

Each step is a use case of its own. A step that fails for some of the campaigns does not end a job: the others
go on, and the job fails at its end.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from runner.errors import InterruptedRunError, PausedError, RunnerError, UsageError
from runner.github.job import read_inputs
from runner.github.job_summary import append_outputs, append_variables, has_outputs
from runner.service.target import LIVE, SANDBOX
from runner.workflow.apply import ApplyOptions, apply_campaigns
from runner.workflow.approval_coverage import find_status
from runner.workflow.campaigns import DEFAULT_FOLDER, find_targets_file
from runner.workflow.delivery.campaign_run import interrupt_run
from runner.workflow.failures import GRAVE, PARTLY_DONE
from runner.workflow.plan import PlanWishes, plan_project
from runner.workflow.plans.planning import count_to_send
from runner.workflow.plans.saved import read_saved_plan
from runner.workflow.records.opt_outs import decide_replies
from runner.workflow.records.pausing import change_pauses, pause_stopped
from runner.workflow.records.record_push import fetch_record, push_record
from runner.workflow.resolve import Word, resolve_launches
from runner.workflow.results.campaign_report import ReportOptions
from runner.workflow.results.reconcile import ReconcileOptions, reconcile_project
from runner.workflow.results.report import report_project
from runner.workflow.review.approving import DeniedError, approve_plan, approve_run
from runner.workflow.review.comments import comment_merged
from runner.workflow.review.issue import keep_issue
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runner.workflow.apply import ApplyResult
    from runner.workflow.plan import ProjectPlan
    from runner.workflow.records.recording import Recorded
    from runner.workflow.results.reconcile import ReconcileResult
    from runner.workflow.results.report import ProjectReport
    from runner.workflow.review.checklist import Outcome
    from runner.workflow.scope import Scope

LOCK_TIMEOUT_S = 600.0
"""Longest wait for a run elsewhere, in seconds."""
_REMOTE = "origin"
_RECORDED = "RUNNER_RECORDED"
"""Set once a job has pushed the record, and changes nothing of it any more."""
_GO_ON = (*GRAVE, PARTLY_DONE)
"""Exit codes that are about some of the campaigns, the gravest first."""
PLAN_FILE = PurePosixPath("plan/plan.json")
REPORTS = "reports"


class JobView(Protocol):
    """A view of the results of a job's steps."""

    def show_fetched(self, files: Sequence[str]) -> None:
        """Show which record files were taken from the state remote."""

    def show_applied(self, result: ApplyResult, *, is_settled: bool) -> None:
        """Show what was sent, or with `is_settled` what earlier runs have sent."""

    def show_reconciled(self, result: ReconcileResult) -> None:
        """Show what was read."""

    def show_plan(self, plan: ProjectPlan) -> None:
        """Show a plan, and set the job's outputs."""

    def show_recorded(self, recorded: Recorded) -> None:
        """Show what was recorded."""

    def show_reports(self, made: ProjectReport, folder: Path) -> None:
        """Save reports to a folder, with a page `index.html`."""

    def show_nothing(self, words: str) -> None:
        """Show that there is nothing to do."""

    def show_error(self, error: RunnerError) -> None:
        """Show why a step failed."""


class _EndedError(Exception):
    """A step that leaves nothing for the steps after it; `code` is the job's exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(slots=True)
class Job:
    """One job. `scope` has no paths: a job is about all campaigns."""

    scope: Scope
    view: JobView
    settle_window_s: float | None = None
    _codes: set[int] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        """Have the steps look at the remote once."""
        self.scope = replace(self.scope, shared={})

    def plan(self, out: Path, campaign: str | None) -> int:
        """Catch up, plan, send what was approved before, record, and report; return the exit code.

        Where a job follows that sends (on GitHub), a plan that is approved as a whole is left to it.

        Args:
            out: the folder for plan and reports.
            campaign: the file of the only campaign to plan; None for the one that a dispatch names, or all.
        """
        paths = choose_campaign(campaign or read_inputs(self.scope.environ).get("campaign"))
        if self._lacks_target():
            self.view.show_nothing("There is no campaigns/targets.yaml to say where to")
            append_outputs({"to-send": "0", "approval": "none"})
            return 0
        return self._end(lambda: self._plan(out, paths))

    def _plan(self, out: Path, paths: tuple[Path, ...]) -> None:
        self._catch_up()
        plan = self._make_plan(out / PLAN_FILE, paths)
        if plan is not None:
            # A plan without texts is followed by no job that sends, and pauses what it stops.
            self._try(lambda: pause_stopped(self.scope, plan.planned))
            self._send_approved(plan, out / PLAN_FILE)
        self._record()
        append_variables({_RECORDED: "true"})
        self._attempt(lambda: self._report(out, is_reconciled=False))

    def _send_approved(self, plan: ProjectPlan, file: Path) -> None:
        is_left_to_job = has_outputs()
        covered = [one.planned for one in plan.coverages if one.status == "covered"]
        if not is_left_to_job and count_to_send(plan.planned):
            self._attempt(lambda: self._apply(file))
        elif covered and find_status(plan.coverages) != "covered":
            # What people approved before does not wait for what they are asked now.
            self._try(lambda: self._apply(file))

    def send(self, out: Path, expect_digest: str | None, names: tuple[str, ...], *, is_by_merge: bool) -> int:
        """Catch up, record the approval of a plan, send exactly the plan, record, and report.

        A plan is refused as a whole once somebody has opted out or answered: what is left of it is planned
        anew, and sent within the approvals on record.

        Args:
            out: the folder with the plan.
            expect_digest: the digest that the plan must have.
            names: the approvers; empty to ask GitHub about what is not approved yet.
            is_by_merge: count the approving review of the merged pull request.
        """
        return self._end(lambda: self._send(out, expect_digest, names, is_by_merge=is_by_merge))

    def _send(
        self, out: Path, expect_digest: str | None, names: tuple[str, ...], *, is_by_merge: bool
    ) -> None:
        file = out / PLAN_FILE
        self._catch_up(counts_settling=False)
        try:
            approved = approve_plan(str(file), self.scope, expect_digest, names, is_by_merge=is_by_merge)
        except DeniedError as error:
            # That nothing is sent is what was asked for: the record and the issue say so.
            self.view.show_error(error)
            self._record()
            return
        if approved is not None:
            # On record before the first text leaves: if this machine is lost, the next run needs no other.
            self._keep_approvers(approved.people)
            self._record()
        if not self._try(lambda: self._apply(file, expect_digest)):
            left = out / "left.json"
            paths = choose_campaign(read_inputs(self.scope.environ).get("campaign"))
            self._make_plan(left, paths, counts=False)
            self._attempt(lambda: self._apply(left), is_last=False)
        self._record()
        self._attempt(lambda: self._report(out, is_reconciled=True), is_last=False)
        if self.scope.environ.get("GITHUB_REPOSITORY"):
            self._attempt(lambda: comment_merged(self.scope), is_last=False)

    def act(self) -> int:
        """Do what a person has asked for by `workflow_dispatch`, once a reviewer has agreed, and record it.

        A pause waits for nobody.

        Raises:
            LimitError: nobody has agreed.
            RunnerError: it cannot be done.
            UsageError: this is no such job.
        """
        asked = read_inputs(self.scope.environ)
        action = asked.get("action", "")
        if action not in _ACTIONS:
            raise UsageError(
                "this is no job of GitHub that somebody has started by hand",
                hint="elsewhere use `runner pause`, `runner resume`, `runner resolve` or `runner optouts`, "
                "and then `runner ci record`",
            )
        paths = choose_campaign(asked.get("campaign"))
        if action != "pause":
            # An environment without reviewers asks nobody: that is no approval.
            self._keep_approvers(approve_run())
        return self._end(lambda: self._act(action, asked, paths))

    def _act(self, action: str, asked: Mapping[str, str], paths: tuple[Path, ...]) -> None:
        self.view.show_fetched(fetch_record(self.scope, _REMOTE))
        if action in ("pause", "resume"):
            if not paths:
                raise UsageError(f"{action} takes a campaign, and none was named")
            reason = asked.get("reason", "") if action == "pause" else None
            change_pauses(self.scope, [str(path) for path in paths], reason)
        elif action in ("confirm", "dismiss"):
            # What was replied is read anew, on this machine.
            self._attempt(self._reconcile, counts=False)
            decide_replies(self.scope, asked.get("replies", "").split(), _DECISIONS[action])
        else:
            # So is what is held.
            scope = replace(self.scope, paths=paths)
            self._attempt(lambda: self._settle(scope), counts=False)
            resolve_launches(scope, _read_word(action, asked.get("launch") or None), lambda _: None)
        self._record()

    def finish(self, outcome: Outcome | None, *, shows_words: bool) -> int:
        """Push what is not recorded yet, and keep the target's issue; return the exit code.

        Args:
            outcome: the job's so far.
            shows_words: whether the issue shows the texts of replies.
        """
        if self._lacks_target():
            return 0
        pushed = bool(self.scope.environ.get(_RECORDED)) or self._try(self._record)
        outcome = outcome if pushed or outcome is None else "failure"
        is_kept = self._try(lambda: keep_issue(self.scope, outcome, shows_words=shows_words))
        return 0 if pushed and is_kept else 1

    def _lacks_target(self) -> bool:
        name = self.scope.target or SANDBOX
        is_known = find_targets_file(()).exists() or bool(self.scope.environ.get("RUNNER_BASE_URL"))
        return name != SANDBOX and not is_known

    def _catch_up(self, *, counts_settling: bool = True) -> None:
        """Bring this machine, which may be new, up to date.

        Who has answered or opted out, and what a job that was killed has sent, is known to the service; what
        main did not take is on the state remote.
        """
        self.view.show_fetched(fetch_record(self.scope, _REMOTE, self._find_tips()))
        # First what a job that was killed has sent: people may have opted out in reply to it.
        self._attempt(lambda: self._settle(self.scope), counts=counts_settling)
        self._attempt(self._reconcile)

    def _find_tips(self) -> Mapping[str, str] | None:
        """Return the state remote's refs, at which all steps look together; None if there are none."""
        # Of what cannot be opened, the steps tell.
        with suppress(RunnerError):
            state = Workspace.open(self.scope).state
            return state.ref.tips if state is not None and state.exists() else None
        return None

    def _settle(self, scope: Scope) -> int:
        options = ApplyOptions(
            settle_only=True, lock_timeout_s=LOCK_TIMEOUT_S, settle_window_s=self.settle_window_s
        )
        return self._show_applied(apply_campaigns(scope, options, lambda _: None), is_settled=True)

    def _apply(self, file: Path, expect_digest: str | None = None) -> int:
        options = ApplyOptions(
            saved=read_saved_plan(str(file)),
            expect_digest=expect_digest,
            require_approval=True,
            lock_timeout_s=LOCK_TIMEOUT_S,
            settle_window_s=self.settle_window_s,
        )
        return self._show_applied(apply_campaigns(self.scope, options, lambda _: None), is_settled=False)

    def _show_applied(self, result: ApplyResult, *, is_settled: bool) -> int:
        self.view.show_applied(result, is_settled=is_settled)
        if result.is_interrupted:
            raise interrupt_run()
        return result.exit_code

    def _reconcile(self) -> int:
        result = reconcile_project(self.scope, ReconcileOptions())
        self.view.show_reconciled(result)
        return result.exit_code

    def _make_plan(self, file: Path, paths: tuple[Path, ...], *, counts: bool = True) -> ProjectPlan | None:
        """Plan and save; return None if nothing is planned."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        made: list[ProjectPlan] = []

        def make() -> int:
            plan = plan_project(replace(self.scope, paths=paths), PlanWishes(out=str(file), is_job=True))
            self.view.show_plan(plan)
            if file.exists():
                made.append(plan)
            return plan.failures.find_exit_code(0 if plan.leave_out_unsendable() else None)

        self._attempt(make, counts=counts)
        return made[0] if made else None

    def _report(self, out: Path, *, is_reconciled: bool) -> int:
        made = report_project(self.scope, ReportOptions(), is_reconciled=is_reconciled)
        self.view.show_reports(made, out / REPORTS)
        append_outputs({"reports": "true" if made.reports else "false"})
        return made.exit_code

    def _record(self) -> int:
        pushed = push_record(self.scope, _REMOTE, None, is_pushed=True)
        self.view.show_recorded(pushed)
        return pushed.code

    def _keep_approvers(self, names: tuple[str, ...]) -> None:
        """Have the record's commits name the approvers."""
        environ = {**self.scope.environ, "RUNNER_APPROVED_BY": ",".join(names)}
        self.scope = replace(self.scope, environ=environ)

    def _attempt(self, step: Callable[[], int | None], *, counts: bool = True, is_last: bool = True) -> bool:
        """Do a step, and return whether it succeeded; the job goes on if it fails for some campaigns.

        The exit code becomes the job's if it `counts`. Unless it `is_last`, the job goes on whatever fails.
        """
        try:
            code = step() or 0
        except RunnerError as error:
            if isinstance(error, InterruptedRunError) or (is_last and error.exit_code not in _GO_ON):
                raise
            self.view.show_error(error)
            code = error.exit_code
        if is_last and code not in {0, *_GO_ON}:
            raise _EndedError(code)
        # GitHub knows only red and green, and a pause, which a person has asked for, is no failure.
        if counts and (code != PausedError.exit_code or not has_outputs()):
            self._codes.add(code)
        return not code

    def _try(self, step: Callable[[], int | None]) -> bool:
        """Do a step, and return whether it succeeded; its failure is not the job's."""
        return self._attempt(step, counts=False, is_last=False)

    def _end(self, steps: Callable[[], None]) -> int:
        """Do steps, and return the gravest exit code."""
        try:
            steps()
        except _EndedError as error:
            return error.code
        grave = (code for code in _GO_ON if code in self._codes)
        return next(grave, max(self._codes, default=0))


_DECISIONS: dict[str, Any] = {"confirm": "confirmed", "dismiss": "dismissed"}
_ACTIONS = ("pause", "resume", "adopt", "adopt-all", "not-sent", "not-sent-all", *_DECISIONS)


def _read_word(action: str, launch: str | None) -> Word:
    if action == "adopt":
        return Word(guid=launch or "")
    if action == "not-sent":
        return Word(key=launch or "", not_sent=True)
    return Word(adopt_all=action == "adopt-all", not_sent_all=action == "not-sent-all")


def choose_live(scope: Scope) -> Scope:
    """Return a scope on the target `live`, unless it names another, or no file has targets."""
    is_live = not scope.target and find_targets_file(()).exists()
    return replace(scope, target=LIVE) if is_live else scope


def choose_campaign(file: str | None) -> tuple[Path, ...]:
    """Return the paths of the only campaign that a job is about; empty for all.

    Elsewhere another `targets.yaml`, which no code owner has seen, could say where the credentials go.
    """
    if not file:
        return ()
    place = PurePosixPath(file)
    if place.parts[:1] != (DEFAULT_FOLDER.name,) or ".." in place.parts:
        raise UsageError(
            f"a job is not about {file!r}",
            hint="a campaign is named by its file below campaigns, as in campaigns/first-order.yaml",
        )
    return (Path(file),)
