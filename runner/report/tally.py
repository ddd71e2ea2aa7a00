"""One pass over the results: for each participant and question the latest answer, and nothing more."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runner.report.answers import AnswerReader, Reading, build_reader

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from runner.ledger.model import ResultRow
    from runner.report.facts import MessageOutline


class QuestionTally:
    """The latest answer of each participant to one question of one message.

    Attributes:
        texts: how often each text was asked; kept only for a question that the campaign does not have.
    """

    def __init__(self, reader: AnswerReader, *, is_known: bool) -> None:
        self._reader = reader
        self._is_known = is_known
        # Two flat mappings, and created and guid as one text that sorts alike: a third less memory than a
        # mapping to tuples, and nothing for the garbage collector to walk.
        self._ranks: dict[int, str] = {}
        self._readings: dict[int, Reading] = {}
        self.texts: Counter[str] = Counter()

    def add(self, participant: int, row: ResultRow) -> None:
        """Take one result in: of several of a participant the latest by (created, guid) stays."""
        rank = f"{row.created}\0{row.guid}"
        if rank > self._ranks.get(participant, ""):
            self._ranks[participant] = rank
            self._readings[participant] = self._reader.read(row.answer, row.response)
        if not self._is_known:
            self.texts[row.question_text] += 1

    @property
    def participants(self) -> AbstractSet[int]:
        """The participants who answered."""
        return self._readings.keys()

    def list_concluded(self) -> set[int]:
        """Return the participants whose answer ended the survey."""
        return {number for number, reading in self._readings.items() if reading.concludes}

    def count_readings(self) -> Counter[Reading]:
        """Return how many participants gave each answer."""
        return Counter(self._readings.values())


class MessageTally:
    """The answers to one message.

    Attributes:
        results: results seen, earlier answers of the same participant among them.
        questions: by tag; those of the campaign first and in its order, then those that only results know.
    """

    def __init__(self, outline: MessageOutline) -> None:
        self.results = 0
        self.questions = {
            question.tag: QuestionTally(build_reader(question), is_known=True)
            for question in outline.questions
        }

    def add(self, participant: int, row: ResultRow) -> None:
        """Take one result in."""
        self.results += 1
        question = self.questions.get(row.question_tag)
        if question is None:
            question = QuestionTally(build_reader(None), is_known=False)
            self.questions[row.question_tag] = question
        question.add(participant, row)

    def list_participants(self) -> set[int]:
        """Return the participants with at least one result."""
        return set().union(*(question.participants for question in self.questions.values()))


class CampaignTally:
    """The answers to a campaign.

    Attributes:
        messages: by id.
        strays: results of messages that the campaign does not have.
    """

    def __init__(self, outlines: Iterable[MessageOutline]) -> None:
        self.messages = {outline.id: MessageTally(outline) for outline in outlines}
        self.strays = 0
        # Participants get numbers, so that a pseudonym is held once however many questions it answered.
        self._numbers: dict[str, int] = {}

    def add_all(self, results: Iterable[ResultRow]) -> None:
        """Take results in, once and in any order; memory grows with participants and questions alone."""
        numbers = self._numbers
        for row in results:
            message = self.messages.get(row.message)
            if message is None:
                self.strays += 1
                continue
            message.add(numbers.setdefault(row.participant, len(numbers)), row)

    def count_participants(self) -> int:
        """Return how many distinct participants have at least one result."""
        return len(self._numbers)
