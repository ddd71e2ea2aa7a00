"""What `validate` writes for GitHub: annotations, the job's summary, SARIF."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from runner.cli.output.problems import annotation, list_annotations
from runner.cli.output.sarif import sarif_text
from runner.github.job_summary import SUMMARY_BYTES, append_summary, cut_summary, summary_room
from runner.source.diagnostic import Diagnostic, Problems

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    import pytest

    from runner.source.diagnostic import Severity

    Run = Callable[..., CompletedProcess[str]]


def problems_of(kinds: int = 1, **counts: int) -> Problems:
    """Return problems in the order of `counts`, as many of each severity as it says."""
    problems = Problems()
    severities = [cast("Severity", name) for name, count in counts.items() for _ in range(count)]
    for number, severity in enumerate(severities, 1):
        code = f"code-{severity}-{number % kinds}"
        problems.add(Diagnostic(severity, code, f"message {number}", Path("a.yaml"), number, 1, "mend it"))
    return problems


def test_annotations_come_gravest_first() -> None:
    """Errors are annotated before warnings and notes, wherever they stand."""
    commands = [line.split(" ")[0] for line in list_annotations(problems_of(note=1, warning=1, error=1))[0]]
    assert commands == ["::error", "::warning", "::notice"]


def test_annotations_are_rolled_up_beyond_what_is_shown() -> None:
    """Of more than ten errors, the tenth annotation counts the rest; the log lists those that are kept."""
    problems = problems_of(error=30, warning=10)
    lines, left = list_annotations(problems)
    assert [line.split(" ")[0] for line in lines] == ["::error"] * 10 + ["::warning"] * 10
    assert lines[9] == (
        "::error title=21 more errors::21 more errors: the job's summary and the step's log list them"
    )
    assert [one.line for one in left] == list(range(10, 21))


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


def test_a_long_message_is_cut() -> None:
    """GitHub keeps 4,096 characters of an annotation; what is cut ends in an ellipsis."""
    line = annotation(Diagnostic("error", "c", "x" * 5000, Path("a"), 1, 1), "a")
    assert line.endswith("::" + "x" * 4095 + "…")


def test_annotations_go_by_the_top_of_the_repository(run: Run, folder: Path) -> None:
    """A step that works in a folder of the repository annotates the files of the repository."""
    (folder / "campaigns/pulse.yaml").write_text("version: 2\n", encoding="utf-8")
    env = {"GITHUB_WORKSPACE": str(folder.parent)}
    done = run("validate", "--format", "github", cwd=folder, env=env)
    assert f"::error file={folder.name}/campaigns/pulse.yaml,line=1," in done.stdout


def test_the_rest_is_in_the_log(run: Run, folder: Path) -> None:
    """Problems without an annotation are printed as lines."""
    rows = "".join(f"Bob,{number}\n" for number in range(15))
    (folder / "campaigns/audience/people.csv").write_text(f"first_name,mobile\n{rows}", encoding="utf-8")
    done = run("validate", "--format", "github", cwd=folder)
    lines = done.stdout.splitlines()
    assert sum(line.startswith("::error ") for line in lines) == 10
    assert sum(": error: " in line for line in lines) == 6


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


def read_sarif(problems: Problems) -> dict[str, Any]:
    document = json.loads(sarif_text(problems))
    assert (document["version"], len(document["runs"])) == ("2.1.0", 1)
    run: dict[str, Any] = document["runs"][0]
    return run


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
    assert result["message"] == {"text": "`version` must be 1, not 2"}
    assert result["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "campaigns/a%20b%231%25.yaml", "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": 1, "startColumn": 10},
            }
        }
    ]
    driver = document["runs"][0]["tool"]["driver"]
    assert driver["informationUri"] == "https://sms-campaign-runner.example/"
    rule = driver["rules"][result["ruleIndex"]]
    assert rule == {
        "id": "value-not-allowed",
        "shortDescription": {"text": "Value not allowed"},
        "fullDescription": {"text": "Value not allowed"},
        "help": {"text": "`runner validate` says where and why."},
        "defaultConfiguration": {"level": "error"},
    }
    # Where the repository stands on this machine is not told.
    assert str(folder) not in done.stdout


def test_sarif_of_valid_campaigns_is_empty(run: Run, folder: Path) -> None:
    """No results: code scanning closes what it had open."""
    done = run("validate", "--format", "sarif", cwd=folder)
    assert done.returncode == 0
    assert json.loads(done.stdout)["runs"][0]["results"] == []


def test_fingerprints_outlive_moved_lines() -> None:
    """A problem that moved is the same problem; of two alike, each keeps its own fingerprint."""

    def fingerprints(shift: int) -> list[str]:
        problems = Problems()
        for line in (3, 8):
            message = f"the key `name` stands twice; first in line {line + shift}"
            problems.add(Diagnostic("error", "key-twice", message, Path("a.yaml"), line + shift + 1, 1))
        return [one["partialFingerprints"]["campaignProblem/v1"] for one in read_sarif(problems)["results"]]

    assert fingerprints(0) == fingerprints(1_000)
    assert len(set(fingerprints(0))) == 2


def test_sarif_counts_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Problems beyond the kept ones, and results beyond the limit, are counted in notifications."""
    problems = problems_of(warning=25, error=5)
    monkeypatch.setattr("runner.cli.output.sarif.MOST_RESULTS", 7)
    run = read_sarif(problems)
    assert [one["level"] for one in run["results"]] == ["error"] * 5 + ["warning"] * 2
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notification["message"] == {"text": "23 more problems of the kind code-warning-0 left out here"}
    assert notification["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a.yaml"


def test_a_file_outside_of_the_repository(tmp_path: Path) -> None:
    """A file that is not below the root has an address of its own."""
    problems = Problems()
    problems.add(Diagnostic("note", "c", "m", tmp_path / "ä.csv", 1, 1))
    (result,) = read_sarif(problems)["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {
        "uri": f"{tmp_path.as_uri()}/%C3%A4.csv"
    }


def test_a_message_holds_no_link() -> None:
    """A campaign's text cannot become a link in a viewer of SARIF."""
    problems = Problems()
    problems.add(Diagnostic("error", "c", "unknown [here](https://evil.example) [1]", Path("a"), 1, 1))
    (result,) = read_sarif(problems)["results"]
    assert result["message"]["text"] == r"unknown \[here](https://evil.example) [1]"


def test_a_file_name_that_is_no_text(run: Run, folder: Path) -> None:
    """A name with bytes that are no UTF-8 is annotated with their escapes."""
    file = folder / os.fsdecode(b"campaigns/a\xff.yaml")
    file.write_text("version: 2\n", encoding="utf-8")
    done = run("validate", file, "--format", "github", cwd=folder, env={"GITHUB_STEP_SUMMARY": "summary.md"})
    assert done.returncode == 1
    assert "::error file=campaigns/a\\udcff.yaml,line=1," in done.stdout
