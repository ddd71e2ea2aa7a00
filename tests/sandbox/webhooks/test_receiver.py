"""What webhook URLs may say, and where they may lead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.sandbox.webhooks.receiver import choose_addresses, parse_receiver


@pytest.mark.parametrize(
    ("url", "is_secure", "host", "port", "authority", "target"),
    [
        ("http://localhost", False, "localhost", 80, "localhost", "/"),
        ("https://Example.ORG/a/b?c=d", True, "example.org", 443, "example.org", "/a/b?c=d"),
        ("http://127.0.0.1:8080/x", False, "127.0.0.1", 8080, "127.0.0.1:8080", "/x"),
        ("http://[::1]:8080/x", False, "::1", 8080, "[::1]:8080", "/x"),
        ("https://[0:0::1]/", True, "::1", 443, "[::1]", "/"),
        ("http://h/ä b?q=ö c", False, "h", 80, "h", "/%C3%A4%20b?q=%C3%B6%20c"),
        ("http://h/a%2Fb?c=%26", False, "h", 80, "h", "/a%2Fb?c=%26"),
        ("http://h?q", False, "h", 80, "h", "/?q"),
        ("http://h/a#part", False, "h", 80, "h", "/a"),
        ("http://bücher.example/", False, "xn--bcher-kva.example", 80, "xn--bcher-kva.example", "/"),
        ("http://h.:80/", False, "h.", 80, "h.", "/"),
    ],
)
def test_url_is_taken_apart(
    url: str, *, is_secure: bool, host: str, port: int, authority: str, target: str
) -> None:
    """A URL says how, whom and what to call."""
    receiver = parse_receiver(url)
    assert receiver is not None
    assert (receiver.is_secure, receiver.host, receiver.port) == (is_secure, host, port)
    assert (receiver.authority, receiver.target) == (authority, target)
    assert target == "/" or target not in repr(receiver)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hook",
        "//h/x",
        "ftp://h/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_",
        "http://",
        "http:///x",
        "http://h:99999/",
        "http://h:0/",
        "http://h:x/",
        "http://[::1/",
        "http://user:secret@h/",
        "http://user@h/",
        "http://a b/",
        "http://a\x00b/",
        "http://h%0d%0aX:1/",
        "http://" + "a" * 300 + "/",
        "http://-h-/",
        "http://..../",
    ],
)
def test_what_cannot_be_called_is_no_receiver(url: str) -> None:
    """Other schemes, impossible hosts and ports, and URLs with a password lead nowhere."""
    assert parse_receiver(url) is None


@given(st.text() | st.builds("http://{}/{}?{}".format, st.just("h"), st.text(), st.text()))
def test_any_text_makes_one_request_line(url: str) -> None:
    """Whatever a URL holds, its request line is one line of ASCII without a blank in it."""
    receiver = parse_receiver(url)
    if receiver is not None:
        line = f"{receiver.authority}{receiver.target}"
        assert line.isascii()
        assert line.isprintable()
        assert " " not in line


@pytest.mark.parametrize(
    ("addresses", "allowed", "expected"),
    [
        (["127.0.0.1"], (), ["127.0.0.1"]),
        (["127.8.9.1"], (), ["127.8.9.1"]),
        (["::1", "127.0.0.1", "::1"], (), ["::1", "127.0.0.1"]),
        (["10.0.0.5"], (), []),
        (["192.168.0.1", "172.16.0.1"], (), []),
        (["169.254.169.254"], (), []),
        (["0.0.0.0"], (), []),  # noqa: S104  an address that must not be called
        (["::"], (), []),
        (["fe80::1%eth0"], (), []),
        (["93.184.216.34"], (), []),
        (["10.0.0.5", "127.0.0.1"], (), ["127.0.0.1"]),
        (["10.0.0.5", "10.0.0.6"], ("hooks.example",), ["10.0.0.5", "10.0.0.6"]),
        (["10.0.0.5"], ("example",), []),
        ([], ("hooks.example",), []),
    ],
)
@pytest.mark.parametrize("host", ["hooks.example", "hooks.example."])
def test_only_loopback_is_called_unless_the_host_is_allowed(
    host: str, addresses: list[str], allowed: tuple[str, ...], expected: list[str]
) -> None:
    """The addresses that a name stands for decide, and not the name, unless that very name is allowed."""
    receiver = parse_receiver(f"http://{host}/")
    assert receiver is not None
    assert choose_addresses(receiver, addresses, allowed) == expected
