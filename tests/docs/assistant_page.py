"""The pages for assistants that write campaigns: the format in short, from its schema, with right and wrong examples.

The examples are the repository's own campaigns and cases of `tests/cases`: other tests run them.
"""

from __future__ import annotations

import json
import re
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING

from runner.source.json_schema import read_words, schema_text, write_flow
from tests.docs.campaign_page import list_sections
from tests.test_cases import CASES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.docs.campaign_page import Schema

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "assistants.md"
MOST_LINES = 200
"""The format in short has at most so many lines."""
_WIDTH = 170
_PART = re.compile(r"(<!-- ([a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_FIRST_LINE = re.compile(r"# yaml-language-server: .*\n")
RIGHT = {
    "customer-pulse": "Net Promoter Score, and why",
    "visit-feedback": "One survey in three languages",
    "low-score": "A follow-up for low scores only",
    "quarterly-pulse": "The same people again each quarter",
    "spot-check": "One member in four",
    "newsletter-sample": "A random sample, until enough have answered",
    "rollout": "A few people first, then everybody",
    "delivery-notice": "A notice, in two languages by its template",
    "appointment-reminder": "Reminders of appointments, on each person's clock",
    "winter-hours": "A text against a call",
}
"""Campaigns of this repository, by file, with titles."""
WRONG = {
    "value-phone-unquoted": "A phone is text",
    "phone-with-region": "Numbers without `+` need their country, and all their digits",
    "yaml-unquoted-template": "Text that begins with `{{` needs quotes",
    "yaml-hash-cuts-text": "` #` begins a comment",
    "yaml-colon-in-text": "Text with `: ` needs quotes",
    "responses-numbers-unquoted": "Responses are text",
    "key-unknown": "Other keys than the known are refused",
    "template-variable-misspelt": "Every variable is a column, or in `vars`",
    "scale-nps-wrong-responses": "A scale needs its responses",
    "to-without-after": "A follow-up says what it follows",
}
"""Cases of `tests/cases/invalid`, with titles."""


def render_assistants() -> str:
    """Return the page for assistants, with its parts made anew."""
    parts = {
        "format": "\n".join(["```yaml", *outline_format(json.loads(schema_text("campaign"))), "```"]),
        "right": "\n\n".join(starmap(_show_right, RIGHT.items())),
        "wrong": "\n\n".join(starmap(_show_wrong, WRONG.items())),
    }
    text = PAGE.read_text(encoding="utf-8")
    return _PART.sub(lambda found: f"{found[1]}\n{parts[found[2]]}\n\n{found[3]}", text)


def outline_format(schema: Schema) -> Iterator[str]:
    """Yield the format's lines: each mapping with its place, and its keys with an example and their meaning."""
    for section in list_sections(schema):
        words = read_words(section.schema).get("choice-hint") or section.schema["description"]
        yield f"# {section.place or 'the file'}: {_shorten(words, _WIDTH)}"
        for key, raw in section.schema["properties"].items():
            value = {**schema["$defs"].get(raw.get("$ref", "").rpartition("/")[2], {}), **raw}
            place = f"{section.place}.{key}".removeprefix(".")
            below = any(one.place.removesuffix("[]") == place for one in list_sections(schema))
            line = f"{key}: {'…' if below else write_flow(value['examples'][0])}"
            need = "required: " if key in section.schema.get("required", []) else ""
            yield f"{line}  # {need}{_shorten(value['description'], _WIDTH - len(line))}"


def _shorten(words: str, most: int) -> str:
    """Return the first sentence, or as many of its words as fit."""
    first = words.partition(". ")[0].rstrip(".")
    return first if len(first) <= most else f"{first[: max(most, 40)].rpartition(' ')[0]} …"


def _show_right(name: str, title: str) -> str:
    text = (REPOSITORY / "campaigns" / f"{name}.yaml").read_text(encoding="utf-8")
    return f"### {title}\n\n```yaml\n{_FIRST_LINE.sub('', text)}```"


def _show_wrong(name: str, title: str) -> str:
    case = CASES / "invalid" / name
    (file,) = case.glob("*.yaml")
    said = (case / "expected.txt").read_text(encoding="utf-8").rpartition("Invalid: ")[0]
    return f"### {title}\n\n```yaml\n{file.read_text(encoding='utf-8')}```\n\n```text\n{said}```"
