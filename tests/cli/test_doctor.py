"""`runner doctor`: what is configured, reachable and writable, without a secret."""

from __future__ import annotations

import json
import re
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import validate
from psycopg import sql

from runner.sandbox.web.server import running_service
from runner.source.json_schema import schema_text
from tests.keys import STATE_KEY
from tests.patient_server import PatientServer

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.postgres import PostgresServer

    Run = Callable[..., subprocess.CompletedProcess[str]]

CAMPAIGN = """\
version: 1
name: coffee
recipients: [{phone: "+14155550101"}]
messages: [{id: taste, text: "Try our coffee. Reply STOP to opt out."}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one campaign."""
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/coffee.yaml").write_text(CAMPAIGN, encoding="utf-8")
    return tmp_path


def read_checks(text: str) -> dict[str, tuple[str, str]]:
    """Return the state and the words of each check."""
    found = re.findall(r"^(ok|warning|error) +(campaigns|[a-z]+(?: key)?) +(.*)$", text, re.MULTILINE)
    return {name: (state, words) for state, name, words in found}


@contextmanager
def running_an_hour_behind() -> Iterator[str]:
    """A service whose clock is an hour behind, by the `Date` of its answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"meta": {"total_count": 0}, "objects": []}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string((timestamp or time.time()) - 3600)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  its own name for it
            pass

    with PatientServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_service_is_asked(run: Run, folder: Path) -> None:
    """With credentials it is reached; what is secret stands nowhere."""
    with running_service(folder / "service.sqlite") as service:
        environment = {
            "RUNNER_BASE_URL": service.url,
            "RUNNER_USERNAME": service.username,
            "RUNNER_API_KEY": service.api_key,
            "RUNNER_STATE_KEY": STATE_KEY,
        }
        done = run("doctor", cwd=folder, env=environment)
    checks = read_checks(done.stdout)
    assert checks["target"] == ("ok", f"live, {service.url}; credentials are set")
    assert re.fullmatch(r"answers in \d+ ms, and takes the credentials", checks["service"][1])
    assert checks["state key"] == ("ok", "set")
    assert service.api_key not in done.stdout + done.stderr
    assert STATE_KEY not in done.stdout + done.stderr


def test_what_does_not_work_is_an_error_with_a_way_on(run: Run, folder: Path) -> None:
    """Each with its reason and what to do; the exit code is 1, and the others are looked at all the same."""
    (folder / "campaigns/tea.yaml").write_text("version: 1\nname: tea\n", encoding="utf-8")
    environment = {"RUNNER_BASE_URL": "http://127.0.0.1:9", "RUNNER_USERNAME": "u", "RUNNER_API_KEY": "k"}
    done = run("doctor", cwd=folder, env=environment)
    assert done.returncode == 1
    checks = read_checks(done.stdout)
    assert checks["campaigns"] == ("error", "2 files in campaigns, 2 errors")
    assert "`runner validate` lists them" in done.stdout
    assert checks["service"][0] == "error"
    assert "check the base URL and the network" in done.stdout


def test_missing_credentials_are_named_by_their_variables(run: Run, folder: Path) -> None:
    """The service is not asked then."""
    (folder / "campaigns/targets.yaml").write_text(
        'version: 1\ntargets: {live: {base_url: "https://sms.example.com"}}\n', encoding="utf-8"
    )
    done = run("doctor", "--target", "live", cwd=folder)
    checks = read_checks(done.stdout)
    assert checks["target"] == ("warning", "live, https://sms.example.com; without credentials")
    assert "set RUNNER_USERNAME and RUNNER_API_KEY" in done.stdout
    assert checks["service"] == ("warning", "not asked, without credentials")


def test_clocks_that_differ_are_warned_of(run: Run, folder: Path) -> None:
    """By the `Date` of the service's answer."""
    with running_an_hour_behind() as url:
        environment = {"RUNNER_BASE_URL": url, "RUNNER_USERNAME": "u", "RUNNER_API_KEY": "k"}
        began = time.monotonic()
        checks = read_checks(run("doctor", cwd=folder, env=environment).stdout)
        took_s = time.monotonic() - began
    state, words = checks["clock"]
    assert state == "warning"
    found = re.fullmatch(r"(\d+) s apart from the service's", words)
    assert found
    # The time that the exchange took is left out of it: its `Date` was written at some moment of that.
    assert 3598.5 - took_s <= int(found[1]) <= 3600.5 + took_s


@pytest.mark.slow
def test_a_ledger_that_is_there_is_readable_and_writable(
    run: Run, folder: Path, postgres_ledger: str
) -> None:
    """On a server as in a file."""
    for environment in ({}, {"RUNNER_LEDGER": postgres_ledger}):
        run("apply", "--auto-approve", cwd=folder, env=environment)
        state, words = read_checks(run("doctor", cwd=folder, env=environment).stdout)["ledger"]
        assert state == "ok"
        assert words.endswith(", readable and writable")


def test_a_ledger_that_can_only_be_read_is_an_error(run: Run, folder: Path, postgres: PostgresServer) -> None:
    """A standby, or a user without the right to write, would stop the first send."""
    database = postgres.create_ledger()
    environment = {"RUNNER_LEDGER": postgres.url(database)}
    run("apply", "--auto-approve", cwd=folder, env=environment)
    postgres.execute(
        sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(sql.Identifier(database))
    )
    done = run("doctor", cwd=folder, env=environment)
    assert done.returncode == 1
    state, words = read_checks(done.stdout)["ledger"]
    assert state == "error"
    assert words.endswith("cannot execute UPDATE in a read-only transaction")


def test_a_new_folder_is_looked_at(run: Run, folder: Path) -> None:
    """Everything is looked at, nothing is made, the versions come first."""
    done = run("doctor", cwd=folder)
    assert done.returncode == 0
    assert done.stdout.startswith("runner, version 0.1.0\nPython ")
    checks = read_checks(done.stdout)
    assert checks["campaigns"] == ("ok", "1 file in campaigns")
    assert checks["target"] == ("ok", "sandbox, built in: nobody is texted")
    assert checks["ledger"] == ("ok", ".runner/ledger.sqlite, made on first use")
    assert checks["service"] == ("ok", "the sandbox, started on first use")
    assert not (folder / ".runner").exists()
    document = json.loads(run("doctor", "--format", "json", cwd=folder).stdout)
    validate(document, json.loads(schema_text("doctor")))
