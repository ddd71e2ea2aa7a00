"""Decides what is wrong with a target's campaigns, and what of it is news."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.ledger.unsettled import HeldCount
    from runner.repository.recording import WaitingCommit

Outcome = Literal["success", "failure", "cancelled"]
_OUTCOMES = get_args(Outcome)
_MOST_JOBS = 20


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job that has not succeeded since.

    Attributes:
        name: the job's id in its workflow; empty if it isn't known.
        run: tells the run from every other.
        outcome: how the job ended.
        url: the run's page; empty if it isn't known.
        later: a later run in which the job did not fail, as far as is known; empty if there is none.
    """

    name: str
    run: str
    outcome: Outcome
    url: str = ""
    later: str = ""


@dataclass(frozen=True, slots=True)
class HeldPeople:
    """The people who are held.

    Attributes:
        counts: by campaign and message.
        gap: why there may be more; empty if that is all.
    """

    counts: tuple[HeldCount, ...] = ()
    gap: str = ""

    @property
    def recipients(self) -> int:
        """How many are held, of all messages; 1 for launches of which nobody is known."""
        return sum(max(count.recipients, 1) for count in self.counts)


@dataclass(frozen=True, slots=True)
class WaitingRecord:
    """The record that waits to be merged.

    Attributes:
        commits: that wait, the latest first; none if nothing waits.
        branch: that it is to be merged into.
        gap: why that isn't known; empty if it is.
    """

    commits: tuple[WaitingCommit, ...] = ()
    branch: str = ""
    gap: str = ""


@dataclass(frozen=True, slots=True)
class Sight:
    """All that one job sees.

    Attributes:
        target: the target's name.
        job: its id in its workflow.
        run: tells its run from every other.
        url: the run's page; empty if there is none.
        outcome: of the job; None if that isn't said.
        held: the people who are held.
        record: the record that waits.
    """

    target: str
    job: str
    run: str
    url: str
    outcome: Outcome | None
    held: HeldPeople
    record: WaitingRecord


@dataclass(frozen=True, slots=True)
class Troubles:
    """All that is wrong, as far as is known from one job and those before it.

    Attributes:
        jobs: that have failed.
        held: how many people are held.
        is_waiting: whether the record waits.
    """

    jobs: tuple[FailedJob, ...] = ()
    held: int = 0
    is_waiting: bool = False

    @property
    def is_any(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.jobs or self.held or self.is_waiting)

    def as_json(self) -> dict[str, Any]:
        """Return what the next job has to know."""
        if not self.is_any:
            return {}
        jobs = {job.name: [job.run, job.outcome, job.url, job.later] for job in self.jobs}
        return {"jobs": jobs, "held": self.held, "record": self.is_waiting}


def read_troubles(data: Mapping[str, Any]) -> Troubles:
    """Return what an earlier job left to know; what somebody has edited counts as nothing."""
    held, jobs = data.get("held"), data.get("jobs")
    read = map(_read_job, (jobs if isinstance(jobs, dict) else {}).items())
    return Troubles(
        tuple(job for job in read if job is not None),
        held if type(held) is int and held > 0 else 0,
        is_waiting=data.get("record") is True,
    )


def _read_job(item: tuple[str, Any]) -> FailedJob | None:
    name, told = item
    try:
        run, outcome, url, later = told
    except (TypeError, ValueError):
        return None
    if outcome not in _OUTCOMES or not all(isinstance(each, str) for each in told):
        return None
    return FailedJob(name, run, cast("Outcome", outcome), url, later)


def find_troubles(before: Troubles, sight: Sight) -> Troubles:
    """Return what is wrong now: what is not known counts as it was.

    Args:
        before: what was wrong.
        sight: what a job sees.
    """
    seen = sight.held.recipients
    return Troubles(
        _update_jobs(before.jobs, sight),
        max(seen, before.held) if sight.held.gap else seen,
        before.is_waiting if sight.record.gap else bool(sight.record.commits),
    )


def _update_jobs(jobs: tuple[FailedJob, ...], sight: Sight) -> tuple[FailedJob, ...]:
    """Return the jobs that count as failed.

    A job that has succeeded since no longer does. One that was skipped since, as there was nothing to do for
    it, doesn't either: once a whole run has passed without word of it.
    """
    if sight.outcome is None:
        return jobs
    left = [] if sight.outcome == "success" else [FailedJob(sight.job, sight.run, sight.outcome, sight.url)]
    for job in jobs:
        if job.name == sight.job:
            continue
        if job.run == sight.run or job.later in ("", sight.run):
            later = job.later if job.run == sight.run else sight.run
            left.append(FailedJob(job.name, job.run, job.outcome, job.url, later))
    return tuple(sorted(left, key=lambda job: job.name)[:_MOST_JOBS])


def is_worse(before: Troubles, now: Troubles) -> bool:
    """Return whether something new is wrong, or more people are held: people are told of that."""
    return (
        bool(now.jobs and not before.jobs)
        or now.held > before.held
        or (now.is_waiting and not before.is_waiting)
    )
