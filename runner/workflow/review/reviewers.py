"""The required reviewers of a workflow run: when they are asked about a plan, and what they decided.

All attempts of a run share one list of decisions, without times. A plan of a later attempt therefore keeps
how often each reviewer had decided before, and only further decisions are about it.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from runner.errors import LimitError, RunnerError, UsageError
from runner.github.job import DEFAULT_API, NoJobError, read_github_job
from runner.github.pull_requests import ENVIRONMENT, count_decisions, find_waiting_run, has_reviewers
from runner.github.rest import RefusedError, UnavailableError
from runner.wording import printable
from runner.workflow.observer import note
from runner.workflow.review.publishing import open_repository

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.github.rest import Repository

_Result = TypeVar("_Result")
_RIGHTS = "give the job's token the permissions `actions: read`, `contents: read` and `pull-requests: read`"
_ANEW = "start a new run: *Run workflow* of `Campaigns send`, or re-run all jobs of this one"


@dataclass(frozen=True, slots=True)
class Asking:
    """The answer to whether reviewers are asked about a plan.

    Attributes:
        state: `needed` if they are; `waiting` if another run waits for the approval of the same plan;
            `denied` if somebody denied it before.
        words: why they are not asked; empty if they are.
        denied_by: the people who denied it.
        earlier: decisions before this attempt of the run, for the saved plan; None in a first attempt.
    """

    state: Literal["needed", "waiting", "denied"]
    words: str = ""
    denied_by: tuple[str, ...] = ()
    earlier: dict[str, Any] | None = None


def find_run() -> str | None:
    """Return the id of this job's workflow run, if GitHub can be asked about it."""
    return os.environ.get("GITHUB_RUN_ID") if os.environ.get("GITHUB_TOKEN") else None


def _find_attempt() -> str:
    return os.environ.get("GITHUB_RUN_ATTEMPT") or "1"


def plan_asking(digest: str, denied_by: tuple[str, ...]) -> Asking:
    """Return whether this job's run asks its reviewers about a plan that needs an approval.

    `denied_by` names the people who denied the same plan before. GitHub that doesn't answer stops no plan.
    """
    if denied_by:
        words = f"{', '.join(denied_by)} denied the plan {digest}: nobody is asked again until it changes"
        return Asking("denied", words, denied_by)
    run = find_run()
    if run is None:
        return Asking("needed")
    earlier = None
    try:
        if _find_attempt() != "1":
            earlier = _name_attempt(run) | {
                "decisions": ask_github(lambda github: _list_decisions(github, run))
            }
        page = ask_github(lambda github: find_waiting_run(github, digest, run))
    except RunnerError as error:
        note(f"Whether another run waits for this plan's approval is not known: {error.message}")
        page = None
    if page is not None:
        return Asking("waiting", f"the same plan waits for its approval already: {printable(page)}")
    return Asking("needed", earlier=earlier)


def _name_attempt(run: str) -> dict[str, Any]:
    return {"run": run, "attempt": _find_attempt()}


def _list_decisions(github: Repository, run: str) -> list[list[str | int]]:
    return [[state, login, count] for (state, login), count in sorted(count_decisions(github, run).items())]


def read_decisions(
    earlier: Mapping[str, Any] | None, otherwise: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the people who approved and those who denied what this attempt of the job's run asks.

    `earlier` is what the saved plan tells of earlier attempts; `otherwise` is the advice where the
    environment has no reviewers.

    Raises:
        LimitError: nobody decided, there are no required reviewers, or earlier decisions are not known.
        RunnerError: GitHub does not answer.
        UsageError: this is not a job.
    """
    run = find_run()
    if run is None:
        raise UsageError(
            "this is not a GitHub job, which could ask who approved its run",
            hint="in a job, give the step GITHUB_TOKEN",
        )
    before: Counter[tuple[str, str]] = Counter()
    if _find_attempt() != "1":
        if earlier is None or {**earlier, **_name_attempt(run)} != earlier:
            raise LimitError(
                f"this is attempt {_find_attempt()} of the run, and approvals of earlier attempts do not "
                "count: nothing was recorded",
                hint=_ANEW,
            )
        before.update({(state, login): count for state, login, count in earlier["decisions"]})
    if not ask_github(has_reviewers):
        raise LimitError(
            f"the environment `{ENVIRONMENT}` has no required reviewers, so nobody was asked: nothing was "
            "recorded",
            hint=otherwise,
        )
    new = ask_github(lambda github: count_decisions(github, run)) - before
    if not new:
        raise LimitError("nobody approved this run: nothing was recorded", hint=otherwise)
    approved, denied = (
        tuple(sorted(login for said, login in new if said == state)) for state in ("approved", "rejected")
    )
    return approved, denied


def ask_github(work: Callable[[Repository], _Result]) -> _Result:
    """Ask GitHub with this job's token."""
    try:
        return work(open_repository(read_github_job(os.environ)))
    except NoJobError as error:
        raise RunnerError(f"who approved this is not known: {error}") from None
    except RefusedError as error:
        reason = f"{error.status}: {printable(error.reason)}"
        raise RunnerError(f"GitHub does not say who approved this ({reason})", hint=_RIGHTS) from None
    except UnavailableError as error:
        api_url = os.environ.get("GITHUB_API_URL") or DEFAULT_API
        raise RunnerError(
            f"who approved this is not known: {api_url} cannot be reached: {error}",
            hint="run the job again",
        ) from None
