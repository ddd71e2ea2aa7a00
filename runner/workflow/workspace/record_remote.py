"""Suppressions that other machines have recorded on a git remote, before a run and while it sends.

Pauses, opt-outs entered by hand, decisions and forgotten people are carried by git alone: the service knows
nothing of them. They are on the state remote, and on branches; a clone that was not updated lacks them.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import RunnerError
from runner.git.command import Git, GitError, hide_credentials
from runner.git.objects import ObjectReader
from runner.github.job import find_git_settings
from runner.ledger.files.suppressions import BookText
from runner.service.target import SANDBOX
from runner.source.storage import repository_root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.ledger.database import Ledger
    from runner.workflow.workspace.workspace import Workspace

NO_REMOTE = "none"
"""The name that has no remote asked."""
POLL_S = 5.0
"""Time between two looks during a run, in seconds."""
_TIMEOUT_S = 20.0


@dataclass(slots=True)
class RecordRemote:
    """A target's suppressions on its state remote and a remote's branches.

    Attributes:
        workspace: that of the run.
        name: the remote whose default branch is read, and the current one; None for none.
    """

    workspace: Workspace
    name: str | None
    _git: Git = field(init=False)
    _root: Path = field(init=False)
    _seen: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._root = repository_root(Path.cwd())
        settings = find_git_settings(self.workspace.environ)
        self._git = Git(self._root, timeout_s=_TIMEOUT_S, settings=settings)

    @classmethod
    def find(cls, workspace: Workspace, name: str | None) -> RecordRemote | None:
        """Return what can be looked at; None if there is nothing.

        `name` is None for `origin`.

        Raises:
            GitError: git cannot be run.
        """
        state = workspace.state
        remote = cls(workspace, name or "origin")
        is_clone = (remote._root / ".git").exists()
        if remote.name == NO_REMOTE or workspace.target.name == SANDBOX or not is_clone:
            remote.name = None
        elif state is None or state.ref.remote != remote.name:
            try:
                if remote._git.ask("remote", "get-url", "--", str(remote.name)).status:
                    remote.name = None
            except GitError as error:
                raise _describe_failure(str(remote.name), error) from None
        return None if remote.name is None and state is None else remote

    def absorb(self, ledger: Ledger, *, is_first: bool = True) -> None:
        """Add the remote's suppressions to the ledger; files of the work tree stay as they are.

        At first, what the state remote has is in the ledger already.

        Raises:
            GitError: the remote cannot be asked.
            LedgerError: the ledger cannot be written, or its key is missing.
            SuppressionsError: a file's signature is invalid.
        """
        state = self.workspace.state
        try:
            added = {} if state is None or is_first else state.read_added()
            texts = [BookText(file, text) for file, text in added.items()]
            texts += self._read_branches()
        except GitError as error:
            raise _describe_failure(str(self.name), error) from None
        for text in texts:
            self.workspace.files.absorb_text(ledger, text)
        if state is not None:
            state.note_known(added)

    @contextmanager
    def watching(self, ledger: Ledger) -> Iterator[None]:
        """Look for new suppressions every `POLL_S` while the block lasts; failures are tried again."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(POLL_S):
                with suppress(RunnerError):
                    self.absorb(ledger, is_first=False)

        thread = threading.Thread(target=watch, name="record", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _read_branches(self) -> Iterator[BookText]:
        """Yield the texts of files in commits that were not read before."""
        if self.name is None:
            return
        paths = [(Path.cwd() / place).resolve() for place in self.workspace.files.places]
        paths = [path.relative_to(self._root) for path in paths if path.is_relative_to(self._root)]
        state = self.workspace.state
        objects = ObjectReader(self._git) if state is None else state.ref.objects
        # Its process starts if there is a file to read, as git would write it into the work tree.
        files = ObjectReader(self._git, is_filtered=True)
        for ref, tip in self._list_tips(self.name).items():
            if tip in self._seen:
                continue
            if objects.list_folder(tip) is None:
                answer = self._git.fetch(self.name, ref)
                if answer.status and objects.list_folder(tip) is None:
                    raise GitError(answer.reason)
            for path in map(Path.as_posix, paths):
                blob = objects.find(tip, path)
                text = None if blob is None else files.load(blob, path)
                if text is not None:
                    yield BookText(Path(f"{self.name}:{ref}", path), text)
            self._seen.add(tip)

    def _list_tips(self, name: str) -> dict[str, str]:
        """Return the commits of the branches that may have the record, by ref."""
        state = self.workspace.state
        if state is not None and state.ref.remote == name:
            # Looked for together with the ref, just now.
            return {} if state.ref.head is None else {"HEAD": state.ref.head}
        branch = self._git.ask("symbolic-ref", "--quiet", "HEAD").output.strip()
        refs = ["HEAD", branch] if branch else ["HEAD"]
        return {ref: tip for ref, tip in self._git.list_refs(name, *refs).items() if ref in refs}


def _describe_failure(name: str, error: GitError) -> GitError:
    return GitError(
        f"the record on the git remote {hide_credentials(name)} cannot be read, and this clone may lack a "
        f"pause or an opt-out: {error.message.rstrip('.')}. Nothing was sent",
        hint="check git and the network; where there is no way to the remote, `--record-remote none` goes by "
        "this machine's files",
    )
