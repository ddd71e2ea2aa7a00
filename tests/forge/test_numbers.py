"""The numbers of a plan in its comment: what is written is read, and nothing else is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from runner.github.pull_requests import PlanNumbers, read_numbers, write_numbers

NUMBERS = PlanNumbers("live", {"pulse": {"ask": 7}})
LINE = '<!-- runner-numbers {"campaigns":{"pulse":{"ask":7}},"target":"live"} -->'
CAMPAIGNS = st.dictionaries(
    st.text(max_size=20), st.dictionaries(st.text(max_size=20), st.integers(0, 10**9), max_size=3)
)


def test_the_line_is_as_it_is_documented() -> None:
    """Each message has the people who get it, now or later; a line that is too long is left out."""
    assert write_numbers(NUMBERS) == LINE
    assert read_numbers(f"<!-- marker -->\n{LINE}\n### Campaign plan\n") == NUMBERS
    assert write_numbers(PlanNumbers("live", {f"campaign-{n}": {"ask": 1} for n in range(2000)})) == ""


@given(campaigns=CAMPAIGNS, target=st.text(max_size=20))
def test_what_is_written_is_read(campaigns: dict[str, dict[str, int]], target: str) -> None:
    """Whatever things are called, the line is one HTML comment that shows nothing, and reads as it was."""
    numbers = PlanNumbers(target, campaigns)
    line = write_numbers(numbers)
    assert read_numbers(f"<!-- marker -->\r\n{line}\r\nx") == numbers
    (token,) = MarkdownIt().parse(line)
    assert (token.type, token.content) == ("html_block", line)
    assert line.count(">") == 1


@pytest.mark.parametrize(
    "body",
    [
        "",
        LINE,
        f"<!-- marker -->\n### Campaign plan\n{LINE}\n",
        f"<!-- marker -->\n{LINE} and more",
        *(f"<!-- marker -->\n{LINE.replace(':7', odd)}" for odd in (":-7", ":true", ":null", ":[7]")),
        f"<!-- marker -->\n{LINE.replace('target', 'aim')}",
        f"<!-- marker -->\n{LINE.replace('{', '[', 1)}",
        "<!-- marker -->\n<!-- runner-numbers {} -->",
        f"<!-- marker -->\n<!-- runner-numbers {'{' * 100_000} -->",
    ],
)
def test_anything_else_has_no_numbers(body: str) -> None:
    """A line in another place, or with what are no counts, says nothing."""
    assert read_numbers(body) is None
