"""From results to numbers: what counts, what does not, and what is undefined."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from runner.ledger.report_model import FeedRow, MessageTotals
from runner.report.breakdowns import OWN_WORDS_LABEL
from runner.report.documents.formats import WRITERS
from runner.report.facts import (
    MessageOutline,
    QuestionOutline,
)
from runner.report.people_model import Dispositions
from tests.report.counted import build_facts, make_contact, make_row, report_rows
from tests.report.sample import replace

if TYPE_CHECKING:
    from runner.report.model import CampaignReport, MessageReport
    from runner.report.question_model import Scale

FIRST = QuestionOutline("first", "First?", ("Yes", "No"), endings=("No",))
SECOND = QuestionOutline("second", "Second?", ("Red", "Green", "Blue"))
WORDS = QuestionOutline("words", "Why?", scale="text")
SURVEY = MessageOutline("ask", "tag", (FIRST, SECOND, WORDS))
TOTALS = MessageTotals("ask", launches=1, sent=10, complete=10, reconciled_at="2026-11-20T12:34:56Z")


def report_of(outline: MessageOutline, totals: MessageTotals, *results: FeedRow) -> MessageReport:
    """Return the report of one message, of as many people as the service counts, the queued ones last."""
    totals = replace(totals, results=len(results))
    names = [*dict.fromkeys(row.participant for row in results), *map(str, range(totals.sent))][: totals.sent]
    begun = totals.sent - (totals.queued or 0)
    contacts = [
        make_contact(name, "COMPLETE" if number < begun else "QUEUED", message=outline.id)
        for number, name in enumerate(names)
    ]
    return report_rows(build_facts((outline, totals)), results, contacts).messages[0]


def count_labels(message: MessageReport, question: int) -> list[tuple[str, str, int]]:
    return [(row.answer, row.label, row.count) for row in message.questions[question].distribution]


def test_a_funnel_follows_who_answered_without_concluding() -> None:
    """Each further question was asked of those who answered the one before without concluding."""
    message = report_of(
        SURVEY,
        replace(TOTALS, queued=2, complete=8),
        *(make_row(f"p{number}", "first", "Yes") for number in range(4)),
        *(make_row(f"q{number}", "first", "No", "2") for number in range(2)),
        *(make_row(f"p{number}", "second", "Red") for number in range(3)),
        make_row("p0", "words", "because", "because"),
    )
    funnel = [(question.asked, question.answers, question.answer_rate) for question in message.questions]
    assert funnel == [
        (8, 6, Fraction(3, 4)),
        (4, 3, Fraction(3, 4)),
        (3, 1, Fraction(1, 3)),
    ]
    assert (message.texted, message.participants_answered, message.response_rate) == (8, 6, Fraction(6, 8))
    assert (message.participants_completed, message.completion_rate) == (3, Fraction(1, 2))
    assert message.discrepancies == ()


def test_nobody_is_asked_whom_an_earlier_opt_out_blocks() -> None:
    """Blocked sessions begin with no render: they were not asked."""
    totals = replace(TOTALS, renders=9)
    contacts = [make_contact(f"p{number}") for number in range(8)]
    contacts += [make_contact(f"b{number}", "COMPLETE", "stopped", "blocked") for number in range(2)]
    rows = [make_row(f"p{number}", "first", "No", "2") for number in range(2)]
    report = report_rows(build_facts((SURVEY, totals)), rows, contacts)
    message, people = report.messages[0], report.people
    assert (message.questions[0].asked, message.texted, message.response_rate) == (8, 8, Fraction(2, 8))
    assert (people.sent, people.blocked, people.texted, people.response_rate) == (10, 2, 8, Fraction(2, 8))


def test_where_question_orders_begin_changes_no_figure() -> None:
    """Orders that count from 1, from 0, or from either in one ledger, report the same, in the campaign's order."""
    asked = [("p", "words", "because"), ("p", "second", "Red"), ("p", "first", "Yes"), ("q", "gone", "once")]
    rows = [make_row(who, tag, said, guid=tag) for who, tag, said in asked]
    orders = [(3, 2, 1, 4), (2, 1, 0, 3), (3, 1, 0, 4)]
    reports = [
        report_of(
            SURVEY,
            TOTALS,
            *(row._replace(question_display_order=n) for row, n in zip(rows, given, strict=True)),
        )
        for given in orders
    ]
    assert [question.tag for question in reports[0].questions] == ["first", "second", "words"]
    assert reports[0] == reports[1] == reports[2]


