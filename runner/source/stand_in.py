"""Files that stand in for another: pointers of Git LFS, web pages for a download, unfinished merges."""

from __future__ import annotations

from typing import NamedTuple

CONFLICT = b"\n<<<<<<< "
"""The beginning of a conflict within a file, as git writes it."""
_POINTER = b"version https://git-lfs.github.com/spec/"
_PAGES = (b"<!doctype html", b"<html")
_BLANKS = b"\xef\xbb\xbf \t\r\n"


class StandIn(NamedTuple):
    """A problem of a file that stands in for another: its code, line, message and hint."""

    code: str
    line: int
    message: str
    hint: str


def find_stand_in(content: bytes) -> StandIn | None:
    """Return what a file is instead of itself, by its bytes or its first ones; None if it is itself."""
    start = content[:64].lstrip(_BLANKS).lower()
    if start.startswith(_POINTER):
        return StandIn(
            "file-lfs-pointer",
            1,
            "this is a pointer of Git LFS: the file itself was not fetched",
            "fetch it with `git lfs pull`; in a GitHub job, with `lfs: true` of actions/checkout",
        )
    if start.startswith(_PAGES):
        return StandIn(
            "file-web-page",
            1,
            "this is a web page, such as a login form, not the file that was meant",
            "download it again, signed in, and look into it before it is saved here",
        )
    # As if a line came before, so that a conflict in the first line is found, too.
    before, found, after = (b"\n" + content).partition(CONFLICT)
    if found and b"\n>>>>>>> " in after:
        line = before.count(b"\n") + 1
        return StandIn(
            "file-conflict",
            line,
            "git left a conflict here: `<<<<<<<`, both sides, `>>>>>>>`",
            "keep one side or both, remove the three marks, then `git add` it",
        )
    return None
