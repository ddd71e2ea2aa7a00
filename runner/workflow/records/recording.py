"""Commits of record files onto a branch of a remote, from any state of the clone.

Git itself commits them, with its filters, its author and its signature. Where the clone is at the tip of
the branch, that is a commit like a person's. Otherwise a linked work tree stands at the tip: so it works in
a shallow clone and on a detached HEAD, leaves the user's own changes alone, and needs no merge commit if the
branch has moved on. Changes of both sides are united.

A commit's message says what is new, by which run, and who approved it. Launches are new if no lockfile on the
branch has them, not even one of the campaign's former name.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from runner.atomic_write import save_text
from runner.errors import CampaignError, SuppressionsError
from runner.git.clone import Clone, read_text
from runner.git.command import GitError, hide_credentials, push_commit
from runner.github.pull_requests import RECORD_TRAILER
from runner.ledger.files.comparison import Secrets, merge_files, name_target
from runner.ledger.files.lockfile import LOCKFILE_SUFFIX, parse_lockfile
from runner.ledger.files.suppressions import read_approvals
from runner.ledger.fingerprint import TargetKey
from runner.ledger.locks.campaign_lock import find_run_url
from runner.ledger.model import APPROVALS_SUFFIX
from runner.plan.approval import find_latest
from runner.service.target import find_key_variable, read_old_state_key, read_state_key, read_targets
from runner.source.diagnostic import ProblemError
from runner.source.normalize import normalize_guid
from runner.wording import count_words
from runner.workflow.campaigns import find_targets_file
from runner.workflow.delivery.campaign_run import find_actor
from runner.workflow.failures import Failures
from runner.workflow.workspace.folders import make_state_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.git.clone import Clone
    from runner.ledger.files.suppressions import Approval


TRIES = 8
_BOT = "github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com"
_NOBODY = "runner", "runner@localhost"
"""Authors of commits in clones that have none configured."""
_NO_IDENTITY = "auto-detection is disabled"
_PARENT = re.compile(rb"^parent (\w+)$", re.MULTILINE)
_QUIETLY = (
    *("--literal-pathspecs", "-c", "core.hooksPath=/dev/null", "-c", "maintenance.auto=false"),
    *("-c", "gc.auto=0", "-c", "i18n.commitEncoding=UTF-8"),
)
"""The user's hooks are meant for other commits."""
_LISTED = ("--pathspec-from-file=-", "--pathspec-file-nul")
_NAMED = 2
"""The most campaigns named in a subject; more are counted."""
_GUID = re.compile(r'"project_launch_guid":("(?:[^"\\]|\\.)*")')


class RefusedPushError(GitError):
    """A branch that does not take the record; `reason` is why, and `changes` is what it lacks."""

    def __init__(self, place: str, reason: str, changes: Sequence[RecordedFile]) -> None:
        super().__init__(
            f"{place} takes no push from here ({reason}), and what is new is nowhere else",
            hint="have a ref keep the record (targets.yaml: `state_remote: origin`; `runner ci start`), "
            "or let this user, or the job's token, push there, and meet the branch's rules, such as signed "
            "commits (git's commit.gpgSign and user.signingKey). The files here have everything: keep them",
        )
        self.reason = reason
        self.changes = changes


@dataclass(frozen=True, slots=True)
class Recorded:
    """The outcome of recording.

    Attributes:
        has_files: whether there is anything to record.
        is_failed: true if no file could be recorded.
        code: the exit code.
        commit: the commit; None if nothing is new.
        message: the commit's.
        is_followed: false if the clone's own branch should have moved on to the commit, and could not.
        place: the branch and its remote, in words; empty without a push.
        refusal: the reason of the branch for not taking what the state remote has; None if it did.
        refs: the refs of state remotes, in words, that have the record.
    """

    has_files: bool = True
    is_failed: bool = False
    code: int = 0
    commit: str | None = None
    message: str = ""
    is_followed: bool = True
    place: str = ""
    refusal: str | None = None
    refs: tuple[str, ...] = ()


