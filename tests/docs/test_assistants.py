"""The pages for assistants; the examples on them are run where they come from."""

from __future__ import annotations

import json
import re

from runner.source.json_schema import schema_text
from tests.docs.assistant_page import MOST_LINES, PAGE, REPOSITORY, RIGHT, outline_format
from tests.test_schema import EXAMPLES


def test_the_format_has_every_key_in_few_lines() -> None:
    """The format in short names each key of the schema, and fits on a page that is read at once."""
    schema = json.loads(schema_text("campaign"))
    lines = list(outline_format(schema))
    written = {line.partition(":")[0] for line in lines}
    mappings = [schema, *(kind for kind in schema["$defs"].values() if "properties" in kind)]
    assert {key for mapping in mappings for key in mapping["properties"]} <= written
    assert len(lines) <= MOST_LINES


def test_right_examples_are_campaigns_that_other_tests_run() -> None:
    """Each right example is one of the repository's campaigns, which are validated, sent and reported in tests."""
    assert {f"{name}.yaml" for name in RIGHT} <= {file.name for file in EXAMPLES}


def test_the_index_leads_to_pages() -> None:
    """Each link of llms.txt leads to a page of the documentation."""
    text = (PAGE.parent / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert [link for link in links if not (REPOSITORY / "docs" / link).is_file()] == []
