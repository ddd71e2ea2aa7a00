"""Answers read as responses, by their text in any language or their line; and those that end a survey."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from runner.campaign.message_model import SCORED
from runner.campaign.scales import NO_POINT, read_points
from runner.source.normalize import fold_answer
from runner.source.quantity import read_leading_number, read_number

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from runner.campaign.message_model import Question, ResponseValue, Scale, TemplateText
    from runner.campaign.model import Campaign
    from runner.text.template import TextCompiler

    AnswerReader = Callable[[str, str, str, str], "AnswerValue | None"]
    """A reader of answers by question, message and arm (empty for none), and the service's response."""


class AnswerValue(NamedTuple):
    """An answer's response, as its label, and the value on the scale; None for what is not known."""

    label: str | None
    value: ResponseValue | None


class Endings:
    """The answers that end each message of a campaign, in every arm and language.

    Attributes:
        questions: the tags of the questions that they answer.
    """

    def __init__(self, campaign: Campaign, compiler: TextCompiler) -> None:
        self._last: set[tuple[str, str]] = set()
        self._concluding: dict[tuple[str, str], set[str]] = defaultdict(set)
        for message in campaign.messages:
            for sent in campaign.list_written(message):
                if sent.questions:
                    self._last.add((message.id, sent.questions[-1].tag))
                for question in sent.questions:
                    if question.conclude_on is not None:
                        responses = outline_responses(campaign, compiler, question)
                        endings = outline_all(campaign, compiler, question.conclude_on)
                        self._concluding[message.id, question.tag] |= find_endings(responses, endings)
        self.questions = frozenset(tag for _, tag in (*self._last, *self._concluding))

    def ends(self, message: str, question: str, response: str) -> bool:
        """Return whether an answer, as the service returns it, ends the survey of a message."""
        place = message, question
        return place in self._last or fold_answer(response) in self._concluding.get(place, ())


def outline_all(campaign: Campaign, compiler: TextCompiler, text: TemplateText) -> tuple[str, ...]:
    """Return a text's outline in each language, the default first; one if it is the same in all."""
    written = dict.fromkeys([text, *(one for _, one in text.by_language)])
    return tuple(dict.fromkeys(compiler.outline(one, campaign.vars) for one in written))


def outline_responses(
    campaign: Campaign, compiler: TextCompiler, question: Question
) -> tuple[tuple[str, ...], ...]:
    """Return the responses to a question, each in all languages, the default first."""
    return tuple(outline_all(campaign, compiler, response) for response in question.responses)


def find_places(responses: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return the places of responses by what is read as them, as `fold_answer` has it.

    These are their texts in all languages, and the numbers of their lines unless a response begins with the
    number of another line. What would mean two responses is none.
    """
    meant: dict[str, set[int]] = {}
    for place, texts in enumerate(responses):
        for text in texts:
            meant.setdefault(fold_answer(text), set()).add(place)
    numbers = {(place, read_leading_number(text)) for place, texts in enumerate(responses) for text in texts}
    if all(number in (None, place + 1) for place, number in numbers):
        for place in range(len(responses)):
            meant.setdefault(str(place + 1), {place})
    return {text: min(places) for text, places in meant.items() if len(places) == 1}


def find_endings(responses: Sequence[Sequence[str]], endings: Collection[str]) -> frozenset[str]:
    """Return what is read as an answer that ends the survey, as `fold_answer` has it.

    `endings` are its texts in all languages: all that is read as the response that they are ends it, too.
    """
    places, ending = find_places(responses), set(map(fold_answer, endings))
    meant = {places[text] for text in ending & places.keys()}
    offered = {fold_answer(text) for texts in responses for text in texts}
    return frozenset(ending - offered).union(text for text, place in places.items() if place in meant)


def build_value_reader(
    scale: Scale, responses: Sequence[Sequence[str]], values: Sequence[ResponseValue | None]
) -> Callable[[str], AnswerValue]:
    """Return the reader of answers to a question, by their `result_response`, or `result_answer` without one.

    `responses` are each in all languages, the default first: that one is the label.
    """
    labels = [texts[0] for texts in responses]
    points, places = read_points(scale, labels, values), find_places(responses)
    given = values or (None,) * len(responses)
    if scale not in SCORED:
        points = (None,) * len(responses)

    def read(response: str) -> AnswerValue:
        if not responses:
            return AnswerValue(None, read_number(response) if scale in SCORED else None)
        place = places.get(fold_answer(response))
        if place is None:
            return AnswerValue(None, None)
        return AnswerValue(labels[place], "none" if given[place] == NO_POINT else points[place])

    return read
