"""Why texts cannot be rendered: the same words for everyone, and nothing of anyone in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from runner.campaign.model import TemplateText
from runner.ledger.model import RecordedDeliveries
from runner.plan.model import PlanOptions
from runner.plan.planner import Planner
from runner.source.diagnostic import Position, Problems
from runner.text.template import MissingVariablesError, TemplateProblemError, TextCompiler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from runner.campaign.model import Campaign

PHONE, NAME = "+14155550101", "Ada 'Secret\" O\nBrien"
VALUE = "‹a recipient's value›"


def explain(folder: Path, source: str) -> str | None:
    """Return why a text cannot be rendered for one recipient; None if it can."""
    text = TemplateText(source, Position(folder / "campaign.yaml", 3, 5), 3, 5, is_block=False)
    try:
        TextCompiler(folder).compile(text).render({"name": NAME, "phone": PHONE, "seats": "77031"})
    except TemplateProblemError as error:
        (diagnostic,) = error.diagnostics
        return diagnostic.message.removeprefix("this text cannot be rendered: ")
    except MissingVariablesError:
        pass
    return None


QUOTES_ONLY_WHAT_THE_TEXT_ITSELF_SAYS: list[tuple[str, str]] = [
        ("{{ {'pro': 1}[name] }}", f"a mapping has no entry {VALUE}"),
        ("{{ {'pro': 1}[phone] }}", f"a mapping has no entry {VALUE}"),
        ("{{ [1][phone] }}", f"a list has no entry {VALUE}"),
        ("{{ [1][seats | int] }}", f"a list has no entry {VALUE}"),
        ("{{ [1][-(seats | int)] }}", f"a list has no entry {VALUE}"),
        ("{{ [1] | map(phone) | list }}", "`map` cannot be used on this list"),
        ("{{ [1] | select(name) | list }}", "`select` cannot be used on this list"),
        ("{{ [name, name] | sum(attribute=phone) }}", f"a text has no method {VALUE}"),
        ("{{ [1] | map(**{name: 1, 'attribute': 'a'}) | join }}", "`map` cannot be used on this list"),
        ("{{ name | default(**{phone: 1}) }}", "`default` cannot be used on a text with these arguments"),
        ("{{ name | truncate(-(seats | int)) }}", "`truncate` cannot be used on a text with these arguments"),
        ("{{ name | format(1) ~ ('%' ~ name) | format(1) }}", "`format` cannot be used on a text with these arguments"),
        ("{{ ('%' ~ name[0]) | format(1) ~ ('%' ~ 'y') | format(1) }}", "`format` cannot be used on a text with these arguments"),
        ("{{ name + 1 }}", "`+` cannot be used between a text and a number"),
        ("{{ name - phone }}", "`-` cannot be used between a text and a text"),
        ("{{ 1 < name }}", "`name` is compared with a number, and its text is none here"),
        ("{{ 1 / (name | length - name | length) }}", "division by zero"),
        ("{{ '%d' | format(name) }}", "`format` cannot be used on a text with these arguments"),
        ("{{ 1 | round(name) }}", "`round` cannot be used on a number with these arguments"),
        ("{{ [name][0]() }}", "a text cannot be called"),
        ("{{ -name }}", "`-` cannot stand before a text"),
        ("{{ name | join(1, 2, 3) }}", "`join` cannot be used on a text with these arguments"),
        ("{{ name.split('') }}", "`split()` cannot be called like this"),
        ("{{ range(1, 9, name | length - name | length) | list }}", "`range()` cannot be called like this"),
        ("{{ name | replace(1, 2) }}", "`replace` cannot be used on a text with these arguments"),
        ("{{ (name ~ phone) * 3000 }}", "a value grows beyond 10,000 characters"),
        ("{{ name % 1 }}", "text % values is not available: write `text | format(values)`"),
        # What stands in the text itself is said.
        ("{{ name.nosuch }}", "a text has no method 'nosuch'"),
        ("{{ {'a': name}['b'] }}", "a mapping has no entry 'b'"),
        ("{{ [name][5] }}", "a list has no entry 5"),
        ("{{ [name][-5] }}", "a list has no entry -5"),
        ("{{ [name] | map(attribute='a.b') | list }}", "a text has no method 'a'"),
        ("{{ [name] | map('up') | list }}", "this template is wrong: no filter named 'up'"),
        ("{{ [name] | map(attribute='a', wrong=1) | join }}", "`map` cannot be used on this list"),
        ("{{ name | truncate(2) }}", "`truncate` cannot be used on a text with these arguments"),
        ("{{ name | dictsort }}", "`dictsort` cannot be used on a text"),
        ("{{ name.format }}", "a text has no method 'format'"),
    ]  # fmt: skip


def test_quotes_only_what_the_text_itself_says(tmp_path: Path) -> None:
    """A fault is told with what stands in the text; where a recipient's value would stand, words do."""
    for source, words in QUOTES_ONLY_WHAT_THE_TEXT_ITSELF_SAYS:
        assert explain(tmp_path, source) == words


def test_an_included_file_is_part_of_the_text(tmp_path: Path) -> None:
    """What stands in an included file is said, too."""
    (tmp_path / "footer.j2").write_text("{{ name.nosuch }}", encoding="utf-8")
    assert explain(tmp_path, "{% include 'footer.j2' %}") == "a text has no method 'nosuch'"


LOOKUPS = ("{}[{}]", "{} | map({}) | list", "{} | select({}) | list", "{} | sort(attribute={})", "{} ~ {}")
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
    assert Planner(loaded, "", RecordedDeliveries({}, {}), None, PlanOptions()).make_plan(problems) is None
    (only,) = problems
    assert problems.error_count == 1
    assert (only.line, only.column) == (6, 11)
    assert only.message == f"this text cannot be rendered: a mapping has no entry {VALUE}"
    assert only.hint == "first for the recipient in line 2 of people.csv"


SYNTAX_IS_EXPLAINED_WITHOUT_JINJA: list[tuple[str, str]] = [
        ("{# hm", "`{#` is never closed"),
        ("{{ {{ name }} }}", "`{{` is never closed"),
        ("{{ name | default('}}') }} {{", "`{{` is never closed"),
        ("{% for a in name %}{% if a %}x{% endfor %}", "`{% if %}` is never closed"),
        ("{% set x %}a", "`{% set %}` is never closed"),
        ("{% else %}", "this `{% else %}` belongs to no `{% if %}`"),
        ("{% endif %}", "this `{% endif %}` ends no `{% if %}`"),
        ("{% iff name %}x{% endif %}", "{% iff %} is not available in campaign texts: did you mean `if`?"),
        ("{% for x in 5 %}{% endfor %}", "{% for %} goes through a list, not a number"),
        ("{% set x = 1 %}{% raw %}{% if %}{% endraw %}{{ {'a': '{{'} }} {% endfor %}", "this `{% endfor %}` ends no `{% for %}`"),
    ]  # fmt: skip


def test_syntax_is_explained_without_jinja(tmp_path: Path) -> None:
    """What is not closed, or not there, is found in the source, whatever Jinja2 says of it."""
    for source, words in SYNTAX_IS_EXPLAINED_WITHOUT_JINJA:
        assert (explain(tmp_path, source) or "").removeprefix("this template is wrong: ") == words


def test_jinja_is_quoted_for_the_rest(tmp_path: Path) -> None:
    """What only Jinja2 knows is told as its words."""
    words = explain(tmp_path, "{{ a 'b' }}") or ""
    assert words.startswith("this template is wrong: Jinja2 says “")
    assert words.endswith("”")
