"""Suppressions that other machines have recorded on a git remote, before a run and while it sends.

Pauses, opt-outs entered by hand, decisions and forgotten people are carried by git alone: the service knows
nothing of them. They are on the state remote, and on branches; a clone that was not updated lacks them.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import RunnerError
from runner.git.command import Git, GitError, hide_credentials
from runner.git.objects import ObjectReader
from runner.github.job import find_git_settings
from runner.ledger.model import SUPPRESSIONS_SUFFIX
from runner.service.target import SANDBOX
from runner.source.storage import repository_root
from runner.workflow.workspace.state_remote import NO_REMOTE, ORIGIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.ledger.database import Ledger
    from runner.workflow.workspace.workspace import Workspace

POLL_S = 5.0
"""Time between two looks during a run, in seconds."""
_TIMEOUT_S = 20.0


class RecordRemote:
    """A target's suppressions on its state remote and a remote's branches: the default and the current one.

    `name` is the remote whose branches are read; None for `origin`.
    """

    def __init__(self, workspace: Workspace, name: str | None) -> None:
        self._files, self._state = workspace.files, workspace.state
        self._root = repository_root(Path.cwd())
        self._name = name or ORIGIN
        self._git = Git(self._root, timeout_s=_TIMEOUT_S, settings=find_git_settings(workspace.environ))
        is_clone = workspace.target.name != SANDBOX and (self._root / ".git").exists()
        self._has_branches = self._name != NO_REMOTE and is_clone and self._is_known()
        # Commits that were read.
        self._seen: set[str] = set()

    def _is_known(self) -> bool:
        if self._state is not None and self._state.ref.remote == self._name:
            return True
        with self._explaining():
            return not self._git.ask("remote", "get-url", "--", self._name).status

    def absorb(self, ledger: Ledger, *, is_first: bool = True) -> None:
        """Add the remote's suppressions to the ledger; files of the work tree stay as they are.

        At first, what the state remote has is in the ledger already.
        """
        with self._explaining():
            is_shared = self._state is not None and not is_first
            texts = self._state.read(SUPPRESSIONS_SUFFIX, is_new=True) if is_shared and self._state else {}
            tips = self._list_tips() if self._has_branches else {}
            new = {ref: tip for ref, tip in tips.items() if tip not in self._seen}
            texts |= self._read_branches(new)
        self._files.absorb(ledger, texts)
        self._seen.update(new.values())

    @contextmanager
    def watching(self, ledger: Ledger) -> Iterator[None]:
        """Look for new suppressions every `POLL_S` while the block lasts; failures are tried again."""
        if self._state is None and not self._has_branches:
            yield
            return
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

    def _read_branches(self, tips: Mapping[str, str]) -> dict[Path, str]:
        paths = [(Path.cwd() / place).resolve() for place in self._files.places]
        paths = [path.relative_to(self._root) for path in paths if path.is_relative_to(self._root)]
        objects = ObjectReader(self._git) if self._state is None else self._state.ref.objects
        # Its process starts if there is a file to read, as git would write it into the work tree.
        files = ObjectReader(self._git, is_filtered=True)
        found = {}
        for ref, tip in tips.items():
            if objects.list_folder(tip) is None:
                answer = self._git.fetch(self._name, ref)
                if answer.status and objects.list_folder(tip) is None:
                    raise GitError(answer.reason)
            for path in map(Path.as_posix, paths):
                blob = objects.find(tip, path)
                text = None if blob is None else files.load(blob, path)
                if text is not None:
                    found[Path(f"{self._name}:{ref}", path)] = text
        return found

    def _list_tips(self) -> dict[str, str]:
        """Return the commits of the branches that may have the record, by ref."""
        if self._state is not None and self._state.ref.remote == self._name:
            # Looked for together with the ref, just now.
            tips, refs = self._state.ref.tips, ["HEAD"]
        else:
            branch = self._git.ask("symbolic-ref", "--quiet", "HEAD").output.strip()
            refs = ["HEAD", branch] if branch else ["HEAD"]
            tips = self._git.list_refs(self._name, *refs)
        return {ref: tips[ref] for ref in refs if ref in tips}

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except GitError as error:
            raise GitError(
                f"the record on the git remote {hide_credentials(self._name)} cannot be read, and this clone "
                f"may lack a pause or an opt-out: {error.message.rstrip('.')}. Nothing was sent",
                hint="check git and the network; where there is no way to the remote, `--record-remote none` "
                "goes by this machine's files",
            ) from None
