"""What does not add up, said in sentences that a reader of the report can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.ledger.report_model import COUNTED, PartialCount

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.ledger.report_model import MessageTotals, OpenDifferences
    from runner.report.facts import MessageOutline
    from runner.report.funnel import FunnelStep
    from runner.report.tally import MessageTally


_NAMES = {
    "queued": "how many sessions are queued",
    "active": "how many sessions are active",
    "complete": "how many sessions are complete",
    "renders": "how many renders there were",
    "results": "how many results there are",
}
"""The counts that a report goes by, in words."""


def find_discrepancies(
    outline: MessageOutline,
    totals: MessageTotals,
    tally: MessageTally,
    steps: Sequence[FunnelStep],
    forgotten: int,
    differences: OpenDifferences | None = None,
) -> tuple[str, ...]:
    """Return what does not add up in one message.

    The service's own counts are compared only where they are known of every launch, and every launch was
    read: before that they are old, not wrong.

    Args:
        outline: the message.
        totals: the service's counts, and what was sent.
        tally: what was counted.
        steps: of the funnel.
        forgotten: people of the campaign whom the service may still count.
        differences: launches about whose answers the service contradicts itself; None for none.
    """
    has_counts = totals.reconciled_at is not None and not totals.unread
    return (
        *_name_differences(differences),
        *_name_missing_counts(totals),
        *(_compare_counts(totals, tally, forgotten) if has_counts else ()),
        *_check_participants(totals, tally),
        *(_check_order(steps) if not totals.unread and totals.queued is not None else ()),
        *_name_unknown_questions(outline, tally),
    )


def describe_strays(strays: int) -> tuple[str, ...]:
    """Return what is to be said of results that belong to no message of the campaign."""
    if not strays:
        return ()
    return (f"Results of messages that the campaign does not have, left out here: {strays:,}.",)


def _name_differences(differences: OpenDifferences | None) -> Iterator[str]:
    if differences is None:
        return
    if differences.waiting:
        yield (
            f"The service contradicts itself about answers: {differences}. Follow-ups that go by answers "
            "wait: run “runner reconcile” again, and if it stays, “runner reconcile --accept-differences”."
        )
    if differences.accepted:
        yield f"Launches whose answers were accepted as the service lists them: {differences.accepted:,}."


def _name_missing_counts(totals: MessageTotals) -> Iterator[str]:
    """Yield what the service leaves out although the launches were read."""
    for name in COUNTED:
        part = totals.partly_known.get(name, PartialCount(0, 0))
        lacking = totals.reconciled - part.launches
        if name in _NAMES and getattr(totals, name) is None and lacking > 0:
            yield f"Launches of which the service does not say {_NAMES[name]}: {lacking:,}."


def _compare_counts(totals: MessageTotals, tally: MessageTally, forgotten: int) -> Iterator[str]:
    if totals.results is not None and tally.results != totals.results:
        # What the ledger has too many of the service no longer lists, or lists under other guids.
        remedy = (
            " “runner reconcile --full” looks which are not listed any more; “--drop-unlisted” removes them."
            if tally.results > totals.results
            else ""
        )
        yield (
            f"Results that the service counts: {totals.results:,}; in the ledger: {tally.results:,}.{remedy}"
        )
    if totals.queued is None or totals.active is None or totals.complete is None:
        return
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
