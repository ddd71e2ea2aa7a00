"""Suppressions that other machines have recorded on a git remote.

Pauses, opt-outs entered by hand, decisions and forgotten people are carried by git alone: the service knows
nothing of them. A clone that was not updated lacks them, and so does every clone while they wait on the
branch for records to be merged.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import RunnerError
from runner.git.clone import Clone
from runner.git.command import Git, GitError, find_work_tree, hide_credentials
from runner.git.recording import ASIDE
from runner.github.job import find_git_settings
from runner.ledger.files.suppressions import BookText
from runner.service.target import SANDBOX
from runner.source.storage import repository_root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.ledger.database import Ledger
    from runner.workflow.workspace.record_files import RecordFiles
    from runner.workflow.workspace.workspace import Workspace

NO_REMOTE = "none"
"""The name that has no remote asked."""
POLL_S = 5.0
"""Time between two looks during a run, in seconds."""
_TIMEOUT_S = 20.0


@dataclass(slots=True)
class RecordRemote:
    """A remote with the record of a target, as its default branch, the current one and `ASIDE` have it."""

    clone: Clone
    name: str
    files: RecordFiles
    _seen: set[str] = field(default_factory=set, init=False)

    @classmethod
    def find(cls, workspace: Workspace, name: str | None) -> RecordRemote | None:
        """Return a remote of the current folder's repository; None if there is none, or none is to be asked.

        `name` is None for `origin`.

        Raises:
            GitError: git cannot be run.
        """
        name = name or "origin"
        is_clone = (repository_root(Path.cwd()) / ".git").exists()
        if name == NO_REMOTE or workspace.target.name == SANDBOX or not is_clone:
            return None
        try:
            root = find_work_tree(Path.cwd())
            git = (
                None
                if root is None
                else Git(root, timeout_s=_TIMEOUT_S, settings=find_git_settings(workspace.environ))
            )
            if root is None or git is None or git.ask("remote", "get-url", "--", name).status:
                return None
        except GitError as error:
            raise _describe_failure(name, error) from None
        return cls(Clone(git, root), name, workspace.files)

    def absorb(self, ledger: Ledger) -> None:
        """Add the remote's suppressions to the ledger; files of the work tree stay as they are.

        Raises:
            GitError: the remote cannot be asked.
            LedgerError: the ledger cannot be written, or its key is missing.
            SuppressionsError: a file's signature is invalid.
        """
        try:
            texts = [*self._read_texts()]
        except GitError as error:
            raise _describe_failure(self.name, error) from None
        for text in texts:
            self.files.absorb_text(ledger, text)

    @contextmanager
    def watching(self, ledger: Ledger) -> Iterator[None]:
        """Look for new suppressions every `POLL_S` while the block lasts; failures are tried again."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(POLL_S):
                with suppress(RunnerError):
                    self.absorb(ledger)

        thread = threading.Thread(target=watch, name="record", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _read_texts(self) -> Iterator[BookText]:
        """Yield the texts of files in commits that were not read before."""
        paths = [(Path.cwd() / place).resolve() for place in self.files.places]
        paths = [path.relative_to(self.clone.root) for path in paths if path.is_relative_to(self.clone.root)]
        for ref, commit in self._list_tips().items():
            if commit in self._seen:
                continue
            self.clone.bring(self.name, commit)
            for path in paths:
                text = self.clone.read(commit, path.as_posix())
                if text is not None:
                    yield BookText(Path(f"{self.name}:{ref}", path), text)
            self._seen.add(commit)

    def _list_tips(self) -> dict[str, str]:
        """Return the commits of the branches that may have the record, by ref."""
        branch = self.clone.git.ask("symbolic-ref", "--quiet", "HEAD").output.strip()
        refs = dict.fromkeys(["HEAD", f"refs/heads/{ASIDE}", *([branch] if branch else [])])
        listed = self.clone.git.run("ls-remote", "--", self.name, *refs)
        found = (line.split("\t") for line in listed.splitlines())
        return {ref: commit for commit, ref in found if ref in refs}


def _describe_failure(name: str, error: GitError) -> GitError:
    return GitError(
        f"the record on the git remote {hide_credentials(name)} cannot be read, and this clone may lack a "
        f"pause or an opt-out: {error.message.rstrip('.')}. Nothing was sent",
        hint="check git and the network; where there is no way to the remote, `--record-remote none` goes by "
        "this machine's files",
    )
