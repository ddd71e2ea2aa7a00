"""What makes reading YAML quick changes nothing of what is read or left behind."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.source.diagnostic import ProblemError
from runner.source.yaml import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = Path("campaign.yaml")


@pytest.fixture(params=[True, False], ids=["on", "off"])
def is_enabled(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Set the collector to one state, and put it back."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


@pytest.mark.parametrize("text", ["a: 1\n", "a: [1\n", "a: \x07\n", "a: !!int 1\n"])
def test_the_collector_is_left_as_it_was(text: str, is_enabled: bool) -> None:  # noqa: FBT001  a fixture
    """Whether a text is read or refused, the collector runs afterwards only if it ran before."""
    try:
        read_yaml(text, FILE)
    except ProblemError:
        assert text != "a: 1\n"
    assert gc.isenabled() == is_enabled


def test_a_tag_on_a_known_key_is_refused() -> None:
    """A key that stood before without a tag is still refused with one."""
    with pytest.raises(ProblemError, match=r"^the tag !!str is not allowed$"):
        read_yaml("- {a: 1}\n- {!!str a: 1}\n", FILE)


def test_every_repeated_key_is_told_from_its_own_first() -> None:
    """Looking up one first does not hide the keys that come after it."""
    problems = read_yaml("x: 0\na: 1\na: 2\nb: 3\nb: 4\nx: 5\n", FILE).problems
    assert [(found.line, found.message) for found in problems] == [
        (3, "the key `a` stands twice; first in line 2"),
        (5, "the key `b` stands twice; first in line 4"),
        (6, "the key `x` stands twice; first in line 1"),
    ]


def test_what_is_left_out_lends_its_places_to_nobody() -> None:
    """A mapping that takes the memory of one that was left out, as its key stood twice, has its own places."""
    text = "a: 0\na: {p: 1, q: 2, q: 3}\nc: 0\nb: {r: 1, s: 2, q: 3}\n"
    document = read_yaml(text, FILE)
    assert [document.position(["b", key])[1:] for key in ("r", "s", "q")] == [(4, 8), (4, 14), (4, 20)]
