"""Why texts cannot be rendered: the same words for everyone, and nothing of anyone in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.campaign.model import TemplateText
from runner.ledger.model import RecordedDeliveries
from runner.plan.model import PlanOptions
from runner.plan.planner import Planner
from runner.source.diagnostic import Position, Problems
from runner.text.template import MissingVariablesError, TemplateProblemError, TextCompiler, describe_failure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ {'pro': 1}[name] }}", f"'dict object' has no attribute {VALUE}"),
        ("{{ {'pro': 1}[phone] }}", f"'dict object' has no attribute {VALUE}"),
        ("{{ [1][phone] }}", f"'list object' has no attribute {VALUE}"),
        ("{{ [1][seats | int] }}", f"list object has no element {VALUE}"),
        ("{{ [1][-(seats | int)] }}", f"list object has no element {VALUE}"),
        ("{{ [1] | map(phone) | list }}", f"no filter named {VALUE}"),
        ("{{ [1] | select(name) | list }}", f"no test named {VALUE}"),
        ("{{ [name, name] | sum(attribute=phone) }}", f"'str object' has no attribute {VALUE}"),
        ("{{ [1] | map(**{name: 1, 'attribute': 'a'}) | join }}", f"unexpected keyword argument {VALUE}"),
        ("{{ name | default(**{phone: 1}) }}", f"do_default() got an unexpected keyword argument {VALUE}"),
        ("{{ name | truncate(-(seats | int)) }}", f"expected length >= 3, got {VALUE}"),
        ("{{ name | format(1) ~ ('%' ~ name) | format(1) }}", "not all arguments converted during string formatting"),
        ("{{ ('%' ~ name[0]) | format(1) ~ ('%' ~ 'y') | format(1) }}", "a value is none that this can be done with"),
        ("{{ name + 1 }}", 'can only concatenate str (not "int") to str'),
        ("{{ name - phone }}", "unsupported operand type(s) for -: 'str' and 'str'"),
        ("{{ 1 < name }}", "`name` is compared with a number, and its text is none here"),
        ("{{ 1 / (name | length - name | length) }}", "division by zero"),
        ("{{ '%d' | format(name) }}", "%d format: a real number is required, not str"),
        ("{{ 1 | round(name) }}", "'<' not supported between instances of 'str' and 'int'"),
        ("{{ [name][0]() }}", "'str' object is not callable"),
        ("{{ -name }}", "bad operand type for unary -: 'str'"),
        ("{{ name | join(1, 2, 3) }}", "join_values() takes from 1 to 2 positional arguments but 4 were given"),
        ("{{ name.split('') }}", "empty separator"),
        ("{{ range(1, 9, name | length - name | length) | list }}", "range() arg 3 must not be zero"),
        ("{{ name | replace(1, 2) }}", "must be str, not int"),
        ("{{ (name ~ phone) * 3000 }}", "a value grows beyond 10,000 characters"),
        ("{{ name % 1 }}", "text % values is not available: write `text | format(values)`"),
        # What stands in the text itself is said.
        ("{{ name.nosuch }}", "'str object' has no attribute 'nosuch'"),
        ("{{ {'a': name}['b'] }}", "'dict object' has no attribute 'b'"),
        ("{{ [name][5] }}", "list object has no element 5"),
        ("{{ [name][-5] }}", "list object has no element -5"),
        ("{{ [name] | map(attribute='a.b') | list }}", "'str object' has no attribute 'a'"),
        ("{{ [name] | map('up') | list }}", "no filter named 'up'"),
        ("{{ [name] | map(attribute='a', wrong=1) | join }}", "unexpected keyword argument 'wrong'"),
        ("{{ name | truncate(2) }}", "expected length >= 3, got 2"),
        ("{{ name | dictsort }}", "'str' object has no attribute 'items'"),
        ("{{ name.format }}", "access to attribute 'format' of 'str' object is unsafe"),
    ],
)  # fmt: skip
def test_quotes_only_what_the_text_itself_says(tmp_path: Path, source: str, words: str) -> None:
    """A fault is told with what stands in the text; where a recipient's value would stand, words do."""
    assert explain(tmp_path, source) == words


def test_an_included_file_is_part_of_the_text(tmp_path: Path) -> None:
    """What stands in an included file is said, too."""
    (tmp_path / "footer.j2").write_text("{{ name.nosuch }}", encoding="utf-8")
    assert explain(tmp_path, "{% include 'footer.j2' %}") == "'str object' has no attribute 'nosuch'"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError(PHONE), "something is looked up that is not there"),
        (ValueError(f"could not convert string to float: '{PHONE}'"), "a value is none that this can be done with"),
        (AttributeError(PHONE), "a filter is given what it is not for"),
    ],
)  # fmt: skip
def test_unknown_sentences_are_not_passed_on(error: Exception, words: str) -> None:
    """What a library may say in its next version is told by its type."""
    assert describe_failure(error, frozenset()) == words


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
    assert only.message == f"this text cannot be rendered: 'dict object' has no attribute {VALUE}"
    assert only.hint == "first for the recipient in line 2 of people.csv"
