"""Addresses of clusters."""

from __future__ import annotations

import pytest

from runner.cluster.address import Address, parse_address
from runner.errors import ConfigurationError, UsageError


@pytest.mark.parametrize(
    ("text", "workers"),
    [
        ("local:1", 1),
        ("local:999", 999),
        ("tcp://127.0.0.1:8786", None),
        ("tcp://localhost:8786", None),
        ("tcp://[::1]:8786", None),
        ("tls://dask.example.com:65535", None),
        ("tls://[fd00::5]:8786", None),
    ],
)
def test_an_address_names_workers_here_or_a_scheduler(text: str, workers: int | None) -> None:
    """`local:N` is N processes on this machine; all else is where a scheduler listens."""
    assert parse_address(text) == Address(text, workers)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "foo",
        "local:",
        "local:0",
        "local:x",
        "local:-1",
        "local:1000",
        "local:2\n",
        "tcp://",
        "tcp://a",
        "tcp://a:0",
        "tcp://a:65536",
        "tcp://a:1/b",
        "tcp://ada:s3cret@a:1",
        "http://a:8786",
        "a:8786",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    """What names neither processes nor a scheduler is a mistake of the command line."""
    with pytest.raises(UsageError) as caught:
        parse_address(text)
    assert caught.value.message == f"{text!r} is no address of a cluster"
    assert caught.value.hint == (
        "local:4 for four worker processes on this machine, or a Dask scheduler's, as in "
        "tls://10.0.0.5:8786; check --cluster and RUNNER_CLUSTER"
    )


@pytest.mark.parametrize("text", ["tcp://10.0.0.5:8786", "tcp://scheduler:8786", "tcp://[fd00::5]:8786"])
def test_another_machine_needs_tls_or_a_word(text: str) -> None:
    """A scheduler without TLS takes code from everybody who reaches it: that must be wanted."""
    with pytest.raises(ConfigurationError) as caught:
        parse_address(text)
    assert caught.value.message == (
        f"the cluster {text} is on another machine and has no TLS: anybody who reaches its port can run code "
        "where the secrets are"
    )
    assert caught.value.hint == (
        "start scheduler and workers with TLS and say tls://…; or, on a network that is closed to all others, "
        "say --insecure-cluster or RUNNER_INSECURE_CLUSTER=1"
    )
    assert parse_address(text, insecure=True) == Address(text)
