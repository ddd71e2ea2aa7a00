"""A GitHub job's summary in Markdown, and its outputs for later steps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import RunnerError

if TYPE_CHECKING:
    from collections.abc import Mapping

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
_OUTPUT_VARIABLE = "GITHUB_OUTPUT"
DENIED_VARIABLE = "RUNNER_PLAN_DENIED_BY"
"""Who denied the plan, for later steps of the job; empty if it is not denied."""
SUMMARY_BYTES = 1024 * 1024 - 1024
"""Largest summary of a step, with a margin: above 1 MiB GitHub shows nothing at all.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions, "Step isolation and limits".
"""
_CUT = "\n\n**The rest is left out: a job summary ends at 1 MiB.**\n"


def has_summary() -> bool:
    """Return whether this process is a step of a job with a summary."""
    return bool(os.environ.get(SUMMARY_VARIABLE))


def summary_room() -> int:
    """Return the bytes of Markdown left in the job's summary; 0 if there is none."""
    file = os.environ.get(SUMMARY_VARIABLE)
    if not file:
        return 0
    try:
        written = Path(file).stat().st_size
    except OSError:
        written = 0
    return max(0, SUMMARY_BYTES - written - 1)


def append_summary(markdown: str) -> None:
    """Append Markdown to the job's summary, if there is one; cut it at a line where it would grow too long.

    Raises:
        RunnerError: the file cannot be written.
    """
    file = os.environ.get(SUMMARY_VARIABLE)
    if not file:
        return
    try:
        with Path(file).open("ab") as stream:
            stream.write(cut_summary(markdown + "\n", SUMMARY_BYTES - stream.tell()))
    except OSError as error:
        raise RunnerError(f"the job summary {file} cannot be written: {error.strerror}") from None


def has_outputs() -> bool:
    """Return whether this process is a step of a job that can set outputs."""
    return bool(os.environ.get(_OUTPUT_VARIABLE))


def append_outputs(values: Mapping[str, str]) -> None:
    """Set outputs of the job's step, if it is one, each of one line.

    Raises:
        RunnerError: the file cannot be written.
    """
    _append_values(_OUTPUT_VARIABLE, values)


def append_variables(values: Mapping[str, str]) -> None:
    """Set environment variables, each of one line, for later steps of the job, if this is one.

    Raises:
        RunnerError: the file cannot be written.
    """
    _append_values("GITHUB_ENV", values)


def _append_values(variable: str, values: Mapping[str, str]) -> None:
    file = os.environ.get(variable)
    if not file:
        return
    try:
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.writelines(f"{name}={value}\n" for name, value in values.items())
    except OSError as error:
        raise RunnerError(f"the file of {variable}, {file}, cannot be written: {error.strerror}") from None


def cut_summary(markdown: str, room: int) -> bytes:
    """Return at most `room` bytes of Markdown in UTF-8: whole lines, and a note if some are left out."""
    whole = markdown.encode("utf-8", "replace")
    if len(whole) <= room:
        return whole
    kept = whole[: max(0, room - len(_CUT))].rpartition(b"\n")[0]
    return kept + _CUT.encode() if room >= len(_CUT) else b""
