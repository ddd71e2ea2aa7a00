"""`runner init`: a campaign repository that works, written over nothing."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

REPOSITORY = Path(__file__).parent.parent.parent
FILES = [
    ".github/requirements.txt",
    ".github/workflows/campaigns-review.yml",
    ".github/workflows/campaigns-send.yml",
    ".gitignore",
    "README.md",
    "campaigns/audience/first-orders.csv",
    "campaigns/first-order.yaml",
]


@pytest.fixture(autouse=True)
def isolated_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of this machine reach git, and no repository above the test's folder."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))


def list_files(folder: Path) -> list[str]:
    files = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return sorted(file.as_posix() for file in files if file.parts[0] not in {".git", ".runner"})


def test_an_empty_folder_becomes_a_campaign_repository(run: Run, tmp_path: Path) -> None:
    """What is written is listed, and what comes next is said."""
    done = run("init", "acme", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout == (
        "Wrote 7 files to acme:\n"
        + "".join(f"  {name}\n" for name in FILES)
        + "Made a git repository, on the branch main.\n"
        "\n"
        "Next:\n"
        "  in acme, look around, on the sandbox: `runner plan`, `runner preview campaigns/first-order.yaml`\n"
        "  say where the service is: `runner init --base-url URL`; until then nothing is sent for real\n"
        "  commit and push to a repository on GitHub: `git add .`, `git commit`, `git push`\n"
        "  there, make the settings that README.md lists: two secrets, and who may send\n"
    )
    assert list_files(tmp_path / "acme") == FILES
    assert (tmp_path / "acme/.git/HEAD").read_text() == "ref: refs/heads/main\n"


def test_the_example_is_valid_and_works_on_the_sandbox(run: Run, tmp_path: Path) -> None:
    """It has no errors and no warnings, and everybody in it is planned for."""
    run("init", cwd=tmp_path)
    done = run("validate", cwd=tmp_path)
    assert done.stdout == "Valid: 1 campaign, 0 errors, 0 warnings.\n"
    # When it is day from New York to Hawaii.
    hours = (20 - datetime.now(UTC).hour) % 24 or 24
    assert run("sandbox", "clock", f"+{hours}h", cwd=tmp_path).returncode == 0
    assert run("apply", "--auto-approve", cwd=tmp_path).returncode == 0
    lockfile = (tmp_path / "campaigns/first-order.sandbox.lock.json").read_text(encoding="utf-8")
    assert lockfile.count('"message": "ask"') == 5


def test_the_workflows_are_those_of_this_repository(run: Run, tmp_path: Path) -> None:
    """What is written is what is used here; only the version of the program is another matter."""
    run("init", cwd=tmp_path)
    for name in ("campaigns-review.yml", "campaigns-send.yml"):
        written = tmp_path / ".github/workflows" / name
        assert written.read_bytes() == (REPOSITORY / ".github/workflows" / name).read_bytes()
    pinned = (tmp_path / ".github/requirements.txt").read_text()
    assert pinned == f"sms-campaign-runner=={__version__}\n"


def test_the_target_is_described_with_its_address(run: Run, tmp_path: Path) -> None:
    """Credentials stay out of it; the runner reads what was written."""
    done = run("init", "--base-url", "https://sms.example.com", cwd=tmp_path)
    assert "campaigns/targets.yaml" in done.stdout
    assert "--base-url" not in done.stdout
    applied = run("apply", "--target", "live", "--auto-approve", cwd=tmp_path)
    assert applied.stderr == (
        "Error: the target 'live' has no credentials\n  set RUNNER_USERNAME and RUNNER_API_KEY\n"
    )


def test_the_address_can_be_said_later(run: Run, tmp_path: Path) -> None:
    """The same command again writes what is new, alone; and once more, nothing."""
    run("init", cwd=tmp_path)
    later = run("init", "--base-url", "https://sms.example.com", cwd=tmp_path)
    assert later.stdout.startswith("Wrote 1 file to .:\n  campaigns/targets.yaml\n\nNext:\n  look around, on")
    again = run("init", "--base-url", "https://sms.example.com", cwd=tmp_path)
    assert again.stdout.startswith("Nothing to write: . has it all.\n\nNext:\n")


def test_nothing_is_overwritten(run: Run, tmp_path: Path) -> None:
    """All that is in the way is named, and nothing is written."""
    (tmp_path / "README.md").write_text("Ours.\n")
    (tmp_path / ".github").write_text("a file where a folder should be\n")
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/first-order.yaml").symlink_to("nowhere.yaml")
    done = run("init", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: nothing was written to .: these are there already, and say something else\n"
        "  keep them and choose another folder, or move them away:\n"
        "    .github/requirements.txt\n"
        "    .github/workflows/campaigns-review.yml\n"
        "    .github/workflows/campaigns-send.yml\n"
        "    README.md\n"
        "    campaigns/first-order.yaml\n"
    )
    assert list_files(tmp_path) == [".github", "README.md"]
    assert not (tmp_path / ".git").exists()


def test_a_repository_that_is_there_is_kept(run: Run, tmp_path: Path) -> None:
    """Its files stay; if its branch is not the one that is sent from, that is said."""
    subprocess.run(["git", "init", "--quiet", "-b", "trunk"], cwd=tmp_path, check=True)
    (tmp_path / "notes.txt").write_text("Ours.\n")
    done = run("init", cwd=tmp_path)
    assert done.returncode == 0
    assert "Made a git repository" not in done.stdout
    assert done.stderr == "Warning: the workflows send from main, and this work tree is on trunk\n"
    assert (tmp_path / "notes.txt").is_file()


def test_a_folder_inside_a_repository_is_refused(run: Run, tmp_path: Path) -> None:
    """Workflows that GitHub would not find are not written."""
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    done = run("init", "acme/campaigns", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: acme/campaigns is inside the git repository {tmp_path}, and workflows are run from the top "
        "alone\n  name that folder, or one outside\n"
    )
    assert not (tmp_path / "acme").exists()


def test_an_address_that_cannot_be_used_is_refused(run: Run, tmp_path: Path) -> None:
    """Before anything is written."""
    done = run("init", "--base-url", "http://sms.example.com", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: the base URL http://sms.example.com would send credentials")
    assert list_files(tmp_path) == []


def test_without_git_the_files_are_written_all_the_same(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder can become a repository later."""
    monkeypatch.setenv("PATH", "/nonexistent")
    done = run("init", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == "Warning: git is not installed: the folder is no repository yet\n"
    assert list_files(tmp_path) == FILES


def test_a_folder_that_cannot_be_written_to_is_an_error(run: Run, tmp_path: Path) -> None:
    """The file is named."""
    (tmp_path / "full").symlink_to("/proc/self")
    done = run("init", "full", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "cannot be written" in done.stderr
