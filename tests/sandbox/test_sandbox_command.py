"""`runner sandbox`, as a command line sees it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
import requests
from click.testing import CliRunner

from runner.cli.commands.sandbox import sandbox
from runner.errors import RunnerError
from runner.sandbox.model import Definition, ServiceQuestion
from runner.sandbox.service import Service
from runner.sandbox.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

PHONES = ("+14155550101", "+14155550102")
RUN = "from runner.cli.commands.sandbox import sandbox; sandbox()"


def launch(db: Path, *phones: str) -> None:
    definition = Definition('{"questions": [{"text": "Q"}]}', questions=(ServiceQuestion("Q"),))
    with closing(open_store(db)) as store:
        Service(store).send(definition, phones or PHONES, datetime.now(UTC))


@pytest.mark.slow
@pytest.mark.parametrize(("options", "api_key"), [(["--api-key", "k1"], "k1"), ([], "k2")])
def test_serve_says_where_it_is(db: Path, options: list[str], api_key: str) -> None:
    """`serve` says its address in three lines; the key comes from the option, else the environment."""
    arguments = ["serve", "--port", "0", "--db", str(db), "--username", "me", *options]
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path), "RUNNER_SANDBOX_API_KEY": "k2"},
    )
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(3)]
    url = said[0].removeprefix("url: ").strip()
    query = {"username": "me", "api_key": api_key}
    assert requests.get(f"{url}/api/stats/", params=query, timeout=60).status_code == 200
    process.send_signal(signal.SIGTERM)
    rest = process.communicate(timeout=60)
    assert said[1:] == ["username: me\n", f"api_key: {api_key}\n"]
    assert (process.returncode, rest) == (0, ("", ""))


def test_simulate_gives_json(db: Path) -> None:
    """`simulate --format json` gives its counts as a document that starts with its version."""
    launch(db)
    arguments = ["simulate", "--db", str(db), "--response-rate", "1", "--format", "json"]
    result = CliRunner().invoke(sandbox, arguments, catch_exceptions=False)
    document = json.loads(result.stdout)
    assert next(iter(document.items())) == ("format_version", "1.0")
    started, ended = (datetime.fromisoformat(document.pop(name)) for name in ("started", "ended"))
    assert ended > started > datetime.min.replace(tzinfo=UTC)
    assert document == {
        "format_version": "1.0",
        "participants": 2,
        "answered": 2,
        "silent": 0,
        "invalid_answers": 0,
        "results": 2,
        "sessions_completed": 2,
        "opted_out": 0,
    }


def test_simulate_tells_people(db: Path) -> None:
    """`simulate` says in words what happened, and that nothing did where nobody is asked."""
    launch(db)
    arguments = ["simulate", "--db", str(db), "--response-rate", "1"]
    said = [CliRunner().invoke(sandbox, arguments, catch_exceptions=False).stdout for _ in range(2)]
    assert said[0] == (
        "2 participants were being asked: 2 answered, 0 said nothing.\n"
        "2 results recorded, 0 invalid answers, 2 sessions completed.\n"
        "That took them 11m59s: the sandbox's clock has moved on to then.\n"
    )
    assert said[1] == "Nobody is being asked anything.\n"


def test_simulate_knows_one_from_many(db: Path) -> None:
    """One is said otherwise than several."""
    launch(db, PHONES[0])
    arguments = ["simulate", "--db", str(db), "--response-rate", "0"]
    assert CliRunner().invoke(sandbox, arguments, catch_exceptions=False).stdout == (
        "1 participant was being asked: 0 answered, 1 said nothing.\n"
        "0 results recorded, 0 invalid answers, 0 sessions completed.\n"
    )


@pytest.mark.parametrize("name", ["serve", "simulate"])
def test_user_mistakes_become_runner_errors(tmp_path: Path, name: str) -> None:
    """What the sandbox says about a database that it cannot use is the runner's own error, exit code 1."""
    db = tmp_path / "notes.txt"
    db.write_text("notes\n" * 200)
    with pytest.raises(RunnerError) as error:
        CliRunner().invoke(sandbox, [name, "--db", str(db)], catch_exceptions=False)
    assert (str(error.value), error.value.exit_code) == (f"{db} is no sandbox database", 1)


def test_default_database_is_in_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --db it is .runner/sandbox/service.sqlite of the repository; `simulate` alone makes none."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "campaigns").mkdir()
    monkeypatch.chdir(tmp_path / "campaigns")
    database = tmp_path / ".runner" / "sandbox" / "service.sqlite"
    with pytest.raises(RunnerError) as error:
        CliRunner().invoke(sandbox, ["simulate"], catch_exceptions=False)
    assert (
        str(error.value) == "nothing was sent to this project's sandbox yet: nobody is being asked anything"
    )
    assert error.value.hint == "`runner apply` sends what is due; --db names another sandbox"
    assert not (tmp_path / ".runner").exists()
    CliRunner().invoke(sandbox, ["clock"], catch_exceptions=False)
    assert database.is_file()
    assert CliRunner().invoke(sandbox, ["simulate"], catch_exceptions=False).exit_code == 0
