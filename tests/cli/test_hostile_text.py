"""Text that would steer a terminal or a job, in every place that it can come from: none of it acts."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from runner.wording import disarm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOSTILE = "::warning::a\n::error::owned\r\n ::set-output name=a::b\x1b]0;t\x07\x1b[31m\x9b8m\u202e\u2028"
ACTS = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\r(?!\n)"
)
TABLE = "peo\u202eple\x1b.csv"
WORD = "::1\u202e"
CAMPAIGN = f"""\
version: 1
name: hello
vars: {{company: {json.dumps(HOSTILE)}}}
recipients:
  - phone: "+14155550101"
    vars: {{first_name: {json.dumps(HOSTILE)}}}
  - csv: {json.dumps(TABLE)}
messages:
  - id: ask
    introduction: "::error::Hi {{{{ first_name }}}} of {{{{ company }}}}"
    questions:
      - tag: "::error::nps"
        text: {json.dumps(HOSTILE + "?")}
        responses: ["0", {json.dumps(WORD)}]
    conclusion: {json.dumps(HOSTILE)}
"""
CHECKS = tuple(
    ("validate", "campaigns", "--format", one) for one in ("human", "json", "markdown", "github", "sarif")
)
COMMANDS = (
    *[("plan", "--format", one) for one in ("human", "json", "markdown", "github")],
    *[("preview", "campaigns/hello.yaml", "--format", one) for one in ("human", "json", "markdown")],
    ("preview", "campaigns/hello.yaml", "--phone", "+14155550101"),
    ("apply", "--auto-approve"),
    ("plan",),
    ("apply", "--auto-approve", "--format", "json"),
    *[("reconcile", "--format", one) for one in ("human", "json")],
    *[("status", "--format", one) for one in ("human", "json", "markdown")],
    *[("report", "--format", one) for one in ("md", "json", "html")],
    *[("resolve", "--format", one) for one in ("human", "json")],
    *[("optouts", "list", "--format", one) for one in ("human", "json")],
    *[("doctor", "--format", one) for one in ("human", "json")],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/hello.yaml").write_text(CAMPAIGN, encoding="utf-8")
    write_table(tmp_path, "+14155550102")
    return tmp_path


def write_table(folder: Path, phone: str) -> None:
    rows = [["phone", "first_name"], [phone, HOSTILE]]
    with (folder / "campaigns" / TABLE).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


@contextmanager
def answer_all(status: int) -> Iterator[str]:
    """Run a service that answers every request with hostile words; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"errors": [{"title": HOSTILE, "detail": HOSTILE}], "detail": HOSTILE}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815  the library's name

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def find_acting(text: str, commands: tuple[str, ...] = ()) -> list[str]:
    """Return the lines that would act; `commands` are begins of those that the program itself may write."""
    return [
        line
        for line in re.split(r"\n|\r\n?", text)
        if ACTS.search(line) or (line.lstrip().startswith("::") and not line.startswith(commands))
    ]


@pytest.mark.slow
def test_no_output_acts(folder: Path, run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """Whatever the command and its format, no line is a command, and no character steers the terminal."""
    own = tuple(
        f"::{level} {name}=" for level in ("error", "warning", "notice") for name in ("file", "title")
    )
    write_table(folder, HOSTILE)
    shown = ""
    for command in (*CHECKS, *COMMANDS):
        if command == COMMANDS[0]:
            write_table(folder, "+14155550102")
        ended = run(*command, cwd=folder)
        assert ended.returncode != 64, (command, ended.stderr)
        assert not find_acting(ended.stdout, own if command[-1] == "github" else ()), command
        assert not find_acting(ended.stderr), command
        shown += ended.stdout
    assert shown.count("owned") > 10
    # In a file, data is exact; in a pipe, a job or a person may read it.
    piped = subprocess.run(
        [sys.executable, "-m", "runner", "report", "--format", "csv"],
        cwd=folder,
        capture_output=True,
        check=True,
    )
    assert b"owned" in piped.stdout
    assert not find_acting(piped.stdout.decode())


@pytest.mark.parametrize("status", [400, 403, pytest.param(500, marks=pytest.mark.slow)])
def test_answers_of_the_service_do_not_act(
    folder: Path, run: Callable[..., subprocess.CompletedProcess[str]], status: int
) -> None:
    """What a service answers is told, and does nothing."""
    (folder / f"campaigns/{TABLE}").write_text("phone,first_name\n+14155550102,Bob\n", encoding="utf-8")
    with answer_all(status) as address:
        service = {
            "RUNNER_BASE_URL": address,
            "RUNNER_USERNAME": "u",
            "RUNNER_API_KEY": "k",
            "RUNNER_SETTLE_WINDOW": "100ms",
        }
        for command in (("apply", "--auto-approve"), ("reconcile",), ("doctor",)):
            ended = run(*command, cwd=folder, env=service)
            assert not find_acting(ended.stdout + ended.stderr), command


def test_what_is_disarmed_stays_readable() -> None:
    """Line ends, tabs and the program's own colours stay; what acts becomes its escape."""
    assert disarm("a\tb\r\nc\n") == "a\tb\r\nc\n"
    assert disarm("\x1b[1m::error::\x1b[0m x::y") == "\x1b[1m:\\u003aerror::\x1b[0m x::y"
    assert disarm("\x1b[8m\x1b]0;t\x07\u202e") == "\\u001b[8m\\u001b]0;t\\u0007\\u202e"
    assert disarm(" \u2060::x\n\n::y") == " \u2060:\\u003ax\n\n:\\u003ay"


@pytest.mark.parametrize("character", ["\n", "\r", "\x1b", "\x85", "\u2028", "\u202e", "\u2066", "\u200f"])
def test_tags_are_one_plain_line(
    folder: Path, run: Callable[..., subprocess.CompletedProcess[str]], character: str
) -> None:
    """A tag with a line end, a control character or a mark of direction is an error at its place."""
    tag = json.dumps(f"a{character}::error::b")
    (folder / "campaigns/hello.yaml").write_text(
        f'version: 1\nname: hello\ntag: {tag}\nrecipients:\n  - phone: "+14155550101"\n'
        "messages:\n  - {id: a, text: Hi}\n",
        encoding="utf-8",
    )
    ended = run("validate", "campaigns", cwd=folder)
    assert ended.returncode == 1
    assert "hello.yaml:3:6: error: `tag` " in ended.stdout


def test_a_preview_shows_what_is_sent(
    folder: Path, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Characters that steer a terminal are escapes in Markdown, too, where a pipe would lose styles."""
    done = run("preview", "campaigns/hello.yaml", "--format", "markdown", cwd=folder)
    assert r"\u001b]0;t\u0007\u001b[31m\u009b8m\u202e" in done.stdout
