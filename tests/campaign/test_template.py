"""Campaign texts: strict about what is missing, bounded in time and size, shut off from the machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.runtime import LoopContext

from runner.source.diagnostic import ProblemError
from runner.text.cells import NO_WORDS, YES_WORDS
from runner.text.language import MAX_LENGTH, CampaignEnvironment
from runner.text.syntax import SAFE_METHODS
from runner.text.template import MissingVariablesError, TextCompiler, TextRenderer

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.campaign.message_model import TemplateText
    from runner.campaign.model import Variables

    Render = Callable[..., str]


@pytest.fixture
def compiler(tmp_path: Path) -> TextCompiler:
    return TextCompiler(tmp_path)


@pytest.fixture
def render(compiler: TextCompiler, text: Callable[[str], TemplateText]) -> Render:
    """Render a template for one recipient."""

    def render_text(source: str, **variables: object) -> str:
        given_variables: Variables = variables  # type: ignore[assignment]
        return compiler.compile(text(source)).render(given_variables)

    return render_text


RENDERS: list[tuple[str, dict[str, object], str]] = [
    ("Hello {{ name }}!", {"name": "Ada"}, "Hello Ada!"),
    ("  Hello\n\n", {}, "Hello"),
    ("{{ name | default('there') }}", {}, "there"),
    ("{{ name | d('there') | title }}", {"name": "ada"}, "Ada"),
    (
        "https://example.com/?who={{ name | urlencode }}",
        {"name": "Zoë & Bo"},
        "https://example.com/?who=Zo%C3%AB%20%26%20Bo",
    ),
    ("{{ order.count }}, {{ order['zfill'] }}", {"order": {"count": 2, "zfill": "x"}}, "2, x"),
    ("{% if name is defined %}{{ name }}{% else %}you{% endif %}", {}, "you"),
    ("{% for a in items %}{{ loop.index }}{{ a }} {% endfor %}", {"items": ["x", "y"]}, "1x 2y"),
    ("{{ items | join(', ') }}", {"items": ["x", "y"]}, "x, y"),
    ("{{ price | round(2) }} {{ 7 // 2 }} {{ 2 * 10 }}", {"price": 1.239}, "1.24 3 20"),
    ("{{ shop.name }} {{ shop['name'] }}", {"shop": {"name": "Acme"}}, "Acme Acme"),
    ("{% set x = 3 %}{{ x * 2 }}", {}, "6"),
    ("{{ '%s-%02d' | format('a', 7) }}", {}, "a-07"),
    ("{{ name.upper() }} {{ name | length }}", {"name": "Ada"}, "ADA 3"),
    ("{{ '<b>' }} & {{ \"'\" }}", {}, "<b> & '"),
    ("{# a comment #}Hello", {}, "Hello"),
    ("{% for n in range(3) %}{{ n }}{% endfor %}", {}, "012"),
    ("{% include 'gone.j2' ignore missing %}Hello", {}, "Hello"),
]


def test_renders(render: Render) -> None:
    """What the language offers does what Jinja2 says, with outer blanks removed."""
    for source, variables, rendered in RENDERS:
        assert render(source, **variables) == rendered


MISSING_VARIABLES_ARE_NAMED_ALL_AT_ONCE: list[tuple[str, list[str]]] = [
    ("{{ a }}", ["a"]),
    ("{{ b }} {{ a }} {{ b }}", ["b", "a"]),
    ("{% if a %}x{% endif %}{{ b }}", ["a", "b"]),
    ("{{ a | upper }}", ["a"]),
    ("{{ a.name }}", ["a"]),
    ("{{ a | default(b) }}", ["b"]),
    ("{% for x in a %}{{ x }}{% endfor %}{{ b }}", ["a", "b"]),
    ("{{ c }}{{ a + 1 }}{{ d }}", ["c", "a"]),  # an operation on it ends the search
    ("{% if b == 'x' or 'y' in c %}{% endif %}{{ d }}", ["b", "c", "d"]),
    ("{{ c | join }}{{ d | length }}{{ a ~ b }}{{ 'x' if e else 'y' }}", ["c", "d", "a", "b", "e"]),
    ("{% for x in range(a) %}{% endfor %}", ["a"]),
]


def test_missing_variables_are_named_all_at_once(render: Render) -> None:
    """A text that lacks variables names each of them once, in the order in which it asks."""
    for source, missing in MISSING_VARIABLES_ARE_NAMED_ALL_AT_ONCE:
        with pytest.raises(MissingVariablesError) as caught:
            render(source)
        assert [name for name, _ in caught.value.missing] == missing


REACHES_NOTHING_BEYOND_ITS_VARIABLES: list[str] = [
    "{{ ''.__class__ }}",
    "{{ ''['__class__'] }}",
    "{{ '' | attr('__class__') }}",
    "{{ ().__class__.__bases__[0].__subclasses__() }}",
    "{{ '{0.__class__}'.format('') }}",
    "{{ '%(a)s' % {'a': 1} }}",
    "{{ name.__init__.__globals__ }}",
    "{{ range.__self__ }}",
    "{{ self }}",
    "{{ self._TemplateReference__context }}",
    "{{ cycler }}",
    "{{ lipsum() }}",
    "{{ namespace() }}",
    "{{ dict(a=1) }}",
    "{{ name | map(attribute='__class__') | join }}",
    "{{ [name] | random }}",
    "{{ name | pprint }}",
    "{{ name | tojson }}",
    "{{ loop }}",
    "{% set ns = namespace(x=1) %}",
    "{{ name.encode() }}",
    "{{ items.append(1) }}",
    "{{ name.swapcase | default('D') }}",
    "{{ name['swapcase'] | default('D') }}",
    "{{ name.count | default('D') }}",
    "{{ name.__class__ | default('D') }}",
    "{% if false %}{{ name.swapcase }}{% endif %}",
    "{% if false %}{{ name.count('a') }}{% endif %}",
    "{% if false %}{{ name['center'](9) }}{% endif %}",
    "{% if false %}{{ name | nosuch }}{% endif %}",
    "{{ 'x' if name is nosuch else 'y' if false }}",
    "{% if false %}{% set ns = namespace() %}{% endif %}",
    "{% for a in [1] %}{{ loop.cycle('a') }}{{ loop.changed(1) }}{% endfor %}",
]


def test_reaches_nothing_beyond_its_variables(render: Render) -> None:
    """Attributes of Python's objects, the environment and chance are out of a text's reach."""
    for source in REACHES_NOTHING_BEYOND_ITS_VARIABLES:
        with pytest.raises((ProblemError, MissingVariablesError)):
            render(source, name="Ada", items=["x"])


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999999999) %}{% endfor %}",
        "{% for a in range(6000) %}ab{% endfor %}",
        "{{ 'a' * 10 ** 9 }}",
        "{{ [1] * 10 ** 9 }}",
        "{{ 9 ** 99999 }}",
        "{{ 9 ** 9 ** 9 ** 9 ** 9 ** 9 }}",
        "{{ 1.5 ** 99999 }}",
        "{% set b = [1, 2] | join('b' ~ name) %}" + "{% set b = b ~ b %}" * 20,
        "{% set b = 'ab' %}" + "{% set b = b | replace('b', b) %}" * 20,
        "{{ '%99999999d' | format(1) }}",
        "{{ '%*d' | format(99999999, 1) }}",
        "{% set x = 'a' %}" + "{% set x = x + x %}" * 20,
        "{% set x = [name, name] %}" + "{% set x = x + x %}" * 20,
        "{% set x = [[1], [2]] %}",
        "{% for a in range(9000) %}{% include 'partial.j2' %}{% endfor %}",
        "{{ 1" + " * 999999999" * 9 + " }}",
        "{{ " + "(" * 500 + "1" + ")" * 500 + " }}",
        "{% if 1 %}" * 300 + "{% endif %}" * 300,
    ],
)
def test_ends_in_bounded_time_and_size(render: Render, tmp_path: Path, source: str) -> None:
    """What would run or grow beyond the bounds is refused, soon and without the memory it asks for."""
    (tmp_path / "partial.j2").write_text("a{% include 'partial.j2' %}", encoding="utf-8")
    with pytest.raises(ProblemError):
        render(source, name="Ada")


EXPRESSIONS = st.sampled_from(
    [
        *("name", "items", "count", "gone", "shop", "loop", "loop.index", "self", "range(9)", "range(9999)"),
        *(
            "''",
            "'a'",
            "'%s'",
            "'%9999d'",
            "0",
            "-1",
            "1.5",
            "10**9",
            "[]",
            "[1, 2]",
            "{'a': 1}",
            "true",
            "none",
        ),
        *(
            "[items]",
            "{'a': items}",
            "(1,)",
            "''.__class__",
            "name.upper",
            "name.upper()",
            "items[0]",
            "shop.a.b",
        ),
        *("name[0]", "name[::-1]", "shop.items()", "name.split()", "items[9]", "9 % 0", "1 / 0", "'a' % 1"),
    ]
)
OPERATORS = st.sampled_from(
    ["+", "-", "*", "/", "//", "%", "**", "~", "==", "<", "in", "and", "or", "is not", "|"]
)
FILTERS = st.sampled_from(
    [
        *(
            "upper",
            "join",
            "join('')",
            "replace('', name)",
            "replace('a', 'aa')",
            "round(99)",
            "round(-99)",
            "abs",
        ),
        *(
            "format(1)",
            "format(name, items)",
            "string",
            "first",
        ),
        "truncate(3)",
        *(
            "default('x')",
            "d(gone)",
            "length",
            "int",
            "float",
            "trim",
            "title",
            "nothing",
        ),
        *(
            "urlencode",
            "last",
            "count",
            "capitalize",
            "truncate(10**9, leeway=10**9)",
        ),
    ]
)
CHAINS = st.builds(
    lambda left, operator, right, filters: (
        f"({left} {operator} {right}){''.join(f' | {f}' for f in filters)}"
    ),
    EXPRESSIONS,
    OPERATORS,
    EXPRESSIONS,
    st.lists(FILTERS, max_size=4),
)
PIECES = st.one_of(
    CHAINS.map("{{{{ {} }}}}".format),
    CHAINS.map("{{% set name = {} %}}".format),
    CHAINS.map("{{% if {} %}}".format),
    CHAINS.map("{{% for a in {} %}}{{{{ a }}}}".format),
    st.sampled_from(
        [
            *(
                "{% endif %}",
                "{% endfor %}",
                "{% else %}",
                "{% include 'loop.j2' %}",
                "{% include 'ok.j2' %}",
            ),
            *(
                "{{",
                "}}",
                "{%",
                "%}",
                "{#",
                "{% raw %}",
                "{% endraw %}",
                "{% filter upper %}",
                "{% endfilter %}",
            ),
            *(
                "{% set x %}",
                "{% endset %}",
                "{% with a = items %}",
                "{% endwith %}",
                "{% macro m() %}",
                "\n",
                "text ",
            ),
            *(
                "{% for a in items recursive %}",
                "{{ loop(items) }}",
                "{% do 1 %}",
                "{% break %}",
                "\x00",
                "{{ a }}",
            ),
            *(
                "{% autoescape true %}",
                "{% endautoescape %}",
                "{% for a, b in shop.items() %}",
                "{% include items %}",
            ),
        ]
    ),
)
BALANCED = st.tuples(CHAINS, st.lists(PIECES, max_size=3)).map(
    lambda made: f"{{% for a in {made[0]} %}}{''.join(made[1])}{{% endfor %}}"
)


@pytest.mark.slow
@pytest.mark.timeout(400)
@settings(max_examples=600)
@given(source=st.lists(PIECES | BALANCED, max_size=6).map("".join))
def test_hostile_texts_end_with_a_short_text_or_a_reason(
    tmp_path: Path, compiler: TextCompiler, text: Callable[[str], TemplateText], source: str
) -> None:
    """Whatever a text says, it renders to a bounded text, or fails with one of the two documented errors."""
    (tmp_path / "loop.j2").write_text("a{% include 'loop.j2' %}", encoding="utf-8")
    (tmp_path / "ok.j2").write_text("{{ name }}{% for b in items %}{{ b }}{% endfor %}", encoding="utf-8")
    try:
        compiled = compiler.compile(text(source))
    except ProblemError:
        return
    variables: Variables = {
        "name": "Ada",
        "items": ["x", "yz"],
        "count": 7,
        "shop": {"a": {"b": 1}, "c": [1]},
    }
    try:
        rendered = compiled.render(variables)
    except (MissingVariablesError, ProblemError):
        return
    assert len(rendered) <= MAX_LENGTH
    assert compiled.render(variables) == rendered


ENGINE = CampaignEnvironment()
WORDS = st.text(st.sampled_from("x 5%é👍\n\\'}s("), max_size=6)
PLACED = st.sampled_from(
    [
        *("{{ a }}", "{{b}}", "{{ a | default('there') }}", '{{ b|d("") }}', "{# c #}", "{{ a ~ b }}"),
        *("{% raw %}{{ a }}{% endraw %}", "{% set a = 'mine' %}", "{% if a %}{% set b = a %}{% endif %}"),
        *("{% for a in [1, 2] %}{{ a }}{% endfor %}", "{{ c | default('no c') }}", "{% set c = 3 %}"),
    ]
)
VALUES = st.one_of(st.text(st.sampled_from("yž %s{}\n"), max_size=5), st.integers(), st.floats())


@given(
    sources=st.lists(st.lists(WORDS | PLACED, max_size=5).map("".join), max_size=4),
    variables=st.fixed_dictionaries({"a": VALUES, "b": VALUES}),
)
def test_texts_together_read_as_each_alone(
    compiler: TextCompiler,
    text: Callable[[str], TemplateText],
    sources: list[str],
    variables: dict[str, str | float],
) -> None:
    """Texts that are rendered together are what Jinja2 makes of each by itself, whoever was before."""
    compiled = [compiler.compile(text(source)) for source in sources]
    alone = [ENGINE.from_string(source).render(variables).strip() for source in sources]
    renderer = TextRenderer(compiled)
    for before in ({"a": "Ada", "b": "Bo"}, variables):
        renderer.render(before)
        assert renderer.render(variables) == alone


def test_outlines_show_what_is_each_recipients_own(
    compiler: TextCompiler, text: Callable[[str], TemplateText]
) -> None:
    """A text for everyone's eyes holds the names of personal variables in brackets."""
    source = text("Hi {{ first_name }} of {{ company }}")
    assert compiler.outline(source, {"company": "Acme"}) == "Hi [first_name] of Acme"
    assert compiler.outline(text("{{ 1 / 0 }}"), {}) == "{{ 1 / 0 }}"


