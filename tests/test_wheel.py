"""The package as users install it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout with the build backend that is installed here."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_ships_schemas_and_examples_and_nothing_local(wheel: Path) -> None:
    """Schemas and example campaigns are in the wheel; lockfiles, databases and tests are not."""
    names = zipfile.ZipFile(wheel).namelist()
    shipped = {name.removeprefix("runner/shipped/") for name in names if name.startswith("runner/shipped/")}
    for folder in ("schemas", "campaigns"):
        tracked = subprocess.run(
            ["git", "ls-files", folder], cwd=REPOSITORY, check=True, capture_output=True, text=True
        ).stdout.split()
        assert {name for name in shipped if name.startswith(folder)} == set(tracked)
    assert "runner/py.typed" in names
    assert "runner/sandbox/schema.sql" in names
    assert not [
        name for name in names if name.startswith("tests/") or ".lock.json" in name or ".sqlite" in name
    ]


@pytest.mark.slow
def test_the_installed_wheel_runs_outside_the_repository(wheel: Path, tmp_path: Path) -> None:
    """Installed from the wheel, the command finds its schemas and examples and runs the whole loop."""
    installed = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(installed)
    # Ahead of the checkout, which is installed for editing here.
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    where = [sys.executable, "-c", "import runner; print(runner.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert found.stdout.startswith(str(installed))
    demo = [sys.executable, "-m", "runner", "demo", "--dir", "demo"]
    # The demo starts its steps without the current folder on the path: the package alone must do.
    done = subprocess.run(demo, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo/reports/customer-pulse.html").is_file()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_the_readme_s_first_lines_work_in_an_empty_environment(tmp_path: Path, kind: str) -> None:
    """`pip install` of what is distributed, with all that it needs from the index, gives `runner demo`."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(tmp_path / "dist")]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (package,) = (tmp_path / "dist").iterdir()
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "machine")], check=True)
    pip = tmp_path / "machine/bin/pip"
    subprocess.run([pip, "install", "--quiet", package], check=True, cwd=tmp_path)
    environment = {"PATH": f"{tmp_path}/machine/bin:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run(
        ["runner", "demo"], cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "customer-pulse.html" in done.stdout + done.stderr