def test_the_latest_answer_counts() -> None:
    """Of several answers of one participant the latest by (time, guid) counts, in any order."""
    rows = (
        make_row("p", "second", "Red", created="2026-11-20T10:00:00.000001"),
        make_row("p", "second", "Green", created="2026-11-20T10:00:00.000002", guid="a"),
        make_row("p", "second", "Blue", created="2026-11-20T10:00:00.000002", guid="b"),
        make_row("p", "second", "Red", created="2026-11-19T23:59:59.999999", guid="z"),
    )
    for ordered in (rows, rows[::-1]):
        message = report_of(SURVEY, TOTALS, *ordered)
        assert count_labels(message, 1) == [("1", "Red", 0), ("2", "Green", 0), ("3", "Blue", 1)]
        assert (message.results, message.questions[1].answers) == (4, 1)


def test_an_edited_answer_takes_its_conclusion_back() -> None:
    """Who first ended the survey and then answered otherwise has not reached the end."""
    concluded = make_row("p", "first", "No", created="2026-11-20T10:00:00")
    corrected = make_row("p", "first", "Yes", created="2026-11-20T10:01:00")
    assert report_of(SURVEY, TOTALS, concluded).participants_completed == 1
    assert report_of(SURVEY, TOTALS, corrected, concluded).participants_completed == 0


def test_gaps_never_exceed_a_whole() -> None:
    """An answer whose predecessor is missing counts as asked."""
    message = report_of(SURVEY, TOTALS, make_row("p", "first", "Yes"), make_row("q", "second", "Red"))
    assert (message.questions[1].asked, message.questions[1].answers) == (2, 1)


def test_responses_the_campaign_does_not_have_are_appended() -> None:
    """Responses of an earlier edition stand at the end, most chosen first, as the service gave them."""
    message = report_of(
        SURVEY,
        TOTALS,
        make_row("p1", "second", "blue", "3"),
        make_row("p2", "second", "Mauve", "5"),
        make_row("p3", "second", "Amber", "4"),
        make_row("p4", "second", "Amber", "4"),
        make_row("p5", "second", "I am Ada Lovelace", "I am Ada Lovelace"),
    )
    assert count_labels(message, 1) == [
        ("1", "Red", 0),
        ("2", "Green", 0),
        ("3", "Blue", 1),
        ("4", "Amber (not in the campaign)", 2),
        ("", OWN_WORDS_LABEL, 1),
        ("5", "Mauve (not in the campaign)", 1),
    ]


def test_answers_to_questions_the_campaign_does_not_have_are_counted_alone() -> None:
    """Who gave them has answered; the tags are named, and no text of theirs is shown."""
    rows = [make_row("p", "old", "Tea", guid="1"), make_row("p", "+14155550123", "x", guid="2")]
    rows += [make_row("q", "old", "my own", "my own", guid="3")]
    message = report_of(SURVEY, TOTALS, *rows)
    assert [question.tag for question in message.questions] == ["first", "second", "words"]
    assert (message.participants_answered, message.results) == (2, 3)
    assert message.discrepancies == (
        "Answers to questions that the campaign does not have (“+14•••••••23”, “old”), left out here: 3.",
    )


def test_phones_in_a_campaign_s_own_texts_are_masked_everywhere() -> None:
    """A number in a question, a response or a scale's end is shown in no document."""
    asked = QuestionOutline("q", "Call 415-555-0123?", ("No", "Maybe", "On +14155550199"), "csat")
    outline = MessageOutline("ask", "tag", (asked,))
    facts = build_facts((outline, replace(TOTALS, results=1)))
    report = report_rows(facts, [make_row("p", "q", "On +14155550199", "3")])
    assert report.messages[0].questions[0].distribution[2].count == 1
    for _, write in WRITERS.values():
        text = write(report)
        assert "555-01" not in text
        assert "55501" not in text
        assert "+14•" in text


