"""The record in git: its files and their merging, and the commit that tells what is new in them.

Launches are new if no lockfile on the branch has them, not even one of the campaign's former name or place.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from runner.errors import CampaignError, RunnerError, SuppressionsError, UsageError
from runner.git.clone import Clone
from runner.git.command import Git, find_work_tree, hide_credentials
from runner.git.recording import Recorded, RecordedFile, Recorder, find_what_waits, take_what_waits
from runner.ledger.files.comparison import Advance, find_suppression_gain, lacks_lines, unite_files
from runner.ledger.fingerprint import TargetKey
from runner.ledger.locks.campaign_lock import find_run_url
from runner.ledger.model import SUPPRESSIONS_SUFFIX
from runner.plan.approval import ENDING as APPROVALS
from runner.plan.approval import find_latest, lacks_approvals, read_approvals, unite_approvals
from runner.service.target import (
    STATE_KEY,
    TargetsProblemError,
    find_key_variable,
    read_state_key,
    read_targets,
)
from runner.source.normalize import normalize_guid
from runner.source.storage import repository_root
from runner.wording import count_words
from runner.workflow.campaigns import DEFAULT_FOLDER, find_targets_file, show_path
from runner.workflow.delivery.campaign_run import find_actor
from runner.workflow.failures import Failures
from runner.workflow.workspace.record_files import list_homes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from runner.git.recording import WaitingCommit
    from runner.ledger.files.comparison import LockfileDiff, SuppressionGain
    from runner.plan.approval import Approval
    from runner.workflow.scope import Scope


_LOCKFILE = ".lock.json"
_ENDINGS = (_LOCKFILE, SUPPRESSIONS_SUFFIX, APPROVALS)
_NAMED = 2
"""The most campaigns named in a subject; more are counted."""
_BOT = "github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com"
_NOBODY = "runner", "runner@localhost"
_GUID = '"project_launch_guid":"[^"]*"'


@dataclass(frozen=True, slots=True)
class PushedRecord:
    """A record that is committed.

    `recorded` is the commit, None without a file to record; `place` names branch and remote.
    """

    recorded: Recorded | None
    place: str
    has_files: bool
    code: int


def fetch_record(scope: Scope, remote: str, branch: str | None) -> Sequence[str]:
    """Copy unmerged files from the branch for records into the work tree; return the files.

    `branch` is None for the current one, or the job's.

    Raises:
        RunnerError: there is no repository, the remote cannot be reached, or the record cannot be read.
    """
    clone = _find_clone()
    with clone.hold():
        branch = branch or _choose_branch(clone.git, scope.environ)
        return take_what_waits(clone, remote, branch, _ENDINGS, partial(_unite, clone.root, scope.environ))


def push_record(scope: Scope, remote: str, branch: str | None, *, is_pushed: bool) -> PushedRecord:
    """Commit the record of campaigns, and push it if `is_pushed`.

    `branch` is None for the current one, or the job's.

    Raises:
        RunnerError: there is no repository, or the record can be neither committed nor pushed.
    """
    clone = _find_clone()
    with clone.hold():
        return _push(clone, scope, remote, branch, is_pushed=is_pushed)


def _push(clone: Clone, scope: Scope, remote: str, branch: str | None, *, is_pushed: bool) -> PushedRecord:
    failures = Failures()
    recorder = _make_recorder(clone, scope, failures)
    if recorder is None:
        return PushedRecord(None, "", has_files=False, code=0)
    if is_pushed:
        branch = branch or _choose_branch(clone.git, scope.environ)
        recorded = recorder.push(remote, branch)
    else:
        recorded = recorder.commit()
    code = failures.find_exit_code(None if failures.is_total else 0)
    place = f"{branch} of {hide_credentials(remote)}"
    return PushedRecord(None if failures.is_total else recorded, place, has_files=True, code=code)


def _find_clone() -> Clone:
    root = find_work_tree(Path.cwd())
    if root is None:
        raise RunnerError(
            "the current folder is not in a git repository",
            hint="run it where the campaigns are kept, or make a repository with `runner init`",
        )
    return Clone(Git(root), root)


def _make_recorder(clone: Clone, scope: Scope, failures: Failures) -> Recorder | None:
    """Return the recorder of the campaigns' files; None if there are none."""
    git, root, environ = clone.git, clone.root, scope.environ
    paths = scope.paths or (DEFAULT_FOLDER,)
    files = _leave_out_ignored(git, root, [_place_below(root, file) for file in _iterate_files(paths)])
    if not files:
        return None
    failures.total = len(files)
    head = git.ask("rev-parse", "--verify", "--quiet", "HEAD").output.strip()
    named = git.ask("config", "user.email").status == 0 or "GIT_COMMITTER_EMAIL" in environ
    author = {} if named else choose_author(environ)
    describe = partial(_describe, clone, environ, head)
    return Recorder(
        clone,
        files,
        partial(_unite, root, environ),
        partial(_is_older, root, environ),
        describe,
        _ENDINGS,
        partial(_attempt, failures),
        author,
    )


