"""Which hosts webhooks may lead to, when several services share a file and not all were told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from runner.cli.commands.sandbox import command
from runner.sandbox.sandbox_errors import SandboxError
from runner.sandbox.webhooks.receiver import read_hosts

if TYPE_CHECKING:
    from pathlib import Path


FOREIGN = "192.0.2.1"  # nobody's (RFC 5737)
OUTCOME = re.compile("UPDATE webhook SET (?:state =|tries = tries - 1)")
NO_HOSTS = [
    "",
    " ",
    "http://x",
    "10.0.0.1:9000",
    "h/",
    "a b",
    "[10.0.0.1]",
    "[h]",
    "[::1",
    "u@h",
    "-h",
    "*.h",
]


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("hooks.example", "hooks.example"),
        ("Hooks.Example.", "hooks.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("[fd00::2]", "fd00::2"),
        ("FD00:0::2", "fd00::2"),
        ("10.0.0.1", "10.0.0.1"),
    ],
)
def test_hosts_are_read_as_receivers_are(written: str, host: str) -> None:
    """Every spelling of a host that a webhook's URL may have can be allowed."""
    assert read_hosts([written]) == (host,)


@pytest.mark.parametrize("written", NO_HOSTS)
def test_what_is_no_host_cannot_be_allowed(written: str) -> None:
    """A URL, a port or a pattern would never match, and is refused with what to write instead."""
    with pytest.raises(SandboxError, match="is no host: give a name or an address alone"):
        read_hosts(["hooks.example", written])


def test_no_host_is_a_wrong_command_line(db: Path) -> None:
    """`serve` says which option is wrong and what it takes, and does not start."""
    arguments = ["serve", "--db", str(db), "--allow-webhooks", "10.0.0.1:9000"]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert "Invalid value for '--allow-webhooks': '10.0.0.1:9000' is no host" in result.stderr
    assert not db.exists()
