"""Which responses a question offered: what it offers is an answer to it, even if it is `end` or `cancel`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def find_offered(definition: Mapping[str, Any], tag: str, text: str) -> tuple[str, ...]:
    """Return the responses of a question, and the one that concludes it; none if it cannot be found.

    Args:
        definition: what was sent (wire facts, "Send body" and "Question"), in whatever form it came back.
        tag: the question's; empty if the result has none.
        text: the question as it was asked, as far as the result says.
    """
    listed = definition.get("questions")
    questions = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    tagged = [one for one in questions if tag and one.get("tag") == tag]
    worded = [one for one in questions if one.get("text") == text]
    question = next(iter([one for one in tagged if one in worded] or tagged or worded), None)
    if question is None:
        return ()
    responses = question.get("responses")
    offered = [*(responses if isinstance(responses, list) else ()), question.get("conclude_on")]
    return tuple(response for response in offered if isinstance(response, str))