def _attempt(failures: Failures, file: Path, find: Callable[[], RecordedFile | None]) -> RecordedFile | None:
    """Return the recorded file; an error of one file does not stop the others."""

    def find_apart() -> RecordedFile | None:
        try:
            return find()
        except SuppressionsError as error:
            raise CampaignError(error.message, hint=error.hint) from None

    return failures.attempt_file(file, None, find_apart)


def list_waiting(environment: Mapping[str, str], remote: str, branch: str) -> list[WaitingCommit]:
    """Return unmerged commits of the record, the latest first.

    Raises:
        RunnerError: there is no repository, the remote cannot be reached, or the record cannot be read.
    """
    clone = _find_clone()
    return find_what_waits(clone, remote, branch, _ENDINGS, partial(_is_older, clone.root, environment))


def find_branch(environment: Mapping[str, str]) -> str:
    """Return the branch of this clone's record: the current one, or in CI the job's.

    Raises:
        RunnerError: there is no repository, or no branch.
    """
    return _choose_branch(_find_clone().git, environment)


def _unite(root: Path, environment: Mapping[str, str], path: str, ours: str, theirs: str) -> str:
    if path.endswith(APPROVALS):
        return unite_approvals(name_target(path), ours, theirs)
    return unite_files(root / path, ours, theirs, _secret_of(root / path, environment))


def _is_older(root: Path, environment: Mapping[str, str], path: str, ours: str, theirs: str) -> bool:
    if path.endswith(APPROVALS):
        return lacks_approvals(before=theirs, after=ours)
    return lacks_lines(root / path, theirs, ours, _secret_of(root / path, environment))


def _secret_of(file: Path, environment: Mapping[str, str]) -> Callable[[], str | None]:
    """Return a function that returns the secret of a record file's target."""
    ending = SUPPRESSIONS_SUFFIX if file.name.endswith(SUPPRESSIONS_SUFFIX) else _LOCKFILE
    target = file.name.removesuffix(ending).rpartition(".")[2]
    return lambda: find_secret(file, target, environment)


def _describe(
    clone: Clone,
    environment: Mapping[str, str],
    head: str,
    tips: Sequence[str],
    changes: Sequence[RecordedFile],
) -> str:
    lockfiles = [one for one in changes if one.path.endswith(_LOCKFILE)]
    advances = [Advance.read(clone.root / one.path, one.before, one.after) for one in lockfiles]
    known = _find_recorded(clone, tips) if any(one.list_fresh() for one in advances) else set()
    gains = []
    for advance in advances:
        gains.append(advance.find_gain(known))
        # A moved campaign may have two lockfiles in one commit.
        known |= advance.list_fresh()
    suppressions = [
        find_suppression_gain(clone.root / one.path, one.before, one.after)
        for one in changes
        if one.path.endswith(SUPPRESSIONS_SUFFIX)
    ]
    approvals = list_approvals(clone.root, changes, gains, environment)
    return write_message(gains, suppressions, approvals, head, environment)


def _iterate_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield record files for any target: lockfiles and suppressions of campaign files or folders.

    Campaigns are not read, since the record is kept whatever they contain now.
    """
    for path in paths:
        if path.is_dir():
            for file in sorted(one for ending in _ENDINGS for one in path.rglob(f"*{ending}")):
                if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
                    yield file
        else:
            yield from (
                file
                for file in sorted(path.parent.iterdir())
                if file.name.startswith(f"{path.stem}.") and file.name.endswith(_LOCKFILE)
            )
    for home in list_homes(paths):
        yield from sorted(home.glob(f"*{SUPPRESSIONS_SUFFIX}"))
        yield from find_books(home)


def _place_below(root: Path, file: Path) -> Path:
    real = file.resolve()
    if not real.is_relative_to(root):
        raise UsageError(f"{show_path(file)} is outside the git repository of the current folder")
    return real


def _leave_out_ignored(git: Git, root: Path, files: Sequence[Path]) -> list[Path]:
    """Return the files not ignored by git, which ignores the sandbox's lockfiles."""
    names = [file.relative_to(root).as_posix() for file in dict.fromkeys(files)]
    listed = "".join(f"{name}\0" for name in names)
    ignored = git.ask("check-ignore", "-z", "--stdin", text=listed).output.split("\0")
    return [root / name for name in names if name not in ignored]


