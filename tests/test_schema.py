"""The campaign's schema for editors and readers: explained, with examples, and in step with its page."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import MAXYEAR, UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema_specifications import REGISTRY as REFERENCED
from markdown_it import MarkdownIt

from runner import DOCUMENTATION_URL
from runner.source.json_schema import load_validator, schema_names, schema_text
from runner.source.quantity import parse_duration
from runner.source.yaml import read_yaml
from tests.docs.reference import iterate_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token

REPOSITORY = Path(__file__).parent.parent
SCHEMA: dict[str, Any] = json.loads(schema_text("campaign"))
PAGE = REPOSITORY / "docs" / "reference" / "campaign.md"
EXAMPLES = sorted((REPOSITORY / "campaigns").glob("*.yaml"))
SECTION_TABLE = re.compile(r"^## (.+?)$.*?^\| Key (.+?)\n\n", re.DOTALL | re.MULTILINE)
SECTION_EXAMPLES = re.compile(r"^## (.+?)$(?:(?!^## ).)*?^```yaml\n(.*?)```$", re.DOTALL | re.MULTILINE)
LANGUAGE_SERVER = re.compile(r"# yaml-language-server: \$schema=(\S+)")


def resolve(rules: dict[str, Any]) -> dict[str, Any]:
    """Return rules with their `$ref` resolved; their own words win, as they do in editors."""
    name = rules.get("$ref", "").rpartition("/")[2]
    return {**resolve(SCHEMA["$defs"][name]), **rules} if name else rules


def iterate_mappings() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every mapping of the format by its name: the file, and those of `$defs`."""
    yield "campaign", SCHEMA
    for name, rules in SCHEMA["$defs"].items():
        if "properties" in rules:
            yield name, rules


def iterate_keys() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every key of every mapping, as in `message.id`, with its rules."""
    for name, mapping in iterate_mappings():
        for key, rules in mapping["properties"].items():
            yield f"{name}.{key}", rules


def iterate_rules(rules: Any, place: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all rules that have examples, wherever they stand, with their place."""
    if isinstance(rules, dict):
        if isinstance(rules.get("examples"), list):
            yield place, rules
        for key, inner in rules.items():
            yield from iterate_rules(inner, f"{place}/{key}")


def find_errors(rules: dict[str, Any], value: Any) -> list[str]:
    """Return the errors of a value under some rules of the schema."""
    validator = load_validator("campaign").evolve(schema={**rules, "$defs": SCHEMA["$defs"]})
    return [error.message for error in validator.iter_errors(value)]


def iterate_used(rules: dict[str, Any], value: Any, name: str = "campaign") -> Iterator[str]:
    """Yield the keys that a value uses, named as `iterate_keys` names them."""
    rules, target = resolve(rules), rules.get("$ref", "").rpartition("/")[2]
    name = target or name
    if isinstance(value, list):
        for item in value:
            yield from iterate_used(rules.get("items", {}), item, name)
    elif isinstance(value, dict) and "$ref" in rules.get("else", {}):  # else a text by language
        if value.keys() <= resolve(rules["else"]).get("properties", {}).keys():
            yield from iterate_used(rules["else"], value, name)
    elif isinstance(value, dict) and "properties" in rules:
        branch = rules.get("then" if "csv" in value else "else", {}).get("properties", {})
        for key, item in value.items():
            yield f"{name}.{key}"
            yield from iterate_used(branch.get(key, rules["properties"][key]), item, name)


def test_editors_can_explain_every_key() -> None:
    """Every key has a title, an example, and a description in a sentence, which names all allowed values.

    Plain JSON Schema has no words for a single value. Definitions that keys share are explained, too.
    """
    for key, rules in iterate_keys():
        explained = resolve(rules)
        assert explained["title"], key
        assert explained["description"].endswith("."), key
        assert explained["examples"], key
        allowed = explained.get("enum", explained.get("items", {}).get("enum", []))
        assert [value for value in allowed if f"`{value}`" not in explained["description"]] == [], key
    for name, rules in SCHEMA["$defs"].items():
        assert rules["title"], name
        assert rules["description"].endswith("."), name


def test_examples_and_defaults_are_right() -> None:
    """Each example fits the rules that it stands in, and so does the default."""
    for place, rules in iterate_rules(SCHEMA):
        for example in [*rules["examples"], *([rules["default"]] if "default" in rules else [])]:
            assert find_errors(rules, example) == [], place


