"""Comments and issues on GitHub: a fixed head, as many pieces as fit, and their publication.

Without GitHub they go to the job's summary, else to the observer.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runner.github.comments import LONGEST_BODY, count_units, keep_comment
from runner.github.issues import keep_issue
from runner.github.job import DEFAULT_API, NoJobError, read_github_job
from runner.github.job_summary import append_summary, has_summary, summary_room
from runner.github.rest import RefusedError, Repository, UnavailableError
from runner.ledger.locks.campaign_lock import find_run_url
from runner.wording import count_words, escape_html, escape_markdown, printable
from runner.workflow.failures import write_problem_table
from runner.workflow.observer import hand_over, note, warn
from runner.workflow.workspace.workspace import ca_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runner.errors import RunnerError
    from runner.github.issues import Report
    from runner.github.job import GitHubJob
    from runner.source.diagnostic import Problems

_WORKFLOW = "Campaigns send"
# Characters that could end the surrounding link or code are refused.
_PAGE = re.compile(r"https?://[\w.~:/?#@!$&+,;=%-]+", re.ASCII)
NO_RIGHTS = {401, 403, 404}
_SAID = {
    "created": "Commented: {url}",
    "updated": "Comment edited: {url}",
    "unchanged": "Comment unchanged: {url}",
    "overtaken": "The pull request has moved on to another commit, whose job comments: nothing was written",
}

_ISSUE_SAID = {
    "opened": "Issue opened: {url}",
    "updated": "Issue edited: {url}",
    "unchanged": "Issue unchanged: {url}",
    "closed": "Issue closed, all is well: {url}",
    "left closed": "Somebody has closed the issue, and it is no worse since: {url}",
    "nothing": "All is well: no issue is open",
}

MOST_ROWS = 50
"""The most rows of a table in a comment; the rest is counted."""
_MOST_NAMED = 5
_NOTE_ROOM = 1_500
"""Characters kept for the note on omitted pieces."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a comment that is shown whole or not at all.

    `title` is one line of text, `body` Markdown; `is_open` unfolds it.
    """

    title: str
    body: str
    is_open: bool = False

    def write(self) -> str:
        """Return the piece as Markdown: folded below its title, or as a section."""
        if self.is_open:
            return f"\n{self.body}\n"
        # The blank lines let Markdown begin and end inside of HTML (CommonMark 0.31, 4.6).
        return f"\n<details><summary>{escape_html(self.title)}</summary>\n\n{self.body}\n\n</details>\n"


@dataclass(frozen=True, slots=True)
class CommentText:
    """A comment before it is shortened.

    `head` and `tail` are always shown; `pieces` are sorted by importance. `numbers` is an invisible line for
    programs, empty without a plan.
    """

    head: str
    pieces: tuple[Piece, ...]
    tail: str = ""
    numbers: str = ""

    def fit(self, room: int, measure: Callable[[str], int], where: str) -> tuple[str, int]:
        """Return Markdown of at most `room`, as measured by `measure`, and the number of omitted pieces.

        `where` is Markdown that says where the omitted pieces are.
        """
        written = [piece.write() for piece in self.pieces]
        end = f"\n{self.tail}\n" if self.tail else ""
        left = room - measure(self.head) - measure(end)
        if sum(map(measure, written)) <= left:
            return self.head + "".join(written) + end, 0
        left -= _NOTE_ROOM
        text, dropped = self.head, []
        for piece, markdown in zip(self.pieces, written, strict=True):
            if measure(markdown) <= left:
                left -= measure(markdown)
                text += markdown
            else:
                dropped.append(piece)
        return text + _left_out(dropped, where) + end, len(dropped)


def _left_out(pieces: Sequence[Piece], where: str) -> str:
    names = [escape_markdown(piece.title[:100]) for piece in pieces[:_MOST_NAMED]]
    if len(pieces) > _MOST_NAMED:
        names.append(f"{len(pieces) - _MOST_NAMED:,} more")
    return f"\n> **Too long for here, {where}:** {'; '.join(names)}\n"


def write_problem_text(problems: Problems, target: str, about: str = "", left_out: str = "") -> CommentText:
    """Return the comment if no campaign could be planned.

    `about` describes the target, and the pull request's changes of it, ending in an empty line; `left_out` is
    a Markdown table of the campaigns and errors.
    """
    counts = [count_words(problems.error_count, "error"), count_words(problems.warning_count, "warning")]
    title = "Invalid campaigns" if problems.error_count else "Campaigns not planned"
    head = f"{write_heading(title, target)}{about}**{' · '.join(counts)}**: nothing is planned.\n"
    pieces = [Piece("Left out", left_out, is_open=True)] if left_out else []
    return CommentText(head, (*pieces, *list_problem_pieces(problems)))


def write_failure_text(error: RunnerError, target: str, about: str = "") -> CommentText:
    """Return the comment on campaigns that could not be planned because of `error`.

    `target` is empty if unknown; `about` is as for `write_problem_text`.
    """
    reason = escape_markdown(error.message[:1].upper() + error.message[1:])
    hint = f"\n{escape_markdown(error.hint)}\n" if error.hint else ""
    head = f"{write_heading('Campaigns not planned', target)}{about}{reason}.\n{hint}"
    return CommentText(head, ())


def write_heading(title: str, target: str) -> str:
    """Return a comment's heading, and an empty line; `target` is empty if it is not known."""
    return f"### {title}{f' → {escape_markdown(target)}' if target else ''}\n\n"


