"""The folder for intermediate files goes with its run, and with those that were killed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from runner.cluster.folder import SharedFolder, open_scratch
from runner.errors import RunnerError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_run_has_a_folder_of_its_own_for_itself_alone(tmp_path: Path) -> None:
    """Two runs don't meet; nobody else can look in; nothing stays."""
    place = tmp_path / "cluster"
    with open_scratch(str(place)) as one, open_scratch(str(place)) as two:
        assert one != two
        one.write("a/b", b"phones")
        assert {folder.stat().st_mode & 0o777 for folder in (place, *place.iterdir())} == {0o700}
        assert len(list(place.iterdir())) == 2
    assert list(place.iterdir()) == []


def test_what_a_killed_run_has_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """A run that was killed could not clean up: the next one on its machine does, and spares those at work."""
    script = (
        "import os, signal, sys; from runner.cluster.folder import open_scratch\n"
        "with open_scratch(sys.argv[1]): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with open_scratch(str(tmp_path)) as other:
        subprocess.run([sys.executable, "-c", script, tmp_path], check=False)
        assert len(list(tmp_path.iterdir())) == 2
        with open_scratch(str(tmp_path)) as folder:
            assert {str(each) for each in tmp_path.iterdir()} == {folder.url, other.url}


def test_a_folder_at_a_url_goes_with_its_run() -> None:
    """On object storage, too, a run removes what it has put there."""
    with open_scratch("memory://scratch") as folder:
        assert folder.url.startswith("memory://scratch/run-")
        folder.write("a", b"phones")
    with pytest.raises(FileNotFoundError):
        SharedFolder(folder.url).read("a")


def test_a_place_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    """Where no folder can be made it is said, with the option that names another place."""
    (tmp_path / "file").touch()
    with pytest.raises(RunnerError) as caught, open_scratch(str(tmp_path / "file")):
        pytest.fail("there is none")
    assert caught.value.message == (
        f"the folder {tmp_path / 'file'} for intermediate files cannot be used: {os.strerror(errno.EEXIST)}"
    )
    assert caught.value.hint == "name another one with --scratch or RUNNER_SCRATCH"


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("s3://bucket/scratch", "Install s3fs to access S3"),
        ("nowhere://bucket/scratch", "fsspec knows no such protocol"),
    ],
)
def test_a_url_that_cannot_be_reached_is_said_once(place: str, reason: str) -> None:
    """What keeps files from being written is the error, and not that they cannot be removed."""
    with pytest.raises(RunnerError) as caught, open_scratch(place) as folder:
        folder.write("a", b"phones")
    assert caught.value.message == f"{folder.url}/a cannot be written: {reason}"
    for fail in (lambda: folder.read("a"), lambda: folder.open("a")):
        with pytest.raises(RunnerError, match="cannot be read"):
            fail()