@given(source=st.text(st.sampled_from(" x%é\r\n\t\u2028\\'}#"), max_size=8))
def test_outlines_of_plain_texts_are_what_is_sent(
    compiler: TextCompiler, text: Callable[[str], TemplateText], source: str
) -> None:
    """A text without tags is outlined without compiling it, and reads as its rendering does."""
    assert compiler.outline(text(source), {}) == compiler.compile(text(source)).render({})
    assert compiler.find_references(text(source)).names == frozenset()


CELLS_COMPARE_AS_WHAT_THEY_SAY: list[tuple[str, dict[str, str], bool]] = [
    ("points > 100", {"points": "1000"}, True),
    ("points > 100", {"points": "99"}, False),
    ("points >= 7.5", {"points": "7,5"}, True),
    ("points == 20", {"points": "20"}, True),
    ("points in [1, 20]", {"points": "20"}, True),
    ("1 < points < 3", {"points": "2"}, True),
    ("points < best", {"points": "99", "best": "100"}, True),
    ("name < 'M'", {"name": "Ada"}, True),
    ("vip | is_yes", {"vip": "Ja"}, True),
    ("vip | is_yes", {"vip": "FALSE"}, False),
    ("vip | is_yes", {}, False),
    ("vip | default('') | is_yes", {}, False),
    ("points | int * 2 == 14", {"points": "7,5"}, True),
    ("points | float == 7.5", {"points": "7,5"}, True),
    ("points | int(3) == 3", {"points": "n/a"}, True),
    ("vip is defined and not vip | is_yes", {"vip": "no"}, True),
    ("nick | default('')", {"nick": "Bo"}, True),
]


