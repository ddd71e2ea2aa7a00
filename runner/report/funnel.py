"""Who was asked what: derived from who answered, since the service does not say it a question at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from runner.ledger.model import MessageTotals
    from runner.report.facts import MessageOutline
    from runner.report.tally import MessageTally


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """One question's place in the survey.

    Attributes:
        tag: the question's tag.
        asked: participants who were asked it.
        unaccounted: participants of `asked` who answered although nothing in the ledger led them there.
    """

    tag: str
    asked: int
    unaccounted: int


def follow_questions(
    outline: MessageOutline, totals: MessageTotals, tally: MessageTally
) -> Iterator[FunnelStep]:
    """Yield how many participants were asked each question, in the survey's order.

    The first question reaches all whose session is not queued; each further one, those who answered the one
    before without concluding. Whoever answered was asked, whatever the ledger lacks: no rate exceeds 1.
    """
    led: AbstractSet[int] | None = None
    for question in outline.questions:
        answers = tally.questions[question.tag]
        if led is None:
            reached, asked = totals.sent - totals.queued, len(answers.participants)
            yield FunnelStep(question.tag, max(reached, asked), max(asked - reached, 0))
        else:
            strays = answers.participants - led
            yield FunnelStep(question.tag, len(led) + len(strays), len(strays))
        led = answers.participants - answers.list_concluded()


def list_completed(outline: MessageOutline, tally: MessageTally) -> set[int]:
    """Return the participants who reached the end: answered the last question, or ended the survey early."""
    if not outline.questions:
        return set()
    completed = set(tally.questions[outline.questions[-1].tag].participants)
    for question in outline.questions:
        completed |= tally.questions[question.tag].list_concluded()
    return completed
