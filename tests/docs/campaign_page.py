"""A file format's reference page in Markdown, generated from its JSON Schema.

Its text is in the schema, where editors find it too. A sentence `Default: …` of a description becomes a table
cell; `$comment` has the words of the errors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.source.json_schema import read_words, write_flow

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEFAULT = re.compile(r" Default: (.+?)\.(?= |$)")
_KINDS = "Kinds of values"
_INTRODUCTION = """\
Every key of a {name} file, in YAML. Anything else is an error that says where it stands and what was
probably meant. Editors with a YAML language server complete and explain the keys as soon as the file
starts with `# yaml-language-server: $schema=` and the path of `{name}.schema.json`."""
_HEAD = "| Key | Value | Default | Meaning | Example |\n| --- | --- | --- | --- | --- |"

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping of the format with examples; its place is a key such as `messages[].after`."""

    schema: Schema
    place: str
    examples: list[Any]


def render_reference(name: str, schema: Schema) -> str:
    """Return the reference page of a format, whose schema has objects and repeated kinds in `$defs`."""
    page = _Page(schema)
    sections = list_sections(schema)
    kinds = page.find_kinds(sections)
    contents = [f"- {_link(section.schema['title'])}: {_list_keys(section.schema)}" for section in sections]
    contents.append(f"- {_link(_KINDS)}: {', '.join(_link(kind['title']) for kind in kinds)}")
    parts = [
        f"# The {name} file",
        "<!-- Generated: make reference -->",
        _INTRODUCTION.format(name=name),
        "\n".join(contents),
        *(page.render_section(section) for section in sections),
        f"## {_KINDS}",
        *(_render_kind(kind) for kind in kinds),
    ]
    return "\n\n".join(parts) + "\n"


def list_sections(schema: Schema) -> list[Section]:
    """Return the mappings of a format, each once, in the order of their keys."""
    return list(_Page(schema).find_sections(Section(schema, "", schema["examples"])))


class _Page:
    def __init__(self, schema: Schema) -> None:
        self._defs: dict[str, Schema] = schema["$defs"]

    def find_sections(self, top: Section) -> Iterator[Section]:
        """Yield a section and those below it, in the order of their keys, each once."""
        seen: set[str] = set()
        waiting = [top]
        while waiting:
            section = waiting.pop()
            if section.schema["title"] not in seen:
                seen.add(section.schema["title"])
                yield section
                waiting.extend(reversed(list(self._find_below(section))))

    def find_kinds(self, sections: list[Section]) -> list[Schema]:
        """Return the kinds of values that the sections' tables link to, in the schema's order."""
        tables = "\n".join(self.render_section(section) for section in sections)
        return [
            kind
            for kind in self._defs.values()
            if "properties" not in self._follow(kind) and _link(kind["title"].lower()) in tables
        ]

    def render_section(self, section: Section) -> str:
        """Return a section: its description, its rules, a table of its keys and an example."""
        schema = section.schema
        place = f" Stands at `{section.place}`." if section.place else ""
        rows = "\n".join(self._render_row(key, raw, schema) for key, raw in schema["properties"].items())
        key = section.place.rpartition(".")[2].removesuffix("[]")
        examples = "# or\n".join(_write_block(key, example) for example in section.examples)
        rules = [" ".join(_list_rules(schema))]
        parts = [f"## {schema['title']}", schema["description"] + place, *filter(None, rules)]
        return "\n\n".join([*parts, f"{_HEAD}\n{rows}", f"```yaml\n{examples}```"])

    def _find_below(self, section: Section) -> Iterator[Section]:
        for key, raw in section.schema["properties"].items():
            place = f"{section.place}.{key}" if section.place else key
            for value in _forms_of(key, raw, section.schema):
                repeated = value.get("items", {})
                found = self._follow(self._defs.get(_target(value) or _target(repeated), {}))
                if "properties" in found:
                    # A key may also take a plain value, which is no example of a mapping.
                    written = value.get("examples", raw.get("examples", []))
                    examples = [one for one in written if isinstance(one, dict | list)]
                    yield Section(found, f"{place}[]" if repeated else place, examples)

    def _render_row(self, key: str, raw: Schema, parent: Schema) -> str:
        value = {**self._defs.get(_target(raw), {}), **raw}
        description = value["description"]
        default = f"`{write_flow(value['default'])}`" if "default" in value else ""
        if said := _DEFAULT.search(description):
            default = said[1]
            description = description.replace(said[0], "")
        if key in parent.get("required", []):
            default = "*required*"
        # The kind of value explains its own pattern.
        if words := read_words(raw if "description" in raw else value).get("pattern-words"):
            description += f" {_sentence(words)}"
        forms = list(_forms_of(key, raw, parent))
        kinds = " or ".join(self._name_kind(form) for form in forms)
        has_section = any(self._is_section(form) or self._is_section(form.get("items", {})) for form in forms)
        example = "" if has_section else f"`{write_flow(value['examples'][0])}`"
        cells = [f"`{key}`", kinds, default, description, example]
        return f"| {' | '.join(_escape_bars(cell) for cell in cells)} |"

    def _is_section(self, value: Schema) -> bool:
        return "properties" in self._follow(self._defs.get(_target(value), {}))

    def _follow(self, kind: Schema) -> Schema:
        """Return the mapping that a kind is unless it is a text by language; else the kind itself."""
        whole = self._defs.get(_target(kind.get("else", {})), kind)
        return whole if "properties" in whole else kind

    def _name_kind(self, value: Schema, *, repeated: bool = False) -> str:
        target = self._defs.get(_target(value))
        if target and not repeated and "properties" in self._follow(target) and "properties" not in target:
            return " or ".join(self._name_kind(target[branch]) for branch in ("then", "else"))
        # A key whose description is also in `$defs` needs no further text.
        if target and ("description" in value or repeated or "properties" in target):
            return _link(target["title"].lower())
        value = {**(target or {}), **value}
        if choices := value.get("enum", [value["const"]] if "const" in value else []):
            return ", ".join(f"`{one if isinstance(one, str) else write_flow(one)}`" for one in choices)
        if isinstance(value["type"], list) and "array" in value["type"]:
            return " or ".join(self._name_kind({**value, "type": kind}) for kind in value["type"])
        if value["type"] != "array":
            return _name_type(value)
        return _count_entries(value) + self._name_kind(value["items"], repeated=True)