KNOWN = {
    keyword
    for part in (
        "core",
        "applicator",
        "unevaluated",
        "validation",
        "meta-data",
        "format-annotation",
        "content",
    )
    for keyword in REFERENCED.contents(f"https://json-schema.org/draft/2020-12/meta/{part}")["properties"]
}
_NAMING = ("properties", "$defs", "patternProperties", "dependentSchemas")
_VALUES = ("examples", "enum", "const", "default", "required", "dependentRequired")


def iterate_schemas(rules: Any, place: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all rules of a schema that are mappings, however deep, with their places."""
    if isinstance(rules, list):
        for index, inner in enumerate(rules):
            yield from iterate_schemas(inner, f"{place}/{index}")
    elif isinstance(rules, dict):
        yield place, rules
        for key, inner in rules.items():
            if key in _NAMING:
                for name, named in inner.items():
                    yield from iterate_schemas(named, f"{place}/{key}/{name}")
            elif key not in _VALUES:
                yield from iterate_schemas(inner, f"{place}/{key}")


@pytest.mark.parametrize("name", schema_names())
def test_any_editor_reads_a_schema(name: str) -> None:
    """It is one of the draft that it names, without keywords of its own, and is called by its place.

    Strict validators refuse keywords that they do not know, as a misspelt one would be. The `$id` is a URL below
    that of the documentation, which the package names, too.
    """
    schema = json.loads(schema_text(name))
    Draft202012Validator.check_schema(schema)
    assert {key for _, rules in iterate_schemas(schema) for key in rules} <= KNOWN
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["urls"]["Documentation"] == DOCUMENTATION_URL
    assert schema["$id"] == f"{DOCUMENTATION_URL}schemas/{name}.schema.json"


@pytest.mark.parametrize("name", schema_names())
def test_every_property_is_described(name: str) -> None:
    """Each key of each schema says what it is, by itself or by what it refers to; so does each definition."""
    schema = json.loads(schema_text(name))
    bare = [
        f"{place}/{key}"
        for place, rules in iterate_schemas(schema)
        for key, inner in rules.get("properties", {}).items()
        if inner and isinstance(inner, dict) and not describe(schema, inner)
    ]
    assert bare == []
    bare = [
        key for key, rules in schema.get("$defs", {}).items() if not {"description", "title"} & rules.keys()
    ]
    assert bare == []


def describe(schema: dict[str, Any], rules: dict[str, Any]) -> str | None:
    """Return the description of a property from its rules."""
    target = schema.get("$defs", {}).get(rules.get("$ref", "").rpartition("/")[2], {})
    said: str | None = rules.get("description") or target.get("description")
    return said


CONTRACT = {
    "validate": "valid error_count warning_count diagnostics[].severity diagnostics[].code diagnostics[].message"
    " diagnostics[].file diagnostics[].line diagnostics[].column diagnostics[].hint",
    "plan": "campaigns[].name campaigns[].file campaigns[].target campaigns[].messages[].id"
    " campaigns[].messages[].tag campaigns[].launches[].payload campaigns[].launches[].phones",
    "apply": "campaigns[].name campaigns[].sent campaigns[].rejected campaigns[].unknown"
    " campaigns[].recipients_sent campaigns[].launches[].key campaigns[].launches[].message"
    " campaigns[].launches[].project_launch_guid campaigns[].launches[].outcome campaigns[].launches[].recipients",
    "status": "campaigns[].messages[].planned campaigns[].messages[].sent campaigns[].messages[].queued"
    " campaigns[].messages[].active campaigns[].messages[].complete campaigns[].messages[].answered"
    " campaigns[].messages[].unresolved",
    "report": "messages[].recipients messages[].sent messages[].sessions.queued messages[].sessions.active"
    " messages[].sessions.complete messages[].participants_answered messages[].response_rate"
    " messages[].completion_rate messages[].renders messages[].questions[].tag messages[].questions[].text"
    " messages[].questions[].asked messages[].questions[].answers"
    " messages[].questions[].distribution[].answer messages[].questions[].distribution[].label"
    " messages[].questions[].distribution[].count messages[].questions[].distribution[].share"
    " messages[].questions[].nps.score messages[].questions[].csat.score messages[].questions[].mean",
}
"""Names in JSON that scripts rely on, by document."""
COUNTED = (
    "rows duplicates recipients excluded opted_out already_sent unresolved deferred to_send launches segments"
)


def test_names_that_scripts_rely_on_stay() -> None:
    """Each document begins with its format's version, and has every name that was promised."""
    counts = (f" campaigns[].messages[].{name}" for name in f"{COUNTED} renders_min renders_max".split())
    for name, promised in {**CONTRACT, "plan": CONTRACT["plan"] + "".join(counts)}.items():
        schema = json.loads(schema_text(name))
        keys = [key for key, _ in iterate_paths(schema, schema, "", ())]
        assert keys[0] == "format_version", name
        assert set(promised.split()) <= set(keys), name


@given(st.lists(st.sampled_from("wdhms"), unique=True, min_size=1), st.data())
def test_a_duration_that_the_schema_allows_is_read(units: list[str], data: st.DataObject) -> None:
    """Durations that fit the schema can be read, and end within the calendar."""
    counts = {unit: data.draw(st.integers(0, 9_999)) for unit in sorted(units, key="wdhms".index)}
    written = "".join(f"{count}{unit}" for unit, count in counts.items())
    assert find_errors(SCHEMA["$defs"]["duration"], written) == []
    assert (datetime(2100, 1, 1, tzinfo=UTC) + parse_duration(written)).year < MAXYEAR


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_editors_find_the_schema_of_an_example(file: Path) -> None:
    """The first line of each example names the schema's file."""
    first_line = file.read_text(encoding="utf-8").partition("\n")[0]
    named = LANGUAGE_SERVER.fullmatch(first_line)
    assert named is not None
    assert (file.parent / named[1]).resolve() == REPOSITORY / "schemas" / "campaign.schema.json"


def test_the_examples_use_every_key() -> None:
    """An example uses every key, save other ways to say when to analyse, and what is expected once."""
    used = {
        key
        for file in EXAMPLES
        for key in iterate_used(SCHEMA, read_yaml(file.read_text(encoding="utf-8"), file).data)
    }
    assert {key for key, _ in iterate_keys()} - used == {
        "consent_columns.column",
        "analysis.per_arm",
        "analysis.sequential",
        "audience_limit.expected",
        *(f"expected_audience.{key}" for key in ("people", "excluded", "opted_out", "filled")),
    }


def test_the_page_names_every_key_in_a_row() -> None:
    """Each mapping has a section with a table, and each key a row of five cells."""
    tables = SECTION_TABLE.findall(PAGE.read_text(encoding="utf-8"))
    rows = {title: [row.split(" | ") for row in table.splitlines()[2:]] for title, table in tables}
    for _, mapping in iterate_mappings():
        section = rows.pop(mapping["title"])
        assert [cells[0] for cells in section] == [f"| `{key}`" for key in mapping["properties"]]
        assert {len(cells) for cells in section} == {5}
    assert rows == {}


def test_links_of_the_page_lead_to_its_headings() -> None:
    """Every link is to a heading, each of which there is once."""
    tokens = MarkdownIt("commonmark").enable("table").parse(PAGE.read_text(encoding="utf-8"))
    headings = [
        after.content.lower().replace(" ", "-")
        for token, after in pairwise(tokens)
        if token.type == "heading_open"
    ]
    children: list[Token] = [child for token in tokens for child in token.children or []]
    links = {str(child.attrs["href"]) for child in children if child.type == "link_open"}
    assert len(headings) == len(set(headings))
    assert links <= {f"#{heading}" for heading in headings}
    assert len(links) > len(list(iterate_mappings()))


def test_the_page_s_examples_are_valid() -> None:
    """A section's YAML examples are mappings that its rules allow, alone or in a list."""
    mappings = {mapping["title"]: mapping for _, mapping in iterate_mappings()}
    found = SECTION_EXAMPLES.findall(PAGE.read_text(encoding="utf-8"))
    assert [title for title, _ in found] == list(mappings)
    for title, text in found:
        for example in text.split("# or\n"):
            value = read_yaml(example, PAGE).data
            (inner,) = (value,) if title == SCHEMA["title"] else value.values()
            for mapping in inner if isinstance(inner, list) else [inner]:
                assert find_errors(mappings[title], mapping) == [], title
