"""What is printed in a CI job, read as the platforms read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING
from unicodedata import category

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runner.cli.encoding import fit_html, fit_json
from runner.cli.output.problems import annotation
from runner.source.diagnostic import Diagnostic
from runner.wording import disarm
from tests.forge.platform import find_github_commands, find_other_commands

if TYPE_CHECKING:
    from pathlib import Path

SIGNS = (
    "::",
    ":",
    "##[",
    "##",
    "#",
    "[",
    "]",
    "##vso[",
    "section_start:",
    "section_end:",
    "section_",
    "\r",
    "\n",
)
BLANKS = (" ", "\t", "%0A", "%25", "\x85", "\xa0", "\u2028", "\u3000", "\ufeff", "\u200b", "\x1b[0m")
NAMES = ("error", "stop-commands", "ADD-MASK", "error file=a::", "task.setvariable")
BEGINNINGS = st.sampled_from((*SIGNS, *BLANKS, *NAMES))
TEXTS = st.lists(BEGINNINGS | st.text(max_size=3), max_size=12).map("".join)


@given(TEXTS)
@example("##[error]x")
@example("\u3000::stop-commands::x")
@example("\r::error::x")
@example("\x1b[1m::error::x")
def test_no_text_becomes_a_command(text: str) -> None:
    """Whatever is written for people or as HTML, no platform finds a command of any name in it."""
    for shown in (disarm(text), fit_html(text, sys.stdout)):
        written = shown.encode("utf-8", "surrogatepass")
        assert find_github_commands(written, registered=None) == []
        assert find_other_commands(written) == []


@pytest.mark.slow
@given(st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS)))
def test_json_keeps_its_meaning(document: dict[str, object]) -> None:
    """JSON is the same document, without a command."""
    shown = fit_json(json.dumps(document, ensure_ascii=False, indent=2), sys.stdout)
    assert json.loads(shown) == document
    assert find_github_commands(shown.encode(), registered=None) == []
    assert find_other_commands(shown.encode()) == []


@given(st.text("abc ÄÖ日本#:[].,=\n", max_size=40))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    """Only beginnings of commands are touched."""
    clean = text.replace("##", "").replace(":", "")
    assert disarm(clean) == clean


TURNING = "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def write_out(text: str) -> str:
    """Return a text with its control and direction characters as escapes, but for ends of lines."""
    return "".join(
        f"\\u{ord(c):04x}" if c not in "\r\n" and (category(c) == "Cc" or c in TURNING) else c for c in text
    )


@given(TEXTS, TEXTS, TEXTS, st.sampled_from(["error", "warning", "note"]))
def test_an_annotation_is_one_command(path: str, message: str, hint: str, severity: str) -> None:
    """The platform reads an annotation as exactly one command, with the values that were meant.

    What steers a terminal is written out.
    """
    file = "x" + path.replace("\x00", "").replace("/", "")
    diagnostic = Diagnostic(severity, "some-code", message, file, 3, 7, hint or None)  # type: ignore[arg-type]
    line = annotation(diagnostic, file)
    (command,) = find_github_commands(line.encode("utf-8", "surrogatepass"))
    assert command.name == {"error": "error", "warning": "warning", "note": "notice"}[severity]
    assert command.data == write_out(message + (f"\n{hint}" if hint else ""))
    assert command.properties == {"file": write_out(file), "line": "3", "col": "7", "title": "some-code"}


SURVEY = """\
version: 1
name: pulse
tag: "##[error]tag"
recipients:
  - phone: "+14155550101"
    vars: {word: "##[set-output name=x]1"}
messages:
  - id: ask
    text: "\\n::stop-commands::all ##[warning]{{ word }} section_start:1:x\\r\\e[0K {{ gone }}"
"""


def start_runner(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run the real command with its output in pipes, as a platform does."""
    return subprocess.run(
        [sys.executable, "-m", "runner", *arguments],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k not in ("CI", "GITHUB_ACTIONS")} | env,
        capture_output=True,
        check=False,
    )


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A campaign whose file name, texts and values are commands."""
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/a##[error]b.yaml").write_text(SURVEY, encoding="utf-8")
    return tmp_path


def test_errors_on_standard_error_are_no_commands(hostile: Path) -> None:
    """A path in an error message is shown, not obeyed; what matters is both streams."""
    done = start_runner(hostile, "validate", "##[error]gone", GITHUB_ACTIONS="true")
    assert done.returncode == 64
    assert b"##\\u005berror]gone" in done.stderr
    assert find_github_commands(done.stderr, registered=None) == []
