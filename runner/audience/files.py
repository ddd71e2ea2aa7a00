"""The files of a campaign's audience: at paths, at URLs, or all that match a pattern."""

from __future__ import annotations

import glob
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from runner.campaign.model import FileRecipients
from runner.errors import write_install_hint
from runner.source.storage import HIDDEN, is_below, is_file, is_hidden_below, is_readable_below, list_matching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from runner.campaign.model import RecipientSource
    from runner.source.diagnostic import Diagnostic

_WILD = frozenset("*?[")


def check_file(
    source: FileRecipients, roots: tuple[Path, ...], urls: tuple[str, ...]
) -> Iterator[Diagnostic]:
    """Yield the problems of the location of an audience file or pattern.

    Campaigns may read only files below `roots`, and URLs with the prefixes `urls`: a pull request must not
    read any bucket.
    """
    if source.url is None:
        yield from _check_paths(source, roots)
    elif not is_below(source.url, urls):
        hint = "--allow-path URL allows to read what is below it"
        yield source.position.problem("path-outside", f"{source.url} is below no URL that may be read", hint)
    elif find_spec("fsspec") is None:
        words = f"{source.url} needs fsspec, which is not installed"
        yield source.position.problem("url-library", words, write_install_hint("cluster"))
    else:
        yield from _check_url(source, source.url)


def expand_files(sources: Iterable[RecipientSource]) -> Iterator[RecipientSource]:
    """Yield sources with each pattern replaced by the matching files, sorted by name.

    One that matches none stays: reading it fails, where leaving it out would shorten a list.
    """
    for source in sources:
        if not isinstance(source, FileRecipients):
            yield source
        elif source.url is None:
            for path in _list_paths(source.path) or [source.path]:
                yield replace(source, path=path, location=str(path.absolute()))
        else:
            for url in _list_urls(source.url) or [source.url]:
                yield replace(source, path=Path(url), location=url)


def _check_paths(source: FileRecipients, roots: tuple[Path, ...]) -> Iterator[Diagnostic]:
    written = _show(source, source.path)
    paths = _list_paths(source.path) if is_readable_below(_fixed_part(source.path), roots) else [source.path]
    outside = next((path for path in paths if not is_readable_below(path, roots)), None)
    if outside is not None and is_hidden_below(outside, roots):
        hint = "move it where no name begins with a dot; --allow-path DIR allows to read below a folder"
        yield source.position.problem("path-hidden", f"{_show(source, outside)} {HIDDEN}", hint)
    elif outside is not None:
        hint = "campaigns read below the repository's root alone; --allow-path DIR widens it"
        yield source.position.problem(
            "path-outside", f"{_show(source, outside)} is outside the repository", hint
        )
    elif not paths:
        hint = "the path is relative to the campaign file"
        yield source.position.problem("csv-not-found", f"no file matches {written}", hint)
    elif _is_there(source.path.is_dir):
        yield source.position.problem("csv-not-found", f"{written} is a folder", "name a file in it")
    elif not all(_is_there(path.is_file) for path in paths):
        # Another file is not suggested: it may be the audience of another campaign.
        hint = "the path is relative to the campaign file"
        yield source.position.problem("csv-not-found", f"there is no file {written}", hint)


def _check_url(source: FileRecipients, url: str) -> Iterator[Diagnostic]:
    try:
        if is_pattern(url):
            words = "" if list_matching(url) else f"no file matches {url}"
        else:
            words = "" if is_file(url) else f"there is no file {url}"
    except OSError as error:
        words = f"{url} cannot be read: {error.strerror or type(error).__name__}"
    if words:
        yield source.position.problem("csv-not-found", words, "check the URL, and what this machine may read")


def _list_urls(url: str) -> list[str]:
    if not is_pattern(url):
        return [url]
    try:
        return list_matching(url)
    except OSError:
        # It could be listed a moment ago: reading it reports the problem.
        return [url]


def _list_paths(path: Path) -> list[Path]:
    """Return the files that match a path; an existing file is meant literally."""
    if not is_pattern(str(path)) or _is_there(path.exists):
        return [path]
    try:
        found = glob.glob(str(path), recursive=True)  # noqa: PTH207  keeps `..` and `.` as they are written
    except (OSError, ValueError):
        return []
    return sorted(match for match in map(Path, found) if _is_there(match.is_file))


def is_pattern(location: str) -> bool:
    """Return whether a path or URL may match several files."""
    return not _WILD.isdisjoint(location)


def _fixed_part(path: Path) -> Path:
    """Return the part of a path before its first pattern."""
    parts = path.parts
    wild = next((index for index, part in enumerate(parts) if is_pattern(part)), len(parts))
    return Path(*parts[:wild])


def _is_there(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except OSError:  # a name too long, a folder that may not be entered
        return False


def _show(source: FileRecipients, path: Path) -> Path:
    folder = source.position.file.parent
    return path.relative_to(folder) if path.is_relative_to(folder) else path
