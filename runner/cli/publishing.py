"""Brings a text to the forge; where that cannot be, to the job's summary, or to standard output."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, TypeVar

import click

from runner.cli.console import note, warn
from runner.cli.inert import printable
from runner.cli.job_summary import append_summary, has_summary, summary_room
from runner.cli.service_access import ca_bundle
from runner.forge.comment import LONGEST_BODY, count_units, keep_comment, keep_trying
from runner.forge.connection import ForgeConnection, UnavailableError
from runner.forge.discussion import Discussion
from runner.forge.issue import IssueKeeper
from runner.forge.job import DEFAULT_API, NoJobError, read_forge_job
from runner.forge.repository import RefusedError, Repository
from runner.ledger.lock import find_run_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.cli.comment_text import CommentText
    from runner.forge.issue import Report
    from runner.forge.job import ForgeJob

_Result = TypeVar("_Result")
NO_RIGHTS = {401, 403, 404}
_SAID = {
    "created": "Commented: {url}",
    "updated": "Comment edited: {url}",
    "unchanged": "Comment unchanged: {url}",
    "overtaken": "The pull request has moved on to another commit, whose job comments: nothing was written",
}


def publish(what: str, write: Callable[[], CommentText], keep: Callable[[], None]) -> None:
    """Write something on the forge; without it the text goes elsewhere, with a warning.

    Args:
        what: it is, as in `comment`.
        write: returns what it would say.
        keep: writes it on the forge.
    """
    try:
        keep()
    except NoJobError as error:
        _publish_elsewhere(write(), f"No {what}: {error}")
    except RefusedError as error:
        reason = f"No {what}: the token has no right to" if error.status in NO_RIGHTS else f"No {what}"
        _publish_elsewhere(write(), f"{reason} ({error.status}: {printable(error.reason)})")
    except UnavailableError as error:
        api_url = os.environ.get("GITHUB_API_URL") or DEFAULT_API
        _publish_elsewhere(write(), f"No {what}: {api_url} was asked in vain: {error.reason}")


def open_repository(job: ForgeJob) -> Repository:
    """Return the repository of a job."""
    return Repository(ForgeConnection(job.api_url, job.token, verify=ca_bundle()), job.repository)


def try_on_forge(work: Callable[[], _Result]) -> _Result:
    """Do something on a forge, and again as long as the forge is out of order, some times.

    Raises:
        UnavailableError: the forge cannot be asked, after some tries.
    """
    return keep_trying(work, time.sleep)


def comment(
    repository: Repository, number: int, marker: str, text: CommentText, *, head: str = "", quiet: bool
) -> None:
    """Keep one comment below a pull request, and say what became of it.

    Args:
        repository: of the pull request.
        number: its number.
        marker: tells the comment from others.
        text: the comment; what is too long goes to the job's summary.
        head: the commit that it is about, if another one's job should not overwrite it.
        quiet: say nothing of success.

    Raises:
        RefusedError: the token has no right to.
        UnavailableError: the forge cannot be asked, after some tries.
    """
    first = f"{marker}\n{text.numbers}\n" if text.numbers else f"{marker}\n"
    body, left_out = fit_body(text, count_units(first))
    discussion = Discussion(repository, number)
    kept = try_on_forge(lambda: keep_comment(discussion, marker, first + body, head))
    if kept.removed:
        warn(f"{kept.removed} more of this comment were there, as after two jobs at once, and were deleted")
    if not quiet:
        note(_SAID[kept.action].format(url=printable(kept.url)))
    if left_out and kept.action != "overtaken":
        write_text_summary(text)


def keep_issue(
    marker: str, compose: Callable[[Mapping[str, Any]], Report], said: Mapping[str, str], *, quiet: bool
) -> None:
    """Keep one issue of the job's repository, and say what became of it.

    Args:
        marker: tells the issue from others.
        compose: returns what is to be said, given what the last report left to know.
        said: what to say of it, by what was done; `{url}` is its page.
        quiet: say nothing of success.

    Raises:
        NoJobError: this is no job.
        RefusedError: the token has no right to.
        UnavailableError: the forge cannot be asked, after some tries.
    """
    repository = open_repository(read_forge_job(os.environ))
    kept = try_on_forge(IssueKeeper(repository, marker, compose).keep)
    if kept.refusal is not None:
        warn(f"No comment on {kept.url}: {kept.refusal.status}: {printable(kept.refusal.reason)}")
    if not quiet:
        note(said[kept.action].format(url=printable(kept.url)))


def fit_body(text: CommentText, taken: int) -> tuple[str, int]:
    """Return as much of a text as a body on the forge takes, and how many pieces are left out.

    Args:
        text: the text.
        taken: units of the body that something else takes.
    """
    run_url = find_run_url(os.environ)
    page = f"[the job's summary]({run_url})" if run_url else "the job's summary"
    return text.fit(LONGEST_BODY - taken, count_units, f"see {page}")


def write_text_summary(text: CommentText) -> None:
    """Append as much of a text to the job's summary as that takes."""
    room = summary_room()
    append_summary(text.fit(room, lambda part: len(part.encode("utf-8", "replace")), "left out")[0])


def _publish_elsewhere(text: CommentText, reason: str) -> None:
    if has_summary():
        warn(f"{reason}. The job's summary has everything")
        write_text_summary(text)
    else:
        warn(reason)
        click.echo(text.fit(LONGEST_BODY, count_units, "left out")[0], nl=False)
