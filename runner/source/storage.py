"""Files at a path, at a URL that fsspec knows, or in this package, and limits on where campaigns may read.

fsspec is optional and loaded only for URLs. A campaign reads only below its repository, so that a pull
request cannot print files of the machine that checks it.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator


_PACKAGE = Path(__file__).resolve().parent.parent
_BLOCK = 1 << 20
_STAMPS = ("ETag", "etag", "md5", "mtime", "LastModified", "last_modified", "updated", "created")
"""Attributes by which file systems show that a file has changed; the first one present is used."""


def is_url(location: str) -> bool:
    """Return whether a location is a URL."""
    return "://" in location


def is_folder(location: str) -> bool:
    """Return whether a location, which is no file's URL, is a folder, or the URL of one."""
    return is_url(location) or Path(location).is_dir()


def is_below(url: str, prefixes: tuple[str, ...]) -> bool:
    """Return whether a URL is below one of the prefixes, however its file system reads its parts."""
    # Some servers and libraries take `%2e%2e` for `..`, and `?` or `#` for plain characters.
    plain = unquote(url)
    if "::" in plain or "\\" in plain or ".." in re.split(r"[/?#]", plain):
        return False
    return any(url.startswith(f"{prefix.rstrip('/')}/") for prefix in prefixes)


def open_binary(location: str) -> BinaryIO:
    """Open a file for reading; raises OSError."""
    if not is_url(location):
        return Path(location).open("rb")
    with reach(location) as (system, path):
        return cast("BinaryIO", system.open(path, "rb"))


def iterate_content(location: str) -> Iterator[bytes]:
    """Yield a file's bytes with LF for CRLF, so that checkouts of one commit are alike; raises OSError."""
    with open_binary(location) as stream:
        held = b""
        while block := stream.read(_BLOCK):
            # A CRLF may span two blocks.
            block = held + block
            held = block[-1:] if block.endswith(b"\r") else b""
            yield block[: len(block) - len(held)].replace(b"\r\n", b"\n")
        yield held


def measure_file(location: str) -> int:
    """Return a file's size in bytes; 0 if it cannot be read, which reading it reports."""
    with suppress(OSError):
        if not is_url(location):
            return Path(location).stat().st_size
        with reach(location) as (system, path):
            return int(system.size(path))
    return 0


def stamp_file(location: str) -> tuple[object, ...] | None:
    """Return a value that differs once the file has changed; None if there is none."""
    try:
        if not is_url(location):
            status = Path(location).stat()
            # The time of change as well: copying tools put back the time of writing.
            return status.st_size, status.st_mtime_ns, status.st_ctime_ns
        with reach(location) as (system, path):
            told = system.info(path)
    except OSError:
        return None
    return told.get("size"), str(next((told[name] for name in _STAMPS if name in told), None))


def is_file(url: str) -> bool:
    """Return whether there is a file at a URL; raises OSError if that is unknown."""
    with reach(url) as (system, path):
        return bool(system.isfile(path))


def list_matching(pattern: str) -> list[str]:
    """Return the sorted URLs that a URL with `*`, `?` or `[…]` in its path matches; raises OSError."""
    with reach(pattern) as (system, path):
        return sorted(system.unstrip_protocol(name) for name in system.glob(path) if system.isfile(name))


@contextmanager
def reach(url: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of a URL, and the path there.

    Raises:
        OSError: for any error within the block, whatever library raised it.
    """
    try:
        # Imported here: an extra, and most audiences are local files.
        from fsspec.core import url_to_fs  # noqa: PLC0415
        from fsspec.registry import available_protocols  # noqa: PLC0415

        if is_url(url) and not {*url.partition("://")[0].split("::")} <= {*available_protocols()}:
            raise OSError(0, "fsspec knows no such protocol")  # noqa: TRY301  as the others
        yield url_to_fs(url)
    except ImportError as error:
        words = str(error) if error.name != "fsspec" else "Install fsspec"
        raise OSError(0, words) from None
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001  each file system has errors of its own
        raise OSError(0, type(error).__name__) from None


HIDDEN = "begins with a dot, or stands in such a folder: files like that are never read"


def repository_root(start: Path) -> Path:
    """Return the git root above the folder `start`, else `start`; links are followed only afterwards."""
    folder = start.absolute()
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return candidate
    return folder


def reading_root(file: Path, *, current: Path) -> Path:
    """Return the folder below which the campaign `file` may read.

    That is the git root above the file; without one, the current folder if the file is below it; else the
    file's own folder.
    """
    parent = file.absolute().parent
    root = repository_root(parent)
    if (root / ".git").exists():
        return root
    return current if parent.is_relative_to(current.absolute()) else parent


def is_readable_below(file: Path, roots: tuple[Path, ...]) -> bool:
    """Return whether `file`, with links followed, is below one of `roots` and not hidden there."""
    return any(not _is_hidden(inner) for inner in _find_below(file, roots))


def is_hidden_below(file: Path, roots: tuple[Path, ...]) -> bool:
    """Return whether `file` is hidden below one of `roots`, which may be hidden themselves.

    Files are hidden if their name, or that of a folder above, begins with a dot: they hold secrets or
    settings (`.env`, `.git/config`).
    """
    below = _find_below(file, roots)
    return bool(below) and all(map(_is_hidden, below))


def is_written_hidden(file: Path, root: Path) -> bool:
    """Return whether a path is hidden below `root`, without following links."""
    written = Path(os.path.abspath(file))  # noqa: PTH100  takes `..` away without following links
    return written.is_relative_to(root.absolute()) and _is_hidden(written.relative_to(root.absolute()))


def _find_below(file: Path, roots: tuple[Path, ...]) -> list[Path]:
    """Return the path of `file`, with links followed, within each root that it is below."""
    try:
        real = file.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or a NUL in the name
        return []
    above = [root.resolve() for root in roots]
    return [real.relative_to(root) for root in above if real.is_relative_to(root)]


def _is_hidden(inner: Path) -> bool:
    return any(part.startswith(".") for part in inner.parts)


def shipped_folder(name: str) -> Path:
    """Return the folder of the shipped `schemas`, `campaigns` or `.github/workflows`.

    They are at the top of the repository, and in `runner/shipped/` of an installed wheel.
    """
    installed = _PACKAGE / "shipped" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
