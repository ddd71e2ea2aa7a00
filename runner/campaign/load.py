"""From a campaign file to the model, or to all that is wrong with it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from runner.campaign.audience_files import expand_files
from runner.campaign.checks import check_campaign
from runner.campaign.reader import read_campaign
from runner.campaign.references import find_reference_problems
from runner.campaign.remainder import keep_sound
from runner.source.collector import pause_collector
from runner.source.confine import HIDDEN, is_hidden_below, is_readable_below, is_written_hidden, reading_root
from runner.source.diagnostic import Diagnostic
from runner.source.document import Key, YamlDocument, YamlProblemError
from runner.source.schema import find_problems, load_validator
from runner.source.yaml import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.model import Campaign

_NUMBER = re.compile(r"[-+]?[0-9][0-9_]*", re.ASCII)
"""Whole numbers of YAML 1.1 (int) and 1.2 (10.3.2), one of which this program reads as it is written."""
_ANCHOR = re.compile(r"^&\S+\s+")
_PLAIN_KEYS = frozenset(("phone", "vars", "timezone"))
"""Of a recipient that the loop over them can judge; the validator sees all others."""


@pause_collector()
def load_campaign(
    file: Path, *, current: Path, allowed: tuple[Path | str, ...] = ()
) -> tuple[Campaign | None, list[Diagnostic]]:
    """Read one campaign file.

    Args:
        file: the campaign file.
        current: the current folder, which bounds reading outside a git repository.
        allowed: further folders, and URLs, that the campaign may read from.

    Returns:
        The campaign, None if there are errors; and every problem, warnings included.
    """
    roots = (reading_root(file, current=current), *(each for each in allowed if isinstance(each, Path)))
    urls = tuple(each for each in allowed if isinstance(each, str))
    text, problem = _read_text(file, roots)
    if text is None:
        return None, [problem] if problem else []
    try:
        document = read_yaml(text, file)
    except YamlProblemError as error:
        return None, [error.diagnostic]
    problems = [*document.problems, *_find_schema_problems(document), *_find_unquoted(document)]
    if not isinstance(document.data, dict):
        return None, problems
    if problems:
        keep_sound(document.data, _list_violations(document.data))
    campaign = read_campaign(document, roots[0])
    problems.extend(check_campaign(campaign, document, roots, urls))
    if any(problem.severity == "error" for problem in problems):
        return None, problems
    recipients, exclude = (tuple(expand_files(each)) for each in (campaign.recipients, campaign.exclude))
    campaign = replace(campaign, recipients=recipients, exclude=exclude)
    problems.extend(find_reference_problems(campaign))
    return None if any(problem.severity == "error" for problem in problems) else campaign, problems


def read_names(file: Path, *, current: Path, allowed: tuple[Path | str, ...] = ()) -> tuple[str, ...]:
    """Return the names whose record a campaign file claims; of one that cannot be read, the file's own.

    Args:
        file: the campaign file.
        current: as for `load_campaign`.
        allowed: as for `load_campaign`.
    """
    roots = (reading_root(file, current=current), *(each for each in allowed if isinstance(each, Path)))
    text, _ = _read_text(file, roots)
    try:
        data = None if text is None else read_yaml(text, file).data
    except YamlProblemError:
        data = None
    if not isinstance(data, dict):
        return (file.stem,)
    former = data.get("renamed_from")
    names = (data.get("name", file.stem), *(former if isinstance(former, list) else [former]))
    return tuple(name for name in names if isinstance(name, str))


def _read_text(file: Path, roots: tuple[Path, ...]) -> tuple[str | None, Diagnostic | None]:
    is_hidden = is_hidden_below(file, roots)
    if is_hidden and not is_written_hidden(file, roots[0]):  # one that is named is read
        message = f"this campaign is a link to a file that {HIDDEN}"
        return None, Diagnostic("error", "path-hidden", message, file, 1, 1, "write the campaign here")
    if not is_hidden and not is_readable_below(file, roots):
        message = "this campaign is a link to a file outside the repository"
        return None, Diagnostic(
            "error", "path-outside", message, file, 1, 1, "use --allow-path to widen what may be read"
        )
    try:
        raw = file.read_bytes()
    except OSError as error:
        message = f"this file cannot be read: {error.strerror}"
        return None, Diagnostic("error", "campaign-unreadable", message, file, 1, 1)
    try:
        return raw.decode("utf-8-sig"), None
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return None, Diagnostic(
            "error", "campaign-encoding", "this file is not UTF-8", file, line, 1, "save it as UTF-8"
        )


def _find_schema_problems(document: YamlDocument) -> Iterator[Diagnostic]:
    """Hold a document to the schema; recipients that are plainly right are not shown to the validator.

    The validator takes a hundred times as long for a row as the loop does (design: performance).
    """
    data = document.data
    if not isinstance(data, dict):
        yield Diagnostic(
            "error",
            "campaign-empty",
            "this file holds no campaign",
            document.file,
            1,
            1,
            "a campaign starts with `version: 1`",
        )
        return
    shown, kept = _choose_shown(data)
    yield from find_problems(document, "campaign", shown, lambda path: _restore(path, kept))


def _find_unquoted(document: YamlDocument) -> Iterator[Diagnostic]:
    """Find phones that are texts here, and numbers to other readers of YAML: editors refuse them."""
    data = document.data if isinstance(document.data, dict) else {}
    for key in ("recipients", "exclude"):
        rows = data.get(key)
        for index, row in enumerate(rows if isinstance(rows, list) else ()):
            phone = row.get("phone") if isinstance(row, dict) else None
            if not isinstance(phone, str) or not _NUMBER.fullmatch(phone):
                continue
            place = document.place(row, "phone")
            if place is None or place.style:
                continue
            # As it is written: an alias stands for a text that may well be in quotes.
            written = _ANCHOR.sub("", document.lines[place.line][place.column :])
            if not written.startswith(phone):
                continue
            words = f"`{key}[{index + 1}].phone` must be in quotes: YAML takes it for a number without them"
            hint = 'put it in quotes, as in "+14155550101": a number loses its + and leading zeros'
            line, column = place.line + 1, place.column + 1
            yield Diagnostic("error", "phone-unquoted", words, document.file, line, column, hint)


def _list_violations(data: dict[str, Any]) -> list[list[Key]]:
    """Return where a document breaks the schema: the paths of all violations, those that follow included."""
    shown, kept = _choose_shown(data)
    errors = load_validator("campaign").iter_errors(shown)
    return [_restore(list(error.absolute_path), kept) for error in errors]


def _choose_shown(data: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Return what the validator is shown of a document, and the indices of the recipients in that."""
    rows = data.get("recipients")
    if not isinstance(rows, list):
        return data, []
    kept = [index for index, row in enumerate(rows) if not _is_plain_recipient(row)]
    return {**data, "recipients": [rows[index] for index in kept] or rows[:1]}, kept


def _restore(path: list[Key], kept: list[int]) -> list[Key]:
    """Return the path in the document of a path in what the validator is shown."""
    if kept and len(path) > 1 and path[0] == "recipients":
        return [path[0], kept[cast("int", path[1])], *path[2:]]
    return path


def _is_plain_recipient(row: Any) -> bool:
    if not isinstance(row, dict) or not row.keys() <= _PLAIN_KEYS:
        return False
    phone, variables = row.get("phone"), row.get("vars", {})
    if not phone or not isinstance(phone, str) or not isinstance(variables, dict):
        return False
    zone = row.get("timezone", "UTC")
    return isinstance(zone, str) and zone != "" and all(map(str.isidentifier, variables))
