"""A bare repository as remote, and clones of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.git.command import Git

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A bare repository with one commit on its branch `main`, and one before that."""
    folder = tmp_path / "remote.git"
    Git(tmp_path).run("init", "--quiet", "--bare", "--initial-branch=main", "remote.git")
    Git(tmp_path).run("clone", "--quiet", f"file://{folder}", "author")
    author = Git(tmp_path / "author")
    for number in range(2):
        author.run(
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@example.com",
            "commit",
            "--quiet",
            "--allow-empty",
            "-m",
            f"Commit {number}",
        )
    author.run("push", "--quiet", "origin", "HEAD:main")
    return folder


@pytest.fixture
def clone(tmp_path: Path, remote: Path) -> Callable[..., Path]:
    """Clone the remote: `clone("first", "--depth=1")`."""

    def make(name: str, *options: str) -> Path:
        Git(tmp_path).run("clone", "--quiet", *options, f"file://{remote}", name)
        return tmp_path / name

    return make
