"""What `runner explain CODE` shows: for each code a wrong line, what is said of it, and the line mended.

All of it comes from `tests/cases`, and from the remedies that `tests/test_hints.py` applies to them.
"""

from __future__ import annotations

import json
import re
from difflib import ndiff
from functools import cache
from pathlib import Path
from typing import Any

from tests.test_cases import ALL_CASES, name_case
from tests.test_hints import BY_HAND, MENDED, apply, list_remedies

FILE = Path(__file__).parents[2] / "runner" / "cli" / "explanations.json"
_PROBLEM = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):\d+: (?P<severity>error|warning|note): (?P<message>.*) "
    r"\[(?P<code>[a-z0-9-]+)\]\n(?:    (?P<hint>.*)\n)?",
    re.MULTILINE,
)
_LONGEST = 160
_BY_REGION = "write it as in +14155550101, or say which country's numbers these are (`region` in a campaign)"
WITHOUT_CASE = {
    "audience-rows-unsaid": (
        "reviewers without the key do not see how many rows people.csv.age has",
        "write `rows: 1200`",
    ),
    "campaign-file-name": (
        "the file's name is too long: its lockfile, which is named after it, could not be written",
        "rename it: at most 200 bytes before its ending; `name:` keeps its record",
    ),
    "campaign-unreadable": ("this file cannot be read: Permission denied", None),
    "csv-unreadable": ("this file cannot be read: Permission denied", None),
    "opt-out-phone-invalid": ("the phone '0791234567' is refused: it needs its country code", _BY_REGION),
    "recipient-consent-changed": (
        "line 2 of people.csv says no consent of the same phone: the last row decides",
        "write newer rows below older ones, and newer sources below older ones",
    ),
    "targets-outside": ("this is a link out of the repository, or to a hidden file, and is not read", None),
    "targets-unreadable": ("this file cannot be read: Permission denied", None),
    "targets-variable": (
        "`targets.live.api_key_env` names a variable that is not known to have a credential",
        "call it RUNNER_API_KEY or RUNNER_*_API_KEY",
    ),
    "test-campaign-unknown": (
        "there is no campaign 'pulze': did you mean `pulse`?",
        "write its name, or its file, as in ../customer-pulse.yaml",
    ),
    "expected-needless": (
        "`expected` in limits.recipients is not needed: the audience is about the same",
        "take it out: while it stands, its figures are not compared with those of the last time",
    ),
    "test-failed": ("asks by name: `ask` does not say 'Hi Ada'", "it says: Hi there, how was it?"),
    "test-invalid": ("asks by name: there is no message `aks`: did you mean `ask`?", "known: ask, nudge"),
    "text-without-label": (
        "the first text lacks the label of advertising, which Decree 91/2020/ND-CP asks for",
        "begin it with [QC]; where the sender's name has the label, say so in `ignore`",
    ),
    "url-library": (
        "s3://bucket/people.csv needs fsspec, which is not installed",
        "install the extra `cluster`",
    ),
    "value-refused": ("`name` is not allowed", None),
}
"""Message and hint of codes that no case has: most hang on the machine."""
_MILDER = {
    "audience-rows-unsaid": "warning",
    "expected-needless": "warning",
    "recipient-consent-changed": "note",
    "text-without-label": "warning",
}


def render_explanations() -> str:
    """Return the file of explanations, an object by code."""
    found = {code: _explain(problem, case) for code, (problem, case) in sorted(_choose_examples().items())}
    for code, (message, hint) in WITHOUT_CASE.items():
        severity = _MILDER.get(code, "error")
        found[code] = {"severity": severity, "message": message, "hint": hint, "file": None, "change": []}
    return json.dumps(dict(sorted(found.items())), ensure_ascii=False, indent=1) + "\n"


@cache
def _choose_examples() -> dict[str, tuple[re.Match[str], Path]]:
    """Return the best example of each code: one that is mended, of a case with its name, or with few problems."""
    ranked: dict[str, tuple[tuple[bool, bool, bool, int], re.Match[str], Path]] = {}
    for case in ALL_CASES:
        problems = [*_PROBLEM.finditer((case / "expected.txt").read_text(encoding="utf-8"))]
        for problem in problems:
            wrong = _read_line(case / problem["file"], int(problem["line"]))
            is_other = case.name != problem["code"]
            rank = (_mend(case, problem) is None, wrong is None, is_other, len(problems))
            if problem["code"] not in ranked or rank < ranked[problem["code"]][0]:
                ranked[problem["code"]] = rank, problem, case
    return {code: (problem, case) for code, (_, problem, case) in ranked.items()}


def _explain(problem: re.Match[str], case: Path) -> dict[str, Any]:
    wrong = _read_line(case / problem["file"], int(problem["line"]))
    mended = _mend(case, problem)
    if mended is None:
        change = [] if wrong is None else [f"> {wrong}"]
    else:
        written = (case / problem["file"]).read_text(encoding="utf-8").split("\n")
        change = [line for line in ndiff(written, mended.split("\n")) if line[0] in "-+"]
    return {
        "severity": problem["severity"],
        "message": problem["message"],
        "hint": problem["hint"],
        "file": problem["file"],
        "change": change,
    }


def _is_near(text: str, old: str, line: int) -> bool:
    """Return whether a change is about the problem in a line."""
    first = text[: text.index(old)].count("\n") + 1
    return first - 3 <= line <= first + old.count("\n") + 3


def _read_line(file: Path, number: int) -> str | None:
    """Return a line of a case's file; None if it has none that can be shown."""
    try:
        line = file.read_text(encoding="utf-8").split("\n")[number - 1]
    except (OSError, UnicodeDecodeError, IndexError):
        return None
    return line if line.strip() and line.isprintable() and len(line) <= _LONGEST else None


def _mend(case: Path, problem: re.Match[str]) -> str | None:
    """Return a case's file with the first remedy for a problem, as the tests apply it; None if there is none."""
    for name, file, old, new in (*MENDED, *((name, None, old, new) for name, old, new in BY_HAND)):
        if name == name_case(case) and file in (None, problem["file"]):
            text = (case / problem["file"]).read_text(encoding="utf-8")
            if old in text and _is_near(text, old, int(problem["line"])):
                return text.replace(old, new, 1)
    for place, file, line, column, key, piece in list_remedies():
        if (place, file, line) == (case, problem["file"], int(problem["line"])) and piece in (
            problem["hint"] or ""
        ):
            return apply((case / file).read_text(encoding="utf-8"), line, column, key, piece)
    return None