def list_problem_pieces(problems: Problems) -> Iterator[Piece]:
    """Yield a table of problems, errors first; of more than a table's rows the rest is counted."""
    errors = [one for one in problems if one.severity == "error"]
    shown = [*errors, *(one for one in problems if one.severity != "error")][:MOST_ROWS]
    left = problems.error_count + problems.warning_count + problems.note_count - len(shown)
    more = f"\nAnd {count_words(left, 'more problem')}.\n" if left else ""
    if shown:
        yield Piece("Problems", f"{write_problem_table(shown)}{more}", is_open=bool(errors))


@dataclass(frozen=True, slots=True)
class IssuePlace:
    """The place of an issue, for its links and commands.

    URLs are empty if there is none. `files` maps names of campaigns to files.
    """

    workflow_url: str = ""
    run_url: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def find(cls, environment: Mapping[str, str], files: Mapping[str, str] | None = None) -> IssuePlace:
        """Return a job's place."""
        server, repository = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_REPOSITORY")
        page = f"{server}/{repository}" if server and repository else ""
        # As in OWNER/NAME/.github/workflows/campaigns-send.yml@refs/heads/main.
        workflow = environment.get("GITHUB_WORKFLOW_REF", "").partition("@")[0].rpartition("/")[2]
        workflow_url = f"{page}/actions/workflows/{workflow}" if page and workflow else ""
        return cls(workflow_url, find_run_url(environment) or "", files or {})


def say_workflow(place: IssuePlace) -> str:
    """Return instructions for starting the workflow by hand, without its inputs."""
    name = write_page(_WORKFLOW, place.workflow_url) or _WORKFLOW
    return f"in the workflow {name}, *Run workflow* with"


def write_page(words: str, url: str) -> str:
    """Return a link; empty without an address, or with one that could end the link."""
    return f"[{words}]({url})" if _PAGE.fullmatch(url) else ""


def publish(what: str, write: Callable[[], CommentText], keep: Callable[[], None]) -> None:
    """Publish a text with `keep`; without GitHub, write it elsewhere, with a warning.

    `what` names the text, such as `comment`; `write` returns it.
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
        _publish_elsewhere(write(), f"No {what}: {api_url} cannot be reached: {error}")


def open_repository(job: GitHubJob) -> Repository:
    """Return the repository of a job."""
    return Repository(job.api_url, job.token, job.repository, verify=ca_bundle(os.environ))


def comment(repository: Repository, number: int, marker: str, text: CommentText, *, head: str = "") -> None:
    """Create or update one comment of a pull request, and note the result.

    Args:
        repository: of the pull request.
        number: its number.
        marker: identifies the comment.
        text: the comment; the overlong rest goes to the job's summary.
        head: the comment's commit, if jobs of other commits must not overwrite it.

    Raises:
        RefusedError: the token lacks permission.
        UnavailableError: GitHub cannot be asked, after some tries.
    """
    first = f"{marker}\n{text.numbers}\n" if text.numbers else f"{marker}\n"
    body, left_out = fit_body(text, count_units(first))
    kept = keep_comment(repository, number, marker, first + body, head)
    note(_SAID[kept.action].format(url=printable(kept.url)))
    if left_out and kept.action != "overtaken":
        write_text_summary(text)


def publish_issue(marker: str, compose: Callable[[Mapping[str, Any]], Report]) -> None:
    """Create, update or close one issue of the job's repository, and note the result.

    Args:
        marker: identifies the issue.
        compose: returns the text, given the state of the last report.

    Raises:
        NoJobError: this is not a job.
        RefusedError: the token lacks permission.
        UnavailableError: GitHub cannot be asked, after some tries.
    """
    repository = open_repository(read_github_job(os.environ))
    kept = keep_issue(repository, marker, compose)
    note(_ISSUE_SAID[kept.action].format(url=printable(kept.url)))


def fit_body(text: CommentText, taken: int) -> tuple[str, int]:
    """Return as much text as fits into a body, and the number of omitted pieces.

    `taken` is the used length of the body.
    """
    run_url = find_run_url(os.environ)
    page = f"[the job's summary]({run_url})" if run_url else "the job's summary"
    return text.fit(LONGEST_BODY - taken, count_units, f"see {page}")


def write_text_summary(text: CommentText) -> None:
    """Append as much of a text as fits to the job's summary."""
    room = summary_room()
    append_summary(text.fit(room, lambda part: len(part.encode("utf-8", "replace")), "left out")[0])


def _publish_elsewhere(text: CommentText, reason: str) -> None:
    if has_summary():
        warn(f"{reason}. The job's summary has everything")
        write_text_summary(text)
    else:
        warn(reason)
        hand_over(text.fit(LONGEST_BODY, count_units, "left out")[0])
