"""The record in git: its files and their merging, and the commit that tells what is new in them.

Launches are new if no lockfile on the branch has them, not even one of the campaign's former name or place.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from runner.atomic_write import save_text
from runner.campaign.load import read_names
from runner.errors import CampaignError, LockfileError, RunnerError, SuppressionsError, UsageError
from runner.git.clone import Clone, read_text
from runner.git.command import Git, GitError, find_work_tree, hide_credentials
from runner.git.lease import append, read_state
from runner.git.recording import Recorded, RecordedFile, Recorder, RefusedPushError
from runner.git.state_ref import NAMESPACE, Snapshot, StateRef, read_target
from runner.github.job import find_git_settings
from runner.ledger.files.comparison import Advance, find_suppression_gain
from runner.ledger.files.lockfile import LOCKFILE_SUFFIX, lockfile_name, lockfile_path, read_campaign_name
from runner.ledger.fingerprint import TargetKey
from runner.ledger.locks.campaign_lock import find_run_url
from runner.ledger.model import SUPPRESSIONS_SUFFIX
from runner.plan.approval import ENDING as APPROVALS
from runner.plan.approval import find_latest, read_approvals
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
from runner.workflow.campaigns import DEFAULT_FOLDER, find_campaign_files, find_targets_file, show_path
from runner.workflow.delivery.campaign_run import find_actor
from runner.workflow.failures import Failures
from runner.workflow.observer import warn
from runner.workflow.workspace.record_files import list_homes
from runner.workflow.workspace.record_union import RECORD_ENDINGS, lacks_records, unite_records
from runner.workflow.workspace.state_remote import NO_REMOTE, name_remote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from runner.ledger.files.comparison import LockfileDiff, SuppressionGain
    from runner.plan.approval import Approval
    from runner.workflow.scope import Scope


_NAMED = 2
"""The most campaigns named in a subject; more are counted."""
_BOT = "github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com"
_NOBODY = "runner", "runner@localhost"
_GUID = re.compile(r'"project_launch_guid":("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True, slots=True)
class PushedRecord:
    """A record that is committed.

    Attributes:
        recorded: the commit; None without a file to record.
        place: the branch and its remote, in words.
        has_files: whether there is anything to record.
        code: the exit code.
        refusal: the reason of the branch for not taking what the state remote has; None if it did.
        refs: the refs of state remotes, in words, that have the record.
    """

    recorded: Recorded | None
    place: str
    has_files: bool
    code: int
    refusal: str | None = None
    refs: tuple[str, ...] = ()


def fetch_record(scope: Scope, remote: str) -> Sequence[str]:
    """Bring what state remotes have into the work tree; return the files that changed, from the top.

    Raises:
        RunnerError: there is no repository, a remote cannot be reached, or the record cannot be read.
    """
    clone = _find_clone(scope.environ)
    with clone.hold():
        copies = RecordCopies(clone, scope, remote)
        return copies.fetch(clone.list_refs(copies.remote, f"{NAMESPACE}/*"))


def push_record(scope: Scope, remote: str, branch: str | None, *, is_pushed: bool) -> PushedRecord:
    """Commit the record of campaigns, and push it if `is_pushed`, with all that state remotes have.

    `branch` is None for the current one, or the job's. Decisions that a state remote lacks are brought there
    before. Where it has all that is new, a branch may refuse the push.

    Raises:
        RunnerError: there is no repository, or the record can be neither committed nor pushed.
    """
    clone = _find_clone(scope.environ)
    with clone.hold():
        current = clone.read_branch()
        if not is_pushed:
            return _record(clone, scope, current, _list_files(clone, scope), lambda one: one.commit())
        branch = branch or _choose_branch(current, scope.environ)
        copies, ref = RecordCopies(clone, scope, remote), f"refs/heads/{branch}"
        patterns = (f"{NAMESPACE}/*",) if copies.remote == remote else ()
        tips = clone.list_refs(remote, ref, *patterns)
        copies.fetch(tips if patterns else clone.list_refs(copies.remote, f"{NAMESPACE}/*"), branch=ref)
        files = _list_files(clone, scope)
        copies.share(files)
        try:
            pushed = _record(
                clone, scope, current, files, lambda one: one.push(remote, branch, tips.get(ref))
            )
        except RefusedPushError as error:
            if not all(map(copies.has, error.changes)):
                raise
            pushed = PushedRecord(Recorded(), "", has_files=True, code=0, refusal=error.reason)
        place = f"{branch} of {hide_credentials(remote)}"
        return replace(pushed, place=place, refs=copies.names)


def _record(
    clone: Clone,
    scope: Scope,
    current: str | None,
    files: Sequence[Path],
    commit: Callable[[Recorder], Recorded],
) -> PushedRecord:
    if not files:
        return PushedRecord(None, "", has_files=False, code=0)
    failures = Failures()
    failures.total = len(files)
    recorded = commit(_make_recorder(clone, scope.environ, current, files, failures))
    code = failures.find_exit_code(None if failures.is_total else 0)
    return PushedRecord(None if failures.is_total else recorded, "", has_files=True, code=code)


def _find_clone(environment: Mapping[str, str]) -> Clone:
    root = find_work_tree(Path.cwd())
    if root is None:
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
        named = name_remote(scope, None)
        self.remote = remote if named in (None, NO_REMOTE) else named
        self._refs: dict[str, StateRef] = {}
        self._found: dict[str, Snapshot] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The refs that were found, in words."""
        return tuple(map(str, self._refs.values()))

    def fetch(self, tips: Mapping[str, str], *, branch: str | None = None) -> list[str]:
        """Bring the lines of refs, of which `tips` has the commits, into the work tree; return the paths.

        `branch` is fetched with them if it is not here.

        Raises:
            RunnerError: they cannot be fetched, or read.
        """
        refs = {name: commit for name, commit in tips.items() if name.startswith(f"{NAMESPACE}/")}
        wanted = [name for name in tips if name == branch or name in refs]
        missing = [name for name in wanted if self._clone.objects.read(tips[name]) is None]
        if missing and (answer := self._clone.git.fetch(self.remote, *missing)).status:
            raise GitError(f"`git fetch` failed: {answer.reason}")
        changed = []
        for name, commit in sorted(refs.items()):
            target = read_target(name)
            ref = StateRef(self._clone.git, self.remote, target)
            snapshot = ref.read_at(commit) or ref.read()
            self._refs[target], self._found[target] = ref, snapshot
            places = _Places(self._scope.paths, target)
            for file, blob in sorted(snapshot.files.items()):
                place = places.find(file)
                if place is not None and self._bring(place, ref, ref.load(blob)):
                    changed.append(place.relative_to(self._clone.root).as_posix())
        return changed

    def share(self, files: Sequence[Path]) -> None:
        """Bring decisions to the refs that lack them, and launches to those that nobody holds.

        Raises:
            RunnerError: a ref cannot be read or moved.
        """
        for target, ref in self._refs.items():
            texts = [(file, *_read_named(file)) for file in files if name_target(file) == target]
            append(ref, partial(self._add, ref, texts), self._found[target])

    def _add(
        self, ref: StateRef, texts: Sequence[tuple[Path, str | None, str]], there: Mapping[str, str]
    ) -> Mapping[str, str]:
        found, is_free = dict(there), read_state(ref, Snapshot("", there)).holder is None
        for file, name, text in texts:
            # A campaign that is not on the ref is looked for at the service; a holder writes its own.
            is_asked = not file.name.endswith(LOCKFILE_SUFFIX) or (name in there and is_free)
            if name is None or not is_asked:
                continue
            # Of a file that cannot be read there is an error below.
            with suppress(SuppressionsError, LockfileError):
                known = None if name not in found else ref.load(found[name])
                found[name] = ref.store(self._unite(file, text, known))
        return found

    def has(self, change: RecordedFile) -> bool:
        """Return whether a ref has everything in a changed file."""
        file = self._clone.root / change.path
        ref, name = self._refs.get(name_target(file)), _name_on_ref(file, change.after)
        blob = None if ref is None or name is None else ref.read().files.get(name)
        if ref is None or blob is None:
            return False
        return not lacks_records(file, change.after, ref.load(blob), _secret_of(file, self._scope.environ))

    def _bring(self, place: Path, ref: StateRef, theirs: str) -> bool:
        try:
            ours = read_text(place) if place.is_file() else None
            after = self._unite(place, theirs, ours)
        except RunnerError as error:
            warn(f"{show_path(place)}: what {ref} has is not brought there: {error.message}")
            return False
        if after == ours:
            return False
        place.parent.mkdir(parents=True, exist_ok=True)
        save_text(place, after)
        return True

    def _unite(self, file: Path, text: str, known: str | None) -> str:
        """Return the one of two versions that has all of the other, or else their union."""
        secret = _secret_of(file, self._scope.environ)
        if known is None:
            return text
        if not lacks_records(file, text, known, secret):
            return known
        return unite_records(file, known, text, secret) if lacks_records(file, known, text, secret) else text


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
        if name.endswith((SUPPRESSIONS_SUFFIX, APPROVALS)):
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


