"""Where a target leads, in the one way in which plans and reviewers know it."""

from __future__ import annotations

import pytest

from runner.errors import ConfigurationError
from runner.service.target import Target, describe_destination, list_moves


def name_address(base_url: str) -> str:
    return str(describe_destination(Target("live", base_url))["address"])


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("HTTPS://SMS.Example.COM:443/", "https://sms.example.com"),
        ("https://sms.example.com/V2//", "https://sms.example.com/V2"),
        ("http://sms.example.com:80/v2", "http://sms.example.com/v2"),
        ("http://sms.example.com:443", "http://sms.example.com:443"),
        ("https://sms.example.com:8443", "https://sms.example.com:8443"),
        ("http://[::1]:8080/sms/", "http://[::1]:8080/sms"),
        ("https://sms.example.com/a/../b", "https://sms.example.com/b"),
    ],
)
def test_ways_to_write_an_address_are_one(written: str, address: str) -> None:
    """Scheme and host in lower case, no default port, no slash at the end; the path stays as it is."""
    assert name_address(written) == address


def test_a_host_that_looks_like_another_does_not_read_like_it() -> None:
    """Letters of other alphabets are shown as they go over the wire."""
    assert (
        name_address("https://sms.ex\N{CYRILLIC SMALL LETTER A}mple.com") == "https://sms.xn--exmple-4nf.com"
    )


def test_a_backslash_hides_no_host() -> None:
    """What reads as one host is the host that is asked."""
    assert name_address("https://sms.example.com\\.elsewhere.example") == (
        "https://sms.example.com/%5C.elsewhere.example"
    )


def test_the_embedded_sandbox_is_one_place() -> None:
    """Its port is another one each time, and its address a word."""
    assert describe_destination(Target("sandbox"))["address"] == "the embedded sandbox"


def test_a_host_that_cannot_be_one_is_refused() -> None:
    """A host that no request could be sent to is an error before there is a plan."""
    with pytest.raises(ConfigurationError) as caught:
        name_address("https://sms.ex\N{NO-BREAK SPACE}ample.com")
    assert caught.value.message == "the base URL of the target 'live' has a host that cannot be one"


def test_what_differs_is_named() -> None:
    """Each difference is said with what was and what is; what is the same is not said."""
    then = describe_destination(Target("live", "https://a.example.com", rate=10.0))
    now = describe_destination(Target("live", "https://b.example.com", insecure=True))
    assert list_moves(then, then) == []
    assert list_moves(then, now) == [
        "address was https://a.example.com and is now https://b.example.com",
        "insecure was false and is now true",
        "rate was 10.0 and is now not set",
    ]
