"""Documents held to their schemas: patterns mean what JSON Schema says that they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema.exceptions import ValidationError

from runner.source.json_schema import find_problems, load_validator
from runner.source.yaml import read_yaml


def is_rate(text: str) -> bool:
    campaign: dict[str, Any] = {
        "version": 1,
        "recipients": [{"phone": "+14155550101"}],
        "messages": [{"id": "hello", "text": "Hello"}],
        "limits": {"rate": text},
    }
    return load_validator("campaign").is_valid(campaign)


@pytest.mark.parametrize(("text", "fits"), [("20/s", True), ("20/s\n", False), ("20/s\nx", False)])
def test_a_pattern_ends_where_the_text_does(text: str, *, fits: bool) -> None:
    """`$` is the end of the text (ECMA 262), not a place before its last line break."""
    assert is_rate(text) is fits


LACKING = """\
version: 1
messages:
  - questions:
      - text: How was it?
      - {}
schedule: {not_before: 2026-12-01T09:00, expires: 2026-12-05T18:00}
"""


def test_missing_keys_are_found_whatever_the_validator_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing key is what the mapping itself lacks: the validator's words for it make no difference."""
    document = read_yaml(LACKING, Path("campaign.yaml"))
    monkeypatch.setattr(ValidationError, "message", property(lambda _: "no", lambda *_: None), raising=False)
    assert [(found.line, found.message) for found in find_problems(document, "campaign")] == [
        (1, "the file has no `recipients`"),
        (3, "`messages[1]` has no `id`"),
        (4, "`messages[1].questions[1]` has no `tag`"),
        (5, "`messages[1].questions[2]` has no `tag`"),
        (5, "`messages[1].questions[2]` has no `text`"),
        (6, "`not_before` in `schedule` needs `timezone` beside it"),
        (6, "`expires` in `schedule` needs `timezone` beside it"),
    ]
