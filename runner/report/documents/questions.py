"""Questions as blocks: one chart each, with its figures on it, and comments that people wrote to them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from runner.report.documents.wording import (
    NOT_DEFINED,
    is_freeform,
    name_score,
    write_certainty,
    write_number,
    write_percent,
    write_score,
    write_score_basis,
)
from runner.report.question_model import FEW_ANSWERS
from runner.view.blocks import (
    BAR,
    Bar,
    Beside,
    Column,
    Items,
    ListItem,
    Section,
    Sentence,
    Stack,
    StackPart,
    TableBlock,
)
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.report.model import CampaignReport
    from runner.report.question_model import CommentsReport, QuestionReport, QuotedComment, Score
    from runner.view.blocks import Block, Cell, Tone


MOST_QUESTIONS = 12
"""Questions that stand open on the page; with more of them each stands with its message, below a fold."""
_MOST_COMMENTS = 20
"""Comments on a question that stand open; the rest are folded."""
_TONES: tuple[Tone, ...] = ("bad", "poor", "middle", "fair", "good")
_PROMOTING: dict[str, Tone] = {
    str(number): "bad" if number <= 6 else "middle" if number <= 8 else "good"  # noqa: PLR2004  # Reichheld 2003
    for number in range(11)
}


def find_main_question(report: CampaignReport) -> QuestionReport | None:
    """Return the question that the page begins with: that of the campaign's score, or the first with one.

    Among many questions none is the main one, unless the campaign says so.
    """
    asked = [one.question for one in report.questions]
    scored = (one for one in asked if one.scale in ("nps", "csat", "ces") and len(asked) <= MOST_QUESTIONS)
    return report.scored_question or next(scored, None)


def find_score(report: CampaignReport) -> Score | None:
    """Return the score of the main question: None for a campaign without any."""
    main = find_main_question(report)
    return report.score or (None if main is None else main.score)


def show_main_question(question: QuestionReport, beside: Sequence[Block]) -> Iterator[Block]:
    """Yield the answers to the main question, and other blocks beside them.

    Its score is in a tile, with the answers that it rests on: these stand here only if they are others.
    """
    score = question.score
    if score is None or not _has_shares(question) or score.counted != question.answers:
        yield Sentence(write_basis(question), "quiet")
    details = _tabulate_answers(question)
    if question.csat is not None and question.answers and _has_shares(question):
        # A satisfaction scale has few points: one bar shows all of them.
        tones = zip(question.distribution, _choose_tones(question), strict=True)
        yield Stack([_make_part(one.label, one.count, question.answers, tone) for one, tone in tones])
        details = TableBlock((), ())
    yield from _draw_promoters(question)
    yield Beside([Section("", blocks) for blocks in ([details] if details.rows else [], beside) if blocks])


def show_question(question: QuestionReport) -> Section:
    """Return a question with its scores and its answers."""
    blocks: list[Block] = [Sentence(write_basis(question), "quiet")]
    for place, score in enumerate(question.scores):
        if score.counted:
            basis = "" if score.counted == question.answers else write_score_basis(score, question.scale)
            certainty = ", ".join(filter(None, (basis, write_certainty(score))))
            said = f"{name_score(score)} {write_score(score)}"
            blocks.append(Sentence(f"{said} ({certainty})" if certainty else said, "" if place else "strong"))
    median, numbers = question.median, question.numeric_answers or 0
    if median is not None and question.scale == "number" and numbers >= FEW_ANSWERS:
        said = str(int(median)) if median.denominator == 1 else write_number(median)
        whom = "them" if numbers == question.answers else f"these {numbers:,}"
        blocks.append(Sentence(f"Half of {whom} said {said} or less."))
    return Section(question.text, [*blocks, *_draw_promoters(question), _tabulate_answers(question)])


def _tabulate_answers(question: QuestionReport) -> TableBlock:
    """Return the responses as bars; shares of few answers are left out, since they say too much."""
    rows: list[list[Cell]] = []
    for one, tone in zip(question.distribution, _choose_tones(question), strict=True):
        share = [write_percent(one.share, question.answers)] if _has_shares(question) else []
        rows.append([one.label, Bar(one.share, tone), *share, one.count])
    head = ["Share"] if _has_shares(question) else []
    return TableBlock([Column("Answer", "text"), BAR, *head, "People"], rows if question.answers else [])


def _has_shares(question: QuestionReport) -> bool:
    return (question.answers or 0) >= FEW_ANSWERS


def _make_part(name: str, count: int, whole: int, tone: Tone) -> StackPart:
    share = Fraction(count, whole)
    return StackPart(name, count, share, write_percent(share, whole), tone)


def _draw_promoters(question: QuestionReport) -> Iterator[Stack]:
    nps = question.nps
    if nps is not None and nps.counted >= FEW_ANSWERS:
        parts = [
            _make_part("Detractors", nps.detractors, nps.counted, "bad"),
            _make_part("Passives", nps.passives, nps.counted, "middle"),
            _make_part("Promoters", nps.promoters, nps.counted, "good"),
        ]
        yield Stack(parts)


def _choose_tones(question: QuestionReport) -> list[Tone]:
    """Return a colour for each response, from bad to good where the scale says which end is good.

    Responses that the campaign does not have stand last, and have none.
    """
    shown = question.distribution
    known = sum(one.answer == str(place) for place, one in enumerate(shown, start=1))
    tones: list[Tone] = []
    if question.nps is not None:
        tones = [_PROMOTING.get(one.label, "") for one in shown[:known]]
    elif question.csat is not None and known > 1:
        tones = [_TONES[round(4 * number / (known - 1))] for number in range(known)]
        if shown[0].label in question.csat.top_two:
            tones.reverse()
    blank: list[Tone] = [""] * (len(shown) - len(tones))
    return [*tones, *blank]


def write_basis(question: QuestionReport) -> str:
    """Return how many answered, and what is not known of it."""
    if question.answers is None:
        return "It is not known how many answered: not all answers have been read yet."
    if not question.answers:
        return "No answers yet."
    words = " in people’s own words" if is_freeform(question) else ""
    return f"{count_words(question.answers, 'answer')}{words}"


def show_comments(report: CampaignReport) -> Iterator[Block]:
    """Yield what people wrote to each question, the newest first, if it was asked for."""
    found = report.comments
    if found is None:
        return
    by_question: dict[str, list[QuotedComment]] = {}
    for one in found.newest:
        by_question.setdefault(one.question, []).append(one)
    questions = {one.question.tag: one.question for one in report.questions}
    blocks: list[Block] = [Sentence(_write_summary(found), "quiet")]
    for tag, comments in by_question.items():
        shown = [_list(one, has_scores=_have_scores(found)) for one in comments]
        question = questions.get(tag)
        listed: list[Block] = [Items(shown[:_MOST_COMMENTS])]
        if question is not None and is_quoted(report, question):
            listed.insert(0, Sentence(write_basis(question), "quiet"))
        if shown[_MOST_COMMENTS:]:
            listed.append(Section("Older ones", [Items(shown[_MOST_COMMENTS:])], is_folded=True))
        blocks.append(Section(tag if question is None else question.text, listed))
    yield Section("In people’s own words", blocks)


def is_quoted(report: CampaignReport, question: QuestionReport) -> bool:
    """Return whether all that there is to show of a question is what people wrote, and that is shown."""
    quoted = () if report.comments is None else report.comments.newest
    return is_freeform(question) and any(one.question == question.tag for one in quoted)


def _write_summary(found: CommentsReport) -> str:
    if found.problem is not None:
        return f"{count_words(found.total, 'comment')} cannot be masked, so none are shown: {found.problem}."
    if not found.total and not found.left_out:
        return "Nobody wrote anything."
    order = "The newest first, each with the person’s score" if _have_scores(found) else "The newest first"
    words = f"{order}. Email addresses, phone numbers and people’s own names are masked."
    if found.is_audience_changed:
        words += " The list of people has changed since: names that are no longer on it are not masked."
    if more := found.total - len(found.newest):
        words += f" {count_words(more, 'older one is', 'older ones are')} only in the files of answers."
    if found.left_out:
        comments = count_words(found.left_out, "comment")
        words += f" Left out: {comments} of people who are no longer on the list."
    return words


def _have_scores(found: CommentsReport) -> bool:
    return any(one.score is not None for one in found.newest)


def _list(comment: QuotedComment, *, has_scores: bool) -> ListItem:
    score = NOT_DEFINED if comment.score is None else f"{float(comment.score):g}"
    return ListItem(comment.words, term=score if has_scores else "")
