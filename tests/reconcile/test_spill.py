"""Values of many launches wait in a file that nobody else can open, and that ends with its process."""

from __future__ import annotations

import resource
import signal
from typing import TYPE_CHECKING

import pytest

from runner.errors import RunnerError
from runner.reconcile.spill import Spill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Let no file grow while the test runs."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, before)


def test_values_come_back_by_number_in_their_order(tmp_path: Path) -> None:
    """What went to the file and what is still in memory come back as one."""
    with Spill[str](lambda: tmp_path, most=3) as spill:
        for place in range(10):
            spill.add(place % 2, f"value-{place}")
        assert list(spill.read(0)) == [f"value-{place}" for place in range(0, 10, 2)]
        assert list(spill.read(1)) == [f"value-{place}" for place in range(1, 10, 2)]
        assert list(spill.read(2)) == []


def test_the_file_has_no_name(tmp_path: Path) -> None:
    """A killed run leaves nothing behind: there is nothing to find while it runs."""
    with Spill[str](lambda: tmp_path, most=1) as spill:
        spill.add(1, "value")
        assert not list(tmp_path.iterdir())
        assert list(spill.read(1)) == ["value"]


def test_few_values_need_no_folder() -> None:
    """As long as values fit in memory, no place for a file is asked for."""

    def refuse() -> Path:
        raise AssertionError("a folder was asked for")

    with Spill[str](refuse, most=3) as spill:
        spill.add(1, "value")
        assert list(spill.read(1)) == ["value"]


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """A full disk is told with its folder and what to do, and leaves nothing there."""
    with (
        pytest.raises(RunnerError, match=f"cannot be kept in {tmp_path}") as told,
        Spill[str](lambda: tmp_path, most=1) as spill,
    ):
        spill.add(1, "value")
    assert "run the same command again" in str(told.value.hint)
    assert not list(tmp_path.iterdir())
