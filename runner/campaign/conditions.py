"""Follow-ups that go by an answer: the values that are meant, and whether an answer has one of them.

On a scale with a score the values are numbers; of other questions they are the texts of the responses.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from runner.campaign.answers import build_value_reader, outline_responses
from runner.campaign.message_model import SCORED, AnswerCondition
from runner.campaign.scales import NO_POINT
from runner.source.normalize import fold_answer, suggest
from runner.source.quantity import write_duration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from runner.campaign.answers import AnswerReader, AnswerValue
    from runner.campaign.message_model import Message, Question
    from runner.campaign.model import Campaign
    from runner.source.diagnostic import Diagnostic, Position
    from runner.text.template import TextCompiler

_NUMBER = r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?"
_RANGE = re.compile(rf"\s*({_NUMBER})\s*(?:[-\N{{EN DASH}}]\s*({_NUMBER})\s*)?")
Range = tuple[Fraction, Fraction]
Atom = Fraction | str
"""A value that an answer can have: a point of the scale, `none`, or a response's text for comparison."""


class AnswerTest(NamedTuple):
    """The values of a condition: ranges of numbers, and texts for comparison (of responses, or `none`)."""

    ranges: tuple[Range, ...]
    texts: frozenset[str]

    @classmethod
    def read(cls, condition: AnswerCondition) -> AnswerTest:
        """Return the values of a valid condition."""
        ranges = filter(None, map(_read_range, condition.values))
        return cls(tuple(ranges), frozenset(map(fold_answer, condition.values)))

    def holds(self, answer: AnswerValue) -> bool | None:
        """Return whether an answer has one of the values; None if it is not known what was answered."""
        if answer.value is not None:
            return self.has(answer.value)
        return None if answer.label is None else self.has(fold_answer(answer.label))

    def has(self, atom: Atom) -> bool:
        """Return whether a value is one of these."""
        if isinstance(atom, str):
            return atom in self.texts
        return any(least <= atom <= most for least, most in self.ranges)


def build_answer_reader(campaign: Campaign, compiler: TextCompiler) -> AnswerReader:
    """Return the reader of answers by question, message and arm (empty for none), and `result_response`.

    It returns None for a question that this message does not ask.
    """
    readers = {
        (question.tag, message.id, arm or ""): build_value_reader(
            question.scale, outline_responses(campaign, compiler, question), question.values
        )
        for message in campaign.messages
        for arm, question in campaign.list_ways(message)
    }

    @lru_cache(maxsize=4096)
    def read(question: str, message: str, arm: str, response: str) -> AnswerValue | None:
        # An arm that is gone asked as the message itself does.
        reader = readers.get((question, message, arm)) or readers.get((question, message, ""))
        return None if reader is None else reader(response)

    return read


def describe_condition(condition: AnswerCondition) -> str:
    """Describe a condition in words, after "those who"."""
    values = [
        value if _read_range(value) or value == NO_POINT else f'"{value}"' for value in condition.values
    ]
    return f"answer {' or '.join(values)} to {condition.question}"


def find_condition_problems(campaign: Campaign, compiler: TextCompiler) -> Iterator[Diagnostic]:
    """Yield the problems of follow-ups that go by an answer."""
    sound: dict[str, list[tuple[Message, AnswerTest]]] = {}
    atoms: dict[str, dict[Atom, str]] = {}
    for message in campaign.messages:
        condition = message.to
        if not isinstance(condition, AnswerCondition):
            continue
        problems = list(_find_question_problems(campaign, message, condition))
        if not any(one.severity == "error" for one in problems):
            asked = [
                question
                for one in campaign.list_asking(message)
                for _, question in campaign.list_ways(one)
                if question.tag == condition.question
            ]
            found = _list_atoms(campaign, compiler, asked)
            of_values = list(_find_value_problems(condition, {one.scale for one in asked}, found))
            problems += of_values
            if not of_values:
                sound.setdefault(condition.question, []).append((message, AnswerTest.read(condition)))
                atoms.setdefault(condition.question, {}).update(found)
        yield from problems
    for tag, tests in sound.items():
        yield from _compare(tag, tests, atoms[tag])


def _find_question_problems(
    campaign: Campaign, message: Message, condition: AnswerCondition
) -> Iterator[Diagnostic]:
    tag, place = condition.question, condition.position
    order = [one.id for one in campaign.messages]
    asking = campaign.list_asking(message)
    above = campaign.messages[: order.index(message.id)]
    if not asking:
        tags = dict.fromkeys(question.tag for one in above for _, question in campaign.list_ways(one))
        words = f"no message above `{message.id}` asks a question tagged `{tag}`{suggest(tag, tags)}"
        hint = f"write one of: {', '.join(tags)}"
        hint = hint if tags else "give the message that it comes after `questions`"
        yield place.problem("to-question-unknown", words, hint)
        return
    after = "" if message.after is None else message.after.message
    if message.after is not None and after in order and order.index(asking[0].id) > order.index(after):
        words = f"`{tag}` is asked by `{asking[0].id}`, and not by `{after}` or a message above that"
        wait = write_duration(message.after.wait) or "0s"
        hint = f"write `after: {{message: {asking[0].id}, wait: {wait}}}`"
        yield message.after.position.problem("to-question-late", words, hint)
    behind = {message.id}
    for one in campaign.messages[len(above) + 1 :]:
        if one.after is not None and one.after.message in behind:
            behind.add(one.id)
        elif any(question.tag == tag for _, question in campaign.list_ways(one)):
            words = f"answers to `{one.id}` do not count for `{message.id}`, which stands above it"
            hint = f"move `{message.id}` below `{one.id}`"
            yield place.problem("to-question-below", words, hint, "warning")


