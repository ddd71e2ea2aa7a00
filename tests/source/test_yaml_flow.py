"""Values on one line of YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runner.source.json_schema import write_flow
from runner.source.yaml import read_yaml
from tests.source.test_yaml import compose_keys

TEXTS = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=20)
WORDS = st.sampled_from(
    ["yes", "No", "null", "2d", "1e3", "0x1F", "0b1", "012", "1_0", "nan", "20/s", "09:00", "2026-05-01", ""]
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), TEXTS, WORDS)
VALUES = st.recursive(
    SCALARS,
    lambda values: st.lists(values, max_size=4) | st.dictionaries(TEXTS | WORDS, values, max_size=4),
    max_leaves=10,
)


@given(VALUES)
def test_every_reader_reads_what_was_written(value: Any) -> None:
    """Our reader, which composes keys, and one that takes dates and `yes` for what they look like agree."""
    text = f"{{key: {write_flow(value)}}}"
    assert read_yaml(text, Path("a.yaml")).data == {"key": compose_keys(value)}
    assert yaml.safe_load(text) == {"key": value}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"message": "ask", "wait": "2d"}, "{message: ask, wait: 2d}"),
        (["09:00", "20:00"], '["09:00", "20:00"]'),
        ([{"phone": "+14155550101"}], '[{phone: "+14155550101"}]'),
        ({"not_before": "2026-12-01T09:00"}, "{not_before: 2026-12-01T09:00}"),
        ("Hi {{ first_name }}", '"Hi {{ first_name }}"'),
        ([1, 0.05, True, None, "1", "NO"], '[1, 0.05, true, null, "1", "NO"]'),
    ],
)
def test_quotes_stand_where_they_are_needed(value: Any, written: str) -> None:
    """Words are plain; what could be read as something else, and sentences, stand in quotes."""
    assert write_flow(value) == written
