"""The folder for intermediate files goes with its run, and with those that were killed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner.cluster.folder import open_scratch
from runner.errors import RunnerError, UsageError


def test_a_run_has_a_folder_of_its_own_for_itself_alone(tmp_path: Path) -> None:
    """Two runs don't meet; nobody else can look in; nothing stays."""
    place = tmp_path / "cluster"
    with open_scratch(str(place)) as one, open_scratch(str(place)) as two:
        assert one != two
        one.write("a", b"phones")
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
            assert {str(each) for each in tmp_path.iterdir()} == {folder.path, other.path}


def test_a_place_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    """Where no folder can be made it is said, with the option that names another place."""
    (tmp_path / "file").touch()
    with pytest.raises(RunnerError) as caught, open_scratch(str(tmp_path / "file")):
        pytest.fail("there is none")
    assert caught.value.message == (
        f"the folder {tmp_path / 'file'} for intermediate files cannot be used: {os.strerror(errno.EEXIST)}"
    )
    assert caught.value.hint == "name another one with --scratch or RUNNER_SCRATCH"


def test_a_url_is_no_folder_for_intermediate_files() -> None:
    """Workers and client share files by a path: a URL is refused before anything is written."""
    with pytest.raises(UsageError) as caught, open_scratch("s3://bucket/scratch"):
        pytest.fail("there is none")
    assert caught.value.message == (
        "s3://bucket/scratch is no folder: workers and this process share intermediate files by a path"
    )


def test_a_task_that_outlives_its_run_leaves_nothing(tmp_path: Path) -> None:
    """What a task writes after the end of its run, which can wait for none, is not made, nor its folder."""
    with open_scratch(tmp_path) as folder:
        folder.write("one", b"phones")
    with pytest.raises(FileNotFoundError):
        folder.write("late", b"phones")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_was_killed_while_it_cleaned_up_leaves_nothing_for_long(tmp_path: Path) -> None:
    """A folder that was renamed to be removed is removed by the next run, with or without its lock."""
    with open_scratch(tmp_path) as folder:
        left = Path(f"{folder.path}1.ended")
        left.mkdir()
        (left / "phones").touch()
    with open_scratch(tmp_path):
        assert not left.exists()