def _list_atoms(campaign: Campaign, compiler: TextCompiler, asked: Sequence[Question]) -> dict[Atom, str]:
    """Return the values that responses have, each as it is written; empty if any answer is valid."""
    found: dict[Atom, str] = {}
    for question in asked:
        responses = outline_responses(campaign, compiler, question)
        read = build_value_reader(question.scale, responses, question.values)
        for label, value in (read(label) for label, *_ in responses):
            if value is not None:
                found.setdefault(value, _write(value))
            elif label is not None and question.scale not in SCORED:
                found.setdefault(fold_answer(label), f'"{label}"')
    return found


def _find_value_problems(
    condition: AnswerCondition, scales: Collection[str], atoms: dict[Atom, str]
) -> Iterator[Diagnostic]:
    """Yield values that no answer has, or that a question has none; `atoms` are those of its responses."""
    tag, place = condition.question, condition.position
    is_scored = not SCORED.isdisjoint(scales)
    if len(scales) > 1:
        words = f"`{tag}` is asked on several scales: {', '.join(sorted(scales))}"
        yield place.problem("to-scales", words, "give each of its questions the same `scale`")
    elif not is_scored and not atoms:
        words = f"`{tag}` has no `responses` and no `scale` with a score: its answers are words, not values"
        hint = "write `to: answered`; or give the question `responses`, or the scale `number`"
        yield place.problem("to-open-question", words, hint)
    else:
        judge = _judge_number if is_scored else _judge_text
        for written, where in zip(condition.values, condition.places, strict=True):
            if (found := judge(written, tag, atoms)) is not None:
                yield where.problem("to-value", *found)


def _judge_text(written: str, tag: str, atoms: dict[Atom, str]) -> tuple[str, str] | None:
    """Return what is wrong with a response's text, and the remedy; None for nothing."""
    if fold_answer(written) in atoms:
        return None
    labels = [label.strip('"') for label in atoms.values()]
    words = f"{written!r} is none of the responses to `{tag}`{suggest(written, labels, '{!r}')}"
    more = "; numbers need the scale `number`" if _read_range(written) else ""
    return words, f"one of: {', '.join(atoms.values())}{more}"


def _judge_number(written: str, tag: str, atoms: dict[Atom, str]) -> tuple[str, str] | None:
    """Return what is wrong with a number, a range or `none`, and the remedy; None for nothing."""
    points, found = sorted(atom for atom in atoms if isinstance(atom, Fraction)), _read_range(written)
    known = ", ".join(atoms.values())
    hint = f"its values are: {known}" if known else "write a number, or a range such as `0-6`"
    if written == NO_POINT:
        return None if NO_POINT in atoms else (f"no response to `{tag}` has the value `none`", hint)
    if found is None:
        return f"{written!r} is no number, no range and not `none`, and `{tag}` goes by its values", hint
    least, most = found
    if least > most:
        return f"the range `{written}` ends before it begins", f"write `{_write_range(most, least)}`"
    if points and not (points[0] <= least and most <= points[-1] and any(least <= p <= most for p in points)):
        return f"`{written}` is not on the scale of `{tag}`", hint
    return None


def _compare(
    tag: str, found: Sequence[tuple[Message, AnswerTest]], atoms: dict[Atom, str]
) -> Iterator[Diagnostic]:
    """Warn of follow-ups on a question whose values overlap, or leave a gap."""
    for (other, earlier), (message, test) in combinations(found, 2):
        both = [atom for atom in atoms if test.has(atom) and earlier.has(atom)]
        shared = _write_atoms(both, atoms) if atoms else _write_common(test, earlier)
        if shared:
            words = f"`{other.id}` and `{message.id}` both go to those who answer {shared} to `{tag}`"
            hint = "write values that do not overlap, unless both are meant"
            yield _place(message).problem("to-overlap", words, hint, "warning")
    left = [atom for atom in atoms if atom != NO_POINT and not any(test.has(atom) for _, test in found)]
    if left and len(found) > 1:
        words = f"no follow-up goes to those who answer {_write_atoms(left, atoms)} to `{tag}`"
        hint = "add these values to one of them, unless they are to get nothing"
        yield _place(found[-1][0]).problem("to-gap", words, hint, "warning")


def _place(message: Message) -> Position:
    return message.to.places[0] if isinstance(message.to, AnswerCondition) else message.position


def _write_common(one: AnswerTest, other: AnswerTest) -> str:
    """Return the numbers that the ranges of two conditions share."""
    shared = (
        (max(one_least, least), min(one_most, most))
        for one_least, one_most in one.ranges
        for least, most in other.ranges
    )
    return ", ".join(_write_range(*range_) for range_ in shared if range_[0] <= range_[1])


def _write_atoms(chosen: Iterable[Atom], atoms: dict[Atom, str]) -> str:
    """Return values in a few words, whole numbers that follow each other as a range."""
    numbers = sorted(atom for atom in chosen if isinstance(atom, Fraction))
    runs: list[list[Fraction]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [atoms[atom] for atom in chosen if isinstance(atom, str)]
    return ", ".join([*(_write_range(run[0], run[-1]) for run in runs), *texts])


def _write_range(least: Fraction, most: Fraction) -> str:
    return _write(least) if least == most else f"{_write(least)}-{_write(most)}"


def _write(value: Fraction | str) -> str:
    return value if isinstance(value, str) else f"{float(value):g}"


def _read_range(written: str) -> Range | None:
    """Return the ends of a range, or of a number as a range of its own; None for another text."""
    found = _RANGE.fullmatch(written)
    return None if found is None else (Fraction(found[1]), Fraction(found[2] or found[1]))