def _choose_branch(git: Git, environment: Mapping[str, str]) -> str:
    current = git.ask("symbolic-ref", "--quiet", "--short", "HEAD")
    if current.status == 0:
        return current.output.strip()
    if environment.get("GITHUB_REF_TYPE") == "branch" and environment.get("GITHUB_REF_NAME"):
        return environment["GITHUB_REF_NAME"]
    if environment.get("CI_COMMIT_BRANCH"):
        return environment["CI_COMMIT_BRANCH"]
    raise UsageError("the work tree is not on a branch (a detached HEAD)", hint="name one with --branch")


def write_message(
    gains: Sequence[LockfileDiff],
    suppressions: Sequence[SuppressionGain],
    approvals: Sequence[Approval],
    commit: str,
    environment: Mapping[str, str],
) -> str:
    """Return the message of a commit: a subject, a line for each message, and trailers.

    `gains` and `suppressions` are the additions by file, `commit` is that of the campaigns sent, and
    `environment` has CI's variables.
    """
    body = [line for gain in gains for line in _list_messages(gain)]
    body += [line for gain in suppressions for line in _list_decisions(gain)]
    if gains:
        subject = _write_subject(gains)
    elif suppressions:
        subject = _write_suppression_subject(suppressions)
    else:
        subject = _write_approval_subject(approvals)
    trailers = [*_list_trailers(commit, environment), *_list_approvers(approvals, environment)]
    blocks = [[subject], body, trailers]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _write_subject(gains: Sequence[LockfileDiff]) -> str:
    texts = sum(sum(gain.texts.values()) for gain in gains)
    told = [gain for gain in gains if gain.texts] or gains
    campaigns = _join_names({_one_line(gain.campaign) for gain in told}, "campaigns")
    targets = _join_names({gain.target for gain in told}, "targets")
    if texts:
        return f"Record {count_words(texts, 'text')} of {campaigns} on {targets}"
    # Possible after a request to be forgotten, or when a file merged by git is repaired.
    return f"Bring the record of {campaigns} on {targets} up to date"


def _write_approval_subject(approvals: Sequence[Approval]) -> str:
    if not approvals:
        return "Record what was approved"
    campaigns = _join_names({_one_line(one.request.campaign) for one in approvals}, "campaigns")
    targets = _join_names({one.request.target for one in approvals}, "targets")
    is_denied = all(one.denied_by for one in approvals)
    return f"Record the {'denial' if is_denied else 'approval'} of {campaigns} on {targets}"


def _list_messages(gain: LockfileDiff) -> Iterator[str]:
    for message, texts in sorted(gain.texts.items()):
        launches = count_words(gain.launches[message], "launch", "launches")
        yield f"{_one_line(gain.campaign)}, {message}: {count_words(texts, 'text')} in {launches}"


def _write_suppression_subject(suppressions: Sequence[SuppressionGain]) -> str:
    targets = _join_names({gain.target for gain in suppressions}, "targets")
    people = sum(gain.opted_out for gain in suppressions)
    if people:
        return f"Record {count_words(people, 'person', 'people')} not to be texted on {targets}"
    return f"Record who is not to be texted on {targets}"


def _list_decisions(gain: SuppressionGain) -> Iterator[str]:
    if gain.opted_out:
        yield f"{gain.target}: {count_words(gain.opted_out, 'person', 'people')} not to be texted any more"
    if gain.let_in:
        yield f"{gain.target}: {count_words(gain.let_in, 'person', 'people')} may be texted again"
    for name in gain.paused:
        yield f"{gain.target}: {_one_line(name)} is paused"
    for name in gain.resumed:
        yield f"{gain.target}: {_one_line(name)} goes on"


