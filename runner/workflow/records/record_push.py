"""The record in git: on the refs of state remotes, in the work tree, and on a branch, for people."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from runner.atomic_write import save_text
from runner.campaign.load import read_names
from runner.errors import LockfileError, RunnerError, SuppressionsError, UsageError
from runner.git.clone import Clone, read_text
from runner.git.command import Git, GitError, hide_credentials
from runner.git.state_ref import NAMESPACE, Snapshot, StateRef, read_target
from runner.github.job import find_git_settings
from runner.ledger.files.comparison import RECORD_ENDINGS, complete_file, name_target
from runner.ledger.files.lockfile import LOCKFILE_SUFFIX, lockfile_name, lockfile_path, read_campaign_name
from runner.ledger.model import APPROVALS_SUFFIX, SUPPRESSIONS_SUFFIX
from runner.source.storage import repository_root
from runner.workflow.campaigns import DEFAULT_FOLDER, find_campaign_files, show_path
from runner.workflow.observer import warn
from runner.workflow.records.recording import Recorded, RecordedFile, Recorder, RefusedPushError, secrets_of
from runner.workflow.workspace.record_files import list_homes, walk_files
from runner.workflow.workspace.state_remote import NO_REMOTE, StateRemote
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runner.workflow.scope import Scope


_BRANCHES = "refs/heads/"


def fetch_record(scope: Scope, remote: str, tips: Mapping[str, str] | None = None) -> Sequence[str]:
    """Bring what state remotes have into the work tree; return the files that changed, from the top.

    `tips` has the commits of their refs, if somebody has just looked.
    """
    clone = _find_clone(scope)
    copies = RecordCopies(clone, scope, remote)
    return copies.fetch(tips or copies.list_refs())


def start_ref(scope: Scope, remote: str) -> tuple[str, bool]:
    """Make the ref of a target's state remote; return it in words, and whether it is new.

    It begins with the decisions in the work tree's files. Launches are not put there: whether a ref was lost
    that had more is for each campaign's next run to find out, at the service.
    """
    scope = replace(scope, state_remote=remote)
    state = StateRemote.open(remote, Workspace.open(scope).target, scope)
    is_new = state.start()
    clone = _find_clone(scope)
    copies = RecordCopies(clone, scope, remote)
    copies.fetch(clone.git.list_refs(remote, state.ref.name))
    copies.share(_list_files(clone, scope))
    return str(state.ref), is_new


def push_record(scope: Scope, remote: str, branch: str | None, *, is_pushed: bool) -> Recorded:
    """Commit the record of campaigns, and push it if `is_pushed`, with all that state remotes have.

    `branch` is None for the current one, or the job's. Decisions that a state remote lacks are brought there
    before. Where it has all that is new, a branch may refuse the push.
    """
    clone = _find_clone(scope)
    clone.read_head()
    current = clone.read_branch()
    if not is_pushed:
        return _record(clone, scope, current, lambda one: one.commit())
    return _push(clone, scope, current, remote, branch or _choose_branch(current, scope.environ))


def _push(clone: Clone, scope: Scope, current: str | None, remote: str, branch: str) -> Recorded:
    copies, ref = RecordCopies(clone, scope, remote), f"{_BRANCHES}{branch}"
    if copies.remote == remote:
        tips = clone.git.list_refs(remote, ref, f"{NAMESPACE}/*")
        copies.fetch(tips, branch=ref)
        tip = tips.get(ref)
    else:
        copies.fetch(copies.list_refs())
        tip = clone.fetch(remote, branch)
    unshared = None
    try:
        copies.share(_list_files(clone, scope))
    except GitError as error:
        # A branch may take what the ref does not.
        unshared = error
    try:
        pushed = _record(clone, scope, current, lambda one: one.push(remote, branch, tip))
    except RefusedPushError as error:
        if not all(map(copies.has, error.changes)):
            raise
        pushed = Recorded(refusal=error.reason)
    if unshared is not None:
        warn(f"what is new was not brought to the state remote: {unshared.message}", unshared.hint)
        pushed = replace(pushed, code=unshared.exit_code)
    return replace(pushed, place=f"{branch} of {hide_credentials(remote)}", refs=copies.names)


def _record(
    clone: Clone, scope: Scope, current: str | None, commit: Callable[[Recorder], Recorded]
) -> Recorded:
    with Recorder.open(clone, _list_files(clone, scope), scope.environ, current) as recorder:
        if not recorder.files:
            return Recorded(has_files=False)
        recorded, failures = commit(recorder), recorder.failures
    code = failures.find_exit_code(None if failures.is_total else 0)
    return replace(recorded, is_failed=failures.is_total, code=code)


def _find_clone(scope: Scope) -> Clone:
    """Return the current folder's clone, once a process."""
    return scope.share(_find_clone, lambda: _open_clone(scope.environ))


