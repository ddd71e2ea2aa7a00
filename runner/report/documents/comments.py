"""What people wrote, as blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.view.blocks import Items, ListItem, Section, Sentence
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.report.model import CampaignReport
    from runner.report.question_model import CommentsReport, QuotedComment
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
    texts = {one.question.tag: one.question.text for one in report.questions}
    blocks: list[Block] = [Sentence(_write_summary(found), "quiet")]
    for tag, comments in by_question.items():
        rest = comments[MOST_SHOWN:]
        listed: list[Block] = [Items([_list(one) for one in comments[:MOST_SHOWN]])]
        if rest:
            listed.append(Section("Older ones", [Items([_list(one) for one in rest])], is_folded=True))
        blocks.append(Section(texts.get(tag, tag), listed))
    yield Section("In people’s own words", blocks)


def _write_summary(found: CommentsReport) -> str:
    if found.problem is not None:
        return f"{count_words(found.total, 'comment')} cannot be masked, so none are shown: {found.problem}."
    if not found.total and not found.left_out:
        return "Nobody wrote anything."
    words = (
        "The newest first, each with the person’s score. E-mail addresses, phone numbers and people’s own "
        "names are masked."
    )
    if more := found.total - len(found.newest):
        words += f" {count_words(more, 'older one')} stand in files of answers with comments."
    if found.left_out:
        comments = count_words(found.left_out, "comment")
        words += f" Without {comments} of people who are no longer in the audience."
    return words


def _list(comment: QuotedComment) -> ListItem:
    return ListItem(comment.words, term="–" if comment.score is None else f"{float(comment.score):g}")
