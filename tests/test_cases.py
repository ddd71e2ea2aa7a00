"""Right and wrong campaigns as people write them, and the output of `validate` for each.

A folder below `cases/invalid` or `cases/valid` is a test: its files, and in `expected.txt` the output of
`runner validate .` there. Lines `link -> target` of a `links.txt` become symbolic links. Beside each folder's
copy lies a readable file `outside.csv` that no campaign may see.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runner.cli.main import run as run_command
from runner.source.json_schema import load_validator
from runner.wording import printable

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = Path(__file__).parent / "cases"
EXIT_CODES = {"invalid": 1, "valid": 0}
UNSEEN = "text-of-another-file"


def list_cases(kind: str) -> list[Path]:
    return sorted(folder for folder in (CASES / kind).iterdir() if folder.is_dir())


def name_case(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


ALL_CASES = [case for kind in EXIT_CODES for case in list_cases(kind)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Path]:
    """Copy a case to a folder of its own, and make it the current one."""

    def copy_case(case: Path) -> Path:
        folder = shutil.copytree(case, tmp_path / "repository", symlinks=True)
        (tmp_path / "outside.csv").write_text(f"phone,name\n+14155550101,{UNSEEN}\n", encoding="utf-8")
        links = folder / "links.txt"
        for line in links.read_text(encoding="utf-8").splitlines() if links.exists() else ():
            link, _, target = line.partition(" -> ")
            (folder / link).parent.mkdir(parents=True, exist_ok=True)
            (folder / link).symlink_to(target)
        monkeypatch.chdir(folder)
        return folder

    return copy_case


def write_human(document: dict[str, Any]) -> str:
    """Return the problems in a JSON document in the human format."""
    lines: list[str] = []
    said = None
    for problem in document["diagnostics"]:
        place = f"{problem['file']}:{problem['line']}:{problem['column']}"
        lines.append(f"{place}: {problem['severity']}: {printable(problem['message'])} [{problem['code']}]")
        advice = (problem["file"], problem["code"], problem.get("hint"))
        lines += [f"    {problem['hint']}"] if "hint" in problem and advice != said else []
        said = advice
    lines += [f"{o['file']}: and {o['count']:,} more [{o['code']}]" for o in document["omitted"]]
    silenced = document["silenced"]
    if silenced:
        lines.append(f"{sum(one['count'] for one in silenced)} warnings are silenced:")
    lines += [f"  {one['campaign']}: {one['code']} ({one['count']}): {one['reason']}" for one in silenced]
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("case", ALL_CASES, ids=name_case)
def test_says_what_is_expected(
    case: Path, place: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Every line for people is the expected one, and the exit code tells valid from invalid."""
    folder = place(case)
    code = run_command(["validate", "."])
    output = capsys.readouterr()
    shown = [line for line in output.out.splitlines(keepends=True) if not line.startswith("  | ")]
    assert "".join(shown) == (folder / "expected.txt").read_text(encoding="utf-8")
    assert output.err == ""
    assert code == EXIT_CODES[case.parent.name]
    assert UNSEEN not in output.out


@pytest.mark.parametrize("case", ALL_CASES, ids=name_case)
def test_json_says_the_same(
    case: Path, place: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The JSON format fits its schema and holds the same problems at the same places."""
    folder = place(case)
    code = run_command(["validate", ".", "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    load_validator("validate").validate(document)
    human, _, verdict = (folder / "expected.txt").read_text(encoding="utf-8").rstrip("\n").rpartition("\n")
    assert write_human(document) == (f"{human}\n" if human else "")
    assert document["valid"] is (code == 0) is verdict.startswith("Valid: ")
    severities = [problem["severity"] for problem in document["diagnostics"]]
    omitted = sum(kind["count"] for kind in document["omitted"])
    counted = document["error_count"] + document["warning_count"] + document["note_count"]
    assert counted == len(severities) + omitted
    assert severities.count("warning") == document["warning_count"]


def test_a_folder_below_a_hidden_one_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hidden folders below the given one are skipped; its own parents may be hidden."""
    folder = shutil.copytree(CASES / "valid" / "plain", tmp_path / ".checkout" / "campaigns")
    shutil.copytree(CASES / "invalid" / "file-empty", folder / ".draft")
    monkeypatch.chdir(tmp_path)
    assert run_command(["validate", str(folder)]) == 0
    assert capsys.readouterr().out == "Valid: 1 campaign, 0 errors, 0 warnings.\n"
