"""The OpenAPI description of the service with the sandbox's own routes: as JSON, and as a page to read."""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PACKAGE = Path(__file__).resolve().parents[2]
_SERVICE = "schemas/service.openapi.yaml"
_SANDBOX = "schemas/sandbox.openapi.yaml"
PAGE_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
_CODE = re.compile(r"`([^`]+)`")
_LINKS = '<p><a href="/">Inbox</a> · <a href="/openapi.json">JSON</a> · <a href="/openapi.yaml">YAML</a></p>'
_STYLE = """
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
summary { cursor: pointer; padding: .4rem 0; }
a { display: inline-block; }
pre { overflow-x: auto; padding: .6rem; border: 1px solid; border-radius: .3rem; white-space: pre-wrap; }
code { font-family: ui-monospace, monospace; }
"""


def read_schema(name: str) -> bytes:
    """Return a file from the repository's top, or from `runner/shipped/` of a wheel."""
    installed = _PACKAGE / "shipped" / name
    return (installed if installed.is_file() else _PACKAGE.parent / name).read_bytes()


def read_description() -> bytes:
    """Return the OpenAPI description of the service alone, in YAML."""
    return read_schema(_SERVICE)


@cache
def load_description() -> dict[str, Any]:
    """Return the description with the sandbox's own routes."""
    # Late: few ask, and everyone starts the service.
    import yaml  # noqa: PLC0415  see above

    service, sandbox = (yaml.safe_load(read_schema(name)) for name in (_SERVICE, _SANDBOX))
    return {
        **service,
        "tags": [*service["tags"], *sandbox["tags"]],
        "paths": {**service["paths"], **sandbox["paths"]},
    }


def render_description(description: Mapping[str, Any]) -> str:
    """Return the description as an HTML page that needs nothing else."""
    info = description["info"]
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head><body><main>",
            f"<h1>{escape(info['title'])}</h1>{_write_text(info['description'])}",
            _LINKS,
            *_render_tags(description),
            "<h2>Schemas</h2>",
            *(
                f'<details id="schema-{escape(name)}"><summary><code>{escape(name)}</code></summary>'
                f"{_write_json(schema)}</details>"
                for name, schema in description["components"]["schemas"].items()
            ),
            "</main></body></html>",
        )
    )


def _render_tags(description: Mapping[str, Any]) -> Iterator[str]:
    for tag in description["tags"]:
        yield f"<h2>{escape(tag['name'])}</h2>{_write_text(tag['description'])}"
        for path, item in description["paths"].items():
            for method, operation in item.items():
                if tag["name"] in operation["tags"]:
                    yield _render_operation(method.upper(), path, operation)


def _render_operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [("Parameters", operation.get("parameters")), ("Body", operation.get("requestBody"))]
    shown = [*parts, ("Answers", operation["responses"])]
    return (
        f"<details><summary><code>{method} {escape(path)}</code> {escape(operation['summary'])}</summary>"
        + _write_text(operation.get("description", ""))
        + "".join(f"<h3>{name}</h3>{_write_json(part)}" for name, part in shown if part)
        + "</details>"
    )


def _write_text(text: str) -> str:
    marked = _CODE.sub(r"<code>\1</code>", escape(text.strip()))
    return "".join(f"<p>{paragraph}</p>" for paragraph in marked.split("\n\n") if paragraph)


def _write_json(value: object) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2, ensure_ascii=False))}</pre>"
