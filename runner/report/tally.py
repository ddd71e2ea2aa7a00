"""What was counted in a campaign's results: groups and how many are in each. The input of the metrics.

All of it merges by addition, so that parts of the results can be counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date

    from runner.report.answers import Reading

Paths = Mapping[tuple[str, str], int]
"""Participants by arm and path. A path has a character for each question of the message, in its order:
`-` not answered, `a` answered, `c` answered in a way that ends the survey. Of several answers of one
participant to one question the latest counts, here and everywhere."""


@dataclass(frozen=True, slots=True)
class QuestionTally:
    """The answers to one question of one message.

    Attributes:
        readings: participants by arm and by what was kept of their answer.
        texts: how often each text was asked; only of a question that the campaign does not have.
        lengths: participants by the characters of an answer in their own words.
        words: participants by word, of answers in their own words; rare words are not among them.
        gaps_s: participants by the seconds from the answer before it, or from the launch, whole ones.
    """

    readings: Mapping[tuple[str, Reading], int] = field(default_factory=dict)
    texts: Mapping[str, int] = field(default_factory=dict)
    lengths: Mapping[int, int] = field(default_factory=dict)
    words: Mapping[str, int] = field(default_factory=dict)
    gaps_s: Mapping[int, int] = field(default_factory=dict)

    @property
    def answers(self) -> int:
        """Participants who answered."""
        return sum(self.readings.values())

    def count_readings(self, arm: str | None = None) -> Counter[Reading]:
        """Return the participants by reading; of one arm if it is named."""
        found: Counter[Reading] = Counter()
        for (one, reading), count in self.readings.items():
            if arm is None or arm == one:
                found[reading] += count
        return found


@dataclass(frozen=True, slots=True)
class GroupTally:
    """The participants of one group of the audience.

    Attributes:
        sent: recipients of accepted launches.
        paths: as in `MessageTally`.
        readings: by question tag, as in `QuestionTally`.
    """

    sent: int = 0
    paths: Paths = field(default_factory=dict)
    readings: Mapping[str, Mapping[Reading, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DayTally:
    """What came on one day, UTC."""

    first_answers: int = 0
    answers: int = 0


@dataclass(frozen=True, slots=True)
class MessageTally:
    """The answers to one message.

    Attributes:
        results: all of them, earlier answers of the same participant among them.
        refusals: those of them that opt out, and are no answers.
        paths: participants by arm and path.
        questions: by tag; those of the campaign in its order, then those that only results know.
        unlisted: further questions that only results know, and that are too many to look at.
        first_s: participants by the whole seconds from the start of the launch to their first answer.
        days: by date, UTC.
        groups: by the value of the column that was asked for, and by column.
        arm_days: participants by arm and the day of their first answer, UTC; of a message with arms. Whose
            answers have no time that can be read is on the first day of 1970.
    """

    results: int = 0
    refusals: int = 0
    paths: Paths = field(default_factory=dict)
    questions: Mapping[str, QuestionTally] = field(default_factory=dict)
    unlisted: int = 0
    first_s: Mapping[int, int] = field(default_factory=dict)
    days: Mapping[date, DayTally] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, GroupTally]] = field(default_factory=dict)
    arm_days: Mapping[tuple[str, date], int] = field(default_factory=dict)

    @property
    def participants(self) -> int:
        """Participants with at least one result."""
        return sum(self.paths.values())


@dataclass(frozen=True, slots=True)
class CampaignTally:
    """The answers to a campaign.

    Attributes:
        messages: by id.
        participants: with at least one result, over all messages.
        strays: results of messages that the campaign does not have.
        pooled: participants by the message that has their latest answer to the question of the campaign's
            score, and by what was kept of that answer.
    """

    messages: Mapping[str, MessageTally] = field(default_factory=dict)
    participants: int = 0
    strays: int = 0
    pooled: Mapping[tuple[str, Reading], int] = field(default_factory=dict)
