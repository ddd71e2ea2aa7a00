"""Documents held to their schemas: patterns mean what JSON Schema says that they mean."""

from __future__ import annotations

from typing import Any

import pytest

from runner.source.schema import load_validator


def is_rate(text: str) -> bool:
    campaign: dict[str, Any] = {
        "version": 1,
        "recipients": [{"phone": "+14155550101"}],
        "messages": [{"id": "hello", "text": "Hello"}],
        "limits": {"rate": text},
    }
    return load_validator("campaign").is_valid(campaign)


@pytest.mark.parametrize(("text", "fits"), [("20/s", True), ("20/s\n", False), ("20/s\nx", False)])
def test_a_pattern_ends_where_the_text_does(text: str, *, fits: bool) -> None:
    """`$` is the end of the text (ECMA 262), not a place before its last line break."""
    assert is_rate(text) is fits
