"""What was mended, as annotations of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

CAMPAIGN = """\
version: 1
name: campaign
recipients:
  - csv: people.csv
messages:
  - id: hello
    text: Hello
"""


def test_notes_become_notices(run: Callable[..., CompletedProcess[str]], tmp_path: Path) -> None:
    """`--format github` writes a note as a notice: it stands beside the line, and fails no check."""
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN, encoding="utf-8")
    (tmp_path / "people.csv").write_text("phone\n'+14155550101\n+14155550102\n", encoding="utf-8")
    done = run("validate", "campaign.yaml", "--format", "github", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == (
        "::notice file=people.csv,line=2,col=1,title=phone-apostrophe::"
        "repaired: an apostrophe or quotes of a phone, line 2%0A"
        "format the column as text in the spreadsheet to be rid of this\n"
    )