def _list_trailers(commit: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield trailers, which `git log --format='%(trailers:key=Run)'` finds."""
    yield f"Campaigns-Commit: {commit}"
    url = find_run_url(environment)
    if url:
        yield f"Run: {_one_line(url)}"
    actor = find_actor(environment)
    if actor:
        yield f"Triggered-By: {_one_line(actor)}"


def _list_approvers(approvals: Sequence[Approval], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield trailers that name the approvers, from approvals and from `runner ci approve` in this job."""
    people = list_approving(environment)
    pages = _split(environment, "RUNNER_PULL_REQUEST")
    reviewers = _split(environment, "RUNNER_REVIEWED_BY")
    for approval in approvals:
        people.update(approval.approved_by)
        pages.update(filter(None, [approval.pull_request]))
        reviewers.update(approval.reviewed_by)
    deniers = {name for approval in approvals for name in approval.denied_by}
    trailers = {"Approved-By": people, "Denied-By": deniers, "Pull-Request": pages, "Reviewed-By": reviewers}
    for name, values in trailers.items():
        yield from (f"{name}: {_one_line(value)}" for value in sorted(values))


def list_approving(environment: Mapping[str, str]) -> set[str]:
    """Return the approvers that `runner ci approve` has passed on in this job."""
    return _split(environment, "RUNNER_APPROVED_BY")


def _split(environment: Mapping[str, str], name: str) -> set[str]:
    return set(filter(None, (value.strip() for value in environment.get(name, "").split(","))))


def choose_author(environment: Mapping[str, str]) -> dict[str, str]:
    """Return git's author variables, for clones without a configured author."""
    name, email = _BOT if environment.get("GITHUB_ACTIONS") == "true" else _NOBODY
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
    }


def _join_names(names: Iterable[str], many: str) -> str:
    ordered = sorted(names)
    return " and ".join(ordered) if len(ordered) <= _NAMED else f"{len(ordered)} {many}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _find_recorded(clone: Clone, tips: Sequence[str]) -> set[str]:
    """Return the guids of all launches in the lockfiles of some commits."""
    texts = (one for tip in tips for one in clone.search(tip, _GUID, _LOCKFILE))
    return {normalize_guid(json.loads(one.partition(":")[2])) for one in texts}


def name_target(path: str) -> str:
    """Return the target's name of a file of approvals."""
    return PurePosixPath(path).name.removesuffix(APPROVALS)


def find_books(path: Path) -> list[Path]:
    """Return the files of approvals in the `campaigns` folder above a path, else in its own folder."""
    own = (path if path.is_dir() else path.parent).absolute()
    root = repository_root(own)
    above = (folder for folder in (own, *own.parents) if folder.is_relative_to(root))
    home = next((folder for folder in above if folder.name == DEFAULT_FOLDER.name), own)
    return sorted(home.glob(f"*{APPROVALS}"))


def list_approvals(
    root: Path, changes: Sequence[RecordedFile], gains: Sequence[LockfileDiff], environment: Mapping[str, str]
) -> list[Approval]:
    """Return the approvals of what was sent, and those that are new.

    Only those sealed with the state key count, since anybody can write a name into a file.
    """
    found: dict[str, Approval] = {}
    for change in changes:
        key = _find_key(root / change.path, name_target(change.path), environment)
        if change.path.endswith(APPROVALS) and key is not None:
            before = set(map(repr, read_approvals(change.before or "", key).approvals))
            new = (one for one in read_approvals(change.after, key).approvals if repr(one) not in before)
            found |= {repr(one): one for one in new}
    folders = {(root / change.path).parent for change in changes}
    for gain in gains:
        for folder in sorted(folders):
            found |= {repr(one): one for one in _find_covering(root, folder, gain, environment)}
    return list(found.values())


def _find_covering(
    root: Path, folder: Path, gain: LockfileDiff, environment: Mapping[str, str]
) -> Iterator[Approval]:
    """Yield the approvals of the texts of a lockfile below a folder."""
    for above in (folder, *folder.parents):
        file = above / f"{gain.target}{APPROVALS}"
        key = _find_key(file, gain.target, environment) if file.is_file() else None
        if key is not None:
            text = file.read_text(encoding="utf-8", errors="replace")
            latest = find_latest(gain.campaign, gain.target, read_approvals(text, key).approvals)
            yield from (latest[message] for message in gain.texts if message in latest)
        if above == root:
            return


def _find_key(file: Path, target: str, environment: Mapping[str, str]) -> TargetKey | None:
    secret = find_secret(file, target, environment)
    return TargetKey.of(target, secret) if secret else None


def find_secret(file: Path, target: str, environment: Mapping[str, str]) -> str | None:
    """Return the state key of a target, or None; campaigns near the file have the `targets.yaml`."""
    try:
        variable, _ = find_key_variable(target, read_targets(find_targets_file((file,)), environment))
    except TargetsProblemError:
        return None
    return read_state_key(environment, variable or STATE_KEY)
