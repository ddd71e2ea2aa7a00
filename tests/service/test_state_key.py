"""State keys: those that could be guessed are refused where they are read."""

from __future__ import annotations

import secrets

import pytest

from runner.errors import ConfigurationError
from runner.service.target import make_state_key, read_old_state_key, read_state_key

SHORT = "the key in RUNNER_STATE_KEY can be guessed: it has less than 16 random bytes"
HINT = (
    "`runner key new` prints a good one. If something was sent with this one, `runner key rotate` moves the "
    "records, with the new key in RUNNER_STATE_KEY and the old one in RUNNER_OLD_STATE_KEY"
)


@pytest.mark.parametrize(
    "key",
    [
        "x",
        "a secret",
        "x" * 60,
        "0123456" * 10,
        "0123456789" * 5,
        "3141592653589793238462643383279502884",
        "d41d8cd98f00b204e9800998ecf8427",
        "qkzwhvbtyxplmnruscfjdgae",
        "Tq3v9LrT0bWcZp7k2MsY5",
        "Tq3v9LrT0bWcZp7k2MsY5\udcff\udcff",
    ],
)
def test_a_key_that_could_be_guessed_is_refused(key: str) -> None:
    """Shorter than 16 random bytes, for its kind of characters, or of few different ones, or repeated."""
    with pytest.raises(ConfigurationError) as caught:
        read_state_key({"RUNNER_STATE_KEY": key}, "RUNNER_STATE_KEY")
    assert (caught.value.message, caught.value.hint) == (SHORT, HINT)


@pytest.mark.parametrize(
    "make",
    [
        make_state_key,
        lambda: secrets.token_hex(16),
        lambda: secrets.token_urlsafe(16),
        lambda: str(10**40 + secrets.randbelow(10**40)),
        # A random one of so many digits may lack three of the ten.
        lambda: "12479555251124492097450529149705410700299",
        lambda: "correct horse battery staple",
    ],
)
def test_random_keys_are_taken(make: object) -> None:
    """Sixteen random bytes are enough, in whatever form they come; nothing is no key."""
    assert callable(make)
    for _ in range(200):
        key = make()
        assert read_state_key({"KEY": key}, "KEY") == key
    assert read_state_key({"KEY": ""}, "KEY") is None
    assert read_state_key({}, "KEY") is None


def test_an_old_key_may_be_weak() -> None:
    """Records are moved away from it; what is no text can have made none."""
    assert read_old_state_key({"RUNNER_OLD_STATE_KEY": "x"}) == "x"
    assert read_old_state_key({"RUNNER_OLD_STATE_KEY": ""}) is None
    with pytest.raises(ConfigurationError) as caught:
        read_old_state_key({"RUNNER_OLD_STATE_KEY": "x\udcff"})
    assert caught.value.message == "the key in RUNNER_OLD_STATE_KEY is no text in UTF-8"
    assert caught.value.hint == "no record can have been made with it"