def test_cells_compare_as_what_they_say(render: Render) -> None:
    """A text is a number beside numbers, and yes or no by `is_yes`."""
    for condition, cells, is_true in CELLS_COMPARE_AS_WHAT_THEY_SAY:
        assert render(f"{{{{ 'a' if {condition} else 'b' }}}}", **cells) == ("a" if is_true else "b")


def test_the_page_of_texts_lists_all_that_there_is() -> None:
    """`docs/templates.md` names each filter, test, method and function, and nothing else."""
    page = (Path(__file__).parents[2] / "docs" / "templates.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))
    environment = CampaignEnvironment()
    listed = {title: re.findall(r"`(\w+)`", text.partition("Not ")[0]) for title, text in sections.items()}
    for title, known in (("Filters", environment.filters), ("Tests", environment.tests)):
        assert listed[title] == sorted(name for name in known if name.isidentifier()), title
    assert listed["Functions"] == sorted(environment.globals)
    for title, words in (("Yes", YES_WORDS), ("No", NO_WORDS)):
        (shown,) = re.findall(rf"{title}: (.*?)\.(?: No:|\n)", page, re.DOTALL)
        assert set(re.findall(r"`([^`]+)`", shown)) == words
    methods = [re.findall(r"`(\w+)`", line) for line in sections["Methods"].split("\n\n")]
    assert [names for names in methods if names] == [sorted(SAFE_METHODS[kind]) for kind in (str, dict)] + [
        ["loop", *sorted(SAFE_METHODS[LoopContext])]
    ]
