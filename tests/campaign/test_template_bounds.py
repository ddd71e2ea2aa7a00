"""Campaign texts that would take long, or much memory: each ends with the error that says so, at its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.source.diagnostic import ProblemError
from runner.text.template import TextCompiler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.campaign.message_model import TemplateText

STEPS = "this text cannot be rendered: the text takes more than 10,000 steps"
GROWS = "this text cannot be rendered: a value grows beyond 10,000 characters"
LARGE = "this text cannot be rendered: a number of more than 19 digits is not available in campaign texts"
LONG = "{% set a = range(2000) | join('x') %}"
PRIME = 2**61 - 1
"""Its multiples all have the same hash."""


def fail(folder: Path, text: TemplateText) -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        TextCompiler(folder).compile(text).render({"name": "Ada"})
    return caught.value


def looped(body: str, before: str = "") -> str:
    return f"{before}{{% for i in range(4000) %}}{body}{{% endfor %}}"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (looped("{% set x = range(9000) | first %}"), STEPS),
        (looped("{% set x = 'a' is in(range(9000)) %}"), STEPS),
        (looped("{% if a + 'x' == a %}{% endif %}" * 100, LONG), STEPS),
        (looped("{% set b = a.split() %}" * 100, LONG), STEPS),
        (looped("{% set x = {" + ", ".join(f"{n}: 1" for n in range(999)) + "} %}"), STEPS),
        (looped("{% set x = {" + ", ".join(f"{n * PRIME}: 1" for n in range(999)) + "} %}"), LARGE),
        (LONG + "{% set b %}{{ a }}{{ a }}{% endset %}", GROWS),
        (LONG + "{% filter trim %}" + looped("{{ a }}") + "{% endfilter %}", STEPS),
        (LONG + "{% set b = {'a': a, 'b': a} %}{{ name }}", GROWS),
    ],
)  # fmt: skip
def test_work_ends_at_the_budget(
    tmp_path: Path, text: Callable[[str], TemplateText], source: str, message: str
) -> None:
    """Filters, tests, methods, comparisons, literals and blocks cost steps by the length of what they work on."""
    (found,) = fail(tmp_path, text(source)).diagnostics
    assert (found.code, found.line, found.column, found.message) == ("template-failed", 3, 5, message)


def test_an_included_file_costs_steps_by_its_length(
    tmp_path: Path, text: Callable[[str], TemplateText]
) -> None:
    """A long file that a loop includes uses up the steps as the same text in the loop would."""
    (tmp_path / "long.j2").write_text("{% set a = 1 %}" * 1000, encoding="utf-8")
    (found,) = fail(tmp_path, text(looped("{% include 'long.j2' %}"))).diagnostics
    assert (found.line, found.message) == (3, STEPS)


@pytest.mark.parametrize(
    ("files", "source", "name"),
    [
        ({"huge.j2": "{# x #}" * 5_000_000}, "{% include 'huge.j2' %}", "huge.j2"),
        ({"a.j2": "x" * 30_000, "b.j2": "x" * 30_000}, "{% include 'a.j2' %}{% include 'b.j2' %}", "b.j2"),
        ({"a.j2": "x" * 30_000}, "{# " + "x" * 30_000 + "#}{% include 'a.j2' %}", "a.j2"),
    ],
)
def test_included_files_are_capped(
    tmp_path: Path, text: Callable[[str], TemplateText], files: dict[str, str], source: str, name: str
) -> None:
    """A text is no longer than 50,000 characters, with all that it includes."""
    for file, content in files.items():
        (tmp_path / file).write_text(content, encoding="utf-8")
    (found,) = fail(tmp_path, text(source)).diagnostics
    assert (found.code, found.line) == ("template-include", 3)
    assert found.message == f"with {name}, this text is longer than 50,000 characters"


def test_a_text_is_capped(tmp_path: Path, text: Callable[[str], TemplateText]) -> None:
    """A text of more than 50,000 characters is refused before it is compiled."""
    (found,) = fail(tmp_path, text("{# x #}" * 10_000)).diagnostics
    assert (found.code, found.line) == ("template-syntax", 3)
    assert found.message == "this text is longer than 50,000 characters"


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in [1] %}" * 30 + "{% endfor %}" * 30,
        "{{ " + "a + " * 300 + "a }}",
        "{{ a" + " | upper" * 300 + " }}",
    ],
)
def test_an_included_file_that_is_nested_too_deep_is_an_error_at_its_place(
    tmp_path: Path, text: Callable[[str], TemplateText], source: str
) -> None:
    """What Python cannot compile in an included file is found with the text, not with the first recipient."""
    (tmp_path / "deep.j2").write_text(source, encoding="utf-8")
    (found,) = fail(tmp_path, text("{% include 'deep.j2' %}")).diagnostics
    assert (found.file, found.line) == (tmp_path / "deep.j2", 1)
    assert found.message == "this template is nested too deep"


@pytest.mark.slow
def test_long_chains_of_filters_compile(tmp_path: Path, text: Callable[[str], TemplateText]) -> None:
    """The work of compiling grows with a text's length, however its filters are chained."""
    source = ("{{ name" + "|d" * 150 + " }}") * 60
    assert TextCompiler(tmp_path).compile(text(source)).render({"name": "Ada"}) == "Ada" * 60


def test_ordinary_texts_keep_well_below_the_budget(
    tmp_path: Path, text: Callable[[str], TemplateText]
) -> None:
    """A text as long as it may be, out of loops, filters and comparisons, renders."""
    source = (
        "{% for n in range(200) %}{% if n % 2 == 0 and name | upper != 'BO' %}"
        "{{ loop.index }}. {{ name | title | truncate(20) }}, {{ [n, n] | join('-') }}\n{% endif %}{% endfor %}"
    )
    rendered = TextCompiler(tmp_path).compile(text(source)).render({"name": "ada"})
    assert rendered.splitlines()[99] == "199. Ada, 198-198"
