"""Messages as a report names them: their texts as they read for nobody in particular."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from runner.campaign.flow import SCORED
from runner.campaign.include import include_folder
from runner.campaign.template import TextCompiler
from runner.report.facts import AnalysisPlan, MessageOutline, QuestionOutline, ScoreOutline, WayOutline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.campaign.model import Campaign, Message, Question


def outline_messages(campaign: Campaign) -> Iterator[MessageOutline]:
    """Yield a campaign's messages, in its order."""
    compiler = TextCompiler(include_folder(campaign))
    for message in campaign.messages:
        arms = campaign.list_arms(message.id) or {"": message}
        ways = tuple(_outline_way(campaign, compiler, arm, varied) for arm, varied in arms.items())
        base = _outline_way(campaign, compiler, "", message)
        questions = _merge_questions(base, *ways)
        yield MessageOutline(message.id, message.tag, questions, ways, _outline_analysis(campaign))


def _outline_analysis(campaign: Campaign) -> AnalysisPlan:
    analysis = None if campaign.variants is None else campaign.variants.analysis
    if analysis is None:
        return AnalysisPlan()
    return AnalysisPlan(date.fromisoformat(analysis.at) if analysis.at else None, analysis.per_arm)


def outline_score(campaign: Campaign, outlines: Sequence[MessageOutline]) -> ScoreOutline | None:
    """Return the question whose score is the campaign's, and the messages that ask it; None for none.

    It is the one that the campaign names, over all messages that ask it; else the first scored one that a
    message and its follow-ups ask on the same scale, over these.

    Args:
        campaign: the campaign.
        outlines: of its messages.
    """
    if campaign.score is not None:
        return next(_list_shared(outlines, campaign.score, least=1), None)
    families: dict[str, list[MessageOutline]] = {}
    first: dict[str, str] = {}
    for message, outline in zip(campaign.messages, outlines, strict=True):
        first[message.id] = first.get(message.after.message, message.id) if message.after else message.id
        families.setdefault(first[message.id], []).append(outline)
    shared = (found for family in families.values() for found in _list_shared(family))
    return next(shared, None)


def _list_shared(
    outlines: Sequence[MessageOutline], tag: str | None = None, least: int = 2
) -> Iterator[ScoreOutline]:
    """Yield scored questions that several messages ask on the same scale, in the messages' order."""
    questions = [question for outline in outlines for question in outline.questions]
    for question in questions:
        if question.scale not in SCORED or tag not in (None, question.tag):
            continue
        asking = tuple(
            outline.id
            for outline in outlines
            if any((one.tag, one.scale) == (question.tag, question.scale) for one in outline.questions)
        )
        if len(asking) >= least:
            yield ScoreOutline(question, asking)


def _merge_questions(*ways: WayOutline) -> tuple[QuestionOutline, ...]:
    """Return the questions of all ways, each tag once: as the message has it, else as the first arm does."""
    questions: dict[str, QuestionOutline] = {}
    for way in ways:
        for question in way.questions:
            questions.setdefault(question.tag, question)
    return tuple(questions.values())


def _outline_way(campaign: Campaign, compiler: TextCompiler, arm: str, message: Message) -> WayOutline:
    questions = (_outline_question(campaign, compiler, question) for question in message.questions)
    return WayOutline(arm, tuple(questions), message.introduction is not None, message.conclusion is not None)


def _outline_question(campaign: Campaign, compiler: TextCompiler, question: Question) -> QuestionOutline:
    ending = question.conclude_on
    return QuestionOutline(
        tag=question.tag,
        text=compiler.outline(question.text, campaign.vars),
        responses=tuple(compiler.outline(response, campaign.vars) for response in question.responses),
        scale=question.scale,
        conclude_on=compiler.outline(ending, campaign.vars) if ending else None,
    )
