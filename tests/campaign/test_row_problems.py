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
from runner.__main__ import main
try:
    main()
finally:
    print("opened", sum(n for name, n in opened.items() if name.endswith("people.csv")))
"""


def count_opens(folder: Path, blanks: int) -> int:
    rows = "".join(f"+1415{5550100 + number},\n" for number in range(blanks))
    (folder / "people.csv").write_text(f"phone,name\n{rows}+14155559999,Ada\n", encoding="utf-8")
    (folder / "campaign.yaml").write_text(CAMPAIGN, encoding="utf-8")
    command = [sys.executable, "-c", COUNT_OPENS, "validate", "campaign.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert f"and {blanks - 20} more" in done.stdout or blanks < 20, done.stdout + done.stderr
    return int(done.stdout.split()[-1])


def test_the_file_is_not_opened_for_every_blank(tmp_path: Path) -> None:
    """However many rows lack a variable, the audience file is read as often as for a single one."""
    assert count_opens(tmp_path, 40) == count_opens(tmp_path, 1)