@pytest.mark.parametrize("outline", [SURVEY, MessageOutline("ask", "tag")])
def test_nothing_sent_leaves_rates_undefined(outline: MessageOutline) -> None:
    """Without sends and answers there are zeros and no rates, never a division by zero."""
    message = report_of(outline, MessageTotals("ask"))
    assert (message.sent, message.participants_answered or 0, message.results) == (0, 0, 0)
    assert (message.response_rate, message.completion_rate) == (None, None)
    assert [question.answer_rate for question in message.questions] == [None] * len(outline.questions)
    assert {row.share for question in message.questions for row in question.distribution} <= {None}
    assert message.discrepancies == ()


def test_each_person_counts_by_their_own_session() -> None:
    """Whose session has ended in silence is a non-contact; open ones are unknown, opt-outs are refusals."""
    contacts = [
        *(make_contact(f"{who}{number}") for who in "qp" for number in range(2)),
        *(make_contact(f"e{number}") for number in range(3)),
        *(make_contact(f"r{number}", "COMPLETE", "replaced") for number in range(2)),
        *(make_contact(f"s{number}", "COMPLETE", "stopped") for number in range(2)),
        make_contact("open", "ACTIVE"),
        make_contact("unlisted", "", is_listed="0"),
        make_contact("unknown", "", is_sent="0", is_listed="0"),
        make_contact("queued", "QUEUED"),
    ]
    rows = (
        *(make_row(f"q{number}", "first", "No", "2") for number in range(2)),
        *(make_row(f"p{number}", "first", "Yes") for number in range(2)),
    )
    totals = replace(TOTALS, sent=14, queued=1, active=1, complete=11, unresolved=1, results=len(rows))
    people = report_rows(build_facts((SURVEY, totals)), rows, contacts).people
    assert people.dispositions == Dispositions(2, 2, 2, 3, 0, 4, 2)
    assert (people.recipients, people.sent, people.texted, people.queued) == (15, 14, 13, 1)
    assert (people.open, people.is_interim, people.opted_out, people.replaced) == (2, True, 2, 2)
    assert people.response_rate_without_replaced == Fraction(4, 11)
    assert people.rates is not None
    assert (people.rates.rr2, people.rates.rr6, people.rates.e) == (Fraction(4, 15), None, Fraction(1))
    assert people.rates.coop2 == Fraction(4, 6)


@pytest.mark.parametrize(
    "totals",
    [
        # The service counts sessions that it does not list: how they stand is not known.
        replace(TOTALS, complete=11),
        replace(TOTALS, active=None),
    ],
)
def test_dispositions_are_not_known_of_sessions_that_are_not_listed(totals: MessageTotals) -> None:
    """People are counted; how many of them were replaced, or refused, is not known."""
    people = report_rows(build_facts((SURVEY, totals)), (), map(make_contact, "abcdefghij")).people
    assert (people.texted, people.answered, people.dispositions, people.replaced) == (10, 0, None, None)


def test_people_are_not_known_that_a_record_only_counts() -> None:
    """Of a lockfile that counts people, nobody can be said to be the same person."""
    people = report_rows(build_facts((SURVEY, TOTALS)), (), map(make_contact, "abc")).people
    assert (people.texted, people.response_rate, people.dispositions) == (None, None, None)


def test_a_later_survey_decides_who_was_replaced() -> None:
    """A reminder that takes the place of its survey replaces nobody; a text of another campaign does."""
    remind = replace(SURVEY, id="remind")
    contacts = [
        make_contact("a", "COMPLETE", "replaced"),
        make_contact("a", message="remind", began="2026-11-21T09:00:00"),
        make_contact("b"),
        make_contact("b", "COMPLETE", "replaced", message="remind", began="2026-11-21T09:00:00"),
    ]
    totals = replace(TOTALS, sent=2, complete=2)
    facts = build_facts((SURVEY, totals), (remind, replace(totals, message="remind")))
    people = report_rows(facts, (), contacts).people
    assert people.dispositions == Dispositions(non_contact=1, replaced=1)


