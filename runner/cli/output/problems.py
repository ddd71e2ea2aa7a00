"""Problems, written for people, programs, pull requests and job logs.

A GitHub job shows them as annotations at lines of the pull request, as many as the platform shows.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from runner.cli.encoding import fit_json, print_command, print_text
from runner.git.command import hide_credentials
from runner.github.job_summary import append_summary
from runner.version import __version__
from runner.wording import count_words, escape_markdown, escape_steering, hide_phones, printable
from runner.workflow.campaigns import show_path
from runner.workflow.failures import write_problem_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.source.diagnostic import Diagnostic, Problems
    from runner.workflow.checking.suite import SuiteRun
    from runner.workflow.checking.validate import Validation

_LEVELS: dict[str, str] = {"error": "error", "warning": "warning", "note": "notice"}
"""GitHub's words for severities in a workflow command."""
_SHOWN = {".yaml", ".yml", ".j2"}
"""Endings of files whose lines are shown."""
_LARGE = 1_000_000
_WIDTH = 76
"""Characters of a line that are shown."""
_MARGIN = "  | "
_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


def human_lines(problems: Problems, *, with_notes: bool = True) -> Iterator[str]:
    """Yield the problems as lines for people: place, fault, source line, remedy."""
    said: tuple[Path, str, str | None] | None = None
    files: dict[Path, list[str]] = {}
    shown = [one for one in problems if with_notes or one.severity != "note"]
    for diagnostic in shown:
        place = printable(f"{show_path(diagnostic.file)}:{diagnostic.line}:{diagnostic.column}")
        label = click.style(diagnostic.severity, fg=_COLOURS[diagnostic.severity], bold=True)
        yield f"{place}: {label}: {printable(diagnostic.message)} [{diagnostic.code}]"
        yield from _show_source(diagnostic, files)
        advice = (diagnostic.file, diagnostic.code, diagnostic.hint)
        # One problem in many rows has one remedy, said once.
        if diagnostic.hint and advice != said:
            yield f"    {printable(diagnostic.hint)}"
        said = advice
    hidden = {one.code for one in problems} - {one.code for one in shown}
    for code, file, count in problems.omitted():
        if code not in hidden:
            yield f"{printable(show_path(file))}: and {count:,} more [{code}]"


def _show_source(problem: Diagnostic, files: dict[Path, list[str]]) -> Iterator[str]:
    """Yield the line of a problem in a campaign or a template, and a caret below its place.

    Lines with people are not shown, and none of files that may not be read, or of `targets.yaml`, where
    somebody may have written a password. Phones and credentials in addresses are masked. `files` keeps the
    lines of files that were read.
    """
    file = problem.file
    is_barred = problem.code.startswith("path-") and problem.line == 1
    if (
        file.suffix not in _SHOWN
        or file.stem == "targets"
        or problem.code.startswith(("recipient", "phone-committed"))
        or is_barred
    ):
        return
    if file not in files:
        files[file] = _read_lines(file)
    if not 0 < problem.line <= len(files[file]):
        return
    line = files[file][problem.line - 1].replace("\t", " ")
    masked, place = hide_credentials(hide_phones(line)), problem.column - 1
    # Something left out would move the caret.
    if len(masked) == len(line) and masked.strip() and "phone" not in masked:
        start = max(0, place - _WIDTH // 2)
        before = printable(masked[start:place])
        yield f"{_MARGIN}{before}{printable(masked[place : start + _WIDTH].rstrip())}"
        wide = sum(unicodedata.east_asian_width(one) in "WF" for one in before)
        yield f"{_MARGIN}{' ' * (len(before) + wide)}^"


def _read_lines(file: Path) -> list[str]:
    try:
        if file.stat().st_size > _LARGE:
            return []
        return file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError):
        return []


def count_problems(problems: Problems) -> str:
    """Return the number of errors, warnings and, if there are any, notes."""
    counts = [count_words(problems.error_count, "error"), count_words(problems.warning_count, "warning")]
    return ", ".join(counts + ([count_words(problems.note_count, "note")] if problems.note_count else []))


def silenced_lines(found: Validation) -> Iterator[str]:
    """Yield a line for the warnings that are silenced, and one for each reason."""
    count = sum(one.count for one in found.silenced)
    if count:
        yield f"{count_words(count, 'warning is', 'warnings are')} silenced:"
    for one in found.silenced:
        yield printable(f"  {one.campaign}: {one.code} ({one.count}): {one.reason}")


