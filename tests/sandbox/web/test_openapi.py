"""The OpenAPI description: nothing of the reference is left out, its examples are true, its decisions are listed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import requests
import yaml

from runner.sandbox.records import RESULT_FIELDS, STAT_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.sandbox.model import ServiceAddress

REFERENCE = Path(__file__).with_name("reference")
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "sandbox.md"
WRITTEN = (Path(__file__).parents[3] / "schemas/service.openapi.yaml").read_bytes()
DESCRIPTION: dict[str, Any] = yaml.safe_load(WRITTEN)
SCHEMAS = DESCRIPTION["components"]["schemas"]

_TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
_TYPES = {"int": "integer", "string (URL)": "string", "string (timestamp)": "string"}


def iterate_tables(file: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield each table of a Markdown file below the number or name of its section, its rows by their headings."""
    for section in re.split(r"^#{2,3} ", (REFERENCE / file).read_text(encoding="utf-8"), flags=re.MULTILINE):
        name = section.split("\n", 1)[0]
        for table in _TABLE.findall(section):
            head, _, *rows = [
                [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
                for line in table.splitlines()
            ]
            yield name, [dict(zip([cell.lower() for cell in head], row, strict=False)) for row in rows]


def resolve(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with what it refers to merged into it, its properties with theirs."""
    merged: dict[str, Any] = {}
    if "$ref" in schema:
        node: Any = DESCRIPTION
        for step in schema["$ref"].removeprefix("#/").split("/"):
            node = node[step]
        merged = resolve(node)
    properties = {**merged.get("properties", {}), **schema.get("properties", {})}
    return {**merged, **schema, "properties": properties}


def find_property(schema: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the schema of a property by its dotted path."""
    found = resolve(schema)
    for step in path.split("."):
        assert step in found["properties"], f"{path} is not described"
        found = resolve(found["properties"][step])
    return found


def find_parameters(operation_id: str) -> dict[str, dict[str, Any]]:
    """Return an operation's query parameters by their names."""
    operations = [operation for path in DESCRIPTION["paths"].values() for operation in path.values()]
    (chosen,) = [each for each in operations if each["operationId"] == operation_id]
    parameters = [resolve(parameter) for parameter in chosen["parameters"]]
    return {parameter["name"]: parameter["schema"] for parameter in parameters if parameter["in"] == "query"}


def as_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties)}


# What each table of the reference describes, in its order there; states are no fields.
TABLES: list[tuple[str, dict[str, Any]]] = [
    ("2.1 Result record", SCHEMAS["Result"]),
    ("2.2 List envelope", SCHEMAS["ResultList"]),
    ("2.2 List envelope", SCHEMAS["ResultList"]["properties"]["meta"]),
    ("2.2 List envelope", SCHEMAS["StatList"]["properties"]["meta"]),
    ("2.3 Stat record", SCHEMAS["Stat"]),
    ("2.3 Stat record", SCHEMAS["Session"]),
    ("4.1 Send", SCHEMAS["Send"]),
    ("4.2 List results", as_object(find_parameters("listResults"))),
    ("4.4 List stats", as_object(find_parameters("listStats"))),
    ("Send body", SCHEMAS["Send"]),
    ("Send body", SCHEMAS["Question"]),
]


def read_field_tables() -> list[tuple[str, list[dict[str, str]]]]:
    tables = [*iterate_tables("service-api.md"), *iterate_tables("wire-facts.md")]
    return [(name, rows) for name, rows in tables if {"field", "param"} & rows[0].keys()]


