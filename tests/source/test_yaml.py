"""YAML as data with places, held against PyYAML's own loader where both mean the same."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from runner.source.diagnostic import ProblemError
from runner.source.yaml import YamlDocument, read_yaml

FILE = Path("campaign.yaml")

# What YAML lets stand in a document, and no surrogate halves.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cn"], exclude_characters="\ufeff"), max_size=30
)
WORDS = st.sampled_from(
    ["yes", "No", "on", "null", "~", "012", "1.50", "1e3", "+1415", "a: b", "- a", "#", ""]
)
INTEGERS = st.integers(-(10**17), 10**17)
# Exponents are text here and numbers there.
DECIMALS = st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: "e" not in repr(number))
SCALARS = st.one_of(st.none(), st.booleans(), INTEGERS, DECIMALS, TEXTS, WORDS)
VALUES = st.recursive(
    SCALARS,
    lambda values: st.lists(values, max_size=4) | st.dictionaries(TEXTS | WORDS, values, max_size=4),
    max_leaves=12,
)
STYLES = st.fixed_dictionaries(
    {
        "default_flow_style": st.sampled_from([True, False, None]),
        "default_style": st.sampled_from([None, '"', "'", "|", ">"]),
        "allow_unicode": st.booleans(),
        "width": st.sampled_from([20, 80, 1000]),
        "indent": st.sampled_from([2, 4]),
    }
)


class PlainDumper(yaml.SafeDumper):
    """Writes equal values out each time, without aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  PyYAML's signature
        """Return that no value is written as an alias."""
        return True


def code_of(text: str) -> str:
    with pytest.raises(ProblemError) as caught:
        read_yaml(text, FILE)
    return caught.value.diagnostics[0].code


def compose_keys(value: Any) -> Any:
    """Return a value whose mappings' keys are composed (NFC), and whose texts are byte for byte the same."""
    if isinstance(value, dict):
        composed = {unicodedata.normalize("NFC", key): compose_keys(one) for key, one in value.items()}
        assume(len(composed) == len(value))
        return composed
    return [compose_keys(one) for one in value] if isinstance(value, list) else value


@given(VALUES, STYLES)
def test_reads_what_pyyaml_reads(value: Any, style: dict[str, Any]) -> None:
    """A dumped document reads as PyYAML's safe loader reads it, types included; keys are composed."""
    if style["default_style"] is not None:
        value = {
            "texts": [text for text in (value if isinstance(value, list) else [value]) if text == str(text)]
        }
    text = yaml.dump(value, Dumper=PlainDumper, **style)
    theirs = compose_keys(yaml.load(text, Loader=yaml.CSafeLoader))
    ours = read_yaml(text, FILE)
    assert ours.problems == []
    assert repr(ours.data) == repr(theirs)


def require_places(document: YamlDocument, container: Any) -> int:
    """Hold the place of every entry against the text, and return their number."""
    count = 0
    entries = container.items() if isinstance(container, dict) else enumerate(container)
    for key, value in entries:
        place = document.place(container, key)
        assert place is not None
        rest = document.lines[place.line][place.column :]
        key_rest = unicodedata.normalize("NFC", document.lines[place.key_line][place.key_column :])
        if isinstance(container, dict):
            assert key_rest[:1] in {'"', "'", "?"} or key_rest.startswith(str(key).split(" ")[0])
        else:
            assert (place.key_line, place.key_column) == (place.line, place.column)
        if isinstance(value, (dict, list)):
            assert place.style == ""
            assert rest[:1] in {"{", "["} or is_first_entry(rest, value)
            count += require_places(document, value)
        elif place.style:
            assert rest.startswith(place.style)
        else:
            assert rest.startswith(write_plain(value).split(" ")[0])
        count += 1
    return count


def write_plain(value: str | float | None) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_first_entry(rest: str, value: Any) -> bool:
    if isinstance(value, list):
        return rest.startswith("-")
    key_rest = unicodedata.normalize("NFC", rest)
    return rest[:1] in {'"', "'", "?"} or key_rest.startswith(next(iter(value)).split(" ")[0])


@pytest.mark.slow
@given(st.dictionaries(TEXTS, VALUES, max_size=5), STYLES)
def test_places_point_at_the_values(value: Any, style: dict[str, Any]) -> None:
    """At the place of every key and value the text of that key or value begins."""
    style["default_style"] = None
    document = read_yaml(yaml.dump(value, Dumper=PlainDumper, **style), FILE)
    require_places(document, document.data)


PLAIN_SCALARS_MEAN_WHAT_A_READER_SEES: list[tuple[str, Any]] = [
    ("yes", "yes"),
    ("No", "No"),
    ("on", "on"),
    ("y", "y"),
    ("012", "012"),
    ("0o14", "0o14"),
    ("0x1F", "0x1F"),
    ("1.50", "1.50"),
    ("1_000", "1_000"),
    ("1e3", "1e3"),
    (".5", ".5"),
    ("-0", "-0"),
    ("+14155550101", "+14155550101"),
    ("1234567890123456789", "1234567890123456789"),
    ("2026-12-01", "2026-12-01"),
    ("2026-12-01T09:00", "2026-12-01T09:00"),
    ("12:30:45", "12:30:45"),
    (".inf", ".inf"),
    ("=", "="),
    ("<<", "<<"),
    ('"1"', "1"),
    ("'true'", "true"),
    ("1", 1),
    ("-7", -7),
    ("0", 0),
    ("1.5", 1.5),
    ("0.0", 0.0),
    ("true", True),
    ("False", False),
    ("null", None),
    ("~", None),
    ("", None),
]


