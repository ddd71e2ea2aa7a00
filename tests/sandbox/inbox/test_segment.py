"""Segments as the sandbox counts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.sandbox.inbox.pages import measure_text
from runner.text.segment import count_segments


@pytest.mark.parametrize(
    ("text", "encoding", "segments"),
    [
        ("a" * 160, "GSM-7", 1),
        ("a" * 161, "GSM-7", 2),
        ("€" * 80, "GSM-7", 1),
        ("a" * 152 + "€" + "a" * 10, "GSM-7", 2),
        ("ж" * 70, "UCS-2", 1),
        ("ж" * 71, "UCS-2", 2),
        ("😀" * 35, "UCS-2", 1),
        ("😀" * 36, "UCS-2", 2),
    ],
)
def test_text_takes_its_segments(text: str, encoding: str, segments: int) -> None:
    """A text takes the segments that 3GPP 23.038 and 23.040 give it."""
    airtime = measure_text(text)
    assert (airtime.encoding, airtime.segments) == (encoding, segments)


@given(st.text(st.sampled_from("aé€^ñж😀\n"), min_size=1, max_size=400))
def test_both_ends_count_alike(text: str) -> None:
    """The sandbox and the runner, which know nothing of each other, count the same segments."""
    planned = count_segments(text)
    airtime = measure_text(text)
    assert (airtime.encoding, airtime.segments) == (planned.encoding, planned.segments)
