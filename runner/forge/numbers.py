"""The numbers of a plan, in a line of its comment that only programs see.

Who approves a pull request has seen them. A later plan is compared with them: one that sends more than the
comment said is another plan.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.forge.connection import look_up

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
LONGEST_LINE = 20_000
"""Characters that the line may take of a comment; longer ones do without the single campaigns."""
_LINE = re.compile(r"<!-- runner-numbers (\{.*\}) -->")
# Nothing of it may end the HTML comment that it stands in, mention a person, or refer to an issue.
_ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "<>&@#"}


@dataclass(frozen=True, slots=True)
class MessageNumbers:
    """The counts of one message.

    Attributes:
        to_send: recipients who would get it now.
        recipients: of the whole audience.
        later: recipients who may get it later: the plan's forecast.
    """

    to_send: int
    recipients: int
    later: int


@dataclass(frozen=True, slots=True)
class PlanNumbers:
    """The counts of a plan.

    Attributes:
        target: the target's name.
        plan_digest: of the plan.
        campaigns: by the campaign's name, its messages by their ids; None if they were too many to list.
        to_send: of all messages together.
        later: recipients of all messages together who may get it later.
    """

    target: str
    plan_digest: str
    campaigns: Mapping[str, Mapping[str, MessageNumbers]] | None
    to_send: int
    later: int = 0


def write_numbers(numbers: PlanNumbers) -> str:
    """Return the line of a comment that has the numbers; it stands right below the comment's marker."""
    campaigns = {
        name: {message: [one.to_send, one.recipients, one.later] for message, one in messages.items()}
        for name, messages in (numbers.campaigns or {}).items()
    }
    head = {
        "version": VERSION,
        "target": numbers.target,
        "plan_digest": numbers.plan_digest,
        "to_send": numbers.to_send,
        "later": numbers.later,
    }
    line = _write_line({**head, "campaigns": None if numbers.campaigns is None else campaigns})
    return line if len(line) <= LONGEST_LINE else _write_line({**head, "campaigns": None})


def _write_line(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, separators=(",", ":"), sort_keys=True)
    return f"<!-- runner-numbers {text.translate(_ESCAPED)} -->"


def read_numbers(body: str) -> PlanNumbers | None:
    """Return the numbers of a comment; None if it has none that can be read.

    Only its second line is looked at: what stands below comes from files.

    Args:
        body: the comment's Markdown.
    """
    lines = body.lstrip().split("\n", 2)
    found = _LINE.fullmatch(lines[1].strip()) if len(lines) > 1 else None
    try:
        data: Any = json.loads(found[1]) if found else None
        return _parse(data) if look_up(data, "version") == VERSION else None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def _parse(data: Mapping[str, Any]) -> PlanNumbers:
    told = data["campaigns"]
    campaigns = told if told is None else {name: _parse_messages(one) for name, one in told.items()}
    target, digest, to_send = data["target"], data["plan_digest"], _require_count(data["to_send"])
    if not isinstance(target, str) or not isinstance(digest, str):
        raise TypeError(data)
    # Comments of earlier versions don't have it: nothing was said then of later.
    return PlanNumbers(target, digest, campaigns, to_send, _require_count(data.get("later", 0)))


def _parse_messages(told: Mapping[str, Any]) -> dict[str, MessageNumbers]:
    return {
        message: MessageNumbers(_require_count(to_send), _require_count(recipients), _require_count(later))
        for message, (to_send, recipients, later) in told.items()
    }


def _require_count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(value)
    return value
