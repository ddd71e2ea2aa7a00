"""Points of responses on a question's scale: values given by the campaign, numbers, or words that are known.

A place in the list is no value: "Very satisfied" comes first in some lists, and "Don't know" last.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from runner.source.json_schema import write_flow
from runner.source.normalize import normalize
from runner.source.quantity import PLAIN_NUMBER, read_number
from runner.source.yaml import read_yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from runner.campaign.message_model import ResponseValue, Scale

_Written = str | dict[str, str]
_FILE = Path(__file__).with_name("scale_words.yaml")
_LEADING = re.compile(PLAIN_NUMBER)
_NPS_POINTS = [Fraction(point) for point in range(11)]
_LABELLED: frozenset[Scale] = frozenset({"nps", "csat", "ces"})
_WORDED: frozenset[Scale] = frozenset({"csat", "ces"})
_LEAST_POINTS = 2
NO_POINT = "none"
"""The value of a response that is on no scale: it is counted, and out of every score."""


class ScaleProblem(NamedTuple):
    """A response, by its place, that keeps a question from being scored, and the remedy."""

    place: int
    words: str
    hint: str


class _WordTable(NamedTuple):
    """Worth of normalized words of all languages, and the words that are no point of a scale."""

    worth: dict[str, float]
    no_point: frozenset[str]


@cache
def _load_words() -> _WordTable:
    worth: dict[str, float] = {}
    no_point: set[str] = set()
    for language in read_yaml(_FILE.read_text(encoding="utf-8"), _FILE).data.values():
        no_point.update(_split(language["no_point"]))
        # Levels first: "weak" may be a word of its own, and the same word with a degree.
        for level, words in language["levels"].items():
            worth.update(dict.fromkeys(_split(words), float(level)))
        degrees = [(normalize(degree), times) for degree, times in language["degrees"].items()]
        degrees += [(normalize(negation), -times) for negation, times in language["not"].items()]
        for sign, words in ((1, language["good"]), (-1, language["bad"])):
            for word in _split(words):
                worth.setdefault(word, sign)
                for degree, times in degrees:
                    worth.setdefault(f"{degree} {word}", sign * times)
    return _WordTable(worth, frozenset(no_point))


def _split(words: str) -> Iterator[str]:
    return map(normalize, words.split("|"))


def read_scale_point(label: str) -> Fraction | None:
    """Return the number that a label starts with, or None: 10 for `10`, `10 (very likely)`, `10: surely`."""
    found = _LEADING.match(label.strip())
    if found is None or label.strip()[found.end() :][:1] not in ("", " ", ":", "(", ")", "="):
        return None
    return read_number(found[0])


def read_points(
    scale: Scale, responses: Sequence[str], values: Sequence[ResponseValue | None] = ()
) -> tuple[Fraction | None, ...]:
    """Return the point of each response on a scale; None for one without.

    Args:
        scale: of the question.
        responses: as they are sent.
        values: given by the campaign; None for a response whose text says it. Empty if there are none.
    """
    if any(value is not None for value in values):
        return tuple(
            _read(scale, response) if value is None else (None if value == NO_POINT else Fraction(value))
            for response, value in zip(responses, values, strict=True)
        )
    points = tuple(_read(scale, response) for response in responses)
    if scale in _WORDED and responses and not any(point is not None for point in points):
        worths = [_weigh(response) for response in responses]
        if None not in worths and _find_direction(worths) == 1:
            return tuple(map(Fraction, range(1, len(responses) + 1)))
    return points


def _read(scale: Scale, response: str) -> Fraction | None:
    """Return the number that a response itself says."""
    return read_scale_point(response) if scale in _LABELLED else read_number(response)


def _weigh(response: str) -> float | None:
    """Return what a response's words are worth, a number before them apart; None if they are not known."""
    return _load_words().worth.get(_plain_words(response))


def _plain_words(response: str) -> str:
    written = response.strip()
    found = _LEADING.match(written)
    return normalize(written[found.end() :] if found and read_scale_point(written) is not None else written)


def _is_no_point(response: str) -> bool:
    words, no_point = _plain_words(response), _load_words().no_point
    return words in no_point or words.removeprefix("i ") in no_point


def _find_direction(worths: Sequence[float | None]) -> Literal[-1, 0, 1]:
    """Return 1 if known words get better, -1 if worse, 0 if they do neither, or too few are known."""
    known = [worth for worth in worths if worth is not None]
    if len(set(known)) > 1 and all(before <= after for before, after in pairwise(known)):
        return 1
    return -1 if len(set(known)) > 1 and all(a >= b for a, b in pairwise(known)) else 0


def _find_course(worths: Sequence[float | None]) -> Literal[-1, 0, 1]:
    """Return the direction of numbered responses, from lowest to highest; one end says it too.

    In `1 (very good)`, `2`, `3` the first tells that they get worse.
    """
    direction, ends = _find_direction(worths), (worths[-1] or 0) - (worths[0] or 0)
    return direction or (1 if ends > 0 else -1 if ends < 0 else 0)


def _find_unknown_label(responses: Sequence[str]) -> int | None:
    """Return the first response whose number has words or signs beside it that are not known, or None.

    What is alike beside each number, such as `1 star` and `2 stars`, says nothing of their order.
    """
    labels = [
        _LEADING.sub("", response.strip(), count=1).strip(" .:()=").casefold() for response in responses
    ]
    unknown = [
        index
        for index, response in enumerate(responses)
        if labels[index] and read_scale_point(response) is not None and _weigh(response) is None
    ]
    words = {labels[index] for index in unknown}
    is_one_word = not any(" " in word for word in words)
    alike = min(len(words), len({word[:3] for word in words}), len({frozenset(word) for word in words}))
    is_unit = len(unknown) > 1 and (len(words) == 1 or (is_one_word and alike == 1))
    return unknown[0] if unknown and not is_unit else None


