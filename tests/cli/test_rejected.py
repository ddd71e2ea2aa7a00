"""Rows that cannot be read: left out, counted, limited and listed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

YAML = """\
version: 1
recipients:
  - csv: people.csv
    invalid_rows: skip
messages:
  - id: hello
    text: Hello {{ name }}
"""
ROWS = "".join(f"+1415555{1000 + number},Ada\n" for number in range(297))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A campaign of 300 rows, three of which cannot be read, and one of which comes twice."""
    rows = f"phone,name\n{ROWS},Bo\n+14155551000,Cy,x\n+19002345678,Di\n+14155551000,Ada\n"
    (tmp_path / "people.csv").write_text(rows, encoding="utf-8")
    (tmp_path / "campaign.yaml").write_text(YAML, encoding="utf-8")
    return tmp_path


def test_one_blank_phone_stops_nobody_else(run: Run, folder: Path) -> None:
    """Every row is counted once: those that are left out under their own name."""
    done = run("plan", "campaign.yaml", "--format", "json", cwd=folder)
    assert done.returncode == 0
    (message,) = json.loads(done.stdout)["campaigns"][0]["messages"]
    counts = {name: message[name] for name in ("rows", "duplicates", "invalid", "recipients", "to_send")}
    assert counts == {"rows": 301, "duplicates": 1, "invalid": 3, "recipients": 297, "to_send": 297}
    assert "invalid" in run("plan", "campaign.yaml", cwd=folder).stdout


@pytest.mark.parametrize(("limit", "code"), [("3", 0), ("2", 5), ("1%", 0), ("0.9%", 5), ("0", 5)])
def test_too_many_invalid_rows_stop_a_plan(run: Run, folder: Path, limit: str, code: int) -> None:
    """`limits.invalid_rows` is a number, or a share of all rows."""
    (folder / "campaign.yaml").write_text(f"{YAML}limits: {{invalid_rows: {limit}}}\n", encoding="utf-8")
    done = run("plan", "campaign.yaml", cwd=folder)
    assert done.returncode == code
    words = f"3 of 301 rows are invalid, and limits.invalid_rows is {limit}. None of it is sent.\n"
    assert (words in done.stdout) is (code == 5)
