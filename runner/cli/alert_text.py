"""Writes what `runner alert` says: what is wrong with a target's campaigns, and what to do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from runner.cli.comment_text import CommentText, Piece, write_table
from runner.cli.console import Markdown, count_words
from runner.cli.inert import inert
from runner.ledger.lock import find_run_url
from runner.repository.recording import ASIDE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.cli.alert_state import FailedJob, Sight, Troubles

_MOST_ROWS = 50
_MOST_COMMITS = 10
_LONGEST_REASON = 500
_WORKFLOW = "Campaigns send"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
# Nothing of it may end the link, or the code, that it stands in.
_PAGE = re.compile(r"https?://[\w.~:/?#@!$&+,;=%-]+", re.ASCII)
_ENDED = {"failure": "failed", "cancelled": "was cancelled, by a person or after its time limit"}
_ABOUT_TO_BE_SENT = "about to be sent, and no answer proves whether it was"
_UNEXPLAINED = "the service lists launches that no record explains"


@dataclass(frozen=True, slots=True)
class Place:
    """What the text says of where it is read.

    Attributes:
        repository_url: the repository's page; empty if there is none.
        workflow_url: the page of the workflow; empty if there is none.
        run_url: the page of this run; empty if there is none.
        state_remote: `--state-remote`, if given.
        files: campaign files by the names of the campaigns.
    """

    repository_url: str = ""
    workflow_url: str = ""
    run_url: str = ""
    state_remote: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def find(
        cls, environment: Mapping[str, str], state_remote: str | None, files: Mapping[str, str] | None = None
    ) -> Place:
        """Return what a job says of its place.

        Args:
            environment: the process's.
            state_remote: `--state-remote`, if given.
            files: campaign files by the names of the campaigns.
        """
        server, repository = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_REPOSITORY")
        page = f"{server}/{repository}" if server and repository else ""
        # As in OWNER/NAME/.github/workflows/campaigns-send.yml@refs/heads/main.
        workflow = environment.get("GITHUB_WORKFLOW_REF", "").partition("@")[0].rpartition("/")[2]
        workflow_url = f"{page}/actions/workflows/{workflow}" if page and workflow else ""
        return cls(page, workflow_url, find_run_url(environment) or "", state_remote, files or {})


def write_title(target: str, troubles: Troubles) -> str:
    """Return the issue's title: its kinds of trouble, without counts, so that it rarely changes."""
    words = [
        *(["a run failed"] if troubles.jobs else []),
        *(["people are held"] if troubles.held else []),
        *(["the record waits to be merged"] if troubles.is_waiting else []),
    ]
    return f"Campaigns on {target}: {', '.join(words) or 'all is well'}"


def write_alert(sight: Sight, troubles: Troubles, place: Place) -> CommentText:
    """Return what the issue says.

    Args:
        sight: what this job sees.
        troubles: what is wrong, of which this job may not see all.
        place: where that is read.
    """
    target = inert(sight.target)
    run = write_page("this run", place.run_url)
    seen = f" Last looked at by {run}." if run else ""
    tail = f"<sub>Kept up to date by `runner alert`, which closes it when all is well.{seen}</sub>"
    gaps = "".join(f"- {line}\n" for line in _list_gaps(sight))
    if not troubles.is_any:
        return CommentText(f"### Campaigns → {target}\n\n{_say_well(sight)}\n\n{gaps}", (), tail)
    head = f"### Campaigns → {target}: something is to be done\n\n"
    head += "".join(f"- {line}\n" for line in _list_troubles(sight, troubles)) + gaps
    pieces = [
        *([_held_piece(sight, place)] if troubles.held else []),
        *([_record_piece(sight, place)] if troubles.is_waiting else []),
        *([_jobs_piece(place)] if troubles.jobs else []),
    ]
    return CommentText(head, tuple(pieces), tail)