def test_a_plain_text_has_no_response_rate() -> None:
    """A message that asks nothing is sent, and cannot be answered."""
    message = report_of(MessageOutline("ask", "tag"), TOTALS)
    assert (message.response_rate, message.completion_rate, message.questions) == (None, None, ())
    assert (message.participants_answered, message.participants_completed) == (None, None)


def test_more_answers_than_sends_is_said_instead_of_a_rate() -> None:
    """When more answered than were sent to there is no rate above 1 but a sentence."""
    totals = replace(TOTALS, sent=1, complete=1)
    message = report_of(SURVEY, totals, make_row("p", "first", "Yes"), make_row("q", "first", "Yes"))
    assert message.response_rate is None
    assert message.questions[0].asked == 2
    assert "No response rate is given." in message.discrepancies[0]


def test_too_many_results_come_with_a_remedy() -> None:
    """What the ledger has beyond the service's count can be looked for, and removed."""
    facts = build_facts((SURVEY, replace(TOTALS, results=0)))
    (sentence,) = report_rows(facts, [make_row("p", "first", "Yes")]).messages[0].discrepancies
    assert sentence == (
        "Results that the service counts: 0; in the ledger: 1. “runner reconcile --full” looks which are not "
        "listed any more; “--drop-unlisted” removes them."
    )


def test_counts_are_compared_with_the_service_once_reconciled() -> None:
    """Results and sessions that the service counts otherwise are told, but not before reconciling."""
    totals = replace(TOTALS, active=1, results=7)
    facts = build_facts((SURVEY, totals))
    rows = [make_row("p", "first", "Yes")]
    assert report_rows(facts, rows).messages[0].discrepancies == (
        "Results that the service counts: 7; in the ledger: 1.",
        "Sessions that the service has: 11; recipients that were sent to: 10.",
    )
    # One of those whom the service counts was forgotten here.
    forgotten = build_facts((SURVEY, replace(totals, results=1)), forgotten=1)
    assert report_rows(forgotten, rows).messages[0].discrepancies == ()
    early = build_facts((SURVEY, replace(totals, reconciled_at=None)))
    assert report_rows(early, rows).messages[0].discrepancies == ()


@pytest.mark.parametrize(
    ("scale", "responses", "chosen", "mean", "median"),
    [
        ("number", (), ("1", "2", "4", "lots"), Fraction(7, 3), Fraction(2)),
        ("number", ("1", "10"), ("1", "10"), Fraction(11, 2), Fraction(11, 2)),
        ("ces", ("hard", "so-so", "easy"), ("Easy", "easy", "hard"), Fraction(7, 3), Fraction(3)),
        ("csat", ("1", "2", "3", "4", "5"), ("5", "5", "4", "1"), Fraction(15, 4), Fraction(9, 2)),
        ("csat", ("bad", "fair", "good"), ("words",), None, None),
        ("number", (), (), None, None),
    ],
)
def test_means_stand_on_answers_that_read_as_numbers(
    scale: Scale,
    responses: tuple[str, ...],
    chosen: tuple[str, ...],
    mean: Fraction | None,
    median: Fraction | None,
) -> None:
    """Numbers count as themselves, words of a scale as their places, other words not at all."""
    outline = MessageOutline("ask", "tag", (QuestionOutline("q", "?", responses, scale),))
    rows = [make_row(f"p{number}", "q", text, text) for number, text in enumerate(chosen)]
    numbers = report_of(outline, TOTALS, *rows).questions[0]
    assert numbers.numeric_answers is not None
    assert (numbers.mean, numbers.median) == (mean, median)


def test_freeform_scores_count_without_showing_texts() -> None:
    """A freeform question on the nps scale has a score and no distribution."""
    outline = MessageOutline("ask", "tag", (QuestionOutline("q", "0 to 10?", scale="nps"),))
    rows = [
        make_row(f"p{number}", "q", text, text)
        for number, text in enumerate(("10", " 9", "0", "dunno", "11"))
    ]
    question = report_of(outline, TOTALS, *rows).questions[0]
    assert question.distribution == ()
    assert question.nps is not None
    assert (question.answers, question.nps.counted, question.nps.score) == (5, 3, Fraction(100, 3))


