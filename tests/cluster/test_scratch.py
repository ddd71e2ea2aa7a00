"""The folder for intermediate files goes with its run, and with those that were killed."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from runner.cluster.folder import SharedFolder, open_scratch
from runner.errors import RunnerError
from runner.source.storage import reach


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
    with pytest.raises(RunnerError) as caught, open_scratch(place):
        pytest.fail("there is none")
    assert re.fullmatch(rf"{place}/run-[^/]+/run\.open cannot be written: {reason}", caught.value.message)
    folder = SharedFolder(place)
    for fail in (lambda: folder.read("a"), lambda: folder.open("a")):
        with pytest.raises(RunnerError, match="cannot be read"):
            fail()


@pytest.mark.parametrize("place", ["", "memory://late"])
def test_a_task_that_outlives_its_run_leaves_nothing(tmp_path: Path, place: str) -> None:
    """What a task writes after the end of its run, which can wait for none, is not made, nor its folder."""
    with open_scratch(place or str(tmp_path)) as folder:
        plans = folder.within("plans")
        plans.write("one", b"phones")
    for late in (folder, plans):
        with pytest.raises(RunnerError, match="no longer wanted"):
            late.write("a/b", b"phones")
    with reach(folder.url) as (system, root):
        assert not system.exists(root)


def test_a_file_is_taken_back_if_its_run_ends_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is written while the run's folder is removed would be missed there: its writer removes it."""
    with open_scratch(str(tmp_path)) as folder:
        Path(folder.url, "plans").mkdir()
        replace = Path.replace

        def end_and_replace(file: Path, to: Path) -> Path:
            Path(str(folder.marker)).unlink(missing_ok=True)  # What `remove` does first.
            return replace(file, to)

        monkeypatch.setattr(Path, "replace", end_and_replace)
        with pytest.raises(RunnerError, match="no longer wanted"):
            folder.within("plans").write("a", b"phones")
        assert list(Path(folder.url, "plans").iterdir()) == []
