"""What a person at a terminal sees: a real pseudo-terminal, the real command."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def run_at_terminal(
    folder: Path,
    *arguments: str,
    keys: str = "",
    columns: int = 200,
    interrupt_at: str = "never",
    no_color: str = "",
) -> tuple[int, str]:
    """Run the command at a terminal of its own and type `keys`; return exit code and all that it showed.

    It is interrupted once it has shown `interrupt_at`.
    """
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "runner", *arguments]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "NO_COLOR": no_color}
    process = subprocess.Popen(
        command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    os.write(ours, keys.encode())
    shown = b""
    while True:
        select.select([ours], [], [], 30)
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the other end is closed: the process has ended
            break
        if interrupt_at in shown.decode(errors="replace"):
            # A signal between the prompt and the wait for keys would be noticed with the next key alone.
            wait_until_asleep(process)
            process.send_signal(signal.SIGINT)
            interrupt_at = "never"
    os.close(ours)
    return process.wait(100), shown.decode()


def wait_until_asleep(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process waits for something itself: on a busy machine that may be long after its prompt."""
    status = Path(f"/proc/{process.pid}/stat")
    if not status.exists():  # on macOS
        time.sleep(0.5)
        return
    # The state comes after the program's name, which is in brackets.
    while status.read_text(encoding="utf-8").rpartition(") ")[2][0] != "S":
        time.sleep(0.01)


@pytest.mark.slow
def test_apply_asks_and_sends_on_yes(folder: Path) -> None:
    """At a terminal, apply shows the plan and asks; on yes it sends."""
    code, shown = run_at_terminal(folder, "apply", keys="y\n")
    assert code == 0
    assert "message  rows  duplicates  excluded  to send  segments" in shown
    assert "To send to sandbox: 4 people now, 8 to 16 segments; 1 excluded, 1 duplicate." in shown
    assert "pulse: 4 people texted." in shown


@pytest.mark.slow
def test_an_interrupted_question_sends_nothing(folder: Path) -> None:
    """Ctrl-C at the question says what became of the send."""
    code, shown = run_at_terminal(folder, "apply", interrupt_at="Send? [y/N]: ")
    assert code == 130
    assert _STYLE.sub("", shown).endswith("\r\nError: interrupted: nothing was sent\r\n")


@pytest.mark.slow
def test_a_served_sandbox_says_how_to_use_it(folder: Path) -> None:
    """At a terminal the service says, after its address, what the URL is for and how to stop."""
    stop = "Open the URL in a browser to see all texts, and answer them. Ctrl-C stops the service."
    code, shown = run_at_terminal(folder, "sandbox", "serve", "--port", "0", interrupt_at=stop)
    assert code == 0
    assert [line.partition(": ")[0] for line in shown.splitlines()] == ["url", "username", "api_key", stop]


def test_a_terminal_gets_colour(folder: Path) -> None:
    """At a terminal without NO_COLOR the verdict is coloured."""
    code, shown = run_at_terminal(folder, "validate")
    assert code == 0
    assert "\x1b[32mValid\x1b[0m" in shown


@pytest.mark.slow
@pytest.mark.parametrize(("command", "code"), [("validate", 0), ("ci", 64), ("plna", 64)])
def test_no_color_is_heeded(folder: Path, command: str, code: int) -> None:
    """With NO_COLOR a terminal gets plain text, errors included."""
    found, shown = run_at_terminal(folder, command, no_color="1")
    assert (found, "\x1b" in shown) == (code, False)


def read_lines(shown: str) -> list[str]:
    """Return the lines that a terminal showed, without styles."""
    return [_STYLE.sub("", line).rstrip() for line in shown.splitlines()]


@pytest.mark.slow
def test_apply_sends_nothing_without_a_yes(folder: Path) -> None:
    """Anything but a yes sends nothing, and is no success."""
    for keys in ("n\n", "\n"):
        code, shown = run_at_terminal(folder, "apply", keys=keys)
        assert code == 1
        assert _STYLE.sub("", shown).endswith("Error: you answered no: nothing was sent\r\n")
    assert not (folder / "campaigns/pulse.sandbox.lock.json").exists()


@pytest.mark.slow
def test_no_line_is_wider_than_the_terminal(folder: Path) -> None:
    """Tables stay tables and prose folds between words, before and after a send, in what was done, too."""
    file = folder / "campaigns/pulse.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("Ada", "Zo\N{ETHIOPIC SYLLABLE HA}"), encoding="utf-8")
    for command in [
        "plan",
        "status",
        "preview campaigns/pulse.yaml",
        "apply --auto-approve --limit 1",
        "plan",
        "status",
        "reconcile",
        "optouts list",
    ]:
        code, shown = run_at_terminal(folder, *command.split(), columns=80)
        assert code == 0
        # After the last bar of progress, which is cleared.
        assert max(map(len, read_lines(shown.rpartition("\x1b[2K")[2]))) <= 80
        assert "message: " not in shown
