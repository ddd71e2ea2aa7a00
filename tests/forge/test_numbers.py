"""The numbers of a plan in its comment: what is written is read, and nothing else is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from runner.github.pull_requests import LONGEST_LINE, MessageNumbers, PlanNumbers, read_numbers, write_numbers

NUMBERS = PlanNumbers("live", "0f" * 16, {"pulse": {"ask": MessageNumbers(2, 8, 5)}}, 2, 5)
LINE = (
    '<!-- runner-numbers {"campaigns":{"pulse":{"ask":[2,8,5]}},"later":5,"plan_digest":"0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f",'
    '"target":"live","to_send":2,"version":1} -->'
)
COUNTS = st.builds(MessageNumbers, *[st.integers(0, 10**9)] * 3)
CAMPAIGNS = st.dictionaries(st.text(max_size=20), st.dictionaries(st.text(max_size=20), COUNTS, max_size=3))


def test_the_line_is_as_it_is_documented() -> None:
    """Each message has its recipients to send to, those of the audience, and those for later, in this order."""
    assert write_numbers(NUMBERS) == LINE
    assert read_numbers(f"<!-- marker -->\n{LINE}\n### Campaign plan\n") == NUMBERS


@given(campaigns=CAMPAIGNS, target=st.text(max_size=20))
def test_what_is_written_is_read(campaigns: dict[str, dict[str, MessageNumbers]], target: str) -> None:
    """Whatever things are called, the line is one HTML comment that shows nothing, and reads as it was."""
    numbers = PlanNumbers(target, "0" * 32, campaigns, 3)
    line = write_numbers(numbers)
    assert read_numbers(f"<!-- marker -->\r\n{line}\r\nx") == numbers
    (token,) = MarkdownIt().parse(line)
    assert (token.type, token.content) == ("html_block", line)
    assert line.count(">") == 1


def test_too_many_campaigns_are_counted_together() -> None:
    """A comment has room for its words: of a thousand campaigns only the sum is told."""
    many = {f"campaign-{number}": {"ask": MessageNumbers(1, 1, 0)} for number in range(1000)}
    line = write_numbers(PlanNumbers("live", "0" * 32, many, 1000, 7))
    assert len(line) < LONGEST_LINE
    assert read_numbers(f"\n<!-- marker -->\n{line}") == PlanNumbers("live", "0" * 32, None, 1000, 7)


@pytest.mark.parametrize(
    "body",
    [
        "",
        LINE,
        f"<!-- marker -->\n### Campaign plan\n{LINE}\n",
        f"<!-- marker -->\n{LINE} and more",
        f"<!-- marker -->\n{LINE.replace('[2,8,5]', '[-2,8,5]')}",
        f"<!-- marker -->\n{LINE.replace('[2,8,5]', '[true,8,5]')}",
        f"<!-- marker -->\n{LINE.replace('[2,8,5]', '[2,8]')}",
        f"<!-- marker -->\n{LINE.replace(':2,', ':null,')}",
        f"<!-- marker -->\n{LINE.replace('version', 'edition')}",
        f"<!-- marker -->\n{LINE.replace('1}', '2}')}",
        f"<!-- marker -->\n{LINE.replace('{', '[', 1)}",
        "<!-- marker -->\n<!-- runner-numbers {} -->",
        f"<!-- marker -->\n<!-- runner-numbers {'{' * 100_000} -->",
    ],
)
def test_anything_else_has_no_numbers(body: str) -> None:
    """A line in another place, of another version, or with what are no counts, says nothing."""
    assert read_numbers(body) is None
