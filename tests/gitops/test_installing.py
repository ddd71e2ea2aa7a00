"""Installing in a job: packages by their hashes, and the runner by its content, wherever that came from."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from runner import __version__

REPOSITORY = Path(__file__).parent.parent.parent
LOCK = (REPOSITORY / ".github/requirements.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
DIST_INFO = f"sms_campaign_runner-{__version__}.dist-info"
PUBLIC = "https://git.example.com/acme/runner.git"


def read_lock() -> dict[str, Requirement]:
    """Return what the lock pins, by its name; every entry must have a hash, and nothing else."""
    entries = re.sub(r"^#.*\n", "", LOCK, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    pins: dict[str, Requirement] = {}
    for entry in entries:
        requirement, *hashes = re.split(r"\s+--hash=", entry)
        assert hashes, entry
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}\s*", one) for one in hashes), entry
        pin = Requirement(requirement)
        (exact,) = pin.specifier
        assert exact.operator == "=="
        pins[canonicalize_name(pin.name)] = pin
    return pins


def test_the_lock_holds_all_that_the_package_asks_for() -> None:
    """Each dependency, those of the ledger on PostgreSQL and those of the build too, in a version that fits."""
    pins = read_lock()
    project = PROJECT["project"]
    asked = [
        *project["dependencies"],
        *project["optional-dependencies"]["postgres"],
        *PROJECT["build-system"]["requires"],
    ]
    for requirement in map(Requirement, asked):
        (exact,) = pins[canonicalize_name(requirement.name)].specifier
        assert requirement.specifier.contains(exact.version), requirement


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize(("platform", "system"), [("linux", "Linux"), ("darwin", "Darwin")])
def test_the_lock_is_closed(python: str, platform: str, system: str) -> None:
    """Whatever a package of it needs, on any Python and platform, is in it: pip refuses what has no hash."""
    pins = read_lock()
    environment: dict[str, Any] = {
        **default_environment(),
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": platform,
        "platform_system": system,
        "extra": "",
    }
    checked = 0
    for name, pin in pins.items():
        if pin.marker is not None and not pin.marker.evaluate(environment):
            continue
        extras = ["binary"] if name == "psycopg" else []
        try:
            needed = map(Requirement, requires(name) or ())
        except PackageNotFoundError:
            continue
        checked += 1
        for one in needed:
            if one.marker is None or any(
                one.marker.evaluate({**environment, "extra": extra}) for extra in ("", *extras)
            ):
                needed_pin = pins[canonicalize_name(one.name)]
                assert needed_pin.marker is None or needed_pin.marker.evaluate(environment), one
    assert checked > 30


def test_the_lock_names_no_place_to_download_from() -> None:
    """Neither an index nor a file: pip goes where it is configured to go."""
    assert "://" not in LOCK
    assert not re.search(r"^\s*-(?!-hash=)", LOCK, re.MULTILINE)


def test_all_jobs_install_alike() -> None:
    """Hashes are required of packages, and the runner brings none along that has no hash."""
    scripts = {
        step["run"]
        for kind in ("review", "send")
        for job in read_workflow(kind)["jobs"].values()
        for step in job["steps"]
        if step.get("name") == "Install"
    }
    assert scripts == {read_install_script()}


def read_workflow(kind: str) -> dict[Any, Any]:
    file = REPOSITORY / f".github/workflows/campaigns-{kind}.yml"
    workflow: dict[Any, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return workflow


def read_install_script() -> str:
    steps = read_workflow("review")["jobs"]["review"]["steps"]
    (script,) = [step["run"] for step in steps if step.get("name") == "Install"]
    assert isinstance(script, str)
    return script


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This checkout as a git repository of its own, with one commit, which its remote has."""
    folder = tmp_path_factory.mktemp("source") / "runner"
    folder.mkdir()
    for name in ("runner", "schemas", "campaigns", ".github"):
        shutil.copytree(
            REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.lock.json")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, folder)
    (folder / ".gitignore").write_text("__pycache__/\n", encoding="utf-8")
    git(folder, "init", "--quiet", "-b", "main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "Start")
    git(folder.parent, "clone", "--quiet", "--bare", "runner", "remote.git")
    git(folder, "remote", "add", "origin", PUBLIC)
    git(folder, "config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    run_git(folder, {"GIT_CONFIG_GLOBAL": str(write_settings(folder))}, "fetch", "--quiet", "origin")
    return folder


def write_settings(source: Path) -> Path:
    """Have git reach a repository on this machine by a public address."""
    settings = source.parent / "gitconfig"
    settings.write_text(
        f'[url "file://{source.parent}/remote.git"]\n\tinsteadOf = {PUBLIC}\n', encoding="utf-8"
    )
    return settings


def git(folder: Path, *arguments: str) -> str:
    return run_git(folder, {}, *arguments)


def run_git(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    command = ["git", *who, *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", **environment},
    ).stdout.strip()


class Site:
    """A folder that pip installs into, beside the packages that are here."""

    def __init__(self, folder: Path, source: Path, *path: Path) -> None:
        self.folder = folder
        settings = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": str(write_settings(source))}
        places = os.pathsep.join(map(str, (*path, folder)))
        # The packages that build are those of this environment; nothing is downloaded.
        offline = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_CACHE_DIR": str(folder / "cache")}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        self.environment = {**kept, **settings, **offline, "PYTHONPATH": places}

    def pip(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        words = ("--quiet", "--no-deps", "--no-build-isolation", "--target", str(self.folder))
        command = [sys.executable, "-m", "pip", "install", *words, *arguments]
        return subprocess.run(
            command, cwd=cwd, env=self.environment, check=False, capture_output=True, text=True
        )

    def init(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "runner", "init", *arguments]
        folder.mkdir(exist_ok=True)
        return subprocess.run(
            command, cwd=folder, env=self.environment, check=False, capture_output=True, text=True
        )

    def describe(self, origin: dict[str, Any] | str) -> None:
        """Put what PEP 610 says beside an installed package, as an installer would."""
        folder = self.folder / DIST_INFO
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: sms-campaign-runner\nVersion: {__version__}\n", encoding="utf-8"
        )
        text = origin if isinstance(origin, str) else json.dumps(origin)
        (folder / "direct_url.json").write_text(text, encoding="utf-8")


def read_pin(repository: Path) -> str:
    """Return the one line of the requirements."""
    text = (repository / ".github/requirements.txt").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if not line.startswith("#")]
    return line


def read_reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return why the runner could not be named."""
    assert done.returncode == 0, done.stderr
    found = re.search(r"until then its jobs fail \((.*)\)$", done.stdout, re.MULTILINE)
    assert found, done.stdout
    return found[1]


@pytest.mark.slow
def test_what_was_installed_from_a_commit_is_installed_by_it(source: Path, tmp_path: Path) -> None:
    """A commit is noted by pip; the line that `init` writes installs the very same, and nothing that took its name."""
    site = Site(tmp_path / "site", source)
    commit = git(source, "rev-parse", "HEAD")
    installed = site.pip(f"sms-campaign-runner @ git+{PUBLIC}@{commit}", cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr
    repository = tmp_path / "acme"
    done = site.init(repository)
    assert (done.returncode, done.stderr) == (0, "")
    assert "say which runner" not in done.stdout
    assert read_pin(repository) == f"sms-campaign-runner @ git+{PUBLIC}@{commit}"
    fresh = Site(tmp_path / "fresh", source)
    again = fresh.pip("-r", ".github/requirements.txt", cwd=repository)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "fresh/runner/__main__.py").is_file()


@pytest.mark.slow
def test_what_was_installed_from_a_file_is_installed_from_a_copy_of_it(source: Path, tmp_path: Path) -> None:
    """The copy stands in the repository with its hash: pip refuses it once it was changed."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    site = Site(tmp_path / "site", source)
    assert site.pip(str(wheel), cwd=tmp_path).returncode == 0
    repository = tmp_path / "our texts"
    done = site.init(repository)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"  .github/runner/{wheel.name}\n" in done.stdout
    kept = repository / ".github/runner" / wheel.name
    assert kept.read_bytes() == wheel.read_bytes()
    assert read_pin(repository).startswith(f"./.github/runner/{wheel.name} --hash=sha256:")
    fresh = Site(tmp_path / "fresh", source)
    assert fresh.pip("-r", ".github/requirements.txt", cwd=repository).returncode == 0
    assert (tmp_path / "fresh/runner/shipped/.github/requirements.lock").read_text(encoding="utf-8") == LOCK
    kept.write_bytes(wheel.read_bytes() + b"\0")
    changed = Site(tmp_path / "changed", source).pip("-r", ".github/requirements.txt", cwd=repository)
    assert changed.returncode == 1
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in changed.stderr
    # A file that is no longer the one that was installed names nothing.
    wheel.write_bytes(b"another")
    assert read_reason(site.init(tmp_path / "second")) == (
        f"the file that runner was installed from is gone or changed: {wheel.name}"
    )


_UNREACHABLE = "runner was not installed from a commit or a file that CI can get"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("origin", "reason"),
    [
        (None, "no installer has noted where runner came from"),
        ({"dir_info": {}}, "no installer has noted where runner came from"),
        ({"url": "file:///nowhere", "dir_info": {"editable": True}}, _UNREACHABLE),
        ({"url": "file:///srv/runner.git", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}}, _UNREACHABLE),
        ({"url": "file:///srv/runner.whl", "archive_info": {}}, _UNREACHABLE),
    ],
    ids=["index", "no URL", "folder", "local repository", "old pip"],
)
def test_what_nobody_can_name_is_said_with_its_reason(
    source: Path, tmp_path: Path, origin: dict[str, Any] | None, reason: str
) -> None:
    """The requirements are not written then: jobs fail until a person has named the runner."""
    site = Site(tmp_path / "site", source)
    shutil.copytree(source / "runner", tmp_path / "site/runner")
    for name in ("schemas", ".github"):
        shutil.copytree(source / name, tmp_path / "site/runner/shipped" / name)
    site.describe(origin or "")
    if origin is None:
        (tmp_path / "site" / DIST_INFO / "direct_url.json").unlink()
    assert read_reason(site.init(tmp_path / "acme")) == reason
    assert not (tmp_path / "acme/.github/requirements.txt").exists()


@pytest.mark.slow
def test_a_file_from_the_web_is_named_with_its_hash(source: Path, tmp_path: Path) -> None:
    """As pip notes a release's file that was installed by its address, without the password in that."""
    site = Site(tmp_path / "site", source)
    shutil.copytree(source / "runner", tmp_path / "site/runner")
    for name in ("schemas", ".github"):
        shutil.copytree(source / name, tmp_path / "site/runner/shipped" / name)
    url = "https://ada:s3cret@files.example.com/runner-1.0-py3-none-any.whl"
    site.describe({"url": url, "archive_info": {"hashes": {"sha256": "ab" * 32}}})
    assert site.init(tmp_path / "acme").returncode == 0
    assert read_pin(tmp_path / "acme") == (
        f"sms-campaign-runner @ https://files.example.com/runner-1.0-py3-none-any.whl --hash=sha256:{'ab' * 32}"
    )


@pytest.mark.slow
def test_no_code_of_the_repository_takes_the_place_of_pip(tmp_path: Path) -> None:
    """Nobody has to agree to a folder `pip` at its top, and what installs decides what runs beside the secrets."""
    for name in (".github", "pip"):
        (tmp_path / name).mkdir()
    for name in (".github/requirements.lock", ".github/requirements.txt", "pip/__init__.py"):
        (tmp_path / name).touch()
    (tmp_path / "pip/__main__.py").write_text("print('not pip')\n", encoding="utf-8")
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "GITHUB_WORKSPACE": str(tmp_path),
        "PIP_NO_INDEX": "1",
    }
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", read_install_script()],
        cwd=tmp_path,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_job_installs_all_of_it(source: Path, tmp_path: Path) -> None:
    """The step itself, in an environment that has nothing yet: packages from the index, the runner from its file."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    site = Site(tmp_path / "site", source)
    assert site.pip(str(wheel), cwd=tmp_path).returncode == 0
    repository = tmp_path / "acme"
    assert site.init(repository).returncode == 0
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "machine")], check=True)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PATH": f"{tmp_path}/machine/bin:/usr/bin:/bin",
        "GITHUB_WORKSPACE": str(repository),
    }
    for script in (read_install_script(), "runner validate"):
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=repository,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "Valid: 1 campaign, 0 errors, 0 warnings.\n"
