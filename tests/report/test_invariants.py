"""What holds for every campaign."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.ledger.report_model import FeedRow, MessageTotals
from runner.report.facts import MessageOutline, QuestionOutline
from tests.report.counted import build_facts, make_contact, make_row, report_rows

QUESTIONS = (
    QuestionOutline("nps", "0 to 10?", tuple(map(str, range(11))), "nps", endings=("0",)),
    QuestionOutline("csat", "How was it?", ("bad", "fair", "good", "great"), "csat"),
    QuestionOutline("text", "Why?", scale="text"),
)
OUTLINE = MessageOutline("ask", "tag", QUESTIONS)
TAGS = ("nps", "csat", "text", "unknown", "")

results = st.lists(
    st.builds(
        make_row,
        participant=st.sampled_from("abcdef"),
        tag=st.sampled_from(TAGS),
        text=st.sampled_from(("Is it?", "Was it?")),
        answer=st.sampled_from(("1", "2", "12", "own words")),
        response=st.sampled_from(("0", "1", "7", "9", "10", "bad", " GREAT ", "odd", "own words")),
        created=st.sampled_from(("2026-11-20T10:00:00.000001", "2026-11-20T10:00:00.000002")),
        guid=st.uuids().map(str),
    ),
    max_size=40,
)
totals = st.builds(
    MessageTotals,
    message=st.just("ask"),
    launches=st.integers(0, 2),
    sent=st.integers(0, 8),
    unresolved=st.integers(0, 3),
    queued=st.integers(0, 3),
)


@pytest.mark.slow
@given(totals, results)
@settings(max_examples=25, deadline=None)
def test_figures_hold_together(counts: MessageTotals, rows: list[FeedRow]) -> None:
    """Shares sum to 1, counts to answers, groups to what was counted, and no rate leaves 0 to 1.

    Of launches whose outcome is not known, all is unknown.
    """
    contacts = [make_contact(name) for name in "abcdefgh"[: counts.sent]]
    message = report_rows(build_facts((OUTLINE, counts)), rows, contacts).messages[0]
    rates = [message.response_rate, message.completion_rate]
    if counts.unresolved and not counts.launches:
        counted = [message.texted, message.participants_answered, message.participants_completed]
        assert {*counted, *rates, *(question.answers for question in message.questions)} == {None}
        return
    for question in message.questions:
        rates += [question.answer_rate, *(row.share for row in question.distribution)]
        assert question.answers is not None
        assert question.asked is None or question.asked >= question.answers
        if question.distribution and question.answers:
            assert sum(row.count for row in question.distribution) == question.answers
            assert sum(row.share or Fraction() for row in question.distribution) == 1
        if question.nps is not None:
            nps = question.nps
            assert nps.promoters + nps.passives + nps.detractors == nps.counted <= question.answers
            assert nps.score is None or -100 <= nps.score <= 100
    assert all(rate is None or 0 <= rate <= 1 for rate in rates)
    answered, completed = message.participants_answered, message.participants_completed
    assert answered is not None
    assert completed is not None
    assert completed <= answered


@pytest.mark.slow
@given(totals, results)
@settings(max_examples=25, deadline=None)
def test_order_does_not_matter(counts: MessageTotals, rows: list[FeedRow]) -> None:
    """The same results in another order give the same report."""
    shuffled = sorted(rows, key=lambda row: row.result_guid)
    facts = build_facts((OUTLINE, counts))
    assert report_rows(facts, rows) == report_rows(facts, shuffled)