def report_times(*reconciled: tuple[int, str | None]) -> CampaignReport:
    messages = tuple(
        (
            MessageOutline(str(place), "tag"),
            MessageTotals(str(place), launches=launches, unread=0 if time else launches, reconciled_at=time),
        )
        for place, (launches, time) in enumerate(reconciled)
    )
    return report_rows(build_facts(*messages), ())


def test_a_report_is_as_old_as_its_oldest_message() -> None:
    """The report's time is the earliest of what was read, in UTC, and it says how much that is."""
    early, late = (1, "2026-11-20T12:34:56+02:00"), (1, "2026-11-20T11:00:00")
    assert report_times(late, early).reconciled_at == datetime(2026, 11, 20, 10, 34, 56, tzinfo=UTC)
    assert report_times(late, (0, None)).reconciled_at == datetime(2026, 11, 20, 11, tzinfo=UTC)
    partly = report_times(late, (1, None))
    assert partly.reconciled_at == datetime(2026, 11, 20, 11, tzinfo=UTC)
    assert (partly.launches, partly.unread_launches, partly.people.answered) == (2, 1, None)
    assert report_times((1, None)).reconciled_at is None
    assert report_times().reconciled_at is None


def test_results_of_other_messages_are_left_out_and_told() -> None:
    """Results whose message the campaign does not have change no figure, and are said to be left out."""
    stray = make_row("p", "first", "Yes", message="gone")
    report = report_rows(build_facts((SURVEY, TOTALS)), iter([stray]))
    assert report.people.answered == report.messages[0].results == 0
    assert report.discrepancies == ("Results of messages that the campaign does not have, left out here: 1.",)


def test_people_are_counted_once_over_all_messages() -> None:
    """Who answered two messages is one participant of the campaign."""
    follow_up = replace(SURVEY, id="more")
    facts = build_facts((SURVEY, TOTALS), (follow_up, replace(TOTALS, message="more")))
    row = make_row("p", "first", "Yes")
    report = report_rows(facts, [row, row._replace(message="more")])
    assert report.people.answered == 1
    assert [message.participants_answered for message in report.messages] == [1, 1]


@pytest.mark.parametrize(("queued", "asked"), [(0, 2), (None, None)])
def test_a_question_of_several_messages_is_asked_of_whom_all_of_them_know(
    queued: int | None, asked: int | None
) -> None:
    """Where it is not known who got one of the messages, it is not known who was asked by both."""
    totals = replace(TOTALS, sent=2, complete=2)
    again = (replace(SURVEY, id="more"), replace(totals, message="more", queued=queued))
    contacts = [make_contact(person, message=message) for person in "pq" for message in ("ask", "more")]
    facts = build_facts((SURVEY, totals), again)
    report = report_rows(facts, [make_row("p", "first", "Yes")], contacts=contacts)
    assert (report.questions[0].question.asked, report.questions[0].question.answers) == (asked, 1)


def test_of_sends_whose_outcome_is_not_known_no_figure_is_zero() -> None:
    """As long as no launch is known to have been accepted, nothing is known of people, and figures may change."""
    contacts = [make_contact("lost", "", is_sent="0", is_read="0", is_listed="0", was_texted="")]
    report = report_rows(build_facts((SURVEY, MessageTotals("ask", unresolved=1))), (), contacts=contacts)
    people, (message,) = report.people, report.messages
    assert (people.recipients, people.unresolved, people.is_interim) == (1, 1, True)
    assert {people.texted, people.answered, people.completed, people.opted_out, people.open} == {None}
    assert (people.rates, people.dispositions) == (None, None)
    assert {message.texted, message.participants_answered, message.results, message.opt_outs} == {None}
    partly = [*contacts, make_contact("p", "COMPLETE")]
    totals = replace(TOTALS, sent=1, complete=1, unresolved=1)
    people = report_rows(build_facts((SURVEY, totals)), (), contacts=partly).people
    assert (people.texted, people.answered, people.is_interim) == (1, 0, True)
