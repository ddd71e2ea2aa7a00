"""Pull requests that were merged, by the commits that they brought (https://docs.github.com/rest/commits/commits)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from runner.forge.connection import look_up
from runner.forge.repository import read_sha

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.forge.repository import Repository

_RECORD_TRAILER = re.compile(r"^Campaigns-Commit: [0-9a-f]{7,64}$", re.MULTILINE)
_MOST_RECORDS = 100
_MOST_OTHERS = 50


@dataclass(frozen=True, slots=True)
class MergedPullRequest:
    """A pull request that was merged.

    Attributes:
        number: its number.
        url: its page.
        author: the login of who opened it.
        head: the last commit of its branch.
        branch: its branch.
        merged_at: UTC, ISO 8601.
    """

    number: int
    url: str
    author: str
    head: str
    branch: str
    merged_at: str


def find_merged(repository: Repository, commit: str, branch: str) -> MergedPullRequest | None:
    """Return the pull request whose merge made the campaigns what they are; None if the last push had none.

    Commits of the record change no campaign: those before them count.

    Args:
        repository: the campaigns'.
        commit: that is checked out.
        branch: that it is of.

    Raises:
        RefusedError: the token may not know.
        UnavailableError: the forge cannot be asked.
    """
    for sha, is_record in islice(_list_commits(repository, commit), _MOST_RECORDS):
        merged = _find_merge(repository, sha, branch)
        if merged is not None:
            return merged
        # With a pull request it is that one's, whatever its message says.
        if not is_record:
            return None
    return None


def find_last_change(
    repository: Repository, commit: str, branch: str, is_meant: Callable[[str], bool], aside: str
) -> MergedPullRequest | None:
    """Return the last merged pull request that changed certain files; None if there is none.

    Others that were merged since, and what was pushed without one, are passed over: to be told of what was
    sent is no approval.

    Args:
        repository: the campaigns'.
        commit: of the job.
        branch: that it is of.
        is_meant: returns whether a file is one of them.
        aside: the branch that records are merged from, which is passed over, too.

    Raises:
        RefusedError: the token may not know.
        UnavailableError: the forge cannot be asked.
    """
    others = (sha for sha, is_record in _list_commits(repository, commit) if not is_record)
    for sha in islice(others, _MOST_OTHERS):
        merged = _find_merge(repository, sha, branch)
        if merged is not None and merged.branch != aside and _changes(repository, merged, is_meant):
            return merged
    return None


def _list_commits(repository: Repository, commit: str) -> Iterator[tuple[str, bool]]:
    """Yield the names of a commit and of those before it, and whether each is one of the record."""
    for data in repository.list_all(f"commits?sha={commit}"):
        if sha := read_sha(look_up(data, "sha")):
            yield sha, _RECORD_TRAILER.search(str(look_up(data, "commit", "message") or "")) is not None


def _find_merge(repository: Repository, sha: str, branch: str) -> MergedPullRequest | None:
    for pull in repository.list_all(f"commits/{sha}/pulls"):
        number, url, merged_at = (look_up(pull, name) for name in ("number", "html_url", "merged_at"))
        is_merge = isinstance(merged_at, str) and look_up(pull, "merge_commit_sha") == sha
        if is_merge and look_up(pull, "base", "ref") == branch and isinstance(number, int):
            return MergedPullRequest(
                number,
                str(url or ""),
                str(look_up(pull, "user", "login") or ""),
                read_sha(look_up(pull, "head", "sha")),
                str(look_up(pull, "head", "ref") or ""),
                merged_at,
            )
    return None


def _changes(repository: Repository, pull: MergedPullRequest, is_meant: Callable[[str], bool]) -> bool:
    files: Iterator[Any] = repository.list_all(f"pulls/{pull.number}/files")
    return any(is_meant(str(look_up(data, "filename") or "")) for data in files)
