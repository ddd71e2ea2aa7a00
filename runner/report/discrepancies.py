"""What does not add up, said in sentences that a reader of the report can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.ledger.report_model import MessageTotals
    from runner.report.facts import MessageOutline
    from runner.report.funnel import FunnelStep
    from runner.report.tally import MessageTally


def find_discrepancies(
    outline: MessageOutline,
    totals: MessageTotals,
    tally: MessageTally,
    steps: Sequence[FunnelStep],
    forgotten: int,
) -> tuple[str, ...]:
    """Return what does not add up in one message.

    The service's own counts are compared only once every launch was reconciled: before that they are old, not
    wrong.

    Args:
        outline: the message.
        totals: the service's counts, and what was sent.
        tally: what was counted.
        steps: of the funnel.
        forgotten: people of the campaign whom the service may still count.
    """
    return (
        *(_compare_counts(totals, tally, forgotten) if totals.reconciled_at is not None else ()),
        *_check_participants(totals, tally),
        *_check_order(steps),
        *_name_unknown_questions(outline, tally),
    )


def describe_strays(strays: int) -> tuple[str, ...]:
    """Return what is to be said of results that belong to no message of the campaign."""
    if not strays:
        return ()
    return (f"Results of messages that the campaign does not have, left out here: {strays:,}.",)


def _compare_counts(totals: MessageTotals, tally: MessageTally, forgotten: int) -> Iterator[str]:
    if tally.results != totals.results:
        yield f"Results that the service counts: {totals.results:,}; in the ledger: {tally.results:,}."
    sessions = totals.queued + totals.active + totals.complete
    if not 0 <= sessions - totals.sent <= forgotten:
        yield f"Sessions that the service has: {sessions:,}; recipients that were sent to: {totals.sent:,}."


def _check_participants(totals: MessageTotals, tally: MessageTally) -> Iterator[str]:
    answered = tally.participants
    if answered > totals.sent:
        yield (
            f"Participants who answered: {answered:,}; recipients that were sent to: {totals.sent:,}. "
            "No response rate is given."
        )


def _check_order(steps: Sequence[FunnelStep]) -> Iterator[str]:
    for step in steps[1:]:
        if step.unaccounted:
            yield (
                f"Participants who answered “{step.tag}” with no answer in the ledger that leads there: "
                f"{step.unaccounted:,}."
            )


def _name_unknown_questions(outline: MessageOutline, tally: MessageTally) -> Iterator[str]:
    known = {question.tag for question in outline.questions}
    for tag in sorted(tally.questions.keys() - known):
        count = tally.questions[tag].answers
        name = f"tagged “{tag}”" if tag else "without a tag"
        yield f"Participants who answered a question {name}, which the campaign does not have: {count:,}."
    if tally.unlisted:
        yield f"Further questions that the campaign does not have, left out here: {tally.unlisted:,}."
