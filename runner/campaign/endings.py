"""Answers that end a survey: to its last question, or those that conclude it early."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from runner.campaign.answers import find_endings, outline_all, outline_responses
from runner.source.normalize import fold_answer

if TYPE_CHECKING:
    from runner.campaign.model import Campaign
    from runner.text.template import TextCompiler


class Endings:
    """The answers that end each message of a campaign, in every arm and language.

    Attributes:
        questions: the tags of the questions that they answer.
    """

    def __init__(self, campaign: Campaign, compiler: TextCompiler) -> None:
        self._last: set[tuple[str, str]] = set()
        self._concluding: dict[tuple[str, str], set[str]] = defaultdict(set)
        for message in campaign.messages:
            for sent in (message, *campaign.list_arms(message.id).values()):
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
