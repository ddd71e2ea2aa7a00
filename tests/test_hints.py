"""Remedies in hints, applied to the case that called them forth: they mend it, and bring nothing new.

What a hint writes out in backticks (`key: value`) takes the place of that key at the problem's line, or is added
to the mapping there. Hints that need a person's eye are applied by hand (`BY_HAND`).
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import pytest

from runner.workflow.scope import Scope
from runner.workflow.validate import validate_campaigns
from tests.test_cases import ALL_CASES, name_case

if TYPE_CHECKING:
    from pathlib import Path

    from runner.source.diagnostic import Diagnostic

LINE = re.compile(
    r"(?P<file>[^:\n]+yaml):(?P<line>\d+):(?P<column>\d+): \w+: (?P<said>.*)\n    (?P<hint>.*`.*)"
)
UNKNOWN = re.compile(r"`(?P<key>[^`]+)` is not a key")
PIECE = re.compile(r"`((?:- |[\w.-]+: ).+?|- \"[^`]+)`(?=$|[,:; ])")
NOT_ALONE = ("a campaign starts", "who answered", "write words, or", "write one of", "ask again", "before")
"""Hints whose examples need more than their line, or are a choice that is made by hand."""
ASKING = """\
    introduction: "We look forward to your answer!"
    questions:
      - {tag: q, text: "How was it?"}
"""
OTHER_FILE = {
    # The example names a message, column or variable that the case lacks.
    ("all-at-once", "after"),
    ("all-at-once", "type"),
    ("consent-incomplete", "source_column"),
    ("to-without-after", "after"),
    ("variants-analysis-without-arms", "arms"),
    ("variants-of-without-arms", "arms"),
    ("yaml-hash-cuts-order", "text"),
    # A line for the file of the CI job, not for the campaign's.
    ("file-lfs-pointer-included", "lfs"),
    # The text goes on in the next line.
    ("yaml-hash-in-continued-text", "text"),
}
BY_HAND = [
    ("valid/reminder-that-ends-the-survey", '    text: "We look forward to your answer!"\n', ASKING),
    ("invalid/template-variable-blank-inline", "{{ first_name }}", "{{ first_name | default('…') }}"),
    ("invalid/placeholder-of-another-tool", "{name}", "{{ name }}"),
    ("invalid/template-curly-quotes", "{{ name | default(“there”) }}", "{{ name | default('there') }}"),
    ("invalid/template-blank-in-name", "{{ first name }}", "{{ first_name }}"),
    ("invalid/template-dash-in-name", "{{ first-name }}", "{{ first_name }}"),
    ("invalid/cell-as-truth", "if vip", "if vip | is_yes"),
    ("invalid/cell-as-truth", "if vip", "if vip == 'TRUE'"),
    ("invalid/cell-as-truth", "if vip", "if vip is defined"),
    ("invalid/cell-compared-as-text", "points >= '100'", "points >= 100"),
    ("invalid/vars-blank-after-colon", "name:Ada", "name: Ada"),
    ("invalid/yaml-hash-cuts-order", "Your order #{{ order }} is ready", '"Your order #{{ name }} is ready"'),
    ("invalid/yaml-star-in-text", "*bold* move", '"*bold* move"'),
    ("invalid/yaml-hash-in-a-list", "[Plan #1, Plan #2]", '["Plan #1", "Plan #2"]'),
    ("valid/responses-numbers", ', responses: ["2", "4", "6", "8"]', ", scale: number"),
    ("valid/text-lookalike-letter", "p\u0430rcel", "parcel"),
]


def find_all(folder: Path) -> Counter[tuple[str, str]]:
    """Return the problems of a folder's campaigns, by code and message."""
    return Counter(map(_key, validate_campaigns(Scope(paths=(folder,))).problems))


def _key(problem: Diagnostic) -> tuple[str, str]:
    return problem.code, problem.message


@cache
def list_remedies() -> list[tuple[Path, str, int, int, str, str]]:
    """Return case, file, line, column, key to replace and text of each remedy that an output writes out."""
    found = []
    for case in ALL_CASES:
        for match in LINE.finditer((case / "expected.txt").read_text(encoding="utf-8")):
            pieces = [] if match["hint"].startswith(NOT_ALONE) else PIECE.findall(match["hint"])
            unknown = UNKNOWN.match(match["said"])
            place = match["file"], int(match["line"]), int(match["column"])
            for piece in pieces:
                key = unknown["key"] if unknown else piece.partition(":")[0]
                if (case.name, key) not in OTHER_FILE:
                    found.append((case, *place, key, piece))
    return found


def apply(text: str, line: int, column: int, key: str, piece: str) -> str:
    """Return a file's text with a remedy in place of a key's value there or near, or added."""
    lines = text.split("\n")
    starts = re.compile(rf"(?:^|(?<=[\s{{])){re.escape(key)}:(?=\s|$)" if piece[:2] != "- " else "- ")
    # These stand beside what they are about.
    is_beside = key in ("scale", "weight")
    for number in range(line, line + 1 + 3 * is_beside):
        written = lines[number - 1] if number <= len(lines) else ""
        found = [one for one in starts.finditer(written) if is_beside or one.start() < column]
        if found:
            end = _find_end(written, found[-1].end())
            lines[number - 1] = written[: found[-1].start()] + piece + written[end:]
            return "\n".join(lines)
    lines[line - 1] = _insert(lines[line - 1], column - 1, piece)
    return "\n".join(lines)


def _insert(written: str, column: int, piece: str) -> str:
    if written[column : column + 1] == "{":
        return f"{written[: column + 1]}{piece}, {written[column + 1 :]}"
    return f"{written[:column]}{piece}\n{' ' * column}{written[column:]}"


def _find_end(written: str, start: int) -> int:
    """Return where a value ends that starts at `start`: at its bracket, its comma, or the line's end."""
    depth, quote = 0, ""
    is_flow = "{" in re.sub(r"\{\{.*?\}\}", "", written[:start])
    for index in range(start, len(written)):
        character = written[index]
        if quote or character in "\"'":
            quote = "" if character == quote else quote or character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
            if depth < 0:
                return index
        elif character == "," and is_flow and not depth:
            return index
    return len(written)


@pytest.mark.parametrize(
    ("case", "file", "line", "column", "key", "piece"),
    [pytest.param(*one, id=f"{one[0].name}-{one[2]}-{one[5][:20]}") for one in list_remedies()],
)
def test_a_remedy_mends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: Path,
    file: str,
    line: int,
    column: int,
    key: str,
    piece: str,
) -> None:
    """With the remedy in place a problem is gone, and no other has come."""
    folder = shutil.copytree(case, tmp_path / "repository", symlinks=True)
    monkeypatch.chdir(folder)
    before = find_all(folder)
    written = (folder / file).read_text(encoding="utf-8")
    (folder / file).write_text(apply(written, line, column, key, piece), encoding="utf-8")
    after = find_all(folder)
    # Beside errors a file is not asked for its name.
    new = [problem for problem in after - before if problem[0] != "campaign-name-derived"]
    assert not new, (folder / file).read_text(encoding="utf-8")
    assert before - after


@pytest.mark.parametrize(("name", "old", "new"), BY_HAND)
def test_a_remedy_by_hand_mends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str
) -> None:
    """What a hint says in words mends its case as well."""
    case = next(case for case in ALL_CASES if name_case(case) == name)
    folder = shutil.copytree(case, tmp_path / "repository")
    monkeypatch.chdir(folder)
    (file,) = folder.glob("*.yaml")
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    assert not find_all(folder)
