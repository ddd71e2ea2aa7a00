"""Git's objects: read from one process that answers many questions, and written by another one."""

from __future__ import annotations

import os
import secrets
import select
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from runner.git.command import GitError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

    from runner.git.command import Git

_BLOCK = 1 << 16
_IDENTITY = "runner <runner@localhost>"
"""An identity for commits on CI machines, where git knows no user."""
_FOLDER = b"40000"
_SUBMODULE = b"160000"


class GitObject(NamedTuple):
    """An object: its id, its kind (`commit`, `tree`, `blob` or `tag`), and its content."""

    id: str
    kind: str
    data: bytes


class ObjectReader:
    """A reader of a repository's objects, for any thread. Its process starts with the first question.

    If it `is_filtered`, files are returned as git writes them into a work tree: with its line ends and
    filters.
    """

    def __init__(self, git: Git, *, is_filtered: bool = False) -> None:
        self._git = git
        self._options = ("--filters",) if is_filtered else ()
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._held = bytearray()
        self._folders: dict[str, dict[str, tuple[str, bool]]] = {}

    def read(self, name: str, path: str = "-") -> GitObject | None:
        """Return an object by its id or another name without blanks; None if it is not there.

        `path` chooses the filters of a file.
        """
        question = f"{name} {path}" if self._options else name
        with self._turn:
            process = self._process or self._start()
            try:
                return self._ask(process, question.encode())
            except (OSError, ValueError) as error:
                process.kill()
                self._process, self._held = None, bytearray()
                # Of a repository that git does not read, it says why here.
                self._git.run("rev-parse", "--git-dir")
                raise GitError(f"`git cat-file` failed: {error}") from None

    def load(self, blob: str, path: str = "-") -> str | None:
        """Return the text of a blob; None if it is not there."""
        found = self.read(blob, path)
        return None if found is None else found.data.decode(errors="replace")

    def list_folder(self, name: str) -> dict[str, tuple[str, bool]] | None:
        """Return the id of each entry of a commit or tree, and whether it is a folder; None without it."""
        if (known := self._folders.get(name)) is not None:
            return known
        tree = self.read(f"{name}^{{tree}}")
        if tree is None:
            return None
        found = dict(_split_tree(tree))
        # What HEAD stands for may change.
        if name != "HEAD":
            self._folders[name] = found
        return found

    def find(self, commit: str, path: str) -> str | None:
        """Return the blob of a file in a commit, by its path from the top; None if there is none."""
        *folders, last = path.split("/")
        place = commit
        for folder in folders:
            below, is_folder = (self.list_folder(place) or {}).get(folder, ("", False))
            if not is_folder:
                return None
            place = below
        blob, is_folder = (self.list_folder(place) or {}).get(last, (None, False))
        return None if is_folder else blob

    def bring(self, remote: str, tips: Mapping[str, str]) -> None:
        """Fetch refs of a remote whose commits (`tips`) are not here."""
        missing = [ref for ref, tip in tips.items() if self.list_folder(tip) is None]
        if missing and (answer := self._git.fetch(remote, *missing)).status:
            raise GitError(f"`git fetch` failed: {answer.reason}")

    def _start(self) -> subprocess.Popen[bytes]:
        process = self._git.start("cat-file", "--batch", *self._options)
        weakref.finalize(self, _end, process)
        self._process = process
        return process

    def _ask(self, process: subprocess.Popen[bytes], question: bytes) -> GitObject | None:
        if process.stdin is None or b"\n" in question:
            raise ValueError("no question for git")
        # Git tells the size before filters: a second question, for what is not there, marks the end.
        mark = secrets.token_hex(16).encode()
        process.stdin.write(question + b"\n" + mark + (b" -\n" if self._options else b"\n"))
        process.stdin.flush()
        ends_at, end = time.monotonic() + self._git.timeout_s, b"\n" + mark + b" missing\n"
        while not self._held.endswith(end):
            self._receive(process, ends_at)
        head, _, data = bytes(self._held[: -len(end)]).partition(b"\n")
        self._held.clear()
        words = head.decode().split()
        return None if words[-1] in ("missing", "ambiguous") else GitObject(words[0], words[1], data)

    def _receive(self, process: subprocess.Popen[bytes], ends_at: float) -> None:
        if process.stdout is None:
            raise ValueError("no answer from git")
        # Unlike select(2), poll takes descriptors of any number: a run has many connections.
        poll = select.poll()
        poll.register(process.stdout, select.POLLIN)
        ready = poll.poll(max(0.0, ends_at - time.monotonic()) * 1000)
        block = os.read(process.stdout.fileno(), _BLOCK) if ready else b""
        if not block:
            raise OSError(None if ready else f"no answer within {self._git.timeout_s:g} s")
        self._held += block


def _split_tree(tree: GitObject) -> list[tuple[str, tuple[str, bool]]]:
    """Return the entries of a tree: `MODE NAME`, a zero byte, and the bytes of an id."""
    width, data, start, found = len(tree.id) // 2, tree.data, 0, []
    while start < len(data):
        end = data.index(b"\0", start)
        mode, _, name = data[start:end].partition(b" ")
        start = end + 1 + width
        if mode != _SUBMODULE:
            found.append((os.fsdecode(name), (data[end + 1 : start].hex(), mode == _FOLDER)))
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            # One that has ended by itself has not read its last question.
            with suppress(OSError):
                stream.close()


def write_commit(
    git: Git, files: Mapping[str, str], known: Mapping[str, str], parent: str | None, title: str, nobody: str
) -> str:
    """Write a commit that no ref leads to, of texts by name, and return it.

    `known` has the blobs of texts that are there; `nobody` is the id of no object.
    """
    draft = f"refs/runner-draft/{secrets.token_hex(8)}"
    lines = [f"commit {draft}", "mark :1", f"committer {_IDENTITY} now", _write_data(title)]
    lines += [f"from {parent}"] if parent is not None else []
    lines += ["deleteall"]
    for name, text in sorted(files.items()):
        blob = known.get(text)
        lines += [f"M 100644 {blob or 'inline'} {_quote(name)}"]
        lines += [_write_data(text)] if blob is None else []
    lines += ["", "get-mark :1", f"reset {draft}", f"from {nobody}", ""]
    return git.run("fast-import", "--quiet", "--date-format=now", text="\n".join(lines) + "\n")


def _write_data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}"


def _quote(name: str) -> str:
    """Return a path as git-fast-import(1) reads it."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
