"""Follow-ups that go by answers: what must have been read before they go, and whose answer is meant.

A person's answer to a question is the latest one over all messages that ask it. The `wait` counts from the
service's time of it. One that cannot be, in the future or unreadable, was given by the time it was read; and
none was given before its message was sent.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from runner.campaign.conditions import AnswerTest
from runner.campaign.message_model import AnswerCondition
from runner.plan.decisions import Decision, Follow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from runner.campaign.answers import AnswerValue
    from runner.campaign.message_model import After, Message
    from runner.campaign.model import Campaign
    from runner.ledger.model import RecordedDeliveries
    from runner.ledger.people.history import EarlierAnswer, EarlierLaunch, EarlierMessage
    from runner.plan.plan_context import PlanContext
    from runner.text.payload import CompiledMessage

UNREAD = "whether they have answered was not read since the `wait` was over: run `runner reconcile` first"
"""The reason to wait when a recipient's replies may be unread."""
DIFFERS = "whether they have answered is not certain, the service contradicts itself:"
"""The beginning of the reason to wait when the service counts more answers than it lists."""
PRUNED = "whether they have answered is not known: the answers were pruned (`policy.retention`)"
"""The reason to wait when answers are not kept any more."""
_WAY_PAST = (
    "`runner reconcile` looks again, `runner reconcile --accept-differences` takes what is listed for all"
)
_UNRESOLVED = "they may have answered another message whose outcome is not known: `runner resolve` shows it"


def describe_unread(launch: EarlierLaunch, earlier: EarlierMessage) -> str:
    """Return the reason to wait for answers to a launch that are not known."""
    if launch.are_pruned:
        return PRUNED
    if launch.differs and earlier.differences is not None:
        return f"{DIFFERS} {earlier.differences}; {_WAY_PAST}"
    return UNREAD


class _Ask(NamedTuple):
    """A message that a person was asked by, with its launch, and their answer if any is known."""

    message: EarlierMessage
    launch: EarlierLaunch
    answer: EarlierAnswer | None

    @property
    def is_dated(self) -> bool:
        """True if the answer has a time that can be."""
        read_at = self.launch.reconciled_at
        at = None if self.answer is None else self.answer.at
        # With a difference, answers were read after the time as of which all are known.
        return at is not None and (read_at is None or self.launch.differs or at <= read_at)

    @property
    def answered_at(self) -> datetime:
        """The time that counts as that of the answer."""
        sent_at, read_at = self.launch.sent_at, self.launch.reconciled_at
        if self.is_dated and self.answer is not None and self.answer.at is not None:
            return max(self.answer.at, sent_at)
        return read_at or sent_at


def _find_latest(asked: Sequence[_Ask]) -> _Ask | None:
    answered = [one for one in reversed(asked) if one.answer is not None]
    return max(answered, key=lambda one: one.answered_at, default=None)


