"""Charts as SVG: plain shapes and texts, without scripts, ids and styles.

The page's style sheet gives colours and fonts by class, so that dark mode and paper work. A chart is an image
with a name and a description for screen readers; its figures are in a table beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from runner.wording import write_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


WIDTH = 480
"""Width of a chart in its own units, which are CSS pixels where there is room."""

LONGEST_LABEL = 18
"""Characters of a label in a chart; the table beside it has the whole label."""

# Room for a character: the style sheet's 13 px are 15 on a phone and on paper.
_CHARACTER = 10
_ROW, _BAR, _WIDEST, _AXIS, _GAP, _PLOT = 30, 18, 48, 22, 8, 160
_MOST_TICKS = 5


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A value in the chart's unit, the text that says it, and an interval drawn as whiskers."""

    label: str
    value: float | None
    text: str
    interval: tuple[float, float] | None = None

    @property
    def ends(self) -> list[float]:
        """Its value and the ends of its interval; none for an unknown value."""
        return [] if self.value is None else [self.value, *(self.interval or ())]


def plot_bars(
    marks: Sequence[ChartMark], name: str, write_value: Callable[[float], str] | None = None
) -> str:
    """Return lying bars from 0, the first on top, each with its text after its end, or with a common axis.

    `write_value` writes the values of the axis.
    """
    labels = [_shorten(mark.label) for mark in marks]
    start = _GAP + _CHARACTER * max(map(len, labels), default=0)
    ends = [(end, mark) for mark in marks for end in mark.ends if end]
    texts = {mark: 3 if write_value else len(mark.text) for mark in marks}
    room = WIDTH - start - _GAP
    scale = min(((room - _CHARACTER * texts[mark]) / end for end, mark in ends), default=WIDTH)
    bottom, shapes = _ROW * len(marks), []
    if write_value:
        for tick in _choose_ticks(0, max((end for end, _ in ends), default=1)):
            shapes.append(_draw("path", "guide", d=f"M{_fit(start + tick * scale)} 0V{bottom}"))
            shapes.append(_write(start + tick * scale, bottom + 16, write_value(tick), "axis middle"))
    for row, (label, mark) in enumerate(zip(labels, marks, strict=True)):
        y, length = (row + 0.5) * _ROW, (mark.value or 0) * scale
        shapes.append(_write(start - _GAP, y + 5, label, "axis end"))
        if mark.value is not None:
            shapes.append(_draw("rect", "part", x=start, y=y - _BAR / 2, width=length, height=_BAR))
        if not write_value:
            shapes.append(_write(start + length + _GAP, y + 5, mark.text))
        if mark.interval is not None:
            low, high = (_fit(start + end * scale) for end in mark.interval)
            shapes.append(_draw("path", "whisker", d=f"M{low} {y - 5:g}v10m0-5H{high}m0-5v10"))
    return _frame(name, bottom + (_AXIS if write_value else 0), shapes, _describe(marks))


def plot_columns(labels: Sequence[str], parts: Mapping[str, Sequence[int]], name: str) -> str:
    """Return standing columns of counts, each stacked from its parts.

    `parts` are by the class that gives the colour, with a count for each column.
    """
    sums = [sum(counts) for counts in zip(*parts.values(), strict=True)]
    plot = _Plot(labels, 0, max([1, *sums]), "{:,.0f}".format, least_step=1)
    width = min(0.7 * plot.step, _WIDEST)
    shapes = [*plot.draw_axes()]
    for number in range(len(labels)):
        below, x = 0, plot.find_middle(number) - width / 2
        for kind, counts in parts.items():
            top, height = plot.place(below + counts[number]), plot.place(0) - plot.place(counts[number])
            shapes.append(_draw("rect", kind, x=x, y=top, width=width, height=height))
            below += counts[number]
    return _frame(name, plot.height, shapes, _say(zip(labels, sums, strict=True)))


