"""Why texts cannot be rendered: the same words for everyone, and nothing of anyone in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from runner.campaign.message_model import TemplateText
from runner.ledger.model import RecordedDeliveries
from runner.plan.model import PlanOptions
from runner.plan.plan_context import PlanContext
from runner.plan.planner import Planner
from runner.source.diagnostic import Position, ProblemError, Problems
from runner.text.template import MissingVariablesError, TextCompiler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from runner.campaign.model import Campaign

PHONE, NAME = "+14155550101", "Ada 'Secret\" O\nBrien"


def explain(folder: Path, source: str) -> str | None:
    """Return why a text cannot be rendered for one recipient; None if it can."""
    text = TemplateText(source, Position(folder / "campaign.yaml", 3, 5), 3, 5, is_block=False)
    try:
        TextCompiler(folder).compile(text).render({"name": NAME, "phone": PHONE, "seats": "77031"})
    except ProblemError as error:
        (diagnostic,) = error.diagnostics
        return diagnostic.message.removeprefix("this text cannot be rendered: ")
    except MissingVariablesError:
        pass
    return None


QUOTES_ONLY_WHAT_THE_TEXT_ITSELF_SAYS: list[tuple[str, str]] = [
        ("{{ {'pro': 1}[name] }}", "a mapping has no such entry"),
        ("{{ {'pro': 1}[phone] }}", "a mapping has no such entry"),
        ("{{ [1][phone] }}", "a list has no such entry"),
        ("{{ [1][seats | int] }}", "a list has no such entry"),
        ("{{ [1][-(seats | int)] }}", "a list has no such entry"),
        ("{{ name | default(**{phone: 1}) }}", "`default` cannot be used on a text with these arguments"),
        ("{{ name | truncate(-(seats | int)) }}", "`truncate` cannot be used on a text with these arguments"),
        ("{{ name | format(1) ~ ('%' ~ name) | format(1) }}", "`format` cannot be used on a text with these arguments"),
        ("{{ ('%' ~ name[0]) | format(1) ~ ('%' ~ 'y') | format(1) }}", "`format` cannot be used on a text with these arguments"),
        ("{{ name + 1 }}", "`+` cannot be used between a text and a number: `… | int` reads a text as a number"),
        ("{{ name - phone }}", "`-` cannot be used between a text and a text: `… | int` reads a text as a number"),
        ("{{ 1 < name }}", "`name` is compared with a number, and its text is none here"),
        ("{{ 1 / (name | length - name | length) }}", "division by zero"),
        ("{{ '%d' | format(name) }}", "`format` cannot be used on a text with these arguments"),
        ("{{ 1 | round(name) }}", "`round` cannot be used on a number with these arguments"),
        ("{{ [name][0]() }}", "a text cannot be called"),
        ("{{ -name }}", "`-` cannot stand before a text"),
        ("{{ name | join(1, 2, 3) }}", "`join` cannot be used on a text with these arguments"),
        ("{{ name.split('') }}", "`split()` cannot be called like this"),
        ("{{ name | replace(1, 2) }}", "`replace` cannot be used on a text with these arguments"),
        ("{{ name * 3 }}", "`*` cannot be used between a text and a number: `… | int` reads a text as a number"),
        ("{{ name % 1 }}", "`%` cannot be used between a text and a number: `… | int` reads a text as a number"),
        # What stands in the text itself is said.
        ("{{ name.nosuch }}", "a text has no such method"),
        ("{{ {'a': name}['b'] }}", "a mapping has no such entry"),
        ("{{ [name][5] }}", "a list has no such entry"),
        ("{{ [name][-5] }}", "a list has no such entry"),
        ("{{ name | truncate(2) }}", "`truncate` cannot be used on a text with these arguments"),
        ("{{ name.format }}", "a text has no such method"),
    ]  # fmt: skip


def test_quotes_only_what_the_text_itself_says(tmp_path: Path) -> None:
    """A fault is told with what stands in the text; where a recipient's value would stand, words do."""
    for source, words in QUOTES_ONLY_WHAT_THE_TEXT_ITSELF_SAYS:
        assert explain(tmp_path, source) == words


def test_an_included_file_is_part_of_the_text(tmp_path: Path) -> None:
    """What stands in an included file is said, too."""
    (tmp_path / "footer.j2").write_text("{{ name.nosuch }}", encoding="utf-8")
    assert explain(tmp_path, "{% include 'footer.j2' %}") == "a text has no such method"


LOOKUPS = ("{}[{}]", "{} | join({})", "{} in {}", "{} ~ {}")
CALLS = ("{} | truncate({})", "{} | format({})", "{} | int(base={})", "{} | default(**{{{}: 1}})", "{} < {}")
VALUES = ("name", "phone", "[name]", "[1]", "{'a': phone}", "seats | int", "-(seats | int)", "'a'", "'%d'")


@given(
    st.sampled_from((*LOOKUPS, *CALLS)),
    st.sampled_from((*LOOKUPS, *CALLS)),
    *[st.sampled_from(VALUES)] * 3,
)
def test_no_failure_says_anything_of_the_recipient(
    tmp_path_factory: pytest.TempPathFactory, outer: str, inner: str, first: str, second: str, third: str
) -> None:
    """However a text goes wrong with the values, they are not in the reason."""
    source = "{{ " + outer.format(f"({inner.format(first, second)})", third) + " }}"
    words = explain(tmp_path_factory.getbasetemp(), source) or ""
    assert not [secret for secret in ("Ada", "Secret", "Brien", "5550101", "77031") if secret in words]


def test_the_same_fault_is_said_once(tmp_path: Path, campaign: Callable[[str], Campaign]) -> None:
    """A text that fails for every recipient is one error, with the first one's line."""
    rows = "".join(f"+1415555{number:04},Person {number}\n" for number in range(100, 900))
    (tmp_path / "people.csv").write_text(f"phone,name\n{rows}", encoding="utf-8")
    loaded = campaign(
        "version: 1\nrecipients:\n  - csv: people.csv\n"
        "messages:\n  - id: ask\n    text: \"Hi {{ {'pro': 1}[name] }}\"\n"
    )
    problems = Problems()
    assert (
        Planner(loaded, "", RecordedDeliveries({}, {}), None, PlanOptions(), PlanContext()).make_plan(
            problems
        )
        is None
    )
    (only,) = problems
    assert problems.error_count == 1
    assert (only.line, only.column) == (6, 11)
    assert only.message == "this text cannot be rendered: a mapping has no such entry"
    assert only.hint == "first for the recipient in line 2 of people.csv"


def test_jinja_is_quoted(tmp_path: Path) -> None:
    """What only Jinja2 knows is told as its words."""
    words = explain(tmp_path, "{{ a 'b' }}") or ""
    assert words.startswith("this template is wrong: Jinja2 says “")
    assert words.endswith("”")
