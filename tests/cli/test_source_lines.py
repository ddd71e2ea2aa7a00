"""The line of a problem, as people see it: shown where it helps, and never where it is somebody's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.cli.output.problems import human_lines
from runner.source.diagnostic import Diagnostic, Problems

if TYPE_CHECKING:
    from pathlib import Path


def show(file: Path, text: str, line: int, column: int, code: str = "key-unknown") -> list[str]:
    """Return what is shown of a problem at a place in a file with a text."""
    file.write_text(text, encoding="utf-8")
    problems = Problems()
    problems.add(Diagnostic("error", code, "wrong", file, line, column, "write it right"))
    return [one for one in human_lines(problems) if one.startswith("  | ")]


def test_a_caret_stands_below_the_place(tmp_path: Path) -> None:
    """Also behind wide characters and tabs, and far to the right, where the line is cut."""
    file = tmp_path / "pulse.yaml"
    assert show(file, "version: 1\nname:\t表 x\n", 2, 9) == ["  | name: 表 x", "  |          ^"]
    shown, caret = show(file, f"text: {'a' * 200}b{'c' * 200}\n", 1, 207)
    assert len(shown) == 4 + 76
    assert shown[caret.index("^")] == "b"


def test_nobody_s_line_is_shown(tmp_path: Path) -> None:
    """Lines of audiences, of people in a campaign, and of targets, where a password may stand, are not shown."""
    for name, text, code in (
        ("people.csv", "phone\n4155550101\n", "recipient-phone-invalid"),
        ("targets.yaml", "api_key: hunter2\n", "key-unknown"),
        ("pulse.yaml", 'recipients: [{phone: "4155550101"}]\n', "value-type"),
        ("pulse.yaml", "vars: {name: Ada}\n", "recipient-vars-missing"),
        ("gone.yaml", "", "key-unknown"),
    ):
        assert show(tmp_path / name, text, 1, 1, code) == []


def test_phones_and_credentials_are_masked(tmp_path: Path) -> None:
    """A phone in a text is masked in its width; a line with an address of which something is hidden is left out."""
    file = tmp_path / "pulse.yaml"
    assert show(file, "text: call +1 415 555 0101 now\n", 1, 7)[0] == "  | text: call +1 ••• ••• ••01 now"
    assert show(file, "csv: https://ada:secret@example.com/a.csv\n", 1, 6) == []
