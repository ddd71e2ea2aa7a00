"""What a step of a GitHub job tells beside its log: Markdown for the summary, outputs for later steps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import RunnerError

if TYPE_CHECKING:
    from collections.abc import Mapping

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
_OUTPUT_VARIABLE = "GITHUB_OUTPUT"
SUMMARY_BYTES = 1024 * 1024 - 1024
"""What a step may write, with a margin: of a summary beyond 1 MiB GitHub shows nothing at all.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions, "Step isolation and limits".
"""
_CUT = "\n\n**The rest is left out: a job summary ends at 1 MiB.**\n"


def has_summary() -> bool:
    """Return whether this process is a step of a job with a summary."""
    return bool(os.environ.get(SUMMARY_VARIABLE))


def summary_room() -> int:
    """Return how many bytes of Markdown the job's summary still takes; none if there is no summary."""
    file = os.environ.get(SUMMARY_VARIABLE)
    if not file:
        return 0
    try:
        written = Path(file).stat().st_size
    except OSError:
        written = 0
    return max(0, SUMMARY_BYTES - written - 1)


def append_summary(markdown: str) -> None:
    """Append Markdown to the job's summary, if there is one; cut at a line where it would grow too long.

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
    """Return whether this process is a step of a job whose later steps can read what it says."""
    return bool(os.environ.get(_OUTPUT_VARIABLE))


def append_outputs(values: Mapping[str, str]) -> None:
    """Set outputs of the job's step, if it is one.

    Args:
        values: by their names; each of one line.

    Raises:
        RunnerError: the file cannot be written.
    """
    _append_values(_OUTPUT_VARIABLE, values)


def append_variables(values: Mapping[str, str]) -> None:
    """Set variables of the environment for the later steps of the job, if this is one.

    Args:
        values: by their names; each of one line.

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
    """Return Markdown in UTF-8, as much of it as there is room for: whole lines, and a word on the rest.

    Args:
        markdown: ends with a line break.
        room: in bytes.
    """
    whole = markdown.encode("utf-8", "replace")
    if len(whole) <= room:
        return whole
    kept = whole[: max(0, room - len(_CUT))].rpartition(b"\n")[0]
    return kept + _CUT.encode() if room >= len(_CUT) else b""