def find_scale_problem(
    scale: Scale,
    responses: Sequence[str],
    values: Sequence[ResponseValue | None],
    written: Sequence[_Written],
) -> ScaleProblem | None:
    """Return what keeps the responses of a scored question from being read in one way, or None.

    `written` are the responses as in the file, perhaps by language, for the remedy.
    """
    has_values = any(value is not None for value in values)
    points = read_points(scale, responses, values)
    if scale == "nps":
        found = _find_nps_problem(responses, points, has_values=has_values)
    elif has_values:
        found = _find_unread(scale, responses, points, values)
    else:
        found = _find_unclear(scale, responses, points)
    if found is None:
        return None
    if (
        scale != "nps"
        and has_values
        and len({value for value in values if value != NO_POINT}) < _LEAST_POINTS
    ):
        return ScaleProblem(*found, "give at least two of them values that differ")
    left_out = frozenset(index for index, value in enumerate(values) if value == NO_POINT)
    return ScaleProblem(*found, _fill_in(scale, responses, left_out, written))


def _find_nps_problem(
    responses: Sequence[str], points: Sequence[Fraction | None], *, has_values: bool
) -> tuple[int, str] | None:
    given = sorted(point for point in points if point is not None)
    if has_values and given == _NPS_POINTS:
        return None
    if not has_values and [response.strip() for response in responses] == [str(n) for n in range(11)]:
        return None
    return 0, 'the scale `nps` needs the responses "0" to "10", in this order, or ones with these values'


def _find_unread(
    scale: Scale,
    responses: Sequence[str],
    points: Sequence[Fraction | None],
    values: Sequence[ResponseValue | None],
) -> tuple[int, str] | None:
    """Return the first response that says no number and has no value, beside others that have one."""
    for index, (point, value) in enumerate(zip(points, values, strict=True)):
        if point is None and value is None:
            return index, f"{responses[index]!r} has no value, and is no number on the scale `{scale}`"
    if len(set(points) - {None}) < _LEAST_POINTS:
        return 0, f"these responses have no two different values, so that the scale `{scale}` has no score"
    return None


def _find_unclear(
    scale: Scale, responses: Sequence[str], points: Sequence[Fraction | None]
) -> tuple[int, str] | None:
    worths = [_weigh(response) for response in responses]
    direction = _find_direction(worths)
    numbered = [index for index, response in enumerate(responses) if _read(scale, response) is not None]
    for index, response in enumerate(responses):
        if _is_no_point(response) or (points[index] is None and (numbered or scale == "number")):
            return index, f"{response!r} is no point of the scale `{scale}`"
    if numbered or scale not in _WORDED:
        by_number = sorted(zip(points, worths, strict=True), key=lambda pair: pair[0] or 0)
        course = _find_course([worth for _, worth in by_number])
        if course == -1:
            return 0, f"the scale `{scale}` counts the highest number as best, and its words say otherwise"
        label = _find_unknown_label(responses) if scale in _WORDED and not course else None
        if label is not None:
            return label, f"the words in {responses[label]!r} are not known on the scale `{scale}`"
        return None
    if (unknown := next((i for i, worth in enumerate(worths) if worth is None), None)) is not None:
        return unknown, f"{responses[unknown]!r} is not known as a point of the scale `{scale}`"
    order = {-1: "go from best to worst, and it counts up to the best", 0: "are in no order"}.get(direction)
    return None if order is None else (0, f"the scale `{scale}` cannot number these responses: they {order}")


def _fill_in(
    scale: Scale, responses: Sequence[str], left_out: Collection[int], written: Sequence[_Written]
) -> str:
    """Return the remedy: the key `responses` with a value for each, for people to look over."""
    points = read_points(scale, responses)
    is_numbered = len({point for point in points if point is not None}) > 1
    placed = [
        index
        for index, response in enumerate(responses)
        if index not in left_out
        and not _is_no_point(response)
        and not (is_numbered and points[index] is None)
    ]
    if scale == "nps" and len(placed) != len(_NPS_POINTS):
        other = "choice" if None in points else "number"
        return f"or leave the Net Promoter Score out: `scale: {other}`"
    if is_numbered:
        placed.sort(key=lambda index: points[index] or 0)
        numbers = [points[index] for index in placed]
    else:
        lowest = 0 if scale == "nps" else 1
        if None not in (worths := [_weigh(responses[index]) for index in placed]) and not _find_direction(
            worths
        ):
            placed.sort(key=lambda index: _weigh(responses[index]) or 0)
        numbers = [Fraction(number) for number in range(lowest, lowest + len(placed))]
    if placed and scale in _LABELLED and _find_course([_weigh(responses[index]) for index in placed]) == -1:
        numbers.reverse()
    filled = dict(zip(placed, numbers, strict=True))
    mended = write_responses((text, filled.get(index)) for index, text in enumerate(written))
    return f"write what each counts as, the highest best; check the values in `{mended}`"


def write_responses(responses: Iterable[tuple[_Written, Fraction | None]]) -> str:
    """Return the key `responses` in YAML, with the value of each; None for `none`."""
    return f"responses: {write_flow([_write_entry(text, point) for text, point in responses])}"


def _write_entry(text: _Written, point: Fraction | None) -> dict[str, object]:
    if point is None:
        return {"text": text, "value": NO_POINT}
    return {"text": text, "value": int(point) if point.denominator == 1 else float(point)}
