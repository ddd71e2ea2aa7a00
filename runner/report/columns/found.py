"""Which results there are, and of how many participants."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.report.columns.questions import list_asked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from runner.report.columns.engine import Engine
    from runner.report.columns.groups import Groups
    from runner.report.columns.questions import Asked
    from runner.report.facts import MessageOutline
    from runner.report.tally import MessageTally

FOUND = "SELECT message, refuses, arm, question_tag, count(*) AS n FROM results GROUP BY ALL"
PARTICIPANTS = (
    "SELECT '' AS everybody, count(DISTINCT person) AS n FROM results SEMI JOIN names USING (message) "
    "WHERE NOT refuses"
)


@dataclass(frozen=True, slots=True)
class Found:
    """Which results there are.

    Attributes:
        messages: answers by arm and question tag, by the id under which they are entered, by message.
        refusals: results that opt out, by message.
        strays: results of messages that the campaign does not have.
    """

    messages: Mapping[str, Mapping[str, Counter[tuple[str, str]]]]
    refusals: Mapping[str, int]
    strays: int

    def list_names(self, message: str) -> list[str]:
        """Return the ids under which a message has results."""
        return list(self.messages.get(message, {}))

    def list_asked(self, outline: MessageOutline) -> Asked:
        """Return what was asked of a message."""
        found = sum(self.messages.get(outline.id, {}).values(), Counter[tuple[str, str]]())
        return list_asked(outline, found, self.refusals.get(outline.id, 0))


def find_results(groups: Groups, wanted: Collection[str], message_ids: Mapping[str, str]) -> Found:
    """Return which results there are.

    Args:
        groups: of all results.
        wanted: the ids of the campaign's messages.
        message_ids: as for `count_campaign`.
    """
    messages: dict[str, dict[str, Counter[tuple[str, str]]]] = {}
    refusals: Counter[str] = Counter()
    strays = 0
    for message, refuses, arm, tag, count in groups.rows(FOUND):
        now = message_ids.get(message, message)
        if now not in wanted:
            strays += count
            continue
        names = messages.setdefault(now, {}).setdefault(message, Counter())
        if refuses:
            refusals[now] += count
        else:
            names[arm, tag] += count
    return Found(messages, refusals, strays)


def list_all_names(found: Found) -> list[str]:
    """Return the ids under which the campaign's messages have results."""
    return [name for names in found.messages.values() for name in names]


def count_participants(groups: Groups, found: Found, messages: Mapping[str, MessageTally]) -> int:
    """Return how many participants there are; those of several messages once.

    Args:
        groups: with the ids of all messages in the table `names`.
        found: which results there are.
        messages: what was counted.
    """
    if len(found.messages) <= 1:
        # Everybody has one path through a message.
        return sum(sum(messages[message].paths.values()) for message in found.messages)
    return sum(int(count) for _, count in groups.rows(PARTICIPANTS))


def name_message(engine: Engine, names: Iterable[str]) -> None:
    """Make the table `names`: the ids under which what is counted next is entered."""
    engine.run("CREATE OR REPLACE TEMP TABLE names AS SELECT unnest(?::VARCHAR[]) AS message", [list(names)])
