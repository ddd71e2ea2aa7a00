"""Fingerprints: the same everywhere under one key, and nothing without it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runner.ledger.fingerprint import FingerprintKey, launch_key

PHONES = st.from_regex(r"\+[1-9][0-9]{6,14}", fullmatch=True)
SECRETS = st.text(min_size=1)


def test_they_are_for_good() -> None:
    """The functions are a part of the lockfile's format: with other ones everyone would look new."""
    assert FingerprintKey.from_salt("0" * 32).name == "db40e7ea0538aa38"
    assert FingerprintKey.from_secret("a state key").name == "baab0299812fe1c2"
    fingerprint = FingerprintKey.from_secret("a state key").fingerprint("pulse", "+14155550101")
    assert fingerprint == "d8af8b3cbd07fafd149e"
    assert launch_key("pulse", "ask", "d1g35t", ["b", "a"]) == "51ba71091037545d829a"


@given(SECRETS, SECRETS, PHONES)
def test_another_key_makes_others(first: str, second: str, phone: str) -> None:
    """Without the key a fingerprint says nothing, and the key's name tells keys apart."""
    keys = [FingerprintKey.from_secret(secret) for secret in (first, second)]
    assert (keys[0].name == keys[1].name) == (first == second)
    fingerprints = [key.fingerprint("pulse", phone) for key in keys]
    assert (fingerprints[0] == fingerprints[1]) == (first == second)


@given(SECRETS, PHONES, PHONES)
def test_people_and_campaigns_are_told_apart(secret: str, first: str, second: str) -> None:
    """Each phone of each campaign has its own, so that campaigns cannot be compared."""
    key = FingerprintKey.from_secret(secret)
    made = [key.fingerprint("pulse", phone) for phone in (first, second)]
    assert (made[0] == made[1]) == (first == second)
    assert key.fingerprint("other", first) != made[0]
    assert len(made[0]) == 20


@given(st.lists(st.text("0123456789abcdef", min_size=20, max_size=20), min_size=1))
def test_a_launch_key_knows_no_order(fingerprints: list[str]) -> None:
    """The same payload to the same people has the same name, in whatever order they are listed."""
    assert launch_key("pulse", "ask", "d", fingerprints) == launch_key(
        "pulse", "ask", "d", fingerprints[::-1]
    )
