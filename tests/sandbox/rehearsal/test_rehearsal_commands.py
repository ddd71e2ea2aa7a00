"""`runner sandbox clock`, `simulate` and `reset`, as a command line sees them."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from runner.cli.commands.sandbox import sandbox
from runner.errors import RunnerError
from runner.sandbox import store as store_module
from runner.sandbox.model import Definition, ServiceQuestion
from runner.sandbox.rehearsal.faults import FAULTS
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from runner.source.json_schema import load_validator

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import requests

    Call = Callable[..., requests.Response]

RUN = "import sys; from runner.cli.main import run; sys.exit(run())"
BODY = {"phone": ["+14155550101"], "text": "Hello"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(sandbox, arguments, catch_exceptions=False)


def read(*arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run(*arguments, "--format", "json").stdout)
    assert next(iter(document.items())) == ("format_version", "1.0")
    load_validator("sandbox").validate(document)
    return document


def test_every_document_fits_the_sandbox_s_schema(db: Path, call: Call) -> None:
    """What each command writes for programs is what `runner schema sandbox` describes."""
    call("POST", "/api/send", BODY)
    at = ("--db", str(db))
    found = [read("clock", *at), read("simulate", *at)]
    assert [len(document) for document in found] == [3, 10]
    assert not load_validator("sandbox").is_valid({**found[0], "more": 1})


def test_clock_moves_a_running_service(db: Path, call: Call) -> None:
    """`clock +2d` moves the time of a service that another program runs, and adds up."""
    run("clock", "+2d", "--db", str(db))
    shown = read("clock", "+1h", "--db", str(db))
    assert shown["clock_offset_s"] == 2 * 86_400 + 3600
    call("POST", "/api/send", BODY)
    started = call("GET", "/api/stats/").json()["objects"][0]["project_launch_start"]
    ahead = datetime.fromisoformat(started).replace(tzinfo=UTC) - datetime.now(UTC)
    assert timedelta(days=2) < ahead < timedelta(days=2, hours=2)


def test_reset_empties_a_running_service(db: Path, call: Call) -> None:
    """`reset` deletes all records and the clock's lead; the service goes on with its credentials."""
    call("POST", "/api/send", BODY)
    run("clock", "+2d", "--db", str(db))
    assert run("reset", "--db", str(db)).stdout == "Everything was reset.\n"
    state = call("GET", "/_sandbox/state").json()
    assert (state["launches"], state["renders"], state["clock_offset_s"]) == (0, 0, 0)
    assert call("POST", "/api/send", BODY).ok


def test_clock_tells_people(db: Path) -> None:
    """`clock` says how far it is ahead, and `clock reset` ends that."""
    open_store(db).close()
    assert run("clock", "+90m", "--db", str(db)).stdout.endswith("UTC, 1h30m ahead of this machine\n")
    assert run("clock", "reset", "--db", str(db)).stdout.endswith("UTC, that of this machine\n")


def test_clock_reaches_a_date_a_time_and_what_is_due(db: Path) -> None:
    """`clock` takes a date, a time of day, and `next` for the expiry of a session."""
    definition = Definition('{"questions": [{"text": "Q"}]}', questions=(ServiceQuestion("Q"),))
    at = ("--db", str(db))
    with closing(open_store(db)) as store:
        sent = datetime.now(UTC)
        Service(store).send(definition, ["+14155550101"], sent)
        assert read("clock", "next", *at)["time"][:16] == (sent + timedelta(days=7)).isoformat()[:16]
        with pytest.raises(RunnerError, match="nothing is due"):
            run("clock", "next", *at)
    day = f"{sent + timedelta(days=9):%Y-%m-%d}"
    assert read("clock", day, *at)["time"][:16] == f"{day}T00:00"
    assert read("clock", "09:30", *at)["time"][:16] == f"{day}T09:30"
    assert read("clock", f"{day}T12:30+02:00", *at)["time"][:16] == f"{day}T10:30"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("2020-01-01", "the clock moves forward only"),
        ("2030-13-01", "month must be in 1..12"),
        ("+2y", "'2y' is no length of time"),
        ("back", "2026-12-01T09:00, 09:00, next or reset"),
    ],
)
def test_other_moves_are_refused(db: Path, change: str, reason: str) -> None:
    """What is no move forward is a wrong command line, in words."""
    result = run("clock", change, "--db", str(db))
    assert (result.exit_code, reason in result.stderr) == (2, True)


@pytest.mark.parametrize("arguments", [["clock"], ["simulate"], ["reset"]])
def test_mistyped_database_is_not_made(db: Path, arguments: list[str]) -> None:
    """A database that is named must be there, but for `serve`."""
    with pytest.raises(RunnerError, match="there is no sandbox database") as error:
        run(*arguments, "--db", str(db))
    assert (error.value.exit_code, db.exists()) == (1, False)


@pytest.mark.parametrize("arguments", [["clock", "+1d"], ["serve", "--port", "0"], ["reset"]])
def test_locked_database_is_no_bug(db: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    """A database that another process holds is said to be so."""
    monkeypatch.setattr(store_module, "_BUSY_SECONDS", 0.1)
    with (
        closing(open_store(db)) as other,
        other.write(),
        pytest.raises(RunnerError, match="is locked by another process"),
    ):
        run(*arguments, "--db", str(db))


@pytest.mark.parametrize("arguments", [["clock", "+1d"], ["simulate", "--response-rate", "1"]])
def test_full_disk_is_no_bug(db: Path, arguments: list[str]) -> None:
    """A disk that takes no more ends a command with what to do, whatever it was writing."""
    definition = Definition('{"questions": [{"text": "Q"}]}', questions=(ServiceQuestion("Q"),))
    with closing(open_store(db)) as store:
        Service(store).send(definition, ["+14155550101"], datetime.now(UTC))
        limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)); {RUN}"
        ended = subprocess.run(
            # -B: a module that is compiled here for the first time would be kept in part, for every process.
            [sys.executable, "-B", "-c", limited, "sandbox", *arguments, "--db", str(db)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (ended.returncode, "check that its disk has room" in ended.stderr) == (1, True)


def test_help_names_faults() -> None:
    """The help of `serve` explains every fault in a line."""
    serving = run("serve", "--help").stdout
    assert all(f"  {fault.name:<13} {fault.says}\n" in serving for fault in FAULTS.values())


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--fault", "drp=1", "there is no fault 'drp'; there are drop, half,"),
        ("--fault", "drop=2", "it must be from 0 to 1"),
        ("--latency", "long", "is no length of time"),
        ("--latency", "100w", "the latency is 10m at most"),
        ("--allow-host", "bad host/", "'bad host/' is no host"),
        ("--response-rate", "2", "not in the range 0<=x<=1"),
    ],
)
def test_mistyped_options_are_explained(option: str, value: str, reason: str) -> None:
    """An option that cannot be read is a wrong command line, in words."""
    given = [option, value] * 2 if value == "drop" else [option, value]
    result = run("simulate" if option == "--response-rate" else "serve", *given)
    assert (result.exit_code, option in result.stderr, reason in result.stderr) == (2, True, True)
