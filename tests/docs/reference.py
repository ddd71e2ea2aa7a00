"""What is made from the source, schemas and pages: `make reference` writes it, a test compares it."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner import api
from runner.cli.command import show_all
from runner.cli.main import cli
from runner.reasons import REASONS
from runner.settings import COMMON, REQUIRE_APPROVAL, SETTINGS, SETTLE_WINDOW, TARGET
from runner.source.json_schema import schema_text
from tests.docs import problems
from tests.docs.assistant_page import PAGE, render_assistants
from tests.docs.campaign_page import render_reference
from tests.docs.schemas import render_schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "docs" / "reference"
_GENERATED = "<!-- Generated: make reference -->"
_REASONS = re.compile(r"(<!-- reasons -->\n).*?(<!-- end -->)", re.DOTALL)
_SETTINGS = re.compile(r"(<!-- settings -->\n).*?(<!-- end -->)", re.DOTALL)
_TABLE = re.compile(r"(<!-- keys of (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def render_pages() -> dict[Path, str]:
    """Return the whole text of each page, by its path."""
    settings, held = FOLDER / "settings.md", REPOSITORY / "docs" / "how-to" / "held.md"
    return {
        **render_schemas(),
        problems.FILE: problems.render_explanations(),
        PAGE: render_assistants(),
        FOLDER / "campaign.md": render_reference("campaign", json.loads(schema_text("campaign"))),
        FOLDER / "commands.md": _render_commands(),
        FOLDER / "json.md": _render_documents(),
        FOLDER / "python.md": _render_calls(),
        held: _REASONS.sub(_list_reasons, held.read_text(encoding="utf-8")),
        settings: _SETTINGS.sub(
            _list_settings, _TABLE.sub(_fill_table, settings.read_text(encoding="utf-8"))
        ),
    }


def _render_commands() -> str:
    lines = ["# Commands", "", _GENERATED, "", "What `runner COMMAND --help-all` says.", ""]
    # As wide as most terminals, whatever this one is.
    top = click.Context(
        cli, info_name="runner", terminal_width=88, max_content_width=88, **cli.context_settings
    )
    show_all(top)
    for context in _iterate_contexts(top):
        depth = min(len(context.command_path.split()) + 1, 3)
        lines += [f"{'#' * depth} {context.command_path}", "", "```text", context.get_help(), "```", ""]
    return "\n".join(lines)


def _iterate_contexts(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            assert command is not None
            yield from _iterate_contexts(click.Context(command, context, name))


def _render_calls() -> str:
    calls: dict[str, Callable[..., Any]] = {"runner.open": api.open}
    for name, method in vars(api.Project).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            calls[f"Project.{name}"] = method
    lines = [
        "# Python, call by call",
        "",
        _GENERATED,
        "",
        "What `help(runner.open)` says, and that of each method of the project that it returns. [From Python](../python-api.md)",
        "shows them at work.",
        "",
    ]
    for name, call in calls.items():
        lines += [f"## {name}", "", "```text", _write_signature(name, call), "```", ""]
        lines += [*_write_docstring(inspect.getdoc(call) or ""), ""]
    return "\n".join(lines)


def _write_signature(name: str, call: Callable[..., Any]) -> str:
    # By hand: versions of Python write annotations in different ways.
    signature = inspect.signature(call)
    lines = []
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "    *,\n" not in lines:
            lines.append("    *,\n")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        lines.append(f"    {parameter.name}: {parameter.annotation}{default},\n")
    listed = "\n" + "".join(lines) if lines else ""
    return f"{name}({listed}) -> {signature.return_annotation}"


def _write_docstring(text: str) -> Iterator[str]:
    """Yield a docstring as Markdown: the entries of its sections are lists."""
    for line in text.splitlines():
        entry = re.fullmatch(r"    (\w+): (.*)", line)
        if re.fullmatch(r"[A-Z][a-z]+:", line):
            yield from (f"**{'Parameters' if line == 'Args:' else line.removesuffix(':')}**", "")
        elif entry:
            yield f"- `{entry[1]}`: {entry[2]}"
        else:
            yield f"  {line.strip()}" if line.startswith(" ") else line


def _render_documents() -> str:
    found = sorted((REPOSITORY / "schemas").glob("*.schema.json"))
    texts = {path: path.read_text(encoding="utf-8") for path in found} | render_schemas()
    schemas = {path.name.removesuffix(".schema.json"): json.loads(text) for path, text in texts.items()}
    lines = [
        "# JSON documents",
        "",
        _GENERATED,
        "",
        "What commands write with `--format json`, and the files that the program keeps. `runner schema NAME` prints the JSON",
        "Schema of each. `[]` stands for each element of a list, `{}` for each value of a mapping. A number that may be null is not",
        "known then; it is never shown as zero.",
        "",
    ]
    for name, schema in schemas.items():
        if name not in {"campaign", "targets"}:
            lines += [
                f"## {schema['title']} (`{name}`)",
                "",
                schema["description"],
                "",
                *_render_keys(schema),
                "",
            ]
    return "\n".join(lines)


def _fill_table(found: re.Match[str]) -> str:
    schema = json.loads((REPOSITORY / "schemas" / f"{found[2]}.schema.json").read_text(encoding="utf-8"))
    return "\n".join([found[1], *_render_keys(schema), "", found[3]])


def _list_reasons(found: re.Match[str]) -> str:
    rows = [
        f"| {name.replace('_', ' ')} | {hold.ends} |"
        for name, hold in REASONS.items()
        if hold.ends and name != "unresolved"
    ]
    return "\n".join([found[1] + "\n| the plan says | what ends it |", "|---|---|", *rows, "", found[2]])


def _list_settings(found: re.Match[str]) -> str:
    """Return the table of settings: variable, option, keyword in Python, key in targets.yaml."""
    rows = []
    for one in SETTINGS:
        option = f"`{one.command} {one.option}`".replace("` ", "`") if one.option else ""
        keyword = f"`{one.name}`" if one in (TARGET, *COMMON, REQUIRE_APPROVAL, SETTLE_WINDOW) else ""
        cells = (f"`{one.variable}`", option, keyword, f"`{one.key}`" if one.key else "", one.describe())
        rows.append(f"| {' | '.join(map(_escape, cells))} |")
    heads = ("variable", "option", "in Python", "in `targets.yaml`", "meaning")
    return "\n".join([found[1], f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *rows, "", found[2]])


def _render_keys(schema: dict[str, Any]) -> list[str]:
    rows = {"key": "| key | value | meaning |", "": "|---|---|---|"}
    for path, value in iterate_paths(schema, schema, "", ()):
        rows.setdefault(path, f"| `{path}` | {_name_type(value)} | {_escape(value.get('description', ''))} |")
    return list(rows.values())


def _escape(text: str) -> str:
    """Return a text for a cell: `<target>` outside of code is no HTML."""
    parts = text.replace("|", "\\|").replace("\n", " ").split("`")
    return "`".join(part if index % 2 else part.replace("<", "&lt;") for index, part in enumerate(parts))


def iterate_paths(
    root: dict[str, Any], schema: dict[str, Any], path: str, above: tuple[str, ...]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each key below a schema once, with its path; a definition within itself is not entered again."""
    for place, part in _iterate_parts(schema, path):
        resolved, names = _resolve(root, part, above)
        if place != path and not place.endswith(("[]", "{}")):
            yield place, resolved
        if len(set(names)) == len(names):
            yield from iterate_paths(root, resolved, place, names)


