"""`runner explain`: codes of problems with an example each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
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
