"""What webhook URLs may say, and where they may lead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.sandbox.sandbox_errors import SandboxError
from runner.sandbox.webhooks.receiver import is_local, parse_receiver, read_hosts


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


def test_only_addresses_of_this_machine_are_loopback() -> None:
    """An address within the network, of all addresses or with a scope is not called unless it is allowed."""
    own = ("localhost", "127.0.0.1", "127.8.9.1", "::1")
    others = ("10.0.0.5", "169.254.169.254", "0.0.0.0", "::", "fe80::1%eth0", "::1%lo", "h.example")  # noqa: S104
    assert [host for host in own + others if is_local(host)] == list(own)


def test_hosts_are_read_as_receivers_are() -> None:
    """Every spelling of a host that a URL may have can be allowed; a URL, a port or a pattern is refused."""
    written = ["Hooks.Example.", "bücher.example", "FD00:0::2", "10.0.0.1"]
    assert read_hosts(written) == ("hooks.example", "xn--bcher-kva.example", "fd00::2", "10.0.0.1")
    for other in ("", "http://x", "10.0.0.1:9000", "h/", "a b", "[::1", "u@h", "-h", "*.h"):
        with pytest.raises(SandboxError, match="is no host: give a name or an address alone"):
            read_hosts(["hooks.example", other])