class AnswerRule:
    """The rule of one follow-up whose recipients have answered a question with certain values.

    Args:
        index: the follow-up's place among the planned messages.
        places: those of the messages that ask the question, by id; None for one that is not planned.

    Attributes:
        least_wait: the least time between the message that it comes after and the follow-up.
    """

    def __init__(
        self,
        campaign: Campaign,
        index: int,
        condition: AnswerCondition,
        after: After,
        places: Mapping[str, int | None],
        known: RecordedDeliveries,
        context: PlanContext,
    ) -> None:
        self._index = index
        self._question = condition.question
        self._wait = after.wait
        self._test = AnswerTest.read(condition)
        self._places = places
        self._unresolved = [known.unresolved.get(one, ()) for one in places]
        self._asking = [context.earlier[one] for one in places if one in context.earlier]
        self._now = context.due_by
        ids = [one.id for one in campaign.messages]
        # An answer to a message above that one may be older.
        is_first = all(ids.index(one) >= ids.index(after.message) for one in places)
        self.least_wait = after.wait if is_first else timedelta()

    def decide(self, known_as: Sequence[str], sent: EarlierLaunch) -> datetime | Decision:
        """Return the earliest time to send to somebody who has the earlier message, or why not to send."""
        asked = self._list_asked(known_as)
        latest = _find_latest(asked)
        if latest is None or latest.answer is None:
            return self._await_answer(known_as, asked)
        if not self._test.holds(latest.answer.value):
            # Surveys are asked one after the other: who has answered a later one has left the earlier ones.
            since = latest.launch.sent_at
            has_left = not any(one.answer is None and one.launch.sent_at > since for one in asked)
            reason = self._explain(latest.answer.value)
            return Decision(self._index, "not_qualified", reasons=(reason,), is_hopeless=has_left)
        earliest = max(latest.answered_at + self._wait, sent.sent_at)
        if earliest > self._now:
            return earliest
        if self._is_unresolved(known_as):
            return Decision(self._index, "awaiting", reasons=(_UNRESOLVED,))
        # An answer before the follow-up was due counts, whenever it was read.
        for one in asked:
            read_at = one.launch.reconciled_at
            is_late = read_at is None or (read_at < earliest if latest.is_dated else one.launch.differs)
            if is_late and one.launch.sent_at < earliest:
                return Decision(self._index, "awaiting", reasons=(describe_unread(one.launch, one.message),))
        return earliest

    def may_change(self, found: Sequence[Decision]) -> bool:
        """Return whether a message to come may bring another answer, by the decisions on all."""
        decisions = [None if place is None else found[place] for place in self._places.values()]
        return any(
            one is None or one.comes_later or one.counts or one.disposition == "unresolved"
            for one in decisions
        )

    def _list_asked(self, known_as: Sequence[str]) -> list[_Ask]:
        asked = []
        for message in self._asking:
            launches, answers = message.launches, message.answers.get(self._question, {})
            launch = next((found for one in known_as if (found := launches.get(one)) is not None), None)
            answer = next((answers[one] for one in known_as if one in answers), None)
            if launch is not None:
                asked.append(_Ask(message, launch, answer))
        return asked

    def _await_answer(self, known_as: Sequence[str], asked: Sequence[_Ask]) -> Decision:
        """Return the decision on somebody without a known answer."""
        if self._is_unresolved(known_as):
            return Decision(self._index, "awaiting", reasons=(_UNRESOLVED,))
        unread = next((one for one in asked if one.launch.reconciled_at is None), None)
        if unread is None:
            reason = f"they have not answered `{self._question}`"
            return Decision(self._index, "not_qualified", reasons=(reason,))
        earliest = min(one.launch.sent_at for one in asked) + self._wait
        if earliest > self._now:
            return Decision(self._index, "awaiting", earliest=earliest)
        return Decision(self._index, "awaiting", reasons=(describe_unread(unread.launch, unread.message),))

    def _is_unresolved(self, known_as: Sequence[str]) -> bool:
        return any(one in unresolved for one in known_as for unresolved in self._unresolved)

    def _explain(self, answer: AnswerValue) -> str:
        if self._test.holds(answer) is None:
            return f"their answer to `{self._question}` is none of its responses"
        return f"their answer to `{self._question}` has another value"


def find_rules(
    campaign: Campaign,
    compiled: Sequence[CompiledMessage],
    known: RecordedDeliveries,
    context: PlanContext,
) -> dict[int, AnswerRule]:
    """Return the rules of follow-ups that go by an answer, by their place among the planned messages."""
    places = {one.message.id: index for index, one in enumerate(compiled)}
    rules = {}
    for index, message in enumerate(one.message for one in compiled):
        if isinstance(message.to, AnswerCondition) and message.after is not None:
            asking = {one.id: places.get(one.id) for one in campaign.list_asking(message)}
            rules[index] = AnswerRule(campaign, index, message.to, message.after, asking, known, context)
    return rules


def find_follows(messages: Sequence[Message], rules: Mapping[int, AnswerRule]) -> dict[int, Follow]:
    """Return the condition of each follow-up in time, by its place."""
    places = {message.id: index for index, message in enumerate(messages)}
    return {
        index: Follow(
            places.get(message.after.message, -1),
            rules[index].least_wait if index in rules else message.after.wait,
        )
        for index, message in enumerate(messages)
        if message.after is not None
    }
