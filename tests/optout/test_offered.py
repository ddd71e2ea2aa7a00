"""What a question offered, as it was sent or as a service lists it."""

from __future__ import annotations

from typing import Any

import pytest

from runner.optout.reply import find_offered

ENDING = {"text": "How long?", "tag": "when", "responses": ["Day", "End"], "conclude_on": "Never"}
ASKED = {"text": "Keep it?", "tag": "keep", "responses": ["Keep", "Cancel"]}
OPEN = {"text": "Why?", "tag": "why"}


@pytest.mark.parametrize(
    ("tag", "text", "offered"),
    [
        ("keep", "Keep it?", ("Keep", "Cancel")),
        ("keep", "as somebody else saw it", ("Keep", "Cancel")),
        ("", "Keep it?", ("Keep", "Cancel")),
        ("when", "How long?", ("Day", "End", "Never")),
        ("why", "Why?", ()),
        ("", "", ()),
        ("other", "Other?", ()),
    ],
)
def test_the_question_is_found_by_tag_or_text(tag: str, text: str, offered: tuple[str, ...]) -> None:
    """A tag names the question, else its text; a question that cannot be found offered nothing."""
    assert find_offered({"questions": [ENDING, ASKED, OPEN]}, tag, text) == offered


@pytest.mark.parametrize(
    "definition",
    [
        {},
        {"text": "Hello"},
        {"questions": None},
        {"questions": ["x"]},
        {"questions": [{**OPEN, "responses": 3}]},
    ],
)
def test_a_definition_of_any_form_is_read(definition: dict[str, Any]) -> None:
    """What a service lists is not ours: nothing in it is an error."""
    assert find_offered(definition, "why", "Why?") == ()
