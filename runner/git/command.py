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
_AUDIENCE_KEY = "RUNNER_AGE_IDENTITY"
"""Kept from git and the programs that it starts: hooks, helpers, filters."""


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
        """The lines that git marks as errors, else the last one, as one line."""
        lines = [line.strip() for line in self.complaint.splitlines() if line.strip()]
        marked = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "!"))]
        # Python gives a process that a signal ended a negative status.
        end = f"exit code {self.status}" if self.status >= 0 else f"ended by signal {-self.status}"
        return "; ".join(marked or lines[-1:]) or end


class Git:
    """Git commands in one repository, from a folder of its work tree.

    `timeout_s` limits one command; `settings` are variables for every command beside this process's own.
    """

    def __init__(
        self, folder: Path, *, timeout_s: float = TIMEOUT_S, settings: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self.timeout_s = timeout_s
        self._settings = {**_SETTINGS, **(settings or {})}

    @property
    def _inherited(self) -> dict[str, str]:
        """The environment of git and what it starts, which need no key of audiences."""
        inherited = {**os.environ, **self._settings}
        inherited.pop(_AUDIENCE_KEY, None)
        return inherited

    def ask(
        self, *arguments: str, text: str | None = None, environment: Mapping[str, str] | None = None
    ) -> GitAnswer:
        """Run a command, with `text` as its input, and return its answer, whether it succeeded or not."""
        command = ["git", *arguments]
        try:
            done = subprocess.run(  # noqa: S603  the arguments are this program's own, and no shell reads them
                command,
                cwd=self._folder,
                input=text or "",
                env={**self._inherited, **(environment or {})},
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=self.timeout_s,
                check=False,
                # This program handles Ctrl-C itself, and there is no terminal for prompts.
                start_new_session=True,
            )
        except OSError as error:
            raise self._not_started(error) from None
        except subprocess.TimeoutExpired:
            raise GitError(
                f"`git {arguments[0]}` did not end within {self.timeout_s:g} s",
                hint="check that the remote can be reached",
            ) from None
        return GitAnswer(done.returncode, done.stdout, hide_credentials(done.stderr))

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command that is asked through its pipes as long as it runs; its errors are not read."""
        try:
            return subprocess.Popen(  # noqa: S603  as in `ask`
                ["git", *arguments],  # noqa: S607
                cwd=self._folder,
                env=self._inherited,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise self._not_started(error) from None

    def list_refs(self, remote: str, *patterns: str) -> dict[str, str]:
        """Return the commits of a remote's refs, by full name, that match git-ls-remote(1) patterns."""
        answer = self.ask("ls-remote", "--quiet", "--", remote, *patterns)
        if answer.status:
            raise refuse_remote(remote, answer.reason)
        lines = (line.split("\t") for line in answer.output.splitlines())
        return {name: commit for commit, name in lines}

    def fetch(self, remote: str, *refs: str) -> GitAnswer:
        """Fetch refs, or commits, with all their files; no ref of the clone moves."""
        return self.ask(
            "fetch",
            "--quiet",
            "--no-tags",
            # FETCH_HEAD is the user's, and an editor may be fetching.
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            # Fetched whole even in a partial clone.
            "--no-filter",
            # No local ref is to follow it.
            "--refmap=",
            "--",
            remote,
            *refs,
        )

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
        """Run a command as `ask` does, and return its output without the final line break."""
        answer = self.ask(*arguments, text=text, environment=environment)
        if answer.status:
            raise _explain(answer, arguments[0])
        return answer.output.removesuffix("\n")


def find_work_tree(folder: Path) -> Path | None:
    """Return the top of the work tree that a folder is in; None if it is in none."""
    answer = Git(folder).ask("rev-parse", "--show-toplevel")
    if answer.status == 0:
        return Path(answer.output.removesuffix("\n"))
    if "not a git repository" in answer.complaint:
        return None
    raise _explain(answer, "rev-parse")


def _explain(answer: GitAnswer, command: str) -> GitError:
    """Return the error for a command that failed, with git's own remedy for a repository of another user."""
    remedy = _REMEDY.search(answer.complaint)
    hint = f"if you trust its owner: `{remedy[0]}`" if remedy else None
    return GitError(f"`git {command}` failed: {answer.reason}", hint=hint)


def refuse_remote(remote: str, reason: str) -> GitError:
    """Return the error for a remote that cannot be used."""
    shown = hide_credentials(remote)
    return GitError(
        f"the git remote {shown} cannot be used: {reason}",
        hint=f"check the network, and that this user may use the remote: git ls-remote {shown}",
    )


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


_REFUSED = re.compile(r"^!\t[^\t]*\t(?:\[(?P<by>[^]]*)\] )?\((?P<why>.*)\)$", re.MULTILINE)
_RACES = re.compile(
    r"stale info|cannot lock ref|failed to update ref|incorrect old value|reference already exists"
)
"""Messages about a push that collided with another."""
_IN_THE_WAY = "exists; cannot create"
"""Of a ref below this one: git keeps refs as files."""


@dataclass(frozen=True, slots=True)
class PushAnswer:
    """A remote's answer to a push.

    If it `is_overtaken`, a commit on the ref's new tip may be accepted; if it `is_refused`, the remote was
    reached, and does not take it, for a `reason` in git's words.
    """

    is_accepted: bool
    is_overtaken: bool = False
    is_refused: bool = False
    reason: str = ""


def push_commit(git: Git, remote: str, commit: str, ref: str, *options: str) -> PushAnswer:
    """Push a commit to a ref of a remote, which is created if it is missing; overwrite nothing."""
    answer = git.ask("push", "--porcelain", *options, "--", remote, f"{commit}:{ref}")
    if answer.status == 0:
        return PushAnswer(is_accepted=True)
    refused = _REFUSED.search(answer.output)
    if refused is None:
        return PushAnswer(is_accepted=False, reason=answer.reason)
    why, complaint = refused["why"], answer.complaint
    # git itself rejects commits that don't follow the tip; servers reject by rule, or because of a race.
    is_race = _RACES.search(f"{why} {complaint}") is not None and _IN_THE_WAY not in complaint
    return PushAnswer(
        is_accepted=False,
        is_overtaken=refused["by"] == "rejected" or is_race,
        is_refused=True,
        reason=_explain_refusal(why, complaint),
    )


def _explain_refusal(refusal: str, complaint: str) -> str:
    """Return the reason for a refused push, with the message of the remote's hook."""
    lines = (line.removeprefix("remote:").strip() for line in complaint.splitlines() if "remote:" in line[:7])
    # What repeats the refusal is git's own line on the remote.
    said = [line.removeprefix("error:").strip() for line in lines if line and refusal not in line]
    return f"{refusal} ({' '.join(said)})" if said else refusal