def test_plain_scalars_mean_what_a_reader_sees() -> None:
    """Only what reads back as the same characters is a number; habits of YAML 1.1 don't apply."""
    for written, meant in PLAIN_SCALARS_MEAN_WHAT_A_READER_SEES:
        found = read_yaml(f"value: {written}\n", FILE).data["value"]
        assert (found, type(found)) == (meant, type(meant))


def nest(levels: int, width: int) -> str:
    lines = ["a0: &a0 [" + ", ".join("x" * width) + "]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "bomb",
    [
        nest(9, 10),
        nest(40, 2),
        nest(4, 100),
        "a: &a [x, x]\nb: [" + "*a, " * 5_000 + "*a]\n",
        "a: &a {b: &b {c: &c [1, 2, 3, 4, 5, 6, 7, 8, 9]}}\nd: [" + "*a, " * 1_000 + "*c]\n",
    ],
    ids=["billion laughs", "doubling", "wide", "long", "mappings"],
)
def test_alias_bombs_end_quickly(bomb: str) -> None:
    """Aliases that would repeat many values are refused before anyone walks through them."""
    assert code_of(bomb) == "yaml-alias-bomb"


def test_an_alias_within_its_own_value_is_refused() -> None:
    """A value cannot hold itself."""
    assert code_of("a: &a [*a]\n") == "yaml-alias"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("- ", ""), ('["[", ', "]")])
@pytest.mark.parametrize(("depth", "is_refused"), [(64, False), (65, True), (1_500, True), (5_000, True)])
def test_depth_is_bounded(depth: int, is_refused: bool, opening: str, closing: str) -> None:  # noqa: FBT001  a table's column
    """Sixty-four levels are read, one more is refused, and thousands don't exhaust the stack or the parser."""
    text = opening * depth + "a" + closing * depth
    if is_refused:
        assert code_of(text) in ("yaml-depth", "yaml-syntax")  # libyaml has a limit of its own
    else:
        assert read_yaml(text, FILE).data is not None


FRAGMENTS = st.sampled_from(
    [
        *"[]{},:?-#&*!|>'\"%@`\t\n \r",
        "a",
        "a: ",
        "\n  ",
        "- ",
        "&a ",
        "*a",
        "!!int ",
        "---\n",
        "...\n",
        "<<: ",
        "|2\n",
        "\ufeff",
        "\x85",
    ]
)


@settings(max_examples=300)
@given(st.lists(FRAGMENTS, max_size=25).map("".join))
def test_any_text_is_data_or_a_problem_with_a_place(text: str) -> None:
    """Whatever the text is, it is read, or refused at a line and column with a message."""
    try:
        document = read_yaml(text, FILE)
    except ProblemError as error:
        found = [*error.diagnostics]
    else:
        found = document.problems
    for diagnostic in found:
        assert diagnostic.line >= 1
        assert diagnostic.column >= 1
        assert diagnostic.message
        assert diagnostic.code.startswith("yaml-")


def test_locating_what_is_missing_gives_the_nearest_ancestor() -> None:
    """The place of an entry that doesn't exist is the place of what should have held it."""
    document = read_yaml("a:\n  b: 1\n", FILE)
    assert document.position(["a", "c"])[1:] == (2, 3)
    assert document.position(["a", "b"], at_key=True)[1:] == (2, 3)
    assert document.position(["a", "b"])[1:] == (2, 6)
    assert document.position(["x"])[1:] == (1, 1)
    assert document.position([])[1:] == (1, 1)


_GENERAL = "check the indentation and the blank behind each `key:`, and put text in quotes, or below a `|`"
_WITHIN = "a `{0}` within the text ends it: write {1}, or the whole text in {2} quotes{2[0]}"


SYNTAX_FAULTS_SAY_WHAT_TO_DO: list[tuple[str, tuple[int, int], str | None]] = [
    (
        "a: [1, 2\nb: 3\n",
        (2, 2),
        "close the `[`, put `,` between its entries, and text with `[` or ` #` in quotes",
    ),
    (
        "a: {x: 1\nb: 3\n",
        (2, 2),
        "close the `{`, put `,` between its entries, and text with `{` or ` #` in quotes",
    ),
    ('a: "x" y\n', (1, 8), _WITHIN.format('"', '`\\"` there', "'single")),
    ("a: 'it's'\n", (1, 8), _WITHIN.format("'", "it twice", '"double')),
    ('a: "say "hi" now"\n', (1, 10), _WITHIN.format('"', '`\\"` there', "'single")),
    ("a: > b\n", (1, 4), "put it in quotes"),
    ("a: - b\n", (1, 4), _GENERAL),
    ("a:b\nc: d\n", (2, 2), _GENERAL),
    ("a: @home\n", (1, 4), "put it in quotes"),
    ('a: "\\d"\n', (1, 5), "write a backslash twice, or the text in 'single quotes'"),
    ("a: b\n  c: d\n", (2, 4), _GENERAL),
    ("a: *\n", (1, 4), "put it in quotes"),
    ("a b\nc: d\n", (1, 1), "write `a:`, or indent what goes on with a text"),
    ("a:\n  - b c\n    d: e\n", (2, 5), "write `b:`, or indent what goes on with a text"),
]


def test_syntax_faults_say_what_to_do() -> None:
    """What is not YAML is pointed at where a person made the mistake, with what mends it."""
    for text, place, hint in SYNTAX_FAULTS_SAY_WHAT_TO_DO:
        with pytest.raises(ProblemError) as caught:
            read_yaml(text, FILE)
        found = caught.value.diagnostics[0]
        assert (found.line, found.column) == place
        assert found.hint == hint
