"""Runs git, which is on every machine that keeps campaigns in a repository; the one door to it."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import RunnerError

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S = 120.0
_ADDRESS = re.compile(r"(?<=://)\S+")
_QUERY = re.compile(r"\?.*?(?=['\":;,.)]*$)")
_SETTINGS = {
    # Nobody is there to answer.
    "GIT_TERMINAL_PROMPT": "0",
    # What git says is read here.
    "LC_ALL": "C",
    # Reading takes no locks that another git command would trip over.
    "GIT_OPTIONAL_LOCKS": "0",
}


class GitError(RunnerError):
    """Git is not there, or could not do what was asked of it."""


@dataclass(frozen=True, slots=True)
class GitAnswer:
    """What a git command said.

    Attributes:
        status: its exit code; 0 is success.
        output: its standard output.
        complaint: its standard error, without credentials.
    """

    status: int
    output: str
    complaint: str

    @property
    def reason(self) -> str:
        """What was wrong, in one line: the lines that git marks as such, else the last one."""
        lines = [line.strip() for line in self.complaint.splitlines() if line.strip()]
        marked = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "!"))]
        # A process that a signal has ended has its number as a negative status.
        end = f"exit code {self.status}" if self.status >= 0 else f"ended by signal {-self.status}"
        return "; ".join(marked or lines[-1:]) or end


class Git:
    """Git commands in one repository.

    Args:
        folder: in the repository's work tree.
        timeout_s: for how long one command may run, in seconds.
        settings: variables that every command gets beside this process's own.
    """

    def __init__(
        self, folder: Path, *, timeout_s: float = TIMEOUT_S, settings: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._timeout_s = timeout_s
        self._settings = {**_SETTINGS, **(settings or {})}

    def ask(
        self, *arguments: str, text: str | None = None, environment: Mapping[str, str] | None = None
    ) -> GitAnswer:
        """Run a command and return what it said, whether it succeeded or not.

        Args:
            arguments: the command and what it takes, as in `"rev-parse", "HEAD"`.
            text: its standard input.
            environment: variables beside this process's own.

        Raises:
            GitError: there is no git, it cannot be started, or it took too long.
        """
        command = ["git", *arguments]
        try:
            done = subprocess.run(  # noqa: S603  the arguments are this program's own, and no shell reads them
                command,
                cwd=self._folder,
                input=text or "",
                env={**os.environ, **self._settings, **(environment or {})},
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=self._timeout_s,
                check=False,
                # Ctrl-C at a terminal is this program's to handle, and no terminal is there to ask at.
                start_new_session=True,
            )
        except OSError as error:
            raise self._not_started(error) from None
        except subprocess.TimeoutExpired:
            raise GitError(
                f"`git {arguments[0]}` did not end within {self._timeout_s:g} s",
                hint="check that the remote can be reached",
            ) from None
        return GitAnswer(done.returncode, done.stdout, hide_credentials(done.stderr))

    def _not_started(self, error: OSError) -> GitError:
        if not self._folder.is_dir():
            return GitError(f"git cannot be run in {self._folder}: there is no such folder")
        if isinstance(error, FileNotFoundError):
            return GitError("git is not installed", hint="install git, version 2.30 or later")
        return GitError(
            f"git cannot be started: {error.strerror or error}",
            hint="see that `git --version` works in this environment: PATH and LD_PRELOAD are git's, too",
        )

    def run(
        self, *arguments: str, text: str | None = None, environment: Mapping[str, str] | None = None
    ) -> str:
        """Run a command and return its output, without the line break at its end.

        Args:
            arguments: as for `ask`.
            text: as for `ask`.
            environment: as for `ask`.

        Raises:
            GitError: it failed, there is no git, it cannot be started, or it took too long.
        """
        answer = self.ask(*arguments, text=text, environment=environment)
        if answer.status:
            raise GitError(f"`git {arguments[0]}` failed: {answer.reason}")
        return answer.output.removesuffix("\n")


def find_work_tree(folder: Path) -> Path | None:
    """Return the top of the work tree that a folder is in; None if it is in none.

    Raises:
        GitError: git does not want to say, as of a repository that is another user's.
    """
    answer = Git(folder).ask("rev-parse", "--show-toplevel")
    if answer.status == 0:
        root = Path(answer.output.removesuffix("\n"))
        if not os.path.isdir(root):  # noqa: PTH112  Path.is_dir raises what a name that is none leads to
            raise GitError(
                "`git rev-parse` did not answer with a folder",
                hint="see that nothing else writes to git's output: a wrapper, or a library in LD_PRELOAD",
            )
        return root
    if "not a git repository" in answer.complaint:
        return None
    raise GitError(f"`git rev-parse` failed: {answer.reason}")


def hide_credentials(text: str) -> str:
    """Return a text without what the addresses in it may hold of secrets: user names, passwords, queries."""
    return _ADDRESS.sub(lambda found: _hide_in_address(found[0]), text)


def _hide_in_address(address: str) -> str:
    start, mark, query = address.partition("?")
    if "@" in query and "/" not in start:
        # A password with a `?` in it.
        shown = query.rpartition("@")[2]
    else:
        shown = start.rpartition("@")[2] + mark + query
    return _QUERY.sub("?…", shown)
