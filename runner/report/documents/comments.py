"""Comments, which people wrote to questions, as blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.report.documents.questions import write_basis
from runner.report.documents.wording import NOT_DEFINED, is_freeform
from runner.view.blocks import Items, ListItem, Section, Sentence
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.report.model import CampaignReport
    from runner.report.question_model import CommentsReport, QuestionReport, QuotedComment
    from runner.view.blocks import Block

MOST_SHOWN = 20
"""Comments on a question that stand open; the rest are folded."""


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
        listed: list[Block] = [Items(shown[:MOST_SHOWN])]
        if question is not None and is_quoted(report, question):
            listed.insert(0, Sentence(write_basis(question), "quiet"))
        if shown[MOST_SHOWN:]:
            listed.append(Section("Older ones", [Items(shown[MOST_SHOWN:])], is_folded=True))
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
        words += " The list of people has changed since texts were sent: names that it lost are not masked."
    if more := found.total - len(found.newest):
        words += f" {count_words(more, 'older one is', 'older ones are')} only in the files of answers."
    if found.left_out:
        comments = count_words(found.left_out, "comment")
        words += f" Without {comments} of people who are no longer in the audience."
    return words


def _have_scores(found: CommentsReport) -> bool:
    return any(one.score is not None for one in found.newest)


def _list(comment: QuotedComment, *, has_scores: bool) -> ListItem:
    score = NOT_DEFINED if comment.score is None else f"{float(comment.score):g}"
    return ListItem(comment.words, term=score if has_scores else "")