def write_news(before: Troubles, now: Troubles, sight: Sight) -> str:
    """Return the comment on what is new."""
    lines: list[str] = []
    if now.jobs and not before.jobs:
        lines += map(_say_job, now.jobs)
    if now.held > before.held:
        more = f", {now.held - before.held:,} more than before" if before.held else ""
        lines.append(f"**{_say_held(now.held)}**{more}.")
    if now.is_waiting and not before.is_waiting:
        lines.append(_say_record(sight))
    return "\n".join(f"- {line}" for line in lines) + "\n\nWhat to do stands above.\n"


def write_farewell(sight: Sight) -> str:
    """Return the comment with which the issue is closed."""
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


def _say_held(count: int) -> str:
    return f"{count_words(count, 'recipient is', 'recipients are')} held"


def _say_job(job: FailedJob) -> str:
    name = f"The job {inert(job.name)}" if job.name else "A job"
    run = write_page("its run", job.url)
    return f"**{name} {_ENDED.get(job.outcome, 'failed')}**{f': {run}' if run else ''}"


def _say_record(sight: Sight) -> str:
    commits = sight.record.commits
    if not commits:
        return f"**The record waits to be merged** on the branch {ASIDE}"
    since = _write_minute(commits[-1].at)
    words = count_words(len(commits), "commit waits", "commits wait")
    return f"**The record waits to be merged:** {words} on the branch {ASIDE}, since {since}"


def _held_piece(sight: Sight, place: Place) -> Piece:
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
        for count in counts[:_MOST_ROWS]
    ]
    body = "#### People are held\n\n"
    body += write_table(header, rows) if rows else ""
    body += f"\n… and {len(counts) - _MOST_ROWS:,} more\n" if len(counts) > _MOST_ROWS else ""
    body += f"\n{write_resolving(sight.target, place)}"
    return Piece("People are held", body, is_open=True)


def write_resolving(target: str, place: Place) -> str:
    """Return how a person says what became of launches that may have reached people."""
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


def _write_commands(target: str, place: Place) -> str:
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


def _record_piece(sight: Sight, place: Place) -> Piece:
    commits, branch = sight.record.commits, sight.record.branch
    body = "#### The record waits to be merged\n\n"
    body += f"{inert(branch) or 'The branch'} took no push from the run. "
    body += f"Merge {ASIDE} into it: {_write_compare(branch, place)}. Until then runs go on from {ASIDE}.\n"
    rows = [(one.commit[:10], _write_minute(one.at), one.subject) for one in commits[:_MOST_COMMITS]]
    body += f"\n{write_table(('commit', 'made', 'what it records'), rows)}" if rows else ""
    if len(commits) > _MOST_COMMITS:
        body += f"\n… and {len(commits) - _MOST_COMMITS:,} more\n"
    return Piece("The record waits to be merged", body, is_open=True)


def _write_compare(branch: str, place: Place) -> str:
    url = f"{place.repository_url}/compare/{quote(branch)}...{quote(ASIDE)}?expand=1"
    return (write_page("open a pull request", url) if branch else "") or "open a pull request"


def _jobs_piece(place: Place) -> Piece:
    body = (
        "#### A run failed\n\nIts summary and its log say why. The next run goes on where it ended, and "
        f"nobody is texted twice. To start one now: {say_workflow(place)} the action `send`.\n"
    )
    return Piece("A run failed", body, is_open=True)


def say_workflow(place: Place) -> str:
    """Return where a person starts the workflow by hand; what to fill in follows."""
    name = write_page(_WORKFLOW, place.workflow_url) or _WORKFLOW
    return f"in the workflow {name}, *Run workflow* with"


def _say_reason(reason: str) -> str:
    return inert(reason[:_LONGEST_REASON])


def write_page(words: str, url: str) -> str:
    """Return a link; empty if there is no address, or one that could end the link."""
    return f"[{words}]({url})" if _PAGE.fullmatch(url) else ""


def _write_minute(at: str) -> str:
    try:
        return f"{datetime.fromisoformat(at).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return inert(at)
