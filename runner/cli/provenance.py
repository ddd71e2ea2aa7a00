"""Where a run comes from: the commit of the campaigns, and the CI job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.campaign.include import include_folder
from runner.campaign.recipients import FileRecipients
from runner.cli.campaigns import TARGETS_FILE
from runner.ledger.lock import find_run_url
from runner.ledger.provenance import make_run
from runner.repository.git import Git, GitError, hide_credentials

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.ledger.model import Run

_TIMEOUT_S = 20.0
_COMMIT = "# branch.oid "
_NO_COMMIT = "(initial)"
_FIELDS_BEFORE_PATH = {"1": 8, "2": 9, "u": 10, "?": 1}
"""By the kind of line (git-status(1), "Porcelain Format Version 2")."""
_OF_ONE_CAMPAIGN = {".yaml", ".yml", ".csv", ".json"}


def trace_run(
    campaigns: Sequence[Campaign], plan_digest: str, started_at: str, environment: Mapping[str, str]
) -> Run:
    """Return who and what is about to send, as far as git and the CI system tell.

    Args:
        campaigns: what is sent, at least one.
        plan_digest: of the plan.
        started_at: UTC, ISO 8601.
        environment: the variables of this process.
    """
    commit, changed = _ask_git(campaigns)
    run_url = hide_credentials(find_run_url(environment) or "")
    return make_run(
        started_at,
        plan_digest,
        commit,
        dirty=commit is not None and not changed.isdisjoint(_list_files(campaigns, changed)),
        run_url=run_url if _is_page(run_url) else None,
        triggered_by=find_actor(environment),
    )


def _is_page(text: str) -> bool:
    return text.startswith(("https://", "http://")) and all("!" <= char <= "~" for char in text)


def find_actor(environment: Mapping[str, str]) -> str | None:
    """Return by whose hand the CI job runs; None outside of one, whatever the variables of a shell say.

    On GitHub whoever ran a job again is not the one who started it first (docs.github.com, "Variables
    reference": `GITHUB_TRIGGERING_ACTOR`, `GITHUB_ACTOR`); on GitLab it is `GITLAB_USER_LOGIN`
    (docs.gitlab.com, "Predefined CI/CD variables").
    """
    names = []
    if environment.get("GITHUB_RUN_ID"):
        names = ["GITHUB_TRIGGERING_ACTOR", "GITHUB_ACTOR"]
    elif environment.get("CI_JOB_URL"):
        names = ["GITLAB_USER_LOGIN"]
    return next((actor for name in names if (actor := environment.get(name))), None)


def _ask_git(campaigns: Sequence[Campaign]) -> tuple[str | None, set[Path]]:
    """Return the commit that is checked out, and the files about the campaigns that differ from it.

    With one command, however many campaigns there are; without git, or outside of a repository, nothing.
    """
    root = campaigns[0].root.resolve()
    folders = {include_folder(campaign) for campaign in campaigns}
    folders |= {file.parent for file in _list_own_files(campaigns)}
    inside = sorted({folder.resolve() for folder in folders if folder.resolve().is_relative_to(root)})
    command = ("status", "--porcelain=v2", "--branch", "--untracked-files=all", "--no-renames", "-z", "--")
    try:
        answer = Git(root, timeout_s=_TIMEOUT_S).ask(
            *command, *map(str, inside), environment={"GIT_LITERAL_PATHSPECS": "1"}
        )
    except GitError:
        return None, set()
    lines = answer.output.split("\0") if not answer.status else []
    commit = next((line.removeprefix(_COMMIT) for line in lines if line.startswith(_COMMIT)), None)
    if commit in (None, _NO_COMMIT):
        return None, set()
    return commit, {root / path for path in _iterate_paths(lines)}


def _iterate_paths(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        before = _FIELDS_BEFORE_PATH.get(line[:1])
        if before is not None:
            yield line.split(" ", before)[before]


def _list_own_files(campaigns: Iterable[Campaign]) -> Iterator[Path]:
    for campaign in campaigns:
        yield campaign.file.resolve()
        for source in (*campaign.recipients, *campaign.exclude):
            if isinstance(source, FileRecipients) and source.url is None:
                yield source.path.resolve()


def _list_files(campaigns: Sequence[Campaign], changed: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that the campaigns are made of; of those that texts may include, the changed ones.

    Other campaigns, their audiences, and lockfiles, which change as messages are sent, are none of them.
    """
    yield from _list_own_files(campaigns)
    folders = {include_folder(campaign).resolve() for campaign in campaigns}
    for file in changed:
        is_shared = file.suffix not in _OF_ONE_CAMPAIGN or file.name == TARGETS_FILE
        if is_shared and any(file.is_relative_to(folder) for folder in folders):
            yield file