def name_target(file: PurePath) -> str:
    """Return the name of the target that a record file is of."""
    ending = next(ending for ending in RECORD_ENDINGS if file.name.endswith(ending))
    return file.name.removesuffix(ending).rpartition(".")[2]


def _list_files(clone: Clone, scope: Scope) -> list[Path]:
    """Return the record files to commit: those below the scope's paths that git does not ignore."""
    paths = scope.paths or (DEFAULT_FOLDER,)
    return _leave_out_ignored(clone, [_place_below(clone.root, file) for file in _iterate_files(paths)])


def _make_recorder(
    clone: Clone,
    environ: Mapping[str, str],
    current: str | None,
    files: Sequence[Path],
    failures: Failures,
) -> Recorder:
    root = clone.root
    listed = clone.git.ask("config", "--get-regexp", r"^(user\.email|commit\.gpgsign)$").output
    config = dict(line.lower().split(" ", 1) for line in listed.splitlines() if " " in line)
    is_named = "user.email" in config or "GIT_COMMITTER_EMAIL" in environ
    return Recorder(
        clone,
        files,
        partial(_unite, root, environ),
        partial(_is_older, root, environ),
        partial(_describe, clone, environ),
        partial(_attempt, failures),
        {} if is_named else choose_author(environ),
        signs=config.get("commit.gpgsign") in ("true", "yes", "on", "1"),
        current=current,
    )


