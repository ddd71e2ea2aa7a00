"""Problems as annotations of a GitHub job: at the line in the pull request, as many as the platform shows."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from runner.cli.campaigns import show_path
from runner.cli.console import count_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.source.diagnostic import Diagnostic, Problems, Severity

WORKSPACE_VARIABLE = "GITHUB_WORKSPACE"
SHOWN_OF_A_SEVERITY = 10
"""What GitHub shows of a step: 10 errors, 10 warnings, 10 notices; of a job 50 in all.

https://docs.github.com/rest/checks/runs gives the 50 of one request; those of a step are said in
https://github.com/orgs/community/discussions/26680.
"""
LONGEST = 4096
"""Characters of a message; actions/runner, `ExecutionContext.cs`, cuts it off there."""
_STEERING = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that steer a terminal, or turn the way in which a text runs."""
_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "note": "notice"}
"""GitHub's words for severities in a workflow command."""


def list_annotations(problems: Problems) -> Iterator[str]:
    """Yield the workflow commands that annotate problems: errors first, then warnings, then notes.

    Of a severity with more problems than are shown, the last annotation counts those that have none.
    """
    counts = {"error": problems.error_count, "warning": problems.warning_count, "note": problems.note_count}
    for severity in _LEVELS:
        found = [diagnostic for diagnostic in problems if diagnostic.severity == severity]
        total = counts[severity]
        if total <= SHOWN_OF_A_SEVERITY:
            yield from _annotate(found)
        else:
            shown = found[: SHOWN_OF_A_SEVERITY - 1]
            yield from _annotate(shown)
            yield _roll_up(severity, total - len(shown))


def list_unannotated(problems: Problems) -> list[Diagnostic]:
    """Return the kept problems that `list_annotations` only counts."""
    counts = {"error": problems.error_count, "warning": problems.warning_count, "note": problems.note_count}
    left: list[Diagnostic] = []
    for severity in _LEVELS:
        if counts[severity] > SHOWN_OF_A_SEVERITY:
            left += [one for one in problems if one.severity == severity][SHOWN_OF_A_SEVERITY - 1 :]
    return left


def annotation(diagnostic: Diagnostic, file: str) -> str:
    """Return a workflow command that annotates a line; its values cannot start another one.

    Args:
        diagnostic: the problem.
        file: its path as GitHub knows it: from the top of the repository.
    """
    message = diagnostic.message + (f"\n{diagnostic.hint}" if diagnostic.hint else "")
    place = {"file": file, "line": str(diagnostic.line), "col": str(diagnostic.column)}
    return _command(_LEVELS[diagnostic.severity], place | {"title": diagnostic.code}, message)


def job_warning(title: str, message: str) -> str:
    """Return a workflow command that puts a warning on the page of a job, at no file.

    Args:
        title: what it is about.
        message: what there is to know, and to do.
    """
    return _command("warning", {"title": title}, message)


def workspace_path(file: Path) -> str:
    """Return a path as GitHub knows it: from the top of the checked out repository, if it is below it."""
    workspace = os.environ.get(WORKSPACE_VARIABLE)
    absolute = Path(os.path.normpath(file.absolute()))
    if workspace and absolute.is_relative_to(workspace):
        return absolute.relative_to(workspace).as_posix()
    return show_path(file)


def _annotate(diagnostics: Iterable[Diagnostic]) -> Iterator[str]:
    for diagnostic in diagnostics:
        yield annotation(diagnostic, workspace_path(diagnostic.file))


def _roll_up(severity: Severity, count: int) -> str:
    words = {"error": "more error", "warning": "more warning", "note": "more note"}[severity]
    return _command(
        _LEVELS[severity],
        {"title": count_words(count, words)},
        f"{count_words(count, words)}: the job's summary and the step's log list them",
    )


def _command(level: str, properties: dict[str, str], message: str) -> str:
    written = ",".join(f"{name}={_escape_property(value)}" for name, value in properties.items())
    cut = message if len(message) <= LONGEST else f"{message[: LONGEST - 1]}…"
    return f"::{level} {written}::{_escape_data(cut)}"


def _escape_data(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", escaped)


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
