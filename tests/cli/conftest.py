"""A small campaign repository, commands that run inside this process, and services beside them."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from runner.sandbox.web.server import running_service
from runner.source.storage import shipped_folder
from tests.cli.inside import run_inside
from tests.cli.world import World
from tests.forge.github_server import running_github

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.world import Enter, Kind
    from tests.forge.github_server import GitHub

SURVEY = """\
version: 1
name: pulse
tag: pulse-2026
vars: {company: Acme}
recipients:
  - phone: "+14155550101"
    vars: {first_name: Ada}
  - csv: audience/people.csv
    phone_column: mobile
    region: US
exclude:
  - phone: "+14155550105"
messages:
  - id: ask
    introduction: "Hi {{ first_name }}, a word about {{ company }}?"
    questions:
      - tag: nps
        text: "How likely are you to recommend {{ company }}?"
        responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
        scale: nps
      - {tag: reason, text: "Why?"}
    conclusion: "Thank you!"
"""
PEOPLE = """\
first_name,mobile
Bob,(415) 555-0102
"O'Neil, Cy",+1 415 555 0103
Ada again,415-555-0101
Dee,4155550104
Eve,4155550105
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one campaign of five recipients, one of them named twice and one excluded."""
    (tmp_path / "campaigns/audience").mkdir(parents=True)
    (tmp_path / "campaigns/pulse.yaml").write_text(SURVEY, encoding="utf-8")
    (tmp_path / "campaigns/audience/people.csv").write_text(PEOPLE, encoding="utf-8")
    return tmp_path


@pytest.fixture
def check_json() -> Callable[[str, str], dict[str, Any]]:
    """Return a command's JSON after checking it against a shipped schema: `check_json(stdout, "plan")`."""

    def check(text: str, schema: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(text)
        rules = json.loads((shipped_folder("schemas") / f"{schema}.schema.json").read_text(encoding="utf-8"))
        Draft202012Validator(rules).validate(document)
        assert next(iter(document)) == "format_version"
        assert document["format_version"] == "1.0"
        return document

    return check


@pytest.fixture
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the real command inside this process, without its start-up: used like `run_process`."""
    return run_inside


@pytest.fixture
def serve() -> Callable[..., Any]:
    """Run the service in a thread while a block lasts: `serve(folder, "--db", "service.sqlite")`.

    It takes `--username` and `--api-key` as well, and yields the environment for the service.
    """

    @contextmanager
    def start(cwd: Path, *options: str) -> Iterator[dict[str, str]]:
        given = dict(zip(options[::2], options[1::2], strict=True))
        db, username, api_key = (given.pop(name, None) for name in ("--db", "--username", "--api-key"))
        assert db, "a service of a test has a database of its own"
        assert not given, given
        with running_service(cwd / db, username=username, api_key=api_key) as service:
            yield {
                "RUNNER_BASE_URL": service.url,
                "RUNNER_USERNAME": service.username,
                "RUNNER_API_KEY": service.api_key,
                # The service lists at once what it accepted: a new ledger need not wait for long.
                "RUNNER_SETTLE_WINDOW": "100ms",
            }

    return start


@pytest.fixture
def serve_process() -> Callable[..., Any]:
    """Run the service as a process while a block lasts: `runner sandbox serve` with any options."""

    @contextmanager
    def start(cwd: Path, *options: str) -> Iterator[dict[str, str]]:
        command = [sys.executable, "-m", "runner", "sandbox", "serve", "--port", "0", *options]
        process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            said = dict(process.stdout.readline().strip().split(": ", 1) for _ in range(3))
            yield {
                "RUNNER_BASE_URL": said["url"],
                "RUNNER_USERNAME": said["username"],
                "RUNNER_API_KEY": said["api_key"],
                "RUNNER_SETTLE_WINDOW": "100ms",
            }
        finally:
            process.terminate()
            assert process.wait(100) == 0
            process.stdout.close()

    return start


@pytest.fixture
def sent(folder: Path, run: Callable[..., subprocess.CompletedProcess[str]]) -> Path:
    """A folder whose campaign was sent, with its ledger."""
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    return folder


@pytest.fixture
def github() -> Iterator[GitHub]:
    """GitHub, with one pull request, no comments and no issues."""
    with running_github() as server:
        yield server


@pytest.fixture
def enter(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    check_json: Callable[[str, str], dict[str, Any]],
) -> Enter:
    """The maker of projects without a campaign."""

    def make(kind: type[Kind], /) -> Kind:
        monkeypatch.chdir(tmp_path)
        return kind(tmp_path, capsys, check_json)

    return make


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, enter: Enter) -> World:
    """A repository without a campaign; its service lists a launch at once."""
    monkeypatch.setenv("RUNNER_SETTLE_WINDOW", "0s")
    return enter(World)