def _attempt(failures: Failures, file: Path, find: Callable[[], RecordedFile | None]) -> RecordedFile | None:
    """Return the recorded file; an error of one file does not stop the others."""

    def find_apart() -> RecordedFile | None:
        try:
            return find()
        except SuppressionsError as error:
            raise CampaignError(error.message, hint=error.hint) from None

    return failures.attempt_file(file, None, find_apart)


def _unite(root: Path, environment: Mapping[str, str], path: str, ours: str, theirs: str) -> str:
    return unite_records(root / path, ours, theirs, _secret_of(root / path, environment))


def _is_older(root: Path, environment: Mapping[str, str], path: str, ours: str, theirs: str) -> bool:
    return lacks_records(root / path, theirs, ours, _secret_of(root / path, environment))


def _secret_of(file: Path, environment: Mapping[str, str]) -> Callable[[], str | None]:
    """Return a function that returns the secret of a record file's target."""
    return lambda: find_secret(file, name_target(file), environment)


def _describe(clone: Clone, environment: Mapping[str, str], tip: str, changes: Sequence[RecordedFile]) -> str:
    lockfiles = [one for one in changes if one.path.endswith(LOCKFILE_SUFFIX)]
    advances = [Advance.read(clone.root / one.path, one.before, one.after) for one in lockfiles]
    known = _find_recorded(clone, tip) if any(one.list_fresh() for one in advances) else set()
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
    return write_message(gains, suppressions, approvals, clone.read_head(), environment)


def _iterate_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield record files for any target: lockfiles and suppressions of campaign files or folders.

    Campaigns are not read, since the record is kept whatever they contain now.
    """
    for path in paths:
        if path.is_dir():
            for file in sorted(one for ending in RECORD_ENDINGS for one in path.rglob(f"*{ending}")):
                if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
                    yield file
        else:
            yield from (
                file
                for file in sorted(path.parent.iterdir())
                if file.name.startswith(f"{path.stem}.") and file.name.endswith(LOCKFILE_SUFFIX)
            )
    for home in list_homes(paths):
        yield from sorted(home.glob(f"*{SUPPRESSIONS_SUFFIX}"))
        yield from find_books(home)


def _place_below(root: Path, file: Path) -> Path:
    real = file.resolve()
    if not real.is_relative_to(root):
        raise UsageError(f"{show_path(file)} is outside the git repository of the current folder")
    return real


def _leave_out_ignored(clone: Clone, files: Sequence[Path]) -> list[Path]:
    """Return the files not ignored by git, which ignores the sandbox's lockfiles."""
    names = [file.relative_to(clone.root).as_posix() for file in dict.fromkeys(files)]
    if not names:
        return []
    listed = "".join(f"{name}\0" for name in names)
    ignored = clone.git.ask("check-ignore", "-z", "--stdin", text=listed).output.split("\0")
    return [clone.root / name for name in names if name not in ignored]


def _choose_branch(current: str | None, environment: Mapping[str, str]) -> str:
    if current is not None:
        return current
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


def _find_recorded(clone: Clone, tip: str) -> set[str]:
    """Return the guids of all launches in the lockfiles of a commit."""
    texts = (clone.objects.load(blob) or "" for blob in clone.list_files(tip, (LOCKFILE_SUFFIX,)).values())
    return {normalize_guid(json.loads(guid)) for text in texts for guid in _GUID.findall(text)}


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
        key = _find_key(root / change.path, name_target(PurePath(change.path)), environment)
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
