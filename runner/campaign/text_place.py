"""Where in its file a template is wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runner.source.diagnostic import Diagnostic

if TYPE_CHECKING:
    from pathlib import Path

    from runner.campaign.model import TemplateText

_TAG = re.compile(r"\{[{%#]")
_INCLUDE = re.compile(r"\{%[-+]?\s*include\b")


def template_diagnostic(
    code: str, message: str, text: TemplateText, line: int | None = None, *, hint: str | None = None
) -> Diagnostic:
    """Return an error at the line of the campaign file that a template's line stands in.

    Args:
        code: the error's slug.
        message: what is wrong.
        text: the template.
        line: the template's line, from 1; None points at the value's start.
        hint: what to do about it.
    """
    position = text.position
    if line is not None and text.is_block:
        lines = text.source.split("\n")
        tag = _TAG.search(lines[line - 1]) if line <= len(lines) else None
        column = text.indent + (tag.start() if tag else 0)
        return Diagnostic("error", code, message, position.file, text.first_line + line - 1, column, hint)
    return Diagnostic("error", code, message, position.file, position.line, position.column, hint)


def variable_diagnostic(
    code: str, message: str, text: TemplateText, name: str, *, hint: str | None = None
) -> Diagnostic:
    """Return an error at a template's first mention of the variable `name`, else at its first include."""
    mention = re.compile(rf"\{{[{{%][^}}]*\b{re.escape(name)}\b")
    lines = text.source.split("\n")
    places = (n for sought in (mention, _INCLUDE) for n, line in enumerate(lines, 1) if sought.search(line))
    return template_diagnostic(code, message, text, next(places, None), hint=hint)


def included_diagnostic(
    code: str, message: str, file: Path, line: int | None, hint: str | None = None
) -> Diagnostic:
    """Return an error at a line, from 1, of an included file."""
    return Diagnostic("error", code, message, file, line or 1, 1, hint)