def iterate_types(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSON types that a schema takes."""
    found = resolve(schema)
    for branch in found.get("anyOf", ()):
        yield from iterate_types(branch)
    named = found.get("type", [])
    yield from [named] if isinstance(named, str) else named
    for value in found.get("enum", ()):
        yield "null" if value is None else "string"


def test_every_field_of_the_reference_is_described() -> None:
    """Each row of each table of the two documents is a property or parameter of its type, at its place."""
    tables = read_field_tables()
    assert len(tables) == len(TABLES)
    for (section, rows), (expected, schema) in zip(tables, TABLES, strict=True):
        assert section.startswith(expected)
        for row in rows:
            described = find_property(schema, row.get("field") or row["param"])
            written = re.sub(r"^array of .*", "array", row["type"])
            types = {_TYPES.get(each, each) for each in written.split(" or ")}
            assert types <= set(iterate_types(described)), row


def test_every_word_of_the_documents_is_known() -> None:
    """What the two documents write as code, names of fields and values alike, stands in the description too."""
    text = WRITTEN.decode()
    for file in ("service-api.md", "wire-facts.md"):
        words = re.findall(r"`([a-zA-Z_]+)`", (REFERENCE / file).read_text(encoding="utf-8"))
        assert [word for word in words if word not in text] == []


def test_records_have_the_fields_of_their_schemas() -> None:
    """Records, the heads of CSV among them, are the fields of the schemas in their order, and all are required."""
    result, stat = resolve(SCHEMAS["Result"]), SCHEMAS["Stat"]
    assert list(RESULT_FIELDS) == result["required"] == list(result["properties"])
    assert list(STAT_FIELDS) == stat["required"] == list(stat["properties"])
    for fields, name in ((RESULT_FIELDS, "ResultCsv"), (STAT_FIELDS, "StatCsv")):
        assert SCHEMAS[name]["pattern"] == f"^{','.join(fields)}\\r\\n"


def iterate_examples(node: object) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield each example below a node with the schema that it is an example of."""
    if isinstance(node, dict):
        if "schema" in node:
            yield from ((node["schema"], example["value"]) for example in node.get("examples", {}).values())
        for value in node.values():
            yield from iterate_examples(value)
    elif isinstance(node, list):
        for value in node:
            yield from iterate_examples(value)


def test_examples_are_true() -> None:
    """Every example is valid by its own schema."""
    examples = list(iterate_examples(DESCRIPTION))
    assert len(examples) >= 10
    for schema, example in examples:
        whole = {**schema, "components": DESCRIPTION["components"]}
        jsonschema.Draft202012Validator(whole).validate(example)


def test_schemas_are_schemas() -> None:
    """Each schema is one of JSON Schema 2020-12, the dialect of OpenAPI 3.1."""
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_all_requests_but_webhooks_need_credentials() -> None:
    """The credentials are two query parameters of every operation."""
    assert DESCRIPTION["security"] == [{"username": [], "api_key": []}]
    for name, scheme in DESCRIPTION["components"]["securitySchemes"].items():
        assert (scheme["type"], scheme["in"], scheme["name"]) == ("apiKey", "query", name)
    for path in DESCRIPTION["paths"].values():
        for operation in path.values():
            assert "security" not in operation
            assert "401" in operation["responses"]


def iterate_marks(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "x-decision":
                yield from [value] if isinstance(value, str) else value
            else:
                yield from iterate_marks(value)
    elif isinstance(node, list):
        for value in node:
            yield from iterate_marks(value)


def test_every_decision_is_marked_where_it_holds() -> None:
    """Each `x-decision` is one of `x-decisions`, and each of those is marked somewhere."""
    assert set(iterate_marks(DESCRIPTION)) == set(DESCRIPTION["x-decisions"])


def test_the_page_lists_all_decisions() -> None:
    """The docs' table of decisions is that of the description, row by row."""
    rows = [f"| {each['where']} | {each['sandbox']} |" for each in DESCRIPTION["x-decisions"].values()]
    head = "| where the reference is silent | the sandbox |\n|---|---|\n"
    _, found, rest = PAGE.read_text(encoding="utf-8").partition(head)
    assert found
    assert rest.partition("\n\n")[0].splitlines() == rows


def test_service_gives_its_description(address: ServiceAddress) -> None:
    """The running service gives the description at /openapi.yaml, to everyone."""
    answer = requests.get(f"{address.url}/openapi.yaml", timeout=60)
    assert answer.headers["Content-Type"] == "application/yaml"
    assert answer.content == WRITTEN