def silenced_markdown(found: Validation) -> str:
    """Return the warnings that are silenced as Markdown; empty if there are none."""
    head, *reasons = [*silenced_lines(found), ""]
    items = "".join(f"\n- {escape_markdown(one.strip())}" for one in reasons if one)
    return f"{head}\n{items}\n" if head else ""


def problems_markdown(problems: Problems, files: int) -> str:
    """Return the problems of a number of files as Markdown: their counts, and a table of them."""
    verdict = "Invalid" if problems.error_count else "Valid"
    text = f"## {verdict}: {count_words(files, 'campaign')}, {count_problems(problems)}\n"
    if found := list(problems):
        text += f"\n{write_problem_table(found)}"
    for code, file, count in problems.omitted():
        text += f"\n{escape_markdown(show_path(file))}: and {count:,} more ({code})\n"
    return text


def annotation(diagnostic: Diagnostic, file: str) -> str:
    """Return a workflow command that annotates a line; its values cannot start another one.

    `file` is the path from the top of the repository, as GitHub knows it.
    """
    message = diagnostic.message + (f"\n{diagnostic.hint}" if diagnostic.hint else "")
    place = {"file": file, "line": str(diagnostic.line), "col": str(diagnostic.column)}
    return _command(_LEVELS[diagnostic.severity], place | {"title": diagnostic.code}, message)


def job_notice(title: str, message: str) -> str:
    """Return a workflow command that puts a notice on a job's page, without a file."""
    return _command("notice", {"title": title}, message)


def workspace_path(file: Path) -> str:
    """Return a path from the top of the checked out repository, if it is below it."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    absolute = Path(os.path.normpath(file.absolute()))
    if workspace and absolute.is_relative_to(workspace):
        return absolute.relative_to(workspace).as_posix()
    return show_path(file)


def _command(level: str, properties: dict[str, str], message: str) -> str:
    written = ",".join(f"{name}={_escape_property(value)}" for name, value in properties.items())
    return f"::{level} {written}::{_escape_data(message)}"


def _escape_data(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A").replace("\t", "\\u0009")
    return escape_steering(escaped)


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


def write_markdown(found: Validation) -> None:
    """Write a verdict and a table of problems as Markdown."""
    print_text(problems_markdown(found.problems, len(found.files)), nl=False)


def annotate(problems: Problems) -> None:
    """Write an annotation for each problem, the gravest first."""
    for severity in _LEVELS:
        for one in problems:
            if one.severity == severity:
                print_command(annotation(one, workspace_path(one.file)))


def write_github(found: Validation) -> None:
    """Write an annotation for each problem, and a summary of the job.

    GitHub shows the first 10 of a severity as annotations; the summary's table has the others.
    """
    annotate(found.problems)
    silenced = silenced_markdown(found)
    append_summary(problems_markdown(found.problems, len(found.files)) + (silenced and f"\n{silenced}"))


def write_tests(run: SuiteRun) -> None:
    """Write an annotation for each difference of campaign tests, and a summary of the job."""
    annotate(run.problems)
    if text := tests_markdown(run):
        append_summary(text)


def tests_markdown(run: SuiteRun) -> str:
    """Return the results of campaign tests as Markdown; empty if there are none."""
    if not run.tests and run.is_passed:
        return ""
    table = "" if run.is_passed else f"\n{write_problem_table(run.problems)}"
    return f"**{run.summary}.**\n{table}"


def write_sarif(found: Validation) -> None:
    """Write problems as SARIF 2.1.0, for code scanning."""
    run = {
        "tool": {"driver": {"name": "sms-campaign-runner", "semanticVersion": __version__}},
        "columnKind": "unicodeCodePoints",
        "results": list(map(_list_result, found.problems)),
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    document = {"$schema": schema, "version": "2.1.0", "runs": [run]}
    click.echo(fit_json(json.dumps(document, ensure_ascii=False, indent=2), sys.stdout))


def _list_result(problem: Diagnostic) -> dict[str, Any]:
    place = {
        "artifactLocation": {"uri": quote(os.fsencode(workspace_path(problem.file)))},
        "region": {"startLine": problem.line, "startColumn": problem.column},
    }
    return {
        "ruleId": problem.code,
        "level": problem.severity,
        "message": {"text": "\n".join(filter(None, (problem.message, problem.hint)))},
        "locations": [{"physicalLocation": place}],
    }