def _open_clone(environment: Mapping[str, str]) -> Clone:
    root = repository_root(Path.cwd()).resolve()
    if not (root / ".git").exists():
        raise RunnerError(
            "the current folder is not in a git repository",
            hint="run it where the campaigns are kept, or make a repository with `runner init`",
        )
    return Clone(Git(root, settings=find_git_settings(environment)), root)


class RecordCopies:
    """The record as the refs of a state remote have it, and its files in a work tree.

    A ref names its files by campaign and target; in the work tree they stand beside the campaigns.
    """

    def __init__(self, clone: Clone, scope: Scope, remote: str) -> None:
        self._clone = clone
        self._scope = scope
        self.remote = None if scope.state_remote == NO_REMOTE else scope.state_remote or remote
        self._refs: dict[str, tuple[StateRef, Snapshot]] = {}

    def list_refs(self) -> dict[str, str]:
        """Return the commits of the state remote's refs; none without one."""
        return {} if self.remote is None else self._clone.git.list_refs(self.remote, f"{NAMESPACE}/*")

    @property
    def names(self) -> tuple[str, ...]:
        """The refs that were found, in words."""
        return tuple(str(ref) for ref, _ in self._refs.values())

    def fetch(self, tips: Mapping[str, str], *, branch: str | None = None) -> list[str]:
        """Bring the lines of refs, of which `tips` has the commits, into the work tree; return the paths.

        `branch` is fetched with them if it is not here.
        """
        refs = {name: commit for name, commit in tips.items() if name.startswith(f"{NAMESPACE}/")}
        remote, changed = self.remote or NO_REMOTE, list[str]()
        self._clone.objects.bring(remote, refs | {name: tips[name] for name in tips if name == branch})
        for name, commit in sorted(refs.items()):
            target = read_target(name)
            ref = StateRef(self._clone.git, remote, target, self._clone.objects)
            snapshot = ref.read_at(commit) or ref.read()
            self._refs[target] = ref, snapshot
            places = _Places(self._scope.paths, target)
            for file, text in sorted(snapshot.texts.items()):
                place = places.find(file)
                if place is not None and self._bring(place, ref, text):
                    changed.append(place.relative_to(self._clone.root).as_posix())
        return changed

    def share(self, files: Sequence[Path]) -> None:
        """Bring decisions to the refs that lack them, and launches to those that nobody holds."""
        for target, (ref, snapshot) in self._refs.items():
            texts = [(file, *_read_named(file)) for file in files if name_target(file) == target]
            ref.append(partial(self._add, ref, texts), snapshot)

    def _add(
        self, ref: StateRef, texts: Sequence[tuple[Path, str | None, str]], snapshot: Snapshot
    ) -> Mapping[str, str]:
        there, is_free = snapshot.record, ref.read_state(snapshot).holder is None
        found = dict(there)
        for file, name, text in texts:
            # A campaign that is not on the ref is looked for at the service; a holder writes its own.
            is_asked = not file.name.endswith(LOCKFILE_SUFFIX) or (name in there and is_free)
            if name is None or not is_asked:
                continue
            # Of a file that cannot be read there is an error below.
            with suppress(SuppressionsError, LockfileError):
                found[name] = self._complete(file, found.get(name), text)
        return found

    def has(self, change: RecordedFile) -> bool:
        """Return whether a ref has everything in a changed file."""
        file = self._clone.root / change.path
        found, name = self._refs.get(name_target(file)), _name_on_ref(file, change.after)
        there = None if found is None or name is None else found[0].read().texts.get(name)
        return there is not None and self._complete(file, there, change.after) == there

    def _complete(self, file: Path, known: str | None, text: str) -> str:
        return complete_file(file, known, text, secrets_of(file, self._scope.environ))

    def _bring(self, place: Path, ref: StateRef, theirs: str) -> bool:
        try:
            ours = read_text(place) if place.is_file() else None
            after = self._complete(place, ours, theirs)
        except RunnerError as error:
            warn(f"{show_path(place)}: what {ref} has is not brought there: {error.message}")
            return False
        if after == ours:
            return False
        place.parent.mkdir(parents=True, exist_ok=True)
        save_text(place, after)
        return True


