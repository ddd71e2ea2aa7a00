"""Counts and digests of people."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.ledger.fingerprint import PeopleTally, digest_tallies, tally_texted
from runner.ledger.model import RecordedDeliveries

PEOPLE = st.sets(st.text("0123456789abcdef", min_size=20, max_size=20), max_size=12)


def test_definition() -> None:
    """The digest is the sum of the fingerprints' BLAKE2b-256, as anybody can compute it."""
    people = ["00112233445566778899", "ffffffffffffffffffff"]
    hashes = [hashlib.blake2b(one.encode("ascii"), digest_size=32).hexdigest() for one in people]
    expected = sum(int(one, 16) for one in hashes) % 2**256
    assert PeopleTally(people).digest == f"{expected:064x}"
    assert PeopleTally().digest == "0" * 64


@given(people=PEOPLE, others=PEOPLE, seed=st.randoms(use_true_random=False))
def test_parts(people: set[str], others: set[str], seed: object) -> None:
    """The tallies of parts make that of the whole, in any order; who is taken out was never there."""
    shuffled = sorted(people | others)
    getattr(seed, "shuffle")(shuffled)  # noqa: B009
    whole = PeopleTally(shuffled)
    assert whole == PeopleTally(people) + PeopleTally(others - people)
    for one in others - people:
        whole.remove(one)
    assert whole == PeopleTally(people) == PeopleTally.read(len(people), PeopleTally(people).digest)


@given(people=PEOPLE, others=PEOPLE)
def test_difference(people: set[str], others: set[str]) -> None:
    """Other people have another digest."""
    assert (PeopleTally(people).digest == PeopleTally(others).digest) is (people == others)


def test_texted() -> None:
    """Who is still held for unresolved counts as one who was texted; who was forgotten doesn't."""
    settled = tally_texted(RecordedDeliveries({"ask": {"a", "b"}}, {}, {"f"}))
    unsettled = tally_texted(RecordedDeliveries({"ask": {"a"}, "other": {"f"}}, {"ask": {"b", "f"}}, {"f"}))
    assert settled == unsettled == {"ask": PeopleTally("ab")}
    assert digest_tallies(settled) == digest_tallies({**unsettled, "nobody": PeopleTally()})


def test_damaged_digest() -> None:
    """What is no digest is not taken for one."""
    with pytest.raises(ValueError, match="00"):
        PeopleTally.read(1, "00")
