"""Names in little memory: each is known once it was added, and no other."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from runner.reconcile.missing_results import GuidSet


@settings(max_examples=25)
@given(st.lists(st.tuples(st.text(max_size=2), st.text(max_size=2))))
def test_a_name_is_new_once(names: list[tuple[str, str]]) -> None:
    """It says of each whether it is new, as a set would."""
    found, known = GuidSet(), set[tuple[str, str]]()
    for name in names:
        assert found.add(*name) == (name not in known)
        known.add(name)
