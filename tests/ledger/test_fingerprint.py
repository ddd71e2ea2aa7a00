"""Fingerprints, seals and digests: the same everywhere under one key, and nothing without it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runner.ledger.fingerprint import FingerprintSet, TargetKey, launch_key

PHONES = st.integers(10**6, 10**15 - 1).map(lambda number: f"+{number}")
SECRETS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
TARGETS = st.sampled_from(["live", "test", "sandbox"])


def test_they_are_for_good() -> None:
    """The functions are a part of the files' formats: with other ones everyone would look new."""
    key = TargetKey.of("live", "a state key")
    assert (key.name, key.fingerprint("+14155550101")) == ("fd6ec8c673dc754b", "f9f5e0535d622c810709")
    assert key.seal("entry", b"said") == "6c88ebc1db1f5168748abacc0c4826bd"
    public = TargetKey.of("live", None)
    assert (public.name, public.fingerprint("+14155550101")) == ("5b8445d65eacc55e", "0169484446c5166f5c35")
    assert TargetKey.of("live", "") == public
    assert launch_key("pulse", "ask", "d1g35t", ["b", "a"]) == "51ba71091037545d829a"
    assert "_key" not in repr(key)


@given(TARGETS, SECRETS | st.none(), PHONES, TARGETS, SECRETS | st.none(), PHONES)
def test_keys_targets_people_and_purposes_are_apart(
    target: str, secret: str | None, phone: str, other: str, another: str | None, second: str
) -> None:
    """A fingerprint is of one key, target and phone; a seal of one purpose and text; none equals another."""
    one, two = TargetKey.of(target, secret), TargetKey.of(other, another)
    is_same = (target, secret) == (other, another)
    assert (one == two) == (one.name == two.name) == is_same
    assert (one.fingerprint(phone) == two.fingerprint(second)) == (is_same and phone == second)
    assert (one.seal("plan", b"said") == two.seal("plan", b"said")) == is_same
    assert one.seal("plan", b"said") != one.seal("entry", b"said")
    assert (len(one.fingerprint(phone)), len(one.seal("plan", b""))) == (20, 32)


@given(
    st.lists(st.integers(0, 2**80 - 1) | st.integers(0, 40).map(lambda n: n << 12), max_size=40), st.data()
)
def test_a_packed_set_is_a_set(numbers: list[int], data: st.DataObject) -> None:
    """It counts what it was given, exactly."""
    written = sorted(f"{number:020x}" for number in numbers)
    packed = FingerprintSet(written)
    assert len(packed) == len(written)
    everybody = st.integers(0, 2**80 - 1).map("{:020x}".format)
    asked = data.draw(st.sampled_from(written) | everybody if written else everybody)
    assert packed.count(asked) == written.count(asked)
    assert (asked in packed) == (asked in written)