def _name_type(value: Schema) -> str:
    names = {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "`true`, `false`",
        "object": "mapping",
    }
    kinds = value["type"] if isinstance(value["type"], list) else [value["type"]]
    words = " or ".join(names[kind] for kind in kinds)
    bounds = {"minimum": "at least", "maximum": "at most", "exclusiveMaximum": "below"}
    return ", ".join([words, *(f"{text} {value[name]}" for name, text in bounds.items() if name in value)])


def _count_entries(value: Schema) -> str:
    least, most = value.get("minItems", 0), value.get("maxItems")
    if least == most:
        return f"list of {least}: "
    return f"list of at least {least}: " if least > 1 else "list: "


def _forms_of(key: str, raw: Schema, parent: Schema) -> Iterator[Schema]:
    """Yield the schemas of a key's values, from its own schema or the keys beside it."""
    branches = [parent.get(branch, {}).get("properties", {}).get(key) for branch in ("else", "then")]
    found = [branch for branch in branches if branch is not None]
    yield from found or [raw]


def _link(title: str) -> str:
    return f"[{title}](#{title.lower().replace(' ', '-')})"


def _target(value: Schema) -> str:
    return str(value.get("$ref", "")).rpartition("/")[2]


def _list_keys(schema: Schema) -> str:
    return ", ".join(f"`{key}`" for key in schema["properties"])


def _list_rules(schema: Schema) -> Iterator[str]:
    if words := read_words(schema).get("choice-hint"):
        yield _sentence(words)
    for key, needed in schema.get("dependentRequired", {}).items():
        yield f"`{key}` needs {' and '.join(f'`{name}`' for name in needed)} beside it."


def _render_kind(kind: Schema) -> str:
    examples = ", ".join(f"`{write_flow(example)}`" for example in kind["examples"])
    return f"### {kind['title']}\n\n{kind['description']} As in {examples}."


def _write_block(key: str, value: Any) -> str:
    if not key:
        return "".join(f"{name}: {write_flow(item)}\n" for name, item in value.items())
    if isinstance(value, dict):
        return f"{key}:\n" + "".join(f"  {name}: {write_flow(item)}\n" for name, item in value.items())
    return f"{key}:\n" + "".join(_write_entry(item) for item in value)


def _write_entry(entry: Schema | str) -> str:
    if isinstance(entry, str):
        return f"  - {write_flow(entry)}\n"
    lines = [f"{name}: {write_flow(item)}" for name, item in entry.items()]
    return "  - " + "\n    ".join(lines) + "\n"


def _escape_bars(cell: str) -> str:
    return cell.replace("|", "\\|")


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."