def plot_parts(parts: Mapping[str, int], name: str) -> str:
    """Return one lying bar of the parts of a whole, in order, by the class that gives the colour."""
    scale, left, shapes = WIDTH / max(sum(parts.values()), 1), 0.0, []
    for kind, count in parts.items():
        shapes.append(_draw("rect", kind, x=left, y=0, width=count * scale, height=_ROW))
        left += count * scale
    return _frame(name, _ROW, shapes, _say(parts.items()))


class _Plot:
    """The ground of a chart with a standing axis, and a place for each label."""

    height = _GAP + _PLOT + _AXIS

    def __init__(
        self,
        labels: Sequence[str],
        low: float,
        high: float,
        write_value: Callable[[float], str],
        least_step: float = 0,
    ) -> None:
        self._low, self._scale = low, _PLOT / (high - low)
        self._ticks = {tick: write_value(tick) for tick in _choose_ticks(low, high, least_step)}
        self._start = _GAP + _CHARACTER * max(map(len, [*self._ticks.values(), "00"])) + _GAP
        self._labels, self._widest = labels, _CHARACTER * max(map(len, labels), default=0)
        self.step = (WIDTH - self._start - self._widest / 2) / max(len(labels), 1)

    def place(self, value: float) -> float:
        """Return the height of a value."""
        return _GAP + _PLOT - (value - self._low) * self._scale

    def find_middle(self, number: int) -> float:
        """Return the middle of the place of a label."""
        return self._start + (number + 0.5) * self.step

    def draw_axes(self) -> Iterator[str]:
        """Yield a line for each value of the axis, and as many labels as there is room for."""
        for tick, text in self._ticks.items():
            y = self.place(tick)
            yield _draw("path", "guide", d=f"M{_fit(self._start)} {_fit(y)}H{WIDTH}")
            yield _write(self._start - _GAP, y + 5, text, "axis end")
        every = ceil((self._widest + _CHARACTER) / self.step)
        for number, label in list(enumerate(self._labels))[::every]:
            yield _write(self.find_middle(number), _GAP + _PLOT + 16, label, "axis middle")


def _choose_ticks(low: float, high: float, least_step: float = 0) -> list[float]:
    """Return round values between two, at equal distances."""
    raw = max((high - low) / _MOST_TICKS, least_step)
    power = 10.0 ** floor(log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    return [step * number for number in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def _describe(marks: Sequence[ChartMark]) -> list[str]:
    return [f"{write_line(mark.label)}: {mark.text}" for mark in marks]


def _say(counts: Iterable[tuple[str, int]]) -> list[str]:
    return [f"{name}: {count:,}" for name, count in counts]


def _frame(name: str, height: float, shapes: Sequence[str], said: Sequence[str]) -> str:
    """Return a drawing as SVG on one line, with a name and a description for screen readers."""
    attributes = f'class="chart" viewBox="0 0 {WIDTH} {_fit(height)}" role="img"'
    described = f"<desc>{escape('; '.join(said))}</desc>"
    return f'<svg {attributes} aria-label="{escape(write_line(name))}">{described}{"".join(shapes)}</svg>'


def _draw(tag: str, kind: str, **attributes: float | str) -> str:
    shown = (f'{name}="{one if isinstance(one, str) else _fit(one)}"' for name, one in attributes.items())
    return f'<{tag} class="{kind}" {" ".join(shown)}/>'


def _write(x: float, y: float, text: str, kind: str = "figure") -> str:
    return f'<text class="{kind}" x="{_fit(x)}" y="{_fit(y)}">{escape(text)}</text>'


def _fit(number: float) -> str:
    """Return a coordinate with one decimal, enough for a screen and equal on every machine."""
    # Adding zero turns minus zero into zero.
    return f"{round(number, 1) + 0.0:g}"


def _shorten(label: str) -> str:
    line = write_line(label)
    return line if len(line) <= LONGEST_LABEL else line[: LONGEST_LABEL - 1].rstrip() + "…"
