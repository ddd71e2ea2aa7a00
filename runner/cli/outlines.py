"""Messages as a report names them: their texts as they read for nobody in particular."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from runner.campaign.include import include_folder
from runner.campaign.template import TextCompiler
from runner.report.facts import AnalysisPlan, MessageOutline, QuestionOutline, WayOutline

if TYPE_CHECKING:
    from collections.abc import Iterator

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
