"""What `validate` writes for GitHub: annotations, the job's summary, SARIF."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from runner.cli.output.problems import annotation
from runner.github.job_summary import SUMMARY_BYTES, append_summary, cut_summary, summary_room
from runner.source.diagnostic import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    import pytest

    Run = Callable[..., CompletedProcess[str]]


def test_an_annotation_steers_no_terminal() -> None:
    """Escape bytes and characters that turn the direction of a text are shown as what they are, in every part."""
    line = annotation(
        Diagnostic("error", "c", "a\x1b[31mb\x9b\u202ec", Path("a"), 1, 1, "d\x07"), "e\x1b]0;f"
    )
    assert line == ("::error file=e\\u001b]0;f,line=1,col=1,title=c::a\\u001b[31mb\\u009b\\u202ec%0Ad\\u0007")


HOSTILE = "a\x1b[31m](http://evil.example) @acme <b> `x`.yaml"


def test_file_names_have_no_power_over_markdown(run: Run, tmp_path: Path) -> None:
    """A file's name is shown as it is: no link, no mention, no HTML, no escape byte."""
    (tmp_path / HOSTILE.replace("/", "∕")).write_text("version: 2\n", encoding="utf-8")
    for format_ in ("markdown", "github"):
        done = run("validate", ".", "--format", format_, cwd=tmp_path)
        assert done.returncode == 1
        assert "\x1b" not in done.stdout
    said = run("validate", ".", "--format", "markdown", cwd=tmp_path).stdout
    assert ("| error | a \\[31m\\](http:∕∕evil.example) @&#8203;acme &lt;b&gt; \\`x\\`.yaml:1:10 | ") in said


def test_annotations_go_by_the_top_of_the_repository(run: Run, folder: Path) -> None:
    """A step that works in a folder of the repository annotates the files of the repository."""
    (folder / "campaigns/pulse.yaml").write_text("version: 2\n", encoding="utf-8")
    env = {"GITHUB_WORKSPACE": str(folder.parent)}
    done = run("validate", "--format", "github", cwd=folder, env=env)
    assert f"::error file={folder.name}/campaigns/pulse.yaml,line=1," in done.stdout


def test_a_summary_ends_below_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub drops a summary beyond 1 MiB: it is cut at a line, counting what stood there before."""
    file = tmp_path / "summary.md"
    file.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    append_summary("ä line\n" * 200_000)
    whole = file.read_text(encoding="utf-8")
    assert file.stat().st_size <= SUMMARY_BYTES
    assert whole.startswith("before\nä line\n")
    assert whole.endswith("ä line\n\n**The rest is left out: a job summary ends at 1 MiB.**\n")
    assert summary_room() < 100
    append_summary("more\n" * 100)
    assert file.stat().st_size <= SUMMARY_BYTES
    assert cut_summary("x\n", 0) == b""


def test_without_a_summary_there_is_no_room() -> None:
    """Outside of a job nothing is written."""
    assert summary_room() == 0
    append_summary("text")


def test_sarif_of_a_campaign(run: Run, folder: Path) -> None:
    """A result names its rule, its place from the top of the repository, and what to do."""
    (folder / ".git").mkdir()
    (folder / "campaigns/a b#1%.yaml").write_text("version: 2\n", encoding="utf-8")
    done = run("validate", "campaigns/a b#1%.yaml", "--format", "sarif", cwd=folder)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["$schema"] == "https://json.schemastore.org/sarif-2.1.0.json"
    result = next(one for one in document["runs"][0]["results"] if one["ruleId"] == "value-not-allowed")
    assert result["level"] == "error"
    assert result["message"] == {"text": "`version` must be 1, not 2\nwrite `version: 1`"}
    assert result["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "campaigns/a%20b%231%25.yaml"},
                "region": {"startLine": 1, "startColumn": 10},
            }
        }
    ]
    assert str(folder) not in done.stdout


def test_a_file_name_that_is_no_text(run: Run, folder: Path) -> None:
    """A name with bytes that are no UTF-8 is annotated with their escapes."""
    file = folder / os.fsdecode(b"campaigns/a\xff.yaml")
    file.write_text("version: 2\n", encoding="utf-8")
    done = run("validate", file, "--format", "github", cwd=folder, env={"GITHUB_STEP_SUMMARY": "summary.md"})
    assert done.returncode == 1
    assert "::error file=campaigns/a\\udcff.yaml,line=1," in done.stdout
