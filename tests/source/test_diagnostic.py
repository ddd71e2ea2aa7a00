"""Collected problems, and the bounds of reading."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.source.diagnostic import SHOWN_OF_A_KIND, Diagnostic, Problems
from runner.source.storage import is_readable_below, reading_root

FILES = st.sampled_from([Path("a.csv"), Path("b.csv")])
DIAGNOSTICS = st.builds(
    Diagnostic,
    severity=st.sampled_from(["error", "warning", "note"]),
    code=st.sampled_from(["phone", "width"]),
    message=st.just("wrong"),
    file=FILES,
    line=st.integers(1, 99),
    column=st.just(1),
)


@given(st.lists(DIAGNOSTICS, max_size=120))
def test_every_problem_is_shown_or_counted(given_problems: list[Diagnostic]) -> None:
    """Shown and omitted problems add up, and no kind is shown more often than is said."""
    problems = Problems()
    problems.extend(given_problems)
    shown = list(problems)
    omitted = problems.omitted()
    assert len(shown) + sum(count for _, _, count in omitted) == len(given_problems)
    assert problems.error_count + problems.warning_count + problems.note_count == len(given_problems)
    for code in ("phone", "width"):
        for file in (Path("a.csv"), Path("b.csv")):
            assert sum((d.code, d.file) == (code, file) for d in shown) <= SHOWN_OF_A_KIND
    assert shown == sorted(shown, key=lambda d: (str(d.file), d.line, d.column, d.code))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / ".git").mkdir(parents=True)
    (folder / "campaigns").mkdir()
    return folder


def test_a_git_repository_bounds_reading(repository: Path) -> None:
    """Inside a git repository its root is the bound, wherever the command runs."""
    file = repository / "campaigns" / "a.yaml"
    assert reading_root(file, current=repository / "campaigns") == repository


def test_outside_git_the_current_folder_bounds_reading(tmp_path: Path) -> None:
    """Without git the current folder is the bound, or the file's own if it stands elsewhere."""
    file = tmp_path / "here" / "campaigns" / "a.yaml"
    file.parent.mkdir(parents=True)
    assert reading_root(file, current=tmp_path / "here") == tmp_path / "here"
    assert reading_root(file, current=tmp_path / "elsewhere") == file.parent


def test_a_linked_folder_does_not_widen_the_bound(repository: Path, tmp_path: Path) -> None:
    """A link inside the repository to a folder outside is outside; one to a folder inside is inside."""
    (tmp_path / "private").mkdir()
    (repository / "out").symlink_to(tmp_path / "private")
    (repository / "in").symlink_to("campaigns")
    assert not is_readable_below(repository / "out" / "x.csv", (repository,))
    assert is_readable_below(repository / "in" / "x.csv", (repository,))
    assert is_readable_below(repository / "out" / "x.csv", (repository, tmp_path / "private"))


def test_a_loop_of_links_is_not_readable(repository: Path) -> None:
    """Links that lead to each other are refused rather than followed."""
    (repository / "a").symlink_to("b")
    (repository / "b").symlink_to("a")
    assert not is_readable_below(repository / "a" / "x.csv", (repository,)) or not (repository / "a").exists()