def _iterate_parts(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, value in schema.get("properties", {}).items():
        # What is refused, as a password in a file, is no key.
        if "$ref" not in value or not value["$ref"].endswith("/credential"):
            yield f"{path}.{key}".removeprefix("."), value
    if isinstance(schema.get("items"), dict):
        yield f"{path}[]", schema["items"]
    if isinstance(schema.get("additionalProperties"), dict):
        yield f"{path}{{}}", schema["additionalProperties"]
    for word in ("oneOf", "anyOf", "allOf"):
        for part in schema.get(word, ()):
            yield path, part


def _resolve(
    root: dict[str, Any], schema: dict[str, Any], above: tuple[str, ...]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a schema without its reference, what stands beside that first, and the names of what it is within."""
    while "$ref" in schema:
        file, _, name = schema["$ref"].partition("#/$defs/")
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        if file:  # another page has its keys
            other = json.loads((REPOSITORY / "schemas" / file).read_text(encoding="utf-8"))
            return {"type": other["$defs"][name]["type"], **beside}, above
        schema, above = {**root["$defs"][name], **beside}, (*above, name)
    return schema, above


def _name_type(schema: dict[str, Any]) -> str:
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    kinds = schema.get("type", "")
    if not kinds:
        kinds = [part.get("type", "object") for word in ("oneOf", "anyOf") for part in schema.get(word, ())]
    return " or ".join(dict.fromkeys([kinds] if isinstance(kinds, str) else map(str, kinds)))


if __name__ == "__main__":
    for page, text in render_pages().items():
        page.write_text(text, encoding="utf-8")
