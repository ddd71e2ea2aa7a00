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


MISPLACED = """\
version: 1
segments_per_message: 1
text: Hello
recipients:
  - {phone: "+14155550101", first_name: Ada, name: Ada}
messages:
  - {id: ask, text: Hello, responses: ["1"], limits: {renders: 3}, limit: 1}
"""


def test_a_key_at_the_wrong_place_is_told_its_own() -> None:
    """A key that others know names them, unless they are many; a recipient's are taken for variables."""
    document = read_yaml(MISPLACED, Path("campaign.yaml"))
    found = [problem for problem in find_problems(document, "campaign") if problem.code == "key-unknown"]
    assert [problem.message for problem in found] == [
        "`segments_per_message` is not a key: did you mean `limits.segments_per_message`?",
        "`text` is not a key",
        "`first_name` is not a key in `recipients[1]`",
        "`name` is not a key in `recipients[1]`",
        "`responses` is not a key in `messages[1]`: did you mean `messages[].questions[].responses`?",
        "`limits` is not a key in `messages[1]`: did you mean `limits` at the top level?",
        "`limit` is not a key in `messages[1]`",
    ]
    assert (found[3].hint or "").startswith("write values of your own below `vars`; known here: phone, vars,")


EMPTY_KEY = """\
version: 1
"": 1
limitz: {recipients: 0}
recipients: [{phone: "+14155550101"}]
messages: [{id: ask, text: Hello}]
schedule: {"": x, send_betwen: ["09:00", "20:00"]}
"""


def test_an_empty_key_hides_no_other_mistake() -> None:
    """Keys beside it are told as everywhere."""
    found = find_problems(read_yaml(EMPTY_KEY, Path("campaign.yaml")), "campaign")
    assert [(problem.line, problem.message) for problem in found] == [
        (2, "`` is not a key"),
        (3, "`limitz` is not a key: did you mean `limits`?"),
        (6, "`` is not a key in `schedule`"),
        (6, "`send_betwen` is not a key in `schedule`: did you mean `send_between`?"),
    ]
