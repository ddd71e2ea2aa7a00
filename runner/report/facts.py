"""What a report is made of: the campaign's outline, and what the ledger says was sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from runner.ledger.model import MessageTotals

Scale = Literal["nps", "csat", "ces", "number", "choice", "text"]
"""How a question's answers are read; the names of the campaign file."""


@dataclass(frozen=True, slots=True)
class QuestionOutline:
    """One question as the campaign asks it.

    Attributes:
        tag: what its results are known by (`question_tag`).
        text: what is asked.
        responses: the answers to choose from, worst or lowest first; empty for a freeform question.
        scale: how its answers are read.
        conclude_on: the answer that ends the survey early (wire facts, send body); None for no such answer.
    """

    tag: str
    text: str
    responses: tuple[str, ...] = ()
    scale: Scale = "choice"
    conclude_on: str | None = None


@dataclass(frozen=True, slots=True)
class MessageOutline:
    """One message as the campaign sends it; a plain text has no questions."""

    id: str
    tag: str
    questions: tuple[QuestionOutline, ...] = ()


@dataclass(frozen=True, slots=True)
class CampaignFacts:
    """A campaign, where it was sent, and what became of each of its messages.

    Attributes:
        name: the campaign's name.
        target: the name of the target that it was sent through.
        messages: each message with its totals, in the order of the campaign.
    """

    name: str
    target: str
    messages: tuple[tuple[MessageOutline, MessageTotals], ...]
