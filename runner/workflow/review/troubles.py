"""Troubles of a target's campaigns: which are new, and the texts of their issue."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, cast, get_args
from urllib.parse import quote

from runner.git.recording import ASIDE
from runner.wording import Markdown, count_words, inert
from runner.workflow.review.publishing import (
    MOST_ROWS,
    CommentText,
    IssuePlace,
    Piece,
    say_workflow,
    write_page,
    write_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.git.recording import WaitingCommit
    from runner.ledger.record.unsettled import HeldCount


Outcome = Literal["success", "failure", "cancelled"]
_OUTCOMES = get_args(Outcome)
_MOST_JOBS = 20
_MOST_COMMITS = 10
_LONGEST_REASON = 500
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_ENDED = {"failure": "failed", "cancelled": "was cancelled, by a person or after its time limit"}
_ABOUT_TO_BE_SENT = "about to be sent, and no answer proves whether it was"
_UNEXPLAINED = "the service lists launches that no record explains"


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A failed job without a success since.

    Attributes:
        name: the job's id in its workflow; empty if unknown.
        run: the run's unique id.
        outcome: the job's result.
        url: the run's page; empty if unknown.
        later: a later run without a failure of the job, if known; else empty.
    """

    name: str
    run: str
    outcome: Outcome
    url: str = ""
    later: str = ""


@dataclass(frozen=True, slots=True)
class HeldPeople:
    """Held recipients by campaign and message; `gap` says why there may be more, or is empty."""

    counts: tuple[HeldCount, ...] = ()
    gap: str = ""

    @property
    def recipients(self) -> int:
        """The number held, over all messages; 1 for launches with unknown recipients."""
        return sum(max(count.recipients, 1) for count in self.counts)


@dataclass(frozen=True, slots=True)
class WaitingRecord:
    """Unmerged commits of the record, latest first, and the branch to merge them into.

    `gap` says why they are unknown, or is empty.
    """

    commits: tuple[WaitingCommit, ...] = ()
    branch: str = ""
    gap: str = ""


@dataclass(frozen=True, slots=True)
class Sight:
    """The observations of one job.

    `url` is empty if there is none, `outcome` None if it is not given. `denied_by` names the people who
    denied the plan, and is None in jobs without one.
    """

    target: str
    job: str
    run: str
    url: str
    outcome: Outcome | None
    held: HeldPeople
    record: WaitingRecord
    denied_by: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Troubles:
    """The known troubles, from one job and those before it.

    `jobs` have failed, `held` counts people, `is_waiting` is True for an unmerged record, and `denied_by`
    names the people who denied the plan.
    """

    jobs: tuple[FailedJob, ...] = ()
    held: int = 0
    is_waiting: bool = False
    denied_by: tuple[str, ...] = ()

    @property
    def is_any(self) -> bool:
        """True if there is any trouble."""
        return bool(self.jobs or self.held or self.is_waiting or self.denied_by)

    def as_json(self) -> dict[str, Any]:
        """Return the state for the next job."""
        if not self.is_any:
            return {}
        jobs = {job.name: [job.run, job.outcome, job.url, job.later] for job in self.jobs}
        denied = {"denied": self.denied_by} if self.denied_by else {}
        return {"jobs": jobs, "held": self.held, "record": self.is_waiting, **denied}


