"""The git command, and pushes that tell a branch that has moved on from one that refuses."""

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
_REMEDY = re.compile(r"git config --global --add safe\.directory .+")
_SETTINGS = {
    # Nobody is there to answer a prompt.
    "GIT_TERMINAL_PROMPT": "0",
    # The program parses git's messages.
    "LC_ALL": "C",
    # Reads take no locks that could stop another git command.
    "GIT_OPTIONAL_LOCKS": "0",
}


class GitError(RunnerError):
    """Git is missing or failed."""


@dataclass(frozen=True, slots=True)
class GitAnswer:
    """The answer of a git command; `complaint` is its standard error, without credentials."""

    status: int
    output: str
    complaint: str

    @property
    def reason(self) -> str:
        """The fault in one line: the lines that git marks as errors, else the last one."""
        lines = [line.strip() for line in self.complaint.splitlines() if line.strip()]
        marked = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "!"))]
        # Python gives a process that a signal ended a negative status.
        end = f"exit code {self.status}" if self.status >= 0 else f"ended by signal {-self.status}"
        return "; ".join(marked or lines[-1:]) or end


class Git:
    """Git commands in one repository.

    Args:
        folder: in the repository's work tree.
        timeout_s: time limit of one command, in seconds.
        settings: variables for every command beside this process's own.
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
        """Run a command and return its answer, whether it succeeded or not.

        Args:
            arguments: the command and its arguments, as in `"rev-parse", "HEAD"`.
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
                # This program handles Ctrl-C itself, and there is no terminal for prompts.
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
        """Run a command as `ask` does, and return its output without the final line break.

        Raises:
            GitError: it failed, there is no git, it cannot be started, or it took too long.
        """
        answer = self.ask(*arguments, text=text, environment=environment)
        if answer.status:
            raise _explain(answer, arguments[0])
        return answer.output.removesuffix("\n")


def find_work_tree(folder: Path) -> Path | None:
    """Return the top of the work tree that a folder is in; None if it is in none.

    Raises:
        GitError: git refuses to tell, as for a repository of another user.
    """
    answer = Git(folder).ask("rev-parse", "--show-toplevel")
    if answer.status == 0:
        root = Path(answer.output.removesuffix("\n"))
        if not os.path.isdir(root):  # noqa: PTH112  Path.is_dir raises on an invalid name
            raise GitError(
                "`git rev-parse` did not answer with a folder",
                hint="see that nothing else writes to git's output: a wrapper, or a library in LD_PRELOAD",
            )
        return root
    if "not a git repository" in answer.complaint:
        return None
    raise _explain(answer, "rev-parse")


def _explain(answer: GitAnswer, command: str) -> GitError:
    """Return the error for a command that failed, with git's own remedy for a repository of another user."""
    remedy = _REMEDY.search(answer.complaint)
    hint = f"if you trust its owner: `{remedy[0]}`" if remedy else None
    return GitError(f"`git {command}` failed: {answer.reason}", hint=hint)


def hide_credentials(text: str) -> str:
    """Return a text without possible secrets in its addresses: user names, passwords, queries."""
    return _ADDRESS.sub(lambda found: _hide_in_address(found[0]), text)


def _hide_in_address(address: str) -> str:
    start, mark, query = address.partition("?")
    if "@" in query and "/" not in start:
        # A password with a `?` in it.
        shown = query.rpartition("@")[2]
    else:
        shown = start.rpartition("@")[2] + mark + query
    return _QUERY.sub("?…", shown)


_REFUSED = re.compile(r"^!\t[^\t]*\t\[(?P<by>remote rejected|rejected)\] \((?P<why>.*)\)$", re.MULTILINE)
_RACES = ("cannot lock ref", "failed to update ref", "incorrect old value", "reference already exists")
"""A server's messages about a push that collided with another."""
_IN_THE_WAY = re.compile(r"'(?P<ref>refs/[^']+)' exists; cannot create")


@dataclass(frozen=True, slots=True)
class PushAnswer:
    """A remote's answer to a push.

    Attributes:
        is_accepted: the branch has the commit.
        is_overtaken: the branch has moved on: a commit on its new tip may be accepted.
        reason: the refusal in git's words.
        obstacle: an existing ref of the remote whose name excludes this one, if that is the reason.
    """

    is_accepted: bool
    is_overtaken: bool = False
    reason: str = ""
    obstacle: str | None = None


def push_commit(
    git: Git, remote: str, commit: str, branch: str, *, replaced: str | None = None
) -> PushAnswer:
    """Push a commit to a branch of a remote, which is created if it is missing.

    Nothing is overwritten, except that the commit may replace a tip of the branch named by `replaced`.
    """
    ref = f"refs/heads/{branch}"
    lease = () if replaced is None else (f"--force-with-lease={ref}:{replaced}",)
    answer = git.ask("push", "--porcelain", *lease, "--", remote, f"{commit}:{ref}")
    if answer.status == 0:
        return PushAnswer(is_accepted=True)
    refused = _REFUSED.search(answer.output)
    if refused is None:
        return PushAnswer(is_accepted=False, reason=answer.reason)
    if (obstacle := find_obstacle(answer)) is not None:
        return PushAnswer(is_accepted=False, reason=f"it has {obstacle}", obstacle=obstacle)
    why = refused["why"]
    # git itself rejects commits that don't follow the tip; servers reject by rule, or because of a race.
    is_overtaken = refused["by"] == "rejected" or any(word in why for word in _RACES)
    reason = explain_refusal(why, answer.complaint)
    return PushAnswer(is_accepted=False, is_overtaken=is_overtaken, reason=reason)


def explain_refusal(refusal: str, complaint: str) -> str:
    """Return the reason for a refused push, with the message of the remote's hook."""
    lines = (line.removeprefix("remote:").strip() for line in complaint.splitlines() if "remote:" in line[:7])
    # What repeats the refusal is git's own line on the remote.
    said = [line.removeprefix("error:").strip() for line in lines if line and refusal not in line]
    return f"{refusal} ({' '.join(said)})" if said else refusal


def find_obstacle(answer: GitAnswer) -> str | None:
    """Return the ref of a remote that kept a push from creating one; None if there was none.

    Git keeps refs as files: beside a branch `runner` there can be no branch `runner/record`.
    """
    found = _IN_THE_WAY.search(answer.complaint)
    return found["ref"] if found else None
