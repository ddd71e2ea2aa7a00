"""Finds the files that a campaign's audience is in: at paths, at URLs, or all that match a pattern."""

from __future__ import annotations

import difflib
import glob
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from runner.campaign.recipients import FileRecipients
from runner.source.confine import HIDDEN, is_hidden_below, is_readable_below
from runner.source.diagnostic import Diagnostic
from runner.source.storage import is_below, is_file, list_matching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from runner.campaign.recipients import RecipientSource

_INSTALL = "pip install 'sms-campaign-runner[cluster]'"
_WILD = frozenset("*?[")


def check_file(
    source: FileRecipients, roots: tuple[Path, ...], urls: tuple[str, ...]
) -> Iterator[Diagnostic]:
    """Yield what is wrong with where an audience file is said to be.

    Args:
        source: the file, or the pattern of several.
        roots: the folders below which the campaign may read files.
        urls: those below which it may read URLs: a campaign in a pull request must not read any bucket.
    """
    if source.format == "parquet" and find_spec("pyarrow") is None:
        yield _problem(source, "parquet-library", "Parquet needs PyArrow, which is not installed", _INSTALL)
    elif source.url is None:
        yield from _check_paths(source, roots)
    elif not is_below(source.url, urls):
        hint = "--allow-path URL allows to read what is below it"
        yield _problem(source, "path-outside", f"{source.url} is below no URL that may be read", hint)
    elif find_spec("fsspec") is None:
        words = f"{source.url} needs fsspec, which is not installed"
        yield _problem(source, "url-library", words, _INSTALL)
    else:
        yield from _check_url(source, source.url)


def expand_files(sources: Iterable[RecipientSource]) -> Iterator[RecipientSource]:
    """Yield sources with each pattern replaced by the files that match it, sorted by name."""
    for source in sources:
        if not isinstance(source, FileRecipients):
            yield source
        elif source.url is None:
            yield from (
                replace(source, path=path, location=str(path.absolute())) for path in _list_paths(source.path)
            )
        else:
            yield from (replace(source, path=Path(url), location=url) for url in _list_urls(source.url))


def _check_paths(source: FileRecipients, roots: tuple[Path, ...]) -> Iterator[Diagnostic]:
    written = _show(source, source.path)
    paths = _list_paths(source.path) if is_readable_below(_fixed_part(source.path), roots) else [source.path]
    outside = next((path for path in paths if not is_readable_below(path, roots)), None)
    if outside is not None and is_hidden_below(outside, roots):
        hint = "move it where no name begins with a dot; --allow-path DIR allows to read below a folder"
        yield _problem(source, "path-hidden", f"{_show(source, outside)} {HIDDEN}", hint)
    elif outside is not None:
        hint = "campaigns read below the repository's root alone; --allow-path DIR widens it"
        yield _problem(source, "path-outside", f"{_show(source, outside)} is outside the repository", hint)
    elif not paths:
        hint = "the path is relative to the campaign file"
        yield _problem(source, "csv-not-found", f"no file matches {written}", hint)
    elif _is_there(source.path.is_dir):
        yield _problem(source, "csv-not-found", f"{written} is a folder", "name a file in it")
    elif not all(_is_there(path.is_file) for path in paths):
        yield _missing(source, written)


def _missing(source: FileRecipients, written: Path) -> Diagnostic:
    siblings = [other.name for other in source.path.parent.glob(f"*.{source.format}")]
    close = difflib.get_close_matches(source.path.name, siblings, n=1)
    guess = f": did you mean {written.with_name(close[0])}?" if close else ""
    hint = "the path is relative to the campaign file"
    return _problem(source, "csv-not-found", f"there is no file {written}{guess}", hint)


def _check_url(source: FileRecipients, url: str) -> Iterator[Diagnostic]:
    try:
        if _is_pattern(url):
            words = "" if list_matching(url) else f"no file matches {url}"
        else:
            words = "" if is_file(url) else f"there is no file {url}"
    except OSError as error:
        words = f"{url} cannot be read: {error.strerror or type(error).__name__}"
    if words:
        yield _problem(source, "csv-not-found", words, "check the URL, and what this machine may read")


def _list_urls(url: str) -> list[str]:
    if not _is_pattern(url):
        return [url]
    try:
        return list_matching(url)
    except OSError:
        # What could be listed a moment ago: who reads it says what is wrong.
        return [url]


def _list_paths(path: Path) -> list[Path]:
    """Return the files that match a path; one that is there is meant as it is written, or the only one."""
    if not _is_pattern(str(path)) or _is_there(path.exists):
        return [path]
    try:
        found = glob.glob(str(path), recursive=True)  # noqa: PTH207  keeps `..` and `.` as they are written
    except (OSError, ValueError):
        return []
    return sorted(match for match in map(Path, found) if _is_there(match.is_file))


def _is_pattern(location: str) -> bool:
    return not _WILD.isdisjoint(location)


def _fixed_part(path: Path) -> Path:
    """Return as much of a path as no pattern is in."""
    parts = path.parts
    wild = next((index for index, part in enumerate(parts) if _is_pattern(part)), len(parts))
    return Path(*parts[:wild])


def _is_there(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except OSError:  # a name too long, a folder that may not be entered
        return False


def _show(source: FileRecipients, path: Path) -> Path:
    folder = source.position.file.parent
    return path.relative_to(folder) if path.is_relative_to(folder) else path


def _problem(source: FileRecipients, code: str, message: str, hint: str) -> Diagnostic:
    place = source.position
    return Diagnostic("error", code, message, place.file, place.line, place.column, hint)