class _Places:
    """The places in the work tree of the files of one target's ref."""

    def __init__(self, paths: tuple[Path, ...], target: str) -> None:
        self._paths = paths
        self._target = target
        files = [file for file in _iterate_files(paths or (DEFAULT_FOLDER,)) if name_target(file) == target]
        self._lockfiles = {
            name: file.resolve()
            for file, name in ((file, _read_named(file)[0]) for file in files)
            if file.name.endswith(LOCKFILE_SUFFIX)
        }

    def find(self, name: str) -> Path | None:
        """Return the place of a file; None if it is no record, or of another campaign than was asked for."""
        if name.endswith((SUPPRESSIONS_SUFFIX, APPROVALS_SUFFIX)):
            homes = [home / name for home in list_homes(self._paths)]
            return next((file for file in homes if file.exists()), homes[0])
        if not name.endswith(LOCKFILE_SUFFIX) or name in self._lockfiles:
            return self._lockfiles.get(name)
        campaign = name.removesuffix(LOCKFILE_SUFFIX)
        paths = [path for path in self._paths or (DEFAULT_FOLDER,) if path.exists()]
        for file in find_campaign_files(paths) if paths else ():
            if campaign in read_names(file, current=Path.cwd()):
                return lockfile_path(file.resolve(), self._target)
        # Nobody's any more, but to be kept.
        return None if self._paths else DEFAULT_FOLDER.absolute() / lockfile_name(campaign, self._target)


def _read_named(file: Path) -> tuple[str | None, str]:
    """Return the name that a record file has on a ref, None if it cannot be read, and its text."""
    try:
        text = read_text(file)
    except LockfileError:
        return None, ""
    return _name_on_ref(file, text), text


def _name_on_ref(file: Path, text: str) -> str | None:
    if not file.name.endswith(LOCKFILE_SUFFIX):
        return file.name
    campaign = read_campaign_name(text)
    return None if campaign is None else f"{campaign}{LOCKFILE_SUFFIX}"


def _list_files(clone: Clone, scope: Scope) -> list[Path]:
    """Return the record files below the scope's paths."""
    paths = scope.paths or (DEFAULT_FOLDER,)
    return [_place_below(clone.root, file) for file in _iterate_files(paths)]


def _iterate_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield record files for any target: lockfiles and suppressions of campaign files or folders.

    Campaigns are not read, since the record is kept whatever they contain now.
    """
    for path in paths:
        if path.is_dir():
            yield from walk_files(path, RECORD_ENDINGS)
        else:
            yield from sorted(path.parent.glob(f"{escape(path.stem)}.*{LOCKFILE_SUFFIX}"))
    for home in list_homes(paths):
        yield from sorted((*home.glob(f"*{SUPPRESSIONS_SUFFIX}"), *home.glob(f"*{APPROVALS_SUFFIX}")))


def _place_below(root: Path, file: Path) -> Path:
    real = file.resolve()
    if not real.is_relative_to(root):
        raise UsageError(f"{show_path(file)} is outside the git repository of the current folder")
    return real


def _choose_branch(current: str | None, environment: Mapping[str, str]) -> str:
    if current is not None:
        return current
    if environment.get("GITHUB_REF_TYPE") == "branch" and environment.get("GITHUB_REF_NAME"):
        return environment["GITHUB_REF_NAME"]
    if environment.get("CI_COMMIT_BRANCH"):
        return environment["CI_COMMIT_BRANCH"]
    raise UsageError("the work tree is not on a branch (a detached HEAD)", hint="name one with --branch")
