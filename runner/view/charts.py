"""Charts as SVG: plain shapes and texts, without scripts, ids and styles.

Places across are percentages, so that a chart is as wide as its room and its texts keep their size. The
page's style sheet gives colours and fonts by class, so that dark mode and paper work. A chart is an image
with a name and a description for screen readers.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from runner.view.blocks import Axis
from runner.wording import write_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import date

    from runner.view.blocks import Line


_TOP, _PLOT, _AXIS = 26, 120, 24
_HEIGHT = _TOP + _PLOT + _AXIS
_LEFT, _RIGHT = 18.0, 94.0
"""Per cent of the width between which times stand; values of the axis are written left of them."""
_APART, _LABELS_APART = 11.0, 20.0
"""Per cent of the width that a value, and a date, need so as not to touch the next one on a phone."""
_WIDEST = 9.0
_MOST_TICKS = 4
_LINE = 16
"""Height of a line of text."""


@dataclass(frozen=True, slots=True)
class TimePoint:
    """A value at a day, the texts of both, and its interval."""

    day: date
    label: str
    value: float
    text: str
    interval: tuple[float, float] | None = None


def plot_points(
    points: Sequence[TimePoint],
    name: str,
    write_value: Callable[[float], str],
    lines: Sequence[tuple[float, str]] = (),
) -> str:
    """Return values over time, as a line with dots and intervals, at least one.

    `lines` are values to compare with, each with its text; `write_value` writes the values of the axis.
    """
    ends = [end for one in points for end in (one.value, *(one.interval or ()))]
    axis = fit_axis([*ends, *(value for value, _ in lines)], write_value)
    places = _place_days([one.day for one in points])
    shapes = list(_draw_axis(axis, places, [one.label for one in points], lines))
    dots = [(place, _rise(axis, one.value)) for place, one in zip(places, points, strict=True)]
    for (x, y), (after, other) in pairwise(dots):
        shapes.append(_draw("line", "line part", x1=f"{_fit(x)}%", y1=y, x2=f"{_fit(after)}%", y2=other))
    for (x, y), one in zip(dots, points, strict=True):
        across = f"{_fit(x)}%"
        if one.interval:
            low, high = (_rise(axis, end) for end in one.interval)
            shapes.append(_draw("line", "whisker", x1=across, x2=across, y1=low, y2=high))
        shapes.append(_draw("circle", "part", cx=across, cy=y, r=5))
    for number in _choose_apart(places, _APART):
        one = points[number]
        top = max(one.value, *(one.interval or (one.value,)))
        is_last = places[number] == _RIGHT
        across, kind = ("100%", "figure end") if is_last else (f"{_fit(places[number])}%", "figure middle")
        shapes.append(_write(across, _rise(axis, top) - 7, one.text, kind))
    return _frame(name, [f"{one.label}: {one.text}" for one in points], shapes)


def plot_columns(days: Sequence[date], labels: Sequence[str], counts: Sequence[int], name: str) -> str:
    """Return standing columns of counts by day."""
    axis = fit_axis([0, max([1, *counts])], "{:,.0f}".format, least_step=1)
    places = _place_days(days)
    width = min(0.7 * min((after - x for x, after in pairwise(places)), default=_WIDEST), _WIDEST)
    shapes = list(_draw_axis(axis, places, labels))
    for place, count in zip(places, counts, strict=True):
        top, x, across = _rise(axis, count), f"{_fit(place - width / 2)}%", f"{_fit(width)}%"
        shapes.append(_draw("rect", "part", x=x, y=top, width=across, height=_rise(axis, 0) - top))
    said = [f"{label}: {count:,}" for label, count in zip(labels, counts, strict=True)]
    return _frame(name, said, shapes)


def draw_spark(line: Line) -> str:
    """Return a small line of values, evenly apart, with a dot at its end; empty for fewer than two."""
    known = [(number, one) for number, one in enumerate(line.values) if one is not None]
    if len(known) < 2:  # noqa: PLR2004  # one value is no line
        return ""
    low, high = min(one for _, one in known), max(one for _, one in known)
    step, scale = 72 / (len(line.values) - 1), 16 / ((high - low) or 1)
    dots = [(4 + step * number, 20 - (one - low) * scale) for number, one in known]
    path = "M" + "L".join(f"{_fit(x)} {_fit(y)}" for x, y in dots)
    dot = _draw("circle", "part", cx=dots[-1][0], cy=dots[-1][1], r=3)
    return f'<svg class="spark" width="80" height="24" aria-hidden="true"><path d="{path}"/>{dot}</svg>'


def fit_axis(
    values: Sequence[float],
    write_value: Callable[[float], str],
    everybody: float | None = None,
    least_step: float = 0,
) -> Axis:
    """Return an axis of round values that has room for some values."""
    shown = [*values, *([] if everybody is None else [everybody])] or [0.0]
    low, high = min(shown), max(shown)
    raw = max((high - low) / _MOST_TICKS, least_step) or 1.0
    power = 10.0 ** floor(log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    ticks = [(step * number, write_value(step * number)) for number in range(first, last + 1)]
    return Axis(step * first, step * max(last, first + 1), ticks, everybody)


def _place_days(days: Sequence[date]) -> list[float]:
    """Return the places of days across, in per cent: time is to scale."""
    first, length = days[0] if days else None, (days[-1] - days[0]).days if days else 0
    if not length:
        return [(_LEFT + _RIGHT) / 2 for _ in days]
    return [_LEFT + (_RIGHT - _LEFT) * (day - first).days / length for day in days if first]


def _choose_apart(places: Sequence[float], apart: float) -> list[int]:
    """Return the numbers of those places whose texts do not touch; the last one among them."""
    chosen: list[int] = []
    for number in reversed(range(len(places))):
        if not chosen or places[chosen[-1]] - places[number] >= apart:
            chosen.append(number)
    return chosen[::-1]


def _rise(axis: Axis, value: float) -> float:
    return _TOP + _PLOT * (axis.high - value) / (axis.high - axis.low)


def _draw_axis(
    axis: Axis, places: Sequence[float], labels: Sequence[str], lines: Sequence[tuple[float, str]] = ()
) -> Iterator[str]:
    """Yield the axes, with lines to compare with; a value of the axis makes room for the text of a line."""
    compared = [(_rise(axis, value), text) for value, text in lines]
    for y, text in compared:
        yield _draw("line", "compared", x1="0%", x2="100%", y1=y, y2=y)
        yield _write(0, y - 4, text, "axis")
    for tick, text in axis.ticks:
        y = _rise(axis, tick)
        yield _draw("line", "guide", x1="0%", x2="100%", y1=y, y2=y)
        if all(abs(y - other) >= _LINE for other, _ in compared):
            yield _write(0, y - 4, text, "axis")
    for number in _choose_apart(places, _LABELS_APART):
        is_last = places[number] == _RIGHT
        x, kind = ("100%", "axis end") if is_last else (f"{_fit(places[number])}%", "axis middle")
        yield _write(x, _HEIGHT - 6, labels[number], kind)


def _frame(name: str, said: Iterable[str], shapes: Sequence[str]) -> str:
    """Return a drawing as SVG on one line, with a name and a description for screen readers."""
    attributes = f'class="chart" width="100%" height="{_HEIGHT}" role="img"'
    described = f"<desc>{escape('; '.join(map(write_line, said)))}</desc>"
    return f'<svg {attributes} aria-label="{escape(write_line(name))}">{described}{"".join(shapes)}</svg>'


def _draw(tag: str, kind: str, **attributes: float | str) -> str:
    shown = (f'{name}="{one if isinstance(one, str) else _fit(one)}"' for name, one in attributes.items())
    return f'<{tag} class="{kind}" {" ".join(shown)}/>'


def _write(x: float | str, y: float, text: str, kind: str = "figure") -> str:
    across = x if isinstance(x, str) else _fit(x)
    return f'<text class="{kind}" x="{across}" y="{_fit(y)}">{escape(write_line(text))}</text>'


def _fit(number: float) -> str:
    """Return a coordinate with one decimal, enough for a screen and equal on every machine."""
    # Adding zero turns minus zero into zero.
    return f"{round(number, 1) + 0.0:g}"
