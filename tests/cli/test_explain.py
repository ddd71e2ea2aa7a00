"""`runner explain`: codes of problems with an example each."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import runner
from tests.docs.problems import FILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]


def test_a_code_is_explained_by_an_example(tmp_path: Path, run: Run) -> None:
    """The problem, what to do, and the line that was wrong beside the right one."""
    assert run("explain", "[campaign-name-derived]", cwd=tmp_path).stdout == (
        "campaign-name-derived (warning)\n"
        "  the name 'campaign' comes from the file's: with another one, everybody would look new\n"
        "  add `name: campaign`\n"
        "\n"
        "campaign.yaml:\n"
        "  + name: campaign\n"
    )


def test_all_codes_are_listed(tmp_path: Path, run: Run) -> None:
    """Without a code each is there with its severity; an unknown one brings the closest."""
    assert "\nyaml-duplicate-key " in run("explain", cwd=tmp_path).stdout
    done = run("explain", "yaml-duplicate-keys", cwd=tmp_path)
    assert done.returncode == 64
    assert done.stderr == (
        "Error: there is no code yaml-duplicate-keys: did you mean `yaml-duplicate-key`?\n"
        "  `runner explain` lists all\n"
    )


MAKERS = {"Diagnostic", "PhoneColumn", "_Fault", "problem", "table_problem"}


@pytest.mark.slow
def test_every_code_is_explained() -> None:
    """Whatever a problem is called where it is made has its page."""
    known = json.loads(FILE.read_text(encoding="utf-8"))
    made: set[str] = set()
    for file in Path(runner.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in MAKERS:
                values = [str(one.value) for one in node.args if isinstance(one, ast.Constant)]
                made |= {one for one in values if re.fullmatch(r"[a-z]+(-[a-z0-9]+)+", one)}
    assert len(made) > 50
    assert made <= known.keys()
