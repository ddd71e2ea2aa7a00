"""Rows that lack a variable."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CAMPAIGN = """version: 1
recipients:
  - csv: people.csv
messages:
  - id: ask
    text: "Hi {{ name }}"
"""
COUNT_OPENS = """
import sys
from collections import Counter
opened = Counter()
sys.addaudithook(lambda event, args: opened.update([str(args[0])]) if event == "open" else None)
from runner.cli.main import run
for folder in sys.argv[1:]:
    run(["validate", f"{folder}/campaign.yaml"])
    print("opened", sum(n for name, n in opened.items() if name.endswith(f"{folder}/people.csv")))
"""


def test_the_file_is_not_opened_for_every_blank(tmp_path: Path) -> None:
    """However many rows lack a variable, the audience file is read as often as for a single one."""
    for folder, blanks in (("many", 40), ("one", 1)):
        (tmp_path / folder).mkdir()
        rows = "".join(f"+1415{5550100 + number},\n" for number in range(blanks))
        text = f"phone,name\n{rows}+14155559999,Ada\n"
        (tmp_path / folder / "people.csv").write_text(text, encoding="utf-8")
        (tmp_path / folder / "campaign.yaml").write_text(CAMPAIGN, encoding="utf-8")
    command = [sys.executable, "-c", COUNT_OPENS, "many", "one"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "and 20 more" in done.stdout, done.stdout + done.stderr
    many, one = [line for line in done.stdout.splitlines() if line.startswith("opened")]
    assert many == one