def read_troubles(data: Mapping[str, Any]) -> Troubles:
    """Return the state left by an earlier job; ignore values that somebody has edited."""
    held, jobs, denied = data.get("held"), data.get("jobs"), data.get("denied")
    read = map(_read_job, (jobs if isinstance(jobs, dict) else {}).items())
    return Troubles(
        tuple(job for job in read if job is not None),
        held if type(held) is int and held > 0 else 0,
        is_waiting=data.get("record") is True,
        denied_by=tuple(map(str, denied)) if isinstance(denied, list) else (),
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
    """Return the current troubles; unknown ones stay as they were before."""
    seen = sight.held.recipients
    return Troubles(
        _update_jobs(before.jobs, sight),
        max(seen, before.held) if sight.held.gap else seen,
        before.is_waiting if sight.record.gap else bool(sight.record.commits),
        before.denied_by if sight.denied_by is None else sight.denied_by,
    )


def _update_jobs(jobs: tuple[FailedJob, ...], sight: Sight) -> tuple[FailedJob, ...]:
    """Return the jobs that count as failed.

    A job stops counting once it succeeds, or once a whole later run has passed without it, as skipped jobs
    had nothing to do.
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
    """Return whether there are new troubles, or more people are held, so that people are notified."""
    return (
        bool(now.jobs and not before.jobs)
        or now.held > before.held
        or (now.is_waiting and not before.is_waiting)
        or bool(now.denied_by and not before.denied_by)
    )


def write_title(target: str, troubles: Troubles) -> str:
    """Return the issue's title: its kinds of trouble, without counts, so that it rarely changes."""
    words = [
        *(["a run failed"] if troubles.jobs else []),
        *(["people are held"] if troubles.held else []),
        *(["the record waits to be merged"] if troubles.is_waiting else []),
        *(["a plan was denied"] if troubles.denied_by else []),
    ]
    return f"Campaigns on {target}: {', '.join(words) or 'all is well'}"


def write_alert(sight: Sight, troubles: Troubles, place: IssuePlace) -> CommentText:
    """Return the issue's text, on all troubles, of which this job may see only a part."""
    target = inert(sight.target)
    run = write_page("this run", place.run_url)
    seen = f" Last looked at by {run}." if run else ""
    tail = f"<sub>Kept up to date by `runner alert`, which closes it when all is well.{seen}</sub>"
    gaps = "".join(f"- {line}\n" for line in _list_gaps(sight))
    if not troubles.is_any:
        return CommentText(f"### Campaigns → {target}\n\n{_say_well(sight)}\n\n{gaps}", (), tail)
    head = f"### Campaigns → {target}: action needed\n\n"
    head += "".join(f"- {line}\n" for line in _list_troubles(sight, troubles)) + gaps
    pieces = [
        *([_held_piece(sight, place)] if troubles.held else []),
        *([_record_piece(sight, place)] if troubles.is_waiting else []),
        *([_jobs_piece(place)] if troubles.jobs else []),
    ]
    return CommentText(head, tuple(pieces), tail)


def write_news(before: Troubles, now: Troubles, sight: Sight) -> str:
    """Return the comment on new troubles."""
    lines: list[str] = []
    if now.jobs and not before.jobs:
        lines += map(_say_job, now.jobs)
    if now.held > before.held:
        more = f", {now.held - before.held:,} more than before" if before.held else ""
        lines.append(f"**{_say_held(now.held)}**{more}.")
    if now.is_waiting and not before.is_waiting:
        lines.append(_say_record(sight))
    if now.denied_by and not before.denied_by:
        lines.append(_say_denial(now))
    return "\n".join(f"- {line}" for line in lines) + "\n\nWhat to do stands above.\n"


def write_farewell(sight: Sight) -> str:
    """Return the comment that closes the issue."""
    run = write_page("The run", sight.url)
    gaps = "".join(f"\n- {line}" for line in _list_gaps(sight))
    return f"{_say_well(sight)}{f' {run}.' if run else ''}\n{gaps}"


def _say_well(sight: Sight) -> str:
    known = [
        *(["no job has failed since"] if sight.outcome is not None else []),
        *(["nobody is held"] if not sight.held.gap else []),
        *(["no record waits to be merged"] if not sight.record.gap else []),
    ]
    words = ", ".join(known[:-1]) + (" and " if known[:-1] else "") + "".join(known[-1:])
    return f"All is well: {words}." if words else "Nothing is wrong, as far as is known."


def _list_gaps(sight: Sight) -> Iterator[str]:
    if sight.held.gap:
        yield f"Not known here: how many people are held ({_say_reason(sight.held.gap)})"
    if sight.record.gap:
        yield f"Not known here: whether the record waits to be merged ({_say_reason(sight.record.gap)})"


def _list_troubles(sight: Sight, troubles: Troubles) -> Iterator[str]:
    yield from map(_say_job, troubles.jobs)
    if troubles.held:
        last = " when it was last known" if troubles.held > sight.held.recipients else ""
        what = "they may have got a message, and are not texted until a person says"
        yield f"**{_say_held(troubles.held)}**{last}: {what}"
    if troubles.is_waiting:
        yield _say_record(sight)
    if troubles.denied_by:
        yield _say_denial(troubles)


def _say_held(count: int) -> str:
    return f"{count_words(count, 'recipient is', 'recipients are')} held"


def _say_job(job: FailedJob) -> str:
    name = f"The job {inert(job.name)}" if job.name else "A job"
    run = write_page("its run", job.url)
    return f"**{name} {_ENDED.get(job.outcome, 'failed')}**{f': {run}' if run else ''}"


def _say_denial(troubles: Troubles) -> str:
    names = ", ".join(map(inert, troubles.denied_by))
    return f"**The plan was denied by {names}:** nobody is asked about it again until it changes"


def _say_record(sight: Sight) -> str:
    commits = sight.record.commits
    if not commits:
        return f"**The record waits to be merged** on the branch {ASIDE}"
    since = _write_minute(commits[-1].at)
    words = count_words(len(commits), "commit waits", "commits wait")
    return f"**The record waits to be merged:** {words} on the branch {ASIDE}, since {since}"


def _held_piece(sight: Sight, place: IssuePlace) -> Piece:
    counts = sight.held.counts
    header = ("campaign", "file", "message", "recipients", "launches", "why")
    rows = [
        (
            count.campaign,
            place.files.get(count.campaign, "not in these folders"),
            count.message,
            count.recipients,
            count.launches,
            _ABOUT_TO_BE_SENT if count.is_explained else _UNEXPLAINED,
        )
        for count in counts
    ]
    body = "#### People are held\n\n"
    body += write_table(header, rows, MOST_ROWS) if rows else ""
    body += f"\n{write_resolving(sight.target, place)}"
    return Piece("People are held", body, is_open=True)


def write_resolving(target: str, place: IssuePlace) -> str:
    """Return instructions for resolving launches that may have reached people."""
    body = f"Say what became of these launches: {say_workflow(place)}\n\n"
    file = Markdown("the campaign’s file")
    body += write_table(
        ("if", "action", "campaign", "launch"),
        [
            ("all of a campaign were sent", Markdown("`adopt-all`"), file, ""),
            ("none of a campaign were sent by it", Markdown("`not-sent-all`"), file, ""),
            ("one was sent", Markdown("`adopt`"), file, "its guid at the service"),
            ("one was not sent", Markdown("`not-sent`"), file, "its guid or its key"),
            ("the campaign is to wait meanwhile", Markdown("`pause`"), file, ""),
            ("it is to go on", Markdown("`resume`"), file, ""),
        ],
    )
    return f"{body}\nOr in a clone:\n\n{_write_commands(target, place)}"


def _write_commands(target: str, place: IssuePlace) -> str:
    options = f"--target {target}"
    if place.state_remote:
        is_name = _PLAIN_NAME.fullmatch(place.state_remote)
        options += f" --state-remote {place.state_remote if is_name else 'REMOTE'}"
    resolve = f"runner resolve {options}"
    lines = [
        "runner record --fetch",
        f"{resolve}   # lists them, and what the service knows of them",
        f"{resolve} FILE --adopt-all",
        f"{resolve} FILE --not-sent-all",
        f"{resolve} FILE --adopt GUID",
        f"{resolve} FILE --launch KEY --not-sent",
        "runner record",
    ]
    return "```sh\n" + "\n".join(lines) + "\n```"


def _record_piece(sight: Sight, place: IssuePlace) -> Piece:
    commits, branch = sight.record.commits, sight.record.branch
    body = "#### The record waits to be merged\n\n"
    body += f"{inert(branch) or 'The branch'} took no push from the run. "
    body += f"Merge {ASIDE} into it: {_write_compare(branch, place)}. Until then runs go on from {ASIDE}.\n"
    # As it is: ten digits without a letter would be masked like a phone number.
    rows = [(Markdown(one.commit[:10]), _write_minute(one.at), one.subject) for one in commits]
    body += f"\n{write_table(('commit', 'made', 'what it records'), rows, _MOST_COMMITS)}" if rows else ""
    return Piece("The record waits to be merged", body, is_open=True)


def _write_compare(branch: str, place: IssuePlace) -> str:
    url = f"{place.repository_url}/compare/{quote(branch)}...{quote(ASIDE)}?expand=1"
    return (write_page("open a pull request", url) if branch else "") or "open a pull request"


def _jobs_piece(place: IssuePlace) -> Piece:
    body = (
        "#### A run failed\n\nIts summary and its log say why. The next run goes on where it ended, and "
        f"nobody is texted twice. To start one now: {say_workflow(place)} the action `send`.\n"
    )
    return Piece("A run failed", body, is_open=True)


def _say_reason(reason: str) -> str:
    return inert(reason[:_LONGEST_REASON])


def _write_minute(at: str) -> str:
    try:
        return f"{datetime.fromisoformat(at).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return inert(at)
