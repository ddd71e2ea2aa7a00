"""The texts of a rendered message as they go out, and their SMS segments.

A definition is written once, with slots for personal texts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b
from json.encoder import encode_basestring
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.text.segment import count_segments, write_choices_plainly, write_plainly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


Definition = dict[str, Any]
"""A send body less `phone`. Definitions share parts and are never changed."""

_DIGEST_BYTES = 16
_SLOT = "$slot"
"""A key that no field of a send body has."""
_RANGE_FROM = 3
_MEMO_SIZE = 4096
_Sent = tuple[str, str, tuple[str, ...]]
"""A text as it arrives, with its question and choices."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a personal text; `index` is its number, from 0."""

    index: int


def _mark_slot(slot: Slot) -> dict[str, int]:
    return {_SLOT: slot.index}


_MARK = re.compile(r'\{"\$slot":([0-9]+)\}')
"""A slot in canonical JSON, where the quotes of texts are escaped."""
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_mark_slot)


class PayloadTemplate:
    """A definition with slots for personal texts.

    Shared parts are assembled and written as JSON once: for a million people several times cheaper.

    Args:
        shape: the definition, with a `Slot` in the place of each personal text; each index from 0 once.
    """

    def __init__(self, shape: Definition) -> None:
        self._shape = shape
        self._fill = _make_filler(shape)
        written = _CANONICAL.encode(shape)
        order = [int(index) for index in _MARK.findall(written)]
        self._order = order if order != sorted(order) else None
        self._pattern = _MARK.sub("%s", written.replace("%", "%%"))

    def fill(self, texts: Sequence[str]) -> Definition:
        """Return the definition with texts in its slots."""
        filled: Definition = self._shape if self._fill is None else self._fill(texts)
        return filled

    def digest(self, texts: Sequence[str]) -> str:
        """Return the digest of what `fill` returns: 128 bits of its canonical JSON, in hexadecimal."""
        written = tuple(map(encode_basestring, texts))
        if self._order is not None:
            written = tuple([written[index] for index in self._order])
        return blake2b((self._pattern % written).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def digest_filled(definition: Definition) -> str:
    """Return the digest of a definition, equal to `PayloadTemplate.digest`."""
    return blake2b(_CANONICAL.encode(definition).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _make_filler(shape: Any) -> Callable[[Sequence[str]], Any] | None:
    """Return the function that fills a shape; None if there is no slot in it."""
    if isinstance(shape, Slot):
        return itemgetter(shape.index)
    if not isinstance(shape, (dict, list)):
        return None
    items = shape.items() if isinstance(shape, dict) else enumerate(shape)
    fillers = [(key, filler) for key, item in items if (filler := _make_filler(item))]

    def fill(texts: Sequence[str]) -> Any:
        filled = shape.copy()
        for key, filler in fillers:
            filled[key] = filler(texts)
        return filled

    return fill if fillers else None


class Airtime(NamedTuple):
    """The SMS segments of a conversation.

    Attributes:
        segments: those that leave at once: the text, or the introduction and the first question.
        costly: the first character of the whole conversation that is outside GSM-7, if any.
        segments_max: segments of the whole conversation.
        largest: segments of the largest single text.
        segments_plain: segments of the whole conversation, with each text written plainly where that is
            shorter.
        repeated: segments of the questions with responses, which are asked again after an invalid answer.
    """

    segments: int = 0
    costly: str | None = None
    segments_max: int = 0
    largest: int = 0
    segments_plain: int = 0
    repeated: int = 0


def question_as_asked(text: str, responses: Sequence[str]) -> str:
    """Return a question with its choices, as it appears on a phone.

    The reference doesn't show how choices are listed. This is the sandbox's way, and only the count of
    segments depends on it: three or more consecutive ascending integers, written plainly, are a range; other
    responses are a numbered list.
    """
    if not responses:
        return text
    if len(responses) >= _RANGE_FROM and _is_range(responses):
        return f"{text}\nReply {responses[0]}-{responses[-1]}"
    return text + "".join(f"\n{number}. {response}" for number, response in enumerate(responses, start=1))


def _is_range(responses: Sequence[str]) -> bool:
    try:
        first = int(responses[0])
        # Compared as texts: `01` is 1, but not written plainly.
        return all(response == str(first + step) for step, response in enumerate(responses))
    except ValueError:  # no number, or one of thousands of digits
        return False


class OutgoingTexts:
    """A counter of a message's segments; texts that are the same for everyone are counted once.

    Args:
        shape: the definition, with a `Slot` in the place of each personal text.
    """

    def __init__(self, shape: Definition) -> None:
        self._texts = list(_iterate_texts(shape))
        self._at_once = ("text" in shape or "introduction" in shape) + ("questions" in shape)
        writers = [text for text in self._texts if not isinstance(text, Airtime)]
        self._single = writers[0] if writers and len(self._texts) == 1 else None
        self._fixed = None if writers else self._add_up(())

    def count(self, texts: Sequence[str]) -> Airtime:
        """Return the airtime of a conversation, given the personal texts in the order of their slots."""
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
            sum(one.repeated for one in each),
        )


def _measure(whole: str, text: str, choices: tuple[str, ...]) -> Airtime:
    """Return the airtime of a single text."""
    count = count_segments(whole)
    repeated = count.segments if choices else 0
    if count.costly is None:
        return _take_plain(count.segments, repeated)
    plain = min(count.segments, _count_plainly(text, choices))
    return Airtime(count.segments, count.costly, count.segments, count.segments, plain, repeated)


@cache
def _take_plain(segments: int, repeated: int) -> Airtime:
    return Airtime(segments, None, segments, segments, segments, repeated)


@lru_cache(maxsize=_MEMO_SIZE)
def _count_plainly(text: str, choices: tuple[str, ...]) -> int:
    # Choices separately: a sign that a sentence can do without may be all that tells two choices apart.
    plain = question_as_asked(write_plainly(text), write_choices_plainly(choices))
    return count_segments(plain).segments


def _iterate_texts(shape: Definition) -> Iterator[Airtime | Callable[[Sequence[str]], _Sent]]:
    """Yield, in order, the airtime of shared texts, and functions that write the personal ones.

    A call has no texts.
    """
    if shape.get("method", "SMS") != "SMS":
        return
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


def measure_texts(definition: Definition) -> tuple[int, int] | None:
    """Return the SMS segments of a definition's smallest and largest text; None for a call."""
    sizes = [text.segments for text in _iterate_texts(definition) if isinstance(text, Airtime)]
    return (min(sizes), max(sizes)) if sizes else None


def _look_up(text: str | Slot, texts: Sequence[str]) -> str:
    return texts[text.index] if isinstance(text, Slot) else text
