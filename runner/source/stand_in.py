"""Files that stand in for another: pointers of Git LFS, web pages for a download, unfinished merges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.source.diagnostic import Position

if TYPE_CHECKING:
    from pathlib import Path

    from runner.source.diagnostic import Diagnostic

CONFLICT = b"\n<<<<<<< "
"""The beginning of a conflict within a file, as git writes it."""
_POINTER = b"version https://git-lfs.github.com/spec/"
_PAGES = (b"<!doctype html", b"<html")
_BLANKS = b"\xef\xbb\xbf \t\r\n"


def find_stand_in(file: Path, content: bytes) -> Diagnostic | None:
    """Return what a file is instead of itself, by its bytes or its first ones; None if it is itself."""
    start = content[:64].lstrip(_BLANKS).lower()
    if start.startswith(_POINTER):
        return Position(file, 1, 1).problem(
            "file-lfs-pointer",
            "this is a pointer of Git LFS: the file itself was not fetched",
            "fetch it with `git lfs pull`; in a GitHub job, with `lfs: true` of actions/checkout",
        )
    if start.startswith(_PAGES):
        return Position(file, 1, 1).problem(
            "file-web-page",
            "this is a web page, such as a login form, not the file that was meant",
            "download it again, signed in, and look into it before it is saved here",
        )
    # As if a line came before, so that a conflict in the first line is found, too.
    before, found, after = (b"\n" + content).partition(CONFLICT)
    if found and b"\n>>>>>>> " in after:
        line = before.count(b"\n") + 1
        return Position(file, line, 1).problem(
            "file-conflict",
            "git left a conflict here: `<<<<<<<`, both sides, `>>>>>>>`",
            "keep one side or both, remove the three marks, then `git add` it",
        )
    return None
