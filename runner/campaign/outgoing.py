"""The texts of a rendered message as they go out, and what they take over the air."""

from __future__ import annotations

from functools import cache, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from runner.campaign.draft import Slot
from runner.campaign.segment import count_segments
from runner.campaign.substitute import write_choices_plainly, write_plainly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.campaign.draft import Definition

_RANGE_FROM = 3
_MEMO_SIZE = 4096


class Airtime(NamedTuple):
    """What a conversation takes over the air.

    Attributes:
        segments: SMS segments that leave at once: the text, or the introduction and the first question.
        costly: the first character of the whole conversation that is outside GSM-7, if any.
        segments_max: segments of all texts, if the whole conversation takes place.
        largest: segments of the largest single text.
        segments_plain: segments of all texts, if each was written plainly where that is shorter.
    """

    segments: int = 0
    costly: str | None = None
    segments_max: int = 0
    largest: int = 0
    segments_plain: int = 0


def question_as_asked(text: str, responses: Sequence[str]) -> str:
    """Return a question with its choices, as it appears on a phone.

    The reference doesn't show how choices are listed. This is how the sandbox lists them; segments
    are counted by it, nothing else depends on it. Three or more consecutive ascending integers, written
    plainly, are a range; other responses are a numbered list.
    """
    if not responses:
        return text
    if len(responses) >= _RANGE_FROM and _is_range(responses):
        return f"{text}\nReply {responses[0]}-{responses[-1]}"
    return text + "".join(f"\n{number}. {response}" for number, response in enumerate(responses, start=1))


def _is_range(responses: Sequence[str]) -> bool:
    try:
        first = int(responses[0])
        # As texts: `01` is 1, and no plain way to write it.
        return all(response == str(first + step) for step, response in enumerate(responses))
    except ValueError:  # no number, or one of thousands of digits
        return False


class OutgoingTexts:
    """Counts the segments of a message's texts; of those that are the same for everyone once.

    Args:
        shape: the definition, with a `Slot` in the place of each personal text.
    """

    def __init__(self, shape: Definition) -> None:
        is_sms = shape.get("method", "SMS") == "SMS"
        self._texts = list(_iterate_texts(shape)) if is_sms else []
        self._at_once = ("text" in shape or "introduction" in shape) + ("questions" in shape)
        writers = [text for text in self._texts if not isinstance(text, Airtime)]
        self._single = writers[0] if writers and len(self._texts) == 1 else None
        self._fixed = None if writers else self._add_up(())

    def count(self, texts: Sequence[str]) -> Airtime:
        """Return what a conversation takes, given the personal texts in the order of their slots."""
        if self._single is not None:
            return _measure(*self._single(texts))
        return self._fixed or self._add_up(texts)

    def _add_up(self, texts: Sequence[str]) -> Airtime:
        each = [text if isinstance(text, Airtime) else _measure(*text(texts)) for text in self._texts]
        return Airtime(
            sum(one.segments for one in each[: self._at_once]),
            next((one.costly for one in each if one.costly is not None), None),
            sum(one.segments for one in each),
            max((one.segments for one in each), default=0),
            sum(one.segments_plain for one in each),
        )


_Sent = tuple[str, str, tuple[str, ...]]
"""A text as it arrives; and the question, and its choices, that it is made of."""


def _measure(whole: str, text: str, choices: tuple[str, ...]) -> Airtime:
    """Return what a single text takes."""
    count = count_segments(whole)
    if count.costly is None:
        return _take_plain(count.segments)
    plain = min(count.segments, _count_plainly(text, choices))
    return Airtime(count.segments, count.costly, count.segments, count.segments, plain)


@cache
def _take_plain(segments: int) -> Airtime:
    return Airtime(segments, None, segments, segments, segments)


@lru_cache(maxsize=_MEMO_SIZE)
def _count_plainly(text: str, choices: tuple[str, ...]) -> int:
    # Choices by themselves: what may be left out of a sentence may be all that tells two of them apart.
    plain = question_as_asked(write_plainly(text), write_choices_plainly(choices))
    return count_segments(plain).segments


def _iterate_texts(shape: Definition) -> Iterator[Airtime | Callable[[Sequence[str]], _Sent]]:
    """Yield what texts take that are the same for everyone and what writes the others, as they go out."""
    for name in ("text", "introduction"):
        if name in shape:
            yield _read_text(shape[name], [])
    for question in shape.get("questions", ()):
        yield _read_text(question["text"], question.get("responses", []))
    if "conclusion" in shape:
        yield _read_text(shape["conclusion"], [])


def _read_text(text: str | Slot, responses: list[str | Slot]) -> Airtime | Callable[[Sequence[str]], _Sent]:
    same = tuple(response for response in responses if isinstance(response, str))
    if len(same) < len(responses):

        def write(texts: Sequence[str]) -> _Sent:
            asked = _look_up(text, texts)
            choices = tuple(_look_up(response, texts) for response in responses)
            return question_as_asked(asked, choices), asked, choices

        return write
    listed = question_as_asked("", same)
    if isinstance(text, str):
        return _measure(text + listed, text, same)
    read = itemgetter(text.index)
    return lambda texts: (read(texts) + listed, read(texts), same)


def _look_up(text: str | Slot, texts: Sequence[str]) -> str:
    return texts[text.index] if isinstance(text, Slot) else text