def _unstage(clone: Clone, names: Sequence[str]) -> None:
    if names:
        clone.git.ask(*_QUIETLY, "reset", "--quiet", *_LISTED, text="\0".join(names))


@dataclass(frozen=True, slots=True)
class Recorder:
    """A recorder of one clone's files.

    Attributes:
        clone: the clone.
        files: existing files to record, below the clone's top.
        environ: with CI's variables and the targets' keys.
        failures: gets files that cannot be recorded.
        current: the branch that is checked out; None for a detached HEAD.
    """

    clone: Clone
    files: Sequence[Path]
    environ: Mapping[str, str]
    failures: Failures
    current: str | None
    _staged: set[str] = field(default_factory=set, init=False)

    @classmethod
    @contextmanager
    def open(
        cls, clone: Clone, files: Sequence[Path], environ: Mapping[str, str], current: str | None
    ) -> Iterator[Recorder]:
        """Yield a recorder of the files that git does not ignore.

        New ones are staged, which tells; those that are not committed are taken out again.
        """
        names = [file.relative_to(clone.root).as_posix() for file in dict.fromkeys(files)]
        new = [name for name in names if clone.objects.find("HEAD", name) is None]
        ignored = set[str]()
        if new:
            added = clone.git.ask(*_QUIETLY, "add", "--ignore-errors", *_LISTED, text="\0".join(new))
            if added.status:
                listed = clone.git.ask("check-ignore", "-z", "--stdin", text="\0".join(new)).output
                ignored.update(filter(None, listed.split("\0")))
            if added.status and not ignored:
                raise GitError(f"`git add` failed: {added.reason}")
        kept = [clone.root / name for name in names if name not in ignored]
        failures = Failures()
        failures.total = len(kept)
        recorder = cls(clone, kept, environ, failures, current)
        try:
            yield recorder
        finally:
            left = [name for name in new if name not in ignored | recorder._staged]
            _unstage(clone, [name for name in left if clone.objects.find("HEAD", name) is None])

    def commit(self) -> Recorded:
        """Commit onto the current branch or a detached HEAD, without a push."""
        head = self.clone.read_head()
        changes, message = self._prepare(head)
        return Recorded(commit=self._commit(changes, message) if changes else None, message=message)

    def push(self, remote: str, branch: str, tip: str | None) -> Recorded:
        """Commit onto a remote's branch, which was at `tip` just now; None if it was not there.

        Raises:
            RefusedPushError: the branch does not take it.
            GitError: the remote cannot be reached.
        """
        is_current = self.current in (None, branch)
        if is_current and tip is not None:
            self._take_back(tip)
        reason, changes = "others pushed to it all the time", list[RecordedFile]()
        for _ in range(TRIES):
            head = self.clone.read_head()
            parent = tip or head
            changes, message = self._prepare(parent)
            if not changes:
                self._follow(parent, is_current=is_current)
                return Recorded()
            if is_current and parent == head:
                commit = self._commit(changes, message)
            else:
                commit = self._commit_beside(parent, changes, message)
            answer = push_commit(self.clone.git, remote, commit, f"refs/heads/{branch}")
            if answer.is_accepted:
                is_followed = self._follow(commit, is_current=is_current)
                return Recorded(commit=commit, message=message, is_followed=is_followed)
            if self.clone.read_head() == commit:
                self.clone.git.run("reset", "--quiet", "--soft", parent)
                _unstage(self.clone, [change.path for change in changes])
            if not answer.is_overtaken:
                reason = answer.reason
                break
            tip = self.clone.fetch(remote, branch)
        raise RefusedPushError(f"{branch} of {hide_credentials(remote)}", reason, changes)

    def _take_back(self, tip: str) -> None:
        """Undo commits of runs that ended before their push; their files stay, to be recorded anew."""
        git, head = self.clone.git, self.clone.objects.read("HEAD^{commit}")
        while head is not None and head.id != tip and f"\n{RECORD_TRAILER}: ".encode() in head.data:
            parents = _PARENT.findall(head.data.partition(b"\n\n")[0])
            before = self.clone.objects.read(parents[0].decode()) if len(parents) == 1 else None
            command = ("rev-list", "--max-count=1", head.id, "--not", "--remotes", tip)
            if before is None or git.ask(*command).output.strip() != head.id:
                return  # some remote has it
            git.run("reset", "--quiet", "--soft", before.id)
            head = before

    def _prepare(self, tip: str) -> tuple[list[RecordedFile], str]:
        """Put what a commit on the tip needs into the work tree; return the changes, and its message."""
        head = self.clone.read_head()
        changes = self._collect(lambda file: self._find_change(file, head, tip))
        if not changes:
            return [], ""
        message = describe_changes(self.clone, self.environ, self.files, tip, changes)
        self._save(changes)
        return changes, message

    def _collect(self, find: Callable[[Path], RecordedFile | None]) -> list[RecordedFile]:
        """Return what is found of each file; an error of one file does not stop the others."""

        def find_apart(file: Path) -> RecordedFile | None:
            try:
                return find(file)
            except SuppressionsError as error:
                raise CampaignError(error.message, hint=error.hint) from None

        found = [self.failures.attempt_file(file, None, partial(find_apart, file)) for file in self.files]
        return [change for change in found if change is not None]

    def _find_change(self, file: Path, head: str, tip: str) -> RecordedFile | None:
        path, ours = file.relative_to(self.clone.root).as_posix(), read_text(file)
        base, before = self.clone.read(head, path), self.clone.read(tip, path)
        after = merge_files(file, base, ours, before, secrets_of(file, self.environ))
        return None if after == before else RecordedFile(path, ours, before, after)

    def _save(self, changes: Sequence[RecordedFile]) -> None:
        """Put what is to be committed into the work tree."""
        for change in changes:
            # A file that has all of it may be written by a run at this moment.
            if change.here != change.after:
                save_text(self.clone.root / change.path, change.after)

    def _commit_beside(self, parent: str, changes: Sequence[RecordedFile], message: str) -> str:
        """Return a new commit after another one, made in a linked work tree without files."""
        git, tree = self.clone.git, make_state_folder() / "record"
        # A run that was killed has left it.
        shutil.rmtree(tree, ignore_errors=True)
        git.run(*_QUIETLY, "worktree", "add", "--force", "--detach", "--no-checkout", str(tree), parent)
        try:
            place = (tree / ".git").read_text(encoding="utf-8").partition(": ")[2].strip()
            # With the files and attributes of this work tree.
            settings = {"GIT_DIR": place, "GIT_WORK_TREE": str(self.clone.root)}
            paths = "\0".join(change.path for change in changes)
            git.run(*_QUIETLY, "add", "--force", *_LISTED, text=paths, environment=settings)
            self._commit(changes, message, settings)
            return git.run("rev-parse", "HEAD", environment=settings)
        finally:
            git.ask("worktree", "remove", "--force", str(tree))

    def _commit(
        self, changes: Sequence[RecordedFile], message: str, settings: Mapping[str, str] | None = None
    ) -> str:
        """Commit files of the work tree, and nothing else; return what HEAD is now."""
        git, paths = self.clone.git, (change.path for change in changes)
        options = ("--only", "--quiet", "--no-verify", "--allow-empty", "--cleanup=verbatim", "--file=-")
        # Git would make up a name from the machine's.
        command = (*_QUIETLY, "-c", "user.useConfigOnly=true", "commit", *options, "--", *paths)
        answer = git.ask(*command, text=message, environment=settings)
        if answer.status and _NO_IDENTITY in answer.complaint:
            if git.ask("config", "--type=bool", "user.useConfigOnly").output.strip() == "true":
                raise GitError(
                    f"`git commit` failed: {answer.reason}",
                    hint="git config user.name NAME; git config user.email ADDRESS",
                )
            name, address = _BOT if self.environ.get("GITHUB_ACTIONS") == "true" else _NOBODY
            people = {f"GIT_{one}_NAME": name for one in ("AUTHOR", "COMMITTER")}
            people |= {f"GIT_{one}_EMAIL": address for one in ("AUTHOR", "COMMITTER")}
            answer = git.ask(*command, text=message, environment={**people, **(settings or {})})
        if answer.status:
            raise GitError(f"`git commit` failed: {answer.reason}")
        return self.clone.read_head()

    def _follow(self, commit: str, *, is_current: bool) -> bool:
        """Move the clone on to a commit unless user changes would be lost; return whether it moved.

        Files that have changed here, and are in the commit, get what it says: after a run that was killed
        after its push, or recording on another machine, they would stop `git pull`.
        """
        head = self.clone.read_head()
        if not is_current or head == commit:
            return True  # another branch than the recorded one has nothing to follow
        changes = self._collect(lambda file: self._find_change_to(file, head, commit))
        if not changes:
            return True
        self._save(changes)
        # Staged in any case, so that `git stash` takes it: a file in the way would stop `git pull`.
        self._staged.update(change.path for change in changes)
        staged = self.clone.git.ask("update-index", "--add", "--", *sorted(self._staged))
        # Keeps local changes, or else does nothing.
        merged = self.clone.git.ask("merge", "--quiet", "--ff-only", "--no-verify", commit)
        return not staged.status and not merged.status

    def _find_change_to(self, file: Path, head: str, commit: str) -> RecordedFile | None:
        """Return a commit's version of a file that has changed here; None if there is none."""
        path, ours = file.relative_to(self.clone.root).as_posix(), read_text(file)
        after = self.clone.read(commit, path)
        if after is None or self.clone.read(head, path) == ours:
            return None
        return RecordedFile(path, ours, None, after)


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A file that a commit changes.

    Attributes:
        path: from the repository's top, with slashes.
        here: its text in the work tree.
        before: its text on the branch; None if it is not there.
        after: its text in the commit.
    """

    path: str
    here: str
    before: str | None
    after: str


class _Gain(NamedTuple):
    """Launches of a lockfile that the branch lacks: texts by message."""

    campaign: str
    target: str
    texts: Counter[str]


def describe_changes(
    clone: Clone,
    environment: Mapping[str, str],
    files: Collection[Path],
    tip: str,
    changes: Sequence[RecordedFile],
) -> str:
    """Return the message of a commit of changes that comes after `tip`; `files` are those on record."""
    before = (clone.read(tip, file.relative_to(clone.root).as_posix()) for file in files)
    known = {normalize_guid(json.loads(guid)) for text in before for guid in _GUID.findall(text or "")}
    lockfiles = [one for one in changes if one.path.endswith(LOCKFILE_SUFFIX)]
    gains = [_find_gain(clone.root / one.path, one.after, known) for one in lockfiles]
    approvals = _list_approvals(clone, environment, files, changes, gains)
    trailers = [
        *_list_trailers(clone.read_head(), environment),
        *_list_approvers(approvals, environment),
    ]
    return "\n".join([_write_subject(changes, gains, approvals), "", *trailers, ""])


def _find_gain(file: Path, text: str, known: set[str]) -> _Gain:
    """Return what a lockfile adds to `known` launches, and add them there."""
    lockfile = parse_lockfile(file, text).lockfile
    gain = _Gain(lockfile.campaign, lockfile.target, Counter())
    for launch in lockfile.launches:
        if normalize_guid(launch.project_launch_guid) not in known:
            gain.texts[launch.message] += len(launch.recipients)
    # A moved campaign may have two lockfiles in one commit.
    known.update(normalize_guid(launch.project_launch_guid) for launch in lockfile.launches)
    return gain


def _list_approvals(
    clone: Clone,
    environment: Mapping[str, str],
    files: Collection[Path],
    changes: Sequence[RecordedFile],
    gains: Sequence[_Gain],
) -> list[Approval]:
    """Return the approvals of what was sent, and those that are new.

    Only those sealed with the state key count, since anybody can write a name into a file.
    """
    found: dict[tuple[str, ...], Approval] = {}
    before = {clone.root / one.path: one.before or "" for one in changes}
    for file in (file for file in files if file.name.endswith(APPROVALS_SUFFIX)):
        secret = secrets_of(file, environment)().present
        if secret is None:
            continue
        key = TargetKey.of(name_target(file), secret)
        approvals = read_approvals(file, file.read_text(encoding="utf-8", errors="replace"), key)[0]
        if file in before:
            known = {one.identity for one in read_approvals(file, before[file], key)[0]}
            found |= {one.identity: one for one in approvals if one.identity not in known}
        for gain in (one for one in gains if one.target == key.target):
            latest = find_latest(gain.campaign, gain.target, approvals)
            found |= {latest[name].identity: latest[name] for name in gain.texts if name in latest}
    return list(found.values())


def _write_subject(
    changes: Sequence[RecordedFile], gains: Sequence[_Gain], approvals: Sequence[Approval]
) -> str:
    texts = sum(gain.texts.total() for gain in gains)
    if gains:
        told = [gain for gain in gains if gain.texts] or gains
        place = _name_place((gain.campaign, gain.target) for gain in told)
        # Without texts: after a request to be forgotten, or when a file merged by git is repaired.
        said = f"Record {count_words(texts, 'text')} of {place}"
        return said if texts else f"Bring the record of {place} up to date"
    if approvals:
        what = "denial" if all(one.denied_by for one in approvals) else "approval"
        place = _name_place((one.request.campaign, one.request.target) for one in approvals)
        return f"Record the {what} of {place}"
    targets = _join_names({name_target(PurePosixPath(one.path)) for one in changes}, "targets")
    return f"Record decisions on {targets}"


def _name_place(places: Iterable[tuple[str, str]]) -> str:
    campaigns, targets = map(set, zip(*places, strict=True))
    return f"{_join_names(map(_one_line, campaigns), 'campaigns')} on {_join_names(targets, 'targets')}"


def _list_trailers(commit: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield trailers, which `git log --format='%(trailers:key=Run)'` finds."""
    yield f"{RECORD_TRAILER}: {commit}"
    url = find_run_url(environment)
    if url:
        yield f"Run: {_one_line(url)}"
    actor = find_actor(environment)
    if actor:
        yield f"Triggered-By: {_one_line(actor)}"


def _list_approvers(approvals: Sequence[Approval], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield trailers that name the approvers, from approvals and from `runner ci approve` in this job."""
    given = environment.get("RUNNER_APPROVED_BY", "").split(",")
    people = set(filter(None, map(str.strip, given))).union(*(one.approved_by for one in approvals))
    deniers = {name for approval in approvals for name in approval.denied_by}
    yield from (f"Approved-By: {_one_line(name)}" for name in sorted(people))
    yield from (f"Denied-By: {_one_line(name)}" for name in sorted(deniers))


def _join_names(names: Iterable[str], many: str) -> str:
    ordered = sorted(names)
    return " and ".join(ordered) if len(ordered) <= _NAMED else f"{len(ordered)} {many}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def secrets_of(file: Path, environment: Mapping[str, str]) -> Callable[[], Secrets]:
    """Return a function that returns the state keys of a record file's target.

    Campaigns near the file have the `targets.yaml`.
    """

    def find() -> Secrets:
        try:
            targets = read_targets(find_targets_file((file,)), environment)
        except ProblemError:
            return Secrets(None)
        variable = find_key_variable(name_target(file), targets)
        return Secrets(read_state_key(environment, variable), read_old_state_key(environment))

    return find
