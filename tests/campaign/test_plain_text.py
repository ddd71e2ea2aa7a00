"""Texts that are filled in without a template engine come out as the engine would have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.campaign.bounds import MAX_LENGTH
from runner.campaign.language import CampaignEnvironment
from runner.campaign.plain_text import PlainText, find_plain

if TYPE_CHECKING:
    from jinja2 import Template

ENVIRONMENT = CampaignEnvironment()
NAMES = frozenset({"a", "b"})
WORDS = st.text(st.sampled_from("x 5%é👍\n\\'}s("), max_size=6)
PIECES = st.sampled_from(
    [
        "{{ a }}",
        "{{b}}",
        "{{ a | default('there') }}",
        '{{ b|d("") }}',
        "{# c #}",
        "{% raw %}{{ a }}{% endraw %}",
    ]
)
VALUES = st.one_of(
    st.text(st.sampled_from("yž %s{}\n"), max_size=5),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.lists(st.integers(), max_size=2),
)


def plain(source: str) -> PlainText | None:
    return find_plain(ENVIRONMENT.parse(source), NAMES)


def render(source: str, variables: dict[str, Any]) -> str:
    ENVIRONMENT.steps = 0
    template: Template = ENVIRONMENT.from_string(source)
    return template.render(variables).strip()


@given(
    st.lists(WORDS | PIECES, max_size=5).map("".join),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES),
)
def test_what_is_filled_in_is_what_the_engine_renders(source: str, variables: dict[str, Any]) -> None:
    """Whatever is not declined is, character by character, the engine's text."""
    found = plain(source)
    assert found is not None
    filled = found.fill(variables)
    assert filled is None or filled == render(source, variables)


@pytest.mark.parametrize(
    ("variables", "filled"),
    [
        ({"a": "Ada", "b": 3}, "Ada: 3 for there"),
        ({"a": "Ada", "b": 0.5, "c": "you"}, "Ada: 0.5 for you"),
        ({"a": "Ada"}, None),
        ({"a": "Ada", "b": True}, None),
        ({"a": "Ada", "b": ["x"]}, None),
        ({"a": "Ada", "b": None}, None),
        ({"a": "Ada", "b": 10**5000}, None),
        ({"a": "x" * MAX_LENGTH, "b": 3}, None),
    ],
)
def test_values_that_want_the_engine_are_declined(variables: dict[str, Any], filled: str | None) -> None:
    """Texts and numbers are filled in; what is missing, no text, or too long is the engine's to judge."""
    found = find_plain(
        ENVIRONMENT.parse("{{ a }}: {{ b }} for {{ c | default('there') }}"), frozenset({"a", "b", "c"})
    )
    assert found is not None
    assert found.fill(variables) == filled


@pytest.mark.parametrize(
    "source",
    [
        "{% if a %}x{% endif %}",
        "{{ a | upper }}",
        "{{ a.b }}",
        "{{ a ~ b }}",
        "{{ a | default(b) }}",
        "{{ a | default('x', true) }}",
        "{{ a | default(3) }}",
        "{{ 'a' }}",
        "{{ range }}",
        "{% set a = 'x' %}{{ a }}",
        "{{ a }}" * 101,
    ],
)
def test_everything_else_is_left_to_the_engine(source: str) -> None:
    """Whatever thinks, calls or changes is no plain text."""
    assert plain(source) is None
